"""Four exact rules on one pair of distributions over a block of two: what each keeps, and the distribution of the two tokens it writes.

Both positions have the same p and the same q, whatever stands before. The pairs of draft tokens are walked one by one, so every
number is an enumeration in float64, not a draw. Acceptance bounds and residuals are those of verification/. The page recomputes the
same in the browser; one table of cases (tests/token_cases.json) holds both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from specviz.verification.block_rule import weighed
from specviz.verification.token_rule import EmptyResidual, acceptance_probability, residual

Distribution = list[float]


@dataclass(frozen=True, slots=True)
class Way:
    """What a rule does with one pair of draft tokens: how likely it keeps none, one, both, and what follows none and one."""

    keeps: tuple[float, float, float]
    after_none: Distribution
    after_one: Distribution


@dataclass(frozen=True, slots=True)
class Kept:
    """first, both: probability that at least one draft token, that both are kept. error: largest |distribution - p p| of a pair of tokens."""

    rule: str
    first: float
    both: float
    error: float

    @property
    def kept(self) -> float:
        """Expected draft tokens kept, of two."""
        return self.first + self.both


Rule = Callable[[Distribution, Distribution], Callable[[int, int], Way]]


def token_rule(p: Distribution, q: Distribution) -> Callable[[int, int], Way]:
    """Each draft token by itself: min(1, p/q), then the residual. Leviathan et al. 2023, Algorithm 1."""
    keep = [acceptance_probability(a, b) if b > 0.0 else 0.0 for a, b in zip(p, q, strict=True)]
    left = _residual(p, q)
    return lambda a, b: Way(_one_by_one(keep[a], keep[b]), left, left)


def block_rule(p: Distribution, q: Distribution) -> Callable[[int, int], Way]:
    """Both draft tokens together. Sun et al. 2024, Block Verification Accelerates Speculative Decoding, Algorithm 2.

    Weights, thresholds and what is left after the first token are those of verification.block_rule.
    """
    after_none = _residual(p, q)
    after_each = torch.tensor([p] * 3, dtype=torch.float64)  # the target after the prefix and after each of the two
    drawn_from = torch.tensor([q] * 2, dtype=torch.float64)

    def way(a: int, b: int) -> Way:
        found = weighed((a, b), after_each, drawn_from)
        h1, h2 = found.edges
        after_one = (found.left[1] / found.mass[1]).tolist() if found.mass[1] > 0.0 else p
        return Way(((1.0 - h2) * (1.0 - h1), (1.0 - h2) * h1, h2), after_none, after_one)

    return way


def greedy_rule(p: Distribution, q: Distribution) -> Callable[[int, int], Way]:
    """The draft proposes its likeliest token, so its distribution is one-hot: kept with p of that token."""
    sure = _one_hot(q.index(max(q)), len(q))
    return token_rule(p, sure)


def compare_rule(p: Distribution, q: Distribution) -> Callable[[int, int], Way]:
    """The target draws its own token and the draft token is kept where both agree: the token rule that takes q for one-hot."""

    def way(a: int, b: int) -> Way:
        lefts = [_residual(p, _one_hot(x, len(p))) for x in (a, b)]
        return Way(_one_by_one(acceptance_probability(p[a], 1.0), acceptance_probability(p[b], 1.0)), *lefts)

    return way


RULES: dict[str, tuple[Rule, bool]] = {  # the rule, and whether its draft tokens are the draft's likeliest token
    "block": (block_rule, False),
    "token": (token_rule, False),
    "greedy": (greedy_rule, True),
    "compare": (compare_rule, False),
}


def four_rules(p: Sequence[float], q: Sequence[float]) -> tuple[Kept, ...]:
    """Every rule on the same pair; p and q sum to 1."""
    p, q = list(p), list(q)
    found = []
    for name, (rule, greedy) in RULES.items():
        drafted = _one_hot(q.index(max(q)), len(q)) if greedy else q
        found.append(_walk(name, rule(p, q), p, drafted))
    return tuple(found)


def accounted(p: Sequence[float], q: Sequence[float]) -> dict[str, list[float]]:
    """What becomes of each token under the token rule: p, q, overlap, residual (not rescaled), accepted, replaced; each (K,).

    accepted + replaced is p: q min(1, p/q), and the share 1 - beta of refusals times the residual distribution.
    """
    p, q = list(p), list(q)
    kept = [b * acceptance_probability(a, b) if b > 0.0 else 0.0 for a, b in zip(p, q, strict=True)]
    beta = sum(kept)
    try:
        share = residual(torch.tensor(p, dtype=torch.float64), torch.tensor(q, dtype=torch.float64)).tolist()
    except EmptyResidual:  # nothing is ever refused
        share = [0.0] * len(p)
    replaced = [(1.0 - beta) * x for x in share]
    left = [max(0.0, a - b) for a, b in zip(p, kept, strict=True)]
    return {"p": p, "q": q, "overlap": kept, "residual": left, "accepted": kept, "replaced": replaced}


def _walk(name: str, way: Callable[[int, int], Way], p: Distribution, q: Distribution) -> Kept:
    size = len(p)
    probs = [[0.0] * size for _ in range(size)]
    first = both = 0.0
    for a in range(size):
        for b in range(size):
            weight = q[a] * q[b]
            if weight == 0.0:
                continue
            step = way(a, b)
            none, one, two = (weight * share for share in step.keeps)
            first, both = first + one + two, both + two
            probs[a][b] += two
            for y in range(size):
                probs[a][y] += one * step.after_one[y]
                for z in range(size):
                    probs[y][z] += none * step.after_none[y] * p[z]
    error = max(abs(probs[a][b] - p[a] * p[b]) for a in range(size) for b in range(size))
    return Kept(name, first, both, error)


def _one_by_one(a: float, b: float) -> tuple[float, float, float]:
    return 1.0 - a, a * (1.0 - b), a * b


def _one_hot(token: int, size: int) -> Distribution:
    return [float(i == token) for i in range(size)]


def _residual(p: Distribution, q: Distribution) -> Distribution:
    """The production residual; where p equals q nothing is ever refused, and any distribution will do."""
    try:
        return residual(torch.tensor(p, dtype=torch.float64), torch.tensor(q, dtype=torch.float64)).tolist()
    except EmptyResidual:
        return p
