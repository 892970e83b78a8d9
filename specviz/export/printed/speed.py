"""The plan of How fast? for paper, by matplotlib, from the record that the screen is drawn from."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from specviz.export.printed.pages import GREY, RIGHT, _framed, _plain
from specviz.export.printed.report import INK, print_style
from specviz.figures.speed.plan import PLAIN
from specviz.measure.estimate import Estimate
from specviz.prediction.plan import SpeedPlan

GAMMA = "gamma: draft tokens of a round"


@print_style()
def tokens(plan: SpeedPlan) -> Figure:
    """Tokens per pass over gamma: accepted draft tokens with their band, two plainer formulas, what was measured."""
    figure, axes = _plain(3.0)
    gammas = [row.gamma for row in plan.rows]
    banded(axes, gammas, [row.tokens for row in plan.rows])
    axes.plot(gammas, [row.hazards for row in plan.rows], linestyle="--", color=PLAIN, label="by depth")
    axes.plot(gammas, [row.independent for row in plan.rows], linestyle=":", color=PLAIN, label="one alpha")
    _measured(axes, [row.gamma for row in plan.checked], [row.tokens for row in plan.checked])
    axes.set_ylabel("tokens per pass of the target", color=INK)
    return _framed(figure, axes, GAMMA, "Tokens per pass")


@print_style()
def factors(plan: SpeedPlan) -> Figure:
    """Speed-up over the target alone, over gamma."""
    figure, axes = _plain(3.0)
    gammas = [row.gamma for row in plan.rows]
    banded(axes, gammas, [row.factor for row in plan.rows])
    axes.plot(gammas, [row.linear for row in plan.rows], linestyle="--", color=PLAIN, label="by depth")
    axes.plot(gammas, [row.leviathan for row in plan.rows], linestyle=":", color=PLAIN, label="Leviathan")
    measured = [row for row in plan.checked if row.factor is not None]
    _measured(axes, [row.gamma for row in measured], [row.factor for row in measured])
    axes.axhline(1.0, color=GREY, linewidth=0.9)
    axes.set_ylabel("times as fast as the target alone", color=INK)
    return _framed(figure, axes, GAMMA, "Speed")


def banded(axes, x: Sequence[float], found: Sequence[Estimate], name: str = "accepted draft tokens") -> None:
    axes.fill_between(x, [one.low for one in found], [one.high for one in found], color=RIGHT, alpha=0.16, linewidth=0.0)
    axes.plot(x, [one.value for one in found], color=RIGHT, linewidth=2.0, label=name)


def _measured(axes, x: Sequence[int], found: Sequence[Estimate]) -> None:
    if found:
        spread = [[one.value - one.low for one in found], [one.high - one.value for one in found]]
        axes.errorbar(
            x, [one.value for one in found], yerr=spread, fmt="D", markersize=4, color=GREY, capsize=2, label="measured"
        )
