"""Which round One round opens with: a stated rule instead of a choice by hand. Plain records, no torch.

The recorded run is the first rounds of the race of the front page, with their distributions. The rule looks at what was drawn and decided, never at times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from specviz.errors import TraceError
from specviz.speed.records.passage import Lane
from specviz.trace import Round, Trace

LEAST = 0.05  # probability of each token that was drawn, in the distribution that it was drawn from: a rare draw is not what a round is about


def choose_opening_round(rounds: Sequence[Round]) -> int:
    """Number, from 0, of the round to open with; 0 where none fits.

    That is the first after the one that reads the prompt which accepts a draft token, rejects one and ends with a replacement, and in which no
    token had a probability below ``LEAST`` when it was drawn: draft tokens in q, the replacement in the residual distribution.
    """
    return next((n for n, one in enumerate(rounds) if n and _is_typical(one)), 0)


def _is_typical(round_: Round) -> bool:
    if not round_.accepted_path or round_.ending.kind != "residual" or min(one.q for one in round_.proposals) < LEAST:
        return False
    rejected = max(n for n, one in enumerate(round_.proposals) if one.accepted is False)
    probs = round_.distributions[rejected] if rejected < len(round_.distributions) else None
    if probs is None or probs.residual is None or round_.ending.token not in probs.tokens:
        return False
    mass = sum(probs.residual) + probs.rest["residual"]
    return probs.residual[probs.tokens.index(round_.ending.token)] >= LEAST * mass


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
