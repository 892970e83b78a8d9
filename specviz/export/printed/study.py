"""The study's pictures for paper, by matplotlib, from the records that the screen is drawn from (figures/fast_study.py)."""

from __future__ import annotations

from matplotlib.figure import Figure

from specviz.export.printed.pages import GREY, RIGHT, _framed, _plain
from specviz.export.printed.report import INK, print_style
from specviz.export.printed.speed import banded
from specviz.figures.common.theme import MEANINGS
from specviz.figures.speed.plan import PLAIN
from specviz.figures.speed.study import GROUPS, WIDE, by_kind, means, span, uncut
from specviz.prediction.calibration import calibration, reliability
from specviz.prediction.study import Study


@print_style()
def kept(study: Study, draft: str, axis: str) -> Figure:
    """Share of tested draft tokens that were kept, over temperature or top-p, by kind of text and in the mean with its band."""
    figure, axes = _plain(3.0)
    by, over = by_kind(study, draft, axis), means(study, draft, axis)
    for shares in by.values():
        axes.plot(list(shares), list(shares.values()), color=PLAIN, linewidth=0.8)
    banded(axes, list(over), list(over.values()), f"mean of {len(by)} kinds of text")
    axes.set_ylim(0.0, 1.0)
    axes.set_ylabel("share of tested draft tokens kept", color=INK)
    return _framed(figure, axes, axis, f"How often draft tokens are kept: {draft}")


@print_style()
def foretold(study: Study, draft: str) -> Figure:
    """Measured over foretold shares, a point for each kind of text and distribution."""
    figure, axes = _plain(4.2)
    cells = study.measured((draft,))
    shares = [cell.share for cell in cells]
    axes.plot([0, 1], [0, 1], linestyle=":", color=PLAIN, linewidth=0.9)
    axes.plot([cell.statistics["overlap"] for cell in cells], shares, "o", markerfacecolor="none", markersize=4, color=PLAIN, label="overlap on the text itself")  # fmt: skip
    axes.errorbar([cell.kept for cell in cells], shares, yerr=[WIDE * cell.noise for cell in cells], fmt="D", markersize=3.5, linewidth=0.8,
                  color=RIGHT, ecolor=GREY, label="accepted draft tokens")  # fmt: skip
    groups = calibration([cell.kept for cell in cells], shares, GROUPS)
    axes.plot([one[0] for one in groups], [one[1] for one in groups], color=RIGHT, linewidth=1.6, label="its means by eighths")
    _ends(axes, *span(cells))
    axes.set_ylabel("measured share of tested draft tokens kept", color=INK)
    return _framed(figure, axes, "foretold share", f"Foretold and measured: {draft}")


@print_style()
def confidence(study: Study, draft: str) -> Figure:
    """How often the draft's first choice stands in the text, over the probability that it gives it."""
    figure, axes = _plain(4.2)
    points = reliability(uncut(study, draft))
    spread = [[one.right.value - one.right.low for one in points], [one.right.high - one.right.value for one in points]]
    axes.plot([0, 1], [0, 1], linestyle=":", color=PLAIN, linewidth=0.9)
    axes.errorbar([one.sure for one in points], [one.right.value for one in points], yerr=spread, fmt="s-", markersize=4, capsize=2,
                  color=MEANINGS["draft"].light, label="the draft")  # fmt: skip
    _ends(axes, 0.0, 1.0)
    axes.set_ylabel("how often the text has it", color=INK)
    return _framed(figure, axes, "probability of the draft's first choice", f"Confidence: {draft}")


def _ends(axes, low: float, high: float) -> None:
    edge = 0.02 * (high - low)
    axes.set_xlim(low - edge, high + edge)
    axes.set_ylim(low - edge, high + edge)
