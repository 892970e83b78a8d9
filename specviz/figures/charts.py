"""What the charts of all pages share: their frame, intervals, and text in labels."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

from specviz.figures.lazy_plotly import go
from specviz.figures.theme import GRID, LEGEND
from specviz.speed.records.estimate import Estimate


def frame_chart(figure: go.Figure, height: int, x: str, y: str | None = None, **layout: Any) -> None:
    """Set height in px, titles of both axes, a faint grid and the legend above; nothing zooms or pans."""
    margin = {"l": 8, "r": 12, "t": 46, "b": 46}
    figure.update_layout(height=height, margin=margin, dragmode=False, hovermode="closest", legend=LEGEND, **layout)
    figure.update_xaxes(title=x, gridcolor=GRID, zeroline=False, fixedrange=True)
    figure.update_yaxes(title=y, gridcolor=GRID, zeroline=False, fixedrange=True, automargin=True)


def build_error_bars(estimates: Iterable[Estimate], **style: Any) -> dict[str, Any]:
    """Error bars from the low to the high end of each estimate."""
    known = list(estimates)
    less, more = [one.value - one.low for one in known], [one.high - one.value for one in known]
    return {"type": "data", "symmetric": False, "array": more, "arrayminus": less} | style


def escape_label(text: str) -> str:
    """Escape text for Plotly, whose labels take a little HTML, and dollars for formulas."""
    return escape(text, quote=False).replace("$", "&#36;")


def shorten_label(text: str, most: int = 26) -> str:
    """Cut a label to so many characters."""
    return text if len(text) <= most else text[: most - 1] + "…"
