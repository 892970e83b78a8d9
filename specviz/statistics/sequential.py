"""Valid tests while draws accumulate: each look has its own level, and the levels add up to alpha.

The pages use alpha spending at looks fixed beforehand (Lan and DeMets 1983, spent by a union bound): n = n0 * 2^k draws at look
k, level alpha / ((k + 1)(k + 2)), and the last look gets the rest. Three reasons for it:

- It works with every test of this package, and each test's power statement holds at the level of the look.
- It costs little. The level falls only like 1 / k^2, and a chi-square's noncentrality grows with log(1 / level): at the tenth look with
  50 degrees of freedom the detectable distance is 14% larger than in a single test at the same n.
- The number of draws doubles from look to look, so a mistake is found after little more than twice the draws that are needed.
"""

from __future__ import annotations

from dataclasses import dataclass

from specviz.errors import EvidenceError
from specviz.statistics.finding import ALPHA


@dataclass(frozen=True, slots=True)
class InterimSchedule:
    """When accumulating draws are tested, and at what level each time. Fixed before the first draw."""

    first: int  # draws at look 0, at least 1; look k has first * factor^k
    looks: int  # at least 1
    alpha: float = ALPHA  # false-alarm rate of all looks together
    tests: int = 1  # made at each look; they share its level equally
    factor: int = 2  # draws at a look over those at the one before

    def __post_init__(self) -> None:
        if self.first < 1 or self.looks < 1:
            raise EvidenceError(f"Looks must be at least 1, the first after at least 1 draw, got {self.looks} and {self.first}.")
        assert self.factor >= 2

    def count_samples(self, look: int) -> int:
        """Draws at a look."""
        return self.first * self.factor**look

    def compute_alpha_at(self, look: int) -> float:
        """False-alarm rate of a look. All of them sum to alpha: 1/2 + 1/6 + 1/12 + ..., the rest at the last look."""
        assert 0 <= look < self.looks
        return self.alpha * (1.0 / (look + 1) if look == self.looks - 1 else 1.0 / ((look + 1) * (look + 2)))

    def find_due_look(self, n_drawn: int) -> int | None:
        """The latest look that ``n_drawn`` draws have reached, None before the first. Test only the first ``n(look)`` draws."""
        if n_drawn < self.first:
            return None
        return max(look for look in range(self.looks) if self.count_samples(look) <= n_drawn)
