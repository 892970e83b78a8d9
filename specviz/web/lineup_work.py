"""What runs in the queue for the page Other proposers: every row of the gallery, one after the other, in turns."""

from __future__ import annotations

from specviz.errors import SpecvizError
from specviz.web import cache, warmup
from specviz.web.lineup import Ask, Gallery
from specviz.web.queue import Ticket

TURNS, DRAWS = 3, 500
KEPT = 6  # galleries of one visitor that are remembered


def run_all(gallery: Gallery, ticket: Ticket, ask: Ask) -> None:
    """Run the gallery for what was asked. It takes its place only when it is whole; stopped, nothing has changed."""
    ticket.tick(doing="Loading the models, once for this server")
    while not warmup.wait(0.2):
        ticket.tick()
    if sentence := warmup.trouble():
        raise SpecvizError(sentence)
    from specviz.lineup_run import line_up

    settings = ask.settings
    pair = cache.weights(settings.pair, settings.device, settings.dtype)
    found = line_up(pair, settings, TURNS, DRAWS, ticket.tick)
    known = list(gallery.found.items())[1 - KEPT :]
    gallery.found = dict(known) | {(settings.prompt, settings.pair, ask.choice): found}
    ticket.tick(1.0)
