"""What runs in the queue for Drafting methods: every row of the comparison, interleaved."""

from __future__ import annotations

from specviz.web.common import cache, model_loading
from specviz.web.common.queue import Ticket
from specviz.web.drafting_methods.state import MethodsQuestion, MethodsState

RUNS, SAMPLES = 3, 500


def run_all(state: MethodsState, ticket: Ticket, question: MethodsQuestion) -> None:
    """Measure every row. The comparison is handed over whole; where it is stopped, nothing has changed."""
    settings = question.settings
    pair = model_loading.waited(ticket, (settings.pair, settings.device, settings.dtype), cache.weights)
    from specviz.measure.methods_run import compare_methods

    state.keep(ticket, question, compare_methods(pair, settings, RUNS, SAMPLES, ticket.tick))
    ticket.tick(1.0)
