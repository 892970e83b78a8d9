"""A report's figures for a screen: the series that print is drawn from (export/series.py), with values under the pointer."""

from __future__ import annotations

import math
from html import escape

import plotly.graph_objects as go

from specviz.export.series import LEVEL, Histogram, Tests
from specviz.figures.common.theme import MEANINGS

INK = "#444444"


def histogram(series: Histogram) -> go.Figure:
    """Share of the draws in each cell beside the exact distribution and its band."""
    rows, probs = _rows(series.labels), MEANINGS["target"].light
    share, low = ([series.placed(value) for value in column] for column in (series.share, series.low))
    band = {
        "array": [high - mass for high, mass in zip(series.high, series.probs, strict=True)],
        "arrayminus": [mass - bound for bound, mass in zip(low, series.probs, strict=True)],
        "color": probs,
    }
    figure = go.Figure(
        [
            go.Scatter(x=series.probs, y=rows, mode="markers", error_x={"type": "data", "symmetric": False} | band,
                       marker={"symbol": "line-ns-open", "size": 12, "color": probs}, name=f"exact distribution, {LEVEL:.0%} band"),
            go.Scatter(x=share, y=rows, mode="markers", marker={"size": 6, "color": INK}, customdata=series.share,
                       name=f"share of {series.n:,} draws", hovertemplate="%{customdata:.6g}"),
        ]
    )  # fmt: skip
    figure.update_xaxes(title="probability" + series.at_the_edge, type="log")
    return _framed(figure, series.labels, series.title)


def tests(series: Tests) -> go.Figure:
    """p-values after correction on a logarithmic axis, and the level that rejects."""
    rows, figure = _rows(series.labels), go.Figure()
    for kind, symbol, name, words in ((False, "circle", "target", "not rejected"), (True, "x", "rejected", "rejected")):
        chosen = [place for place, bad in enumerate(series.rejected) if bad == kind]
        if chosen:
            xs, ys = [series.values[place] for place in chosen], [rows[place] for place in chosen]
            marker = {"symbol": symbol, "size": 9, "color": MEANINGS[name].light}
            figure.add_scatter(x=xs, y=ys, mode="markers", marker=marker, name=words)
    line, ends = {"dash": "dash", "color": INK}, [-0.5, len(rows) - 0.5]
    figure.add_scatter(x=[series.alpha] * 2, y=ends, mode="lines", line=line, name=f"level {series.alpha:g} of all together")
    ends = [math.log10(min(series.alpha, *series.values) / 2.0), math.log10(1.5)]
    figure.update_xaxes(title="p-value, corrected for the number of tests", type="log", range=ends)
    return _framed(figure, series.labels, series.title)


def _rows(labels: tuple[str, ...]) -> list[float]:
    return [float(len(labels) - 1 - place) for place in range(len(labels))]


def _framed(figure: go.Figure, labels: tuple[str, ...], title: str) -> go.Figure:
    ticks = [escape(text if len(text) <= 64 else text[:63] + "…") for text in labels]
    figure.update_yaxes(tickvals=_rows(labels), ticktext=ticks, automargin=True)
    return figure.update_layout(
        title=escape(title),
        template="plotly_white",
        height=160 + 24 * max(4, len(labels)),
        legend={"orientation": "h", "yref": "container", "y": 0.0},
    )
