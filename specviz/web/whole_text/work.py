"""What runs in the queue for Whole text: both ways, shown while they are written, then again to measure."""

from __future__ import annotations

import time
from collections.abc import Sequence

from specviz.measure.passage import TimedRound
from specviz.web.common import cache, model_loading
from specviz.web.common.queue import Ticket
from specviz.web.whole_text.state import PassageRequest, WholeTextState

RUNS = 3
SHOWN_EVERY = 0.3  # seconds between two states that the page may show


def write(state: WholeTextState, ticket: Ticket, request: PassageRequest) -> None:
    """Write what was asked. Stopped, what stood there before stands there again."""
    settings = request.settings
    state.put(ticket, now=None)
    pair = model_loading.waited(ticket, (settings.pair, settings.device, settings.dtype), cache.weights)
    from specviz.measure import passage_run

    shown = [0.0, 0]  # when the page was last given something new, and how much of it there was

    def watch(share: float, doing: str, events: Sequence[TimedRound]) -> None:
        if len(events) > shown[1] and time.monotonic() - shown[0] > SHOWN_EVERY:
            state.put(ticket, now=passage_run.so_far(pair, settings, events))
            shown[:] = time.monotonic(), len(events)
        ticket.tick(share, doing)

    state.keep(ticket, request, passage_run.write(pair, settings, RUNS, watch))
    ticket.tick(1.0)
