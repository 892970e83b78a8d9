"""What runs in the queue for Serving limits: the laboratory on the visitor's prompt, small enough for a page."""

from __future__ import annotations

from specviz.web.common import cache, loads
from specviz.web.common.queue import Ticket
from specviz.web.serving_limits.state import Ask, Surroundings

TEXTS, LENGTH = 3, 24  # continuations of the prompt by the target, and tokens of each
POSITIONS, TURNS, TOKENS, GREEDY = 24, 3, 24, 96


def run_all(surroundings: Surroundings, ticket: Ticket, ask: Ask) -> None:
    """Run the laboratory for what was asked. It takes its place only when it is whole; stopped, nothing has changed."""
    settings = ask.settings
    pair = loads.waited(ticket, (settings.pair, settings.device, settings.dtype), cache.weights)
    from specviz.serving.served import refuse_uncompared
    from specviz.serving.setups_run import SetupEffort, compare_setups, written_from

    refuse_uncompared(pair)
    ticket.tick(0.0, "The target continues your text")
    places = written_from(pair, settings, settings.prompt, LENGTH, TEXTS)
    effort = SetupEffort(POSITIONS, TURNS, TOKENS, 1, GREEDY)
    surroundings.keep(ticket, ask, compare_setups(pair, settings, places, effort, "your text", ticket.tick))
    ticket.tick(1.0)
