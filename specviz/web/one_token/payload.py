"""JSON of the page Why it is exact: presets and recorded distributions over the next token.

The browser computes the results of a dragged distribution (assets/components/one_token/). One table of cases keeps its arithmetic
equal to Python's (tests/helpers/token_cases.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from specviz.figures.pages_and_glossary import MARKED_TERMS
from specviz.glyphs import build_glyphs, decode_whole, is_special, name_token, read_piece
from specviz.records import load_toml
from specviz.trace import Distribution, Round, Trace

GRID = 10_000  # distributions that can be dragged are whole ten-thousandths: an address holds them to the last digit
MIN_TOKENS, MAX_TOKENS = 5, 8  # of a distribution that can be dragged
BARS = 7  # of a recorded distribution, beside its rest
TAIL = 26  # characters of the text before a position


@dataclass(frozen=True, slots=True)
class Preset:
    """A pair of distributions to begin with, in ten-thousandths, and what to look at."""

    title: str
    p: list[int]
    q: list[int]
    about: str


TEXTS = load_toml("texts/one_token")
PRESETS = {key: Preset(**table) for key, table in TEXTS["presets"].items()}
FIRST_PRESET = next(iter(PRESETS))


def build_token_payload(trace: Trace | None, shared: bool = True) -> dict[str, Any]:
    """Everything that the component draws: presets, positions of a text, words.

    Args:
        trace: The run whose positions are offered.
        shared: Whether an address can name its positions, which is so for the recorded run only.
    """
    presets = [
        {"id": key, "title": one.title, "p": [n / GRID for n in one.p], "q": [n / GRID for n in one.q], "about": one.about}
        for key, one in PRESETS.items()
    ]
    shown = {key: TEXTS[key] for key in ("words", "texts", "rules")}
    return {"presets": presets, "positions": list_positions(trace), "shared": shared, "meanings": MARKED_TERMS, **shown}


def list_positions(trace: Trace | None) -> list[dict[str, Any]]:
    """Every draft token of a run whose distributions were recorded: id ROUND.TOKEN (both from 1), the text before it, and its bars."""
    if trace is None:
        return []
    positions: list[dict[str, Any]] = []
    raw = b""
    for number, round_ in enumerate(trace.rounds, start=1):
        for node, (decision, probs) in enumerate(zip(round_.proposals, round_.distributions, strict=False)):
            if probs.q is not None and decision.parent == node - 1:
                positions.append(_build_position(trace, round_, node, raw) | {"id": f"{number}.{node + 1}"})
        raw += b"".join(read_piece(trace.pieces, token) for token in round_.committed)
    return positions


def _build_position(trace: Trace, round_: Round, node: int, raw: bytes) -> dict[str, Any]:
    """Text before a draft token, its name and its bars. ``raw``: the bytes that were generated before the round."""
    pieces = [raw, *(read_piece(trace.pieces, one.token) for one in round_.proposals[:node])]
    text = trace.settings.get("prompt", "") + decode_whole(b"".join(part for part in pieces if not is_special(part)))
    text = " ".join(text.split())
    token = round_.proposals[node].token
    return {
        "before": f"…{text[-TAIL:]}" if len(text) > TAIL else text,
        "draft": name_token(read_piece(trace.pieces, token), token),
        "slots": _build_slots(trace, round_.distributions[node], token),
    }


def _build_slots(trace: Trace, probs: Distribution, drafted: int) -> list[dict[str, Any]]:
    """Bars with their recorded overlap and residual, largest first and the draft token among them; the rest of the vocabulary last."""
    must = [drafted] if drafted in probs.tokens else []
    free = [token for token in probs.tokens if token not in must][: BARS - len(must)]
    shown = [i for i, token in enumerate(probs.tokens) if token in must or token in free]
    hidden = [i for i in range(len(probs.tokens)) if i not in shown]
    keys = ("p", "q", "overlap", "residual")
    bars = [
        {"glyphs": build_glyphs(read_piece(trace.pieces, probs.tokens[i]), probs.tokens[i])}
        | {key: getattr(probs, key)[i] for key in keys}
        for i in shown
    ]
    rest = {key: probs.rest[key] + sum(getattr(probs, key)[i] for i in hidden) for key in keys}
    return [*bars, {"glyphs": None} | rest]
