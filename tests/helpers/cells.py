"""Cells for a test of draws from a known distribution: likely outcomes have one each, the others are pooled, heaviest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

LEAST = 5.0  # expected draws in a cell


class PooledCells(NamedTuple):
    """cell: (K,) of each outcome; probs: (C + 1,) of each cell, the last one for impossible outcomes, whose number is ``unlisted``."""

    cell: np.ndarray
    probs: np.ndarray
    unlisted: int

    @property
    def df(self) -> int:
        return len(self.probs) - 2


def pool_cells(probs: Sequence[float] | np.ndarray, n: int) -> PooledCells:
    """Cells for n draws: each expects LEAST draws or more. They depend on the distribution alone."""
    masses = np.asarray(probs, dtype=np.float64)
    cell, found = np.full(len(masses), -1), []
    for outcome in np.argsort(-masses, kind="stable"):
        if masses[outcome] <= 0.0:
            break
        if not found or found[-1] * n >= LEAST * (1.0 - 1e-12):
            found.append(0.0)
        found[-1] += masses[outcome]
        cell[outcome] = len(found) - 1
    if len(found) > 1 and found[-1] * n < LEAST * (1.0 - 1e-12):
        cell[cell == len(found) - 1] -= 1
        rest = found.pop()
        found[-1] += rest
    cell[cell == -1] = len(found)
    return PooledCells(cell, np.array([*found, 0.0]), len(found))
