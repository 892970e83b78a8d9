"""What the tabs of How fast? show for a choice: which record of many texts, where the running pair stands, where sliders begin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from specviz.errors import SettingsError
from specviz.speed.records.batches import BatchSpeeds
from specviz.speed.records.plan import OWN_PAIR_DRAFTS, PLAN_DRAFTS, PlanChoice, SpeedPlan
from specviz.theory import best_gamma
from specviz.web.speed.state import NUMBERS, TABS, SpeedQuestion
from specviz.web.speed.surface_figures import Spot

ILLUSTRATED = 0.2  # c where a plan has none: a place for the slider, and no claim


@dataclass(frozen=True, slots=True)
class WhatIf:
    """A gamma and a point of the surface."""

    gamma: int
    spot: Spot


def locate_pair(choice: PlanChoice, plan: SpeedPlan | None, many: BatchSpeeds | None, gamma: int) -> Spot | None:
    """Where the running pair stands: alpha as counted at this gamma, or at the nearest one planned for, and c as measured.

    Where the plan was made without the clock, c is that of the passes that were timed for many texts, of which the first are over one.
    """
    if plan is None:
        return None
    row = min(plan.rows, key=lambda one: abs(one.gamma - gamma))
    if plan.costs is not None:
        return Spot(row.alpha, plan.costs.c)
    return Spot(row.alpha, many.c) if many is not None and choice.key in many.rounds else None


def place_sliders(question: SpeedQuestion, plan: SpeedPlan | None, many: BatchSpeeds | None) -> WhatIf:
    """Where the sliders stand: where they were moved, else at the running pair and the gamma planned, or else the formula's best."""
    choice = question.choice
    planned = plan.row(int(plan.best.value)) if plan and plan.best else None
    here = locate_pair(choice, plan, many, planned.gamma if planned else 1) or Spot(
        plan.rows[0].alpha if plan else 0.5, ILLUSTRATED
    )
    gamma = question.gamma or (planned.gamma if planned else best_gamma(here.factors()) or 1)
    alpha, c = (
        round(min(1.0, getattr(here, name)), 2) if getattr(question, name) is None else getattr(question, name)
        for name in ("alpha", "c")
    )
    return WhatIf(gamma, Spot(alpha, c))


def follow_widgets(
    question: SpeedQuestion, plan: SpeedPlan | None, many: BatchSpeeds | None, state: Mapping[str, Any], turn: int
) -> SpeedQuestion:
    """What is asked once tabs and sliders have been touched (a page's state); what was never drawn stays as it was asked.

    A slider that stands where it begins was not moved: a link says nothing of it.
    """
    title = state.get(tabs_key(turn))
    tab = next((name for name, one in TABS.items() if one == title), question.tab)
    begin = place_sliders(SpeedQuestion(question.text, question.choice), plan, many)
    first = {"alpha": begin.spot.alpha, "c": begin.spot.c, "gamma": begin.gamma}
    moved = {}
    for name in NUMBERS:
        value = state.get(slider_key(name, question.choice, turn))
        if value is not None:
            moved[name] = None if round(value, 2) == first[name] else round(value, 2)
    try:
        return replace(question, tab=tab, **moved)
    except SettingsError:  # a slider beyond its ends comes from no honest browser
        return replace(question, tab=tab)


def tabs_key(turn: int) -> str:
    """Key of the tabs' widget, made anew when a link fills the page."""
    return f"speed-tabs-{turn}"


def slider_key(name: str, choice: PlanChoice, turn: int) -> str:
    """Key of a slider's widget: each draft and temperature has its own, for each pair stands elsewhere."""
    return f"speed-what-{name}-{choice.key}-{turn}"


def choose_rounds(found: BatchSpeeds, choice: PlanChoice) -> tuple[str, str]:
    """Whose rounds are shown beside the passes of the shipped pair, and a sentence that says so and where both were measured."""
    stands_in = PlanChoice(temperature=choice.temperature)
    key = choice.key if choice.key in found.rounds else stands_in.key
    whose = f"rounds of {PLAN_DRAFTS[key.split(' ')[0]][1]}"
    more = "" if key == choice.key else f"; there is no record of {(PLAN_DRAFTS | OWN_PAIR_DRAFTS)[choice.draft][1]}"
    machine, texts = found.machine, len(next(iter(found.rounds.values()))[0])
    where = f"{machine.get('processor', 'a machine')}, {machine.get('threads', '?')} of {machine.get('cores', '?')} cores"
    return key, (
        f"Recorded {found.date} on {where}, load {machine.get('load', 0.0):.1f}: passes at temperature 1 with {found.cached_tokens} tokens in the cache, "
        f"and {whose} over {texts} texts of {found.length} tokens at temperature {choice.temperature}{more}."
    )
