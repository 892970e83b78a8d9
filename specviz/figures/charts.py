"""What the charts of the pages share: their frame, and the hatching of what is rejected or lossy."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go

from specviz.figures.theme import GRID, LEGEND, MEANINGS


def frame(figure: go.Figure, height: int, x: str, y: str | None = None, **layout: Any) -> None:
    """Height in px, titles of both axes, a faint grid, the legend above; nothing zooms or pans."""
    margin = {"l": 8, "r": 12, "t": 46, "b": 46}
    figure.update_layout(height=height, margin=margin, dragmode=False, hovermode="closest", legend=LEGEND, **layout)
    figure.update_xaxes(title=x, gridcolor=GRID, zeroline=False, fixedrange=True)
    figure.update_yaxes(title=y, gridcolor=GRID, zeroline=False, fixedrange=True, automargin=True)


def hatched(kind: str) -> dict[str, Any]:
    """The marker of bars that show rejections, or another distribution than the target's."""
    pattern = {"shape": "/", "fillmode": "overlay", "fgcolor": "white", "size": 6}
    return {"color": getattr(MEANINGS["rejected"], kind), "pattern": pattern}
