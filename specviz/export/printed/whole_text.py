"""The pictures of Whole text for paper, by matplotlib, from the records that the screen is drawn from."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from specviz.export.printed.pages import GREY, WRONG, _framed, _plain, _rows
from specviz.export.printed.report import INK, print_style
from specviz.measure.divergence import TOPS, Read, Spread


@print_style()
def along(read: Read) -> Figure:
    """1 - beta at each token, hatched where the models lie furthest apart."""
    figure, axes = _plain(2.6)
    apart = read.apart
    for chosen, name, look in (
        (False, "all tokens", {"color": GREY}),
        (True, f"the {len(read.forks)} furthest apart", {"color": "white", "edgecolor": WRONG, "hatch": "//////"}),
    ):
        places = [place for place in range(len(apart)) if (place in read.forks) == chosen]
        axes.bar([place + 1 for place in places], apart[places], width=0.8, label=name, **look)
    axes.set_xlim(0.3, len(apart) + 0.7)
    axes.set_ylim(0.0, 1.02)
    axes.set_ylabel("1 − β", color=INK)
    return _framed(figure, axes, "token of the big model’s text", "Where the two models part")


@print_style()
def lorenz(curves: Sequence[tuple[str, Spread]]) -> Figure:
    """Share of the tokens, furthest apart first, against the share of all divergence that they hold."""
    figure, axes = _plain(3.6)
    axes.plot([0, 1], [0, 1], linestyle=":", color=GREY, linewidth=1.0, label="spread evenly")
    for number, (name, one) in enumerate(curves):
        axes.plot(one.x, one.y, linestyle=("-", "--", "-.")[min(number, 2)], color=INK if number == 0 else GREY, label=name)
    axes.plot(TOPS, [share.value for share in curves[0][1].tops], linestyle="none", marker="o", markersize=4, color=INK)
    axes.set_xlim(0.0, 1.0)
    axes.set_ylim(0.0, 1.02)
    axes.set_ylabel("share of all divergence", color=INK)
    figure = _framed(figure, axes, "share of the tokens, furthest apart first", "A few places, or everywhere?")
    axes.legend(frameon=False, loc="lower right")
    return figure


@print_style()
def kinds(one: Spread) -> Figure:
    """Mean 1 - beta of each kind of word, with its interval."""
    order = sorted(one.kinds, key=lambda row: -row.apart.value)
    figure, axes, rows = _rows([f"{row.name} ({row.count})" for row in order])
    values = [row.apart.value for row in order]
    less = [value - (value if row.apart.low is None else row.apart.low) for value, row in zip(values, order, strict=True)]
    more = [(value if row.apart.high is None else row.apart.high) - value for value, row in zip(values, order, strict=True)]
    heap = f"{one.texts} texts" if one.texts > 1 else "this text"
    axes.errorbar(values, rows, xerr=[less, more], linestyle="none", marker="o", markersize=4, color=INK, capsize=2, label=heap)
    axes.set_xlim(left=0.0)
    return _framed(figure, axes, "1 − β on average", "At which words?")
