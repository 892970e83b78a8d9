"""Draft steps and target passes as bars over time, as the formula has them: what a round costs, and what it brings. Plotly, sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specviz.figures.lazy_plotly import go
from specviz.figures.numbers import RAISED
from specviz.figures.theme import GRAY, GRID, LEGEND, MEANINGS
from specviz.theory import compute_expected_tokens, compute_wall_clock_factor
from specviz.web.speed.surface_figures import Spot

if TYPE_CHECKING:
    from specviz.speed.records.plan import SpeedPlan

PASSES = 8.0  # target passes that the picture is long, or one round where that takes longer
ALONE, DRAFTED = 1, 0  # lanes, from below
EDGE = "rgba(0, 0, 0, 0.45)"  # between draft steps, which may be a pixel wide
CHEAP = 0.75  # of the time that so many passes over one token would take: below it a pass over several is worth a sentence
LETTERS = 12.5  # px: of the words; a number that does not fit into its bar at this size is left out
ON_BLUE = {"light": "#ffffff", "dark": "#0f1318"}


def compute_span(gamma: int, spot: Spot) -> float:
    """How much time is shown, in target passes."""
    return max(PASSES, gamma * spot.c + 1.0)


def list_round_starts(gamma: int, spot: Spot) -> list[float]:
    """When each round begins that is shown, in target passes; the last one may be cut by the end of the picture."""
    round_, end = gamma * spot.c + 1.0, compute_span(gamma, spot)
    return [number * round_ for number in range(int(end / round_) + 1) if number * round_ < end - 1e-9]


def plot_timeline(gamma: int, spot: Spot, kind: str = "light") -> go.Figure:
    """Two lanes of the same time: target passes of one token each, and rounds of gamma draft steps with one target pass."""
    end, tokens, rounds = compute_span(gamma, spot), compute_expected_tokens(spot.alpha, gamma), list_round_starts(gamma, spot)
    alone = [float(number) for number in range(int(end))]
    steps = [begin + step * spot.c for begin in rounds for step in range(gamma)]
    passes = [begin + gamma * spot.c for begin in rounds]
    figure = go.Figure()
    figure.add_bar(
        x=[spot.c] * len(steps), base=steps, y=[DRAFTED] * len(steps), orientation="h", width=0.62, name="draft step",
        marker={"color": getattr(MEANINGS["draft"], kind), "line": {"color": EDGE, "width": 0.6}}, hoverinfo="skip",
    )  # fmt: skip
    figure.add_bar(
        x=[1.0] * (len(alone) + len(passes)), base=[*alone, *passes], y=[ALONE] * len(alone) + [DRAFTED] * len(passes),
        orientation="h", width=0.62, name="target pass (tokens)",
        text=["1"] * len(alone) + ["" if place + 1.0 > end + 1e-9 else f"{tokens:.1f}" for place in passes], textposition="inside",
        insidetextanchor="middle", textangle=0, textfont={"color": ON_BLUE[kind], "size": 13}, hoverinfo="skip",
        marker={"color": getattr(MEANINGS["target"], kind), "line": {"color": EDGE, "width": 0.6}},
    )  # fmt: skip
    written = int(end) * compute_wall_clock_factor(spot.alpha, gamma, spot.c)
    figure.update_layout(
        barmode="overlay", height=190, margin={"l": 8, "r": 12, "t": 34, "b": 44}, dragmode=False, showlegend=True,
        legend=LEGEND | {"font": {"size": LETTERS}}, uniformtext={"minsize": LETTERS, "mode": "hide"},
    )  # fmt: skip
    figure.update_xaxes(range=[0.0, end], title="time, in target passes", gridcolor=GRID, zeroline=False, fixedrange=True)
    figure.update_yaxes(
        range=[-0.5, 1.5], tickvals=[DRAFTED, ALONE], ticktext=[f"drafting<br>{format_number(written)} tokens", f"target only<br>{int(end)} tokens"],
        automargin=True, showgrid=False, zeroline=False, fixedrange=True, tickfont={"size": LETTERS, "color": GRAY[kind]},
    )  # fmt: skip
    return figure


def format_number(number: float) -> str:
    """A number of passes or tokens: three digits count, and a whole one has no decimals."""
    decimals = 2 if number < 9.995 else 1 if number < 99.95 else 0
    return f"{number:.0f}" if abs(number - round(number)) < 0.5 * 10**-decimals else f"{number:.{decimals}f}"


def describe_round(gamma: int, spot: Spot) -> str:
    """What the picture shows, in a sentence."""
    cost, tokens = gamma * spot.c + 1.0, compute_expected_tokens(spot.alpha, gamma)
    return (
        f"With alpha {spot.alpha:.2f} and c {spot.c:.2f}, a round of {_count_drafts(gamma)} takes {gamma} c + 1 = {_count_passes(format_number(cost))} and yields {_write_powers(gamma)} = "
        f"{_count_tokens(format_number(tokens))} on average: by the formula, tokens over passes, a speed-up of {format_number(compute_wall_clock_factor(spot.alpha, gamma, spot.c))} over "
        "target-only sampling."
    )


def _write_powers(gamma: int) -> str:
    """Expected tokens of a round as the sum of the chances that it gets so far: 1 + alpha + alpha² + … (Leviathan et al. 2023, equation 1)."""
    terms = [f"alpha{'' if n == 1 else str(n).translate(RAISED)}" for n in range(1, gamma + 1)]
    return " + ".join(["1", *(terms if gamma <= 3 else [*terms[:2], "…", terms[-1]])])


def explain_pass_cost(gamma: int, plan: SpeedPlan | None, pair_title: str) -> str:
    """What the formula leaves out at a gamma: it counts the pass over gamma + 1 tokens as one over a single token. pair_title: of the plan."""
    said = f"In the picture, a round that is cut counts in part. The formula counts the target pass that checks {_count_drafts(gamma)} as 1."
    costs = plan.costs if plan else None
    cost = costs.compute_cost(gamma) if costs else None
    if plan is None or costs is None or cost is None:
        return said + (f" Above {plan.rows[-1].gamma} draft tokens nothing was timed." if plan and costs else "")
    took = costs.compute_part("target", gamma)
    timed = f"By the costs of {plan.cost_model.title}" if plan.cost_model else f"Timed with {pair_title}"
    said += f" {timed}, it takes {took:.2f} times as long as one token of target-only sampling"
    if took < CHEAP * (gamma + 1):
        said += f", not {gamma + 1} times: for a single text, most of the time goes into reading the weights, once per pass"
    row = plan.row(gamma)
    if row is None or row.factor is None or row.leviathan is None:
        return f"{said}."
    return f"{said}. {pair_title} with gamma {gamma}: {row.leviathan:.2f} by the formula, {row.factor.value:.2f} with every cost counted (below)."


def _count_drafts(gamma: int) -> str:
    return "1 draft token" if gamma == 1 else f"{gamma} draft tokens"


def _count_passes(number: str) -> str:
    return f"{number} target pass{'es' * (number != '1')}"


def _count_tokens(number: str) -> str:
    return f"{number} token{'s' * (number != '1')}"
