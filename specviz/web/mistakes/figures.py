"""Figures of two decoders side by side: how far their samples are from the exact distribution, and what each accepts."""

from __future__ import annotations

from math import log10
from typing import Any

from specviz.evidence.mistakes.comparison import DistanceCurve, DraftingCounts
from specviz.evidence.testing.results import CellShares
from specviz.figures import cell_shares
from specviz.figures.cell_shares import CLEAR
from specviz.figures.lazy_plotly import go, make_subplots
from specviz.figures.theme import BAND, GRAY, GRID, INK, LEGEND, MEANINGS

FLOOR = 1e-4  # distances below are drawn here: the axis is logarithmic and 0 has no place on it


def style_decoder(wrong: int | None, arm: int, kind: str) -> dict[str, Any]:
    """Line, sign and bar of a decoder: the right one filled in the target's blue, the wrong one dashed and an outline in the color of the text.

    Neither is colored or hatched as rejected draft tokens are.
    """
    if wrong is None:
        color, second = GRAY[kind], arm == 1
    else:
        second = arm == wrong
        color = INK[kind] if second else getattr(MEANINGS["target"], kind)
    dash, symbol = (
        (("solid", "circle"), ("dash", "x"))[second] if wrong is not None else (("solid", "circle"), ("dot", "square-open"))[arm]
    )
    return {"color": color, "dash": dash, "symbol": symbol, "fill": CLEAR if second else color}


def plot_distances(curve: DistanceCurve, kind: str = "light") -> go.Figure:
    """Both distances over the number of samples, the band of sampling noise, and the test that detected the wrong one."""
    figure = go.Figure()
    figure.add_scatter(x=curve.n, y=[max(FLOOR, value) for value in curve.upper], mode="lines", line={"width": 0}, fill="tozeroy",
                       fillcolor=BAND, name="sampling noise, 99%", hoverinfo="skip")  # fmt: skip
    figure.add_scatter(x=curve.n, y=[max(FLOOR, value) for value in curve.upper], mode="lines", line={"width": 1, "color": GRAY[kind]},
                       showlegend=False, name="sampling noise, its edge", hoverinfo="skip")  # fmt: skip
    for arm, name in enumerate(curve.names):
        drawn = style_decoder(curve.wrong, arm, kind)
        values = [value[arm] for value in curve.tv]
        figure.add_scatter(
            x=curve.n, y=[max(FLOOR, value) for value in values], customdata=values, name=name, mode="lines+markers",
            line={"color": drawn["color"], "dash": drawn["dash"], "width": 2.5},
            marker={"symbol": drawn["symbol"], "size": 8, "color": drawn["color"]},
            hovertemplate=f"{name}: TV %{{customdata:.4f}} after %{{x:,}} samples<extra></extra>",
        )  # fmt: skip
    if curve.samples_at_detection:
        late = curve.samples_at_detection >= 1000  # the words go to the left of the line
        figure.add_vline(x=curve.samples_at_detection, line={"width": 1.5, "dash": "dot", "color": INK[kind]})
        figure.add_annotation(x=log10(curve.samples_at_detection), y=1.0, yref="paper", text=f"✕ detected at {curve.samples_at_detection:,}", showarrow=False,
                              xanchor="right" if late else "left", yanchor="top", xshift=-6 if late else 6, yshift=-16,
                              font={"size": 13, "color": GRAY[kind]})  # under the line at 1  # fmt: skip
    if not curve.n:
        figure.add_annotation(
            x=2.0, y=0.5, yref="paper", text="no samples yet", showarrow=False, font={"size": 13, "color": GRAY[kind]}
        )
    end = max(3.0, log10(max(curve.n, default=1000)))
    low = min([0.03, *(value for row in curve.tv for value in row if value > FLOOR)])
    figure.update_xaxes(type="log", range=[0.95, end + 0.08], title="samples of each decoder, logarithmic", gridcolor=GRID,
                        dtick=1, tickformat=",~s", fixedrange=True, zeroline=False)  # fmt: skip
    figure.update_yaxes(type="log", range=[log10(max(FLOOR, 0.7 * low)), 0.08], title="share on the wrong texts (TV)", gridcolor=GRID, dtick=1,
                        fixedrange=True, zeroline=False)  # fmt: skip
    figure.update_layout(
        height=320, margin={"l": 8, "r": 12, "t": 30, "b": 46}, dragmode=False, hoverlabel={"align": "left"},
        legend=LEGEND,
    )  # fmt: skip
    return figure


def plot_acceptance(pair: tuple[DraftingCounts, DraftingCounts], wrong: int | None, kind: str = "light") -> go.Figure:
    """Two small panels: the acceptance rate, and tokens per target pass."""
    figure = make_subplots(rows=1, cols=2, subplot_titles=("acceptance rate", "tokens per pass"), horizontal_spacing=0.16)
    for column, (value, form) in enumerate(
        ((lambda one: one.acceptance_rate, ".1%"), (lambda one: one.per_pass, ".2f")), start=1
    ):
        values = [value(one) for one in pair]
        styles = [style_decoder(wrong, arm, kind) for arm in (0, 1)]
        figure.add_bar(
            x=[one.name for one in pair], y=values, text=[f"{one:{form}}" for one in values], textposition="outside",
            cliponaxis=False, width=0.55, textfont={"color": GRAY[kind]}, row=1, col=column, hoverinfo="skip",
            marker={"color": [one["fill"] for one in styles], "line": {"color": [one["color"] for one in styles], "width": 2}},
        )  # fmt: skip
        figure.update_yaxes(range=[0, 1.18 * max(values, default=1.0) or 1.0], tickformat=".0%" if column == 1 else None, row=1,
                            col=column)  # fmt: skip
    figure.update_yaxes(
        showgrid=False, fixedrange=True, zeroline=False, nticks=5
    )  # each bar has its number, and no line through it
    figure.update_xaxes(fixedrange=True, showgrid=False)
    figure.update_annotations(font={"size": 13, "color": GRAY[kind]})
    figure.update_layout(height=340, margin={"l": 8, "r": 8, "t": 40, "b": 30}, showlegend=False, dragmode=False)
    return figure


def plot_wrong_cells(shares: CellShares, kind: str = "light") -> go.Figure:
    """Samples of the wrong decoder beside the exact distribution: outlines, as everywhere on the page."""
    return cell_shares.plot_cells(shares, cell_shares.compute_rows_end(shares), kind, hollow=True)
