"""A partition of all continuations into few cells, made from the target's exact distribution before anything is drawn."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from specviz.decoding.samples import NONE, Samples
from specviz.models.base import LanguageModel
from specviz.models.paths import distributions_after

Path = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Partition:
    """Each cell is named by the beginning of a continuation: it holds all that begin so and belong to no longer name.

    names   (C) beginnings, the empty one first; every continuation falls into the cell of its longest named beginning
    masses  (C,) float64, the target's probability of each cell; they sum to 1 up to rounding
    length  L: continuations are cut to L tokens
    whole   (C,) bool: the cell is one single continuation, so that nothing can hide in it
    """

    names: tuple[Path, ...]
    masses: np.ndarray
    length: int
    whole: np.ndarray

    @property
    def pooled(self) -> float:
        """Mass of the cells that hold more than one continuation: differences inside them are not seen."""
        return float(self.masses[~self.whole].sum())

    @property
    def tells(self) -> bool:
        """Whether anything can be told on these cells: not where all continuations lie in one and the same cell."""
        possible = self.masses > 0.0
        return int(possible.sum()) > 1 or bool(self.whole[possible].all())

    @property
    def certain(self) -> bool:
        """Whether a single continuation has all the mass."""
        return int((self.masses > 0.0).sum()) == 1 and self.tells

    def counts(self, samples: Samples) -> np.ndarray:
        """How many continuations fall into each cell, (C,) int64."""
        number = {name: index for index, name in enumerate(self.names)}
        result = np.zeros(len(self.names), dtype=np.int64)
        for row, count in zip(*samples.counts(self.length), strict=True):
            text = tuple(token for token in row.tolist() if token != NONE)
            named = next(cut for cut in range(len(text), -1, -1) if text[:cut] in number)
            result[number[text[:named]]] += count
        return result


def exact_partition(
    target: LanguageModel,
    prompt: Sequence[int],
    length: int,
    cells: int,
    least: float,
    eos_token_ids: frozenset[int] = frozenset(),
) -> Partition:
    """At most ``cells`` cells, each of mass ``least`` or more, as even as the distribution allows.

    The heaviest cell gives off its likeliest next token, again and again, until there are enough; what it keeps is the cell of
    all its other continuations. Which cells there are depends on the target's distribution and on the arguments, never on draws.

    least  in (0, 1]; with n draws to come, 5 / n keeps every expected count at 5 or more
    """
    heap: list[_Open] = [_Open(-1.0, (), length == 0)]
    made: list[_Open] = []
    while heap and len(heap) + len(made) < cells:
        cell = heapq.heappop(heap)
        child = None if cell.closed else cell.give_off(target, prompt, least)
        if child is None:
            made.append(cell)
            continue
        child.closed = len(child.name) == length or child.name[-1] in eos_token_ids
        heapq.heappush(heap, cell)
        heapq.heappush(heap, child)
    made = sorted(made + heap, key=lambda cell: cell.name)
    masses = np.array([-cell.minus_mass for cell in made])
    return Partition(tuple(cell.name for cell in made), masses, length, np.array([cell.closed for cell in made]))


class _Open:
    """A cell while the partition grows: what is left of its mass, and its distribution once that was asked for."""

    def __init__(self, minus_mass: float, name: Path, closed: bool):
        self.minus_mass, self.name, self.closed = minus_mass, name, closed
        self.own = -minus_mass  # mass of the beginning itself, before anything was given off
        self.queue: list[tuple[float, int]] | None = None

    def __lt__(self, other: _Open) -> bool:
        return (self.minus_mass, self.name) < (other.minus_mass, other.name)

    def give_off(self, target: LanguageModel, prompt: Sequence[int], least: float) -> _Open | None:
        """The likeliest token that is still here, as a cell of its own; None where it or the remainder would be too light."""
        if self.queue is None:
            (_, probs), *_ = distributions_after(target, prompt, np.array([self.name], dtype=np.int64).reshape(1, -1))
            masses, ids = torch.sort(probs[0], descending=True, stable=True)
            enough = int((masses * self.own >= least).sum())
            self.queue = list(zip(masses[:enough].tolist(), ids[:enough].tolist(), strict=True))[::-1]
        if not self.queue:
            return None
        share, token = self.queue.pop()
        left = -self.minus_mass - self.own * share
        if 1e-12 < left < least:
            return None
        if left <= 1e-12:
            left = 0.0
        self.minus_mass = -left
        return _Open(-self.own * share, (*self.name, token), False)
