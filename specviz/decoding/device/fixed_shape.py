"""The shape of a round's draft tokens where it is the same in every round: a chain, or a tree of given widths.

Nodes are numbered as the proposers number them, since the number is part of the address of every random number. A row near its
end drafts fewer levels; its nodes are the first ones of the shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from specviz.verification.draft_tree import ROOT, build_ancestor_mask, compute_node_depths, find_children


@dataclass(frozen=True)
class FixedShape:
    """N nodes of a tree, level by level.

    parents  index of each node's parent, ROOT for the prefix
    """

    parents: tuple[int, ...]

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """Level of each node, from 0."""
        return tuple(compute_node_depths(self.parents))

    @cached_property
    def levels(self) -> tuple[tuple[int, ...], ...]:
        """Nodes of each level."""
        count = max(self.depths, default=-1) + 1
        return tuple(tuple(node for node, depth in enumerate(self.depths) if depth == level) for level in range(count))

    @cached_property
    def below(self) -> Tensor:
        """(N + 1, W) int64: children of the prefix (line 0) and of each node (line 1 + node), in order; -1 where there is none."""
        found = [find_children(self.parents, node) for node in range(ROOT, len(self.parents))]
        width = max(map(len, found))
        return torch.tensor([line + [-1] * (width - len(line)) for line in found])

    @cached_property
    def seen(self) -> Tensor:
        """(N + 1, N + 1) bool: which of the last token (0) and the nodes (1 + node) each of them sees, itself included."""
        seen = torch.zeros(len(self.parents) + 1, len(self.parents) + 1, dtype=torch.bool)
        seen[:, 0] = True
        seen[1:, 1:] = build_ancestor_mask(self.parents, len(self.parents))
        return seen

    @property
    def is_chain(self) -> bool:
        """Whether every node's parent is the node before it."""
        return self.parents == tuple(range(-1, len(self.parents) - 1))

    def count_nodes(self, levels: int) -> int:
        """Number of nodes of the first levels."""
        return sum(depth < levels for depth in self.depths)


def build_shape(widths: Sequence[int], is_drawn: bool) -> FixedShape:
    """The shape of a tree with ``widths[level]`` children below each node of the level before.

    is_drawn  whether siblings are drawn: then all first siblings of a level come before all second ones, as they are drawn; else
           the children of one node stand together
    """
    parents: list[int] = []
    ends = [ROOT]
    for width in widths:
        order = [end for _ in range(width) for end in ends] if is_drawn else [end for end in ends for _ in range(width)]
        parents += order
        ends = list(range(len(parents) - len(order), len(parents)))
    return FixedShape(tuple(parents))
