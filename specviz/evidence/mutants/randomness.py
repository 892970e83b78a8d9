"""Random numbers that are met twice, or are none. Each asks the seed's random numbers under another address."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from specviz.randomness import Prefix, Purpose, StreamRandomness


@dataclass(frozen=True, slots=True)
class Same:
    """The seed's random numbers as they are; what the others change one thing of."""

    randomness: StreamRandomness

    def take(self, purpose: Purpose, rows: Sequence[Prefix], node: int, depth: int) -> np.ndarray:
        return self.randomness.take(purpose, rows, node, depth)

    def stream(self, purpose: Purpose, start: int, node: int, first: int, count: int) -> np.ndarray:
        return self.randomness.stream(purpose, start, node, first, count)


class DraftAgain(Same):
    """The number that drew the rejected draft token draws its replacement as well."""

    __slots__ = ()

    def take(self, purpose, rows, node, depth):
        return self.randomness.take(Purpose.DRAFT if purpose is Purpose.RESIDUAL else purpose, rows, node, depth)

    def stream(self, purpose, start, node, first, count):
        return self.randomness.stream(Purpose.DRAFT if purpose is Purpose.RESIDUAL else purpose, start, node, first, count)


class SameAtEveryPosition(Same):
    """The generator is seeded again before each comparison: one accept random number for a whole run."""

    __slots__ = ()

    def take(self, purpose, rows, node, depth):
        if purpose is Purpose.ACCEPT:
            rows, node = [replace(row, start=0) for row in rows], 0
        return self.randomness.take(purpose, rows, node, depth)

    def stream(self, purpose, start, node, first, count):
        if purpose is Purpose.ACCEPT:
            start = node = 0
        return self.randomness.stream(purpose, start, node, first, count)


class StuckAtZero(Same):
    """Every accept random number shows 0."""

    __slots__ = ()

    def take(self, purpose, rows, node, depth):
        return np.zeros(len(rows)) if purpose is Purpose.ACCEPT else self.randomness.take(purpose, rows, node, depth)

    def stream(self, purpose, start, node, first, count):
        return np.zeros(count) if purpose is Purpose.ACCEPT else self.randomness.stream(purpose, start, node, first, count)


class ByPositionAlone(Same):
    """The address is the output position; where the round started is forgotten."""

    __slots__ = ()

    def take(self, purpose, rows, node, depth):
        return self.randomness.take(purpose, [replace(row, start=row.start + depth) for row in rows], 0, depth)

    def stream(self, purpose, start, node, first, count):
        return self.randomness.stream(purpose, start + node, 0, first, count)
