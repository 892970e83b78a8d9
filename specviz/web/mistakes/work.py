"""What runs in the queue for Break it: longer texts from the same random numbers, and samples of both decoders with their tests.

Shards end where the curve has a point, and each test is at one of its points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from specviz.figures.mistakes import Curve, Speed
from specviz.settings import Settings
from specviz.web.common import sampling
from specviz.web.common.cache import Answers
from specviz.web.common.queue import Ticket
from specviz.web.common.sampling import SHARD, Bench, as_key
from specviz.web.mistakes.state import Case, MistakeResult, TextPair, Trial

if TYPE_CHECKING:
    from specviz.decoding.sampler import Watch
    from specviz.decoding.samples import Samples
    from specviz.evidence.mutants.record import Arguments
    from specviz.randomness import Randomness

POINTS = (*(step * 10**power for power in range(1, 6) for step in (1, 2, 5)), 1_000_000)  # of the curve
SLOW_SHARD = 250  # samples through the engine between two pictures
TEXTS, LONG = 24, 16  # texts whose draft tokens are counted, and their tokens
SHOWN = 3  # texts on the page
WRITTEN = Answers(64)


def prepared(trial: Trial, ticket: Ticket) -> Bench:
    """The bench, made once, with the texts side by side."""
    if trial.bench is None:
        case = trial.question
        bench = Bench(case.settings, case.names, 2, ticket)
        written = WRITTEN.of((as_key(case.settings), case.mistake), lambda: _beginning(case, bench, ticket))
        trial.put(ticket, bench=bench, result=written)
    ticket.tick(1.0)
    return trial.bench


def _beginning(case: Case, bench: Bench, ticket: Ticket) -> MistakeResult:
    """What is known before anything is sampled. The same for all visitors who ask the same."""
    from specviz.evidence.mutants.catalog import MUTANTS

    (left, left_speed), (right, right_speed) = (_long(case, bench, arm, ticket) for arm in (0, 1))
    return MistakeResult(
        bench.picture(),
        notes=bench.notes(case.settings),
        pairs=() if case.hidden else _pairs(bench, left, right),
        alike=(sum(map(list.__eq__, left, right)), TEXTS),
        speeds=(left_speed, right_speed),
        toy=0.0 if case.hidden else MUTANTS[case.mistake].toy_tv,
        curve=Curve(case.names, None),
    )


def draw(trial: Trial, ticket: Ticket, count: int, before: int = 0) -> None:
    """Draw ``count`` more samples of both decoders. before: samples that this piece of work has drawn already."""
    bench, case = prepared(trial, ticket), trial.question
    from specviz.decoding.sampler import Shard, decoded, shared_distributions
    from specviz.statistics.total_variation import total_variation, tv_null_band

    def sample(arm: int, size: int, watch: Watch) -> Samples:
        made, randomness = _arguments(case, bench, arm, case.settings)
        decoder = made.target, made.proposer, made.rule, randomness, case.settings
        shard = Shard(*decoder, bench.ids, bench.pair.eos_token_ids, bench.n, size)
        return (shared_distributions if case.shared else decoded)(shard, source=case.names[arm], watch=watch)

    def more(arms: Sequence[Samples]) -> dict[str, Any]:
        curve, same = trial.result.curve, int((arms[0].tokens == arms[1].tokens).all(1).sum())
        if bench.n in POINTS:
            probs = bench.cells.masses / bench.cells.masses.sum()
            band, tv = tv_null_band(probs, bench.n), tuple(total_variation(counts, probs) for counts in bench.counts)
            curve = replace(curve, n=(*curve.n, bench.n), tv=(*curve.tv, tv), mean=(*curve.mean, band.mean),
                            upper=(*curve.upper, band.upper))  # fmt: skip
        return {"curve": curve, "same": trial.result.same + same}

    sampling.draw(trial, ticket, count, SHARD if case.shared else SLOW_SHARD, POINTS, sample, more, before)


def to_next_test(trial: Trial, ticket: Ticket) -> None:
    if trial.next_test:
        draw(trial, ticket, trial.next_test - trial.result.n)


def until_detected(trial: Trial, ticket: Ticket) -> None:
    """Test after test, until one rejects the wrong decoder or the plan ends."""
    prepared(trial, ticket)
    began = trial.result.n
    while not trial.detected and trial.next_test:
        draw(trial, ticket, trial.next_test - trial.result.n, trial.result.n - began)


def _arguments(case: Case, bench: Bench, arm: int, settings: Settings) -> tuple[Arguments, Randomness]:
    """One of the two decoders and its random numbers. Both share them, except where a mistake is hidden: that would tell."""
    from specviz.evidence.mutants.builders import honest
    from specviz.evidence.mutants.catalog import MUTANTS
    from specviz.randomness import PhiloxRandomness

    mistake, wrong = case.wrong
    build = MUTANTS[mistake].build if arm == wrong and mistake else honest if case.hidden else MUTANTS[mistake].control
    made = build(bench.pair.open, settings)
    seed = (settings.seed + arm) % 2**63 if case.hidden else settings.seed
    return made, made.randomness(PhiloxRandomness(seed))


def _long(case: Case, bench: Bench, arm: int, ticket: Ticket) -> tuple[list[list[int]], Speed]:
    """Longer texts of one decoder through the engine, and what became of its draft tokens."""
    from specviz.decoding.engine import advance, opening_row, step

    settings, stops = replace(case.settings, length=LONG), bench.pair.eos_token_ids
    made, randomness = _arguments(case, bench, arm, settings)
    opening = opening_row(bench.ids, settings, made.target.context)
    rows = [replace(opening, draw=number) for number in range(TEXTS)]
    texts: list[list[int]] = [[] for _ in rows]
    checked = accepted = passes = 0
    ticket.tick(doing="Writing texts with the same random numbers")
    while rows:
        ticket.tick((arm + len(max(texts, key=len)) / LONG) / 2.0)
        going = []
        for row, round_ in zip(rows, step(rows, made.target, made.proposer, made.rule, randomness, stops), strict=True):
            verdicts = [one.accepted for one in round_.proposals if one.accepted is not None]
            checked, accepted, passes = checked + len(verdicts), accepted + sum(verdicts), passes + 1
            texts[row.draw] += round_.committed
            row = advance(row, round_)
            if row.remaining > 0 and round_.committed[-1] not in stops:
                going.append(row)
        rows = going
    return texts, Speed(case.names[arm], TEXTS, checked, accepted, sum(map(len, texts)), passes)


def _pairs(bench: Bench, left: list[list[int]], right: list[list[int]]) -> tuple[TextPair, ...]:
    """The first texts that differ; the first of all where none does."""
    numbered = list(enumerate(zip(left, right, strict=True), start=1))
    chosen = list(islice((one for one in numbered if one[1][0] != one[1][1]), SHOWN)) or numbered[:1]
    return tuple(_pair(bench, number, *both) for number, both in chosen)


def _pair(bench: Bench, number: int, left: list[int], right: list[int]) -> TextPair:
    apart = next((place for place, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
    first, rest = (
        tuple(bench.pair.decode(ids[part]) for ids in (left, right)) for part in (slice(apart, apart + 1), slice(apart + 1, None))
    )
    return TextPair(number, bench.pair.decode(left[:apart]), first, rest)
