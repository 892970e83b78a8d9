"""What runs in the queue for How fast?: a plan of the visitor's text, small enough for a page."""

from __future__ import annotations

from dataclasses import replace

from specviz.web.common import cache, model_loading
from specviz.web.common.queue import Ticket
from specviz.web.speed.state import SpeedQuestion, SpeedState

TEXTS, OPENING, LENGTH, PROBES = 16, 32, 48, 9  # continuations, tokens before and after each, runs of the cost probes
GAMMAS = tuple(range(1, 7))


def make(state: SpeedState, ticket: Ticket, question: SpeedQuestion) -> None:
    """Make the plan. It is handed over whole; where it is stopped, nothing has changed."""
    settings = replace(question.settings, gamma=GAMMAS[-1], length=LENGTH)
    pair = model_loading.waited(ticket, (settings.pair, settings.device, settings.dtype), cache.weights)
    from specviz.prediction.plan_run import PlanEffort, make_plan

    found = make_plan(pair, settings, question.text, GAMMAS, PlanEffort(TEXTS, OPENING, PROBES), "a text of yours", ticket.tick)
    state.keep(ticket, question, found)
    ticket.tick(1.0)
