"""What runs in the queue for Break it: longer texts from the same random numbers, and samples of both decoders with their tests.

Each test is at a point of the curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from specviz.evidence.mistakes.comparison import LONG, POINTS, TEXTS, DistanceCurve, MistakeResult, find_first_differences
from specviz.evidence.testing.results import FillStep
from specviz.jobs.queue import Ticket
from specviz.web.common.side_by_side import work
from specviz.web.common.side_by_side.work import SHARD, SamplingWorkspace, encode_settings, report_part
from specviz.web.hosting import server_workers
from specviz.web.hosting.cache import ResultCache
from specviz.web.mistakes.state import MistakeQuestion, MistakeState, find_rejection

if TYPE_CHECKING:
    from specviz.decoding.samples import Samples
    from specviz.evidence.sampling.session import SamplingSpec

SLOW_SHARD = 250  # samples through the engine between two pictures
WRITTEN = ResultCache(64)


def prepare_session(state: MistakeState, ticket: Ticket) -> SamplingWorkspace:
    """The bench, made once, with the texts side by side."""
    if state.bench is None:
        question = state.question
        bench = SamplingWorkspace(question.settings, partial(make_specs, question), 2, ticket)
        written = WRITTEN.get_or_compute(
            (encode_settings(question.settings), question.mistake_id), lambda: _start_result(question, bench, ticket)
        )
        state.store(ticket, bench=bench, result=written)
    ticket.tick(1.0)
    return state.bench


def _start_result(question: MistakeQuestion, bench: SamplingWorkspace, ticket: Ticket) -> MistakeResult:
    """The values before anything is sampled. The same for all visitors who ask the same."""
    from specviz.evidence.mistakes.registry import VARIANTS
    from specviz.evidence.sampling.session import write_texts

    texts, speeds = [], []
    for arm, spec in enumerate(bench.session.specs):
        given = spec, TEXTS, LONG
        on_progress = report_part(ticket, arm / 2.0, (arm + 1) / 2.0, "Writing texts with the same random numbers")
        written, counts = server_workers.run_in_worker(
            write_texts, bench.pair, question.settings, given, on_progress, "texts side by side"
        )
        texts.append(written)
        speeds.append(counts)
    left, right = bench.session.report()
    return MistakeResult(
        (left, right),
        notes=bench.describe_distribution(question.settings),
        pairs=find_first_differences(bench.pair.decode, *texts),
        alike=(sum(left == right for left, right in zip(*texts, strict=True)), TEXTS),
        speeds=tuple(speeds),
        toy=VARIANTS[question.mistake_id].toy_tv,
        curve=DistanceCurve(question.names, None),
    )


def draw_samples(state: MistakeState, ticket: Ticket, count: int, before: int = 0) -> None:
    """Draw ``count`` more samples of both decoders. before: samples that this piece of work has drawn already."""
    bench, question = prepare_session(state, ticket), state.question

    def build_changes(result: MistakeResult, arms: Sequence[Samples]) -> dict[str, Any]:
        assert result.curve is not None
        curve, steps, same = result.curve, result.steps, int((arms[0].tokens == arms[1].tokens).all(1).sum())
        if bench.n in POINTS:
            curve, steps = bench.session.extend_curve(curve), (*steps, FillStep.from_shares(bench.session.report()[1]))
        return {"curve": curve, "steps": steps, "same": result.same + same}

    work.draw_in_shards(
        state, ticket, count, SHARD if question.on_shared_distributions else SLOW_SHARD, POINTS, bench.draw, build_changes, before
    )


def draw_to_next_test(state: MistakeState, ticket: Ticket) -> None:
    """Draw as many samples as the next test needs."""
    coming = state.next_test
    prepare_session(state, ticket)
    if coming:
        draw_samples(state, ticket, coming - state.result.n)


def draw_until_detected(state: MistakeState, ticket: Ticket) -> None:
    """Test after test, until one rejects the wrong decoder or the plan ends."""
    prepare_session(state, ticket)
    began = state.result.n
    while not find_rejection(state.result) and (coming := state.find_test_after(state.result.n)):
        draw_samples(state, ticket, coming - state.result.n, state.result.n - began)


def make_specs(question: MistakeQuestion, ids: tuple[int, ...]) -> list[SamplingSpec]:
    """The right decoder and the wrong one, with the same random numbers."""
    from specviz.evidence.decoder import ENGINE, SHARED
    from specviz.evidence.sampling.session import SamplingSpec

    mode = SHARED if question.on_shared_distributions else ENGINE
    return [
        SamplingSpec(question.mistake_id, mode, question.settings, ids, without_mistake=arm == 0, label=label)
        for arm, label in enumerate(question.names)
    ]
