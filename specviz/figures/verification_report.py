"""A report's figures: the share of the samples in each cell beside its exact probability, and the p-value of every test."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from specviz.evidence.testing.results import label_cell
from specviz.figures.charts import escape_label, shorten_label
from specviz.figures.lazy_plotly import go
from specviz.figures.theme import MEANINGS, REPORT_MARK
from specviz.statistics.total_variation import compute_cell_bands

MOST = 32  # cells of a histogram; cells.csv holds all
LEVEL = 0.99  # of the band of each cell
LEAST_P = 1e-6  # smaller p-values are drawn here; tests.csv holds them


def plot_histogram(answer: Mapping[str, Any], pieces: Mapping[int, str]) -> go.Figure:
    """Share of an answer's samples in its heaviest cells, beside the exact distribution and its band. pieces: id -> bytes as hex."""
    masses = np.array([cell["mass"] for cell in answer["cells"]])
    order = np.argsort(-masses, kind="stable")[:MOST]
    labels = [label_cell(cell["begins"], cell["whole"], pieces) for cell in (answer["cells"][place] for place in order)]
    probs, share = masses / masses.sum(), np.array([cell["count"] for cell in answer["cells"]]) / answer["n"]
    probs, low, high, share = (column[order] for column in (probs, *compute_cell_bands(probs, answer["n"], LEVEL), share))
    # left end of the logarithmic axis, where a share of 0 stands
    edge = min(*probs, *share[share > 0.0], 1.0 / answer["n"]) / 2.0
    rows, color = _place_rows(labels), MEANINGS["target"].light
    band = {"array": high - probs, "arrayminus": probs - np.maximum(low, edge), "color": color}
    figure = go.Figure(
        [
            go.Scatter(x=probs, y=rows, mode="markers", error_x={"type": "data", "symmetric": False} | band,
                       marker={"symbol": "line-ns-open", "size": 12, "color": color}, name=f"exact distribution, {LEVEL:.0%} band"),
            go.Scatter(x=np.maximum(share, edge), y=rows, mode="markers", marker={"size": 6, "color": REPORT_MARK}, customdata=share,
                       name=f"share of {answer['n']:,} samples", hovertemplate="%{customdata:.6g}"),
        ]
    )  # fmt: skip
    ends = [math.log10(edge), math.log10(max(1.0, *high))]
    title = "probability" + (" (a point on the edge: no sample)" if 0.0 in share else "")
    figure.update_xaxes(title=title, type="log", range=ends, dtick=1, exponentformat="power")
    few = len(labels) < len(masses)
    shown = f"the {len(labels)} likeliest of {len(masses)} cells" if few else "all cells"
    return _finish_figure(figure, labels, f"{answer['mode']}: {shown}")


def plot_tests(answer: Mapping[str, Any]) -> go.Figure:
    """An answer's p-values after correction on a logarithmic axis, and the level that rejects."""
    alpha, labels = answer["plan"]["alpha"], [_name_test(test) for test in answer["tests"]]
    values = [max(LEAST_P, test["adjusted_p"]) for test in answer["tests"]]
    rows, figure = _place_rows(labels), go.Figure()
    for rejected, symbol, name, words in ((False, "circle", "target", "not rejected"), (True, "x", "rejected", "rejected")):
        chosen = [place for place, test in enumerate(answer["tests"]) if (test["adjusted_p"] <= alpha) == rejected]
        if chosen:
            xs, ys = [values[place] for place in chosen], [rows[place] for place in chosen]
            marker = {"symbol": symbol, "size": 9, "color": MEANINGS[name].light}
            figure.add_scatter(x=xs, y=ys, mode="markers", marker=marker, name=words)
    line, ends = {"dash": "dash", "color": REPORT_MARK}, [-0.5, len(rows) - 0.5]
    figure.add_scatter(x=[alpha] * 2, y=ends, mode="lines", line=line, name=f"level {alpha:g} of all tests together")
    ends = [math.log10(min(alpha, *values) / 2.0), math.log10(1.5)]
    figure.update_xaxes(
        title="p-value, corrected for the number of tests", type="log", range=ends, dtick=1, exponentformat="power"
    )
    return _finish_figure(figure, labels, f"{answer['mode']}: {answer['n']:,} samples")


def _place_rows(labels: list[str]) -> list[float]:
    return [float(len(labels) - 1 - place) for place in range(len(labels))]


def _finish_figure(figure: go.Figure, labels: list[str], title: str) -> go.Figure:
    ticks = [escape_label(shorten_label(text, 64)) for text in labels]
    figure.update_yaxes(tickvals=_place_rows(labels), ticktext=ticks, automargin=True)
    return figure.update_layout(
        title=escape_label(title),
        template="plotly_white",
        height=160 + 24 * max(4, len(labels)),
        legend={"orientation": "h", "yref": "container", "y": 0.0},
    )


def _name_test(test: Mapping[str, Any]) -> str:
    return test["name"] if test["detectable_tv"] is None else f"{test['name']} (detects TV {test['detectable_tv']:.2g})"
