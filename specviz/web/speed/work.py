"""What runs in the queue for the page How fast?: a plan of the visitor's text, small enough for a page."""

from __future__ import annotations

from dataclasses import replace

from specviz.web.common import cache, loads
from specviz.web.common.queue import Ticket
from specviz.web.speed.state import Ask, Forecasts

TEXTS, OPENING, LENGTH, PROBES = 16, 32, 48, 9  # continuations, tokens before and after each, runs of the cost probes
GAMMAS = tuple(range(1, 7))
KEPT = 8  # plans of one visitor that are remembered


def make(forecasts: Forecasts, ticket: Ticket, ask: Ask) -> None:
    """Make the plan that was asked for. It takes its place only when it is whole; stopped, nothing has changed."""
    settings = replace(ask.settings, gamma=GAMMAS[-1], length=LENGTH)
    pair = loads.waited(ticket, (settings.pair, settings.device, settings.dtype), cache.weights)
    from specviz.prediction.plan_run import PlanEffort, make_plan

    found = make_plan(pair, settings, ask.text, GAMMAS, PlanEffort(TEXTS, OPENING, PROBES), "a text of yours", ticket.tick)
    forecasts.found = dict(list(forecasts.found.items())[1 - KEPT :]) | {(ask.text, ask.choice.key): found}
    ticket.tick(1.0)
