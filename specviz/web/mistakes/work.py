"""What runs in the queue for Break it: longer texts from the same random numbers, and samples of both decoders with their tests.

Each test is at a point of the curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from specviz.evidence.mistakes.comparison import LONG, POINTS, TEXTS, DistanceCurve, MistakeResult, find_first_differences
from specviz.jobs.queue import Ticket
from specviz.web.common.side_by_side import work
from specviz.web.common.side_by_side.work import SHARD, SamplingWorkspace, encode_settings, report_part
from specviz.web.jobs import server_workers
from specviz.web.jobs.cache import ResultCache
from specviz.web.mistakes.state import MistakeQuestion, MistakeState

if TYPE_CHECKING:
    from specviz.decoding.samples import Samples
    from specviz.evidence.sampling.session import SamplingSpec

ANY_MISTAKE = "R5"  # without its mistake it is plain speculative decoding
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
    """What is known before anything is sampled. The same for all visitors who ask the same."""
    from specviz.evidence.mistakes.registry import MISTAKES
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
        pairs=() if question.is_hidden else find_first_differences(bench.pair.decode, *texts),
        alike=(sum(left == right for left, right in zip(*texts, strict=True)), TEXTS),
        speeds=tuple(speeds),
        toy=0.0 if question.is_hidden else MISTAKES[question.mistake_id].toy_tv,
        curve=DistanceCurve(question.names, None),
    )


def draw_samples(state: MistakeState, ticket: Ticket, count: int, before: int = 0) -> None:
    """Draw ``count`` more samples of both decoders. before: samples that this piece of work has drawn already."""
    bench, question = prepare_session(state, ticket), state.question

    def more(result: MistakeResult, arms: Sequence[Samples]) -> dict[str, Any]:
        assert result.curve is not None
        curve, same = result.curve, int((arms[0].tokens == arms[1].tokens).all(1).sum())
        if bench.n in POINTS:
            curve = bench.session.extend_curve(curve)
        return {"curve": curve, "same": result.same + same}

    work.draw_in_shards(
        state, ticket, count, SHARD if question.on_shared_distributions else SLOW_SHARD, POINTS, bench.draw, more, before
    )


def draw_to_next_test(state: MistakeState, ticket: Ticket) -> None:
    """Draw as many samples as the next test needs."""
    if state.next_test:
        draw_samples(state, ticket, state.next_test - state.result.n)


def draw_until_detected(state: MistakeState, ticket: Ticket) -> None:
    """Test after test, until one rejects the wrong decoder or the plan ends."""
    prepare_session(state, ticket)
    began = state.result.n
    while not state.first_rejection and state.next_test:
        draw_samples(state, ticket, state.next_test - state.result.n, state.result.n - began)


def make_specs(question: MistakeQuestion, ids: tuple[int, ...]) -> list[SamplingSpec]:
    """Both decoders. They share their random numbers, except where a mistake is hidden: that would tell."""
    from specviz.evidence.decoder import ENGINE, SHARED
    from specviz.evidence.sampling.session import SamplingSpec

    mode, (mistake, wrong) = SHARED if question.on_shared_distributions else ENGINE, question.wrong_decoder
    specs = []
    for arm, label in enumerate(question.names):
        has_mistake = arm == wrong and mistake is not None
        name = ANY_MISTAKE if question.is_hidden and not has_mistake else mistake or ANY_MISTAKE
        seed = (question.settings.seed + arm) % 2**63 if question.is_hidden else question.settings.seed
        settings = replace(question.settings, seed=seed)
        specs.append(SamplingSpec(name, mode, settings, ids, without_mistake=not has_mistake, label=label))
    return specs
