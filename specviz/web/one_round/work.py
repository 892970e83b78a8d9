"""Jobs of One round: computes the requested rounds, some at a time."""

from __future__ import annotations

import logging

from specviz.errors import CancelledError, SpecvizError, is_out_of_memory
from specviz.jobs.queue import MEMORY_FULL, Ticket
from specviz.web.hosting import metrics, model_loading, server_workers
from specviz.web.one_round.payload import can_continue
from specviz.web.one_round.state import OneRoundState, RunRequest

CHUNK = 3  # rounds between two ticks


def answer_request(state: OneRoundState, ticket: Ticket, request: RunRequest | None) -> None:
    """Compute a request. Errors become sentences and the run on screen stays; a link goes on without the value that failed."""
    while request is not None:
        try:
            _run_request(state, ticket, request)
            return
        except CancelledError:
            raise
        except SpecvizError as error:
            request = state.reject_request(str(error), getattr(error, "name", None), request)
        except Exception as error:  # a page must outlive what a library throws
            logging.getLogger(__name__).exception("a run failed")
            said = f"The run failed ({type(error).__name__}). The run before is still shown."
            request = state.reject_request(MEMORY_FULL if is_out_of_memory(error) else said, None, request)


def _run_request(state: OneRoundState, ticket: Ticket, request: RunRequest) -> None:
    settings, earlier = request.settings, request.earlier
    pair = model_loading.wait_for_pair(ticket, settings)
    from specviz.web.one_round.worker import run_rounds  # torch comes with it

    while True:
        if len(earlier) > len(request.earlier):
            ticket.tick(len(earlier) / request.rounds, f"Computing round {len(earlier) + 1} of {request.rounds}")
        else:
            ticket.tick(doing="")  # short: not worth a word, for which the page would have to run
        asked = settings, min(request.rounds, len(earlier) + CHUNK), earlier
        trace, payload = server_workers.run_in_worker(
            run_rounds, pair, settings, asked, lambda *_: ticket.tick(), "rounds", urgent=True
        )
        if not (can_continue(trace) and len(earlier) < len(trace.rounds) < request.rounds):
            break
        earlier = trace.rounds
    metrics.ROUNDS.labels(state.page).inc(max(0, len(trace.rounds) - len(request.earlier)))
    state.show_finished(trace, request, payload)
