"""A row's tree while it is being drafted: nodes in the order in which they are drawn, parents before children."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from specviz.models.base import LanguageModel
from specviz.randomness import Prefix, Purpose, Randomness
from specviz.verification.draft_tree import DraftTree
from specviz.verification.draw import draw_tokens, stack_rows
from specviz.verification.warp import build_one_hot


@dataclass(slots=True)
class TreeGrowth:
    """The draft tokens of one row so far. Nodes are only added; there is no way to remove one."""

    row: Prefix
    levels: int  # most draft tokens on a path
    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    q: list[Tensor] = field(default_factory=list)  # (V,) float64 for each node: the very distribution it was drawn from
    # the random number that drew each node, None where nothing was drawn
    uniforms: list[float | None] = field(default_factory=list)
    # the draft's joint probability of the path down to each node, if the proposer keeps track of it
    path_probs: list[float] = field(default_factory=list)

    def add(self, parent: int, token: int, probs: Tensor, u: float | None) -> int:
        """Add a node below ``parent``. Returns its index."""
        self.parents.append(parent)
        self.tokens.append(token)
        self.q.append(probs)
        self.uniforms.append(u)
        return len(self.tokens) - 1

    def list_children(self, parent: int) -> list[int]:
        """Nodes below a parent, in the order they were drawn."""
        return [node for node, above in enumerate(self.parents) if above == parent]

    def find_first_twin(self, node: int) -> int:
        """The first sibling with the same token; the node itself if there is no earlier one.

        Once it is rejected, the token rule never accepts a later twin. k-sequential selection may; the round then ends there as
        after any leaf.
        """
        return next(other for other in self.list_children(self.parents[node]) if self.tokens[other] == self.tokens[node])


Place = tuple[TreeGrowth, int, Tensor]  # a tree, the node below which a token may be drawn, the draft's distribution there (V,)


def count_levels(row: Prefix, most: int, context: int | None) -> int:
    """Most draft tokens on a path: one token is left for the rule to add, and the draft's context is not exceeded."""
    levels = min(most, row.remaining - 1)
    if context is not None:
        levels = min(levels, context - len(row.ids) + 1)
    return max(0, levels)


def find_places(draft: LanguageModel, ends: Sequence[tuple[TreeGrowth, int]]) -> list[Place]:
    """Each (tree, node) with the draft's distribution after it, from one draft pass over all nodes of those trees."""
    trees = list({id(tree): tree for tree, _ in ends}.values())
    distributions = draft.compute_distributions([tree.row for tree in trees], assemble_token_tree(trees))
    index = {id(tree): number for number, tree in enumerate(trees)}
    return [(tree, node, distributions[index[id(tree)], node + 1]) for tree, node in ends]


def assemble_tree(trees: Sequence[TreeGrowth], source: str, counts_fixed: bool = False) -> DraftTree:
    """The rows' trees as one DraftTree."""
    q = tuple(stack_rows(tree.q) if tree.q else None for tree in trees)
    return replace(assemble_token_tree(trees, source), q=q, counts_fixed=counts_fixed)


def assemble_token_tree(trees: Sequence[TreeGrowth], source: str = "draft") -> DraftTree:
    """The same with q None: a language model needs only tokens and parents."""
    return DraftTree(
        tokens=tuple(tuple(tree.tokens) for tree in trees),
        parents=tuple(tuple(tree.parents) for tree in trees),
        q=(None,) * len(trees),
        u_draft=tuple(tuple(tree.uniforms) for tree in trees),
        source=source,
    )


def draw_children(places: Sequence[Place], randomness: Randomness, level: int) -> list[int]:
    """Draw one more node below each (tree, parent) from the distribution beside it, with the random number at its address.

    A tree may occur several times; its nodes are then drawn in that order. Returns the new nodes.
    """
    uniforms = _take_uniforms([tree for tree, _, _ in places], randomness, level)
    drawn = draw_tokens(stack_rows([probs for _, _, probs in places]), torch.tensor(uniforms, dtype=torch.float64)).tolist()
    return [tree.add(parent, token, probs, u) for (tree, parent, probs), token, u in zip(places, drawn, uniforms, strict=True)]


def _take_uniforms(trees: Sequence[TreeGrowth], randomness: Randomness, level: int) -> list[float]:
    """The random number of each tree's next node. A tree that occurs again means the node after that."""
    sizes = {id(tree): len(tree.tokens) for tree in trees}
    places: dict[int, list[int]] = {}  # node -> places in ``trees``
    for place, tree in enumerate(trees):
        places.setdefault(sizes[id(tree)], []).append(place)
        sizes[id(tree)] += 1
    uniforms = [0.0] * len(trees)
    for node, found in places.items():
        taken = randomness.take(Purpose.DRAFT, [trees[place].row for place in found], node, level).tolist()
        for place, u in zip(found, taken, strict=True):
            uniforms[place] = u
    return uniforms


def add_certain_children(tree: TreeGrowth, parent: int, tokens: Sequence[int], like: Tensor) -> list[int]:
    """Add tokens that are not drawn: no random numbers, one-hot distributions of the size and device of ``like`` (V,)."""
    if not tokens:
        return []
    distributions = build_one_hot(torch.tensor(tokens, device=like.device), len(like))
    return [tree.add(parent, token, probs, None) for token, probs in zip(tokens, distributions, strict=True)]
