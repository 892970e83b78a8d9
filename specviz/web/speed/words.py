"""Sentences of the page How fast? that depend on what was found."""

from __future__ import annotations

from collections.abc import Sequence

from specviz.speed.records import headline
from specviz.speed.records.plan import SpeedPlan
from specviz.web.common import cost_choice
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


def introduce_plan(state: SpeedState, plan: SpeedPlan | None) -> str:
    """Which text the prediction is of, and why its speed is not the headline's where both are of one pair and temperature."""
    if plan is None:
        return ""
    if state.has_own_result:
        return f"For your {'prompts' if plan.of_prompts else 'text'}, without running speculative decoding."
    said = f"Here for one story, {plan.text['name']}, without running speculative decoding."
    heat, row = f"{plan.settings.temperature:g}", next((one for one in plan.checked if one.gamma == headline.GAMMA), None)
    if headline.find_headline(plan.settings) is None or plan.settings.proposer != "draft" or row is None or row.factor is None:
        return said
    bench = headline.load_bench_round(heat)
    question = state.question
    begins = (
        heat == "1"
        and question.costs == cost_choice.MEASURED
        and (question.alpha, question.c, question.gamma, question.texts) == (None,) * 4
    )
    texts = "the texts above" if begins else "the benchmark’s texts"
    return (
        f"{said} A round of {headline.GAMMA} draft tokens writes {row.tokens.value:.2f} tokens of it, {bench.tokens:.2f} of {texts}: "
        f"so {row.factor.value:.2f}× is measured here, not {bench.factor:.2f}×."
    )


def describe_batches(model: RoundModel, sizes: Sequence[int]) -> tuple[str, str]:
    """The speeds with several texts at once as a large number, and in words beside that of one text."""
    one, *others = (model.find_best_gamma(model.alpha, model.c, texts)[1] for texts in sizes)
    slower = [str(texts) for texts, speed in zip(sizes[1:], others, strict=True) if speed < 1.0]
    costs = f" With {' or '.join(slower)} texts, drafting costs time." if slower else ""
    return (
        f"{min(others):.2f}× to {max(others):.2f}×",
        f"with {sizes[1]} to {sizes[-1]} texts at once, {one:.2f}× with one.{costs}",
    )


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
    return f"{of_pair}Start it with {plan.best.value:g} draft tokens a round, the fastest by this prediction:"
