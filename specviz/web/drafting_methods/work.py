"""What runs in the queue for Drafting methods: every row of the gallery, one after the other, in turns."""

from __future__ import annotations

from specviz.web.common import cache, loads
from specviz.web.common.queue import Ticket
from specviz.web.drafting_methods.state import Ask, Gallery

TURNS, DRAWS = 3, 500


def run_all(gallery: Gallery, ticket: Ticket, ask: Ask) -> None:
    """Run the gallery for what was asked. It takes its place only when it is whole; stopped, nothing has changed."""
    settings = ask.settings
    pair = loads.waited(ticket, (settings.pair, settings.device, settings.dtype), cache.weights)
    from specviz.measure.methods_run import compare_methods

    gallery.keep(ticket, ask, compare_methods(pair, settings, TURNS, DRAWS, ticket.tick))
    ticket.tick(1.0)
