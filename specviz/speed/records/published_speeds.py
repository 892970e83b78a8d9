"""What papers report, beside what their own formula predicts from their numbers. The numbers are in assets/published_speeds.toml."""

from __future__ import annotations

from dataclasses import dataclass

from specviz.records import load_toml
from specviz.theory import compute_wall_clock_factor

_TABLE = load_toml("published_speeds")
SOURCE, COSTS = _TABLE["source"], _TABLE["costs"]


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
        return compute_wall_clock_factor(self.alpha, self.gamma, COSTS[self.draft])

    @property
    def error(self) -> float:
        """Formula over reported speed-up, minus 1."""
        return self.formula / self.factor - 1.0


ROWS = tuple(PublishedSpeedup(**row) for row in _TABLE["speedups"])
