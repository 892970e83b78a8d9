"""How often a test may reject by chance: bands of the binomial distribution, and the alternatives that are hardest to see.

Bands hold 99.99% each, so that all of this project's statistical checks together fail by chance in less than 1% of fresh
seeds. Both ends count: a test that hardly ever rejects is wrong as well.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

COVERAGE = 0.9999
SEED = 20261121  # the day of writing; every test counts on from it


def compute_band(repeats: int, rate: float) -> tuple[int, int]:
    """Fewest and most events of probability ``rate`` in so many repeats, with probability 99.99%."""
    low, high = stats.binom.interval(COVERAGE, repeats, rate)
    return int(low), int(high)


def is_in_band(events: int, repeats: int, rate: float) -> bool:
    low, high = compute_band(repeats, rate)
    return low <= events <= high


def build_least_favorable(probs: np.ndarray, tv: float) -> np.ndarray:
    """Half of the mass grows by 1 + 2 tv, the other half shrinks by 1 - 2 tv. Needs a set of cells that holds half the mass,
    here every second one, or the nearest to it: shares are then scaled so that the distance is ``tv`` all the same."""
    up = np.arange(len(probs)) % 2 == 0
    share = probs[up].sum()
    return np.where(up, probs * (1.0 + tv / share), probs * (1.0 - tv / (1.0 - share)))


def build_zipf(size: int, power: float = 1.1) -> np.ndarray:
    """A distribution like those of language: mass of rank r in proportion to r^-power."""
    masses = np.arange(1.0, size + 1.0) ** -power
    return masses / masses.sum()
