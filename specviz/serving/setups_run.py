"""Fills the laboratory: every way to serve a target reads the same texts, is checked against itself with draft tokens, and is timed in turns.

Distances are between distributions of passes of one token, as the target serves them alone. Whether draft tokens keep such a distribution is shown by the analytic
check (evidence/analytic.py): the distribution of what the decoder writes, caches and all, against the same target's passes of one token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np
from torch import Tensor

from specviz.errors import SettingsError, SpecvizError
from specviz.evidence.analytic.along_text import Analytic, analytic
from specviz.evidence.analytic.fresh import Alone, Fresh
from specviz.measure.bench import machine
from specviz.models.pairs.loading import Pair
from specviz.prediction.plan import Interval
from specviz.prediction.predict import openings, readable, written
from specviz.proposers.draft import DraftModel
from specviz.serving.near_ties_run import microscope
from specviz.serving.served import Place, Places, Served, Watch, refuse_uncompared, served
from specviz.serving.setups import ENTRIES, LOSSY, REFERENCE, Kept, Laboratory, Row
from specviz.serving.timing import timing
from specviz.settings import Settings
from specviz.statistics.luck import Use, generator
from specviz.verification.overlap import overlap

RESAMPLES, MIDDLE = 1000, (2.5, 97.5)
SHARES = {"reading": 0.3, "checking": 0.3, "timing": 0.2, "greedy": 0.2}  # of the work, by and large


@dataclass(frozen=True, slots=True)
class Effort:
    """positions  prefixes of each row's check; turns  timed ones; tokens  of a timed text; prompts, greedy  of the microscope, tokens of each"""

    positions: int
    turns: int
    tokens: int
    prompts: int
    greedy: int


def laboratory(
    pair: Pair,
    settings: Settings,
    places: Places,
    effort: Effort,
    name: str,
    watch: Watch = lambda share, doing: None,
    keys: Sequence[str] = tuple(ENTRIES),
) -> Laboratory:
    """Run every row, the reference among them. settings: seed, gamma and temperature; places: at least one text, all of one length.

    Raises UnsupportedModel for a target that cannot be the reference, SettingsError for texts that the context does not hold.
    """
    refuse_uncompared(pair)
    assert places and places[0][1], "there is nothing to read"
    refuse_too_long(pair, max(len(opening) for opening, _ in places), max(len(places[0][1]), effort.tokens, effort.greedy))
    ways, rows = _opened(pair, keys)
    tell = _Told(watch)
    read = reading(pair, ways, settings, places, tell.part("reading"))
    for number, (key, way) in enumerate(ways.items()):
        watching = _piece(tell.part("checking"), number, ways)
        found = checked(pair, key, ways, way, settings, places, effort.positions, watching)
        rows[key] = replace(rows[key], **read.get(ENTRIES[key].of, {}), own=_kept(found))
    timed, spread = timing(pair, ways, replace(settings, length=effort.tokens), places, effort.turns, tell.part("timing"))
    rows = {key: replace(row, **timed.get(key, {})) for key, row in rows.items()}
    prompts = [opening for opening, _ in places[: effort.prompts]]
    seen = microscope(pair, ways, settings, prompts, effort.greedy, tell.part("greedy"))
    now = datetime.now(UTC).strftime("%-d %B %Y")
    opening, length = (len(part) for part in places[0])
    return Laboratory(settings, tuple(rows.values()), seen, name, len(places), opening, length, effort.turns, spread, machine(pair),
                      pair.describe(), now)  # fmt: skip


def _opened(pair: Pair, keys: Sequence[str]) -> tuple[dict[str, Served], dict[str, Row]]:
    ways, rows = {}, {}
    for key in keys:
        try:
            ways[key], rows[key] = served(pair, key), Row(key)
        except SpecvizError as error:
            rows[key] = Row(key, str(error))
    return ways, rows


@dataclass(frozen=True, slots=True)
class _Told:
    """Shares of parts of the work as shares of the whole."""

    watch: Watch

    def part(self, name: str) -> Watch:
        before = sum(share for part, share in SHARES.items() if [*SHARES].index(part) < [*SHARES].index(name))
        return lambda share, doing: self.watch(before + SHARES[name] * share, doing)


def _piece(watch: Watch, number: int, ways: dict[str, Served]) -> Callable[[float], None]:
    """One of several equal pieces of a part."""
    doing = f"draft tokens against its own distribution: {ENTRIES[[*ways][number]].name}"
    return lambda share: watch((number + share) / len(ways), doing)


def refuse_too_long(pair: Pair, opening: int, length: int) -> None:
    """Raises SettingsError where a context does not hold a text and what is written after it."""
    contexts = [source.context for source in pair.open(Settings()) if source.context is not None]
    if contexts and opening + length > min(contexts):
        raise SettingsError(
            "prompt", f"{opening} tokens", f"at most {min(contexts) - length} tokens here: {length} more are written"
        )


def reading(
    pair: Pair, ways: dict[str, Served], settings: Settings, places: Places, watch: Watch
) -> dict[str, dict[str, Interval]]:
    """How far each way's own distribution lies from the reference's, and how much of the draft it keeps, over all prefixes of the texts."""
    keys = [key for key in ways if ENTRIES[key].kind != LOSSY]
    apart: dict[str, list[float]] = {key: [] for key in keys}
    kept: dict[str, list[float]] = {key: [] for key in keys}
    for number, place in enumerate(places):
        q = _distributions(pair.open(settings)[1], place)
        reference = _distributions(ways[REFERENCE].open(settings), place)
        for key in keys:
            watch(number / len(places), f"reading text {number + 1} of {len(places)}: {ENTRIES[key].name}")
            p = reference if key == REFERENCE else _distributions(ways[key].open(settings), place)
            apart[key].append(float((1.0 - overlap(p, reference)).clamp_(min=0.0).mean()))
            kept[key].append(float(overlap(p, q).mean()))
    return {
        key: {"overlap": over_texts(kept[key])} | ({} if key == REFERENCE else {"apart": over_texts(apart[key])}) for key in keys
    }


def _distributions(source, place: Place) -> Tensor:
    """(L, V): the distribution before each token of a continuation, token by token."""
    opening, text = place
    return Alone(source).distributions(opening + text[:-1], len(text))[0]


def over_texts(means: Sequence[float]) -> Interval:
    """The mean over texts of one length, with the middle 95% of the means of texts drawn again (Efron 1979); one text: no width known."""
    values = np.array(means)
    again = generator(0, Use.RESAMPLED).integers(0, len(values), (RESAMPLES, len(values)))
    low, high = np.percentile(values[again].mean(1), MIDDLE).tolist()
    return Interval(float(values.mean()), low, high)


def checked(
    pair: Pair,
    key: str,
    ways: dict[str, Served],
    way: Served,
    settings: Settings,
    places: Places,
    positions: int,
    watch: Callable[[float], None],
) -> Analytic:
    """The decoder with draft tokens against the distribution that this way means to keep, along the texts one after the other."""
    meant = ways[ENTRIES[key].of].open(settings)
    ids = tuple(token for opening, text in places for token in opening + text)
    draft, fresh_draft = pair.open(settings)[1], Fresh(pair.draft, settings, pair.vocabulary)
    proposer = DraftModel(draft, settings.gamma)
    return analytic(way.open(settings), proposer, way.rule, settings, ids, Alone(meant), fresh_draft, positions, watch)


def _kept(found: Analytic) -> Kept | None:
    if not found.places:
        return None
    return Kept(float(found.tv.mean()), found.worst, found.prefixes, len(found.near_ties))


def cut_from(pair: Pair, text: str, opening: int, length: int, count: int) -> Places:
    """At most ``count`` places spread evenly over a text. Raises SettingsError as planning.predict.readable."""
    return openings(readable(pair, text, opening, length), opening, length, count)


def written_from(pair: Pair, settings: Settings, prompt: str, length: int, count: int) -> Places:
    """A prompt that the reference target itself goes on from, ``count`` times with other luck."""
    ids = pair.encode(prompt)
    refuse_too_long(pair, len(ids), length)
    tokens, _, _ = written(pair, replace(settings, length=length), [ids] * count)
    return [(ids, tuple(row)) for row in tokens.tolist()]
