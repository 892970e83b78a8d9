"""A partition of the outcomes, fixed before any draw: made from the exact distribution and the sample size, never from counts."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from specviz.errors import EvidenceError
from specviz.statistics.finding import checked_distribution

MINIMUM = 5.0  # expected draws in a cell; the usual bound (Cochran 1954)
UNLISTED = -1
ROUNDING = 1e-12  # relative rounding error allowed in sums of masses


@dataclass(frozen=True, slots=True)
class Cells:
    """The cell of each outcome, and the exact mass of each cell.

    n         number of draws that the cells were made for; a mean, so it need not be whole
    minimum   every cell expects at least this many draws
    cell      (K,) int64, cell of each listed outcome; the last cell holds those of mass 0
    probs     (C + 1,) float64, mass of each cell. The first ``own`` cells hold one outcome each, the others are pooled;
              the last has mass 0, so a single draw there rejects outright
    own       number of cells that hold one outcome
    unlisted  cell of every outcome that is not listed
    """

    n: float
    minimum: float
    cell: np.ndarray
    probs: np.ndarray
    own: int
    unlisted: int

    @classmethod
    def of(
        cls,
        probs: Sequence[float] | np.ndarray,
        n: float,
        *,
        rest: float = 0.0,
        minimum: float = MINIMUM,
        most: int | None = None,
    ) -> Cells:
        """Outcomes with n * mass >= minimum get their own cells; the others are packed into pooled cells, heaviest first.

        probs  (K,) float64, masses of the listed outcomes; zeros are allowed
        n      number of draws, above 0
        rest   mass of all outcomes that are not listed; 0 makes them impossible. A long distribution need not be known in full:
               list every outcome of mass ``minimum / n`` or more (there are at most n / minimum of them) and give the rest as one
               number. Which outcomes are listed must follow from the distribution, never from what was drawn
        most   upper bound on the number of cells, at least 2: the minimum is raised to n / most, so that cells have about equal
               mass. A test with fewer cells sees a smaller distance (``power.affordable_df``)

        Ties in mass are packed in the order listed. A remainder below the minimum joins the last pooled cell or, if there is
        none, the lightest single outcome.

        Raises EvidenceError if several outcomes all end up in one cell: then nothing can be tested.
        """
        rest = max(0.0, rest) if rest > -1e-12 else rest  # one minus a sum may miss 0 by rounding
        masses = checked_distribution(probs, rest)
        if not n > 0:
            raise EvidenceError(f"The number of samples must be above 0, got {n:g}.")
        if most is not None:
            if most < 2:
                raise EvidenceError(f"The number of cells must be at least 2, got {most}.")
            minimum = max(minimum, n / most)
        least = minimum / n
        order = np.argsort(-masses, kind="stable")
        heavy = int(np.searchsorted(-masses[order], -least * (1.0 - ROUNDING), side="right"))
        possible = int((masses > 0.0).sum())
        light = order[heavy:possible]
        light_masses = np.append(masses[light], rest)  # unlisted outcomes are packed last
        starts = _packed(light_masses, least)
        if len(starts) == 0 and light_masses.sum() > 0.0 and heavy:  # too light for a cell: joins the lightest single outcome
            heavy -= 1
            light = order[heavy:possible]
            light_masses = np.append(masses[light], rest)
            starts = np.zeros(1, dtype=np.int64)
        if len(starts) == 0 and light_masses.sum() > 0.0:
            starts = np.zeros(1, dtype=np.int64)
        group = np.searchsorted(starts, np.arange(len(light_masses)), side="right") - 1
        pooled = np.bincount(group, weights=light_masses, minlength=len(starts)) if len(starts) else np.empty(0)
        impossible = heavy + len(starts)
        cell = np.full(len(masses), impossible, dtype=np.int64)
        cell[order[:heavy]] = np.arange(heavy)
        cell[light] = heavy + group[:-1]
        single = impossible == 1 and possible + (rest > 0.0) == 1
        if impossible == 1 and not single:
            raise EvidenceError(
                f"Nothing can be tested: every outcome is pooled, since with {n:,.0f} draws no two cells expect "
                f"{minimum:g} draws each. Draw more."
            )
        unlisted = heavy + int(group[-1]) if rest > 0.0 else impossible
        return cls(float(n), float(minimum), cell, np.concatenate([masses[order[:heavy]], pooled, [0.0]]), heavy, unlisted)

    @property
    def df(self) -> int:
        """Degrees of freedom: cells with positive mass, less one. 0 if one outcome has all the mass."""
        return len(self.probs) - 2

    @property
    def pooled_mass(self) -> float:
        """Mass of the pooled cells. A change inside a pooled cell is not seen."""
        return float(self.probs[self.own : -1].sum())

    def tally(self, outcomes: Sequence[int] | np.ndarray, counts: Sequence[int] | np.ndarray | None = None) -> np.ndarray:
        """Draws per cell, (C + 1,) int64; the last entry counts impossible ones.

        outcomes  (S,) indices into the listed outcomes; UNLISTED (-1) for any other outcome
        counts    (S,) how often each was drawn; by default once
        """
        places = np.asarray(outcomes, dtype=np.int64)
        if places.size and not (places.min() >= UNLISTED and places.max() < len(self.cell)):
            raise EvidenceError(f"Outcomes must be between 0 and {len(self.cell) - 1}, or {UNLISTED} for one that is not listed.")
        weights = np.ones(places.shape, dtype=np.int64) if counts is None else np.asarray(counts, dtype=np.int64)
        cells = np.where(places == UNLISTED, self.unlisted, self.cell[places])
        drawn = np.zeros(len(self.probs), dtype=np.int64)
        np.add.at(drawn, cells, weights)
        return drawn


def _packed(masses: np.ndarray, least: float) -> np.ndarray:
    """Start of each pooled cell when masses are packed in order until a cell reaches ``least``; empty if all are too light."""
    totals = np.cumsum(masses).tolist()
    starts, begin, before = [], 0, 0.0
    while begin < len(totals):
        end = bisect_left(totals, before + least * (1.0 - ROUNDING), begin)
        if end == len(totals):
            break
        starts.append(begin)
        begin, before = end + 1, totals[end]
    return np.array(starts, dtype=np.int64)
