"""Sentences of the page How fast? that depend on what was found."""

from __future__ import annotations

from specviz.speed.records.plan import SpeedPlan
from specviz.web.common.pairs import describe_recorded_pair, name_pair
from specviz.web.speed.round_model import COMPUTED, MEASURED, PREDICTED, RoundModel
from specviz.web.speed.state import SpeedState


def describe_answer(pair: str, model: RoundModel, has_moved: bool) -> str:
    """What the large number is: times as fast as target-only sampling, of what, and how it is known."""
    begin = model.compute_speed(model.alpha, model.c, model.gamma)
    how = {
        MEASURED: f"{name_pair(pair)} on {model.machine}, measured",
        PREDICTED: f"{name_pair(pair)} on {model.machine}, predicted",
        COMPUTED: f"computed from the acceptance of {name_pair(pair)} and the pass times of {model.machine}",
    }.get(model.kind)
    if how is None:
        return "as fast as target-only sampling: an example. These models were not timed; predict them below."
    if has_moved:
        return f"as fast as target-only sampling, computed for these sliders. They began at {begin:.2f}×."
    return f"as fast as target-only sampling: {how}."


def describe_verdict(state: SpeedState, plan: SpeedPlan) -> str:
    """The verdict; while rounds are timed, that it follows; where that was stopped, that it is missing."""
    if not state.has_own_result or plan.costs is not None:
        return plan.in_words
    return (
        "The verdict follows: rounds are being timed." if state.is_busy else f"{plan.in_words} The work was stopped before that."
    )


def explain_lines(state: SpeedState, plan: SpeedPlan) -> str:
    """What the lines to paste are of, or why there are none."""
    assert plan.best is not None, "lines come from a plan with costs"
    if not plan.server_commands:
        why = "no gamma is predicted to be faster" if plan.best.value == 0 else "these servers have no such drafting method"
        return f"Nothing to paste: {why}."
    other = describe_recorded_pair(plan.settings.pair, state.pair, "lines")
    of_pair = f"{other} Predict for your text to get yours. " if other else ""
    doubt = f" {plan.in_words}" if plan.verdict != "speculate" else ""
    return f"{of_pair}With gamma {plan.best.value:g}, the fastest by this prediction.{doubt}"
