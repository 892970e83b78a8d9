"""A partition of all continuations into a few cells, made from the target's exact distribution before sampling."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import compress
from typing import Any

import numpy as np
import torch

from specviz.decoding.samples import Samples
from specviz.models.base import LanguageModel
from specviz.models.continuations import iterate_distributions_after

Beginning = tuple[int, ...]
NextTokens = dict[Beginning, tuple[torch.Tensor, torch.Tensor]]  # probabilities of the next token, largest first, and their ids
HEAVIEST = 4096  # next tokens that are kept of a distribution; a cell never splits off as many
EMPTY = 1e-12  # mass of a cell that rounding explains, after all of its continuations were split off


@dataclass(frozen=True, slots=True)
class Partition:
    """Cells named by prefixes. A cell holds all continuations with its prefix that do not belong to a longer named prefix."""

    # (C) prefixes, the empty one first; every continuation falls into the cell of its longest named prefix
    names: tuple[Beginning, ...]
    masses: np.ndarray  # (C,) float64, the target's probability of each cell; they sum to 1 up to rounding
    length: int  # L: continuations are truncated to L tokens
    is_whole_text: np.ndarray  # (C,) bool: the cell is a single continuation, so differences cannot hide in it

    @property
    def pooled_mass(self) -> float:
        """Mass of the cells that hold more than one continuation. Differences inside them are not seen."""
        return float(self.masses[~self.is_whole_text].sum())

    @property
    def inner_names(self) -> frozenset[Beginning]:
        """Proper beginnings of the names: a text that is none of them stays in its cell, whatever follows."""
        return frozenset(name[:length] for name in self.names for length in range(len(name)))

    @property
    def can_show_difference(self) -> bool:
        """Whether these cells can show a difference. They cannot if all continuations lie in the same cell."""
        possible = self.masses > 0.0
        return int(possible.sum()) > 1 or bool(self.is_whole_text[possible].all())

    @property
    def is_certain(self) -> bool:
        """Whether a single continuation has probability 1."""
        return int((self.masses > 0.0).sum()) == 1 and self.can_show_difference

    def count_samples(self, samples: Samples) -> np.ndarray:
        """Number of samples in each cell, (C,) int64."""
        cell = build_prefix_index(self.names).find_cells(samples.tokens[:, : self.length])
        return np.bincount(cell, minlength=len(self.names)).astype(np.int64)

    def without_impossible(self) -> Partition:
        """Without cells that the target never writes. The first cell stays, for all other texts."""
        keep = self.masses > 0.0
        keep[0] = True
        return replace(
            self, names=tuple(compress(self.names, keep)), masses=self.masses[keep], is_whole_text=self.is_whole_text[keep]
        )

    def to_record(self) -> dict[str, Any]:
        """JSON-ready."""
        names = [list(name) for name in self.names]
        return {"names": names, "masses": self.masses.tolist(), "length": self.length, "whole": self.is_whole_text.tolist()}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Partition:
        names = tuple(tuple(name) for name in record["names"])
        return cls(names, np.array(record["masses"]), record["length"], np.array(record["whole"]))


class PrefixIndex:
    """The cells' names as a tree: a text follows it token by token, and lies in the cell of the last name on its way."""

    def __init__(self, names: Sequence[Beginning]):
        nodes: dict[Beginning, int] = {(): 0}
        for name in names:
            for length in range(1, len(name) + 1):
                nodes.setdefault(name[:length], len(nodes))
        cell_of = {name: number for number, name in enumerate(names)}
        cells = [cell_of[()]] * len(nodes)
        for node_name, node in sorted(nodes.items(), key=lambda one: len(one[0])):
            cells[node] = cell_of.get(node_name, cells[nodes[node_name[:-1]]])
        self.cells = np.array(cells)  # (nodes,) of each node, the cell of its longest name
        self.depth = max(map(len, nodes))
        self.width = 1 + max((token for name in names for token in name), default=0)  # an edge is its parent * width + its token
        edges = sorted((nodes[name[:-1]] * self.width + name[-1], node) for name, node in nodes.items() if name)
        self.edges = np.array([edge for edge, _ in edges], dtype=np.int64)
        self.children = np.array([node for _, node in edges], dtype=np.int64)

    def find_cells(self, texts: np.ndarray) -> np.ndarray:
        """The cell of each text, (N, L) ids -> (N,) int64."""
        node = np.zeros(len(texts), dtype=np.int64)
        going = np.arange(len(texts))  # the texts that have not left the tree
        for place in range(min(self.depth, texts.shape[1])):
            token = texts[going, place].astype(np.int64)
            edge = node[going] * self.width + token
            at = np.minimum(np.searchsorted(self.edges, edge), len(self.edges) - 1)
            follows = (self.edges[at] == edge) & (token >= 0) & (token < self.width)
            going, at = going[follows], at[follows]
            node[going] = self.children[at]
        return self.cells[node]


@lru_cache(maxsize=64)
def build_prefix_index(names: tuple[Beginning, ...]) -> PrefixIndex:
    """The index of a partition's names, made once."""
    return PrefixIndex(names)


def build_partition(
    target: LanguageModel,
    prompt: Sequence[int],
    length: int,
    cells: int,
    min_mass: float,
    eos_token_ids: frozenset[int] = frozenset(),
    next_tokens: NextTokens | None = None,
) -> Partition:
    """At most ``cells`` cells, each of mass ``min_mass`` or more, as even as the distribution allows.

    The heaviest cell splits off its most probable next token, again and again, until there are enough cells; it keeps all its other
    continuations. The cells depend on the target's distribution and on the arguments, never on samples.

    min_mass     in (0, 1]; for n samples, 5 / n makes every expected count at least 5
    next_tokens  the target's next tokens after beginnings, for several partitions of one prompt; it grows
    """
    next_tokens = {} if next_tokens is None else next_tokens
    open_: list[_GrowingCell] = [_GrowingCell(-1.0, (), length == 0)]
    made: list[_GrowingCell] = []
    while open_ and len(open_) + len(made) < cells:
        cell = heapq.heappop(open_)
        child = None if cell.closed else cell.split_off(target, prompt, min_mass, next_tokens)
        if child is None:
            made.append(cell)
            continue
        child.closed = len(child.name) == length or child.name[-1] in eos_token_ids
        heapq.heappush(open_, cell)
        heapq.heappush(open_, child)
    made = sorted(made + open_, key=lambda cell: cell.name)
    masses = np.array([-cell.minus_mass for cell in made])
    return Partition(tuple(cell.name for cell in made), masses, length, np.array([cell.closed for cell in made]))


def sort_heaviest(probs: torch.Tensor, count: int = HEAVIEST) -> tuple[torch.Tensor, torch.Tensor]:
    """The ``count`` largest probabilities of (V,), largest first, and their ids; among equals the smaller id comes first."""
    if count >= len(probs):
        return torch.sort(probs, descending=True, stable=True)
    ids = torch.nonzero(probs >= probs.topk(count).values[-1])[:, 0]
    masses, order = torch.sort(probs[ids], descending=True, stable=True)
    return masses[:count].clone(), ids[order[:count]]


class _GrowingCell:
    """A cell while the partition grows: its remaining mass, and its next tokens once they were computed."""

    def __init__(self, minus_mass: float, name: Beginning, closed: bool):
        self.minus_mass, self.name, self.closed = minus_mass, name, closed
        self.own = -minus_mass  # mass of the prefix itself, before anything was split off
        self.queue: list[tuple[float, int]] | None = None

    def __lt__(self, other: _GrowingCell) -> bool:
        return (self.minus_mass, self.name) < (other.minus_mass, other.name)

    def split_off(
        self, target: LanguageModel, prompt: Sequence[int], least: float, next_tokens: NextTokens
    ) -> _GrowingCell | None:
        """Split off the most probable remaining token as a new cell; None if it or the remainder would be too light."""
        if self.queue is None:
            if self.name not in next_tokens:
                (_, probs), *_ = iterate_distributions_after(target, prompt, np.array([self.name], dtype=np.int64).reshape(1, -1))
                next_tokens[self.name] = sort_heaviest(probs[0])
            masses, ids = next_tokens[self.name]
            enough = int((masses * self.own >= least).sum())
            self.queue = list(zip(masses[:enough].tolist(), ids[:enough].tolist(), strict=True))[::-1]
        if not self.queue:
            return None
        probability, token = self.queue.pop()
        left = -self.minus_mass - self.own * probability
        if EMPTY < left < least:
            return None
        if left <= EMPTY:
            left = 0.0
        self.minus_mass = -left
        return _GrowingCell(-self.own * probability, (*self.name, token), False)
