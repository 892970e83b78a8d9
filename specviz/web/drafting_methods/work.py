"""What runs in the queue for the page Other proposers: every row of the gallery, one after the other, by one clock."""

from __future__ import annotations

from specviz.web.common import cache, loads
from specviz.web.common.queue import Ticket
from specviz.web.drafting_methods.state import Ask, Gallery

RUNS, DRAWS = 3, 500
KEPT = 6  # galleries of one visitor that are remembered


def run_all(gallery: Gallery, ticket: Ticket, ask: Ask) -> None:
    """Run the gallery for what was asked. It takes its place only when it is whole; stopped, nothing has changed."""
    settings = ask.settings
    pair = loads.waited(ticket, (settings.pair, settings.device, settings.dtype), cache.weights)
    from specviz.measure.methods_run import line_up

    found = line_up(pair, settings, RUNS, DRAWS, ticket.tick)
    known = list(gallery.found.items())[1 - KEPT :]
    gallery.found = dict(known) | {(settings.prompt, settings.pair, ask.choice): found}
    ticket.tick(1.0)
