"""What the decoder does for a room: samples of several students in one batch, races, a situation to predict, a decoder to vote on.

Pure functions of (pair, arguments, on_progress), so they may run in any process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from specviz.decoding.run import record_run
from specviz.decoding.samples import Samples
from specviz.errors import SpecvizError
from specviz.evidence.decoder import SHARED, build_decoder
from specviz.evidence.sampling.sampling_plan import INTERIM
from specviz.evidence.sampling.session import Session
from specviz.glyphs import format_token
from specviz.models.pairs.loading import LoadedPair
from specviz.progress import ProgressCallback
from specviz.settings import Settings
from specviz.trace import Round
from specviz.web.classroom.room.records import SAMPLES_PER_STUDENT

RACE_LENGTH = 24  # tokens of a text in a race
SITUATION_ROUNDS = 60  # rounds that are searched for situations
MIN_DRAFT_PROBABILITY = 0.01  # q of a draft token that a class predicts
MAX_CHARACTERS = 400  # shown of the text before it, the last ones
MAX_FIRST_CHANCE = 0.9  # min(1, p/q) in the first situation: a token that is always accepted is no question
BARS = 5  # tokens of a distribution beside the draft token
VOTE_SAMPLES = 10_000  # of the decoder that a class votes on


def draw_samples(
    pair: LoadedPair,
    settings: Settings,
    ids: tuple[int, ...],
    blocks: Sequence[tuple[int, int]],
    walks: Sequence[int],
    on_progress: ProgressCallback,
) -> tuple[Samples | None, list[list[dict[str, Any]]]]:
    """Samples of several blocks in one batch, None of none, and the rounds of each sample in ``walks``, JSON-ready.

    Args:
        pair: Loaded models.
        settings: Of the task.
        ids: Tokens of the prompt.
        blocks: (first, count) each, by the numbers of the task's seed.
        walks: Numbers of samples.
        on_progress: Called with the share that is done.
    """
    session = Session(build_decoder("speculative", pair, settings, ids), INTERIM)
    n = sum(count for _, count in blocks)
    samples = session.draw_exactly(SHARED, n, on_progress, blocks) if blocks else None
    walked = session.decoder.decode_rounds(walks) if walks else []
    return samples, [[_dump_round(pair, round_) for round_ in rounds] for rounds in walked]


def run_race(
    pair: LoadedPair,
    settings: Settings,
    ids: tuple[int, ...],
    entries: Sequence[tuple[int, str, int]],
    on_progress: ProgressCallback,
) -> dict[int, dict[str, Any]]:
    """Tokens, passes, draft tokens and accepted ones of each student's choice: {student: counts}.

    ``entries`` are (student, drafting method, gamma). Each student's text has random numbers of its own.
    """
    results: dict[int, dict[str, Any]] = {}
    choices = sorted({(method, gamma) for _, method, gamma in entries})
    for done, (method, gamma) in enumerate(choices):
        students = [student for student, *choice in entries if tuple(choice) == (method, gamma)]
        chosen = replace(settings, proposer=method, gamma=gamma, max_new_tokens=RACE_LENGTH)
        try:
            numbers = [student * SAMPLES_PER_STUDENT for student in students]
            texts = build_decoder("speculative", pair, chosen, ids).decode_rounds(numbers)
        except SpecvizError as error:  # a pair need not have every method
            nothing = {"tokens": 0, "passes": 0, "drafted": 0, "accepted": 0, "reason": str(error)}
            results |= dict.fromkeys(students, nothing)
            continue
        for student, rounds in zip(students, texts, strict=True):
            results[student] = {
                "tokens": sum(len(round_.committed) for round_ in rounds),
                "passes": len(rounds),
                "drafted": sum(len(round_.proposals) for round_ in rounds),
                "accepted": sum(len(round_.accepted_path) for round_ in rounds),
            }
        on_progress((done + 1) / len(choices))
    return results


def find_situation(pair: LoadedPair, settings: Settings, number: int, on_progress: ProgressCallback) -> dict[str, Any]:
    """Situation ``number``, from 0: the text so far, both distributions, the draft token, and min(1, p/q).

    Situations are the first draft tokens of the rounds of one text, except those with q below MIN_DRAFT_PROBABILITY. They are counted
    from the first one that may well be rejected, and from the start again where the text has fewer.
    """
    trace = record_run(pair, replace(settings, max_new_tokens=SITUATION_ROUNDS), SITUATION_ROUNDS, bars=BARS)
    likely = [one for one in trace.rounds if one.proposals and one.proposals[0].q >= MIN_DRAFT_PROBABILITY]
    rounds = likely or list(trace.rounds)
    uncertain = (
        place for place, one in enumerate(rounds) if one.proposals and (one.proposals[0].threshold or 0.0) <= MAX_FIRST_CHANCE
    )
    chosen = rounds[(next(uncertain, 0) + number) % len(rounds)]
    before = [token for one in islice(trace.rounds, trace.rounds.index(chosen)) for token in one.committed]
    first, distribution = chosen.proposals[0], chosen.distributions[0]
    q = distribution.q or (0.0,) * len(distribution.tokens)
    return {
        "text": (settings.prompt + pair.decode(before))[-MAX_CHARACTERS:],
        "token": _format_token(pair, first.token), "p": first.p, "q": first.q, "chance": first.threshold,
        "bars": [
            {"token": _format_token(pair, token), "p": a, "q": b}
            for token, a, b in zip(distribution.tokens, distribution.p, q, strict=True)
        ],
    }  # fmt: skip


def draw_for_vote(
    pair: LoadedPair, settings: Settings, mistake: str | None, ids: tuple[int, ...], on_progress: ProgressCallback
) -> Samples:
    """VOTE_SAMPLES samples of a decoder with a known mistake, or without one: what a class votes on."""
    session = Session(build_decoder(mistake or "speculative", pair, settings, ids))
    return session.draw_exactly(SHARED, VOTE_SAMPLES, on_progress)


def _dump_round(pair: LoadedPair, round_: Round) -> dict[str, Any]:
    end = round_.ending
    return {
        "drafts": [
            {"token": _format_token(pair, one.token), "p": one.p, "q": one.q, "u": one.u, "chance": one.threshold, "accepted": one.accepted}
            for one in round_.proposals
        ],
        "ending": {"kind": end.kind, "token": "" if end.token is None else _format_token(pair, end.token)},
        "committed": [_format_token(pair, token) for token in round_.committed],
    }  # fmt: skip


def _format_token(pair: LoadedPair, token: int) -> str:
    return format_token({int(key): raw for key, raw in pair.read_pieces({token}).items()}, token)
