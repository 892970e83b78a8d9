"""What a rule and a proposer really do at one place of a block, found by asking them with numbers of one's own choice.

Nothing that they report is believed. A belief (from the rule's own methods, from a fresh pass of the draft) says where the
outcome should change; the numbers on both sides of such an edge are tried, and where the answer is another one the edge is
found by bisection. Two things are taken for granted: a draft token that is kept with one random number is kept with every smaller one, and
a larger number never draws a smaller id.
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
from specviz.verification.token_rule import EmptyResidual, Rule, TokenRule

LAST = 1.0 - 2.0**-53  # the largest number a random number can show
SLACK = 1e-9  # how far from an edge the rule is asked, which computes in float64 with the distributions it was handed
ROUNDING = 2e-5  # how far from an edge a proposer is asked: its passes over many rows and over one differ in the seventh digit
HEAVY = 1e-3  # draft tokens drawn at least that often are all asked about when a belief turns out wrong
STEPS = 20  # bisections where a belief was wrong: to 1e-6
_BATCH = 256

Ask = Callable[[np.ndarray], np.ndarray]  # numbers (n,) in [0, 1) -> the token that each draws, (n,)


@dataclass(frozen=True, slots=True)
class Handed:
    """What a rule was given in one round of one row: a chain of N draft tokens, and p (N + 1, V)."""

    row: Prefix
    block: DraftTree
    p: Tensor

    @property
    def tokens(self) -> tuple[int, ...]:
        return self.block.tokens[0]

    def q(self, node: int) -> Tensor:
        """(V,) the distribution that the block reports for a node."""
        return self.block.q[0][node]


@dataclass(frozen=True, slots=True)
class Script:
    """Random numbers by a function of purpose and node, with one number for each row (n,), or one for all."""

    numbers: Callable[[Purpose, int], np.ndarray | float]

    def take(self, purpose: Purpose, rows: Sequence[Prefix], node: int, depth: int) -> np.ndarray:
        numbers = np.asarray(self.numbers(purpose, node), dtype=np.float64)
        return numbers[[row.draw for row in rows]] if numbers.ndim else np.full(len(rows), numbers)


def verdicts(
    rule: Rule, handed: Handed, node: int, tokens: np.ndarray, accept: np.ndarray, ending: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """What ``rule.verify`` does at one node, with every draft token before it kept, for n choices of draft token and random numbers.

    node     0 to N; at N stands no draft token, and ``tokens`` and ``accept`` do not matter
    tokens   (n,) what is drafted there; accept  (n,) its random number; ending  (n,) the number that draws a replacement or the bonus
    returns  kept (n,) bool, and written (n,) int64: the token that joins the text at that place, -1 for none
    """
    kept, written = [], []
    for first in range(0, len(tokens), _BATCH):
        part = slice(first, first + _BATCH)
        u, v = accept[part], ending[part]
        rows = [replace(handed.row, draw=number) for number in range(len(u))]
        randomness = Script(lambda purpose, at, u=u, v=v: v if purpose is not Purpose.ACCEPT else u if at == node else 0.0)
        blocks = _with_draft_tokens(handed.block, node, tokens[part].tolist())
        for outcome in rule.verify(rows, blocks, handed.p[None].expand(len(u), -1, -1), randomness):
            assert outcome.accepted_path[:node] == tuple(range(node)), (
                "the draft tokens before the node are kept by random numbers of 0"
            )
            kept.append(len(outcome.accepted_path) > node)
            written.append(outcome.committed[node] if len(outcome.committed) > node else -1)
    return np.array(kept), np.array(written)


def _with_draft_tokens(block: DraftTree, node: int, tokens: list[int]) -> DraftTree:
    chain = block.tokens[0]
    chains = (chain,) * len(tokens)
    if node < len(chain):
        chains = tuple((*chain[:node], token, *chain[node + 1 :]) for token in tokens)
    return replace(block, tokens=chains, **{name: getattr(block, name) * len(tokens) for name in ("parents", "q", "u_draft")})


def next_distribution(rule: Rule, handed: Handed, node: int, drawn: Tensor | None, dice: np.random.Generator) -> Tensor:
    """The distribution of the token that the rule writes after the draft tokens before ``node``, (V,) float64.

    P(x) = drawn(x) keep(x) + sum over y of drawn(y) (1 - keep(y)), times replacement(x); without a draft token, the bonus's distribution.

    drawn  (V,) the distribution that the draft token at the node was really drawn from; None at the bonus
    """
    if drawn is None:
        return recovered(lambda v: verdicts(rule, handed, node, v, v, v)[1], handed.p[node], SLACK)[0]
    keep = acceptance(rule, handed, node, drawn, dice)
    refused = drawn * (1.0 - keep)
    lost = float(refused.sum())
    if lost <= 0.0:
        return drawn * keep
    refusable = torch.where(handed.q(node) > 0.0, refused, 0.0)
    draft_tokens = refusable.topk(max(1, min(8, int((refusable > 0.0).sum())))).indices.numpy()

    def replaced(v: np.ndarray) -> np.ndarray:
        """Different rejected draft tokens in turn: what is put in their place may not depend on which it was."""
        tokens = np.resize(draft_tokens, len(v))
        return verdicts(rule, handed, node, tokens, np.full(len(v), LAST), v)[1]

    belief = _replacement(rule, handed, node)
    return drawn * keep + lost * recovered(replaced, handed.p[node] if belief is None else belief, SLACK)[0]


def acceptance(rule: Rule, handed: Handed, node: int, drawn: Tensor, dice: np.random.Generator) -> Tensor:
    """Probability with which each draft token is kept, (V,) float64: the rule's own ``accepts`` for every token of the vocabulary.

    ``verify`` is asked about the likeliest draft tokens and a random few; where it decides otherwise, about all heavy ones.
    """
    believed = _believed(rule, handed, node)
    masses = torch.where(
        handed.q(node) > 0.0, drawn, 0.0
    ).numpy()  # a draft token outside its own reported distribution is no question
    possible = np.flatnonzero(masses)
    if not len(possible):
        return believed
    likely = possible[np.argsort(-masses[possible], kind="stable")[:12]]
    asked = np.union1d(likely, dice.choice(possible, min(6, len(possible)), replace=False))

    def kept(tokens: np.ndarray, u: np.ndarray) -> np.ndarray:
        return verdicts(rule, handed, node, tokens, u, np.zeros(len(u)))[0]

    edge = believed[asked].numpy()
    below, above = np.maximum(edge - SLACK, 0.0), np.minimum(edge + SLACK, LAST)
    answers = kept(np.tile(asked, 2), np.concatenate((below, above))).reshape(2, -1)
    if (answers[0] | (edge <= 0.0)).all() and (~answers[1] | (edge >= 1.0 - SLACK)).all():
        return believed
    asked = np.union1d(asked, np.flatnonzero(masses > HEAVY))
    edges = bisected(lambda u: kept(asked, u), len(asked))
    return believed.index_put((torch.from_numpy(asked),), torch.from_numpy(edges))


def _believed(rule: Rule, handed: Handed, node: int) -> Tensor:
    """Where ``accepts`` changes its mind, for each token."""
    p, q = handed.p[node], handed.q(node)
    known = (rule if isinstance(rule, TokenRule) else TokenRule()).at(p)
    if _replacement(rule, handed, node) is None:
        return torch.ones_like(p)
    return torch.from_numpy(bisected(lambda u: known.accepts(torch.from_numpy(u), p, q).numpy(), len(p), 40))


def _replacement(rule: Rule, handed: Handed, node: int) -> Tensor | None:
    known = rule if isinstance(rule, TokenRule) else TokenRule()
    try:
        return known.replacement(handed.p[node], handed.q(node))
    except EmptyResidual:  # the distributions are equal and nothing is refused
        return None


def bisected(holds: Callable[[np.ndarray], np.ndarray], count: int, steps: int = STEPS) -> np.ndarray:
    """(count,) the number up to which each of ``count`` conditions holds, to 2**-steps; exactly 0 and 1 where never, always."""
    never, always = ~holds(np.zeros(count)), holds(np.full(count, LAST))
    low, high = np.zeros(count), np.ones(count)
    if not (never | always).all():
        for _ in range(steps):
            middle = (low + high) / 2
            yes = holds(middle)
            low, high = np.where(yes, middle, low), np.where(yes, high, middle)
    return np.where(always, 1.0, np.where(never, 0.0, (low + high) / 2))


def recovered(ask: Ask, believed: Tensor, slack: float, points: int = 12) -> tuple[Tensor, bool]:
    """The distribution that ``ask`` draws from, (V,), where it is believed to be ``believed``, and whether it is.

    Asked on both sides of the edges of the heaviest tokens and of some ids in between. If every answer is as believed, so is
    the distribution. Else the edges are measured, and between two of them the distribution keeps its believed shape.
    """
    probs = believed.numpy() / float(believed.sum())
    ends = _ends(probs, points)
    edges = probs.cumsum()[ends]
    below, above = edges > slack, edges < 1.0 - slack
    answers = ask(np.concatenate((edges[below] - slack, edges[above] + slack)))
    if (answers[: below.sum()] <= ends[below]).all() and (answers[below.sum() :] > ends[above]).all():
        return torch.from_numpy(probs), True
    edges = np.maximum.accumulate(bisected(lambda v: ask(v) <= ends, len(ends)))
    masses = np.diff(edges, prepend=0.0, append=1.0)
    shape = np.zeros(len(probs))
    for part, mass in zip(np.split(np.arange(len(probs)), ends + 1), masses, strict=True):
        if mass > 0.0:
            own = probs[part] if probs[part].sum() > 0.0 else np.ones(len(part))
            shape[part] = mass * own / own.sum()
    return torch.from_numpy(shape), False


def _ends(probs: np.ndarray, points: int) -> np.ndarray:
    """Ids after which to look for an edge, sorted: both sides of the heaviest tokens, and equal shares of the mass."""
    heaviest = np.argsort(-probs, kind="stable")[:points]
    shares = np.searchsorted(probs.cumsum(), (np.arange(points) + 0.5) / points)
    ends = np.unique(np.concatenate((heaviest, heaviest - 1, shares)))
    return ends[(ends >= 0) & (ends < len(probs) - 1)]


def drawn_distribution(proposer: Proposer, handed: Handed, node: int, beliefs: Sequence[Tensor]) -> tuple[Tensor, bool]:
    """The distribution that the proposer draws the draft token at ``node`` from, (V,), by letting it draw again with other numbers there.

    It is asked again when its round is over, so its draws must be a function of rows and random numbers. A draft whose own cache is
    broken is none: it is found here, although the text would still have the target's distribution.

    beliefs  distributions to try, the best first; the first that agrees with the draws is taken, else the last one is corrected by them
    returns  the distribution, and True; the first belief, and False, where the earlier draft tokens are not drawn again by their numbers
    """
    numbers, seen = [0.0 if u is None else u for u in handed.block.u_draft[0]], []

    def ask(v: np.ndarray) -> np.ndarray:
        rows = [replace(handed.row, remaining=node + 2, draw=number) for number in range(len(v))]
        chains = proposer.propose(rows, Script(lambda purpose, at: v if at == node else numbers[at])).tokens
        seen.extend(chain[:node] == handed.tokens[:node] for chain in chains)
        return np.array([chain[node] if len(chain) > node else -1 for chain in chains])

    for belief in beliefs:
        probs, as_believed = recovered(ask, belief, ROUNDING, points=4)
        if not all(seen):
            return beliefs[0], False
        if as_believed:
            break
    return probs, True
