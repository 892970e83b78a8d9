"""The pages' own pictures for paper, by matplotlib, from the records that the screen is drawn from (figures/)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from specviz.export.printed.report import FRAME, INK, ROW, WIDTH, print_style, printable
from specviz.figures.common.theme import MEANINGS

if TYPE_CHECKING:
    from specviz.figures.exactness.evidence import Filling, Flat
    from specviz.figures.mistakes import Curve, Speed
    from specviz.figures.one_token.distributions import Panel

GREY, BAND = "#5b6673", "#c9ced5"
HATCH = {"q": "\\\\\\", "residual": "...", "replaced": "..."}
RIGHT, WRONG = MEANINGS["target"].light, MEANINGS["rejected"].light


@print_style()
def filling(one: Filling, end: float, wrong: bool = False) -> Figure:
    """Share of the draws in each cell over the marks of the exact distribution, with the band of chance; a wrong decoder's bars are hatched."""
    places = one.drawn
    figure, axes, rows = _rows([one.labels[place] for place in places])
    if one.n:
        low, high = [one.low[place] for place in places], [min(end, one.high[place]) for place in places]
        wide = [max(0.0, b - a) for a, b in zip(low, high, strict=True)]
        axes.barh(rows, wide, left=low, height=0.86, color=BAND, label="chance alone", zorder=1)
        look = {"color": "white", "edgecolor": WRONG, "hatch": "////"} if wrong else {"color": GREY}
        axes.barh(rows, [one.shares[place] for place in places], height=0.44, label=f"share of {one.n:,} draws", zorder=2, **look)
    probs = [one.probs[place] for place in places]
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
    axes.set_xlim(0.0, end)
    return _framed(figure, axes, "share of all draws", one.name)


@print_style()
def flat(one: Flat) -> Figure:
    """P-values of many runs in ten bars, the height that each should have, and the band of chance."""
    figure, axes = _plain(2.6)
    counts = one.counts
    axes.axhspan(one.low, one.high, color=BAND, label="chance alone", zorder=0)
    middle = [(place + 0.5) / len(counts) for place in range(len(counts))]
    axes.bar(middle, counts, width=0.07, color=GREY, label="runs", zorder=2)
    axes.axhline(len(one.values) / len(counts), color=RIGHT, linewidth=2.0, label="expected", zorder=3)
    axes.set_xlim(0.0, 1.0)
    axes.set_ylabel("runs", color=INK)
    return _framed(figure, axes, "p-value", f"{len(one.values)} runs of {one.draws:,} draws")


@print_style()
def curve(one: Curve) -> Figure:
    """Distance from the distribution over draws, for two decoders, on logarithmic axes, and the band of chance."""
    from specviz.figures.mistakes import FLOOR, style

    figure, axes = _plain(3.4)
    axes.fill_between(one.n, FLOOR, [max(FLOOR, value) for value in one.upper], color=BAND, label="chance alone, 99 of 100")
    for arm, name in enumerate(one.names):
        look = style(one.wrong, arm, "light")
        line, marker = {"solid": "-", "dash": "--", "dot": ":"}[look["dash"]], {"x": "X", "circle": "o"}.get(look["symbol"], "s")
        values = [max(FLOOR, value[arm]) for value in one.tv]
        axes.plot(one.n, values, linestyle=line, marker=marker, markersize=4, color=look["color"], label=name)
    if one.caught:
        axes.axvline(one.caught, color=WRONG, linestyle=":", label=f"caught at {one.caught:,}")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylabel("distance from the exact distribution", color=INK)
    return _framed(figure, axes, "draws of each", "How far from the exact distribution?")


@print_style()
def speeds(pair: tuple[Speed, Speed], wrong: int | None) -> Figure:
    """Two panels: the share of draft tokens kept, and tokens per pass of the target."""
    from specviz.figures.mistakes import style

    figure = Figure(figsize=(WIDTH, 2.6), layout="constrained")
    for axes, (title, read, form) in zip(
        figure.subplots(1, 2),
        (("draft tokens kept", lambda one: one.share, "{:.1%}"), ("tokens per pass", lambda one: one.per_pass, "{:.2f}")),
        strict=True,
    ):
        looks = [style(wrong, arm, "light") for arm in (0, 1)]
        values = [read(one) for one in pair]
        bars = axes.bar([one.name for one in pair], values, width=0.55, color=[look["color"] for look in looks])
        for bar, look in zip(bars, looks, strict=True):
            bar.set_hatch(look["hatch"] * 3)
            bar.set_edgecolor("white")
        axes.bar_label(bars, [form.format(value) for value in values], padding=2)
        axes.set_ylim(0.0, 1.18 * max(values) or 1.0)
        axes.set_title(title, loc="left", fontsize=9)
    return figure


@print_style()
def panels(shown: Sequence[Panel]) -> Figure:
    """Distributions as bars, one panel under the other; the same numbers as figures/distributions.py."""
    from specviz.figures.one_token.distributions import COLOURS, NAMES

    heights = [FRAME + 0.34 * len(one.labels) for one in shown]
    figure = Figure(figsize=(WIDTH, sum(heights)), layout="constrained")
    grid = figure.subplots(len(shown), 1, squeeze=False, gridspec_kw={"height_ratios": heights})[:, 0]
    for axes, one in zip(grid, shown, strict=True):
        places = [float(len(one.labels) - 1 - place) for place in range(len(one.labels))]
        left, thick = [0.0] * len(places), 0.62 if one.stacked else 0.8 / len(one.bars)
        for number, (key, values) in enumerate(one.bars.items()):
            look = {"color": MEANINGS[COLOURS[key]].light, "hatch": HATCH.get(key, ""), "edgecolor": "white", "linewidth": 0.0}
            if one.stacked:
                axes.barh(places, values, left=left, height=thick, label=NAMES[key], **look)
                left = [a + b for a, b in zip(left, values, strict=True)]
            else:
                rows = [place + (0.4 - thick * (number + 0.5)) for place in places]
                axes.barh(rows, values, height=thick, label=NAMES[key], **look)
        if one.marks:
            axes.plot(one.marks, places, linestyle="none", marker="|", markersize=15, markeredgewidth=2.2, color="black",
                      label="target p (mark)")  # fmt: skip
        axes.set_yticks(places, [printable(label) for label in one.labels], parse_math=False)
        axes.tick_params(axis="y", length=0)
        axes.set_xlim(0.0, one.end)
        axes.set_xlabel("probability", color=INK)
        axes.set_title(printable(one.title), loc="left", fontsize=9, parse_math=False)
        axes.legend(frameon=False, loc="lower right")
    return figure


def _rows(labels: list[str]):
    figure, axes = _plain(FRAME + ROW * max(4, len(labels)))
    rows = [float(len(labels) - 1 - place) for place in range(len(labels))]
    axes.set_yticks(rows, [printable(label) for label in labels], parse_math=False)
    axes.set_ylim(-0.8, max(4, len(labels)) - 0.2)
    axes.tick_params(axis="y", length=0)
    return figure, axes, rows


def _plain(height: float):
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    return figure, figure.add_subplot()


def _framed(figure: Figure, axes, across: str, title: str) -> Figure:
    axes.set_xlabel(across, color=INK)
    axes.set_title(title, loc="left", fontsize=9, parse_math=False, pad=22)
    axes.legend(frameon=False, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=4)
    return figure
