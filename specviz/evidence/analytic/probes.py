"""The behavior of a rule and a proposer at one place of a round, measured by calling them with chosen random numbers.

Their own reports are not trusted. An expectation (from the rule's own methods, or from an uncached pass of the draft) says at which
random number the outcome should change. Numbers on both sides of this edge are tried. If the answer differs, the edge is found by
bisection. Two things are assumed: a draft token that is accepted at one random number is accepted at every smaller one, and a
larger number never draws a smaller id.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from specviz.proposers.base import Proposer
from specviz.randomness import Prefix, Purpose
from specviz.verification.draft_tree import DraftTree
from specviz.verification.rule import Rule
from specviz.verification.token import EmptyResidualError, TokenRule

LAST = 1.0 - 2.0**-53  # the largest value of a random number
SLACK = 1e-9  # distance from an edge at which the rule is called; it computes in float64 with the given distributions
ROUNDING = 2e-5  # the same for a proposer: its passes over many rows and over one row differ in the seventh digit
HEAVY = 1e-3  # if an expectation is wrong, all draft tokens of at least this probability are tested
STEPS = 20  # bisection steps: to 1e-6
_BATCH = 256

Ask = Callable[[np.ndarray], np.ndarray]  # numbers (n,) in [0, 1) -> the token that each draws, (n,)


@dataclass(frozen=True, slots=True)
class RuleInput:
    """The input of a rule in one round of one row: a chain of N draft tokens, and p (N + 1, V)."""

    row: Prefix
    tree: DraftTree
    p: Tensor

    @property
    def tokens(self) -> tuple[int, ...]:
        return self.tree.tokens[0]

    def get_q(self, node: int) -> Tensor:
        """(V,) the draft distribution that the proposer reports for a node."""
        return self.tree.q[0][node]


@dataclass(frozen=True, slots=True)
class ScriptedRandomness:
    """Random numbers given by a function of purpose and node: one number for each row (n,), or one for all."""

    numbers: Callable[[Purpose, int], np.ndarray | float]

    def take(self, purpose: Purpose, rows: Sequence[Prefix], node: int, depth: int) -> np.ndarray:
        numbers = np.asarray(self.numbers(purpose, node), dtype=np.float64)
        return numbers[[row.draw for row in rows]] if numbers.ndim else np.full(len(rows), numbers)


def run_rule(
    rule: Rule, handed: RuleInput, node: int, tokens: np.ndarray, accept: np.ndarray, ending: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """What ``rule.verify`` does at one node for n draft tokens and random numbers. All draft tokens before the node are accepted.

    ``node``: 0 to N; at N there is no draft token, and ``tokens`` and ``accept`` are ignored. ``tokens``: (n,) the draft token.
    ``accept``: (n,) its random number u. ``ending``: (n,) the number that draws a replacement or the bonus token. Returns
    accepted (n,) bool, and written (n,) int64: the token that joins the text at that place, -1 for none.
    """
    accepted, written = [], []
    for first in range(0, len(tokens), _BATCH):
        part = slice(first, first + _BATCH)
        u, v = accept[part], ending[part]
        rows = [replace(handed.row, draw=number) for number in range(len(u))]

        def choose(purpose: Purpose, at: int, u: np.ndarray = u, v: np.ndarray = v) -> np.ndarray | float:
            return v if purpose is not Purpose.ACCEPT else u if at == node else 0.0

        trees = _replace_draft_token(handed.tree, node, tokens[part].tolist())
        for outcome in rule.verify(rows, trees, handed.p[None].expand(len(u), -1, -1), ScriptedRandomness(choose)):
            assert outcome.accepted_path[:node] == tuple(range(node)), (
                "a random number of 0 accepts the draft tokens before the node"
            )
            accepted.append(len(outcome.accepted_path) > node)
            written.append(outcome.committed[node] if len(outcome.committed) > node else -1)
    return np.array(accepted), np.array(written)


def _replace_draft_token(tree: DraftTree, node: int, tokens: list[int]) -> DraftTree:
    chain = tree.tokens[0]
    chains = (chain,) * len(tokens)
    if node < len(chain):
        chains = tuple((*chain[:node], token, *chain[node + 1 :]) for token in tokens)
    return replace(tree, tokens=chains, **{name: getattr(tree, name) * len(tokens) for name in ("parents", "q", "u_draft")})


def measure_next_distribution(
    rule: Rule, handed: RuleInput, node: int, draft_probs: Tensor | None, rng: np.random.Generator
) -> Tensor:
    """The distribution of the token that the rule writes at ``node``, after accepting the draft tokens before it, (V,) float64.

    P(x) = drawn(x) a(x) + (sum over y of drawn(y) (1 - a(y))) replacement(x), where a is the acceptance probability. Without a
    draft token it is the distribution of the bonus token.

    drawn  (V,) the distribution that the draft token at the node was really drawn from; None at the bonus token
    """
    if draft_probs is None:
        return recover_distribution(lambda v: run_rule(rule, handed, node, v, v, v)[1], handed.p[node], SLACK)[0]
    accepted = measure_acceptance(rule, handed, node, draft_probs, rng)
    rejected = draft_probs * (1.0 - accepted)
    rejection_rate = float(rejected.sum())
    if rejection_rate <= 0.0:
        return draft_probs * accepted
    possible = torch.where(handed.get_q(node) > 0.0, rejected, 0.0)
    draft_tokens = possible.topk(max(1, min(8, int((possible > 0.0).sum())))).indices.numpy()

    def replace_tokens(v: np.ndarray) -> np.ndarray:
        """Replacements of different rejected draft tokens in turn, because the replacement must not depend on which one it was."""
        tokens = np.resize(draft_tokens, len(v))
        return run_rule(rule, handed, node, tokens, np.full(len(v), LAST), v)[1]

    belief = _compute_replacement(rule, handed, node)
    replacement = recover_distribution(replace_tokens, handed.p[node] if belief is None else belief, SLACK)[0]
    return draft_probs * accepted + rejection_rate * replacement


def measure_acceptance(rule: Rule, handed: RuleInput, node: int, draft_probs: Tensor, rng: np.random.Generator) -> Tensor:
    """Acceptance probability of each draft token, (V,) float64: from the rule's own ``accepts``, for the whole vocabulary.

    ``verify`` is tested on the most probable draft tokens and on a few random ones. If it decides differently, all heavy ones are
    measured.
    """
    believed = _compute_expected_edges(rule, handed, node)
    # A draft token outside the reported distribution is not a valid input.
    masses = torch.where(handed.get_q(node) > 0.0, draft_probs, 0.0).numpy()
    possible = np.flatnonzero(masses)
    if not len(possible):
        return believed
    likely = possible[np.argsort(-masses[possible], kind="stable")[:12]]
    asked = np.union1d(likely, rng.choice(possible, min(6, len(possible)), replace=False))

    def accepts(tokens: np.ndarray, u: np.ndarray) -> np.ndarray:
        return run_rule(rule, handed, node, tokens, u, np.zeros(len(u)))[0]

    edge = believed[asked].numpy()
    below, above = np.maximum(edge - SLACK, 0.0), np.minimum(edge + SLACK, LAST)
    answers = accepts(np.tile(asked, 2), np.concatenate((below, above))).reshape(2, -1)
    if (answers[0] | (edge <= 0.0)).all() and (~answers[1] | (edge >= 1.0 - SLACK)).all():
        return believed
    asked = np.union1d(asked, np.flatnonzero(masses > HEAVY))
    edges = bisect_edges(lambda u: accepts(asked, u), len(asked))
    return believed.index_put((torch.from_numpy(asked),), torch.from_numpy(edges))


def _compute_expected_edges(rule: Rule, handed: RuleInput, node: int) -> Tensor:
    """The random number at which ``accepts`` changes its answer, for each token."""
    p, q = handed.p[node], handed.get_q(node)
    known = (rule if isinstance(rule, TokenRule) else TokenRule()).condition_on(p)
    if _compute_replacement(rule, handed, node) is None:
        return torch.ones_like(p)
    return torch.from_numpy(bisect_edges(lambda u: known.accepts(torch.from_numpy(u), p, q).numpy(), len(p), 40))


def _compute_replacement(rule: Rule, handed: RuleInput, node: int) -> Tensor | None:
    known = rule if isinstance(rule, TokenRule) else TokenRule()
    try:
        return known.compute_replacement(handed.p[node], handed.get_q(node))
    except EmptyResidualError:  # the distributions are equal and nothing is rejected
        return None


def bisect_edges(holds: Callable[[np.ndarray], np.ndarray], count: int, steps: int = STEPS) -> np.ndarray:
    """(count,) the number up to which each of ``count`` conditions holds, to 2**-steps; exactly 0 for never and 1 for always."""
    never, always = ~holds(np.zeros(count)), holds(np.full(count, LAST))
    low, high = np.zeros(count), np.ones(count)
    if not (never | always).all():
        for _ in range(steps):
            middle = (low + high) / 2
            yes = holds(middle)
            low, high = np.where(yes, middle, low), np.where(yes, high, middle)
    return np.where(always, 1.0, np.where(never, 0.0, (low + high) / 2))


def recover_distribution(ask: Ask, believed: Tensor, slack: float, points: int = 12) -> tuple[Tensor, bool]:
    """The distribution that ``ask`` draws from, (V,), and whether it is the expected one.

    ``believed``: (V,) the expected distribution.

    Numbers on both sides of some edges are tried: those of the heaviest tokens and of some ids in between. If every answer is as
    expected, so is the distribution. Otherwise the edges are measured; between two of them the expected shape is used.
    """
    probs = believed.numpy() / float(believed.sum())
    ends = _choose_edge_ids(probs, points)
    edges = probs.cumsum()[ends]
    below, above = edges > slack, edges < 1.0 - slack
    answers = ask(np.concatenate((edges[below] - slack, edges[above] + slack)))
    if (answers[: below.sum()] <= ends[below]).all() and (answers[below.sum() :] > ends[above]).all():
        return torch.from_numpy(probs), True
    edges = np.maximum.accumulate(bisect_edges(lambda v: ask(v) <= ends, len(ends)))
    masses = np.diff(edges, prepend=0.0, append=1.0)
    shape = np.zeros(len(probs))
    for part, mass in zip(np.split(np.arange(len(probs)), ends + 1), masses, strict=True):
        if mass > 0.0:
            own = probs[part] if probs[part].sum() > 0.0 else np.ones(len(part))
            shape[part] = mass * own / own.sum()
    return torch.from_numpy(shape), False


def _choose_edge_ids(probs: np.ndarray, points: int) -> np.ndarray:
    """Ids after which to test an edge, sorted: both sides of the heaviest tokens, and quantiles of the distribution."""
    heaviest = np.argsort(-probs, kind="stable")[:points]
    shares = np.searchsorted(probs.cumsum(), (np.arange(points) + 0.5) / points)
    ends = np.unique(np.concatenate((heaviest, heaviest - 1, shares)))
    return ends[(ends >= 0) & (ends < len(probs) - 1)]


def measure_draft_distribution(
    proposer: Proposer, handed: RuleInput, node: int, beliefs: Sequence[Tensor]
) -> tuple[Tensor, bool]:
    """The distribution that the proposer draws the draft token at ``node`` from, (V,), measured by drawing again with other numbers.

    The proposer is called again after its round, so what it draws must be a pure function of rows and random numbers. That fails
    for a draft with a broken cache. Such a draft is found here, although the text would still have the target's distribution.

    ``beliefs``: expected distributions, the best first. The first that agrees with the answers is used; if none does, the last
    one is corrected by them. Returns (distribution, True); or (first belief, False) if the earlier draft tokens are not drawn
    again by their numbers.
    """
    numbers, seen = [0.0 if u is None else u for u in handed.tree.u_draft[0]], list[bool]()

    def ask(v: np.ndarray) -> np.ndarray:
        rows = [replace(handed.row, remaining=node + 2, draw=number) for number in range(len(v))]
        chains = proposer.propose(rows, ScriptedRandomness(lambda purpose, at: v if at == node else numbers[at])).tokens
        seen.extend(chain[:node] == handed.tokens[:node] for chain in chains)
        return np.array([chain[node] if len(chain) > node else -1 for chain in chains])

    for belief in beliefs:
        probs, as_believed = recover_distribution(ask, belief, ROUNDING, points=4)
        if not all(seen):
            return beliefs[0], False
        if as_believed:
            break
    return probs, True
