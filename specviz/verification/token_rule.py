"""The one home of the rule: threshold, residual, and which tokens are committed.

Leviathan et al. 2023, Algorithm 1 (p target, q draft); Chen et al. 2023, Algorithm 2, where the letters are swapped. For
trees the residual of a rejected sibling meets the next one (Miao et al. 2024, SpecInfer, multi-step speculative sampling).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from specviz.randomness import Prefix, Purpose, Randomness
from specviz.trace import Decision, Ending, Outcome
from specviz.verification.comparisons import judged
from specviz.verification.draft_tree import ROOT, DraftTree, children
from specviz.verification.draw import draw, rows_of

Number = TypeVar("Number", float, Tensor)


@dataclass(frozen=True, slots=True)
class Shown:
    """What can be drawn of a rule at one node, each (V,) float64.

    probs      what the node's random number meets: p after its parent, or the residual that its rejected sibling left
    overlap  how much of each token a draft token there keeps; min(distribution, q) under the token rule
    left     what a replacement is drawn from, not rescaled; max(0, distribution - q) under the token rule, all zero where none can follow
    """

    probs: Tensor
    overlap: Tensor
    left: Tensor


class Rule(Protocol):
    """Decides what is committed. ``verify`` looks at proposals, distributions and random numbers, and at nothing else.

    name   by which settings ask for it; title  for a person, with the word lossy where it is
    exact  whether what it writes has the target's distribution
    """

    name: str
    title: str
    exact: bool

    def verify(self, rows: Sequence[Prefix], block: DraftTree, p: Tensor, randomness: Randomness) -> tuple[Outcome, ...]:
        """p: (B, N + 1, V) float64, p[:, 0] after the prefix, p[:, 1 + i] after node i. One Outcome per row.

        Raises SettingsError for a block that the rule cannot judge.
        """
        ...

    def shown(self, block: DraftTree, index: int, p: Tensor, node: int) -> Shown:
        """What can be drawn of row ``index`` at one node, from p (N + 1, V) of that row."""
        ...


class EmptyResidual(ArithmeticError):
    """p <= q everywhere: the distributions are equal and a rejection has probability 0."""


def threshold(p: float, q: float) -> float:
    """Probability with which a token drawn from q is kept: min(1, p / q). q > 0, since the token was drawn."""
    return min(1.0, p / q)


def accepts(u: Number, p: Number, q: Number) -> Number:
    """u * q < p, strictly: a token of p = 0 is refused even by u = 0, one with p >= q is kept by every u below 1.

    Numbers or float64 tensors of one shape; returns a bool, or a bool tensor.
    """
    return judged(u * q < p, u, p, q)


def residual(p: Tensor, q: Tensor) -> Tensor:
    """Distribution of the replacement after a rejection: max(0, p - q), rescaled to sum to 1.

    Leviathan et al. 2023, Algorithm 1; Chen et al. 2023, Algorithm 2, where the letters p and q are swapped.

    p, q     (..., V) float64, rows sum to 1
    returns  (..., V) float64, rows sum to 1, zero wherever q >= p

    Raises EmptyResidual where p <= q everywhere: then p equals q and a rejection has probability 0.
    """
    left = (p - q).clamp_(min=0.0)
    total = left.sum(-1, keepdim=True)
    if not float(total.min()) > 0.0:
        raise EmptyResidual
    return left.div_(total)


class TokenRule:
    """Token by token: keep with probability min(1, p/q), else replace from the residual and stop. Exact.

    On a tree the siblings under a kept node are tried in the order they were proposed; each refusal replaces p by the
    residual, and after the last one the replacement is drawn from it. After a kept leaf the bonus is drawn from p itself.

    How many siblings there are may depend on the values drawn before: once x_1 is rejected the target is the residual r, whatever x_1
    was, and both ways on give r: another sibling drawn from its own q and tested against r, or a replacement drawn from r itself. So
    which way is taken may depend on x_1, though never on the random number that rejected it nor on the sibling about to be drawn.
    """

    name, title = "token", "token by token"
    exact = True

    def verify(self, rows: Sequence[Prefix], block: DraftTree, p: Tensor, randomness: Randomness) -> tuple[Outcome, ...]:
        walks = [self.walk(block, index, row, p[index], randomness) for index, row in enumerate(rows)]
        return ended(walks)

    def walk(self, block: DraftTree, index: int, row: Prefix, p: Tensor, randomness: Randomness) -> Walk:
        return Walk(self, block, index, row, p, randomness)

    # The decisions about one token. ``verify`` and the sampler of many continuations make them here and nowhere else.

    def at(self, p: Tensor) -> TokenRule:
        """The rule where the target's distribution is p, (V,): itself, unless it looks at more of p than the token's own share."""
        return self

    def threshold(self, p: float, q: float) -> float:
        return threshold(p, q)

    def accepts(self, u: Number, p: Number, q: Number) -> Number:
        return accepts(u, p, q)

    def replacement(self, p: Tensor, q: Tensor) -> Tensor:
        return residual(p, q)

    def bonus(self, p: Tensor) -> Tensor:
        """The distribution of the token after a block that was kept whole, (V,)."""
        return p

    def shown(self, block: DraftTree, index: int, p: Tensor, node: int) -> Shown:
        parents, q = block.parents[index], block.q[index]
        probs = p[parents[node] + 1]
        for sibling in children(parents, parents[node]):
            if sibling == node:
                break
            probs = residual(probs, q[sibling])
        return Shown(probs, torch.minimum(probs, q[node]), (probs - q[node]).clamp(min=0.0))


class Walk:
    """One row's way through its tree: which nodes were looked at, what each met, and the distribution the ending is drawn from.

    ``first_accepted`` decides about the children of one node; a rule that treats siblings otherwise replaces it.
    """

    def __init__(self, rule: TokenRule, block: DraftTree, index: int, row: Prefix, p: Tensor, randomness: Randomness):
        self.rule = rule
        self.tokens, self.parents, self.q = block.tokens[index], block.parents[index], block.q[index]
        self.u_draft, self.source = block.u_draft[index], block.source
        self.row, self.p, self.randomness = row, p, randomness
        self.p_token, self.q_token = at_tokens(p, self.q, self.tokens, self.parents)
        self.looked: dict[
            int, tuple[float, float, float, bool]
        ] = {}  # node -> p that the random number met, random number, threshold, accepted
        self.path: list[int] = []
        self.refused: int | None = None  # last sibling refused under the last kept node
        self.probs = p[0]
        node = ROOT
        while siblings := children(self.parents, node):
            node = self.first_accepted(node, siblings)
            if node == ROOT:
                break
        if self.refused is None:
            self.probs = rule.bonus(self.probs)

    def first_accepted(self, parent: int, siblings: list[int]) -> int:
        """The sibling that is kept, or ROOT when all are refused; ``probs`` is then what the next draw comes from."""
        probs = self.p[parent + 1]
        rule = self.rule.at(probs)
        for count, node in enumerate(siblings):
            met = self.p_token[node] if count == 0 else float(probs[self.tokens[node]])
            u = self.uniform(node)
            kept = rule.accepts(u, met, self.q_token[node])
            if not kept:
                try:
                    probs = rule.replacement(probs, self.q[node])
                except EmptyResidual:  # p equals q up to rounding: a refusal has probability 0
                    kept = True
            self.looked[node] = (met, u, rule.threshold(met, self.q_token[node]), kept)
            if kept:
                return self.keep(node)
            self.refused = node
        self.probs = probs
        return ROOT

    def uniform(self, node: int) -> float:
        """The accept random number of a node under the last kept one."""
        return float(self.randomness.take(Purpose.ACCEPT, [self.row], node, len(self.path))[0])

    def keep(self, node: int) -> int:
        self.path.append(node)
        self.probs, self.refused = self.p[node + 1], None
        return node

    def ending_uniform(self) -> float:
        if self.refused is None:
            address = (Purpose.BONUS, [self.row], len(self.tokens), len(self.path))
        else:
            address = (Purpose.RESIDUAL, [self.row], self.refused, len(self.path))
        return float(self.randomness.take(*address)[0])

    def outcome(self, token: int, u: float) -> Outcome:
        decisions = tuple(self._decision(node) for node in range(len(self.tokens)))
        return Outcome(decisions, tuple(self.path), Ending("bonus" if self.refused is None else "residual", token, u))

    def _decision(self, node: int) -> Decision:
        p, u, edge, kept = self.looked.get(node, (self.p_token[node], None, None, None))
        return Decision(
            token=self.tokens[node],
            parent=self.parents[node],
            source=self.source,
            q=self.q_token[node],
            p=p,
            u_draft=self.u_draft[node],
            u=u,
            threshold=edge,
            accepted=kept,
        )


def ended(walks: Sequence[Walk]) -> tuple[Outcome, ...]:
    """The outcomes of walks, all their last tokens drawn at once."""
    uniforms = [walk.ending_uniform() for walk in walks]
    tokens = draw(rows_of([walk.probs for walk in walks]), torch.tensor(uniforms, dtype=torch.float64)).tolist()
    return tuple(walk.outcome(token, u) for walk, token, u in zip(walks, tokens, uniforms, strict=True))


def at_tokens(p: Tensor, q: Tensor, tokens: tuple[int, ...], parents: tuple[int, ...]) -> tuple[list[float], list[float]]:
    """Target and draft probability of each proposed token, as Python floats."""
    if not tokens:
        return [], []
    above = [parent + 1 for parent in parents]
    if p.device.type == "cpu" and q.device.type == "cpu":  # numpy picks a few numbers in a tenth of the time
        of_p, of_q = p.numpy().item, q.numpy().item
        return [*map(of_p, above, tokens)], [*map(of_q, range(len(tokens)), tokens)]
    return p[above, list(tokens)].tolist(), q[list(range(len(tokens))), list(tokens)].tolist()
