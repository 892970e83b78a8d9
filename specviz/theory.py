"""Formulas, each with its assumption. Letters as in Leviathan et al. 2023: alpha acceptance, gamma block length, c cost ratio."""

from __future__ import annotations

import numpy as np


def expected_tokens(alpha: float, gamma: int) -> float:
    """Tokens per target pass when every guess is kept independently with probability alpha: (1 - a^(g+1)) / (1 - a).

    Leviathan et al. 2023, equation 1. alpha in [0, 1], gamma >= 0; between 1 and gamma + 1.
    """
    return float(np.sum(np.power(float(alpha), np.arange(gamma + 1))))


def wall_clock_factor(alpha: float, gamma: int, c: float) -> float:
    """Speed-up over the target alone, if a block costs the target no more than one token: expected tokens / (gamma c + 1).

    Leviathan et al. 2023, Theorem 3.8. c: one draft step over one target pass, >= 0.
    """
    return expected_tokens(alpha, gamma) / (gamma * c + 1.0)
