"""What the figures of a report show, as plain named numbers: print and screen are drawn from the same record."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from specviz.figures.common.glyphs import glyphs
from specviz.statistics.variation import cell_band

MOST = 32  # cells of a histogram; cells.csv holds all
LEVEL = 0.99  # of the band of each cell
LEAST_P = 1e-6  # smaller p-values are drawn here; tests.csv holds them


@dataclass(frozen=True, slots=True)
class Histogram:
    """The heaviest cells, heaviest first: the share of the draws in each, and the distribution it should follow.

    distribution, low, high, share  (K,) in [0, 1]; low and high bound the share of the cell in LEVEL of all repetitions
    """

    mode: str
    labels: tuple[str, ...]
    probs: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    share: tuple[float, ...]
    cells: int
    n: int

    @property
    def edge(self) -> float:
        """Left end of the logarithmic axis, below every mass and every share but 0."""
        return min(*self.probs, *(value for value in self.share if value > 0.0), 1.0 / self.n) / 2.0

    def placed(self, value: float) -> float:
        """Where a value stands on that axis: 0 stands at its edge."""
        return max(value, self.edge)

    @property
    def title(self) -> str:
        few = len(self.labels) < self.cells
        return f"{self.mode}: " + (f"the {len(self.labels)} heaviest of {self.cells} cells" if few else "all cells")

    @property
    def at_the_edge(self) -> str:
        """What the axis must say where a share of 0 stands at its edge."""
        return " (a point on the edge: no draw)" if 0.0 in self.share else ""


@dataclass(frozen=True, slots=True)
class Tests:
    """Every test: its p-value after correction, as drawn, beside the level of all together.

    values  (T,) p-values after correction, at least LEAST_P; labels also say what the test could have seen
    """

    mode: str
    labels: tuple[str, ...]
    values: tuple[float, ...]
    rejected: tuple[bool, ...]
    alpha: float
    n: int

    @property
    def title(self) -> str:
        return f"{self.mode}: {self.n:,} draws"


def histogram(one: Mapping[str, Any], pieces: Mapping[str, str]) -> Histogram:
    """The series of one answer of a report. ``pieces``: token id as text -> its bytes as hex."""
    masses = np.array([cell["mass"] for cell in one["cells"]])
    probs = masses / masses.sum()
    low, high = cell_band(probs, one["n"], LEVEL)
    share = np.array([cell["count"] for cell in one["cells"]]) / one["n"]
    order = np.argsort(-probs, kind="stable")[:MOST]
    labels = tuple(label(one["cells"][place], pieces) for place in order)
    columns = (tuple(column[order].tolist()) for column in (probs, low, high, share))
    return Histogram(one["mode"], labels, *columns, len(probs), one["n"])


def tests(one: Mapping[str, Any]) -> Tests:
    """The series of one answer's tests, in the report's order."""
    alpha = one["plan"]["alpha"]
    values = tuple(max(LEAST_P, test["adjusted_p"]) for test in one["tests"])
    rejected = tuple(test["adjusted_p"] <= alpha for test in one["tests"])
    return Tests(one["mode"], tuple(map(_seen, one["tests"])), values, rejected, alpha, one["n"])


def label(cell: Mapping[str, Any], pieces: Mapping[str, str]) -> str:
    """A cell in words: the texts that begin so, and whether there is more than one."""
    if not cell["begins"]:
        return "(empty text)" if cell["whole"] else "all others"
    shown = "".join(_token(token, pieces) for token in cell["begins"])
    return shown if cell["whole"] else f"{shown} …"


def slug(mode: str) -> str:
    """A mode's name as part of a file's name."""
    return re.sub(r"[^a-z0-9]+", "-", mode.lower()).strip("-")[:40] or "draws"


def _token(token: int, pieces: Mapping[str, str]) -> str:
    shown = glyphs(bytes.fromhex(pieces.get(str(token), "")), token)
    return "".join(f"‹{glyph['t']}›" if glyph["k"] in ("byte", "sign") else glyph["t"] for glyph in shown)


def _seen(test: Mapping[str, Any]) -> str:
    return test["name"] if test["detectable_tv"] is None else f"{test['name']} (sees {test['detectable_tv']:.2g})"
