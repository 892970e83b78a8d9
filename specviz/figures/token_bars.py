"""Two distributions over one token as bars beside each other, and what comes out: records of plain numbers, and their Plotly figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specviz.figures.charts import escape_label
from specviz.figures.lazy_plotly import go, make_subplots
from specviz.figures.theme import GRID, MARK_OVER_BARS, MEANINGS

NAMES = {"p": "target p", "q": "draft q", "residual": "residual", "accepted": "accepted", "replaced": "replaced"}
COLORS = {"p": "target", "q": "draft", "residual": "residual", "accepted": "target", "replaced": "residual"}
HATCH = {"p": "", "q": "\\", "residual": ".", "accepted": "", "replaced": "."}
ROW, FRAME = 30, 150  # pixels of a label, and of all the rest of a panel


@dataclass(frozen=True, slots=True)
class BarPanel:
    """Bars over the same tokens.

    labels    (K,) words, largest first
    bars      name of NAMES -> (K,) probabilities, drawn beside each other; stacked: on top of each other
    marks     (K,) where the sum must end, drawn as lines; empty: none
    """

    title: str
    labels: tuple[str, ...]
    bars: dict[str, tuple[float, ...]]
    stacked: bool = False
    marks: tuple[float, ...] = ()

    @property
    def end(self) -> float:
        """Right end of the axis."""
        columns = list(zip(*self.bars.values(), strict=True))
        tall = max((sum(column) if self.stacked else max(column) for column in columns), default=1.0)
        return min(1.05, 1.12 * max(tall, *self.marks, 0.01))


def plot_panels(shown: Sequence[BarPanel], kind: str = "light") -> go.Figure:
    """One panel under the other, on one page; colors, hatches and names say which bar is whose."""
    figure = make_subplots(
        rows=len(shown),
        cols=1,
        subplot_titles=[escape_label(one.title) for one in shown],
        vertical_spacing=0.55 / max(2, 2 * len(shown)),
    )
    named: set[str] = set()
    for row, one in enumerate(shown, start=1):
        places = list(range(len(one.labels)))[::-1]
        for number, (key, values) in enumerate(one.bars.items()):
            marker = {
                "color": getattr(MEANINGS[COLORS[key]], kind),
                "pattern": {"shape": HATCH[key], "fillmode": "overlay", "fgcolor": "white", "size": 6},
            }
            thick = 0.62 if one.stacked else 0.8 / len(one.bars)
            offset = -thick / 2 if one.stacked else 0.4 - thick * (number + 1)  # beside each other the first is on top
            figure.add_bar(x=list(values), y=places, orientation="h", name=NAMES[key], marker=marker, width=thick, offset=offset,
                           showlegend=key not in named, legendgroup=key, row=row, col=1,
                           customdata=[escape_label(label) for label in one.labels],
                           hovertemplate=f"%{{customdata}}: {NAMES[key]} %{{x:.6g}}<extra></extra>")  # fmt: skip
            named.add(key)
        if one.marks:
            line = {"symbol": "line-ns-open", "size": 20, "line": {"width": 3}, "color": MARK_OVER_BARS[kind]}
            figure.add_scatter(x=list(one.marks), y=places, mode="markers", marker=line, name="target p (mark)", row=row, col=1)
        ticks = [escape_label(label) for label in one.labels]
        figure.update_yaxes(tickvals=places, ticktext=ticks, range=[-0.7, len(places) - 0.3], automargin=True, row=row, col=1)
        figure.update_xaxes(range=[0, one.end], gridcolor=GRID, title="probability", row=row, col=1)
    mode = "stack" if all(one.stacked for one in shown) else "overlay"
    height = sum(FRAME + ROW * len(one.labels) for one in shown)
    legend = {"orientation": "h", "x": 0, "y": 1.0, "yref": "container", "yanchor": "top"}
    return figure.update_layout(
        barmode=mode, template="plotly_white", height=height, legend=legend, margin={"l": 8, "r": 16, "t": 90, "b": 50}
    )
