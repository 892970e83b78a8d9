"""A report's figures: the share of the samples in each cell beside its exact probability, and the p-value of every test."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from specviz.figures.common.glyphs import glyphs
from specviz.figures.common.labels import safe, short
from specviz.figures.common.theme import MEANINGS
from specviz.statistics.variation import cell_band

INK = "#444444"
MOST = 32  # cells of a histogram; cells.csv holds all
LEVEL = 0.99  # of the band of each cell
LEAST_P = 1e-6  # smaller p-values are drawn here; tests.csv holds them


@dataclass(frozen=True, slots=True)
class Histogram:
    """The heaviest cells, heaviest first: the share of the samples in each, and the distribution it should follow.

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

    @classmethod
    def of(cls, one: Mapping[str, Any], pieces: Mapping[str, str]) -> Histogram:
        """One answer of a report. ``pieces``: token id as text -> its bytes as hex."""
        masses = np.array([cell["mass"] for cell in one["cells"]])
        probs = masses / masses.sum()
        low, high = cell_band(probs, one["n"], LEVEL)
        share = np.array([cell["count"] for cell in one["cells"]]) / one["n"]
        order = np.argsort(-probs, kind="stable")[:MOST]
        labels = tuple(named(one["cells"][place], pieces) for place in order)
        columns = (tuple(column[order].tolist()) for column in (probs, low, high, share))
        return cls(one["mode"], labels, *columns, len(probs), one["n"])

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
        return f"{self.mode}: " + (f"the {len(self.labels)} likeliest of {self.cells} cells" if few else "all cells")

    @property
    def at_the_edge(self) -> str:
        """What the axis must say where a share of 0 stands at its edge."""
        return " (a point on the edge: no sample)" if 0.0 in self.share else ""


@dataclass(frozen=True, slots=True)
class PValues:
    """Every test: its p-value after correction, as drawn, beside the level of all together.

    values  (T,) p-values after correction, at least LEAST_P; labels also say what TV the test detects
    """

    mode: str
    labels: tuple[str, ...]
    values: tuple[float, ...]
    rejected: tuple[bool, ...]
    alpha: float
    n: int

    @classmethod
    def of(cls, one: Mapping[str, Any]) -> PValues:
        """One answer's tests, in the report's order."""
        alpha = one["plan"]["alpha"]
        values = tuple(max(LEAST_P, test["adjusted_p"]) for test in one["tests"])
        rejected = tuple(test["adjusted_p"] <= alpha for test in one["tests"])
        return cls(one["mode"], tuple(map(_seen, one["tests"])), values, rejected, alpha, one["n"])

    @property
    def title(self) -> str:
        return f"{self.mode}: {self.n:,} samples"


def histogram(shown: Histogram) -> go.Figure:
    """Share of the samples in each cell beside the exact distribution and its band."""
    rows, probs = _rows(shown.labels), MEANINGS["target"].light
    share, low = ([shown.placed(value) for value in column] for column in (shown.share, shown.low))
    band = {
        "array": [high - mass for high, mass in zip(shown.high, shown.probs, strict=True)],
        "arrayminus": [mass - bound for bound, mass in zip(low, shown.probs, strict=True)],
        "color": probs,
    }
    figure = go.Figure(
        [
            go.Scatter(x=shown.probs, y=rows, mode="markers", error_x={"type": "data", "symmetric": False} | band,
                       marker={"symbol": "line-ns-open", "size": 12, "color": probs}, name=f"exact distribution, {LEVEL:.0%} band"),
            go.Scatter(x=share, y=rows, mode="markers", marker={"size": 6, "color": INK}, customdata=shown.share,
                       name=f"share of {shown.n:,} samples", hovertemplate="%{customdata:.6g}"),
        ]
    )  # fmt: skip
    ends = [math.log10(shown.edge), math.log10(max(1.0, *shown.high))]
    figure.update_xaxes(title="probability" + shown.at_the_edge, type="log", range=ends, dtick=1, exponentformat="power")
    return _framed(figure, shown.labels, shown.title)


def tests(shown: PValues) -> go.Figure:
    """p-values after correction on a logarithmic axis, and the level that rejects."""
    rows, figure = _rows(shown.labels), go.Figure()
    for kind, symbol, name, words in ((False, "circle", "target", "not rejected"), (True, "x", "rejected", "rejected")):
        chosen = [place for place, bad in enumerate(shown.rejected) if bad == kind]
        if chosen:
            xs, ys = [shown.values[place] for place in chosen], [rows[place] for place in chosen]
            marker = {"symbol": symbol, "size": 9, "color": MEANINGS[name].light}
            figure.add_scatter(x=xs, y=ys, mode="markers", marker=marker, name=words)
    line, ends = {"dash": "dash", "color": INK}, [-0.5, len(rows) - 0.5]
    figure.add_scatter(x=[shown.alpha] * 2, y=ends, mode="lines", line=line, name=f"level {shown.alpha:g} of all tests together")
    ends = [math.log10(min(shown.alpha, *shown.values) / 2.0), math.log10(1.5)]
    figure.update_xaxes(
        title="p-value, corrected for the number of tests", type="log", range=ends, dtick=1, exponentformat="power"
    )
    return _framed(figure, shown.labels, shown.title)


def _rows(labels: tuple[str, ...]) -> list[float]:
    return [float(len(labels) - 1 - place) for place in range(len(labels))]


def _framed(figure: go.Figure, labels: tuple[str, ...], title: str) -> go.Figure:
    ticks = [safe(short(text, 64)) for text in labels]
    figure.update_yaxes(tickvals=_rows(labels), ticktext=ticks, automargin=True)
    return figure.update_layout(
        title=safe(title),
        template="plotly_white",
        height=160 + 24 * max(4, len(labels)),
        legend={"orientation": "h", "yref": "container", "y": 0.0},
    )


def named(cell: Mapping[str, Any], pieces: Mapping[str, str]) -> str:
    """A cell in words: the texts that begin so, and whether there is more than one."""
    if not cell["begins"]:
        return "(empty text)" if cell["whole"] else "all others"
    shown = "".join(_token(token, pieces) for token in cell["begins"])
    return shown if cell["whole"] else f"{shown} …"


def _token(token: int, pieces: Mapping[str, str]) -> str:
    shown = glyphs(bytes.fromhex(pieces.get(str(token), "")), token)
    return "".join(f"‹{glyph['t']}›" if glyph["k"] in ("byte", "sign") else glyph["t"] for glyph in shown)


def _seen(test: Mapping[str, Any]) -> str:
    return test["name"] if test["detectable_tv"] is None else f"{test['name']} (detects TV {test['detectable_tv']:.2g})"
