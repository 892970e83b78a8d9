"""Fills the record of batches: passes over many rows in turns, and texts decoded speculatively to count their rounds."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from specviz.measure.bench import machine
from specviz.measure.curves import HELD, prefixes, settle, target_pass
from specviz.models.pairs.loading import Pair
from specviz.prediction.batches import Batches
from specviz.prediction.predict import Ids, openings, readable, written
from specviz.proposers.draft import DraftModel
from specviz.randomness import PhiloxRandomness
from specviz.settings import Settings
from specviz.verification.draft_tree import ROOT
from specviz.verification.registry import rule_of

ROWS = (1, 2, 4, 8, 16, 32, 64)
GAMMAS = (1, 2, 3, 4, 6, 8)
Watch = Callable[[float, str], None]
Probe = Callable[[], object]


def measure_batches(
    pairs: Mapping[str, tuple[Pair, Settings]],
    text: str,
    texts: int,
    opening: int,
    turns: int,
    rows: Sequence[int] = ROWS,
    gammas: Sequence[int] = GAMMAS,
    watch: Watch = lambda share, doing: None,
) -> Batches:
    """Passes of the first pair at its settings, and the rounds that every one takes for texts.

    pairs    name as the record has it -> pair and settings, whose draft is a model; all of one shape: they share the first one's costs
    texts    continuations of ``text`` after ``opening`` of its tokens, ``Settings.length`` tokens each; turns  of the clock, at least 1
    """
    first, settings = next(iter(pairs.values()))
    ids = readable(first, text, opening, settings.length)
    prompts = [prompt for prompt, _ in openings(ids, opening, settings.length, texts)]
    found = {}
    for number, (key, (pair, asked)) in enumerate(pairs.items()):
        found[key] = tuple(_rounds(pair, replace(asked, gamma=gamma), prompts) for gamma in gammas)
        watch(0.5 * (number + 1) / len(pairs), "counting rounds")
    times = _timed(first, settings, rows, gammas, turns, lambda share: watch(0.5 + 0.5 * share, "passes"))

    def table(kind: str, sizes: Sequence[int]) -> tuple[tuple[tuple[float, ...], ...], ...]:
        return tuple(tuple(tuple(times[kind, count, gamma]) for gamma in sizes) for count in rows)

    return Batches(
        settings,
        tuple(rows),
        tuple(gammas),
        passes=table("pass", (0, *gammas)),
        drafting=table("drafting", gammas),
        rule=table("rule", gammas),
        rounds=found,
        length=settings.length,
        held=HELD,
        machine=machine(first),
        models=first.describe(),
        date=datetime.now(UTC).strftime("%-d %B %Y"),
    )


def _rounds(pair: Pair, settings: Settings, prompts: Sequence[Ids]) -> tuple[int, ...]:
    _, count, _ = written(pair, replace(settings, seed=settings.seed + settings.gamma), prompts, drafting=True)
    return tuple(int(n) for n in count)


def _timed(
    pair: Pair, settings: Settings, rows: Sequence[int], gammas: Sequence[int], turns: int, watch: Callable[[float], None]
) -> dict[tuple[str, int, int], list[float]]:
    """Seconds of every kind of work in every turn; a turn before them fills caches and is left out."""
    probes: dict[tuple[str, int, int], Probe] = {}
    for count in rows:
        probes |= _probes(pair, settings, count, gammas)
    times: dict[tuple[str, int, int], list[float]] = {key: [] for key in probes}
    for turn in range(turns + 1):
        for number, (key, probe) in enumerate(probes.items()):
            settle(pair)
            began = time.perf_counter()
            probe()
            settle(pair)
            if turn:
                times[key].append(time.perf_counter() - began)
            watch((turn + (number + 1) / len(probes)) / (turns + 1))
    return times


def _probes(pair: Pair, settings: Settings, count: int, gammas: Sequence[int]) -> dict[tuple[str, int, int], Probe]:
    """What a round on so many rows consists of, each part with caches of its own."""
    target, draft = pair.open(settings)
    rows, randomness, rule = prefixes(count), PhiloxRandomness(settings.seed), rule_of(settings)
    found: dict[tuple[str, int, int], Probe] = {("pass", count, 0): target_pass(target, count, ())}
    for gamma in gammas:
        proposer = DraftModel(draft, gamma)
        block = proposer.propose(rows, randomness)
        p = target.distributions(rows, block)
        found["pass", count, gamma] = target_pass(target, count, tuple(range(ROOT, gamma - 1)))
        found["drafting", count, gamma] = lambda proposer=proposer: proposer.propose(rows, randomness)
        found["rule", count, gamma] = lambda block=block, p=p: rule.verify(rows, block, p, randomness)
    return found
