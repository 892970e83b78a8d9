"""Formulas and their assumptions. Letters as in Leviathan et al. 2023: alpha acceptance rate, gamma draft length, c cost ratio.

Tokens per target pass follow from the independent formula (one alpha for every draft token) or the hazard formula (one acceptance
rate per depth); speed/measurement/acceptance.py counts without either assumption. The cost of a round is Leviathan's, in which a target pass
over a draft costs as much as one over a single token, or one with a fixed part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np


def compute_expected_tokens(alpha: float, gamma: int) -> float:
    """Tokens per target pass if every draft token is accepted independently with probability alpha: (1 - a^(g+1)) / (1 - a).

    Leviathan et al. 2023, equation 1. alpha in [0, 1], gamma >= 0; the result lies between 1 and gamma + 1.
    """
    return float(np.sum(np.power(float(alpha), np.arange(gamma + 1))))


def find_acceptance_rate(tokens: float, gamma: int) -> float:
    """The alpha with which ``compute_expected_tokens`` gives so many tokens: that equation solved for alpha. gamma >= 1; 0 or 1 beyond its range."""
    low, high = 0.0, 1.0
    for _ in range(60):
        alpha = (low + high) / 2
        low, high = (alpha, high) if compute_expected_tokens(alpha, gamma) < tokens else (low, alpha)
    return (low + high) / 2


def compute_hazard_tokens(hazards: Sequence[float], gamma: int) -> float:
    """Tokens per target pass: 1 + sum over j <= gamma of h_1 ... h_j, with h_i = P(token i accepted, given those before it are).

    ``hazards`` has at least gamma numbers. True if all rounds are alike; where rounds start may still depend on gamma, and then
    the h_i too.
    """
    assert len(hazards) >= gamma, "one hazard for every draft token"
    return 1.0 + float(np.sum(np.cumprod(np.asarray(hazards[:gamma], dtype=float))))


def compute_wall_clock_factor(alpha: float, gamma: int, c: float) -> float:
    """Speed-up over target-only sampling if a pass over the draft costs no more than over one token: tokens / (gamma c + 1).

    Leviathan et al. 2023, Theorem 3.8. c: time of one draft step over that of one target pass, >= 0.
    """
    return compute_expected_tokens(alpha, gamma) / (gamma * c + 1.0)


def compute_factor_grid(alphas: np.ndarray, costs: np.ndarray, gamma: int) -> np.ndarray:
    """``compute_wall_clock_factor`` at every alpha (A,) and every c (C,): (A, C)."""
    tokens = np.power(np.asarray(alphas, dtype=float)[:, None], np.arange(gamma + 1)).sum(1)
    return tokens[:, None] / (gamma * np.asarray(costs, dtype=float)[None, :] + 1.0)


def compute_highest_cost(alpha: float, gamma: int, reached: float = 1.0) -> float:
    """The highest cost c with which gamma draft tokens reach the speed-up ``reached``: that equation solved for c.

    gamma >= 1, reached > 0. The result is below 0 if not even a draft that costs nothing reaches the speed-up.
    """
    return (compute_expected_tokens(alpha, gamma) / reached - 1.0) / gamma


def is_worthwhile(alpha: float, c: float) -> bool:
    """Whether some gamma is faster than target-only sampling at Leviathan's cost: alpha > c (Corollary 3.9)."""
    return alpha > c


def compute_operation_factor(tokens: float, gamma: int, c_hat: float) -> float:
    """Arithmetic operations of rounds of ``tokens`` tokens, over those of target-only sampling: (g c_hat + g + 1) / tokens.

    Leviathan et al. 2023, Theorem 3.11, where tokens are the independent formula's. c_hat: operations of a draft step over those
    of the target for one token, >= 0. The result is at least 1 wherever a draft token can be rejected.
    """
    return (gamma * c_hat + gamma + 1.0) / tokens


@dataclass(frozen=True, slots=True)
class LinearCost:
    """A round with n draft tokens takes fixed + n * per_draft_token seconds.

    Attributes:
        fixed: One target pass over one token, and all else that does not grow with n.
        per_draft_token: One draft step, and one more token in the target pass.
    """

    fixed: float
    per_draft_token: float

    def compute_seconds(self, gamma: int) -> float:
        return self.fixed + gamma * self.per_draft_token

    @classmethod
    def fit(cls, seconds: Mapping[int, float]) -> LinearCost:
        """Least squares of the relative error. seconds: number of draft tokens -> measured seconds, two entries or more."""
        n, y = (np.array(list(values), dtype=float) for values in (seconds.keys(), seconds.values()))
        design = np.stack([np.ones_like(n), n], 1) / y[:, None]
        return cls(*np.linalg.lstsq(design, np.ones_like(y), rcond=None)[0].tolist())


def compute_speed_factor(tokens: float, seconds: float, target_only: float) -> float:
    """Speed-up of rounds of ``tokens`` tokens in ``seconds`` over target-only sampling at ``target_only`` seconds per token."""
    return tokens * target_only / seconds


def find_best_gamma(factors: Mapping[int, float]) -> int:
    """The gamma with the largest factor, the smallest among equals; 0 (target-only) if none exceeds 1."""
    best = max(sorted(factors), key=lambda gamma: factors[gamma])
    return best if factors[best] > 1.0 else 0
