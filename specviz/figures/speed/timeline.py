"""Draft steps and target passes as bars over time, as the formula has them: what a round costs, and what it brings. Plotly, sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

import plotly.graph_objects as go

from specviz.figures.common.theme import GRAY, GRID, LEGEND, MEANINGS
from specviz.figures.speed.surface import Spot
from specviz.theory import expected_tokens, wall_clock_factor

if TYPE_CHECKING:
    from specviz.prediction.batches import BatchSpeeds

PASSES = 8.0  # target passes that the picture is long, or one round where that takes longer
ALONE, DRAFTED = 1, 0  # lanes, from below
EDGE = "rgba(0, 0, 0, 0.45)"  # between draft steps, which may be a pixel wide


def span(gamma: int, spot: Spot) -> float:
    """How much time is shown, in target passes."""
    return max(PASSES, gamma * spot.c + 1.0)


def starts(gamma: int, spot: Spot) -> list[float]:
    """When each round begins that is shown, in target passes; the last one may be cut by the end of the picture."""
    round_, end = gamma * spot.c + 1.0, span(gamma, spot)
    return [number * round_ for number in range(int(end / round_) + 1) if number * round_ < end - 1e-9]


def timeline(gamma: int, spot: Spot, kind: str = "light") -> go.Figure:
    """Two lanes of the same time: target passes of one token each, and rounds of gamma draft steps with one target pass."""
    end, tokens, rounds = span(gamma, spot), expected_tokens(spot.alpha, gamma), starts(gamma, spot)
    alone = [float(number) for number in range(int(end))]
    steps = [begin + step * spot.c for begin in rounds for step in range(gamma)]
    passes = [begin + gamma * spot.c for begin in rounds]
    figure = go.Figure()
    figure.add_bar(
        x=[spot.c] * len(steps), base=steps, y=[DRAFTED] * len(steps), orientation="h", width=0.5, name="draft step",
        marker={"color": getattr(MEANINGS["draft"], kind), "line": {"color": EDGE, "width": 0.6}}, hoverinfo="skip",
    )  # fmt: skip
    figure.add_bar(
        x=[1.0] * (len(alone) + len(passes)), base=[*alone, *passes], y=[ALONE] * len(alone) + [DRAFTED] * len(passes),
        orientation="h", width=0.5, name="target pass, with the tokens that it yields on average",
        text=["1"] * len(alone) + [f"{tokens:.1f}"] * len(passes), textposition="inside", insidetextanchor="middle", textangle=0,
        textfont={"color": "white", "size": 13}, hoverinfo="skip",
        marker={"color": MEANINGS["target"].light, "line": {"color": EDGE, "width": 0.6}},
    )  # fmt: skip
    written = int(end) * wall_clock_factor(spot.alpha, gamma, spot.c)
    figure.update_layout(
        barmode="overlay", height=190, margin={"l": 8, "r": 12, "t": 34, "b": 44}, dragmode=False, legend=LEGEND, showlegend=True
    )
    figure.update_xaxes(range=[0.0, end], title="time, in target passes", gridcolor=GRID, zeroline=False, fixedrange=True)
    figure.update_yaxes(
        range=[-0.5, 1.5], tickvals=[DRAFTED, ALONE], ticktext=[f"drafting<br>{written:.1f} tokens", f"target only<br>{int(end)} tokens"],
        automargin=True, showgrid=False, zeroline=False, fixedrange=True, tickfont={"size": 12.5, "color": GRAY[kind]},
    )  # fmt: skip
    return figure


def in_words(gamma: int, spot: Spot) -> str:
    """What the picture shows, in a sentence."""
    end, tokens = span(gamma, spot), expected_tokens(spot.alpha, gamma)
    drafts = "1 draft token" if gamma == 1 else f"{gamma} draft tokens"
    return (
        f"A round of {drafts} takes {gamma * spot.c + 1.0:.2f} target passes and yields {tokens:.2f} tokens on average. In the time of {int(end)} "
        f"target passes that makes {int(end) * wall_clock_factor(spot.alpha, gamma, spot.c):.1f} tokens instead of {int(end)}."
    )


def one_pass(gamma: int, measured: BatchSpeeds | None) -> str:
    """Why a pass over gamma + 1 tokens costs about as much as one over a single token, with what was measured on one text."""
    said = (
        f"Why does the target check {gamma} draft token{'s' * (gamma > 1)} in about one pass? A pass reads all weights from memory, and for a "
        "single text that takes most of its time, however many tokens the weights are then applied to."
    )
    if measured is None or 1 not in measured.rows:
        return said
    nearest = min(measured.gammas, key=lambda one: abs(one - gamma))
    cost = measured.cost(1, nearest)
    return (
        f"{said} Measured with the shipped pair on {measured.machine.get('processor', 'one machine')}: a pass over {nearest + 1} tokens takes {cost.value:.2f} "
        f"({cost.low:.2f} to {cost.high:.2f}) times as long as one over a single token. The formula counts every pass as 1 and "
        "verification as nothing, so measured speed-ups are smaller."
    )
