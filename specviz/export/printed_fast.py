"""The pictures of How fast? for paper, by matplotlib, from the records that the screen is drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

from matplotlib.figure import Figure

from specviz.export.printed import INK, print_style
from specviz.export.printed_pages import GREY, RIGHT, _framed, _plain
from specviz.figures.fast import PLAIN, by_kind
from specviz.planning.plan import Interval, Plan
from specviz.planning.study import Study

GAMMA = "gamma: guesses of a round"


@print_style()
def tokens(plan: Plan) -> Figure:
    """Tokens per pass over gamma: kept guesses with their band, two plainer formulas, what was measured."""
    figure, axes = _plain(3.0)
    gammas = [row.gamma for row in plan.rows]
    _banded(axes, gammas, [row.tokens for row in plan.rows])
    axes.plot(gammas, [row.hazards for row in plan.rows], linestyle="--", color=PLAIN, label="by depth")
    axes.plot(gammas, [row.independent for row in plan.rows], linestyle=":", color=PLAIN, label="one alpha")
    _measured(axes, [row.gamma for row in plan.checked], [row.tokens for row in plan.checked])
    axes.set_ylabel("tokens per pass of the target", color=INK)
    return _framed(figure, axes, GAMMA, "Tokens per pass")


@print_style()
def factors(plan: Plan) -> Figure:
    """Speed-up over the target alone, over gamma."""
    figure, axes = _plain(3.0)
    gammas = [row.gamma for row in plan.rows]
    _banded(axes, gammas, [row.factor for row in plan.rows])
    axes.plot(gammas, [row.linear for row in plan.rows], linestyle="--", color=PLAIN, label="by depth")
    axes.plot(gammas, [row.leviathan for row in plan.rows], linestyle=":", color=PLAIN, label="Leviathan")
    measured = [row for row in plan.checked if row.factor is not None]
    _measured(axes, [row.gamma for row in measured], [row.factor for row in measured])
    axes.axhline(1.0, color=GREY, linewidth=0.9)
    axes.set_ylabel("times as fast as the target alone", color=INK)
    return _framed(figure, axes, GAMMA, "Speed")


@print_style()
def temperatures(study: Study, draft: str) -> Figure:
    """Share of tested guesses that were kept, over temperature, by kind of text and in the mean."""
    figure, axes = _plain(3.0)
    by = by_kind(study, draft)
    heats = sorted({t for shares in by.values() for t in shares})
    for shares in by.values():
        axes.plot([t for t in heats if t in shares], [shares[t] for t in heats if t in shares], color=PLAIN, linewidth=0.8)
    over = [mean(shares[t] for shares in by.values() if t in shares) for t in heats]
    axes.plot(heats, over, color=RIGHT, linewidth=2.2, marker="o", markersize=4, label=f"mean of {len(by)} kinds of text")
    axes.set_ylim(0.0, 1.0)
    axes.set_ylabel("share of tested guesses kept", color=INK)
    return _framed(figure, axes, "temperature", f"How often guesses are kept: {draft}")


def _banded(axes, x: Sequence[int], found: Sequence[Interval]) -> None:
    axes.fill_between(x, [one.low for one in found], [one.high for one in found], color=RIGHT, alpha=0.16, linewidth=0.0)
    axes.plot(x, [one.value for one in found], color=RIGHT, linewidth=2.0, label="kept guesses")


def _measured(axes, x: Sequence[int], found: Sequence[Interval]) -> None:
    if found:
        spread = [[one.value - one.low for one in found], [one.high - one.value for one in found]]
        axes.errorbar(
            x, [one.value for one in found], yerr=spread, fmt="D", markersize=4, color=GREY, capsize=2, label="measured"
        )
