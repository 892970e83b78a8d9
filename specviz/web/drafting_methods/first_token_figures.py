"""Two distributions of a first token: what a bad draft and what a popular shortcut write. Plain records, Plotly."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from specviz.figures.charts import escape_label, frame_chart, shorten_label
from specviz.figures.lazy_plotly import go
from specviz.figures.numbers import format_probability
from specviz.figures.theme import BAND, GRAY, MEANINGS, PERCENT
from specviz.speed.records.methods import FirstToken, MethodComparison
from specviz.web.drafting_methods.words import describe_adversarial, describe_typical, name_first_token

SHOWN = 8  # likeliest tokens of the two pictures


def plot_adversarial(first_token: FirstToken, kind: str = "light") -> go.Figure:
    """Samples as bars, the exact distribution as marks, and the band of sampling noise. All other tokens stand in the table."""
    places = _choose_cells(first_token)
    figure = go.Figure()
    wide = [first_token.high[cell] - first_token.low[cell] for cell in places]
    rows = _place_rows(places)
    figure.add_bar(x=wide, base=[first_token.low[cell] for cell in places], y=rows, orientation="h", width=0.86, marker={"color": BAND},
                   name="sampling noise, 99%", hoverinfo="skip")  # fmt: skip
    figure.add_bar(x=[first_token.shares[cell] for cell in places], y=rows, orientation="h", width=0.44, marker={"color": GRAY[kind]},
                   name=f"{first_token.n:,} samples", hoverinfo="skip")  # fmt: skip
    figure.add_scatter(x=[first_token.probs[cell] for cell in places], y=rows, mode="markers", name="target’s exact distribution", hoverinfo="skip",
                       marker=_build_marker(kind))  # fmt: skip
    return _finish_figure(figure, first_token, places, "share of all first tokens")


def plot_typical(first_token: FirstToken, kind: str = "light") -> go.Figure:
    """What the shortcut writes as bars, the target’s distribution as marks, and the entropy threshold as a line over p."""
    places, written, edge = _choose_cells(first_token), first_token.written, first_token.edge
    assert written is not None and edge is not None, "a lossy rule's distribution is computed"
    figure = go.Figure()
    figure.add_bar(x=[written[cell] for cell in places], y=_place_rows(places), orientation="h", width=0.5, marker={"color": GRAY[kind]},
                   name="what it writes", hoverinfo="skip")  # fmt: skip
    figure.add_scatter(x=[first_token.probs[cell] for cell in places], y=_place_rows(places), mode="markers", name="target’s exact distribution",
                       hoverinfo="skip", marker=_build_marker(kind))  # fmt: skip
    figure.add_vline(x=edge, line={"width": 1.5, "dash": "dot", "color": GRAY[kind]})
    figure.add_annotation(x=edge, y=len(places) - 0.1, xanchor="left", xshift=5, showarrow=False, font={"size": 12, "color": GRAY[kind]},
                          text=f"accepted above {format_probability(edge, 3)}")  # fmt: skip
    return _finish_figure(figure, first_token, places, "probability of the first token")


class FirstTokenChart(NamedTuple):
    """A picture of a method's first tokens on page and in exports. row: the method; key: on the page; file: its name in exports."""

    row: str
    key: str
    file: str
    title: str
    heading: str
    plot: Callable[..., go.Figure]
    describe: Callable[[FirstToken], str]


FIRST_TOKEN_CHARTS = (
    FirstTokenChart(
        "adversarial", "lossy", "same-distribution", "A bad draft, the same distribution",
        "### Bad draft, same distribution\nFirst tokens written with the worst possible draft tokens.", plot_adversarial, describe_adversarial,
    ),
    FirstTokenChart(
        "typical", "typical", "shortcut", "A popular shortcut",
        "### A popular shortcut\nTypical acceptance accepts every token that is likely enough.", plot_typical, describe_typical,
    ),
)  # fmt: skip


def list_first_tokens(comparison: MethodComparison) -> dict[str, FirstToken]:
    """First tokens of the methods of FIRST_TOKEN_CHARTS that were sampled, by method."""
    rows = {chart.row: comparison.find_row(chart.row) for chart in FIRST_TOKEN_CHARTS}
    return {key: row.first for key, row in rows.items() if row is not None and row.first is not None}


def _choose_cells(first_token: FirstToken) -> list[int]:
    """Cells of single tokens, the likeliest first; the others stand in the table."""
    return [cell for cell, raw in enumerate(first_token.labels) if raw][:SHOWN]


def _place_rows(places: list[int]) -> list[int]:
    return list(range(len(places)))[::-1]


def _build_marker(kind: str) -> dict[str, object]:
    blue = getattr(MEANINGS["target"], kind)
    return {"symbol": "line-ns-open", "size": 12, "line": {"width": 3, "color": blue}, "color": blue}


def _finish_figure(figure: go.Figure, first_token: FirstToken, places: list[int], title: str) -> go.Figure:
    most = max(
        x
        for row in (first_token.probs, first_token.shares, first_token.written or (), first_token.high)
        for x in row[: len(places)]
    )
    rows = max(4, len(places))
    frame_chart(figure, 129 + 21 * rows, title, barmode="overlay")
    ticks = [escape_label(shorten_label(name_first_token(first_token, cell))) for cell in places]
    figure.update_yaxes(tickvals=_place_rows(places), ticktext=ticks, range=[-0.6, rows + 0.5], showgrid=False, ticks="", tickfont={"size": 12})  # fmt: skip
    figure.update_xaxes(range=[0, min(1.05, 1.12 * most)], tickformat=PERCENT, nticks=6, tickfont={"size": 12})
    return figure
