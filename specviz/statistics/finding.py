"""The result of a test, one record for all tests, and the checks of a distribution and of counts before any test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from specviz.errors import EvidenceError

ALPHA, POWER = 0.001, 0.99  # default false-alarm rate and power of a single test
SMALLEST = 1e-300  # p-values below it are said to be below it
SUM_TOLERANCE = 1e-8  # largest allowed difference between the sum of a distribution and 1


@dataclass(frozen=True, slots=True)
class Finding:
    """One test of a sample against an exact distribution, or of two samples against each other."""

    name: str  # of the test
    n: int  # number of draws it used
    statistic: float  # its value; if impossible outcomes were drawn, its value on the others
    df: int | None  # degrees of freedom, None if the test has none
    p_value: float  # in [0, 1]; 0 if an outcome of probability 0 was drawn
    # the smallest total variation distance, of whatever this test compares, that it detects with the stated power at the stated
    # level in every direction. The whole distributions then differ by at least as much. None if no number holds for every
    # direction
    detectable_tv: float | None
    alpha: float  # alpha, power: the level and the power behind ``detectable_tv``
    power: float
    note: str = ""  # a sentence to show beside the number, or ''

    @property
    def rejected(self) -> bool:
        """Whether the test by itself, at its own level, rejects the distribution."""
        return self.p_value <= self.alpha


def tested_nothing(test: Mapping[str, Any]) -> bool:
    """Whether a test of a report had nothing to tell apart: no distance can be detected, and its note says why."""
    return test["detectable_tv"] is None and test["p_value"] == 1.0 and bool(test["note"])


def check_distribution(probs: Sequence[float] | np.ndarray, rest: float = 0.0) -> np.ndarray:
    """The masses as float64 (K,). Together with ``rest`` they must be finite, not negative, and sum to 1 within 1e-8."""
    masses = np.asarray(probs, dtype=np.float64)
    if masses.ndim != 1 or not masses.size:
        raise EvidenceError(f"A distribution must be a list of one mass or more, got an array of shape {masses.shape}.")
    if not np.isfinite(masses).all() or not np.isfinite(rest):
        raise EvidenceError("A distribution holds a mass that is not a number: every mass must be finite.")
    if min(float(masses.min()), rest) < 0.0:
        raise EvidenceError(
            f"A distribution holds a negative mass, {min(float(masses.min()), rest):.3g}: every mass must be at least 0."
        )
    total = float(masses.sum()) + rest
    if abs(total - 1.0) > SUM_TOLERANCE:
        raise EvidenceError(f"A distribution must sum to 1, got {total:.10g}.")
    return masses


def check_counts(counts: Sequence[int] | np.ndarray, size: int | None = None) -> np.ndarray:
    """The counts as int64 (K,). They must be whole and not negative, with a sum of at least 1; K must equal ``size`` if given."""
    given = np.asarray(counts)
    whole = given.astype(np.int64)
    if given.ndim != 1 or (size is not None and given.size != size):
        expected = "one list" if size is None else f"one for each of the {size} masses"
        raise EvidenceError(f"Counts must be {expected}, got an array of shape {given.shape}.")
    if not np.array_equal(whole, given) or (whole < 0).any():
        raise EvidenceError("Counts must be whole numbers of 0 or more.")
    if not whole.sum():
        raise EvidenceError("There are no draws to test: their number must be at least 1, got 0.")
    return whole


def format_p_value(p_value: float) -> str:
    """Format as p = 0.012, or as p < 1e-300 where float64 tells no more, also where an outcome of probability 0 was drawn."""
    return f"p < {SMALLEST:g}" if p_value < SMALLEST else f"p = {p_value:.2g}"


def format_p_for_table(p_value: float) -> str:
    """0.0123; < 1e-300 where float64 tells no more."""
    return f"< {SMALLEST:g}" if p_value < SMALLEST else f"{p_value:.3g}"


def format_count(count: int, noun: str) -> str:
    """1 draw, 2 draws."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def format_bytes(count: float) -> str:
    """Bytes in the unit in which they are read easily: 38.4 MB, 1.26 GB."""
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
