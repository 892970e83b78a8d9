"""What runs in the queue for Drafting methods: every row of the comparison, interleaved."""

from __future__ import annotations

from specviz.jobs.queue import Ticket
from specviz.speed.records.methods import MethodComparison
from specviz.web.drafting_methods.state import MethodsQuestion, MethodsState
from specviz.web.hosting import model_loading

RUNS, SAMPLES = 3, 500


def compare_all_methods(state: MethodsState, ticket: Ticket, question: MethodsQuestion) -> None:
    """Measure every row. Stopped before all have been timed once, nothing has changed; after that, the runs that ended stay."""
    settings = question.settings
    pair = model_loading.wait_for_pair(ticket, settings)
    from specviz.speed.benchmarks.drafting_methods import compare_methods

    def show(comparison: MethodComparison) -> None:
        if comparison.runs:
            state.store_result(ticket, question, comparison)
        else:
            state.store_partial(ticket, lambda: comparison)

    show(compare_methods(pair, settings, RUNS, SAMPLES, ticket.tick, expect=ticket.expect, show=show))
    ticket.tick(1.0)
