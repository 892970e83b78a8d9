"""How fast each way to serve a target is, alone and with draft tokens, against the reference alone: in turns, in one process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from statistics import median

from specviz.decoding.engine import decode, target_only
from specviz.models.pairs.loading import Pair
from specviz.prediction.plan import Interval
from specviz.proposers.draft import DraftModel
from specviz.randomness import PhiloxRandomness
from specviz.serving.served import Ids, Places, Served, Watch
from specviz.serving.setups import ENTRIES, LOSSY, REFERENCE
from specviz.settings import Settings
from specviz.trace import Round


def timing(
    pair: Pair, ways: dict[str, Served], settings: Settings, places: Places, turns: int, watch: Watch
) -> tuple[dict[str, dict[str, object]], float]:
    """Every row with draft tokens and, but for mistakes, without, in turns; the first turn warms up and is not counted.

    returns  fields of each row, and the middle half of the reference's seconds as a share of their median
    """
    alone: dict[str, list[float]] = {key: [] for key in ways if ENTRIES[key].kind != LOSSY}
    drafted: dict[str, list[float]] = {key: [] for key in ways}
    rounds: dict[str, list[Round]] = {key: [] for key in ways}
    work = (turns + 1) * len(ways)
    for turn in range(turns + 1):
        own = replace(settings, seed=(settings.seed + turn) % 2**63)
        prompt = places[turn % len(places)][0]
        for number, (key, way) in enumerate(ways.items()):
            watch((turn * len(ways) + number) / work, f"timing, turn {turn} of {turns}: {ENTRIES[key].name}")
            if key in alone:
                spent, _ = _timed(target_only(way.open(own), PhiloxRandomness(own.seed), own, prompt))
                alone[key] += [spent] * bool(turn)
            spent, made = _timed(_drafting(pair, way, own, prompt))
            drafted[key] += [spent] * bool(turn)
            rounds[key] += made if turn else []
    base = alone[REFERENCE]
    return {key: _fields(rounds[key], base, alone.get(key), drafted[key], settings.length) for key in ways}, _spread(base)


def _drafting(pair: Pair, way: Served, settings: Settings, prompt: Ids) -> Iterator[Round]:
    proposer = DraftModel(pair.open(settings)[1], settings.gamma)
    return decode(way.open(settings), proposer, way.rule, PhiloxRandomness(settings.seed), settings, prompt)


def _timed(rounds: Iterator[Round]) -> tuple[float, list[Round]]:
    """Seconds of one text, and its rounds without their distributions; the end-of-text token does not end it."""
    began = time.perf_counter()
    made = [replace(one, full=None) for one in rounds]
    return time.perf_counter() - began, made


def _fields(
    made: list[Round], base: list[float], alone: list[float] | None, drafted: list[float], tokens: int
) -> dict[str, object]:
    met = [one.accepted for round_ in made for one in round_.proposals if one.accepted is not None]
    return {
        "tokens": sum(len(one.committed) for one in made),
        "passes": len(made),
        "tested": len(met),
        "kept": sum(map(bool, met)),
        "alone": None if alone is None else _factor(base, alone),
        "drafted": _factor(base, drafted),
        "ms": (None if alone is None else 1e3 * median(alone) / tokens, 1e3 * median(drafted) / tokens),
    }


def _factor(slow: list[float], fast: list[float]) -> Interval:
    found = [a / b for a, b in zip(slow, fast, strict=True)]
    return Interval(median(found), min(found), max(found))


def _spread(seconds: list[float]) -> float:
    ordered = sorted(seconds)
    return (ordered[(3 * len(ordered)) // 4] - ordered[len(ordered) // 4]) / ordered[len(ordered) // 2]
