"""What runs in the queue for the panel Models: the check of a pair before its weights are read, and the download."""

from __future__ import annotations

from dataclasses import replace

from specviz.errors import CancelledError
from specviz.jobs.queue import Ticket
from specviz.web.hosting import model_loading
from specviz.web.pair_picker.state import PairPickerState, PairRequest


def check_pair(state: PairPickerState, ticket: Ticket, request: PairRequest) -> None:
    """Find out whether the pair will run here. Obstacles are part of the result."""
    model_loading.wait_for_libraries(ticket)
    from specviz.speed.prediction.preflight import check_pair as checked

    found = checked(
        request.target,
        request.draft,
        request.device,
        request.dtype,
        on_progress=lambda share, part="", /: ticket.tick(share, f"Looking at {part}"),
    )
    state.store(ticket, check=found)
    ticket.tick(1.0)


def download_pair(state: PairPickerState, ticket: Ticket, request: PairRequest) -> None:
    """Download what is missing of the checked pair. After a stop the next download continues."""
    model_loading.wait_for_libraries(ticket)
    from specviz.models.hub.download import download_models

    found = state.check
    if found is None:
        return
    try:
        download_models(found.listings, lambda share, doing="", /: ticket.tick(share, f"Downloading: {doing}"))
    except CancelledError as cancelled:
        state.store(ticket, notes=[str(cancelled)])
        raise
    target, draft = (replace(one, here_bytes=one.total_bytes) for one in (found.target, found.draft))
    state.store(ticket, check=replace(found, target=target, draft=draft))
    ticket.tick(1.0)
