"""What runs in the queue for Break it: longer texts from the same random numbers, and samples of both decoders with their tests.

Each test is at a point of the curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from specviz.evidence.bugs.comparison import LONG, POINTS, TEXTS, BugResult, DistanceCurve, DraftingCounts, find_first_differences
from specviz.jobs.queue import Ticket
from specviz.progress import ProgressCallback
from specviz.web.jobs import server_workers
from specviz.web.jobs.cache import ResultCache
from specviz.web.mistakes.state import BugQuestion, BugState
from specviz.web.sampling import work
from specviz.web.sampling.work import SHARD, Bench, as_key

if TYPE_CHECKING:
    from specviz.decoding.samples import Samples
    from specviz.evidence.bugs.side_by_side import Side

SLOW_SHARD = 250  # samples through the engine between two pictures
WRITTEN = ResultCache(64)


def prepare(trial: BugState, ticket: Ticket) -> Bench:
    """The bench, made once, with the texts side by side."""
    if trial.bench is None:
        case = trial.question
        bench = Bench(case.settings, case.names, 2, ticket)
        written = WRITTEN.get_or_compute((as_key(case.settings), case.mistake), lambda: _start_result(case, bench, ticket))
        trial.put(ticket, bench=bench, result=written)
    ticket.tick(1.0)
    return trial.bench


def _start_result(case: BugQuestion, bench: Bench, ticket: Ticket) -> BugResult:
    """What is known before anything is sampled. The same for all visitors who ask the same."""
    from specviz.evidence.bugs import side_by_side
    from specviz.evidence.bugs.registry import MUTANTS

    texts, speeds = [], []
    for arm, name in enumerate(case.names):

        def on_progress(share: float, arm: int = arm) -> None:
            ticket.tick((arm + share) / 2.0, "Writing texts with the same random numbers")

        asked = (_build_side(case, arm), bench.ids, TEXTS, LONG)
        one = server_workers.run_in_worker(
            side_by_side.written, bench.pair, case.settings, asked, on_progress, "texts side by side"
        )
        texts.append(one.texts)
        speeds.append(DraftingCounts(name, TEXTS, one.checked, one.accepted, one.tokens, one.passes))
    return BugResult(
        bench.picture(),
        notes=bench.notes(case.settings),
        pairs=() if case.is_hidden else find_first_differences(bench.pair.decode, *texts),
        alike=(sum(left == right for left, right in zip(*texts, strict=True)), TEXTS),
        speeds=tuple(speeds),
        toy=0.0 if case.is_hidden else MUTANTS[case.mistake].toy_tv,
        curve=DistanceCurve(case.names, None),
    )


def draw_samples(trial: BugState, ticket: Ticket, count: int, before: int = 0) -> None:
    """Draw ``count`` more samples of both decoders. before: samples that this piece of work has drawn already."""
    bench, case = prepare(trial, ticket), trial.question
    from specviz.evidence.bugs import side_by_side

    def sample(size: int, on_progress: ProgressCallback) -> list[Samples]:
        return [of_arm(arm, size, lambda share, arm=arm: on_progress((arm + share) / 2.0)) for arm in (0, 1)]

    def of_arm(arm: int, size: int, on_progress: ProgressCallback) -> Samples:
        asked = (_build_side(case, arm), case.shared, bench.ids, bench.n, size)
        return server_workers.run_in_worker(
            side_by_side.samples, bench.pair, case.settings, asked, on_progress, f"{size:,} samples"
        )

    def more(result: BugResult, arms: Sequence[Samples]) -> dict[str, Any]:
        curve, same = result.curve, int((arms[0].tokens == arms[1].tokens).all(1).sum())
        if bench.n in POINTS:
            curve = curve.with_point(bench)
        return {"curve": curve, "same": result.same + same}

    work.draw(trial, ticket, count, SHARD if case.shared else SLOW_SHARD, POINTS, sample, more, before)


def draw_to_next_test(trial: BugState, ticket: Ticket) -> None:
    if trial.next_test:
        draw_samples(trial, ticket, trial.next_test - trial.result.n)


def draw_until_detected(trial: BugState, ticket: Ticket) -> None:
    """Test after test, until one rejects the wrong decoder or the plan ends."""
    prepare(trial, ticket)
    began = trial.result.n
    while not trial.first_rejection and trial.next_test:
        draw_samples(trial, ticket, trial.next_test - trial.result.n, trial.result.n - began)


def _build_side(case: BugQuestion, arm: int) -> Side:
    """One of the two decoders. Both share their random numbers, except where a mistake is hidden: that would tell."""
    from specviz.evidence.bugs.side_by_side import Side

    mistake, wrong = case.wrong
    makes = "mistake" if arm == wrong and mistake else "honest" if case.is_hidden else "nothing"
    seed = (case.settings.seed + arm) % 2**63 if case.is_hidden else case.settings.seed
    return Side(case.names[arm], replace(case.settings, seed=seed), mistake, makes)
