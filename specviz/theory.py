"""Formulas, each with its assumption. Letters as in Leviathan et al. 2023: alpha acceptance, gamma block length, c cost ratio.

Two questions are kept apart: how many tokens a pass of the target yields, and what a round costs. For the first there are the
independent formula (one alpha for every draft token) and the hazard formula (one for every depth); kept_guess.py counts without either
assumption. For the second there are Leviathan's cost, in which a block costs the target one pass, and a cost with a fixed part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np


def expected_tokens(alpha: float, gamma: int) -> float:
    """Tokens per target pass when every draft token is kept independently with probability alpha: (1 - a^(g+1)) / (1 - a).

    Leviathan et al. 2023, equation 1. alpha in [0, 1], gamma >= 0; between 1 and gamma + 1.
    """
    return float(np.sum(np.power(float(alpha), np.arange(gamma + 1))))


def hazard_tokens(hazards: Sequence[float], gamma: int) -> float:
    """Tokens per target pass when draft token i is kept with probability h_i once those before it are: 1 + sum over j <= gamma of h_1 ... h_j.

    True of rounds that are alike; where a round starts may still depend on gamma, and then the h_i do too.
    hazards  at least gamma numbers in [0, 1]; returns a number between 1 and gamma + 1
    """
    assert len(hazards) >= gamma, "one hazard for every draft token"
    return 1.0 + float(np.sum(np.cumprod(np.asarray(hazards[:gamma], dtype=float))))


def wall_clock_factor(alpha: float, gamma: int, c: float) -> float:
    """Speed-up over the target alone, if a block costs the target no more than one token: expected tokens / (gamma c + 1).

    Leviathan et al. 2023, Theorem 3.8. c: one draft step over one target pass, >= 0.
    """
    return expected_tokens(alpha, gamma) / (gamma * c + 1.0)


def factor_grid(alphas: np.ndarray, costs: np.ndarray, gamma: int) -> np.ndarray:
    """wall_clock_factor at every alpha (A,) and every c (C,): (A, C)."""
    tokens = np.power(np.asarray(alphas, dtype=float)[:, None], np.arange(gamma + 1)).sum(1)
    return tokens[:, None] / (gamma * np.asarray(costs, dtype=float)[None, :] + 1.0)


def dearest(alpha: float, gamma: int, reached: float = 1.0) -> float:
    """The cost c at which gamma draft tokens are just ``reached`` times as fast as the target alone: wall_clock_factor solved for c.

    gamma >= 1, reached > 0; below 0 where not even a draft that costs nothing gets so far.
    """
    return (expected_tokens(alpha, gamma) / reached - 1.0) / gamma


def pays(alpha: float, c: float) -> bool:
    """Whether some gamma is faster than the target alone at Leviathan's cost: alpha > c (Corollary 3.9)."""
    return alpha > c


def least_factor(alpha: float, c: float) -> float:
    """What the best gamma reaches at least, where it pays: (1 + alpha) / (1 + c), the factor of gamma = 1 (Corollary 3.9)."""
    return (1.0 + alpha) / (1.0 + c)


def operations_factor(alpha: float, gamma: int, c_hat: float) -> float:
    """Arithmetic of speculative decoding over that of the target alone: (1 - a)(g c_hat + g + 1) / (1 - a^(g+1)).

    Leviathan et al. 2023, Theorem 3.11: time is bought with work. c_hat: operations of a draft step over those of the target for
    one token, >= 0; at least 1 wherever a draft token can be refused.
    """
    return operations(expected_tokens(alpha, gamma), gamma, c_hat)


def operations(tokens: float, gamma: int, c_hat: float) -> float:
    """The same for rounds that yield so many tokens, however that is known: gamma draft steps and gamma + 1 tokens of the target."""
    return (gamma * c_hat + gamma + 1.0) / tokens


@dataclass(frozen=True, slots=True)
class LinearCost:
    """A round with n draft tokens takes fixed + n * draft token seconds: one pass of the target and what does not grow, then a draft step and one
    more token in the block for every draft token."""

    fixed: float
    draft_token: float

    def seconds(self, gamma: int) -> float:
        return self.fixed + gamma * self.draft_token

    @classmethod
    def fitted(cls, seconds: Mapping[int, float]) -> LinearCost:
        """Least squares of the relative error over measured rounds: number of draft tokens -> seconds, two numbers or more."""
        n, y = (np.array(list(values), dtype=float) for values in (seconds.keys(), seconds.values()))
        design = np.stack([np.ones_like(n), n], 1) / y[:, None]
        fixed, draft_token = np.linalg.lstsq(design, np.ones_like(y), rcond=None)[0].tolist()
        return cls(fixed, draft_token)


def factor(tokens: float, seconds: float, alone: float) -> float:
    """Speed-up of rounds of so many tokens in so many seconds over the target alone, which takes ``alone`` seconds for each token."""
    return tokens * alone / seconds


def best_gamma(factors: Mapping[int, float]) -> int:
    """The gamma of the largest factor, the smallest among equals; 0, the target alone, where none exceeds 1."""
    best = max(sorted(factors), key=lambda gamma: factors[gamma])
    return best if factors[best] > 1.0 else 0


def least_overlap(kl: float) -> float:
    """What beta = sum of min(p, q) is at least, given KL(p || q) or KL(q || p) in nats: max(1 - sqrt(KL / 2), 1 - sqrt(1 - exp(-KL))).

    Pinsker's bound, better where KL is small, and that of Bretagnolle and Huber, which lies above exp(-KL) / 2 everywhere.
    kl >= 0, infinity included; in [0, 1].
    """
    return float(max(1.0 - np.sqrt(kl / 2.0), 1.0 - np.sqrt(-np.expm1(-kl)), 0.0))
