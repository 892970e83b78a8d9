"""What runs in the queue for Serving limits: every setup on the visitor's prompt, small enough for a page."""

from __future__ import annotations

from specviz.evidence.serving_setups.records import SetupComparison
from specviz.jobs.queue import Ticket
from specviz.web.hosting import model_loading
from specviz.web.serving_limits.state import SetupsQuestion, SetupsState

TEXTS, LENGTH = 3, 24  # continuations of the prompt by the target, and tokens of each
POSITIONS, RUNS, TOKENS, GREEDY = 24, 3, 24, 96


def measure_setups(state: SetupsState, ticket: Ticket, question: SetupsQuestion) -> None:
    """Measure every setup. Stopped before all have been timed once, nothing has changed; after that, the runs that ended stay."""
    settings = question.settings
    pair = model_loading.wait_for_pair(ticket, settings)
    from specviz.evidence.serving_setups.comparison import SetupEffort, compare_setups, continue_prompt
    from specviz.evidence.serving_setups.targets import refuse_unsupported

    refuse_unsupported(pair)
    ticket.tick(0.0, "The target continues your text")
    places = continue_prompt(pair, settings, settings.prompt, LENGTH, TEXTS)
    effort = SetupEffort(POSITIONS, RUNS, TOKENS, 1, GREEDY)

    def show(comparison: SetupComparison) -> None:
        if comparison.runs:
            state.store_result(ticket, question, comparison)
        else:
            state.store_partial(ticket, lambda: comparison)

    show(compare_setups(pair, settings, places, effort, "your text", ticket.tick, expect=ticket.expect, show=show))
    ticket.tick(1.0)
