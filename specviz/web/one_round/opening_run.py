"""Which run One round opens with: a stated rule instead of a choice by hand. Plain records, no torch.

Among the runs of so many seeds, those are left out that would teach a beginner something unusual; of the rest, the text that the target finds
most natural is shown. The rule looks at the text and at the draft tokens, never at times.
"""

from __future__ import annotations

from collections import Counter
from math import fsum, log

from specviz.glyphs import read_piece
from specviz.trace import Round, Trace

MIN_DRAFT_PROBABILITY = 0.01  # of a draft token, in the distribution that it was drawn from
MIN_REJECTED_PROBABILITY = 0.05  # of the first round's rejected draft token: its bars are what the picture is about
MIN_DISTANCE = (
    0.1  # of each random number of the first round from what it was compared with: the picture shows on which side it is
)
MAX_FIRST_THRESHOLD = (
    0.95  # of the first check, where u is met first: a draft token that is always accepted would not show what u is for
)
TOKENS_PER_PASS = (2.0, 3.0)
UNIQUE_NGRAM = 2  # tokens in a row that may stand in prompt and text only once: what is likeliest by far is what was said before
MAX_TOKEN_COUNT = 2  # times that a token may stand in the text


def explain_unsuitable_start(first: Round) -> str:
    """Why a run with this first round is not one to open with; empty if it may be. The round must have draft tokens."""
    verdicts = [decision.accepted for decision in first.proposals]
    if True not in verdicts or False not in verdicts or first.ending.kind != "residual":
        return "its first round does not have an accepted and a rejected draft token"
    start = first.proposals[0]
    if not start.accepted or start.threshold is None or start.threshold > MAX_FIRST_THRESHOLD:
        return f"its first draft token is not accepted with a probability of at most {MAX_FIRST_THRESHOLD:g}"
    if first.proposals[verdicts.index(False)].q < MIN_REJECTED_PROBABILITY:
        return f"the rejected draft token of its first round has a probability below {MIN_REJECTED_PROBABILITY:g}"
    checked = [(decision.u, decision.threshold) for decision in first.proposals if decision.accepted is not None]
    compared = [(u, threshold) for u, threshold in checked if u is not None and threshold is not None]
    if not any(u < threshold <= 1.0 - MIN_DISTANCE for u, threshold in compared):
        return f"its first round accepts no draft token with a probability of at most {1.0 - MIN_DISTANCE:g}"
    if min(abs(u - threshold) for u, threshold in compared) < MIN_DISTANCE:
        return f"a random number of its first round is nearer than {MIN_DISTANCE:g} to what it was compared with"
    return ""


def explain_unsuitable(trace: Trace) -> str:
    """Why a run is not one to open with; empty if it is. It must have rounds with draft tokens."""
    low, high = TOKENS_PER_PASS
    first = trace.rounds[0]
    if why := explain_unsuitable_start(first):
        return why
    if not all(is_word(trace, token) for token in (*(decision.token for decision in first.proposals), first.ending.token)):
        return "a token of its first round is not a word"
    if not any(one.ending.kind == "bonus" for one in trace.rounds):
        return "no round ends with a bonus token"
    if not low <= len(trace.output_ids) / len(trace.rounds) <= high:
        return f"its tokens per pass are not within {low:g} and {high:g}"
    if min(decision.q for one in trace.rounds for decision in one.proposals) < MIN_DRAFT_PROBABILITY:
        return f"a draft token has a probability below {MIN_DRAFT_PROBABILITY:g}"
    ids = (*trace.prompt_ids, *trace.output_ids)
    runs = [ids[i : i + UNIQUE_NGRAM] for i in range(len(ids) - UNIQUE_NGRAM + 1)]
    if len(set(runs)) < len(runs):
        return f"{UNIQUE_NGRAM} tokens in a row stand in it twice"
    if max(Counter(trace.output_ids).values()) > MAX_TOKEN_COUNT:
        return f"a token stands in it more than {MAX_TOKEN_COUNT} times"
    return ""


def is_word(trace: Trace, token: int | None) -> bool:
    """Whether a token is a space and letters, which is read more easily from afar than a comma or a part of a word."""
    return token is not None and (piece := read_piece(trace.pieces, token)).startswith(b" ") and piece[1:].isalpha()


def compute_fluency(trace: Trace) -> float:
    """Mean log probability that the target gave to the tokens of the text, nats; at most 0. The trace must hold its distributions."""
    found: list[float] = []
    for one in trace.rounds:
        found += [one.proposals[i].p for i in one.accepted_path]
        if one.ending.token is not None:
            place = max((i for i, decision in enumerate(one.proposals) if decision.accepted is False), default=-1)
            probs = one.distributions[place if one.ending.kind == "residual" else -1]
            found.append(probs.p[probs.tokens.index(one.ending.token)])
    return fsum(map(log, found)) / len(found)
