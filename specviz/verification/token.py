"""The token rule: Algorithm 1 of Leviathan et al. 2023, which accepts or rejects draft tokens one by one.

One round for a chain of draft tokens x_1 .. x_n, where p is the target's distribution and q the draft's:

    draw x_i from q_i                         a proposer, with the numbers of Purpose.DRAFT
    compute p_1 .. p_(n+1)                    the target, in one pass
    accept x_i while u_i q_i(x_i) < p_i(x_i)  ``accepts``: probability min(1, p/q)
    after the first rejection, draw from max(0, p_i - q_i), rescaled          ``compute_residual``
    if all are accepted, draw one more token from p_(n+1)                     the bonus token

Chen et al. 2023, Algorithm 2, is the same with the letters p and q swapped. In a tree, a rejected token's next sibling is tested
against the residual that the rejection left (Miao et al. 2024, SpecInfer, multi-step speculative sampling).

This is the reference. The batched form for devices (decoding/device/batched_rules.py) and the drawing in the browser
(assets/components/one_token/rules.js) are tested against it: tests/decoding/test_device_round.py and tests/js/one_token.test.js.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from specviz.randomness import Prefix, Purpose, Randomness
from specviz.settings import Settings
from specviz.trace import Decision, Ending, Outcome
from specviz.verification.comparison_log import report_comparison
from specviz.verification.draft_tree import ROOT, DraftTree, find_children
from specviz.verification.draw import draw_tokens, stack_rows
from specviz.verification.registry import register_rule
from specviz.verification.rule import RuleView

Number = TypeVar("Number", float, Tensor)


class EmptyResidualError(ArithmeticError):
    """p <= q everywhere: the distributions are equal and a rejection has probability 0."""


def compute_acceptance_probability(p: float, q: float) -> float:
    """Probability that a token drawn from q is accepted: min(1, p / q).

    q > 0, since the token was drawn, unless a mistake reports another q than the token was drawn from. For q = 0 this is what
    ``accepts`` does: every u accepts a token with p > 0, and none accepts one with p = 0.
    """
    return min(1.0, p / q) if q > 0.0 else float(p > 0.0)


def accepts(u: Number, p: Number, q: Number) -> Number:
    """Whether u * q < p, strictly: a token with p = 0 is rejected even by u = 0; one with p >= q is accepted by every u below 1.

    Takes numbers, or float64 tensors of one shape; returns a bool, or a bool tensor.
    """
    return report_comparison(u * q < p, u, p, q)


def judge_tokens(u: Tensor, p: Tensor, q: Tensor, mass: Tensor) -> Tensor:
    """Which of many draft tokens are accepted: those with u * q < p, and where p equals q up to rounding all of them.

    u, p and q as for ``accepts``; mass, of the same shape, is that of the residual that a rejection leaves: 0 means that there is
    none, and a rejection has probability 0. Tensor operations alone, which can be compiled: nothing is reported to a listener.
    """
    return (u * q < p) | ~(mass > 0.0)


def compute_residual(p: Tensor, q: Tensor) -> Tensor:
    """Distribution of the replacement after a rejection: max(0, p - q), rescaled to sum to 1.

    Leviathan et al. 2023, Algorithm 1; Chen et al. 2023, Algorithm 2, where the letters p and q are swapped.

    Args:
        p: (..., V) float64, rows sum to 1.
        q: (..., V) float64, rows sum to 1.

    Returns:
        (..., V) float64, rows sum to 1, zero wherever q >= p.

    Raises:
        EmptyResidualError: p <= q everywhere. Then p equals q and a rejection has probability 0.
    """
    left, total = compute_unscaled_residual(p, q)
    if not float(total.min()) > 0.0:
        raise EmptyResidualError
    return left.div_(total)


def compute_unscaled_residual(p: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
    """max(0, p - q), (..., V), not rescaled, and its sums (..., 1). A sum of 0: p <= q everywhere."""
    left = (p - q).clamp_(min=0.0)
    return left, left.sum(-1, keepdim=True)


class TokenRule:
    """Accept each draft token with probability min(1, p/q); at the first rejection draw a replacement and stop. Exact.

    In a tree the siblings below an accepted node are tested in the order in which they were proposed. Each rejection turns p into
    the residual; after the last one the replacement is drawn from it. After an accepted leaf the bonus token is drawn from p.

    The number of siblings may depend on the values drawn before. Once x_1 is rejected the target is the residual r, whatever x_1
    was, and both ways on give r: another sibling is drawn from its own q and tested against r, or a replacement is drawn from r.
    It may not depend on the random number that rejected x_1, nor on the sibling about to be drawn.
    """

    name, title = "token", "token by token"
    exact = True

    def verify(self, rows: Sequence[Prefix], tree: DraftTree, p: Tensor, randomness: Randomness) -> tuple[Outcome, ...]:
        return draw_outcomes([self.walk(tree, index, row, p[index], randomness) for index, row in enumerate(rows)])

    def walk(self, tree: DraftTree, index: int, row: Prefix, p: Tensor, randomness: Randomness) -> TreeWalk:
        return TreeWalk(self, tree, index, row, p, randomness)

    def find_accepted(self, walk: TreeWalk, parent: int, siblings: list[int]) -> int:
        """Test siblings in order. Returns the accepted one, or ROOT if all are rejected; ``walk.probs`` is then the last residual."""
        probs = walk.p[parent + 1]
        rule = self.condition_on(probs)
        for count, node in enumerate(siblings):
            p = walk.p_token[node] if count == 0 else float(probs[walk.tokens[node]])
            q, u = walk.q_token[node], walk.take_uniform(node)
            accepted = rule.accepts(u, p, q)
            if not accepted:
                try:
                    probs = rule.compute_replacement(probs, walk.q[node])
                except EmptyResidualError:  # p equals q up to rounding: a rejection has probability 0
                    accepted = True
            walk.checked[node] = Check(p, u, rule.compute_threshold(p, q), accepted)
            if accepted:
                return walk.accept(node)
            walk.rejected = node
        walk.probs = probs
        return ROOT

    # The decisions about one token. ``verify`` and the sampler of many continuations both call these.

    def condition_on(self, p: Tensor) -> TokenRule:
        """The rule where the target's distribution is p, (V,). It differs from self only if a bound depends on all of p."""
        return self

    def compute_threshold(self, p: float, q: float) -> float:
        """The bound that u is compared with."""
        return compute_acceptance_probability(p, q)

    def accepts(self, u: Number, p: Number, q: Number) -> Number:
        return accepts(u, p, q)

    def compute_replacement(self, p: Tensor, q: Tensor) -> Tensor:
        return compute_residual(p, q)

    def compute_bonus(self, p: Tensor) -> Tensor:
        """The distribution of the token after a fully accepted path, (V,)."""
        return p

    def view_node(self, tree: DraftTree, index: int, p: Tensor, node: int) -> RuleView:
        parents, q = tree.parents[index], tree.q[index]
        probs = p[parents[node] + 1]
        for sibling in find_children(parents, parents[node]):
            if sibling == node:
                break
            probs = compute_residual(probs, q[sibling])
        return RuleView(probs, torch.minimum(probs, q[node]), (probs - q[node]).clamp(min=0.0))


class Check(NamedTuple):
    """One node's test: the target probability p that it was tested with, the random number u, its bound, and the result."""

    p: float
    u: float
    threshold: float
    accepted: bool


class TreeWalk:
    """One row's walk down its tree: which nodes were checked and accepted, and the distribution of the round's last token.

    The rule decides among siblings (``find_accepted``); one that judges all draft tokens together overrides ``descend``.

    Attributes:
        checked: The Check of each node that was tested.
        path: Accepted nodes, from the root down.
        rejected: The last sibling rejected below the last accepted node, None where the path ends in a leaf.
        probs: (V,) what the last token is drawn from, not necessarily rescaled.
    """

    rule: TokenRule

    def __init__(self, rule: Any, tree: DraftTree, index: int, row: Prefix, p: Tensor, randomness: Randomness):
        self.rule = rule
        self.tokens, self.parents, self.q = tree.tokens[index], tree.parents[index], tree.q[index]
        self.u_draft, self.source = tree.u_draft[index], tree.source
        self.row, self.p, self.randomness = row, p, randomness
        self.p_token, self.q_token = gather_token_probabilities(p, self.q, self.tokens, self.parents)
        self.checked: dict[int, Check] = {}
        self.path: list[int] = []
        self.rejected: int | None = None
        self.probs = p[0]
        self.descend()

    def descend(self) -> None:
        """Walk from the root down to where the round's last token is drawn."""
        node = ROOT
        while siblings := find_children(self.parents, node):
            node = self.rule.find_accepted(self, node, siblings)
            if node == ROOT:
                break
        if self.rejected is None:
            self.probs = self.rule.compute_bonus(self.probs)

    def accept(self, node: int) -> int:
        self.path.append(node)
        self.probs, self.rejected = self.p[node + 1], None
        return node

    def take_uniform(self, node: int) -> float:
        """The random number that tests a node below the last accepted one."""
        return float(self.randomness.take(Purpose.ACCEPT, [self.row], node, len(self.path))[0])

    def take_ending_uniform(self) -> float:
        """The random number that draws the round's last token."""
        if self.rejected is None:
            address = (Purpose.BONUS, [self.row], len(self.tokens), len(self.path))
        else:
            address = (Purpose.RESIDUAL, [self.row], self.rejected, len(self.path))
        return float(self.randomness.take(*address)[0])

    def build_outcome(self, token: int, u: float) -> Outcome:
        """The record of the walk, with its last token and the number that drew it."""
        decisions = tuple(self._build_decision(node) for node in range(len(self.tokens)))
        return Outcome(decisions, tuple(self.path), Ending("bonus" if self.rejected is None else "residual", token, u))

    def _build_decision(self, node: int) -> Decision:
        p, u, threshold, accepted = self.checked.get(node, (self.p_token[node], None, None, None))
        return Decision(
            token=self.tokens[node],
            parent=self.parents[node],
            source=self.source,
            q=self.q_token[node],
            p=p,
            u_draft=self.u_draft[node],
            u=u,
            threshold=threshold,
            accepted=accepted,
        )


def draw_outcomes(walks: Sequence[TreeWalk]) -> tuple[Outcome, ...]:
    """The record of each row. The last tokens of all rows are drawn in one call."""
    uniforms = [walk.take_ending_uniform() for walk in walks]
    tokens = draw_tokens(stack_rows([walk.probs for walk in walks]), torch.tensor(uniforms, dtype=torch.float64)).tolist()
    return tuple(walk.build_outcome(token, u) for walk, token, u in zip(walks, tokens, uniforms, strict=True))


def gather_token_probabilities(
    p: Tensor, q: Tensor, tokens: tuple[int, ...], parents: tuple[int, ...]
) -> tuple[list[float], list[float]]:
    """Target and draft probability of each draft token, as Python floats."""
    if not tokens:
        return [], []
    above = [parent + 1 for parent in parents]
    if p.device.type == "cpu" and q.device.type == "cpu":  # numpy reads a few numbers in a tenth of the time
        of_p, of_q = p.numpy().item, q.numpy().item
        return [*map(of_p, above, tokens)], [*map(of_q, range(len(tokens)), tokens)]
    return p[above, list(tokens)].tolist(), q[list(range(len(tokens))), list(tokens)].tolist()


@register_rule("token", title=TokenRule.title, exact=TokenRule.exact)
def _build_token_rule(settings: Settings) -> TokenRule:
    return TokenRule()
