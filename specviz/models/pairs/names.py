"""Names of user-supplied pairs: ``target|draft``, or ``target|draft|8bit``. No torch here: settings, links and commands use it.

Each model is a *place*: a folder that exists, or a name on the model hub, ``owner/model`` or ``owner/model@revision``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

_ROUNDED = "8bit"


class PairPlaces(NamedTuple):
    """Where the two models of a pair are, each a folder or a hub name."""

    target: str
    draft: str
    rounded: bool = False  # whether the draft's weights are rounded to 8 bits after reading (models/fast_llama/draft_8bit.py)

    @property
    def name(self) -> str:
        return "|".join((self.target, self.draft, *([_ROUNDED] if self.rounded else [])))


def parse_pair_name(name: str) -> PairPlaces | None:
    """The places in a pair's name; None for a name of the catalog, and for anything that does not name a pair."""
    parts = [part.strip() for part in name.split("|")]
    if (len(parts) == 3 and parts.pop() != _ROUNDED) or len(parts) != 2 or not all(parts):
        return None
    return PairPlaces(parts[0], parts[1], rounded=name.count("|") == 2)


def expand_path(place: str) -> Path:
    """A place as a path on this machine, with ``~`` expanded, so that the folder that is checked is the folder that is read."""
    path = Path(place)
    try:
        return path.expanduser()
    except RuntimeError:  # unknown user: the folder does not exist
        return path


def find_folder(place: str) -> Path | None:
    """The folder that a place is; None if there is none of that name."""
    try:
        return path if place.strip() and (path := expand_path(place)).is_dir() else None
    except OSError:  # longer than a name may be
        return None


class HubName(NamedTuple):
    """A model on the hub."""

    repo: str  # owner/model
    revision: str | None = None  # branch, tag or commit; None: the main branch


_HUB = re.compile(r"([A-Za-z0-9][\w.-]*/[A-Za-z0-9_][\w.-]*)(?:@([A-Za-z0-9][\w./-]*))?", re.ASCII)
_NAME_MAX = 96  # characters of a hub name, as the hub allows


def parse_hub_name(place: str) -> HubName | None:
    """The hub name that a place is; None for a folder that exists, and for whatever cannot be a hub name."""
    match = _HUB.fullmatch(place.strip())
    if (
        match is None
        or expand_path(place).is_dir()
        or ".." in place
        or len(match[1]) > _NAME_MAX
        or match[1].endswith((".", "-", ".git"))
    ):
        return None
    return HubName(match[1], match[2])


def format_options(name: str) -> list[str]:
    """Command-line options that choose this pair."""
    if (places := parse_pair_name(name)) is None:
        return ["--pair", name]
    return ["--target", places.target, "--draft", places.draft, *(["--draft-bits", "8"] if places.rounded else [])]


def describe_draftable(description: Mapping[str, Any]) -> str:
    """A sentence on a pair whose tokenizers differ, from its description in a record; '' for any other pair."""
    tokens = description.get("draft", {}).get("tokens")
    if not tokens:
        return ""
    said = f"The tokenizers differ: {tokens['shared']:,} of the draft's {tokens['of_draft']:,} tokens are the target's too"
    share = tokens.get("draftable")
    return f"{said}, and {share:.1%} of the draft's probability could be proposed." if share is not None else f"{said}."
