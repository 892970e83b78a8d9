"""Trees that grow where the draft is sure, up to a number of nodes.

A tree may be cut back to its best nodes only where nothing was drawn: guesses made without chance are no sample, and which of
them are handed over is free (Li et al. 2024, EAGLE-2, re-ranking by joint confidence). Among drawn siblings a cut would leave
tokens that no longer have the law they were drawn from (best-drawn in docs/mistakes.md). There the budget acts before each
draw, and what is drawn stays.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specviz.models.base import LawSource
from specviz.proposers.trees.fixed import likeliest, next_law, possible
from specviz.proposers.trees.growth import Growth, Place, block_of, certain_below, draw_below, levels_of, places_below
from specviz.randomness import Coins, Prefix
from specviz.verification.draft_tree import ROOT, Block

WIDEST = 4  # children below a node where no shape says otherwise


class RankedTree:
    """The ``nodes`` likeliest nodes of the draft's tree by joint confidence, guessed without chance.

    draft   ranks tokens, so its laws may be of any temperature; they are no part of what is handed over
    widths  most children below each node, level by level
    """

    name = "tree"

    def __init__(self, draft: LawSource, widths: Sequence[int], nodes: int):
        self.draft, self.widths, self.nodes = draft, tuple(widths), nodes

    def propose(self, rows: Sequence[Prefix], coins: Coins) -> Block:
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
        return block_of(trees, self.name)

    def _grown(self, tree: Growth, places: list[Place], width: int) -> tuple[Growth, list[int]]:
        """The best nodes of a tree and its next level, and which of them are new. No node is surer than its parent."""
        old = len(tree.tokens)
        for _, parent, law in places:
            tokens = likeliest(law, width)
            certain_below(tree, parent, tokens, law)
            above = 1.0 if parent == ROOT else tree.shares[parent]
            tree.shares += [above * share for share in law[tokens].tolist()]
        best = sorted(sorted(range(len(tree.tokens)), key=lambda node: -tree.shares[node])[: self.nodes])
        return _only(tree, best), [place for place, node in enumerate(best) if node >= old]


def _only(tree: Growth, nodes: list[int]) -> Growth:
    """A tree of certain guesses with these nodes alone, parents among them."""
    assert all(tree.numbers[node] is None for node in range(len(tree.tokens))), "what was drawn is never dropped"
    place = {ROOT: ROOT} | {node: index for index, node in enumerate(nodes)}
    kept = {name: [getattr(tree, name)[node] for node in nodes] for name in ("tokens", "q", "numbers", "shares")}
    return Growth(tree.row, tree.levels, parents=[place[tree.parents[node]] for node in nodes], **kept)


class BudgetTree:
    """Drawn siblings under a budget: before each draw the place with the highest expected joint confidence gets the next node.

    On each level but the last at most half of the nodes that are left are drawn. What is decided depends on earlier draws and
    on laws before their draw, never on the token about to be drawn.

    siblings  independent or distinct; widths  most children below each node, level by level
    """

    name = "tree"

    def __init__(self, draft: LawSource, widths: Sequence[int], siblings: str, nodes: int):
        self.draft, self.widths, self.siblings, self.nodes = draft, tuple(widths), siblings, nodes

    def propose(self, rows: Sequence[Prefix], coins: Coins) -> Block:
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
                grown = self._draws(here, min(share, width * len(here)), width, coins, level)
                if level + 1 < tree.levels and len(tree.tokens) < self.nodes:
                    ends += [(tree, node) for node in grown if tree.first_of(node) == node]
        return block_of(trees, self.name)

    def _draws(self, places: list[Place], share: int, width: int, coins: Coins, level: int) -> list[int]:
        """At most ``share`` draws on one level of one tree; returns the new nodes."""
        slots = [_Slot(place, width, self.siblings) for place in places]
        grown = []
        for _ in range(share):
            slot = max(slots, key=lambda one: one.worth)  # the first among equals
            if slot.worth <= 0.0:
                break
            grown += slot.draw(coins, level)
        return grown


class _Slot:
    """The next sibling below one node: the law it would be drawn from, and its expected joint confidence, before any draw."""

    def __init__(self, place: Place, width: int, siblings: str):
        self.tree, self.parent, self.law = place
        self.width, self.siblings, self.count = width, siblings, 0
        self.above = 1.0 if self.parent == ROOT else self.tree.shares[self.parent]
        self._look()

    def _look(self) -> None:
        if self.count == self.width or not possible(self.law, self.count, self.siblings):
            self.worth = 0.0
            return
        self.next: Tensor = next_law(self.tree, self.parent, self.law, self.siblings)
        fresh = self.law
        if self.siblings == "independent":  # a twin is worth nothing
            drawn = [self.tree.tokens[node] for node in self.tree.below(self.parent)]
            fresh = self.law.index_fill(0, torch.tensor(drawn, dtype=torch.int64, device=self.law.device), 0.0)
        self.worth = self.above * float((fresh * self.next).sum())

    def draw(self, coins: Coins, level: int) -> list[int]:
        nodes = draw_below([(self.tree, self.parent, self.next)], coins, level)
        self.tree.shares += [self.above * float(self.law[self.tree.tokens[node]]) for node in nodes]
        self.count += 1
        self._look()
        return nodes
