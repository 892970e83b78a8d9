"""Run the reproduction of a rejected server before it is printed: one request at a time, and several at a time.

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
from specviz.progress import ProgressCallback, ignore_progress
from specviz.statistics.finding import ALPHA, format_p_value
from specviz.statistics.positions import compute_rate_test
from specviz.statistics.twosample import compare_two_rates

MAX_SECONDS = 120.0  # seconds of one run; what it has counted by then is reported


@dataclass(frozen=True, slots=True)
class ConfirmationRun:
    """One run.

    Attributes:
        concurrency: Requests at a time.
        samples: Samples that were collected.
        reached: Samples that begin with the prefix.
        hits: Of these, those with the token after it.
        p_value: Of the count under the model's probability of the token; 1 where no sample has the prefix.
    """

    concurrency: int
    samples: int
    reached: int
    hits: int
    p_value: float

    @property
    def shows(self) -> bool:
        """Whether the run by itself rejects the model's probability."""
        return self.p_value <= ALPHA


def confirm_reproduction(
    target: AuditTarget, reproduction: dict[str, Any], seed: int, on_progress: ProgressCallback = ignore_progress
) -> list[ConfirmationRun]:
    """Both runs, with seeds of their own; one where the server is asked one request at a time anyway.

    Args:
        target: A prepared server whose answers hold token ids, or texts that are compared whole.
        reproduction: As a report against weights holds it.
        seed: Of the audit.
        on_progress: Called with the share done and what is being done; may raise to stop.

    Raises:
        EndpointError: The server fails.
    """
    sizes = sorted({1, target.preparation.size.concurrency})
    first, runs = compute_first_seed(seed, CONFIRMATION_REGION), []
    for number, concurrency in enumerate(sizes):
        doing = "the reproduction, " + ("one request at a time" if concurrency == 1 else f"{concurrency} requests at a time")
        seeds = range(first + number * reproduction["samples"], first + (number + 1) * reproduction["samples"])
        runs.append(_run(target, reproduction, concurrency, seeds, lambda share, doing=doing: on_progress(share, doing)))
    return runs


def _run(
    target: AuditTarget, reproduction: dict[str, Any], concurrency: int, seeds: Sequence[int], on_share: Any
) -> ConfirmationRun:
    profile, until = target.preparation.server.profile, time.monotonic() + MAX_SECONDS
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
            on_share(samples / len(seeds))
    finally:
        pool.close()
    p_value = compute_rate_test(hits, [reproduction["exact"]] * reached).p_value if reached else 1.0
    return ConfirmationRun(concurrency, samples, reached, hits, p_value)


def describe_confirmation(runs: Sequence[ConfirmationRun], exact: float) -> str:
    """What the runs show, in one or two sentences. exact: the model's probability of the token."""
    parts = []
    for run in runs:
        how = "One request at a time" if run.concurrency == 1 else f"{run.concurrency} at a time"
        share = f"{run.hits:,} of {run.reached:,} ({run.hits / run.reached:.1%})" if run.reached else "no sample has the prefix"
        parts.append(f"{how}: {share}, {format_p_value(run.p_value)}")
    counted = f"Run again, where the model says {exact:.1%}. {'. '.join(parts)}."
    shows = [run.shows for run in runs]
    if all(shows):
        return f"{counted} It shows again."
    if not any(shows):
        return (
            f"{counted} It did not show again. The difference was the largest of several, so the true one can be smaller than it was in the "
            "samples; or it depends on something that this request does not hold."
        )
    one, other = runs
    p_value = compare_two_rates((one.hits, other.hits), (one.reached, other.reached))
    if p_value > ALPHA:
        return f"{counted} It shows again. The two runs do not differ beyond chance ({format_p_value(p_value)}), so this does not say whether it needs a batch."
    if shows == [False, True]:
        return f"{counted} It shows only with several requests at a time, so the fault needs a batch."
    return f"{counted} It shows only with one request at a time."


def confirmation_to_record(runs: Sequence[ConfirmationRun], exact: float) -> dict[str, Any]:
    """The runs as JSON."""
    return {"runs": [asdict(run) for run in runs], "sentence": describe_confirmation(runs, exact)}
