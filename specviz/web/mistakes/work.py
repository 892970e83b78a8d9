"""What runs in the queue for Break it: longer texts with the same random numbers, and samples of both decoders with their looks.

Shards end where the curve has a point, and looks are points of it; a stopped click has lost nothing but its last shard.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from specviz.figures.mistakes import Curve, Speed
from specviz.web.common.queue import Ticket
from specviz.web.exactness.bench import Bench, only_outcome
from specviz.web.exactness.state import started
from specviz.web.exactness.work import SHARD
from specviz.web.mistakes.state import Found, Pairing, Seen, Trial

if TYPE_CHECKING:
    from specviz.decoding.samples import Samples
    from specviz.evidence.mutants.record import Arguments

POINTS = (*(step * 10**power for power in range(1, 6) for step in (1, 2, 5)), 1_000_000)  # of the curve
SLOW_SHARD = 250  # draws through the engine between two pictures
TEXTS, LONG = 96, 16  # texts whose guesses are counted, and their tokens
SHOWN = 3  # texts on the page


class Table(Bench):
    """What a trial keeps between clicks; cells and looks are those of Is it exact?, counted for both decoders."""

    def __init__(self, trial: Trial, ticket: Ticket):
        super().__init__(trial, ticket)
        self.look_counts = [[np.zeros(len(one.names), dtype=np.int64) for one in self.looks] for _ in range(2)]


def arguments(trial: Trial, bench: Table, arm: int, settings) -> tuple[Arguments, object]:
    """The decoder of one side and its coins. Both sides share their coins, except in a game, where that would tell."""
    from specviz.evidence.mutants.builders import honest
    from specviz.evidence.mutants.catalogue import MUTANTS
    from specviz.randomness import PhiloxRandomness

    case = trial.question
    mistake, wrong = case.wrong
    build = MUTANTS[mistake].build if arm == wrong and mistake else honest if case.hidden else MUTANTS[mistake].control
    made = build(bench.pair.open, settings)
    seed = (settings.seed + arm) % 2**63 if case.hidden else settings.seed
    return made, made.randomness(PhiloxRandomness(seed))


def prepared(trial: Trial, ticket: Ticket) -> Table:
    """The bench, made once, with the texts side by side."""
    if trial.bench is None:
        bench = Table(trial, ticket)
        case, names = trial.question, trial.question.names
        runs = [_long(trial, bench, arm, ticket) for arm in (0, 1)]
        pairings = _pairings(bench, [texts for texts, _ in runs]) if not case.hidden else ()
        alike = sum(left == right for left, right in zip(*(texts for texts, _ in runs), strict=True))
        notes = tuple(filter(None, (started(case.settings), only_outcome(bench))))
        speeds = tuple(speed for _, speed in runs)
        seen = Seen(bench.picture(names), pairings, (alike, TEXTS), speeds, _toy(case), Curve(names, None), notes=notes)
        trial.put(ticket, bench=bench, drawn=seen)
    ticket.tick(1.0)
    return trial.bench


def draw(trial: Trial, ticket: Ticket, count: int, before: int = 0) -> None:
    """So many more draws of both decoders. before: draws that this piece of work has made already."""
    bench, done, count = prepared(trial, ticket), before, before + count
    while done < count:
        size = shard_size(trial, bench.n, count - done)

        def watch(share: float, arm: int, done: int = done, size: int = size) -> None:
            ticket.tick((done + size * (share + arm) / 2.0) / count, f"Sampling {bench.n:,} to {bench.n + size:,} of each")

        _add(trial, ticket, bench, [_drawn(trial, bench, arm, size, lambda share, arm=arm: watch(share, arm)) for arm in (0, 1)])
        done += size
        ticket.tick(done / count)


def to_next_look(trial: Trial, ticket: Ticket) -> None:
    if trial.next_look:
        draw(trial, ticket, trial.next_look - trial.drawn.n)


def until_caught(trial: Trial, ticket: Ticket) -> None:
    """Look after look, until one rejects the wrong decoder or the plan ends."""
    prepared(trial, ticket)
    began = trial.drawn.n
    while not trial.caught and trial.next_look:
        draw(trial, ticket, trial.next_look - trial.drawn.n, trial.drawn.n - began)


def shard_size(trial: Trial, n: int, left: int) -> int:
    """Draws of the next shard: up to the next point of the curve."""
    most = SHARD if trial.question.shared else SLOW_SHARD
    return min([left, most, *(point - n for point in POINTS if point > n)])


def _drawn(trial: Trial, bench: Table, arm: int, size: int, watch) -> Samples:
    from specviz.decoding.sampler import Shard, decoded, shared_distributions

    case = trial.question
    made, coins = arguments(trial, bench, arm, case.settings)
    shard = Shard(made.target, made.proposer, made.rule, coins, case.settings, bench.ids, bench.pair.eos_token_ids, bench.n, size)
    return (shared_distributions if case.shared else decoded)(shard, source=case.names[arm], watch=watch)


def _add(trial: Trial, ticket: Ticket, bench: Table, arms: list[Samples]) -> None:
    """Count a shard in, look where a look is due, and show it. All or nothing."""
    from specviz.evidence import looks
    from specviz.statistics.variation import tv_null_band

    seen, size = trial.drawn, len(arms[0])
    for counts, look_counts, samples in zip(bench.counts, bench.look_counts, arms, strict=True):
        counts += bench.cells.counts(samples)
        for look, cells in enumerate(bench.looks):
            if bench.n < looks.LOOKS.n(look):
                look_counts[look] += cells.counts(samples)
    bench.n += size
    due = next((look for look in range(looks.LOOKS.looks) if looks.LOOKS.n(look) == bench.n), None)
    found = seen.looks
    if due is not None:
        found += (tuple(_found(looks.judge(due, bench.looks[due], counts[due], "")) for counts in bench.look_counts),)
    line = seen.curve
    if bench.n in POINTS:
        law = bench.cells.masses / bench.cells.masses.sum()
        band = tv_null_band(law, bench.n)
        tv = tuple(float(np.maximum(0.0, law - counts / bench.n).sum()) for counts in bench.counts)
        line = replace(
            line, n=(*line.n, bench.n), tv=(*line.tv, tv), mean=(*line.mean, band.mean), upper=(*line.upper, band.upper)
        )
    same = int((arms[0].tokens == arms[1].tokens).all(1).sum())
    trial.put(
        ticket, drawn=replace(seen, arms=bench.picture(trial.question.names), curve=line, looks=found, same=seen.same + same)
    )


def _found(answer) -> Found:
    test = min(answer.tests, key=lambda one: one.p_value)
    told = answer.verdict != "too few samples"
    rejected, seen = answer.verdict == "rejected", answer.detectable_tv
    return Found(answer.plan.n, rejected, test.name, test.p_value, test.alpha, seen, told, answer.pooled)


def _long(trial: Trial, bench: Table, arm: int, ticket: Ticket) -> tuple[list[list[int]], Speed]:
    """Longer texts of one decoder through the engine, and what became of its guesses."""
    from specviz.decoding.engine import advance, opening_row, step

    settings = replace(trial.question.settings, length=LONG)
    made, coins = arguments(trial, bench, arm, settings)
    opening = opening_row(bench.ids, settings, made.target.context)
    rows = [replace(opening, draw=number) for number in range(TEXTS)]
    texts: list[list[int]] = [[] for _ in rows]
    tested = kept = passes = 0
    ticket.tick(doing="Writing texts with the same random numbers")
    while rows:
        ticket.tick((arm + len(max(texts, key=len)) / LONG) / 2.0)
        going = []
        for row, round_ in zip(
            rows, step(rows, made.target, made.proposer, made.rule, coins, bench.pair.eos_token_ids), strict=True
        ):
            verdicts = [one.accepted for one in round_.proposals if one.accepted is not None]
            tested, kept, passes = tested + len(verdicts), kept + sum(verdicts), passes + 1
            texts[row.draw] += round_.committed
            row = advance(row, round_)
            if row.remaining > 0 and round_.committed[-1] not in bench.pair.eos_token_ids:
                going.append(row)
        rows = going
    return texts, Speed(trial.question.names[arm], TEXTS, tested, kept, sum(map(len, texts)), passes)


def _pairings(bench: Table, texts: list[list[list[int]]]) -> tuple[Pairing, ...]:
    """The first texts that differ; the first of all where none does."""
    numbered = list(enumerate(zip(*texts, strict=True), start=1))
    chosen = list(islice((one for one in numbered if one[1][0] != one[1][1]), SHOWN)) or numbered[:1]
    return tuple(_pairing(bench, number, *both) for number, both in chosen)


def _pairing(bench: Table, number: int, left: list[int], right: list[int]) -> Pairing:
    apart = next((place for place, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
    both = [[bench.pair.decode(part) for part in (ids[apart : apart + 1], ids[apart + 1 :])] for ids in (left, right)]
    return Pairing(number, bench.pair.decode(left[:apart]), (both[0][0], both[1][0]), (both[0][1], both[1][1]))


def _toy(case) -> float:
    """The enumerated distance of the mistake; 0 where the page must not know it."""
    from specviz.evidence.mutants.catalogue import MUTANTS

    return 0.0 if case.hidden else MUTANTS[case.mistake].toy_tv
