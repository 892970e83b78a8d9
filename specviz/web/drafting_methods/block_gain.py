"""What block verification gains over the token rule, from a plan under it: as counted on the target's texts, and as measured. No torch."""

from __future__ import annotations

from specviz.figures.numbers import format_probability
from specviz.speed.records.estimate import Estimate
from specviz.speed.records.plan import SpeedPlan

SHOWN_GAMMA = 4  # gamma that the sentence speaks of, where the plan has it


def build_gain_rows(plan: SpeedPlan) -> list[dict[str, object]]:
    """A line for each gamma; in brackets the middle 95% of resampled texts."""
    measured = {one.gamma: one.gain for one in plan.checked if one.gain is not None}
    return [
        {
            "draft tokens": row.gamma,
            "tokens per target pass": round(row.tokens.value, 3),
            "gain over the token rule, predicted": format_gain(row.gain),
            "measured": format_gain(measured[row.gamma]) if row.gamma in measured else "",
        }
        for row in plan.rows
        if row.gain is not None
    ]


def describe_gain(plan: SpeedPlan) -> str:
    """The gain at one gamma, and whether the measurement holds the counted number; empty for a plan of the token rule."""
    gains = {row.gamma: row.gain for row in plan.rows if row.gain is not None}
    if not gains:
        return ""
    gamma = SHOWN_GAMMA if SHOWN_GAMMA in gains else max(gains)
    gain = gains[gamma]
    said = (
        f"Block verification gives {format_gain(gain)} more tokens per target pass than the token rule at {gamma} draft tokens, as predicted from "
        f"{plan.openings} texts of {plan.length} tokens of the target at temperature {plan.settings.temperature:g}."
    )
    seen = next((one.gain for one in plan.checked if one.gamma == gamma), None)
    if seen is None:
        return said
    agrees = "agrees with" if seen.low <= gain.value <= seen.high else "does not agree with"
    return f"{said} Decoding with both rules gave {format_gain(seen)}, which {agrees} the prediction. With one draft token both rules are the same."


def format_gain(gain: Estimate) -> str:
    """To a thousandth of a token; what rounding leaves is 0."""
    value, low, high = (format_probability(round(one, 3) + 0.0, 3) for one in (gain.value, gain.low, gain.high))
    return f"{value} ({low} to {high})"
