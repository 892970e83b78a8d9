"""What Whole text draws: the payloads of its component, and the rows of its tables."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile
from typing import Any
from urllib.parse import urlencode

from specviz.figures.pages_and_glossary import PAGES
from specviz.glyphs import (
    build_glyphs,
    decode_whole,
    find_unfinished,
    format_token,
    group_characters,
    is_special,
    name_token,
    read_piece,
)
from specviz.settings import Settings
from specviz.speed.records.divergence_profile import ScoredText
from specviz.speed.records.passage import (
    LANES,
    SPECULATIVE,
    TARGET_ONLY,
    WRITTEN,
    Lane,
    Passage,
    WrittenToken,
)
from specviz.trace import Round, Trace
from specviz.web.one_round.payload import write_cursor
from specviz.web.one_round.words import build_steps, find_replaced
from specviz.web.whole_text import words
from specviz.web.whole_text.figures import MARKED

HERE = "./"  # the app that shows this page
LASTS = 7.0  # seconds that a replay should take
LEAST_BAR = 0.005  # smaller probabilities of a divergence are added up
PACES = (1, 2, 5, 10, 20, 50, 100)  # how many times slower than the decoding a replay may run


def build_lanes_payload(passage: Passage, done: bool = True, app: str | None = HERE, average: str = "") -> dict[str, Any]:
    """Payload of the component.

    Args:
        passage: As far as it is written.
        done: Whether it is complete.
        app: Address of the app, whose page One round opens a round; None: no round can be opened.
        average: The benchmark's speed of the same pair, which a recorded text is set beside; empty: none.

    Returns:
        ``lanes``: per way what it is called (``title``) and what its ``text`` is, its tokens, each with glyphs, origin (``is``), round and time, and its rounds, each with its ``count`` of tokens, the
        draft tokens that were not kept (``dropped``), and its seconds by part where they were recorded; ``drafted``: draft tokens of a round; ``makes``: the character of this
        token's bytes together with those of the tokens from number ``since`` on; ``hint``: what a click on its tokens does, empty for nothing.
        ``ask``: a question for an audience. ``answer``: speed and passes in words. ``end``: seconds at the right end of both tracks. ``pace``: how
        many times slower than the decoding a replay runs.
    """
    end = max(_compute_end(passage, getattr(passage, lane), done) for lane in LANES)
    return {
        "id": f"{passage.settings.to_query()}",
        "done": done,
        "prompt": passage.settings.prompt,
        "lanes": [_build_lane(passage, key, app) for key in LANES],
        "origins": words.SAID,
        "legend": _build_legend(passage),
        "drafted": passage.settings.gamma,
        "answer": words.build_answer(passage, average),
        "ask": PAGES["whole_text"].ask,
        "end": end,
        "pace": next((pace for pace in PACES if pace * end >= LASTS), PACES[-1]),
    }


def _compute_end(passage: Passage, lane: Lane, done: bool) -> float:
    """Seconds that a lane takes; while it is being written, what it will take at its speed so far."""
    tokens = len(lane.trace.output_ids)
    return lane.seconds * passage.settings.max_new_tokens / tokens if tokens and not done else lane.seconds


def _build_lane(passage: Passage, key: str, app: str | None) -> dict[str, Any]:
    lane = getattr(passage, key)
    pieces = {**passage.target.trace.pieces, **lane.trace.pieces}
    divergences = list_divergent_words(passage.read) if key == TARGET_ONLY and passage.read else []
    made = _find_joint_characters(lane)
    tokens = [
        _build_token(pieces, token) | {"divergence": n in divergences, **made.get(n, {"makes": ""})}
        for n, token in enumerate(lane.tokens)
    ]
    rounds = [
        {
            "at": at,
            "count": len(round_.committed),
            "dropped": len(round_.proposals) - len(round_.accepted_path),
            **parts,
        }
        for at, round_, parts in zip(lane.clock, lane.trace.rounds, list_parts(lane), strict=True)
    ]
    hint = words.HINTS[TARGET_ONLY] if divergences else ""
    if key == SPECULATIVE and app is not None:
        hint = words.HINTS[SPECULATIVE]
        links = [
            link_round(passage.settings, n, app, step)
            for n, round_ in enumerate(lane.trace.rounds)
            for step in _find_deciding_steps(lane.trace, round_)
        ]
        tokens = [row | {"href": href} for row, href in zip(tokens, links, strict=True)]
    return {
        "key": key,
        "title": words.TITLES[key],
        "text": words.TEXT_TITLES[key],
        "tokens": tokens,
        "rounds": rounds,
        "seconds": lane.seconds,
        "hint": hint,
    }


def list_parts(lane: Lane) -> list[dict[str, float]]:
    """Seconds of each round by part, ``drafting`` and ``passing``; empty where they were not recorded."""
    return [{"drafting": one.draft, "passing": one.target} for one in lane.times] or [{} for _ in lane.clock]


def _find_deciding_steps(trace: Trace, round_: Round) -> list[int]:
    """For each committed token the step of One round that decides it.

    That is its check, for a replacement the check of the rejected draft token, for a bonus token its draw.
    """
    told = {(one.kind, one.node): n for n, one in enumerate(build_steps(trace, round_))}
    checks = [told["uniform", node] for node in round_.accepted_path]
    if round_.ending.token is None:
        return checks
    rejected = find_replaced(round_)
    return [*checks, told["bonus", None] if rejected is None else told["uniform", rejected]]


def _build_legend(passage: Passage) -> list[str]:
    """Each origin that tokens of the second text have and those of the first have not."""
    return [key for key in words.SAID if key in passage.speculative.counts and key != WRITTEN]


def _build_token(pieces: Mapping[int, str], written: WrittenToken) -> dict[str, Any]:
    """A token in running text: a space before it stands outside its box, a line break behind it breaks the line."""
    raw = read_piece(pieces, written.token)
    lead = raw.startswith(b" ") and bool(raw.strip())
    shown = build_glyphs(raw[1:] if lead else raw, written.token)
    breaks = raw.count(b"\n") if raw and not is_special(raw) else 0
    return {"glyphs": shown, "lead": lead, "breaks": breaks, "is": written.origin, "round": written.round, "at": written.at,
            "name": name_token(raw, written.token)}  # fmt: skip


def _find_joint_characters(lane: Lane) -> dict[int, dict[str, Any]]:
    """Last token of each run of tokens that are no whole character alone -> what they make together, and the first of them."""
    trace = lane.trace
    tail = b"" if trace.encoder_ids else find_unfinished(b"".join(read_piece(trace.pieces, token) for token in trace.prompt_ids))
    runs = group_characters(tail, [read_piece(trace.pieces, token) for token in trace.output_ids])
    return {run["last"]: {"makes": run["text"], "since": run["first"]} for run in runs if run["first"] != run["last"]}


def link_round(settings: Settings, round_: int, app: str = HERE, step: int = 0) -> str:
    """Address of the page One round, relative to this page's unless the app is elsewhere, at a step of a round (both from 0) of this run."""
    return f"{app}one_round?" + urlencode(settings.to_query() | {"prompt": settings.prompt, "at": write_cursor(round_, step)})


def list_divergent_words(scored_text: ScoredText) -> list[int]:
    """The places where the models differ most, the largest difference first, of those at which all that is named is whole words.

    That is the token of the text, and the likeliest token of each model: a part of a word says little to a reader. In a text without such
    a place every place counts.
    """
    places = scored_text.divergence_places
    words = [place for place in places if _is_whole_word(scored_text, place) and _favor_words(scored_text, place)]
    return list(words or places)[:MARKED]


def _favor_words(scored_text: ScoredText, place: int) -> bool:
    """Whether each model's likeliest token begins with a space or is a sign: none goes on with a word."""
    probs = scored_text.divergences[place]
    likeliest = (max(zip(row, probs.tokens, strict=True))[1] for row in (probs.p, probs.q or probs.p))
    return not any(decode_whole(read_piece(scored_text.pieces, token))[:1].isalpha() for token in likeliest)


def _is_whole_word(scored_text: ScoredText, place: int) -> bool:
    """Whether the token is letters alone, begins a word, and the next token does not go on with a letter."""
    if place + 1 == len(scored_text.tokens):
        return False  # it may go on
    near = scored_text.tokens[max(0, place - 1) : place + 2]
    *before, own, after = (decode_whole(read_piece(scored_text.pieces, token)) for token in near)
    begins = own.startswith(" ") or (bool(before) and not before[0][-1:].isalpha())
    return begins and own.lstrip(" ").isalpha() and not after[:1].isalpha()


def build_divergences_payload(passage: Passage) -> dict[str, Any] | None:
    """The places where the models differ most, the largest difference first, with both distributions; None where nothing was read."""
    read = passage.read
    if read is None or not read.divergences:
        return None
    given = [read_piece(passage.target.trace.pieces, token) for token in passage.target.trace.prompt_ids]
    before = b"".join(raw for raw in given if not is_special(raw))
    raws = [read_piece(read.pieces, token) for token in read.tokens]
    rows = [
        _build_divergence(read, place) | _split_around(before + b"".join(raws[:place]), raws[place], b"".join(raws[place + 1 :]))
        for place in list_divergent_words(read)
    ]
    return {"id": f"{passage.settings.to_query()}", "divergences": rows}


def _build_divergence(scored_text: ScoredText, place: int) -> dict[str, Any]:
    probs, raw = scored_text.divergences[place], read_piece(scored_text.pieces, scored_text.tokens[place])
    rest, bars = {key: probs.rest[key] for key in ("p", "q")}, []
    raws = [read_piece(scored_text.pieces, token) for token in probs.tokens]
    bare = [one.lstrip(b" ") or one for one in raws]
    names = bare if len(set(bare)) == len(bare) else raws  # a space before a word is shown only where a row needs it
    for token, name, p, q in zip(probs.tokens, names, probs.p, probs.q or probs.p, strict=True):
        mine = token == scored_text.tokens[place]
        if max(p, q) >= LEAST_BAR or mine:
            bars.append({"glyphs": build_glyphs(name, token), "p": p, "q": q, "mine": mine})
        else:
            rest = {"p": rest["p"] + p, "q": rest["q"] + q}
    return {
        "place": place,
        "glyphs": build_glyphs(raw.lstrip(b" ") or raw, scored_text.tokens[place]),
        "rejected": 1.0 - scored_text.beta[place],
        "bars": bars,
        "rest": rest,
        "sentence": words.describe_divergence(scored_text, place),
    }


def _split_around(before: bytes, token: bytes, after: bytes) -> dict[str, str]:
    """The text before a token's word, and the letters of that word before (``start``) and behind (``end``) the token."""
    text, own, rest = decode_whole(before), decode_whole(token), decode_whole(after)
    start = "".join(takewhile(str.isalpha, reversed(text)))[::-1] if own[:1].isalpha() else ""
    end = "".join(takewhile(str.isalpha, rest)) if own[-1:].isalpha() else ""
    return {"before": _cut_to_end(text.removesuffix(start)), "start": start, "end": end}


def _cut_to_end(text: str, most: int = 44) -> str:
    """The last words of a text, in one line."""
    flat = " ".join(text.split())
    return flat if len(flat) <= most else "… " + flat[-most:].split(" ", 1)[-1]


def build_token_rows(passage: Passage) -> list[dict[str, object]]:
    """Every token of both lanes as a row."""
    rows = []
    for key in LANES:
        lane = getattr(passage, key)
        for place, token in enumerate(lane.tokens):
            shown = format_token(lane.trace.pieces, token.token)
            rows.append({"way": words.TITLES[key], "token": place + 1, "text": shown, "origin": words.SAID[token.origin], "round": token.round + 1,
                         "seconds": round(token.at, 4)})  # fmt: skip
    return rows


def build_position_rows(passage: Passage) -> list[dict[str, object]]:
    """Every token of the target's text with what both models gave it."""
    read: ScoredText | None = passage.read
    if read is None:
        return []
    return [
        {"token": place + 1, "text": format_token(read.pieces, token), "kind": read.kinds[place],
         "p": round(read.p[place], 6), "q": round(read.q[place], 6), "overlap": round(read.beta[place], 6)}
        for place, token in enumerate(read.tokens)
    ]  # fmt: skip
