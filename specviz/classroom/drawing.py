"""What the decoder does for a room: samples of several students in one batch, the rounds of single ones, races, a situation to predict.

Pure functions of (pair, arguments, watch), so they may be called in any process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from specviz.classroom.records import SPAN
from specviz.decoding.run import record_run
from specviz.decoding.samples import Samples
from specviz.errors import SpecvizError
from specviz.evidence.decoder import SHARED, build_decoder
from specviz.glyphs import build_glyphs, read_piece
from specviz.models.pairs.loading import LoadedPair
from specviz.progress import ProgressCallback
from specviz.settings import Settings
from specviz.trace import Decision, Distribution, Round

RACE_LENGTH = 24  # tokens of a text in a race
SITUATIONS = 60  # rounds that are looked through for situations
LEAST = 0.01  # probability under the draft of a draft token that a class is asked about
TEXT = 400  # characters of it that are shown, the last ones
OPEN = 0.9  # most that min(1, p/q) is in the first situation: a token that is always accepted asks for nothing
BARS = 5  # tokens of a distribution that are shown beside the draft token
OWN = 10_000  # samples of the decoder that a class votes on

NOTHING = {"tokens": 0, "passes": 0, "drafted": 0, "accepted": 0}

Shown = dict[str, Any]


def samples(
    pair: LoadedPair,
    settings: Settings,
    ids: tuple[int, ...],
    asked: Sequence[tuple[int, int]],
    walks: Sequence[int],
    on_progress: ProgressCallback,
) -> tuple[Samples | None, list[list[Shown]]]:
    """Samples of several blocks in one batch, None of none, and the rounds of single ones: (Samples, [rounds of each in ``walks``]).

    asked  (first, count) each, by the numbers of the task's seed; walks  numbers of samples
    """
    decoder = build_decoder("speculative", pair, settings, ids)
    drawn = decoder.sample_blocks(asked, on_progress) if asked else None
    texts = decoder.decode_rounds(walks) if walks else []
    return drawn, [[_shown(pair, one) for one in rounds] for rounds in texts]


def raced(
    pair: LoadedPair,
    settings: Settings,
    ids: tuple[int, ...],
    asked: Sequence[tuple[int, str, int]],
    on_progress: ProgressCallback,
) -> dict[int, dict[str, Any]]:
    """What each student's choice gave: {student: tokens, passes, draft tokens and how many of them were accepted}.

    asked  (student, drafting method, gamma) each. A student's text has random numbers of its own.
    """
    found: dict[int, dict[str, Any]] = {}
    choices = sorted({(method, gamma) for _, method, gamma in asked})
    for done, (method, gamma) in enumerate(choices):
        students = [student for student, *choice in asked if tuple(choice) == (method, gamma)]
        under = replace(settings, proposer=method, gamma=gamma, max_new_tokens=RACE_LENGTH)
        try:
            texts = build_decoder("speculative", pair, under, ids).decode_rounds([one * SPAN for one in students])
        except SpecvizError as error:  # a pair need not have every method
            found |= {one: NOTHING | {"reason": str(error)} for one in students}
            continue
        for student, rounds in zip(students, texts, strict=True):
            found[student] = {
                "tokens": sum(len(round_.committed) for round_ in rounds),
                "passes": len(rounds),
                "drafted": sum(len(round_.proposals) for round_ in rounds),
                "accepted": sum(len(round_.accepted_path) for round_ in rounds),
            }
        on_progress((done + 1) / len(choices))
    return found


def situation(pair: LoadedPair, settings: Settings, number: int, on_progress: ProgressCallback) -> dict[str, Any]:
    """Situation ``number``, from 0: the text so far, both distributions, the draft token, and min(1, p/q).

    The first draft token of each round of one text, in order, except those with q below LEAST. Counted from the first one that may well be
    rejected, and from the start again where the text has fewer.
    """
    longer = replace(settings, max_new_tokens=SITUATIONS)
    trace = record_run(pair, longer, SITUATIONS, bars=BARS)
    rounds = [one for one in trace.rounds if one.proposals and one.proposals[0].q >= LEAST] or list(trace.rounds)
    real = next((place for place, one in enumerate(rounds) if one.proposals and one.proposals[0].threshold <= OPEN), 0)
    chosen = rounds[(real + number) % len(rounds)]
    before = [token for one in islice(trace.rounds, trace.rounds.index(chosen)) for token in one.committed]
    first, bars = chosen.proposals[0], chosen.distributions[0]
    return {
        "text": (settings.prompt + pair.decode(before))[-TEXT:],
        "token": _text(pair, first.token), "p": first.p, "q": first.q, "chance": first.threshold,
        "bars": _bars(pair, bars),
    }  # fmt: skip


def voted_on(
    pair: LoadedPair, settings: Settings, mistake: str | None, ids: tuple[int, ...], on_progress: ProgressCallback
) -> Samples:
    """OWN samples of a decoder with a mistake, or without one: what a class votes on."""
    return build_decoder(mistake or "speculative", pair, settings, ids).sample(SHARED, 0, OWN, on_progress)


def _shown(pair: LoadedPair, one: Round) -> Shown:
    ending = None if one.ending.token is None else {"kind": one.ending.kind, "token": _text(pair, one.ending.token)}
    return {"drafts": [_decision(pair, decision) for decision in one.proposals], "ending": ending or {"kind": one.ending.kind, "token": ""},
            "committed": [_text(pair, token) for token in one.committed]}  # fmt: skip


def _decision(pair: LoadedPair, one: Decision) -> Shown:
    return {
        "token": _text(pair, one.token),
        "p": one.p,
        "q": one.q,
        "u": one.u,
        "chance": one.threshold,
        "accepted": one.accepted,
    }


def _bars(pair: LoadedPair, one: Distribution) -> list[Shown]:
    """The largest bars, heaviest first; the draft token is among them."""
    q = one.q or (0.0,) * len(one.tokens)
    return [{"token": _text(pair, token), "p": a, "q": b} for token, a, b in zip(one.tokens, one.p, q, strict=True)]


def _text(pair: LoadedPair, token: int) -> str:
    """A token with its spaces shown."""
    pieces = {int(key): raw for key, raw in pair.pieces({token}).items()}
    return "".join(glyph["t"] for glyph in build_glyphs(read_piece(pieces, token), token))
