"""What runs in the queue for Whole text: both ways, shown while they are written, then again to measure."""

from __future__ import annotations

from collections.abc import Sequence

from specviz.jobs.queue import Ticket
from specviz.speed.records.passage import Passage, TimedRound
from specviz.web.hosting import model_loading
from specviz.web.whole_text.state import PassageRequest, WholeTextState

RUNS = 3


def write_passage(state: WholeTextState, ticket: Ticket, request: PassageRequest) -> None:
    """Write what was asked. Stopped before both texts are read, what stood there before stands there again; after that, they stay."""
    settings = request.settings
    pair = model_loading.wait_for_pair(ticket, settings)
    from specviz.speed.benchmarks.passage import build_passage, write_passage

    shown = 0  # rounds that the page was last given

    def on_rounds(rounds: Sequence[TimedRound]) -> None:
        nonlocal shown
        if len(rounds) > shown:
            state.store_partial(ticket, lambda: build_passage(pair, settings, rounds))
            shown = len(rounds)

    def show(passage: Passage) -> None:
        state.store_result(ticket, request, passage)

    state.store_result(ticket, request, write_passage(pair, settings, RUNS, ticket.tick, on_rounds, ticket.expect, show))
    ticket.tick(1.0)
