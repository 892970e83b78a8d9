"""Figures of samples beside the exact distribution, and of p-values that should be uniform."""

from __future__ import annotations

from specviz.evidence.testing.results import BEYOND, BINS, CellShares, SeedPValues
from specviz.figures.charts import escape_label, shorten_label
from specviz.figures.lazy_plotly import go
from specviz.figures.theme import BAND, GRAY, GRID, INK, LEGEND, MEANINGS, PERCENT

PITCH = 26  # of rows, in pixels: a mark of the exact distribution ends before the next one begins
CLEAR = "rgba(0, 0, 0, 0)"  # of bars that are outlines


def compute_axis_end(*arms: CellShares) -> float:
    """Right end of the axis that several histograms share: wide enough for the distribution, its marks and every bar."""
    values = [max(1.35 * one.probs[place], 1.05 * one.shares[place]) for one in arms for place in one.bars]
    return min(1.05, max(values, default=1.0))


def compute_rows_end(*arms: CellShares) -> float:
    """The same for the rows of pictures."""
    bars = [bar for one in (arm.rows for arm in arms) for bar in zip(one.probs, one.shares, one.high, strict=True)]
    return min(1.05, max((max(1.08 * p, 1.05 * share, min(1.3 * p, 1.02 * high)) for p, share, high in bars), default=1.0))


def plot_cells(shares: CellShares, end: float, kind: str = "light", hollow: bool = False) -> go.Figure:
    """Bars of the samples, over them the band of sampling noise and the marks of the exact distribution. ``kind``: light or dark page.

    hollow  bars are drawn as outlines: those of a wrong decoder
    """
    shown, blue, gray, ink = shares.rows, getattr(MEANINGS["target"], kind), GRAY[kind], INK[kind]
    places = list(range(len(shown.probs)))[::-1]  # on the axis: the first row is at the top
    hover = [_write_hover(shown, row) for row in range(len(shown.probs))]
    figure = go.Figure()
    named = 0.7 * bool(shares.n)  # rows, for the names of the two columns of numbers
    if shares.n:
        bar = {"color": CLEAR, "line": {"color": ink, "width": 2}} if hollow else {"color": gray}
        figure.add_bar(x=list(shown.shares), y=places, orientation="h", width=0.44, marker=bar, name="share of the samples",
                       hovertext=hover, hoverinfo="text")  # fmt: skip
        wide = [max(0.0, min(end, high) - low) for low, high in zip(shown.low, shown.high, strict=True)]
        figure.add_bar(x=wide, base=list(shown.low), y=places, orientation="h", width=0.8, name="sampling noise, 99%",
                       marker={"color": BAND, "line": {"color": gray, "width": 1}}, hoverinfo="skip")  # fmt: skip
    marker = {"symbol": "line-ns-open", "size": 14, "line": {"width": 3, "color": blue}, "color": blue}
    figure.add_scatter(x=list(shown.probs), y=places, mode="markers", marker=marker, name="exact distribution",
                       hovertext=hover, hoverinfo="text")  # fmt: skip
    beyond = [row for row, label in enumerate(shown.labels) if label in shown.outliers]
    if beyond:
        figure.add_scatter(x=[shown.shares[row] for row in beyond], y=[places[row] for row in beyond], mode="markers", name=BEYOND,
                           marker={"symbol": "diamond", "size": 10, "color": ink}, hoverinfo="skip")  # fmt: skip
    figure.update_layout(
        barmode="overlay", height=92 + PITCH * (max(4, len(places)) + named), margin={"l": 8, "r": 12, "t": 26, "b": 46}, dragmode=False,
        legend=LEGEND, showlegend=True, hoverlabel={"align": "left"},
    )  # fmt: skip
    if shares.n:
        _add_numbers(figure, shares, places, kind)
    ticks = [escape_label(shorten_label(label)) for label in shown.labels]
    figure.update_yaxes(tickvals=places, ticktext=ticks, range=[-0.6, max(4, len(places)) - 0.4 + named], showgrid=False, zeroline=False,
                        automargin=True, fixedrange=True, ticks="", tickfont={"size": 12})  # fmt: skip
    figure.update_xaxes(range=[0, end], tickformat=PERCENT, gridcolor=GRID, zeroline=False, fixedrange=True,
                        title="share of all samples", nticks=6, tickfont={"size": 12})  # fmt: skip
    return figure


def _add_numbers(figure: go.Figure, shares: CellShares, places: list[int], kind: str) -> None:
    """At the right the share of the samples and the exact probability of each row: a difference that is too small for the bars is seen in them."""
    for name, values, shift, color in (
        ("samples", shares.rows.shares, 50, INK[kind]),
        ("exact", shares.rows.probs, 98, GRAY[kind]),
    ):
        style = {
            "x": 1.0,
            "xref": "paper",
            "xanchor": "right",
            "xshift": shift,
            "showarrow": False,
            "font": {"size": 11, "color": color},
        }
        figure.add_annotation(text=name, y=max(4, len(places)) - 0.1, yanchor="middle", **style)
        for value, place in zip(values, places, strict=True):
            figure.add_annotation(text=format_percent(value), y=place, yanchor="middle", **style)
    figure.update_layout(margin_r=104)


def format_percent(share: float) -> str:
    """A share with three digits at most: 34.2%, 0.52%."""
    return f"{100.0 * share:.1f}%" if share >= 0.01 else f"{100.0 * share:.2f}%"


def plot_p_values(p_values: SeedPValues, kind: str = "light") -> go.Figure:
    """Ten bars, the height that each should have, and behind each the band of sampling noise."""
    middle, blue, gray = [(k + 0.5) / BINS for k in range(BINS)], getattr(MEANINGS["target"], kind), GRAY[kind]
    figure = go.Figure()
    figure.add_bar(x=middle, y=[p_values.high - p_values.low] * BINS, base=[p_values.low] * BINS, width=0.085, name="sampling noise, 99%",
                   marker={"color": BAND, "line": {"color": gray, "width": 1}}, hoverinfo="skip")  # fmt: skip
    figure.add_bar(x=middle, y=list(p_values.counts), width=0.045, marker={"color": gray}, name="runs",
                   hovertemplate="%{y} runs<extra></extra>")  # fmt: skip
    figure.add_scatter(x=[0, 1], y=[len(p_values.values) / BINS] * 2, mode="lines", line={"color": blue, "width": 3}, name="expected",
                       hoverinfo="skip")  # fmt: skip
    figure.update_layout(barmode="overlay", height=250, margin={"l": 8, "r": 12, "t": 30, "b": 40}, legend=LEGEND, dragmode=False)
    figure.update_xaxes(
        range=[0, 1], title="p-value", tickvals=[0, 0.2, 0.4, 0.6, 0.8, 1], zeroline=False, fixedrange=True, showgrid=False
    )
    figure.update_yaxes(title="runs", rangemode="tozero", gridcolor=GRID, fixedrange=True, zeroline=False)
    return figure


def _write_hover(shares: CellShares, place: int) -> str:
    said = f"{escape_label(shares.labels[place])}<br>exact distribution {shares.probs[place]:.3%}"
    return said + (f"<br>{shares.counts[place]:,} of {shares.n:,} samples, {shares.shares[place]:.3%}" if shares.n else "")
