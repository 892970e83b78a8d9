"""Four exact rules on one pair of distributions and two draft tokens: what each accepts, and the distribution of the two tokens written.

Both positions have the same p and the same q, whatever stands before. The pairs of draft tokens are enumerated, so every number is
exact in float64, no sample. Acceptance bounds and residuals are those of verification/. The page recomputes the
same in the browser; one table of cases (tests/helpers/token_cases.json) holds both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from specviz.verification.block import compute_block_weights
from specviz.verification.token import EmptyResidualError, compute_acceptance_probability, compute_residual

Probs = list[float]


@dataclass(frozen=True, slots=True)
class PairOutcome:
    """What a rule does with one pair of draft tokens: probability that none, one, both are accepted, and what follows none and one."""

    accepts: tuple[float, float, float]
    after_none: Probs
    after_one: Probs


@dataclass(frozen=True, slots=True)
class RuleResult:
    """What one rule does with both draft tokens."""

    rule: str
    first: float  # probability that at least the first draft token is accepted
    both: float  # probability that both are
    error: float  # largest |distribution - p p| of a pair of tokens


TwoTokenRule = Callable[[Probs, Probs], Callable[[int, int], PairOutcome]]


def build_token_outcomes(p: Probs, q: Probs) -> Callable[[int, int], PairOutcome]:
    """Each draft token by itself: min(1, p/q), then the residual. Leviathan et al. 2023, Algorithm 1."""
    accept = [compute_acceptance_probability(a, b) if b > 0.0 else 0.0 for a, b in zip(p, q, strict=True)]
    left = _compute_residual(p, q)
    return lambda a, b: PairOutcome(_combine_acceptance(accept[a], accept[b]), left, left)


def build_block_outcomes(p: Probs, q: Probs) -> Callable[[int, int], PairOutcome]:
    """Both draft tokens together. Sun et al. 2024, Block Verification Accelerates Speculative Decoding, Algorithm 2.

    Weights, thresholds and what is left after the first token are those of verification.block.
    """
    after_none = _compute_residual(p, q)
    after_each = torch.tensor([p] * 3, dtype=torch.float64)  # the target after the prefix and after each of the two
    drawn_from = torch.tensor([q] * 2, dtype=torch.float64)

    def compute_outcome(a: int, b: int) -> PairOutcome:
        found = compute_block_weights((a, b), after_each, drawn_from)
        h1, h2 = found.edges
        after_one = (found.left[1] / found.mass[1]).tolist() if found.mass[1] > 0.0 else p
        return PairOutcome(((1.0 - h2) * (1.0 - h1), (1.0 - h2) * h1, h2), after_none, after_one)

    return compute_outcome


def build_greedy_outcomes(p: Probs, q: Probs) -> Callable[[int, int], PairOutcome]:
    """The draft proposes its most likely token, so its distribution is one-hot: accepted with p of that token."""
    sure = _build_one_hot(q.index(max(q)), len(q))
    return build_token_outcomes(p, sure)


def build_compare_outcomes(p: Probs, q: Probs) -> Callable[[int, int], PairOutcome]:
    """The target draws its own token, and the draft token is accepted where both agree: the token rule with a one-hot q."""

    def compute_outcome(a: int, b: int) -> PairOutcome:
        lefts = [_compute_residual(p, _build_one_hot(x, len(p))) for x in (a, b)]
        return PairOutcome(
            _combine_acceptance(compute_acceptance_probability(p[a], 1.0), compute_acceptance_probability(p[b], 1.0)), *lefts
        )

    return compute_outcome


RULES: dict[str, tuple[TwoTokenRule, bool]] = {  # the rule, and whether its draft tokens are the draft's most likely token
    "block": (build_block_outcomes, False),
    "token": (build_token_outcomes, False),
    "greedy": (build_greedy_outcomes, True),
    "compare": (build_compare_outcomes, False),
}


def compare_four_rules(p: Sequence[float], q: Sequence[float]) -> tuple[RuleResult, ...]:
    """Every rule on the same pair; p and q sum to 1."""
    p, q = list(p), list(q)
    found = []
    for name, (rule, greedy) in RULES.items():
        drafted = _build_one_hot(q.index(max(q)), len(q)) if greedy else q
        found.append(_enumerate_pairs(name, rule(p, q), p, drafted))
    return tuple(found)


def account_for_tokens(p: Sequence[float], q: Sequence[float]) -> dict[str, list[float]]:
    """The shares of each token under the token rule: p, q, overlap, residual (not rescaled), accepted, replaced; each (K,).

    accepted + replaced is p. accepted is the mass q min(1, p/q), replaced the rejection rate 1 - beta times the residual
    distribution.
    """
    p, q = list(p), list(q)
    accepted = [b * compute_acceptance_probability(a, b) if b > 0.0 else 0.0 for a, b in zip(p, q, strict=True)]
    beta = sum(accepted)
    try:
        share = compute_residual(torch.tensor(p, dtype=torch.float64), torch.tensor(q, dtype=torch.float64)).tolist()
    except EmptyResidualError:  # nothing is ever rejected
        share = [0.0] * len(p)
    replaced = [(1.0 - beta) * x for x in share]
    left = [max(0.0, a - b) for a, b in zip(p, accepted, strict=True)]
    return {"p": p, "q": q, "overlap": accepted, "residual": left, "accepted": accepted, "replaced": replaced}


def _enumerate_pairs(name: str, compute_outcome: Callable[[int, int], PairOutcome], p: Probs, q: Probs) -> RuleResult:
    size = len(p)
    probs = [[0.0] * size for _ in range(size)]
    first = both = 0.0
    for a in range(size):
        for b in range(size):
            weight = q[a] * q[b]
            if weight == 0.0:
                continue
            step = compute_outcome(a, b)
            none, one, two = (weight * share for share in step.accepts)
            first, both = first + one + two, both + two
            probs[a][b] += two
            for y in range(size):
                probs[a][y] += one * step.after_one[y]
                for z in range(size):
                    probs[y][z] += none * step.after_none[y] * p[z]
    error = max(abs(probs[a][b] - p[a] * p[b]) for a in range(size) for b in range(size))
    return RuleResult(name, first, both, error)


def _combine_acceptance(a: float, b: float) -> tuple[float, float, float]:
    return 1.0 - a, a * (1.0 - b), a * b


def _build_one_hot(token: int, size: int) -> Probs:
    return [float(i == token) for i in range(size)]


def _compute_residual(p: Probs, q: Probs) -> Probs:
    """The production residual; where p equals q nothing is ever rejected, and any distribution will do."""
    try:
        return compute_residual(torch.tensor(p, dtype=torch.float64), torch.tensor(q, dtype=torch.float64)).tolist()
    except EmptyResidualError:
        return p
