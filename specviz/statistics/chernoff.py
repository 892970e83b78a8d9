"""Range of a frequency by Chernoff's bound: wider than the binomial's own quantiles, and without scipy."""

from __future__ import annotations

from math import log

STEPS = 60  # halvings of an interval in [0, 1]


def compute_frequency_range(p: float, n: int, error: float) -> tuple[float, float]:
    """An interval around p that the frequency of n draws leaves with probability ``error`` at most; (0, 1) before the first draw.

    The frequency is at s or beyond with probability exp(-n KL(s, p)) at most, on either side (Chernoff 1952).
    """
    most = log(2.0 / error) / max(n, 1)
    return (_find_edge(p, 0.0, most), _find_edge(p, 1.0, most)) if n else (0.0, 1.0)


def _find_edge(p: float, end: float, most: float) -> float:
    """Where the divergence reaches ``most`` between p and an end of [0, 1]; the end itself where it does not."""
    inside, outside = p, end
    if _compute_divergence(end, p) <= most:
        return end
    for _ in range(STEPS):
        middle = (inside + outside) / 2.0
        if _compute_divergence(middle, p) <= most:
            inside = middle
        else:
            outside = middle
    return outside


def _compute_divergence(s: float, p: float) -> float:
    """KL divergence between events of probability s and p."""
    return sum(a * log(a / b) if b > 0.0 else float("inf") for a, b in ((s, p), (1.0 - s, 1.0 - p)) if a > 0.0)
