"""The distributions of a round as the stage draws them: the largest bars, the one that is drafted, the one that is drawn, and the rest."""

from __future__ import annotations

from typing import Any

from specviz.figures.common.glyphs import glyphs, name, piece
from specviz.figures.common.narration import ordinal, rejected_at
from specviz.trace import Decision, Distribution, Round, Trace

BARS = {"wide": 8, "narrow": 5}  # bars beside the rest bar, on a wide and on a narrow page


def drawn_distribution(trace: Trace, round_: Round, index: int) -> dict[str, Any]:
    """The recorded distribution with this number in its round, as bars for a wide and for a narrow page."""
    probs, last = round_.distributions[index], index == len(round_.proposals)
    drawn = round_.ending.token if last or index == rejected_at(round_) else None
    drafted = None if last else round_.proposals[index].token
    must = {token for token in (drafted, drawn) if token in probs.tokens}
    views = {size: _view(trace, probs, count, must, drafted, drawn) for size, count in BARS.items()}
    left = None if probs.residual is None else sum(probs.residual) + probs.rest["residual"]
    place = "after the whole block" if index else "the next token"
    if drafted is not None:
        place = f"{ordinal(index)} draft token: {name(piece(trace.pieces, drafted), drafted)}"
    return {"place": place, "beta": probs.beta, "left": left, "views": views}


def _view(trace: Trace, probs: Distribution, count: int, must: set[int], drafted: int | None, drawn: int | None) -> list[dict]:
    """The bars to draw, largest first, the rest bar last. Sums of a rest are taken over its own tokens, one by one."""
    free = [token for token in probs.tokens if token not in must][: max(0, count - len(must))]
    shown = [token for token in probs.tokens if token in must or token in free]
    left = None if probs.residual is None else (sum(probs.residual) + probs.rest["residual"]) or None
    bars = []
    for token in shown:
        i, raw = probs.tokens.index(token), piece(trace.pieces, token)
        numbers = {key: None if (row := getattr(probs, key)) is None else row[i] for key in ("p", "q", "overlap", "residual")}
        numbers = {key: _short(value) for key, value in numbers.items()}
        marks = {"drafted": token == drafted, "drawn": token == drawn}
        bars.append({"glyphs": glyphs(raw, token), **numbers, **marks, "end": _share(numbers, left)})
    hidden = [i for i, token in enumerate(probs.tokens) if token not in shown]
    rest = {key: total + sum(getattr(probs, key)[i] for i in hidden) for key, total in probs.rest.items()}
    numbers = {key: _short(rest.get(key)) for key in ("p", "q", "overlap", "residual")}
    return [*bars, {"glyphs": None, **numbers, "drafted": False, "drawn": False, "end": _share(numbers, left)}]


def _share(numbers: dict[str, float | None], left: float | None) -> float | None:
    """Height of a bar in the distribution that the last draw comes from: of the residual, or, with no draft, of p itself."""
    if numbers["residual"] is None:
        return numbers["p"]
    return None if left is None else _short(numbers["residual"] / left)


def _short(x: float | None) -> float | None:
    """Heights of bars with seven digits: a fiftieth of a pixel on any screen, and half the bytes."""
    return None if x is None else round(x, 7)


def bare_distribution(trace: Trace, decision: Decision) -> dict[str, Any]:
    """What is known of a distribution that was not recorded: the draft token's own two bars."""
    raw = piece(trace.pieces, decision.token)
    bar = {"glyphs": glyphs(raw, decision.token), "p": decision.p, "q": decision.q, "overlap": None, "residual": None}
    bar |= {"drafted": True, "drawn": False, "end": None}
    return {
        "place": f"draft token: {name(raw, decision.token)}",
        "beta": None,
        "left": None,
        "views": {size: [bar] for size in BARS},
    }
