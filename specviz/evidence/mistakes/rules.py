"""Rules with one mistake each: a decision of the token rule made otherwise, or what it decided committed otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from specviz.evidence.mistakes.components import change_temperature, concentrate_on_argmax
from specviz.randomness import Prefix, Purpose, Randomness
from specviz.trace import Decision, Ending, Outcome
from specviz.verification.comparison_log import report_comparison
from specviz.verification.draft_tree import ROOT, DraftTree
from specviz.verification.draw import draw_tokens
from specviz.verification.token import Check, EmptyResidualError, Number, TokenRule, TreeWalk
from specviz.verification.warp import build_one_hot


class TargetReplacementRule(TokenRule):
    """The replacement is drawn from p itself."""

    name, exact = "replacement from p", False

    def compute_replacement(self, p: Tensor, q: Tensor) -> Tensor:
        return p


class ListResidualRule(TokenRule):
    """The residual is subtracted between two shortened lists, place by place, whatever tokens stand there."""

    name, exact = "residual by place in a list", False

    def compute_replacement(self, p: Tensor, q: Tensor) -> Tensor:
        possible, other = p.nonzero().flatten(), q.nonzero().flatten()
        shared = min(len(possible), len(other))
        left = p[possible]
        left[:shared] -= q[other[:shared]]
        left.clamp_(min=0.0)
        if not bool(left.sum() > 0.0):
            raise EmptyResidualError
        return torch.zeros_like(p).scatter_(0, possible, left / left.sum())


class NonStrictRule(TokenRule):
    """u * q <= p: a random number of 0 accepts a token that the target excludes."""

    name, exact = "not strict", False

    def accepts(self, u: Number, p: Number, q: Number) -> Number:
        return report_comparison(u * q <= p, u, p, q)


class DrawPerPathRule(TokenRule):
    """Each sibling is compared with a target draw of its own: accepted with probability p(x), and p stays p for the next one."""

    name, exact = "one target draw per path", False

    def compute_threshold(self, p: float, q: float) -> float:
        return p

    def accepts(self, u: Number, p: Number, q: Number) -> Number:
        return report_comparison(u < p, u, p)

    def compute_replacement(self, p: Tensor, q: Tensor) -> Tensor:
        return p


class GreedyEndingRule(TokenRule):
    """The softmax comparison stays; what is drawn after it is an argmax."""

    name, exact = "argmax after a softmax comparison", False

    def compute_replacement(self, p: Tensor, q: Tensor) -> Tensor:
        return concentrate_on_argmax(super().compute_replacement(p, q))

    def verify(self, rows: Sequence[Prefix], tree: DraftTree, p: Tensor, randomness: Randomness) -> tuple[Outcome, ...]:
        outcomes = super().verify(rows, tree, p, randomness)
        return tuple(self._replace_bonus(outcome, p[index]) for index, outcome in enumerate(outcomes))

    def _replace_bonus(self, outcome: Outcome, p: Tensor) -> Outcome:
        if outcome.ending.kind != "bonus":
            return outcome
        probs = p[outcome.accepted_path[-1] + 1 if outcome.accepted_path else 0]
        return replace(outcome, ending=replace(outcome.ending, token=int(concentrate_on_argmax(probs).argmax())))


class OtherTemperatureRule(TokenRule):
    """Draft tokens are judged, and replaced, by the target at another temperature. The bonus token has the right one.

    ``factor``: that temperature over the one asked for, above 0. ``scale``: p'(x) = scale * p(x)^(1 / factor); known once a
    distribution is given (``at``).
    """

    name, exact = "other temperature in the verifying pass", False

    def __init__(self, factor: float, scale: float | None = None):
        self.factor, self.scale = factor, scale

    def condition_on(self, p: Tensor) -> OtherTemperatureRule:
        return OtherTemperatureRule(self.factor, float(change_temperature(p, self.factor).max() / p.max() ** (1.0 / self.factor)))

    def compute_threshold(self, p: float, q: float) -> float:
        return super().compute_threshold(self._change_temperature(p), q)

    def accepts(self, u: Number, p: Number, q: Number) -> Number:
        return super().accepts(u, self._change_temperature(p), q)

    def compute_replacement(self, p: Tensor, q: Tensor) -> Tensor:
        return super().compute_replacement(change_temperature(p, self.factor), q)

    def _change_temperature(self, p: Number) -> Number:
        assert self.scale is not None, "condition_on() gives the distribution"
        return self.scale * p ** (1.0 / self.factor)


class OneHotResidualRule(TokenRule):
    """The residual takes the rejected token alone out of p, as it would for a one-hot q."""

    name, exact = "residual of a one-hot draft", False

    def find_accepted(self, walk: TreeWalk, parent: int, siblings: list[int]) -> int:
        node = super().find_accepted(walk, parent, siblings)
        if node == ROOT and walk.rejected is not None:
            others = walk.p[parent + 1].clone()
            others[walk.tokens[walk.rejected]] = 0.0
            if not bool(others.sum() > 0.0):  # nothing else is possible
                return walk.accept(walk.rejected)
            walk.probs = others / others.sum()
        return node


class RowAfterRejectedRule(TokenRule):
    """The replacement is drawn from the target's row after the rejected token, one row too late."""

    name, exact = "replacement from the row after", False

    def find_accepted(self, walk: TreeWalk, parent: int, siblings: list[int]) -> int:
        node = super().find_accepted(walk, parent, siblings)
        if node == ROOT and walk.rejected is not None:
            walk.probs = walk.p[walk.rejected + 1]
        return node


class FirstUnverifiedRule(TokenRule):
    """The first draft token of a round is accepted without a test."""

    name, exact = "first draft token unverified", False

    def find_accepted(self, walk: TreeWalk, parent: int, siblings: list[int]) -> int:
        if parent != ROOT:
            return super().find_accepted(walk, parent, siblings)
        node = siblings[0]
        walk.checked[node] = Check(walk.p_token[node], walk.take_uniform(node), 1.0, True)
        return walk.accept(node)


class SameTokenRule(TokenRule):
    """A draft token is accepted if it equals the target's own draw, which is written otherwise. Exact, of chains."""

    name = "same token"

    def find_accepted(self, walk: TreeWalk, parent: int, siblings: list[int]) -> int:
        (node,) = siblings
        u = walk.take_uniform(node)
        drawn = int(draw_tokens(walk.p[parent + 1], torch.tensor(u, dtype=torch.float64)))
        is_same = drawn == walk.tokens[node]
        walk.checked[node] = Check(walk.p_token[node], u, 1.0, is_same)
        if is_same:
            return walk.accept(node)
        walk.rejected, walk.probs = node, build_one_hot(torch.tensor(drawn), walk.p.shape[-1])
        return ROOT


class LenientRule(TokenRule):
    """A draft token is accepted with probability min(1, factor * p / q), factor above 1; its replacement is that of the token rule."""

    name, exact = "lenient", False

    def __init__(self, factor: float):
        self.factor = factor

    def compute_threshold(self, p: float, q: float) -> float:
        return min(1.0, self.factor * p / q)

    def accepts(self, u: Number, p: Number, q: Number) -> Number:
        return super().accepts(u, self.factor * p, q)


class GreedyBonusRule(TokenRule):
    """The token after a fully accepted draft is the target's most likely one."""

    name, exact = "greedy bonus", False

    def compute_bonus(self, p: Tensor) -> Tensor:
        return concentrate_on_argmax(p)


class NoBonusRule(TokenRule):
    """No bonus token is added after a fully accepted draft."""

    name, exact = "no bonus", True

    def verify(self, rows: Sequence[Prefix], tree: DraftTree, p: Tensor, randomness: Randomness) -> tuple[Outcome, ...]:
        outcomes = super().verify(rows, tree, p, randomness)
        none = Ending("length", None, None)
        return tuple(replace(o, ending=none) if o.ending.kind == "bonus" and o.accepted_path else o for o in outcomes)


class KeepAfterRejectionRule(TokenRule):
    """A rejected draft token is replaced, and those after it stay, tested as if they followed the replacement. Chains only."""

    name, exact = "tokens after a rejection kept", False

    def verify(self, rows: Sequence[Prefix], tree: DraftTree, p: Tensor, randomness: Randomness) -> tuple[Outcome, ...]:
        return tuple(self._judge_row(row, tree, index, p[index], randomness) for index, row in enumerate(rows))

    def _judge_row(self, row: Prefix, tree: DraftTree, index: int, p: Tensor, randomness: Randomness) -> Outcome:
        decisions = []
        for node, token in enumerate(tree.tokens[index]):
            q = tree.q[index][node]
            p_token, q_token = float(p[node, token]), float(q[token])
            u = float(randomness.take(Purpose.ACCEPT, [row], node, node)[0])
            if not self.accepts(u, p_token, q_token):
                token = int(
                    draw_tokens(
                        self.compute_replacement(p[node], q),
                        torch.from_numpy(randomness.take(Purpose.RESIDUAL, [row], node, node))[0],
                    )
                )
            edge = self.compute_threshold(p_token, q_token)
            decisions.append(Decision(token, node - 1, tree.source, q_token, p_token, tree.u_draft[index][node], u, edge, True))
        count = len(decisions)
        u = randomness.take(Purpose.BONUS, [row], count, count)
        bonus = int(draw_tokens(p[count], torch.from_numpy(u)[0]))
        return Outcome(tuple(decisions), tuple(range(count)), Ending("bonus", bonus, float(u[0])))
