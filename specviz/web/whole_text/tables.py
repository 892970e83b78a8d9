"""A passage as tables: every token of both ways, and every position of the target's text with what both models gave it."""

from __future__ import annotations

from specviz.glyphs import glyphs, piece
from specviz.speed.records.divergence_profile import ScoredText
from specviz.speed.records.passage import LANES, Passage
from specviz.web.whole_text.lanes import SAID, TITLES


def tokens_table(one: Passage) -> list[dict[str, object]]:
    """Every token of both lanes as a row."""
    rows = []
    for key in LANES:
        lane = getattr(one, key)
        for place, token in enumerate(lane.tokens):
            shown = "".join(glyph["t"] for glyph in glyphs(piece(lane.trace.pieces, token.token), token.token))
            rows.append({"way": TITLES[key], "token": place + 1, "text": shown, "origin": SAID[token.origin], "round": token.round + 1,
                         "seconds": round(token.at, 4)})  # fmt: skip
    return rows


def places_table(one: Passage) -> list[dict[str, object]]:
    """Every token of the target's text with what both models gave it."""
    read: ScoredText | None = one.read
    if read is None:
        return []
    return [
        {"token": place + 1, "text": "".join(glyph["t"] for glyph in glyphs(piece(read.pieces, token), token)), "kind": read.kinds[place],
         "p": round(read.p[place], 6), "q": round(read.q[place], 6), "overlap": round(read.beta[place], 6)}
        for place, token in enumerate(read.tokens)
    ]  # fmt: skip
