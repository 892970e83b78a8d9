"""What runs in the queue for How fast?: a plan of the visitor's text, small enough for a page."""

from __future__ import annotations

from dataclasses import replace

from specviz.web.common import cache, loads
from specviz.web.common.queue import Ticket
from specviz.web.speed.state import Ask, Forecasts

TEXTS, OPENING, LENGTH, PROBES = 16, 32, 48, 9  # continuations, tokens before and after each, turns of the cost probes
GAMMAS = tuple(range(1, 7))


def make(forecasts: Forecasts, ticket: Ticket, ask: Ask) -> None:
    """Make the plan that was asked for. It takes its place only when it is whole; stopped, nothing has changed."""
    settings = replace(ask.settings, gamma=GAMMAS[-1], length=LENGTH)
    pair = loads.waited(ticket, (settings.pair, settings.device, settings.dtype), cache.weights)
    from specviz.prediction.plan_run import PlanEffort, make_plan

    found = make_plan(pair, settings, ask.text, GAMMAS, PlanEffort(TEXTS, OPENING, PROBES), "a text of yours", ticket.tick)
    forecasts.keep(ticket, ask, found)
    ticket.tick(1.0)
