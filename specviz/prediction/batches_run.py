"""Fills the record of batches: passes over many rows by one interleaved clock, and texts decoded speculatively to count their rounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from specviz.measure.bench import machine
from specviz.measure.clock import Clock
from specviz.measure.costs import settle
from specviz.measure.curves import HELD, prefixes, target_pass
from specviz.models.pairs.loading import Pair
from specviz.prediction.batches import BatchSpeeds
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
Kind = tuple[str, int, int]  # of work: which, rows, draft tokens


def measure_batches(
    pairs: Mapping[str, tuple[Pair, Settings]],
    text: str,
    texts: int,
    opening: int,
    runs: int,
    rows: Sequence[int] = ROWS,
    gammas: Sequence[int] = GAMMAS,
    watch: Watch = lambda share, doing: None,
) -> BatchSpeeds:
    """Passes of the first pair at its settings, and the rounds that every one takes for texts.

    pairs    name as the record has it -> pair and settings, whose draft is a model; all of one shape: they share the first one's costs
    texts    continuations of ``text`` after ``opening`` of its tokens, ``Settings.length`` tokens each; runs  of the clock, at least 1
    """
    first, settings = next(iter(pairs.values()))
    ids = readable(first, text, opening, settings.length)
    prompts = [prompt for prompt, _ in openings(ids, opening, settings.length, texts)]
    found = {}
    for number, (key, (pair, asked)) in enumerate(pairs.items()):
        found[key] = tuple(_rounds(pair, replace(asked, gamma=gamma), prompts) for gamma in gammas)
        watch(0.5 * (number + 1) / len(pairs), "counting rounds")
    clock = _timed(first, settings, rows, gammas, runs, lambda share: watch(0.5 + 0.5 * share, "passes"))

    def table(kind: str, sizes: Sequence[int]) -> tuple[tuple[tuple[float, ...], ...], ...]:
        return tuple(tuple(clock.seconds((kind, count, gamma)) for gamma in sizes) for count in rows)

    return BatchSpeeds(
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
    pair: Pair, settings: Settings, rows: Sequence[int], gammas: Sequence[int], runs: int, watch: Callable[[float], None]
) -> Clock[Kind]:
    """Every kind of work; a run before them fills caches and is left out."""
    probes: dict[Kind, Probe] = {}
    for count in rows:
        probes |= _probes(pair, settings, count, gammas)
    clock = Clock({kind: (lambda lap, probe=probe: probe()) for kind, probe in probes.items()}, settle=partial(settle, pair))
    return clock.until(runs, lambda share, run, kind: watch(share))


def _probes(pair: Pair, settings: Settings, count: int, gammas: Sequence[int]) -> dict[Kind, Probe]:
    """What a round on so many rows consists of, each part with caches of its own."""
    target, draft = pair.open(settings)
    rows, randomness, rule = prefixes(count), PhiloxRandomness(settings.seed), rule_of(settings)
    found: dict[Kind, Probe] = {("pass", count, 0): target_pass(target, count, ())}
    for gamma in gammas:
        proposer = DraftModel(draft, gamma)
        block = proposer.propose(rows, randomness)
        p = target.distributions(rows, block)
        found["pass", count, gamma] = target_pass(target, count, tuple(range(ROOT, gamma - 1)))
        found["drafting", count, gamma] = lambda proposer=proposer: proposer.propose(rows, randomness)
        found["rule", count, gamma] = lambda block=block, p=p: rule.verify(rows, block, p, randomness)
    return found
