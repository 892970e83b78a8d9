"""The surface and many texts at once for paper, by matplotlib, from what the screen is drawn from (fast_surface.py, fast_batch.py)."""

from __future__ import annotations

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from specviz.export.printed.pages import BAND, GREY, _framed, _plain
from specviz.export.printed.report import INK, print_style
from specviz.export.printed.speed import banded
from specviz.figures.speed.plan import PLAIN
from specviz.figures.speed.surface import ACROSS, ALONE, SHADES, SHOWN, STEPS, UP, Spot, level, levels
from specviz.prediction.batches import BatchSpeeds
from specviz.theory import factor_grid

STYLES = ("-", "--", ":", "-.", (0, (8, 3)), (0, (8, 3, 2, 3)))


@print_style()
def surface(gamma: int, chosen: Spot, running: Spot | None) -> Figure:
    """The formula's factor over alpha and c, with lines of equal factor."""
    figure, axes = _plain(4.0)
    axis = np.linspace(0.0, 1.0, STEPS)
    shades = LinearSegmentedColormap.from_list("factor", SHADES["light"])
    axes.imshow(factor_grid(axis, axis, gamma), origin="lower", extent=(0, 1, 0, 1), aspect="auto", cmap=shades, vmin=SHOWN[0], vmax=SHOWN[1],
                interpolation="bilinear")  # fmt: skip
    for reached, c, alpha in levels(gamma):
        axes.plot(c, alpha, color="black", linewidth=1.8 if reached == 1.0 else 0.6, label=ALONE if reached == 1.0 else None)
        place = int(0.6 * len(c))
        axes.annotate(level(reached), (c[place], alpha[place]), ha="center", va="center", fontsize=7.5, backgroundcolor="#f4f5f7")
    if running is not None:
        axes.plot([running.c], [running.alpha], "D", color="black", markersize=7, label="the running pair")
    axes.plot([chosen.c], [chosen.alpha], "o", color="black", markerfacecolor="none", markersize=9, label="what if")
    axes.set_ylabel(UP, color=INK)
    return _framed(figure, axes, ACROSS, f"Speed-up by the formula, gamma {gamma}")


@print_style()
def batch(found: BatchSpeeds, key: str) -> Figure:
    """Times as fast as the target alone over the number of texts."""
    figure, axes = _plain(3.2)
    places = range(len(found.rows))
    last, first = found.edge(key)
    if found.steady and last is not None and first is not None:
        axes.axvspan(found.rows.index(last), found.rows.index(first), color=BAND, alpha=0.6, linewidth=0.0, label="stops paying")
    for gamma, style in zip(found.gammas, STYLES, strict=False):
        axes.plot(places, [found.factor(key, rows, gamma).value for rows in found.rows], linestyle=style, color=PLAIN, linewidth=0.9, label=f"gamma {gamma}")  # fmt: skip
    banded(axes, list(places), [found.best(key, rows)[1] for rows in found.rows], "the best gamma")
    axes.axhline(1.0, color=GREY, linewidth=0.9)
    axes.set_xticks(list(places), [str(rows) for rows in found.rows])
    axes.set_ylabel("times as fast as the target alone", color=INK)
    return _listed(figure, axes, "texts side by side", "Many texts at once")


@print_style()
def passes(found: BatchSpeeds) -> Figure:
    """A pass over more tokens of every text, in passes over one of each."""
    figure, axes = _plain(3.2)
    sizes = [1, *(gamma + 1 for gamma in found.gammas)]
    axes.plot(sizes, sizes, linestyle=":", color=PLAIN, linewidth=0.9, label="as dear as one by one")
    for place, rows in enumerate(found.rows):
        values = [1.0, *(found.cost(rows, gamma).value for gamma in found.gammas)]
        axes.plot(sizes, values, color=GREY, linewidth=0.8 + 0.15 * place, alpha=1.0 - 0.1 * (len(found.rows) - 1 - place), label=f"{rows} texts" if place else "one text",
                  linestyle="-" if place else "--")  # fmt: skip
    axes.set_ylabel("in passes over one token of each text", color=INK)
    return _listed(figure, axes, "tokens of each text in a pass: gamma + 1", "What checking costs")


def _listed(figure: Figure, axes, across: str, title: str) -> Figure:
    """Many lines are named beside the picture, not above it."""
    _framed(figure, axes, across, title)
    axes.set_title(title, loc="left", fontsize=9)
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure
