"""Run the reproduction of a rejected server, or of two that differ: one request at a time, and several at a time.

A fault that needs a batch shows only in the second run, and a mistake report should say so.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from typing import Any

from specviz.audit.collection.audited_server import AuditTarget
from specviz.audit.collection.size import CONFIRMATION_REGION, compute_first_seed
from specviz.jobs.daemon_threads import DaemonThreadPool
from specviz.progress import ProgressCallback, ignore_progress, scale_progress
from specviz.statistics.finding import ALPHA, format_p_value
from specviz.statistics.positions import compute_rate_test
from specviz.statistics.twosample import compare_two_rates

MAX_SECONDS = 120.0  # seconds of one run, of both servers together; what it has counted by then is reported


@dataclass(frozen=True, slots=True)
class ConfirmationRun:
    """One run.

    Attributes:
        concurrency: Requests at a time.
        samples: Samples that were collected, of each server.
        reached: Samples that begin with the prefix.
        hits: Of these, those with the token after it.
        p_value: Of the count under the model's probability of the token, or that two servers have the same; 1 where nothing was tested.
        second_reached, second_hits: Of the second server; None against weights.
    """

    concurrency: int
    samples: int
    reached: int
    hits: int
    p_value: float
    second_reached: int | None = None
    second_hits: int | None = None

    @property
    def was_tested(self) -> bool:
        """Whether samples have the prefix, those of a second server too."""
        return self.reached > 0 and self.second_reached != 0

    @property
    def shows(self) -> bool:
        """Whether the run by itself rejects that the token is as frequent as it should be."""
        return self.p_value <= ALPHA

    @property
    def counts(self) -> list[tuple[int, int]]:
        """Hits and samples with the prefix, of each server."""
        second = [] if self.second_hits is None or self.second_reached is None else [(self.second_hits, self.second_reached)]
        return [(self.hits, self.reached), *second]


def confirm_reproduction(
    targets: Sequence[AuditTarget], reproduction: dict[str, Any], seed: int, on_progress: ProgressCallback = ignore_progress
) -> list[ConfirmationRun]:
    """Both runs, with seeds of their own; one where a server is asked one request at a time anyway.

    Args:
        targets: Prepared servers, one or two, whose answers hold token ids, or texts that are compared whole.
        reproduction: As a report holds it.
        seed: Of the audit.
        on_progress: Called with the share done and what is being done; may raise to stop.

    Raises:
        EndpointError: A server fails.
    """
    sizes = sorted({1, min(target.preparation.size.concurrency for target in targets)})
    next_seed, runs = compute_first_seed(seed, CONFIRMATION_REGION), []
    for concurrency in sizes:
        doing = "the reproduction, " + ("one request at a time" if concurrency == 1 else f"{concurrency} requests at a time")
        counts = []
        for number, target in enumerate(targets):
            seeds = range(next_seed, next_seed := next_seed + reproduction["samples"])
            counting = scale_progress(on_progress, number / len(targets), (number + 1) / len(targets), doing)
            counts.append(_count_hits(target, reproduction, concurrency, seeds, MAX_SECONDS / len(targets), counting))
        runs.append(_test_counts(concurrency, counts, reproduction["exact"]))
    return runs


def _count_hits(
    target: AuditTarget,
    reproduction: dict[str, Any],
    concurrency: int,
    seeds: Sequence[int],
    seconds: float,
    on_progress: ProgressCallback,
) -> tuple[int, int, int]:
    """Samples, those with the prefix, and those with the token after it, of one server."""
    profile, until = target.preparation.server.profile, time.monotonic() + seconds
    prefix, samples, reached, hits = tuple(reproduction["prefix_ids"]), 0, 0, 0
    pool = DaemonThreadPool(concurrency, "reproduction")
    try:
        waiting: list[Future[Any]] = []
        rest = iter(seeds)
        while time.monotonic() < until:
            while len(waiting) < concurrency and (seed := next(rest, None)) is not None:
                waiting.append(pool.submit(profile.request, target.endpoint, target.sampling, seed))
            if not waiting:
                break
            sample = waiting.pop(0).result().samples[0]
            samples += 1
            if reproduction["whole"]:
                reached, hits = reached + 1, hits + (sample.text == reproduction["text"])
            elif sample.tokens is not None and sample.tokens[: len(prefix)] == prefix:
                reached, hits = reached + 1, hits + (sample.tokens[len(prefix) : len(prefix) + 1] == (reproduction["token"],))
            on_progress(samples / len(seeds))
    finally:
        pool.close()
    return samples, reached, hits


def _test_counts(concurrency: int, counts: Sequence[tuple[int, int, int]], exact: float) -> ConfirmationRun:
    """A run from the counts of one server, which are tested against the model's probability, or of two."""
    samples, reached, hits = counts[0]
    if len(counts) == 1:
        p_value = compute_rate_test(hits, [exact] * reached).p_value if reached else 1.0
        return ConfirmationRun(concurrency, samples, reached, hits, p_value)
    others, second_reached, second_hits = counts[1]
    p_value = compare_two_rates((hits, second_hits), (reached, second_reached)) if reached and second_reached else 1.0
    return ConfirmationRun(concurrency, min(samples, others), reached, hits, p_value, second_reached, second_hits)


def describe_confirmation(runs: Sequence[ConfirmationRun], exact: float) -> str:
    """What the runs show, in a few sentences. exact: the model's probability of the token; not read where there are two servers."""
    is_of_two = runs[0].second_reached is not None
    head = "Run again on both servers" if is_of_two else f"Run again, where the model says {exact:.1%}"
    counted = f"{head}. {'. '.join(map(_describe_run, runs))}."
    shows = [run.shows for run in runs]
    if not any(run.was_tested for run in runs):
        return f"{counted} So this does not say whether it shows again."
    if all(shows):
        return f"{counted} It shows again."
    if not any(shows):
        return (
            f"{counted} It did not show again. The difference was the largest of several, so the true one can be smaller than it was in the "
            "samples; or it depends on something that this request does not hold."
        )
    one, other = runs
    if not (one.was_tested and other.was_tested):
        return f"{counted} It shows again. The two runs were not compared, so this does not say whether it needs a batch."
    p_value = _compare_runs(one, other)
    if p_value > ALPHA:
        return f"{counted} It shows again. The two runs do not differ beyond chance ({format_p_value(p_value)}), so this does not say whether it needs a batch."
    if shows == [False, True]:
        return f"{counted} It shows only with several requests at a time, so the fault needs a batch."
    return f"{counted} It shows only with one request at a time."


def _describe_run(run: ConfirmationRun) -> str:
    how = "One request at a time" if run.concurrency == 1 else f"{run.concurrency} at a time"
    if not run.was_tested:
        return f"{how}: not tested, no sample{' of one server' if len(run.counts) > 1 else ''} has the prefix"
    shares = [f"{hits:,} of {reached:,} ({hits / reached:.1%})" for hits, reached in run.counts]
    return f"{how}: {' and '.join(shares)}, {format_p_value(run.p_value)}"


def _compare_runs(run: ConfirmationRun, other: ConfirmationRun) -> float:
    """p-value that no server's share differs between two runs (Bonferroni)."""
    pairs = zip(run.counts, other.counts, strict=True)
    found = [compare_two_rates((hits, again), (reached, reached_again)) for (hits, reached), (again, reached_again) in pairs]
    return min(1.0, len(found) * min(found))


def build_confirmation_record(runs: Sequence[ConfirmationRun], exact: float) -> dict[str, Any]:
    """The runs as JSON."""
    return {"runs": [asdict(run) for run in runs], "sentence": describe_confirmation(runs, exact)}
