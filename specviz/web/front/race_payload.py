"""JSON of the race: two texts that grow, round by round, with the measured time of each round."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Mapping
from typing import Any

from specviz.glyphs import is_special, read_piece
from specviz.speed.records.passage import LANES, SPECULATIVE, Lane, Passage, label_origins
from specviz.trace import Round
from specviz.web.front.words import describe_average, describe_origin, describe_sizes, describe_writer
from specviz.web.whole_text.payload import LASTS, PACES, list_parts

TOKENS = 128  # of each text: all of the recorded ones, so that their speed is that of Whole text
TOKENS_MIN = 16  # of each text, from which on their speeds are compared


def build_race_payload(passage: Passage, recorded: bool) -> dict[str, Any]:
    """What the scene draws: both texts up to the round that completes ``TOKENS`` tokens.

    Args:
        passage: A complete passage.
        recorded: Whether it is the recorded one.

    Returns:
        ``lanes``: per way its rounds, each with begin and end in measured seconds, and its seconds by part where they were recorded, its draft tokens (``t``: text, ``is``: accepted,
        rejected or unchecked) and the tokens that it wrote (``t``, ``is``: their origin); ``factor``: how many times slower than
        measured the clocks run, as on Whole text; ``gain``: tokens a second with a draft over those of the target alone, None where a text ended
        before ``TOKENS_MIN`` tokens; ``average``: the speed that every page names first and how it is known, None where the texts are a visitor's; ``sizes``: of the model or models of each way, in words; ``writer``: the model and where it ran.
    """
    lanes = {key: _build_lane(getattr(passage, key), key) for key in LANES}
    counts = {key: sum(len(one["tokens"]) for one in lanes[key]["rounds"]) for key in LANES}
    alone, drafted = (lanes[key]["seconds"] for key in LANES)
    longest = max(alone, drafted)
    return {
        "id": f"{passage.settings.to_query()} {passage.date if recorded else alone}",
        "prompt": passage.settings.prompt,
        "lanes": list(lanes.values()),
        "factor": next((pace for pace in PACES if pace * longest >= LASTS), PACES[-1]),
        "gain": _compare_speeds(*((counts[key], lanes[key]["seconds"]) for key in LANES)),
        "average": describe_average(passage) if recorded else None,
        "sizes": describe_sizes(passage),
        "writer": describe_writer(passage),
        "origin": describe_origin(passage, recorded),
    }


def _compare_speeds(alone: tuple[int, float], drafted: tuple[int, float]) -> float | None:
    """The second way's tokens a second over the first's; each way by its tokens, and its seconds or passes."""
    if min(alone[0], drafted[0]) < TOKENS_MIN or not alone[1] or not drafted[1]:
        return None
    return (drafted[0] / drafted[1]) / (alone[0] / alone[1])


def _build_lane(lane: Lane, key: str) -> dict[str, Any]:
    rounds: list[dict[str, Any]] = []
    decoder = codecs.getincrementaldecoder("utf-8")("replace")  # a character may be spread over several tokens
    begin, left = 0.0, TOKENS
    for round_, end, parts in zip(lane.trace.rounds, lane.clock, list_parts(lane), strict=True):
        written = [
            {"t": _read_text(lane.trace.pieces, token, decoder), "is": origin} for token, origin in label_origins(round_)[:left]
        ]
        drafts = list(_build_drafts(lane.trace.pieces, round_)) if key == SPECULATIVE else []
        rounds.append({"begin": begin, "end": end, "drafts": drafts, "tokens": written, **parts})
        begin, left = end, left - len(written)
        if left <= 0:
            break
    return {"key": key, "seconds": begin, "rounds": rounds}


def _build_drafts(pieces: Mapping[int, str], round_: Round) -> Iterator[dict[str, str]]:
    """Draft tokens of a round in order, and what became of each."""
    for one in round_.proposals:
        verdict = {True: "accepted", False: "rejected", None: "unchecked"}[one.accepted]
        yield {"t": _read_text(pieces, one.token, codecs.getincrementaldecoder("utf-8")("replace")), "is": verdict}


def _read_text(pieces: Mapping[int, str], token: int, decoder: codecs.IncrementalDecoder) -> str:
    """Text of a token; empty for a special one, and for bytes that are no whole character yet."""
    raw = read_piece(pieces, token)
    return "" if is_special(raw) else decoder.decode(raw)
