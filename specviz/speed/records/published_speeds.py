"""What papers report, beside what their own formula predicts from their numbers.

Leviathan, Kalman, Matias: Fast Inference from Transformers via Speculative Decoding, ICML 2023, Table 2 (T5-XXL with 11 B parameters, batch 1,
one TPU v4) and the cost ratios c named beside it. Entered by hand and not from the authors' files: if the paper
says otherwise, trust the paper.
"""

from __future__ import annotations

from dataclasses import dataclass

from specviz.theory import wall_clock_factor

SOURCE = "Leviathan et al. 2023, Table 2"
COSTS = {"small": 0.02, "base": 0.04, "large": 0.11}  # c of T5-small (77 M), T5-base (250 M), T5-large (800 M)


@dataclass(frozen=True, slots=True)
class PublishedSpeedup:
    """One row of the table: what was run, and the speed-up that the paper reports."""

    task: str
    temperature: float
    draft: str
    gamma: int
    alpha: float
    factor: float

    @property
    def formula(self) -> float:
        """Speed-up by the formula at the paper's alpha, gamma and c."""
        return wall_clock_factor(self.alpha, self.gamma, COSTS[self.draft])

    @property
    def error(self) -> float:
        """Formula over reported speed-up, minus 1."""
        return self.formula / self.factor - 1.0


_GERMAN, _NEWS = "English to German (WMT)", "Summaries (CNN/DM)"
ROWS = tuple(
    PublishedSpeedup(*row)
    for row in (
        (_GERMAN, 0.0, "small", 7, 0.75, 3.4),
        (_GERMAN, 0.0, "base", 7, 0.80, 2.8),
        (_GERMAN, 0.0, "large", 7, 0.82, 1.7),
        (_GERMAN, 1.0, "small", 7, 0.62, 2.6),
        (_GERMAN, 1.0, "base", 5, 0.68, 2.4),
        (_GERMAN, 1.0, "large", 3, 0.71, 1.4),
        (_NEWS, 0.0, "small", 5, 0.65, 3.1),
        (_NEWS, 0.0, "base", 5, 0.73, 3.0),
        (_NEWS, 0.0, "large", 3, 0.74, 2.2),
        (_NEWS, 1.0, "small", 5, 0.53, 2.3),
        (_NEWS, 1.0, "base", 3, 0.55, 2.2),
        (_NEWS, 1.0, "large", 3, 0.56, 1.7),
    )
)
