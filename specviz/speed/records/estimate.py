"""A measured number with a 95% interval, and whether its runs lie close enough together for a verdict. Numpy; no torch.

There are two kinds, by what was repeated:
- *runs* of a clock: the median, and the order statistics around it (``from_runs``). No distribution of the seconds is assumed, and a
  run that another program disturbed widens the interval little.
- *texts*, or kinds of text: a statistic of all of them, and its middle 95% over resamples (``from_resamples``; ``from_mean`` for a mean).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import geometric_mean, median

import numpy as np

from specviz.statistics.random_streams import RandomUse, make_generator

CONFIDENCE = 0.95
PERCENTILES = (2.5, 97.5)  # percentiles between which the middle 95% lie
MIN_RUNS = 6  # fewest runs with a 95% interval of their median: it has 1 - 2 / 2**6 = 0.969; with five runs it has 0.938
RESAMPLES = 1000  # of a mean
MAX_SPREAD = 0.25  # widest middle half of a contestant's runs, as a share of their median, with which there is a verdict
MAX_INTERVAL_WIDTH = 0.4  # widest interval of a compared number, as a share of it; below 0.2 with six runs on a quiet machine


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number, its 95% interval, the number of values it comes from, and its unit ("" for a ratio or a share).

    The median of fewer than MIN_RUNS runs has no 95% interval: low and high are then the lowest and the highest run.
    """

    value: float
    low: float
    high: float
    n: int
    unit: str = ""

    @classmethod
    def from_runs(cls, values: Sequence[float], unit: str = "") -> Estimate:
        """The median of independent repetitions, and the two of them between which the true median lies with probability 0.95 or more.

        Each value falls below the true median with probability 1/2, so the number of those that do is binomial: the k-th values
        from both ends miss it with probability 2 P(Bin(n, 1/2) < k), whatever the distribution. k is as large as that allows.
        Thompson 1936, Annals of Mathematical Statistics 7(3); David and Nagaraja 2003, Order Statistics, section 7.1.

        Raises ValueError for no values.
        """
        if not values:
            raise ValueError("no values, at least one is needed")
        ordered = sorted(values)
        inward, missed = 0, 2.0 / 2 ** len(ordered)  # probability to miss it with as many values left out at either end
        while (missed := missed + 2.0 * math.comb(len(ordered), inward + 1) / 2 ** len(ordered)) <= 1.0 - CONFIDENCE:
            inward += 1
        return cls(float(median(ordered)), float(ordered[inward]), float(ordered[-1 - inward]), len(ordered), unit)

    @classmethod
    def from_resamples(cls, value: float, many: np.ndarray, n: int, unit: str = "") -> Estimate:
        """A statistic of n units, and the middle 95% of the same statistic over samples of them, drawn with replacement.

        The percentile bootstrap: Efron 1979, Annals of Statistics 7(1).  many: (R,), one number for each resample
        """
        low, high = np.percentile(many, PERCENTILES).tolist()
        return cls(float(value), low, high, n, unit)

    @classmethod
    def from_mean(cls, values: Sequence[float], unit: str = "") -> Estimate:
        """The mean over exchangeable units, such as texts of one length, by resampling them. One unit gives an interval of width 0."""
        found = np.array(values, dtype=float)
        again = make_generator(0, RandomUse.RESAMPLED).integers(0, len(found), (RESAMPLES, len(found)))
        return cls.from_resamples(float(found.mean()), found[again].mean(1), len(found), unit)

    @classmethod
    def from_ratio(cls, parts: Sequence[float], wholes: Sequence[float], unit: str = "") -> Estimate:
        """Sum over sum of exchangeable units, such as tokens over target passes of texts, by resampling them; 0 where the wholes sum to 0."""
        found = np.array([parts, wholes], dtype=float)
        count = found.shape[1]
        weights = make_generator(0, RandomUse.RESAMPLED).multinomial(count, np.full(count, 1.0 / count), RESAMPLES)
        part, whole = weights @ found[0], weights @ found[1]
        many = np.divide(part, whole, out=np.zeros_like(part), where=whole > 0.0)
        total = float(found[1].sum())
        return cls.from_resamples(float(found[0].sum()) / total if total else 0.0, many, count, unit)

    @property
    def width(self) -> float:
        """Width of the interval, as a share of the number."""
        return (self.high - self.low) / self.value

    def convert(self, factor: float, unit: str) -> Estimate:
        """The same in another unit. factor: above 0."""
        return replace(self, value=self.value * factor, low=self.low * factor, high=self.high * factor, unit=unit)

    def format(self, form: str = ".2f") -> str:
        """Such as ``1.52 (1.46 to 1.60)``; form: of each number."""
        return f"{self.value:{form}} ({self.low:{form}} to {self.high:{form}})"


def describe_interval(runs: int) -> str:
    """What low and high of a median of so many runs are, in words."""
    return f"{CONFIDENCE:.0%} interval of {runs} runs" if runs >= MIN_RUNS else f"lowest to highest of {runs} runs"


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


def explain_spread(spread: float, runs: str) -> str:
    """A sentence if a spread is too wide for a verdict, else empty. runs: whose they are, such as "one probe’s runs"."""
    if spread <= MAX_SPREAD:
        return ""
    return (
        f"the middle half of {runs} spans {spread:.0%} of their median; at most {MAX_SPREAD:.0%} is allowed. "
        "Another program may keep this machine busy: run it again alone."
    )


def explain_interval(estimate: Estimate, quantity: str) -> str:
    """A sentence if the runs of a compared number are too few or too far apart for a verdict, else empty."""
    if estimate.n < MIN_RUNS:
        return f"{quantity} was measured in {estimate.n} runs; fewer than {MIN_RUNS} give no 95% interval of a median."
    if estimate.width <= MAX_INTERVAL_WIDTH:
        return ""
    return (
        f"the 95% interval of {quantity} spans {estimate.width:.0%} of it; at most {MAX_INTERVAL_WIDTH:.0%} is allowed. "
        "Another program may keep this machine busy: run it again alone, or with more --runs."
    )
