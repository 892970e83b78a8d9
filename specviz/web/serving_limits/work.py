"""What runs in the queue for the page Around the rule: the laboratory on the visitor's prompt, small enough for a page."""

from __future__ import annotations

from specviz.web.common import cache, loads
from specviz.web.common.queue import Ticket
from specviz.web.serving_limits.state import Ask, Surroundings

TEXTS, LENGTH = 3, 24  # continuations of the prompt by the target, and tokens of each
POSITIONS, RUNS, TOKENS, GREEDY = 24, 3, 24, 96
KEPT = 6  # laboratories of one visitor that are remembered


def run_all(surroundings: Surroundings, ticket: Ticket, ask: Ask) -> None:
    """Run the laboratory for what was asked. It takes its place only when it is whole; stopped, nothing has changed."""
    settings = ask.settings
    pair = loads.waited(ticket, (settings.pair, settings.device, settings.dtype), cache.weights)
    from specviz.serving.served import refuse_uncompared
    from specviz.serving.setups_run import SetupEffort, laboratory, written_from

    refuse_uncompared(pair)
    ticket.tick(0.0, "The target goes on from your text")
    places = written_from(pair, settings, settings.prompt, LENGTH, TEXTS)
    effort = SetupEffort(POSITIONS, RUNS, TOKENS, 1, GREEDY)
    found = laboratory(pair, settings, places, effort, "your text", ticket.tick)
    known = list(surroundings.found.items())[1 - KEPT :]
    surroundings.found = dict(known) | {(settings.prompt, settings.pair): found}
    ticket.tick(1.0)
