"""What runs in the queue for One round: the rounds that were asked for, some at a time."""

from __future__ import annotations

import logging

from specviz.errors import SpecvizError
from specviz.figures.one_round.stage import open_ended
from specviz.web.common import cache, loads
from specviz.web.common.queue import Stopped, Ticket
from specviz.web.one_round.state import Job, Visit

CHUNK = 3  # rounds between two ticks


def answer(visit: Visit, ticket: Ticket, job: Job | None) -> None:
    """Work a job off. Whatever goes wrong becomes a sentence, and what is shown stays; what a link asks for goes on without the bad value."""
    while job is not None:
        try:
            job = run(visit, ticket, job)
        except Stopped:
            raise
        except SpecvizError as error:
            job = visit.fail(str(error), getattr(error, "name", None), job)
        except Exception as error:  # a page must outlive what a library throws
            logging.getLogger(__name__).exception("a run failed")
            job = visit.fail(f"The run failed ({type(error).__name__}). The run before is still shown.", None, job)


def run(visit: Visit, ticket: Ticket, job: Job) -> None:
    settings, earlier = job.settings, job.earlier
    pair = loads.waited(ticket, (settings.pair, settings.device, settings.dtype), cache.weights)
    from specviz.decoding import run as decoding

    while True:
        if len(earlier) > len(job.earlier):
            ticket.tick(len(earlier) / job.rounds, f"Computing round {len(earlier) + 1} of {job.rounds}")
        else:
            ticket.tick(doing="")  # short: not worth a word, for which the page would have to run
        trace = decoding.run(pair, settings, min(job.rounds, len(earlier) + CHUNK), earlier)
        if not (open_ended(trace) and len(earlier) < len(trace.rounds) < job.rounds):
            break
        earlier = trace.rounds
    visit.advance(trace, job)
