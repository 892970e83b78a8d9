"""The pictures of Around the rule for paper, by matplotlib, from the records that the screen is drawn from."""

from __future__ import annotations

import itertools

from matplotlib.figure import Figure

from specviz.export.printed.pages import BAND, GREY, RIGHT, WRONG, _framed, _plain, _rows
from specviz.export.printed.report import INK, print_style
from specviz.figures.serving_limits.near_ties import FLOOR, MARGIN, at_least, histogram
from specviz.figures.serving_limits.setups import LEAST
from specviz.serving.near_ties import ARMS, ArmSummary
from specviz.serving.setups import TOLERANCE, Laboratory


@print_style()
def distances(one: Laboratory) -> Figure:
    """For each row how far its own distribution lies from float32's, and what draft tokens change about it."""
    rows = [row for row in one.rows if row.own is not None]
    figure, axes, places = _rows([row.entry.name for row in rows])
    axes.axvspan(LEAST, TOLERANCE, color=BAND, linewidth=0.0, label="rounding")
    worst = [max(LEAST, row.own.worst) for row in rows]
    axes.hlines(places, [max(LEAST, row.own.mean) for row in rows], worst, color=WRONG, linewidth=1.4)
    axes.plot(worst, places, linestyle="none", marker="D", markersize=5, color=WRONG, label="draft tokens change it by, at most")
    moved = [(max(LEAST, row.apart.value), place) for row, place in zip(rows, places, strict=True) if row.apart is not None]
    axes.plot(
        [x for x, _ in moved],
        [y for _, y in moved],
        linestyle="none",
        marker="o",
        markersize=6,
        color=RIGHT,
        label="its distribution is off float32’s by",
    )
    axes.set_xscale("log")
    axes.set_xlim(LEAST, 1.0)
    return _framed(figure, axes, "total variation", "What is changed, and what draft tokens change about that")


@print_style()
def margins(seen: ArmSummary) -> Figure:
    """Margins along greedy texts up to where they part, and these places."""
    figure, axes = _plain(3.0)
    for one in seen.pairings:
        y = [at_least(margin) for margin in one.first.margins[: one.shared]]
        axes.plot(range(len(y)), y, linestyle="none", marker=".", markersize=2.5, color=GREY, alpha=0.5)
    parted = seen.parted
    axes.plot([one.place for one in parted], [at_least(one.margins[0]) for one in parted], linestyle="none", marker="x", markersize=7,
              markeredgewidth=1.8, color=WRONG, label="here they part")  # fmt: skip
    axes.set_yscale("log")
    axes.set_ylabel(MARGIN, color=INK)
    return _framed(figure, axes, "place in the text, in tokens", f"{ARMS[seen.key].first} and {ARMS[seen.key].second}")


@print_style()
def spread(seen: ArmSummary) -> Figure:
    """How margins are spread: all places, and those where texts part."""
    figure, axes = _plain(3.0)
    edges, everywhere, there = histogram(seen)
    x, wide = [10.0**edge for edge in edges], [10.0**b - 10.0**a for a, b in itertools.pairwise(edges)]
    axes.bar(x[:-1], everywhere, width=wide, align="edge", color=GREY, alpha=0.5, label="all places")
    if seen.parted:
        axes.bar(x[:-1], there, width=wide, align="edge", color="none", edgecolor=WRONG, hatch="////", label="where they part")
    axes.set_xscale("log")
    axes.set_xlim(left=FLOOR)
    axes.set_ylabel("share", color=INK)
    return _framed(figure, axes, MARGIN, f"Margins: {ARMS[seen.key].first} and {ARMS[seen.key].second}")
