"""Trees that grow where the draft is sure, up to a number of nodes.

A tree may be cut back to its best nodes only where nothing was drawn: draft tokens made without chance are no sample, and which of
them are handed over is free (Li et al. 2024, EAGLE-2, re-ranking by joint confidence). Among drawn siblings a cut would leave
tokens that no longer have the distribution they were drawn from (best-drawn in docs/mistakes.md). There the budget acts before what is
drawn, and what is drawn stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import Tensor

from specviz.models.base import LanguageModel
from specviz.proposers.trees.fixed import likeliest, next_distribution, possible
from specviz.proposers.trees.growth import Growth, Place, certain_below, draw_below, levels_of, places_below, tree_of
from specviz.randomness import Prefix, Randomness
from specviz.verification.draft_tree import ROOT, DraftTree

WIDEST = 4  # children below a node where no shape says otherwise


class RankedTree:
    """The ``nodes`` likeliest nodes of the draft's tree by joint confidence, drafted without chance.

    draft   ranks tokens, so its distributions may be of any temperature; they are no part of what is handed over
    widths  most children below each node, level by level
    """

    name = "tree"

    def __init__(self, draft: LanguageModel, widths: Sequence[int], nodes: int):
        self.draft, self.widths, self.nodes = draft, tuple(widths), nodes

    def propose(self, rows: Sequence[Prefix], randomness: Randomness) -> DraftTree:
        trees = [Growth(row, levels_of(row, len(self.widths), self.draft.context)) for row in rows]
        lowest = {number: [ROOT] for number in range(len(trees))}
        for level, width in enumerate(self.widths):
            live = [number for number, tree in enumerate(trees) if level < tree.levels and lowest[number]]
            if not live:
                break
            places = iter(places_below(self.draft, [(trees[number], node) for number in live for node in lowest[number]]))
            for number in live:
                here = [next(places) for _ in lowest[number]]
                trees[number], lowest[number] = self._grown(trees[number], here, width)
        return tree_of(trees, self.name, counts_fixed=True)  # nothing is drawn

    def _grown(self, tree: Growth, places: list[Place], width: int) -> tuple[Growth, list[int]]:
        """The best nodes of a tree and its next level, and which of them are new. No node is surer than its parent."""
        old = len(tree.tokens)
        for _, parent, probs in places:
            tokens = likeliest(probs, width)
            certain_below(tree, parent, tokens, probs)
            above = 1.0 if parent == ROOT else tree.shares[parent]
            tree.shares += [above * share for share in probs[tokens].tolist()]
        best = sorted(sorted(range(len(tree.tokens)), key=lambda node: -tree.shares[node])[: self.nodes])
        return _only(tree, best), [place for place, node in enumerate(best) if node >= old]


def _only(tree: Growth, nodes: list[int]) -> Growth:
    """A tree of certain draft tokens with these nodes alone, parents among them."""
    assert all(tree.numbers[node] is None for node in range(len(tree.tokens))), "what was drawn is never dropped"
    place = {ROOT: ROOT} | {node: index for index, node in enumerate(nodes)}
    kept = {name: [getattr(tree, name)[node] for node in nodes] for name in ("tokens", "q", "numbers", "shares")}
    return Growth(tree.row, tree.levels, parents=[place[tree.parents[node]] for node in nodes], **kept)


class BudgetTree:
    """Drawn siblings under a budget: the place with the highest expected joint confidence gets the next node.

    On each level but the last at most half of the nodes that are left are drawn.

    *distinct*: decided before each draw, after what was drawn on the level so far. Recursive rejection allows it (TokenRule). The number
    of siblings then depends on the values drawn among them, so no rule that needs it fixed is handed such a tree.
    *independent*: all numbers of a level are decided before its first draw, from the draft's distributions there and the levels above,
    since k-sequential selection judges such siblings too and needs them fixed. The c-th of them is worth what it is expected to add:
    the sum over x of q(x) q(x) (1 - q(x))^(c - 1), a token that is drawn and has not been drawn before. Finishing one node before the
    next is decided would be as exact; deciding node by node in turns, after the values below each other, would not.

    siblings  independent or distinct; widths  most children below each node, level by level
    """

    name = "tree"

    def __init__(self, draft: LanguageModel, widths: Sequence[int], siblings: str, nodes: int):
        self.draft, self.widths, self.siblings, self.nodes = draft, tuple(widths), siblings, nodes

    def propose(self, rows: Sequence[Prefix], randomness: Randomness) -> DraftTree:
        trees = [Growth(row, levels_of(row, len(self.widths), self.draft.context)) for row in rows]
        ends = [(tree, ROOT) for tree in trees if tree.levels]
        for level, width in enumerate(self.widths):
            if not ends:
                break
            places, ends = places_below(self.draft, ends), []
            for tree in {id(tree): tree for tree, _, _ in places}.values():
                left = self.nodes - len(tree.tokens)
                share = left if level == tree.levels - 1 else -(-left // 2)
                here = [place for place in places if place[0] is tree]
                draws = _fixed_draws if self.siblings == "independent" else _adaptive_draws
                grown = draws(here, min(share, width * len(here)), width, randomness, level)
                if level + 1 < tree.levels and len(tree.tokens) < self.nodes:
                    ends += [(tree, node) for node in grown if tree.first_of(node) == node]
        return tree_of(trees, self.name, counts_fixed=self.siblings == "independent")


def _fixed_draws(places: list[Place], share: int, width: int, randomness: Randomness, level: int) -> list[int]:
    """At most ``share`` draws with replacement on one level of one tree, all decided before the first; returns the new nodes."""
    slots = [_Fresh(place, width) for place in places]
    chosen = [slot.place for slot in _best_first(slots, share)]
    grown = draw_below(chosen, randomness, level) if chosen else []
    for (tree, parent, probs), node in zip(chosen, grown, strict=True):
        tree.shares.append(_above(tree, parent) * float(probs[tree.tokens[node]]))
    return grown


def _adaptive_draws(places: list[Place], share: int, width: int, randomness: Randomness, level: int) -> list[int]:
    """The same without replacement, each decided after the draws before it."""
    grown = []
    for slot in _best_first([_Distinct(place, width) for place in places], share):
        grown += slot.draw(randomness, level)
    return grown


def _best_first(slots: Sequence[_Fresh | _Distinct], share: int) -> Iterator[_Fresh | _Distinct]:
    """The slot that is worth most, the first among equals, ``share`` times at most; it is moved on before the next is chosen."""
    for _ in range(share):
        slot = max(slots, key=lambda one: one.worth)
        if slot.worth <= 0.0:
            break
        yield slot
        slot.move_on()


def _above(tree: Growth, parent: int) -> float:
    """The draft's joint probability of the path down to a parent."""
    return 1.0 if parent == ROOT else tree.shares[parent]


class _Fresh:
    """The next sibling below one node, drawn with replacement: what it is expected to be worth over all draws before it."""

    def __init__(self, place: Place, width: int):
        self.place, self.left = place, width
        tree, parent, probs = place
        self.missed, self.fresh = 1.0 - probs, probs * probs * _above(tree, parent)
        self.worth = float(self.fresh.sum())

    def move_on(self) -> None:
        self.left -= 1
        self.fresh *= self.missed
        self.worth = float(self.fresh.sum()) if self.left else 0.0


class _Distinct:
    """The next sibling below one node, drawn without replacement, and what it is worth after the draws before it."""

    def __init__(self, place: Place, width: int):
        (self.tree, self.parent, self.probs), self.width, self.count = place, width, 0
        self._look()

    def _look(self) -> None:
        if self.count == self.width or not possible(self.probs, self.count, "distinct"):
            self.worth = 0.0
            return
        self.next: Tensor = next_distribution(self.tree, self.parent, self.probs, "distinct")
        self.worth = _above(self.tree, self.parent) * float((self.probs * self.next).sum())

    def draw(self, randomness: Randomness, level: int) -> list[int]:
        nodes = draw_below([(self.tree, self.parent, self.next)], randomness, level)
        self.tree.shares += [_above(self.tree, self.parent) * float(self.probs[self.tree.tokens[node]]) for node in nodes]
        return nodes

    def move_on(self) -> None:
        self.count += 1
        self._look()
