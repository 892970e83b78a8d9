"""Models, proposers and random numbers that differ from what the decoder relies on. ``rules`` has the rules that do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from specviz.evidence.analytic.enumeration import Address
from specviz.models.base import LanguageModel
from specviz.proposers.draft import DraftModel
from specviz.proposers.trees.fixed import FixedTree
from specviz.randomness import Prefix, Purpose, Randomness
from specviz.verification.draft_tree import ROOT, DraftTree, build_empty_tree
from specviz.verification.warp import build_one_hot, find_first_argmax


class ChangedModel:
    """Another source's distributions, (B, N + 1, V), each put through ``change``."""

    def __init__(self, source: LanguageModel, change: Callable[[Tensor], Tensor]):
        self.source, self.change = source, change
        self.vocabulary, self.context = source.vocabulary, source.context

    def compute_distributions(self, rows: Sequence[Prefix], tree: DraftTree) -> Tensor:
        return self.change(self.source.compute_distributions(rows, tree))


def concentrate_on_argmax(probs: Tensor) -> Tensor:
    """The one-hot distribution on the most likely token: what an argmax draws from."""
    return build_one_hot(find_first_argmax(probs), probs.shape[-1])


def round_probs_to_bfloat16(probs: Tensor) -> Tensor:
    """The distribution as bfloat16 holds it, eight bits to a mass, rescaled."""
    rounded = probs.to(torch.bfloat16).double()
    return rounded / rounded.sum(-1, keepdim=True).clamp(min=torch.finfo(torch.float64).tiny)


def change_temperature(probs: Tensor, factor: float) -> Tensor:
    """The distribution at ``factor`` times its temperature: masses to the power 1 / factor, rescaled.

    ``probs``: (..., V) float64. Tokens of probability 0 keep it, so what a cut removed stays removed. ``factor``: not 0. Infinity
    makes all other tokens alike; a negative one makes the least likely of them the likeliest.
    """
    return torch.where(probs > 0.0, probs.log() / factor, -torch.inf).softmax(-1)


def penalize_again(probs: Tensor, counts: Tensor, weight: float) -> Tensor:
    """The distribution after each token lost the factor ``weight`` as often as ``counts`` says, rescaled. probs, counts: (..., V)."""
    changed = probs * weight**counts
    return changed / changed.sum(-1, keepdim=True)


class PenaltyTwiceModel:
    """Another source's distributions, with the draft tokens of the round penalized once more.

    A frequency penalty f takes f off a token's logit for each time it was written, so counting it again multiplies its mass by
    ``weight`` = exp(-f / temperature).
    """

    def __init__(self, source: LanguageModel, weight: float):
        self.source, self.weight = source, weight
        self.vocabulary, self.context = source.vocabulary, source.context

    def compute_distributions(self, rows: Sequence[Prefix], tree: DraftTree) -> Tensor:
        found = self.source.compute_distributions(rows, tree)
        counts = torch.zeros_like(found)
        for index, (tokens, parents) in enumerate(zip(tree.tokens, tree.parents, strict=True)):
            for node, (token, parent) in enumerate(zip(tokens, parents, strict=True)):  # parents come before their children
                counts[index, node + 1] = counts[index, parent + 1]
                counts[index, node + 1, token] += 1.0
        return penalize_again(found, counts, self.weight)


class KeptStateModel:
    """Another source's distributions, except the first one after a rejection: that one follows the text with the rejected token left in.

    The rejected token stands before its replacement, as in the state of a convolution over two tokens that was not rolled back. ``draft``
    takes its likeliest token, so the text and the earlier rounds of a row determine which token was rejected.
    """

    def __init__(self, source: LanguageModel, draft: LanguageModel):
        self.source, self.draft = source, draft
        self.vocabulary, self.context = source.vocabulary, source.context

    def compute_distributions(self, rows: Sequence[Prefix], tree: DraftTree) -> Tensor:
        found = self.source.compute_distributions(rows, tree).clone()
        nothing = build_empty_tree(1)
        for index, row in enumerate(rows):
            if row.past and row.past[-1][1] < row.past[-1][0]:
                *before, last = row.ids
                shorter = replace(row, ids=tuple(before))
                rejected = int(self.draft.compute_distributions([shorter], nothing)[0, 0].argmax())
                found[index, 0] = self.source.compute_distributions([replace(row, ids=(*before, rejected, last))], nothing)[0, 0]
        return found


class RememberingDraft(DraftModel):
    """A draft whose rows keep how many tokens of each round were accepted, for a target that depends on it."""

    remembers = True


class RowBeforeModel:
    """Another source's distributions, one row too early: after ids it gives the one after ids[:-1]. A text of one token keeps its own.

    The source is asked about a tree whose root is the last token of the prefix, so its cache works as usual.
    """

    def __init__(self, source: LanguageModel):
        self.source, self.vocabulary, self.context = source, source.vocabulary, source.context

    def compute_distributions(self, rows: Sequence[Prefix], tree: DraftTree) -> Tensor:
        late = [int(len(row.ids) > 1) for row in rows]
        shorter = [replace(row, ids=row.ids[:-1]) if shift else row for row, shift in zip(rows, late, strict=True)]
        tokens = [row.ids[-1:] * shift + tree.tokens[i] for i, (row, shift) in enumerate(zip(rows, late, strict=True))]
        parents = [(ROOT,) * shift + tuple(one + shift for one in tree.parents[i]) for i, shift in enumerate(late)]
        grown = replace(tree, tokens=tuple(tokens), parents=tuple(parents))
        distributions = self.source.compute_distributions(shorter, grown)
        result = distributions[:, : tree.widest + 1].clone()
        for index, shift in enumerate(late):
            for node, parent in enumerate(tree.parents[index]):
                result[index, node + 1] = distributions[index, parent + 1 + shift]
        return result


class OtherRowModel:
    """Another source's distributions in another request: those after another text, whatever is asked.

    ``read_text``: (row, depth of a node) -> the text of the other request there.
    """

    def __init__(self, source: LanguageModel, read_text: Callable[[Prefix, int], tuple[int, ...]]):
        self.source, self.read_text = source, read_text
        self.vocabulary, self.context = source.vocabulary, source.context

    def compute_distributions(self, rows: Sequence[Prefix], tree: DraftTree) -> Tensor:
        device = getattr(self.source, "device", None)
        found = torch.zeros(len(rows), tree.widest + 1, self.vocabulary, dtype=torch.float64, device=device)
        for index, (row, parents) in enumerate(zip(rows, tree.parents, strict=True)):
            depths = [0]
            for parent in parents:  # parents come before their children
                depths.append(depths[parent + 1] + 1)
            for node, depth in enumerate(depths):
                other = replace(row, ids=self.read_text(row, depth))
                found[index, node] = self.source.compute_distributions([other], build_empty_tree(1))[0, 0]
        return found


class MisreportingProposer(DraftModel):
    """Draws its chain from one source and reports the distributions of another.

    ``draft``: drawn from. ``claimed``: reported to the rule in ``q``, prefix by prefix; also read by the sampler of many
    continuations.
    """

    name = "misreporting"

    def __init__(self, draft: LanguageModel, claimed: LanguageModel, gamma: int):
        super().__init__(draft, gamma)
        self.claimed = claimed

    def propose(self, rows: Sequence[Prefix], randomness: Randomness) -> DraftTree:
        tree = super().propose(rows, randomness)
        said = self.claimed.compute_distributions(rows, tree)
        return replace(tree, q=tuple(said[i, : len(tokens)] if tokens else None for i, tokens in enumerate(tree.tokens)))


class CertainProposer(DraftModel):
    """Draws its chain from the draft and reports each token as certain: q is one-hot. Exact."""

    name = "certain"

    def propose(self, rows: Sequence[Prefix], randomness: Randomness) -> DraftTree:
        tree = super().propose(rows, randomness)
        q = (
            None if one is None else build_one_hot(torch.tensor(tokens), one.shape[-1])
            for tokens, one in zip(tree.tokens, tree.q, strict=True)
        )
        return replace(tree, q=tuple(q))


class DroppingProposer(DraftModel):
    """Ends its chain before the first drawn token whose own q is below ``least``. That token is discarded."""

    name = "dropping"

    def __init__(self, draft: LanguageModel, gamma: int, least: float):
        super().__init__(draft, gamma)
        self.least = least

    def propose(self, rows: Sequence[Prefix], randomness: Randomness) -> DraftTree:
        tree = super().propose(rows, randomness)
        return select_nodes(tree, [range(self._count_until_dropped(tree, index)) for index in range(len(rows))], self.name)

    def _count_until_dropped(self, tree: DraftTree, index: int) -> int:
        unsure = (node for node, token in enumerate(tree.tokens[index]) if float(tree.q[index][node, token]) < self.least)
        return next(unsure, len(tree.tokens[index]))


class BestOfDrawnProposer(FixedTree):
    """Draws siblings without replacement and proposes only the ``nodes`` of them that the draft finds most likely."""

    name = "best of drawn"

    def __init__(self, draft: LanguageModel, width: int, nodes: int):
        super().__init__(draft, (width,), "distinct")
        self.nodes = nodes

    def propose(self, rows: Sequence[Prefix], randomness: Randomness) -> DraftTree:
        tree = super().propose(rows, randomness)
        return select_nodes(tree, [self._select_best(tree, index) for index in range(len(rows))], self.name)

    def _select_best(self, tree: DraftTree, index: int) -> list[int]:
        """In the order they were drawn. The first sibling's distribution is the draft's own."""
        tokens, q = tree.tokens[index], tree.q[index]
        return sorted(sorted(range(len(tokens)), key=lambda node: -float(q[0, tokens[node]]))[: self.nodes])


def select_nodes(tree: DraftTree, nodes: Sequence[Sequence[int]], source: str) -> DraftTree:
    """A tree with these nodes of each row alone, parents among them, each with the distribution it was drawn from."""
    places = [{ROOT: ROOT} | {node: place for place, node in enumerate(row)} for row in nodes]
    return DraftTree(
        tokens=tuple(tuple(tree.tokens[i][node] for node in row) for i, row in enumerate(nodes)),
        parents=tuple(tuple(places[i][tree.parents[i][node]] for node in row) for i, row in enumerate(nodes)),
        q=tuple(tree.q[i][list(row)] if row else None for i, row in enumerate(nodes)),
        u_draft=tuple(tuple(tree.u_draft[i][node] for node in row) for i, row in enumerate(nodes)),
        source=source,
    )


@dataclass(frozen=True, slots=True)
class ReaddressedRandomness:
    """The seed's random numbers under other addresses."""

    # the address whose number is taken instead. Purpose and node may not depend on the start
    address: Callable[[Purpose, int, int], Address]
    randomness: Any  # Randomness; StreamRandomness where samples are taken from streams

    def take(self, purpose: Purpose, rows: Sequence[Prefix], node: int, depth: int) -> np.ndarray:
        moved = [self.address(purpose, row.start, node) for row in rows]
        rows = [replace(row, start=start) for row, (_, start, _) in zip(rows, moved, strict=True)]
        return self.randomness.take(moved[0][0], rows, moved[0][2], depth)

    def stream(self, purpose: Purpose, start: int, node: int, first: int, count: int) -> np.ndarray:
        return self.randomness.stream(*self.address(purpose, start, node), first, count)


@dataclass(frozen=True, slots=True)
class ZeroAcceptanceRandomness:
    """Every random number that decides about acceptance is 0."""

    randomness: Any  # as above

    def take(self, purpose: Purpose, rows: Sequence[Prefix], node: int, depth: int) -> np.ndarray:
        return np.zeros(len(rows)) if purpose is Purpose.ACCEPT else self.randomness.take(purpose, rows, node, depth)

    def stream(self, purpose: Purpose, start: int, node: int, first: int, count: int) -> np.ndarray:
        return np.zeros(count) if purpose is Purpose.ACCEPT else self.randomness.stream(purpose, start, node, first, count)


def _draft_again(purpose: Purpose, start: int, node: int) -> Address:
    return (Purpose.DRAFT if purpose is Purpose.RESIDUAL else purpose), start, node


def _share_accept_address(purpose: Purpose, start: int, node: int) -> Address:
    return (purpose, 0, 0) if purpose is Purpose.ACCEPT else (purpose, start, node)


def _address_by_position(purpose: Purpose, start: int, node: int) -> Address:
    return purpose, start + node, 0


def _reject_again(purpose: Purpose, start: int, node: int) -> Address:
    return (Purpose.ACCEPT if purpose is Purpose.RESIDUAL else purpose), start, node


def _share_address_of_round(purpose: Purpose, start: int, node: int) -> Address:
    return (purpose, start, 0) if purpose is Purpose.ACCEPT else (purpose, start, node)


reuse_draft_numbers = partial(
    ReaddressedRandomness, _draft_again
)  # the number that drew the rejected draft token also draws its replacement
reuse_acceptance_numbers = partial(
    ReaddressedRandomness, _share_accept_address
)  # the generator is seeded again before each comparison
address_by_position = partial(ReaddressedRandomness, _address_by_position)  # of chains: the start of the round is left out
reuse_rejecting_numbers = partial(ReaddressedRandomness, _reject_again)  # the number that rejected a token draws its replacement
share_acceptance_number = partial(ReaddressedRandomness, _share_address_of_round)  # one for all draft tokens of a round
