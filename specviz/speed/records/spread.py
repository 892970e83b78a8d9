"""Whether runs of a clock lie close enough together for a verdict. What lies between them is the work of other programs."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import geometric_mean

from specviz.speed.records.estimate import MIN_RUNS, Estimate

MAX_SPREAD = 0.25  # widest middle half of a contestant's runs, as a share of their median, with which there is a verdict
MAX_INTERVAL_WIDTH = 0.4  # widest interval of a compared number, as a share of it; below 0.2 with six runs on a quiet machine


def compute_relative_iqr(values: Sequence[float]) -> float:
    """The width of the middle half of the runs of one contestant, as a share of their median."""
    ordered = sorted(values)
    count = len(ordered)
    return (ordered[3 * count // 4] - ordered[count // 4]) / ordered[count // 2]


def measure_spread(contestants: Sequence[Sequence[float]]) -> float:
    """The widest middle half of any contestant (contestants, runs), after dividing each run by its geometric mean.

    Speed-ups are ratios, which do not change if a whole run is slower; neither does this.
    """
    beside = [[seconds / geometric_mean(run) for seconds in run] for run in zip(*contestants, strict=True)]
    return max(compute_relative_iqr(column) for column in zip(*beside, strict=True))


def explain_spread(found: float, what: str) -> str:
    """A sentence if a spread is too wide for a verdict, else empty. what: whose runs, such as "one probe’s runs"."""
    if found <= MAX_SPREAD:
        return ""
    return (
        f"the middle half of {what} spans {found:.0%} of their median; at most {MAX_SPREAD:.0%} is allowed. "
        "Another program may keep this machine busy: run it again alone."
    )


def explain_interval(found: Estimate, what: str) -> str:
    """A sentence if the runs of a compared number are too few or too far apart for a verdict, else empty."""
    if found.n < MIN_RUNS:
        return f"{what} was measured in {found.n} runs; fewer than {MIN_RUNS} give no 95% interval of a median."
    if found.width <= MAX_INTERVAL_WIDTH:
        return ""
    return (
        f"the 95% interval of {what} spans {found.width:.0%} of it; at most {MAX_INTERVAL_WIDTH:.0%} is allowed. "
        "Another program may keep this machine busy: run it again alone, or with more --runs."
    )
