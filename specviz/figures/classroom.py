"""Pictures of the wall of a room: type to be read at ten meters, nothing that moves under a pointer. Records in, Plotly figures out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from specviz.classroom.records import METHODS
from specviz.classroom.tally import Calibration, Choice, Votes
from specviz.figures.common.labels import safe, short
from specviz.figures.common.theme import GRAY, GRID, MEANINGS
from specviz.figures.exactness.evidence import CellShares, axis_end, cell_bars

TYPE = 26  # px of the smallest words, on a wall of 1920 px
HEIGHT = 640  # px
CELLS, CHOICES, LONGEST = 12, 10, 22  # rows of a histogram; of a race; characters of a row's name
FINE = 20  # places on an axis of probabilities at which predictions are drawn together


def histogram(one: CellShares, kind: str = "light") -> go.Figure:
    """The class's samples over the exact distribution, the heaviest CELLS cells."""
    shown = one.heaviest(CELLS)
    figure = cell_bars(shown, axis_end(shown), kind)
    figure.update_traces(marker={"size": 34, "line": {"width": 6}}, selector={"type": "scatter"})
    figure.update_yaxes(ticktext=[safe(short(shown.labels[place], LONGEST)) for place in shown.bars])
    return _large(figure)


def situation(content: Mapping[str, Any], kind: str = "light") -> go.Figure:
    """Both distributions at the draft token of a prediction, without numbers."""
    rows = content["bars"]
    names = [safe(short(row["token"], LONGEST)) for row in rows]
    names = [f"<b>{name}</b>" if row["token"] == content["token"] else name for name, row in zip(names, rows, strict=True)]
    figure = go.Figure()
    places = list(range(len(rows)))[::-1]
    for letter, meaning, words in (("p", "target", "target p"), ("q", "draft", "draft q")):
        pattern = {"shape": "/", "size": 10, "fgcolor": "white", "fillmode": "overlay"} if meaning == "draft" else None
        figure.add_bar(x=[row[letter] for row in rows], y=places, orientation="h", name=words,
                       marker={"color": getattr(MEANINGS[meaning], kind), "pattern": pattern})  # fmt: skip
    figure.update_layout(barmode="group", bargap=0.25)
    figure.update_yaxes(tickvals=places, ticktext=names, showgrid=False)
    figure.update_xaxes(title="probability of the next token", showticklabels=False, rangemode="tozero", gridcolor=GRID)
    return _large(figure, 420)


def calibration(found: Calibration, kind: str = "light") -> go.Figure:
    """What the class said over min(1, p/q), larger where more said so; who is right stands on the diagonal."""
    gray, blue = GRAY[kind], getattr(MEANINGS["target"], kind)
    points = Counter((round(said * FINE) / FINE, truth) for said, truth in found.points)
    places = sorted(points)
    figure = go.Figure()
    figure.add_scatter(x=[0, 1], y=[0, 1], mode="lines", name="as probable as said", line={"color": blue, "width": 6})
    figure.add_scatter(
        x=[said for said, _ in places], y=[truth for _, truth in places], mode="markers", name="predictions, by min(1, p/q)",
        marker={"color": gray, "opacity": 0.85, "sizemode": "area", "size": [points[place] for place in places],
                "sizeref": max(points.values()) / 60.0**2, "sizemin": 9},
    )  # fmt: skip
    figure.add_scatter(
        x=[middle for middle, _, _ in found.bins], y=[share for _, _, share in found.bins], mode="markers",
        name="share that was accepted", marker={"symbol": "diamond-open", "size": 30, "line": {"width": 6, "color": gray}, "color": gray},
    )  # fmt: skip
    ticks = {
        "tickformat": ".0%",
        "tickvals": [0, 0.25, 0.5, 0.75, 1],
        "range": [-0.05, 1.05],
        "gridcolor": GRID,
        "zeroline": False,
    }
    figure.update_xaxes(title="the class said: probability of acceptance", **ticks)
    figure.update_yaxes(title="min(1, p/q), and what came", **ticks)
    return _large(figure)


def votes(options: Sequence[Mapping[str, str]], found: Votes, answer: int | None, kind: str = "light") -> go.Figure:
    """Votes before and after the discussion. answer: the option that is right, None while that is not to be seen."""
    gray, blue = GRAY[kind], getattr(MEANINGS["target"], kind)
    places = list(range(len(options)))[::-1]
    names = [safe(short(option["name"], 2 * LONGEST)) for option in options]
    names = [f"<b>✓ {name}</b>" if place == answer else name for place, name in enumerate(names)]
    figure = go.Figure()
    after = {"color": blue, "pattern": {"shape": ""}}
    before = {"color": gray, "pattern": {"shape": "/", "size": 12, "fgcolor": "white", "fillmode": "overlay"}}
    for words, counts, marker in (("after talking", found.after, after), ("before", found.before, before)):
        if any(counts):
            figure.add_bar(x=counts, y=places, orientation="h", name=words, marker=marker, text=counts, textposition="outside",
                           textfont={"size": TYPE}, cliponaxis=False)  # fmt: skip
    most = max([1, *found.before, *found.after])
    figure.update_layout(barmode="group", bargap=0.3)
    figure.update_yaxes(tickvals=places, ticktext=names, showgrid=False)
    figure.update_xaxes(range=[0, 1.15 * most], showticklabels=False, title="students", gridcolor=GRID)
    return _large(figure, 140 + 110 * len(options))


def race(found: Sequence[Choice], kind: str = "light") -> go.Figure:
    """Tokens per target pass of each choice, the most first."""
    rows = list(found)[:CHOICES]
    places = list(range(len(rows)))[::-1]
    figure = go.Figure()
    words = [f"{row.per_pass:.2f}" + (f" · {row.students} students" if row.students > 1 else "") for row in rows]
    figure.add_bar(x=[row.per_pass for row in rows], y=places, orientation="h", marker={"color": GRAY[kind]}, width=0.6,
                   text=words, textposition="outside", textfont={"size": TYPE}, cliponaxis=False, showlegend=False)  # fmt: skip
    figure.add_vline(x=1.0, line={"width": 5, "color": getattr(MEANINGS["target"], kind)})
    figure.update_yaxes(tickvals=places, ticktext=[f"{METHODS[row.method]}, γ = {row.gamma}" for row in rows], showgrid=False)
    most = max([1.0, *(row.per_pass for row in rows)])
    figure.update_xaxes(range=[0, 1.45 * most], title="tokens per target pass; the line: without drafting", gridcolor=GRID)
    return _large(figure, 150 + 58 * max(4, len(rows)))


def _large(figure: go.Figure, height: int = HEIGHT) -> go.Figure:
    """Every word of it at TYPE."""
    words = {"size": TYPE}
    figure.update_layout(
        height=height, font=words, margin={"l": 8, "r": 24, "t": 64, "b": 96}, dragmode=False, hovermode=False,
        legend={"orientation": "h", "xref": "container", "x": 0, "yref": "container", "y": 1, "yanchor": "top", "traceorder": "normal",
                "font": words, "itemwidth": 40},
    )  # fmt: skip
    for axis in (figure.update_xaxes, figure.update_yaxes):
        axis(tickfont=words, title_font=words, fixedrange=True, zeroline=False)
    figure.update_yaxes(automargin=True, ticks="")
    return figure
