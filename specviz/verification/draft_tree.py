"""What a proposer returns: for each row a small tree of draft tokens, each with the distribution it was drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

ROOT = -1
KEPT_WIDTH = 256  # nodes up to which masks are kept: 64 KB each


@dataclass(frozen=True, slots=True)
class DraftTree:
    """Draft tokens of B rows, scored in one target pass. A chain is a tree in which every node has at most one child."""

    tokens: tuple[tuple[int, ...], ...]  # per row the ids of its nodes, parents before children; rows may differ in length
    # per row the index of each node's parent, ROOT (-1) for the prefix; siblings are in the order they were drawn
    parents: tuple[tuple[int, ...], ...]
    # per row (N, V) float64: node i was drawn from q[i], this very array; a greedy proposer gives one-hot rows
    q: tuple[Tensor, ...]
    u_draft: tuple[tuple[float | None, ...], ...]  # per row the random number that drew each node, None where nothing was drawn
    source: str  # name of the proposer
    # whether the number of children of each node was decided before the first of them was drawn. True for every chain, also for
    # one whose length is decided on the way: whether there is a next token is known before that token is drawn. By default False;
    # a rule that needs it then raises SettingsError (docs/explanation/exactness.md)
    counts_fixed: bool = False

    @property
    def widest(self) -> int:
        """Largest number of nodes in a row."""
        return max(map(len, self.tokens), default=0)

    @property
    def is_chain(self) -> bool:
        """Whether every node's parent is the node before it."""
        return all(parents == tuple(range(-1, len(parents) - 1)) for parents in self.parents)


@lru_cache(maxsize=64)
def build_empty_tree(rows: int, source: str = "none") -> DraftTree:
    """A tree without draft tokens: the target pass then gives only the distribution after each prefix."""
    return DraftTree(((),) * rows, ((),) * rows, (None,) * rows, ((),) * rows, source, counts_fixed=True)


def build_token_tree(tokens: Sequence[tuple[int, ...]], parents: Sequence[tuple[int, ...]], source: str = "tokens") -> DraftTree:
    """A tree of tokens that were not drawn, for a language model, which needs no more than tokens and parents."""
    undrawn = tuple((None,) * len(row) for row in tokens)
    return DraftTree(tuple(tokens), tuple(parents), (None,) * len(tokens), undrawn, source)


def find_children(parents: tuple[int, ...], node: int) -> list[int]:
    """Indices of a node's children, in the order they were proposed."""
    return [index for index, parent in enumerate(parents) if parent == node]


def compute_node_depth(parents: tuple[int, ...], node: int) -> int:
    """Depth of a node: 0 for a child of the prefix, -1 for ROOT."""
    steps = -1
    while node != ROOT:
        node, steps = parents[node], steps + 1
    return steps


def compute_node_depths(parents: tuple[int, ...]) -> list[int]:
    """``compute_node_depth`` of every node."""
    found: list[int] = []
    for parent in parents:
        found.append(0 if parent == ROOT else found[parent] + 1)
    return found


def list_node_texts(ids: tuple[int, ...], tree: DraftTree, index: int) -> list[tuple[int, ...]]:
    """The text before each of a row's distributions: its prefix ``ids``, then the prefix with the path down to each node."""
    found = [ids]
    for token, parent in zip(tree.tokens[index], tree.parents[index], strict=True):
        found.append((*found[parent + 1], token))
    return found


def build_ancestor_mask(parents: tuple[int, ...], width: int) -> Tensor:
    """Tree attention mask, (width, width) bool: which nodes of a row each node sees, itself included. Padding sees nothing."""
    return (_build_ancestor_mask if width <= KEPT_WIDTH else _build_ancestor_mask.__wrapped__)(parents, width)


@lru_cache(maxsize=256)
def _build_ancestor_mask(parents: tuple[int, ...], width: int) -> Tensor:
    seen, above = np.zeros((width, width), dtype=bool), np.array(parents, dtype=np.int64)
    nodes = here = np.arange(len(above))
    while len(nodes):  # a level up in each step
        seen[nodes, here] = True
        here = above[here]
        nodes, here = nodes[here != ROOT], here[here != ROOT]
    return torch.from_numpy(seen)
