"""Figures for paper: SVG, PNG and PDF by matplotlib, without a browser, from the same series as the screen's."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import matplotlib
from matplotlib.figure import Figure

from specviz.export.series import LEVEL, Histogram, Tests
from specviz.figures.common.theme import MEANINGS

WIDTH, ROW, FRAME = 7.2, 0.19, 1.1  # inches
INK = "#444444"
STYLE = {
    "svg.hashsalt": "specviz",  # ids in the SVG follow from the figure alone
    "svg.fonttype": "path",  # looks the same without our fonts
    "pdf.fonttype": 42,
    "font.family": "DejaVu Sans",
    "font.size": 8.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
UNDATED = {"svg": {"Date": None, "Creator": None}, "pdf": {"CreationDate": None, "Creator": None, "Producer": None}, "png": {}}


@contextmanager
def print_style() -> Iterator[None]:
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # printable() has replaced what the font lacks
        yield


@print_style()
def histogram(series: Histogram) -> Figure:
    """Share of the draws in each cell beside the exact distribution and its band."""
    probs = MEANINGS["target"].light
    figure, axes, rows = _figure(series.labels)
    axes.hlines(rows, [series.placed(low) for low in series.low], series.high, color=probs, alpha=0.3, linewidth=7.0,
                label=f"its {LEVEL:.0%} band")  # fmt: skip
    axes.plot(series.probs, rows, linestyle="none", marker="|", markersize=9, color=probs, label="exact distribution")
    share = [series.placed(value) for value in series.share]
    axes.plot(
        share, rows, linestyle="none", marker="o", markersize=3, color=INK, label=f"share of {series.n:,} draws", clip_on=False
    )
    axes.set_xscale("log")
    axes.set_xlim(series.edge, max(1.0, *series.high))
    axes.set_xlabel("probability" + series.at_the_edge, color=INK)
    axes.set_title(series.title, loc="left", fontsize=9, parse_math=False)
    axes.legend(frameon=False, loc="lower right")
    return figure


@print_style()
def tests(series: Tests) -> Figure:
    """p-values after correction on a logarithmic axis, and the level that rejects."""
    figure, axes, rows = _figure(series.labels)
    for kind, marker, name, words in (
        (False, "o", "target", "not rejected"),
        (True, "X", "rejected", "rejected"),
    ):
        chosen = [(value, row) for value, row, bad in zip(series.values, rows, series.rejected, strict=True) if bad == kind]
        if chosen:
            xs, ys = zip(*chosen, strict=True)
            axes.plot(
                xs, ys, linestyle="none", marker=marker, markersize=6, color=MEANINGS[name].light, label=words, clip_on=False
            )
    axes.axvline(series.alpha, color=INK, linestyle="--", linewidth=1.0, label=f"level {series.alpha:g} of all together")
    axes.set_xscale("log")
    axes.set_xlim(min(series.alpha, *series.values) / 2.0, 1.5)
    axes.set_xlabel("p-value, corrected for the number of tests", color=INK)
    axes.set_title(series.title, loc="left", fontsize=9, parse_math=False)
    axes.legend(frameon=False, loc="lower left", bbox_to_anchor=(0.0, 1.06), ncols=3)
    return figure


@print_style()
def saved(figure: Figure, kind: str) -> bytes:
    """The figure as the bytes of a file; the same figure gives the same bytes on the same versions."""
    target = io.BytesIO()
    figure.savefig(target, format=kind, dpi=200, bbox_inches="tight", metadata=UNDATED[kind])
    return target.getvalue()


def _figure(labels: tuple[str, ...]):
    """A figure with one row for each label, the first on top: (figure, axes, heights of the rows)."""
    figure = Figure(figsize=(WIDTH, FRAME + ROW * max(4, len(labels))), layout="constrained")
    axes = figure.add_subplot()
    rows = [float(len(labels) - 1 - place) for place in range(len(labels))]
    axes.set_yticks(rows, [printable(label) for label in labels], parse_math=False)
    axes.set_ylim(-0.8, len(labels) - 0.2)
    axes.tick_params(axis="y", length=0)
    return figure, axes, rows


def printable(label: str) -> str:
    """The label in characters that the print font has; others as their code, cut where it is long."""
    known = _characters()
    text = "".join(c if ord(c) in known else f"‹U+{ord(c):04X}›" for c in label)
    return text if len(text) <= 64 else text[:63] + "…"


def _characters() -> set[int]:
    from matplotlib.font_manager import FontProperties, findfont, get_font

    return set(get_font(findfont(FontProperties(family="DejaVu Sans"))).get_charmap())
