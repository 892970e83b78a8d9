"""Random numbers that are used twice, or are none: the seed's random numbers, asked for under other addresses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from specviz.evidence.enumeration.boxes import Address
from specviz.randomness import Prefix, Purpose, StreamRandomness


@dataclass(frozen=True, slots=True)
class Readdressed:
    """The seed's random numbers under other addresses.

    address  the address whose number is taken instead. Purpose and node may not depend on the start
    """

    address: Callable[[Purpose, int, int], Address]
    randomness: StreamRandomness

    def take(self, purpose: Purpose, rows: Sequence[Prefix], node: int, depth: int) -> np.ndarray:
        moved = [self.address(purpose, row.start, node) for row in rows]
        rows = [replace(row, start=start) for row, (_, start, _) in zip(rows, moved, strict=True)]
        return self.randomness.take(moved[0][0], rows, moved[0][2], depth)

    def stream(self, purpose: Purpose, start: int, node: int, first: int, count: int) -> np.ndarray:
        return self.randomness.stream(*self.address(purpose, start, node), first, count)


@dataclass(frozen=True, slots=True)
class StuckAtZero:
    """Every random number that decides about acceptance is 0."""

    randomness: StreamRandomness

    def take(self, purpose: Purpose, rows: Sequence[Prefix], node: int, depth: int) -> np.ndarray:
        return np.zeros(len(rows)) if purpose is Purpose.ACCEPT else self.randomness.take(purpose, rows, node, depth)

    def stream(self, purpose: Purpose, start: int, node: int, first: int, count: int) -> np.ndarray:
        return np.zeros(count) if purpose is Purpose.ACCEPT else self.randomness.stream(purpose, start, node, first, count)


def _draft_again(purpose: Purpose, start: int, node: int) -> Address:
    return (Purpose.DRAFT if purpose is Purpose.RESIDUAL else purpose), start, node


def _same_at_every_position(purpose: Purpose, start: int, node: int) -> Address:
    return (purpose, 0, 0) if purpose is Purpose.ACCEPT else (purpose, start, node)


def _by_position_alone(purpose: Purpose, start: int, node: int) -> Address:
    return purpose, start + node, 0


draft_again = partial(Readdressed, _draft_again)  # the number that drew the rejected draft token also draws its replacement
same_at_every_position = partial(Readdressed, _same_at_every_position)  # the generator is seeded again before each comparison
by_position_alone = partial(Readdressed, _by_position_alone)  # of chains: where the round started is forgotten
