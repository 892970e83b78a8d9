"""Fills the laboratory: every way to serve a target reads the same texts, is checked against itself with draft tokens, and is timed.

Distances are between distributions of passes of one token, as the target serves them alone. Whether draft tokens keep such a distribution is shown by the analytic
check (evidence/analytic.py): the distribution of what the decoder writes, caches and all, against the same target's passes of one token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from torch import Tensor

from specviz.decoding.engine import decode, target_only
from specviz.errors import SettingsError, SpecvizError
from specviz.evidence.analytic.along_text import Analytic, analytic
from specviz.evidence.analytic.fresh import Alone, Fresh
from specviz.measure.bench import machine
from specviz.measure.clock import Clock, Contestant, Lap, middle_half
from specviz.measure.estimate import Estimate
from specviz.models.pairs.loading import Pair
from specviz.prediction.predict import openings, readable, written
from specviz.proposers.draft import DraftModel
from specviz.randomness import PhiloxRandomness
from specviz.serving.near_ties_run import microscope
from specviz.serving.served import Place, Places, ServedTarget, Watch, refuse_uncompared, served
from specviz.serving.setups import ENTRIES, LOSSY, REFERENCE, Laboratory, OwnCheck, SetupRow
from specviz.settings import Settings
from specviz.verification.overlap import overlap

ALONE, SPECULATIVE = "alone", "drafted"
SHARES = {"reading": 0.3, "checking": 0.3, "timing": 0.2, "greedy": 0.2}  # of the work, by and large


@dataclass(frozen=True, slots=True)
class SetupEffort:
    """positions  prefixes of each row's check; runs  timed ones; tokens  of a timed text; prompts, greedy  of the microscope, tokens of each"""

    positions: int
    runs: int
    tokens: int
    prompts: int
    greedy: int


def laboratory(
    pair: Pair,
    settings: Settings,
    places: Places,
    effort: SetupEffort,
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
    timed, spread = timing(pair, ways, replace(settings, length=effort.tokens), places, effort.runs, tell.part("timing"))
    rows = {key: replace(row, **timed.get(key, {})) for key, row in rows.items()}
    prompts = [opening for opening, _ in places[: effort.prompts]]
    seen = microscope(pair, ways, settings, prompts, effort.greedy, tell.part("greedy"))
    now = datetime.now(UTC).strftime("%-d %B %Y")
    opening, length = (len(part) for part in places[0])
    return Laboratory(settings, tuple(rows.values()), seen, name, len(places), opening, length, effort.runs, spread, machine(pair),
                      pair.describe(), now)  # fmt: skip


def _opened(pair: Pair, keys: Sequence[str]) -> tuple[dict[str, ServedTarget], dict[str, SetupRow]]:
    ways, rows = {}, {}
    for key in keys:
        try:
            ways[key], rows[key] = served(pair, key), SetupRow(key)
        except SpecvizError as error:
            rows[key] = SetupRow(key, str(error))
    return ways, rows


@dataclass(frozen=True, slots=True)
class _Told:
    """Shares of parts of the work as shares of the whole."""

    watch: Watch

    def part(self, name: str) -> Watch:
        before = sum(share for part, share in SHARES.items() if [*SHARES].index(part) < [*SHARES].index(name))
        return lambda share, doing: self.watch(before + SHARES[name] * share, doing)


def _piece(watch: Watch, number: int, ways: dict[str, ServedTarget]) -> Callable[[float], None]:
    """One of several equal pieces of a part."""
    doing = f"distribution with draft tokens: {ENTRIES[[*ways][number]].name}"
    return lambda share: watch((number + share) / len(ways), doing)


def refuse_too_long(pair: Pair, opening: int, length: int) -> None:
    """Raises SettingsError where a context does not hold a text and what is written after it."""
    contexts = [source.context for source in pair.open(Settings()) if source.context is not None]
    if contexts and opening + length > min(contexts):
        raise SettingsError(
            "prompt", f"{opening} tokens", f"at most {min(contexts) - length} tokens here: {length} more are written"
        )


def reading(
    pair: Pair, ways: dict[str, ServedTarget], settings: Settings, places: Places, watch: Watch
) -> dict[str, dict[str, Estimate]]:
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
        key: {"overlap": Estimate.of_mean(kept[key])} | ({} if key == REFERENCE else {"apart": Estimate.of_mean(apart[key])})
        for key in keys
    }


def _distributions(source, place: Place) -> Tensor:
    """(L, V): the distribution before each token of a continuation, token by token."""
    opening, text = place
    return Alone(source).distributions(opening + text[:-1], len(text))[0]


def checked(
    pair: Pair,
    key: str,
    ways: dict[str, ServedTarget],
    way: ServedTarget,
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


def _kept(found: Analytic) -> OwnCheck | None:
    if not found.places:
        return None
    return OwnCheck(float(found.tv.mean()), found.worst, found.prefixes, len(found.near_ties))


def timing(
    pair: Pair, ways: dict[str, ServedTarget], settings: Settings, places: Places, runs: int, watch: Watch
) -> tuple[dict[str, dict[str, object]], float]:
    """Every row with draft tokens and, but for mistakes, without: one clock, each run on the next place.

    returns  fields of each row, and the middle half of the reference's seconds as a share of their median
    """
    contestants = {}
    for key, way in ways.items():
        if ENTRIES[key].kind != LOSSY:
            contestants[key, ALONE] = _writing(pair, way, settings, drafting=False)
        contestants[key, SPECULATIVE] = _writing(pair, way, settings, drafting=True)
    clock = Clock(contestants, items=lambda run: (places[run % len(places)][0],))
    clock.until(runs, lambda share, run, key: watch(share, f"timing, run {run} of {runs}: {ENTRIES[key[0]].name}"))
    return {key: _timed(clock, key, settings.length) for key in ways}, middle_half(clock.seconds((REFERENCE, ALONE)))


def _writing(pair: Pair, way: ServedTarget, settings: Settings, drafting: bool) -> Contestant:
    """One text; the end-of-text token does not end it."""

    def write(lap: Lap) -> None:
        own = replace(settings, seed=(settings.seed + lap.run) % 2**63)
        target, randomness = way.open(own), PhiloxRandomness(own.seed)
        if drafting:
            rounds = decode(target, DraftModel(pair.open(own)[1], own.gamma), way.rule, randomness, own, lap.item)
        else:
            rounds = target_only(target, randomness, own, lap.item)
        for one in rounds:
            lap.keep(replace(one, full=None))

    return write


def _timed(clock: Clock, key: str, tokens: int) -> dict[str, object]:
    made, alone = clock.kept((key, SPECULATIVE)), (key, ALONE) if (key, ALONE) in clock.contestants else None
    met = [one.accepted for round_ in made for one in round_.proposals if one.accepted is not None]
    reference = (REFERENCE, ALONE)
    return {
        "tokens": sum(len(one.committed) for one in made),
        "passes": len(made),
        "tested": len(met),
        "kept": sum(map(bool, met)),
        "alone": clock.ratio(reference, alone) if alone else None,
        "drafted": clock.ratio(reference, (key, SPECULATIVE)),
        "ms": (1e3 * clock.median(alone, tokens).value if alone else None, 1e3 * clock.median((key, SPECULATIVE), tokens).value),
    }


def cut_from(pair: Pair, text: str, opening: int, length: int, count: int) -> Places:
    """At most ``count`` places spread evenly over a text. Raises SettingsError as prediction.predict.readable."""
    return openings(readable(pair, text, opening, length), opening, length, count)


def written_from(pair: Pair, settings: Settings, prompt: str, length: int, count: int) -> Places:
    """A prompt that the reference target itself goes on from, ``count`` times with other seeds."""
    ids = pair.encode(prompt)
    refuse_too_long(pair, len(ids), length)
    tokens, _, _ = written(pair, replace(settings, length=length), [ids] * count)
    return [(ids, tuple(row)) for row in tokens.tolist()]
