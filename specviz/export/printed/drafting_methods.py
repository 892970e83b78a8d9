"""The two pictures of Other proposers for paper, by matplotlib, from the record that the screen is drawn from."""

from __future__ import annotations

from matplotlib.figure import Figure

from specviz.export.printed.pages import BAND, GREY, RIGHT, WRONG, _framed, _rows
from specviz.export.printed.report import print_style
from specviz.figures.common.narration import number
from specviz.figures.drafting_methods.methods import name_of
from specviz.measure.methods import First


@print_style()
def same_distribution(first: First) -> Figure:
    """Draws of first tokens over the marks of the exact distribution, with the band of chance."""
    figure, axes, rows, places = _begun(first)
    low, high = [first.low[cell] for cell in places], [first.high[cell] for cell in places]
    axes.barh(
        rows, [b - a for a, b in zip(low, high, strict=True)], left=low, height=0.86, color=BAND, label="chance alone", zorder=1
    )
    axes.barh(rows, [first.shares[cell] for cell in places], height=0.44, color=GREY, label=f"{first.n:,} draws", zorder=2)
    return _ended(figure, axes, rows, places, first, "share of all first tokens", "Bad draft, same distribution")


@print_style()
def shortcut(first: First) -> Figure:
    """What typical acceptance writes, hatched, over the marks of the target's distribution, and the threshold that p must exceed."""
    figure, axes, rows, places = _begun(first)
    axes.barh(rows, [first.written[cell] for cell in places], height=0.5, color="white", edgecolor=WRONG, hatch="////",
              label="what it writes", zorder=2)  # fmt: skip
    axes.axvline(first.edge, color=GREY, linestyle=":", linewidth=1.2, label=f"p must exceed {number(first.edge, 3)}", zorder=1)
    return _ended(figure, axes, rows, places, first, "probability of the first token", "A famous shortcut")


def _begun(first: First):
    places = [cell for cell, raw in enumerate(first.labels) if raw]
    return *_rows([name_of(first, cell) for cell in places]), places


def _ended(figure: Figure, axes, rows: list[float], places: list[int], first: First, across: str, title: str) -> Figure:
    probs = [first.probs[cell] for cell in places]
    axes.plot(
        probs,
        rows,
        linestyle="none",
        marker="|",
        markersize=10,
        markeredgewidth=2.2,
        color=RIGHT,
        label="exact distribution",
        zorder=3,
    )
    axes.set_xlim(left=0.0)
    return _framed(figure, axes, across, title)
