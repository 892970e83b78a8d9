"""What runs in the queue for Break it: longer texts from the same random numbers, and samples of both decoders with their tests.

Each test is at a point of the curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from specviz.evidence.bugs.comparison import LONG, POINTS, TEXTS, BugResult, DistanceCurve, find_first_differences
from specviz.jobs.queue import Ticket
from specviz.web.jobs import server_workers
from specviz.web.jobs.cache import ResultCache
from specviz.web.mistakes.state import BugQuestion, BugState
from specviz.web.sampling import work
from specviz.web.sampling.work import SHARD, SamplingBench, as_key, report_part

if TYPE_CHECKING:
    from specviz.decoding.samples import Samples
    from specviz.evidence.session import SamplingSpec

PLAIN = "R5"  # without its bug it is plain speculative decoding
SLOW_SHARD = 250  # samples through the engine between two pictures
WRITTEN = ResultCache(64)


def prepare(trial: BugState, ticket: Ticket) -> SamplingBench:
    """The bench, made once, with the texts side by side."""
    if trial.bench is None:
        case = trial.question
        bench = SamplingBench(case.settings, partial(make_specs, case), 2, ticket)
        written = WRITTEN.get_or_compute((as_key(case.settings), case.mistake), lambda: _start_result(case, bench, ticket))
        trial.put(ticket, bench=bench, result=written)
    ticket.tick(1.0)
    return trial.bench


def _start_result(case: BugQuestion, bench: SamplingBench, ticket: Ticket) -> BugResult:
    """What is known before anything is sampled. The same for all visitors who ask the same."""
    from specviz.evidence.bugs.registry import BUGS
    from specviz.evidence.session import write_texts

    texts, speeds = [], []
    for arm, spec in enumerate(bench.session.specs):
        given = spec, TEXTS, LONG
        on_progress = report_part(ticket, arm / 2.0, (arm + 1) / 2.0, "Writing texts with the same random numbers")
        written, counts = server_workers.run_in_worker(
            write_texts, bench.pair, case.settings, given, on_progress, "texts side by side"
        )
        texts.append(written)
        speeds.append(counts)
    return BugResult(
        bench.session.report(),
        notes=bench.notes(case.settings),
        pairs=() if case.is_hidden else find_first_differences(bench.pair.decode, *texts),
        alike=(sum(left == right for left, right in zip(*texts, strict=True)), TEXTS),
        speeds=tuple(speeds),
        toy=0.0 if case.is_hidden else BUGS[case.mistake].toy_tv,
        curve=DistanceCurve(case.names, None),
    )


def draw_samples(trial: BugState, ticket: Ticket, count: int, before: int = 0) -> None:
    """Draw ``count`` more samples of both decoders. before: samples that this piece of work has drawn already."""
    bench, case = prepare(trial, ticket), trial.question

    def more(result: BugResult, arms: Sequence[Samples]) -> dict[str, Any]:
        curve, same = result.curve, int((arms[0].tokens == arms[1].tokens).all(1).sum())
        if bench.n in POINTS:
            curve = bench.session.extend_curve(curve)
        return {"curve": curve, "same": result.same + same}

    work.draw(trial, ticket, count, SHARD if case.on_shared_distributions else SLOW_SHARD, POINTS, bench.draw, more, before)


def draw_to_next_test(trial: BugState, ticket: Ticket) -> None:
    if trial.next_test:
        draw_samples(trial, ticket, trial.next_test - trial.result.n)


def draw_until_detected(trial: BugState, ticket: Ticket) -> None:
    """Test after test, until one rejects the wrong decoder or the plan ends."""
    prepare(trial, ticket)
    began = trial.result.n
    while not trial.first_rejection and trial.next_test:
        draw_samples(trial, ticket, trial.next_test - trial.result.n, trial.result.n - began)


def make_specs(case: BugQuestion, ids: tuple[int, ...]) -> list[SamplingSpec]:
    """Both decoders. They share their random numbers, except where a bug is hidden: that would tell."""
    from specviz.evidence.decoder import ENGINE, SHARED
    from specviz.evidence.session import SamplingSpec

    mode, (bug, wrong) = SHARED if case.on_shared_distributions else ENGINE, case.wrong_decoder
    specs = []
    for arm, label in enumerate(case.names):
        has_bug = arm == wrong and bug is not None
        name = PLAIN if case.is_hidden and not has_bug else bug or PLAIN
        seed = (case.settings.seed + arm) % 2**63 if case.is_hidden else case.settings.seed
        settings = replace(case.settings, seed=seed)
        specs.append(SamplingSpec(name, mode, settings, ids, without_bug=not has_bug, label=label))
    return specs
