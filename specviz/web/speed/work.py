"""What runs in the queue for How fast?: a plan of the visitor's text, small enough for a page."""

from __future__ import annotations

from dataclasses import replace

from specviz.jobs.queue import Ticket
from specviz.speed.records.plan import SpeedPlan, parse_prompts
from specviz.web.hosting import model_loading
from specviz.web.speed.state import SpeedQuestion, SpeedState

TEXTS, OPENING, LENGTH, PROBES = 16, 32, 48, 9  # continuations, tokens before and after each, runs of the cost probes
PROMPTS = 64  # of a visitor, at most
GAMMAS = tuple(range(1, 7))


def make_plan_of_text(state: SpeedState, ticket: Ticket, question: SpeedQuestion) -> None:
    """Make the plan. Stopped before its tokens are counted, nothing has changed; after that, a plan without speeds stays."""
    settings = replace(question.settings, gamma=GAMMAS[-1], max_new_tokens=LENGTH)
    pair = model_loading.wait_for_pair(ticket, settings)
    from specviz.speed.prediction.plan_effort import PlanEffort
    from specviz.speed.prediction.planning import make_plan

    def show(plan: SpeedPlan) -> None:
        state.store_result(ticket, question, plan)

    effort = PlanEffort(TEXTS, OPENING, PROBES)
    text, name = (parse_prompts(question.text, PROMPTS), "of yours") if question.lines else (question.text, "a text of yours")
    show(make_plan(pair, settings, text, GAMMAS, effort, name, ticket.tick, ticket.expect, show))
    ticket.tick(1.0)
