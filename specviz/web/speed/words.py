"""Sentences of the page How fast? that depend on what was found."""

from __future__ import annotations

from dataclasses import replace

from specviz.speed.records import headline
from specviz.speed.records.batches import BatchSpeeds
from specviz.speed.records.cost_model import SERVER
from specviz.speed.records.plan import SpeedPlan
from specviz.web.common import cost_choice
from specviz.web.common.pairs import describe_recorded_pair, name_pair
from specviz.web.speed.batch_figures import QUICK_TOKENS, estimate_speeds, find_dip
from specviz.web.speed.round_model import COMPUTED, MEASURED, PREDICTED, RoundModel
from specviz.web.speed.state import NUMBERS, TEXTS, SpeedQuestion, SpeedState, build_round_model

FILLED, HOLLOW = "●", "○"  # a speed that was measured, and one that was not; as the points of the chart over batch sizes


def describe_step(texts: int, step: float) -> str:
    """What a draft step takes of a target pass where more texts than one are written at once."""
    return f"With {texts} texts at once: {step:.0%}."


def describe_answer(pair: str, model: RoundModel, has_moved: bool) -> str:
    """How the large number is known: of which pair and machine, and whether it was measured."""
    begin = model.compute_speed(model.alpha, model.c, model.gamma)
    how = {
        MEASURED: f"{FILLED} **Measured**: {name_pair(pair)} on {model.machine}",
        PREDICTED: f"{HOLLOW} **Predicted**: {name_pair(pair)} on {model.machine}",
        COMPUTED: f"{HOLLOW} **Computed**: acceptance of {name_pair(pair)}, pass times of {model.machine}",
    }.get(model.kind)
    if how is None:
        return "An example: these models were not timed. Predict them below."
    if has_moved:
        return f"{HOLLOW} **Computed** for these sliders; {'measured' if model.kind == MEASURED else 'at first'}: {begin:.2f}×."
    if model.kind != MEASURED:
        return f"{how}."
    speed = headline.get_speed("1")
    return f"{how}, 95% interval {speed.low:.2f}\u00a0to\u00a0{speed.high:.2f}."


def describe_server_speed(question: SpeedQuestion, shown: SpeedPlan | None, batches: BatchSpeeds | None) -> str:
    """The pair's computed speed on a server's GPU; empty where it is not known, and where the question is of another machine or of moved sliders."""
    moved = any(getattr(question, name) is not None for name in NUMBERS)
    there = build_round_model(replace(question, costs=SERVER), shown, batches)
    if there.kind != COMPUTED or question.costs != cost_choice.MEASURED or moved:
        return ""
    speed = there.compute_speed(there.alpha, there.c, there.gamma)
    return f"{HOLLOW} {TEXTS['machine_speed'].format(speed=speed, machine=there.machine)}"


def introduce_plan(state: SpeedState, plan: SpeedPlan | None) -> str:
    """Which text the prediction is of, and why its speed is not the headline's where both are of one pair and temperature."""
    if plan is None:
        return ""
    if state.has_own_result:
        return f"The speed for your {'prompts' if plan.of_prompts else 'text'}, predicted without running speculative decoding."
    said = f"The speed for one story, {plan.text['name']}, predicted without running speculative decoding."
    heat, row = (
        f"{plan.settings.temperature:g}",
        next((one for one in plan.checked if one.gamma == headline.load_headline().gamma), None),
    )
    if headline.find_headline(plan.settings) is None or plan.settings.proposer != "draft" or row is None or row.factor is None:
        return said
    bench = headline.get_round(heat)
    rarely = "less" if row.tokens.value < bench.tokens else "more"
    return (
        f"{said} Its draft tokens are accepted {rarely} often than those of the benchmark, so with {headline.load_headline().gamma} of them {row.factor.value:.2f}× is "
        f"measured here, not {bench.factor:.2f}×."
    )


def describe_batches(model: RoundModel, batches: BatchSpeeds) -> tuple[str, str]:
    """The speed of one text with that of the most: the first number, then its words."""
    speeds = dict(zip(batches.rows, estimate_speeds(model, batches), strict=True))
    first, last = batches.rows[0], batches.rows[-1]
    return f"{speeds[first].value:.2f}×", f"with one text, {speeds[last].value:.2f}× with {last}."


def explain_dip(model: RoundModel, batches: BatchSpeeds) -> str:
    """Why more texts gain more than fewer where they do; empty where they do not."""
    dip = find_dip(model, batches)
    return "" if dip is None else TEXTS["dip"].format(few=dip[0], many=dip[1], quick=QUICK_TOKENS)


def describe_verdict(state: SpeedState, plan: SpeedPlan) -> str:
    """While rounds are timed, that a verdict follows; where that was stopped, that it is missing; empty where it stands beside the picture."""
    if plan.costs is not None:
        return ""
    if not state.has_own_result:
        return plan.in_words
    return (
        "The verdict follows: rounds are being timed." if state.is_busy else f"{plan.in_words} The work was stopped before that."
    )


def explain_lines(state: SpeedState, plan: SpeedPlan) -> str:
    """What the lines to paste are of, or why there are none."""
    assert plan.best is not None, "lines come from a plan with costs"
    if not plan.server_commands:
        why = (
            "no draft length is predicted to be faster" if plan.best.value == 0 else "these servers have no such drafting method"
        )
        return f"None: {why}."
    other = describe_recorded_pair(plan.settings.pair, state.pair, "lines")
    of_pair = f"{other} Predict for your text to get yours. " if other else ""
    return f"{of_pair}With {plan.best.value:g} draft tokens a round, the fastest by the prediction:"
