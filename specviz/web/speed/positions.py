"""Acceptance by position: how often the first, second, .. draft token of a round is accepted, among those that are checked."""

from __future__ import annotations

import plotly.graph_objects as go

from specviz.figures.charts import frame_chart
from specviz.figures.theme import MEANINGS
from specviz.speed.records.plan import SpeedPlan


def plot_positions(plan: SpeedPlan, kind: str = "light") -> go.Figure:
    """A point for each position, with its 95% interval, on an axis from 0 to 1."""
    figure, color, found = go.Figure(), getattr(MEANINGS["target"], kind), plan.positions
    spread = {"type": "data", "symmetric": False, "array": [one.high - one.value for one in found],
              "arrayminus": [one.value - one.low for one in found], "thickness": 1.6, "width": 5, "color": color}  # fmt: skip
    places = list(range(1, len(found) + 1))
    figure.add_scatter(x=places, y=[one.value for one in found], mode="lines+markers", name="accepted", error_y=spread,
                       line={"width": 1.6, "color": color, "dash": "dot"}, marker={"size": 9, "color": color},
                       hovertemplate="position %{x}: %{y:.3f}<extra></extra>")  # fmt: skip
    frame_chart(figure, 300, "position in the round", "accepted, of those checked")
    figure.update_xaxes(tickvals=places)
    figure.update_yaxes(range=[0.0, 1.02])
    return figure


def describe_positions(plan: SpeedPlan) -> str:
    """What the picture shows."""
    first, last, number = plan.positions[0], plan.positions[-1], len(plan.positions)
    said = f"Of the draft tokens checked at position 1, {first.said()} are accepted"
    if number == 1:
        return f"{said}."
    way = "less often" if first.low > last.high else "more often" if last.low > first.high else ""
    low, high = (pick(plan.positions, key=lambda one: one.value) for pick in (min, max))
    if way:
        meaning = f"Later draft tokens are accepted {way}."
    elif low.high < high.low:
        place, other = (1 + plan.positions.index(one) for one in (low, high))
        meaning = f"The least is {low.said()} at position {place}, the most {high.said()} at position {other}: not steadily more or less along the round."
    else:
        meaning = "The intervals overlap: no change with the position is seen."
    return f"{said}; at position {number}, {last.said()}. {meaning}"


def build_position_rows(plan: SpeedPlan) -> list[dict[str, object]]:
    """Every position as a row of a table."""
    return [{"position": number, "accepted, of those checked": one.said(".3f")} for number, one in enumerate(plan.positions, 1)]
