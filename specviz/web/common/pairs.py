"""Which pair of models a visitor may have: those of the catalog, and on a machine of one's own those that were used there before.

A link is clicked unread: one must not make this machine look for a folder or fetch a model. So a pair of one's own that a link names is
taken only where somebody has used it on this machine before, in the panel Models (web/pair_picker). The list of those is a small file.
No torch and no Streamlit here.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from specviz.errors import SpecvizError
from specviz.models.pairs.catalog import PAIRS
from specviz.models.pairs.names import describe_draftable, find_folder, parse_hub_name, parse_pair_name
from specviz.records import Schema, build, read_file_or
from specviz.settings import Settings
from specviz.speed.records.gpu_costs import describe_precision
from specviz.web.hosting.server_options import load_options

SCHEMA = Schema("pairs", 1, "The list of recent pairs")
MOST = 12  # pairs that are remembered; the one used longest ago is forgotten first
SHOWN = 200  # characters of a name that a sentence repeats
DEFAULT = Settings().pair
OFFER = (
    "This link asks for its own pair of models, {}. Nothing was loaded. Look at it under “Models”, check it, and use it there if you "
    "trust it."
)


def list_model_notes(models: Mapping[str, Any]) -> list[str]:
    """What a page says of the models of a result, from their description: tokenizers that differ, and the number type on CUDA."""
    return [said for said in (describe_draftable(models), describe_precision(models)) if said]


def locate_recent_pairs() -> Path:
    """The file of recent pairs, in the folder that the system has for such things."""
    base = os.environ.get("XDG_STATE_HOME", "")
    return (Path(base) if base else Path.home() / ".local" / "state") / "specviz" / "pairs.json"


def load_recent_pairs() -> tuple[str, ...]:
    """Pairs of one's own that were used on this machine, the latest first; empty on a server for others, and where the file is damaged."""
    if not load_options().own_pairs or not (path := locate_recent_pairs()).is_file():
        return ()
    found: tuple[str, ...] = read_file_or(
        path, lambda text: SCHEMA.read(text, lambda record: build(dict[str, tuple[str, ...]], record)["pairs"]), ()
    )
    return tuple(name for name in found if parse_pair_name(name) is not None)[:MOST]


def remember_pair(pair: str) -> None:
    """Put a pair of one's own in front of the list. Where it cannot be written, it is used all the same."""
    if pair in PAIRS or not load_options().own_pairs:
        return
    names = [pair, *(name for name in load_recent_pairs() if name != pair)][:MOST]
    try:
        SCHEMA.save(locate_recent_pairs(), SCHEMA.format_record({"pairs": names}, indent=1))
    except SpecvizError as error:
        logging.getLogger(__name__).warning("recent pairs are not kept: %s", error)


def describe_missing_folder(pair: str) -> str:
    """A sentence where a folder of the pair is not there any more; empty where nothing is known to be missing."""
    own = parse_pair_name(pair) if pair not in PAIRS else None
    missing = (
        []
        if own is None
        else [one for one in (own.target, own.draft) if find_folder(one) is None and parse_hub_name(one) is None]
    )
    if not missing:
        return ""
    return (
        f"The pair {name_pair(pair)} is not here any more: there is no folder '{missing[0][:SHOWN]}'. {name_pair(DEFAULT)} took its place; "
        "everything else is as it was."
    )


def resolve_pair(settings: Settings, base: Settings, own_pairs: bool | None = None) -> tuple[Settings, list[str]]:
    """Settings of a link, with the default pair and a sentence where the link's is not known here or has gone.

    base  whose pair is at hand already; own_pairs  whether visitors decide about pairs, None: as the server was started
    """
    pair, own_pairs = settings.pair, load_options().own_pairs if own_pairs is None else own_pairs
    if pair in PAIRS:
        return settings, []
    if not own_pairs or parse_pair_name(pair) is None:
        said = f"The link's pair was left out: {pair[:SHOWN]!r} is not in the catalog (known: {', '.join(PAIRS)})."
    elif pair == base.pair or pair in load_recent_pairs():
        said = describe_missing_folder(pair)
    else:
        said = OFFER.format(pair[:SHOWN])
    return (replace(settings, pair=DEFAULT), [said]) if said else (settings, [])


def title_pair(pair: str) -> str:
    """A pair in words: the catalog's title, or the names of the two models of one's own."""
    if pair in PAIRS:
        return PAIRS[pair].title
    own = parse_pair_name(pair)
    if own is None:
        return pair[:SHOWN]
    names = [_shorten_place(own.target, 1), _shorten_place(own.draft, 1)]
    if names[0] == names[1]:
        names = [_shorten_place(own.target, 2), _shorten_place(own.draft, 2)]
    return f"{names[0]} with {names[1]}{' in 8 bits' if own.rounded else ''}"


def name_pair(pair: str) -> str:
    """The same inside a sentence: up to the colon of a title."""
    return title_pair(pair).partition(":")[0]


def describe_recorded_pair(pair: str, chosen_pair: str, noun: str = "numbers") -> str:
    """A sentence where what is shown was recorded with another pair than the one in force; empty where it was not."""
    return "" if pair == chosen_pair else f"These {noun} are those of {name_pair(pair)}, not of {name_pair(chosen_pair)}."


def _shorten_place(place: str, parts: int) -> str:
    """The last parts of a folder's path, or a hub name as it is."""
    return place[:SHOWN] if parse_hub_name(place) is not None else "/".join(Path(place).parts[-parts:])[:SHOWN]
