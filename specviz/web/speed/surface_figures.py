"""What if? Leviathan's factor over every alpha and every c at one gamma, with a pair and a movable point on it: figure and sentences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specviz.figures.charts import frame_chart
from specviz.figures.lazy_plotly import go
from specviz.figures.theme import INK
from specviz.settings import GAMMA_MAX
from specviz.theory import compute_factor_grid, compute_highest_cost, compute_wall_clock_factor, find_best_gamma, is_worthwhile

ACROSS, UP = "c, time of a draft step over a target pass", "acceptance rate alpha"
ALONE = "1: drafting pays above"
STEPS = 61  # of each axis
LEVELS = (0.5, 1.0, 1.25, 1.5, 2.0, 3.0, 5.0)  # factors that get a line
SHOWN = (0.4, 3.0)  # factors between which the shade changes
SHADES = {  # below 1 toward gray, above toward the target's blue; the lines and their numbers say it without color
    "light": [[0.0, "#a6adb7"], [0.23, "#f4f5f7"], [0.5, "#bcdcf0"], [1.0, "#4fa3d3"]],
    "dark": [[0.0, "#545d69"], [0.23, "#1b212a"], [0.5, "#14405c"], [1.0, "#1d6ea3"]],
}


@dataclass(frozen=True, slots=True)
class Spot:
    """A point of the surface: alpha, the acceptance rate; c, time of a draft step over that of a target pass."""

    alpha: float
    c: float

    def compute_factors(self) -> dict[int, float]:
        return {gamma: compute_wall_clock_factor(self.alpha, gamma, self.c) for gamma in range(1, GAMMA_MAX + 1)}


def plot_surface(gamma: int, spot: Spot, pair_spot: Spot | None, kind: str = "light") -> go.Figure:
    """The factor as shade and as lines, c to the right, alpha upwards; at the line of 1 drafting stops paying."""
    axis = np.linspace(0.0, 1.0, STEPS)
    figure = go.Figure(
        go.Heatmap(
            x=axis, y=axis, z=compute_factor_grid(axis, axis, gamma), zmin=SHOWN[0], zmax=SHOWN[1], zsmooth="best", colorscale=SHADES[kind],
            showscale=False, name="factor", hovertemplate="alpha %{y:.2f}, c %{x:.2f}: %{z:.2f} times<extra></extra>",
        )
    )  # fmt: skip
    for reached, c, alpha in compute_levels(gamma):
        whole = reached == 1.0
        line = {"color": INK[kind], "width": 2.6 if whole else 0.8}
        figure.add_scatter(
            x=c, y=alpha, mode="lines", line=line, name=ALONE if whole else f"{reached:g}", showlegend=whole, hoverinfo="skip"
        )
        place = int(0.6 * len(c))
        figure.add_annotation(x=c[place], y=alpha[place], text=f"{reached:g}", showarrow=False, font={"size": 11.5, "color": INK[kind]},
                              bgcolor=SHADES[kind][1][1], opacity=0.9, borderpad=1)  # fmt: skip
    if pair_spot is not None:
        figure.add_scatter(x=[pair_spot.c], y=[pair_spot.alpha], mode="markers", name="the pair", hovertemplate="the pair: alpha %{y:.3f}, c %{x:.3f}<extra></extra>",
                           marker={"size": 13, "symbol": "diamond", "color": INK[kind], "line": {"color": SHADES[kind][1][1], "width": 1.4}})  # fmt: skip
    figure.add_scatter(x=[spot.c], y=[spot.alpha], mode="markers", name="the sliders", hovertemplate="the sliders: alpha %{y:.2f}, c %{x:.2f}<extra></extra>",
                       marker={"size": 19, "symbol": "circle-open", "color": INK[kind], "line": {"width": 2.2}})  # fmt: skip
    frame_chart(figure, 400, ACROSS, UP, xaxis_range=[0, 1], yaxis_range=[0, 1])
    return figure


def compute_levels(gamma: int) -> list[tuple[float, list[float], list[float]]]:
    """Lines of equal factor within the unit square: (factor, c along it, alpha along it), alpha ascending; those with two points or more."""
    found = []
    for reached in LEVELS:
        points = [
            (c, alpha)
            for alpha in np.linspace(0.0, 1.0, 401).tolist()
            if 0.0 <= (c := compute_highest_cost(alpha, gamma, reached)) <= 1.0
        ]
        if len(points) > 1:
            found.append((reached, [c for c, _ in points], [alpha for _, alpha in points]))
    return found


def describe_spot(gamma: int, spot: Spot) -> str:
    """What the formula says at a point: this gamma, the best one, or that none pays."""
    here = compute_wall_clock_factor(spot.alpha, gamma, spot.c)
    return f"At alpha {spot.alpha:.2f} and c {spot.c:.2f} the formula gives a speed-up of {here:.2f} with gamma {gamma}. {advise_gamma(gamma, spot)}"


def advise_gamma(gamma: int, spot: Spot) -> str:
    """The gamma to take at a point by the formula: this one, another one, or none."""
    if not is_worthwhile(spot.alpha, spot.c):
        return "Do not draft: where alpha is not above c, no gamma pays."
    factors = spot.compute_factors()
    best = find_best_gamma(factors)
    if best == gamma:
        return "No other gamma is better."
    last = ", the largest allowed" if best == GAMMA_MAX else ""
    return f"The best gamma is {best}{last}: a speed-up of {factors[best]:.2f}."


def build_rows(pair_spot: Spot | None, spot: Spot) -> list[dict[str, object]]:
    """The factor of every gamma at both points."""
    pair = pair_spot.compute_factors() if pair_spot else {}
    return [
        {"gamma": gamma, "what if": round(value, 3), "the chosen pair": round(pair[gamma], 3) if pair else None}
        for gamma, value in spot.compute_factors().items()
    ]
