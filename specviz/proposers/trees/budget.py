"""Trees that grow where the draft is sure, up to a budget of nodes.

A tree may be cut back to its best nodes only if nothing was drawn (Li et al. 2024, EAGLE-2, re-ranking by joint confidence).
Among drawn siblings a cut would leave tokens that no longer have the distribution they were drawn from (best-drawn in
docs/reference/mistakes.md), so there the budget is spent before each draw.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from torch import Tensor

from specviz.models.base import LanguageModel
from specviz.proposers.trees.fixed import can_draw_sibling, compute_sibling_distribution, find_most_likely
from specviz.proposers.trees.growth import (
    Place,
    TreeGrowth,
    add_certain_children,
    assemble_tree,
    count_levels,
    draw_children,
    find_places,
)
from specviz.randomness import Prefix, Randomness
from specviz.verification.draft_tree import ROOT, DraftTree

Slot = TypeVar("Slot", "_IndependentSlot", "_DistinctSlot")
WIDEST = 4  # most children of a node where no shape is given


class RankedTree:
    """The ``nodes`` most likely nodes of the draft's tree by joint confidence. Nothing is drawn.

    The draft only ranks tokens, so its distributions may have any temperature. ``widths`` are the most children of each node by
    level.
    """

    name = "tree"

    def __init__(self, draft: LanguageModel, widths: Sequence[int], nodes: int):
        self.draft, self.widths, self.nodes = draft, tuple(widths), nodes

    def propose(self, rows: Sequence[Prefix], randomness: Randomness) -> DraftTree:
        trees = [TreeGrowth(row, count_levels(row, len(self.widths), self.draft.context)) for row in rows]
        lowest = {number: [ROOT] for number in range(len(trees))}
        for level, width in enumerate(self.widths):
            live = [number for number, tree in enumerate(trees) if level < tree.levels and lowest[number]]
            if not live:
                break
            places = iter(find_places(self.draft, [(trees[number], node) for number in live for node in lowest[number]]))
            for number in live:
                here = [next(places) for _ in lowest[number]]
                trees[number], lowest[number] = self._grow(trees[number], here, width)
        return assemble_tree(trees, self.name, counts_fixed=True)  # nothing is drawn

    def _grow(self, tree: TreeGrowth, places: list[Place], width: int) -> tuple[TreeGrowth, list[int]]:
        """The best nodes of a tree with its next level added, and which of them are new. A node never ranks above its parent."""
        old = len(tree.tokens)
        for _, parent, probs in places:
            tokens = find_most_likely(probs, width)
            add_certain_children(tree, parent, tokens, probs)
            above = _find_path_prob(tree, parent)
            tree.path_probs += [above * prob for prob in probs[tokens].tolist()]
        best = sorted(sorted(range(len(tree.tokens)), key=lambda node: -tree.path_probs[node])[: self.nodes])
        return _keep_nodes(tree, best), [place for place, node in enumerate(best) if node >= old]


def _keep_nodes(tree: TreeGrowth, nodes: list[int]) -> TreeGrowth:
    """The tree with only these nodes, their parents among them. For trees in which nothing was drawn."""
    assert all(u is None for u in tree.uniforms), "a drawn token is never dropped"
    place = {ROOT: ROOT} | {node: index for index, node in enumerate(nodes)}
    remaining = {name: [getattr(tree, name)[node] for node in nodes] for name in ("tokens", "q", "uniforms", "path_probs")}
    return TreeGrowth(tree.row, tree.levels, parents=[place[tree.parents[node]] for node in nodes], **remaining)


class BudgetTree:
    """Drawn siblings under a budget: the place with the highest expected joint confidence gets the next node.

    On each level but the last, at most half of the remaining nodes are drawn. ``widths`` are the most children of each node by
    level.

    *distinct*: decided before each draw, given what was drawn on the level so far. Recursive rejection allows this (TokenRule).
    The number of siblings then depends on the values drawn among them, so a rule that needs it fixed never gets such a tree.

    *independent*: all numbers of a level are decided before its first draw, from the draft's distributions there and the levels
    above, as k-sequential selection needs. The c-th sibling is worth what it is expected to add: the sum over x of q(x) q(x) (1 -
    q(x))^(c - 1), for a token that is drawn and has not been drawn before. To finish one node before deciding about the next
    would be exact too; to alternate between nodes and decide from the values drawn below each would not.
    """

    name = "tree"

    def __init__(self, draft: LanguageModel, widths: Sequence[int], siblings: str, nodes: int):
        self.draft, self.widths, self.siblings, self.nodes = draft, tuple(widths), siblings, nodes

    def propose(self, rows: Sequence[Prefix], randomness: Randomness) -> DraftTree:
        trees = [TreeGrowth(row, count_levels(row, len(self.widths), self.draft.context)) for row in rows]
        ends = [(tree, ROOT) for tree in trees if tree.levels]
        for level, width in enumerate(self.widths):
            if not ends:
                break
            places_of: dict[int, list[Place]] = {}
            for place in find_places(self.draft, ends):
                places_of.setdefault(id(place[0]), []).append(place)
            ends = []
            for here in places_of.values():
                tree = here[0][0]
                left = self.nodes - len(tree.tokens)
                budget = left if level == tree.levels - 1 else -(-left // 2)
                draws = _draw_fixed_counts if self.siblings == "independent" else _draw_adaptive_counts
                grown = draws(here, min(budget, width * len(here)), width, randomness, level)
                if level + 1 < tree.levels and len(tree.tokens) < self.nodes:
                    ends += [(tree, node) for node in grown if tree.find_first_twin(node) == node]
        return assemble_tree(trees, self.name, counts_fixed=self.siblings == "independent")


def _draw_fixed_counts(places: list[Place], budget: int, width: int, randomness: Randomness, level: int) -> list[int]:
    """At most ``budget`` draws with replacement on one level of one tree, all decided before the first. Returns the new nodes."""
    slots = [_IndependentSlot(place, width) for place in places]
    chosen = [slot.place for slot in _choose_best_first(slots, budget)]
    grown = draw_children(chosen, randomness, level) if chosen else []
    for (tree, parent, probs), node in zip(chosen, grown, strict=True):
        tree.path_probs.append(_find_path_prob(tree, parent) * float(probs[tree.tokens[node]]))
    return grown


def _draw_adaptive_counts(places: list[Place], budget: int, width: int, randomness: Randomness, level: int) -> list[int]:
    """The same without replacement, each draw decided after those before it."""
    grown: list[int] = []
    for slot in _choose_best_first([_DistinctSlot(place, width) for place in places], budget):
        grown += slot.draw(randomness, level)
    return grown


def _choose_best_first(slots: Sequence[Slot], budget: int) -> Iterator[Slot]:
    """The slot worth most, the first among equals, at most ``budget`` times. It is advanced before the next choice."""
    for _ in range(budget):
        slot = max(slots, key=lambda one: one.worth)
        if slot.worth <= 0.0:
            break
        yield slot
        slot.advance()


def _find_path_prob(tree: TreeGrowth, node: int) -> float:
    """The draft's joint probability of the path down to a node, 1 for ROOT."""
    return 1.0 if node == ROOT else tree.path_probs[node]


class _IndependentSlot:
    """The next sibling below one node, drawn with replacement, and its expected worth over all earlier draws."""

    def __init__(self, place: Place, width: int):
        self.place, self.left = place, width
        tree, parent, probs = place
        self.missed, self.fresh = 1.0 - probs, probs * probs * _find_path_prob(tree, parent)
        self.worth = float(self.fresh.sum())

    def advance(self) -> None:
        self.left -= 1
        self.fresh *= self.missed
        self.worth = float(self.fresh.sum()) if self.left else 0.0


class _DistinctSlot:
    """The next sibling below one node, drawn without replacement, and its expected worth given the earlier draws."""

    def __init__(self, place: Place, width: int):
        (self.tree, self.parent, self.probs), self.width, self.count = place, width, 0
        self._update()

    def _update(self) -> None:
        if self.count == self.width or not can_draw_sibling(self.probs, self.count, "distinct"):
            self.worth = 0.0
            return
        self.next: Tensor = compute_sibling_distribution(self.tree, self.parent, self.probs, "distinct")
        self.worth = _find_path_prob(self.tree, self.parent) * float((self.probs * self.next).sum())

    def draw(self, randomness: Randomness, level: int) -> list[int]:
        nodes = draw_children([(self.tree, self.parent, self.next)], randomness, level)
        above = _find_path_prob(self.tree, self.parent)
        self.tree.path_probs += [above * float(self.probs[self.tree.tokens[node]]) for node in nodes]
        return nodes

    def advance(self) -> None:
        self.count += 1
        self._update()
