"""Which round One round opens with: a stated rule instead of a choice by hand. Plain records, no torch.

The recorded run is the first rounds of the race of the front page, with their distributions. The rule looks at what was decided, never at times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from specviz.errors import TraceError
from specviz.speed.records.passage import Lane
from specviz.trace import Round, Trace

DRAFTED, ACCEPTED = 3, 2  # of a round that is preferred


def choose_opening_round(rounds: Sequence[Round]) -> int:
    """Number, from 0, of the round to open with.

    That is the first after the one that reads the prompt which accepts a draft token, rejects one and ends with a replacement; if one of them has
    ``DRAFTED`` draft tokens and ``ACCEPTED`` accepted ones, the first of those. 0 where no round fits.
    """
    fit = [n for n, one in enumerate(rounds) if n and one.accepted_path and one.ending.kind == "residual"]
    preferred = (n for n in fit if (len(rounds[n].proposals), len(rounds[n].accepted_path)) == (DRAFTED, ACCEPTED))
    return next(preferred, fit[0] if fit else 0)


def is_start_of(rounds: Sequence[Round], lane: Lane) -> bool:
    """Whether a text begins with these rounds: the same draft tokens, decided in the same way."""
    return len(rounds) <= len(lane.trace.rounds) and all(
        _list_decisions(one) == _list_decisions(other) for one, other in zip(rounds, lane.trace.rounds, strict=False)
    )


def _list_decisions(round_: Round) -> tuple[object, ...]:
    return [(one.token, one.accepted) for one in round_.proposals], round_.committed, round_.ending.kind


def copy_times(trace: Trace, lane: Lane) -> Trace:
    """The run with the times that its rounds took in the text. Raises TraceError where the text does not begin with its rounds."""
    if not is_start_of(trace.rounds, lane):
        raise TraceError("The recorded race does not begin with the rounds of this run. Record it first: specviz record passage.")
    timed = zip(trace.rounds, lane.trace.rounds, strict=False)
    return replace(trace, rounds=tuple(replace(one, timing=other.timing) for one, other in timed))
