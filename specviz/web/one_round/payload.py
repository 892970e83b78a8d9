"""A trace as JSON for the component, with every number that JavaScript shows.

JavaScript compares a dragged random number with a threshold of this JSON, and computes no threshold, overlap or residual itself.
"""

from __future__ import annotations

import re
from typing import Any

from specviz.figures.numbers import format_quotient
from specviz.figures.pages_and_glossary import MARKED_TERMS
from specviz.glyphs import build_glyphs, decode_whole, find_unfinished, group_characters, is_special, name_token, read_piece
from specviz.process import BUSY_LOAD
from specviz.settings import read_uniform, update_names
from specviz.speed.records.passage import Lane
from specviz.trace import Decision, Distribution, Round, Trace
from specviz.web.one_round.opening_run import is_start_of
from specviz.web.one_round.words import (
    TEXTS,
    build_steps,
    count_tokens,
    describe_alternatives,
    describe_edits,
    describe_settings,
    describe_times,
    find_replaced,
    list_checked,
    name_pair,
    name_place,
)

BARS = {"wide": 6, "narrow": 4}  # bars beside the rest bar, on a wide and on a narrow page
_CURSOR = re.compile(r"(\d{1,4})\.(\d{1,3})", re.ASCII)


def build_round_payload(trace: Trace, has_next: bool | None = None, load: float = 0.0, at_once: bool = False) -> dict[str, Any]:
    """Rounds of a run, each with its steps, chips and distributions.

    Args:
        trace: The run.
        has_next: Whether a further round can follow; None: unless the text ended or has its length.
        load: Load of the machine per core when the rounds were timed.
        at_once: Whether all rounds were decoded in one go: then only the first pass reads text of before its round.
    """
    edits = dict(read_uniform(text) for text in trace.settings.get("uniforms", ()))
    rounds: list[dict[str, Any]] = []
    before: list[bytes] = []  # the generated tokens before a round
    for index, round_ in enumerate(trace.rounds):
        read = _count_read_tokens(trace, index, at_once)
        built = _build_round(trace, index, before, edits)
        times = describe_times(round_, load > BUSY_LOAD, read)
        rounds.append(built | {"times": times, "parts": list_parts_of_time(round_)})
        before += [read_piece(trace.pieces, token) for token in round_.committed]
    return {
        "id": trace.compute_digest(),
        "pair": name_pair(trace.settings.get("pair", "unnamed")),
        "status": describe_settings(trace),
        "prompt": trace.settings.get("prompt", "") + ("\n" if trace.encoder_ids else ""),  # a decoder's text is no continuation
        "edits": describe_edits(edits, rounds),
        "rounds": rounds,
        "notes": TEXTS["notes"],
        "more": can_continue(trace) if has_next is None else has_next,
    }


def list_parts_of_time(round_: Round) -> list[dict[str, Any]]:
    """The seconds of drafting and of the target pass, for a bar of both; empty where nothing was drafted or a clock is missing."""
    parts = [("drafting", "draft"), ("pass", "target")]
    if not round_.proposals or not all(round_.timing.get(key) for _, key in parts):
        return []
    return [{"name": name, "is": key, "seconds": round_.timing[key]} for name, key in parts]


def _count_read_tokens(trace: Trace, index: int, at_once: bool) -> tuple[int, int] | None:
    """Tokens that the target pass of a round read, and how many of them are the prompt's; None where the trace does not say.

    The first pass reads the prompt as well; each later one reads the last token of the text and the draft tokens.
    """
    drafted, prompt = len(trace.rounds[index].proposals), len(trace.prompt_ids)
    if trace.encoder_ids or (index and not at_once):
        return None
    return (1 + drafted, 0) if index else (prompt + drafted, prompt)


def find_origin(trace: Trace, mode: str, race: Lane | None) -> str:
    """Where a run comes from, with {n} for the number of a round. mode: recorded or live; race: the recorded text of the front page."""
    is_race = (
        mode == "recorded" and race is not None and trace.settings == race.trace.settings and is_start_of(trace.rounds, race)
    )
    return TEXTS["origin"]["race" if is_race else mode]


def select_texts(rule: str) -> dict[str, Any]:
    """The page's own texts; no tour under a rule whose acceptance probability is not min(1, p/q)."""
    texts = {key: TEXTS[key] for key in ("headline", "opening", "mask", "chain")}
    return texts | {"meanings": MARKED_TERMS, "tour": TEXTS["tour"] if rule == "token" else []}


def read_cursor(text: str | None) -> dict[str, int] | None:
    """The link's ``at=ROUND.STEP``, both from 1, as the stage's cursor, both from 0. None where it cannot be read."""
    match = _CURSOR.fullmatch(text or "")
    if not match or "0" in match.groups():
        return None
    return {"round": int(match[1]) - 1, "step": int(match[2]) - 1}


def write_cursor(round_: int, step: int) -> str:
    """The inverse of read_cursor."""
    return f"{round_ + 1}.{step + 1}"


def can_continue(trace: Trace) -> bool:
    """Whether the run could go on."""
    if not trace.rounds:
        return True
    full = len(trace.output_ids) >= update_names(trace.settings).get("max_new_tokens", float("inf"))
    return trace.rounds[-1].ending.kind in ("residual", "bonus") and not full


def _build_round(trace: Trace, index: int, before: list[bytes], edits: dict) -> dict[str, Any]:
    round_, told = trace.rounds[index], build_steps(trace, trace.rounds[index])
    start = round_.prefix_length - len(trace.prompt_ids)
    when = {(step.kind, step.node): at for at, step in enumerate(told)}
    chips = [_build_chip(trace, round_, node, start, when, edits) for node in range(len(round_.proposals))]
    tokens = [decision.token for decision in round_.proposals]
    if round_.ending.kind == "bonus" and round_.ending.token is not None:
        tokens.append(round_.ending.token)  # follows the last draft token, as a replacement does not
    drawn = [build_distribution(trace, round_, i) for i in range(len(round_.distributions))]
    drawn = drawn or [build_unrecorded_distribution(trace, decision) for decision in round_.proposals]
    return {
        "text": decode_whole(b"".join(raw for raw in before if not is_special(raw))),
        "chips": chips,
        "ending": _build_ending(trace, round_, start, told, edits),
        "braces": group_characters(find_unfinished(b"".join(before)), [read_piece(trace.pieces, token) for token in tokens]),
        "steps": [
            {
                "kind": m.kind,
                "node": m.node,
                "probs": _find_distribution(m.kind, m.node, round_),
                "sentence": m.sentence,
                "label": m.label,
                "note": m.note,
            }
            for m in told
        ],
        "distributions": drawn,
        "pass": len(round_.proposals),
        "tally": count_tokens(trace, index),
    }


def _build_chip(trace: Trace, round_: Round, node: int, start: int, when: dict, edits: dict) -> dict[str, Any]:
    decision, position = round_.proposals[node], start + _compute_depth(round_.proposals, node)
    raw = read_piece(trace.pieces, decision.token)
    last = max((at for (kind, _), at in when.items() if kind in ("uniform", "pass")), default=0)
    chip = {
        "glyphs": build_glyphs(raw, decision.token),
        "name": name_token(raw, decision.token),
        "q": _round_digits(decision.q),
        "p": _round_digits(decision.p),
        "u": decision.u,
        "threshold": decision.threshold,
        "chance": _compute_acceptance_probability(trace, decision),
        "ratio": _build_ratio(decision),
        "appears": when[("draft", node)],
        "decided": when.get(("uniform", node), last),  # one that is not checked goes gray with the last verdict
        "status": _classify_draft_token(round_, node),
        "position": position,
        "edited": (position, "accept") in edits and node in list_checked(round_),
    }
    return chip | _describe_alternatives(trace, decision, chip["name"])


def _compute_acceptance_probability(trace: Trace, decision: Decision) -> float | None:
    """min(1, p/q) of a draft token, checked or not; None under another rule than the token rule, and where p or q is not recorded."""
    if trace.settings.get("rule", "token") != "token" or not decision.q:
        return None
    return _round_digits(min(1.0, decision.p / decision.q))


def _build_ratio(decision: Decision) -> dict[str, str] | None:
    if decision.threshold is None:
        return None
    p, q, rate = format_quotient(decision.p, decision.q, decision.threshold)
    return {"p": p, "q": q, "rate": rate}


def _classify_draft_token(round_: Round, node: int) -> str:
    if node not in list_checked(round_):
        return "unchecked" if round_.proposals[node].accepted is None else "behind"
    return "accepted" if round_.proposals[node].accepted else "rejected"


def _describe_alternatives(trace: Trace, decision: Decision, word: str) -> dict[str, Any]:
    """What happens on either side of the threshold when a person moves u; None where no u can bring it about."""
    if decision.threshold is None:
        return {"ifAccepted": None, "ifRejected": None, "standIn": None}
    token = decision.replacement_if_rejected
    other = None if token is None else (read_piece(trace.pieces, token), token)
    if_accepted, if_rejected = describe_alternatives(word, decision.threshold, other and name_token(*other))
    return {"ifAccepted": if_accepted, "ifRejected": if_rejected, "standIn": other and build_glyphs(*other)}


def _build_ending(trace: Trace, round_: Round, start: int, steps: list, edits: dict) -> dict[str, Any] | None:
    """The chip of the token that the rule added; None where it added none."""
    end = round_.ending
    if end.token is None:
        return None
    raw, purpose = read_piece(trace.pieces, end.token), "residual" if end.kind == "residual" else "bonus"
    position = start + len(round_.accepted_path)
    return {
        "glyphs": build_glyphs(raw, end.token),
        "name": name_token(raw, end.token),
        "kind": purpose,
        "p": _find_target_probability(round_),
        "u": end.u,
        "position": position,
        "edited": (position, purpose) in edits,
        "appears": next(at for at, step in enumerate(steps) if step.kind in ("draw", "bonus")),
    }


def _find_target_probability(round_: Round) -> float | None:
    """What the target gives to the token that the rule added; None where it was not recorded."""
    replaced = find_replaced(round_)
    place = len(round_.proposals) if replaced is None else replaced
    probs = round_.distributions[place] if place < len(round_.distributions) else None
    if probs is None or round_.ending.token not in probs.tokens:
        return None
    return _round_digits(probs.p[probs.tokens.index(round_.ending.token)])


def _compute_depth(proposals: tuple[Decision, ...], node: int) -> int:
    depth = 0
    while (node := proposals[node].parent) >= 0:
        depth += 1
    return depth


def _find_distribution(kind: str, node: int | None, round_: Round) -> int | None:
    """Which distribution a step looks at; the pass shows the first, the tally the last one that was shown."""
    if node is not None:
        return node
    if kind == "pass":
        return 0 if round_.distributions or round_.proposals else None
    if kind in ("bonus", "tally") and round_.ending.kind == "bonus":
        return len(round_.proposals) if round_.distributions else None
    rejected = find_replaced(round_)
    return rejected if rejected is not None else max(list_checked(round_), default=None)


def build_distribution(trace: Trace, round_: Round, index: int) -> dict[str, Any]:
    """The recorded distribution with this number in its round, as bars for a wide and for a narrow page."""
    probs, last = round_.distributions[index], index == len(round_.proposals)
    drawn = round_.ending.token if last or index == find_replaced(round_) else None
    drafted = None if last else round_.proposals[index].token
    must = {token for token in (drafted, drawn) if token in probs.tokens}
    views = {size: _build_bars(trace, probs, count, must, drafted, drawn) for size, count in BARS.items()}
    left = None if probs.residual is None else sum(probs.residual) + probs.rest["residual"]
    return {
        "place": name_place(trace, index, drafted),
        "beta": _round_digits(probs.beta),
        "left": _round_digits(left),
        "views": views,
    }


def _build_bars(
    trace: Trace, probs: Distribution, count: int, must: set[int], drafted: int | None, drawn_token: int | None
) -> list[dict]:
    """The bars to draw, likeliest by the draft first, the rest bar last. Sums of a rest are taken over its own tokens, one by one."""
    possible = {token for i, token in enumerate(probs.tokens) if probs.p[i] > 0 or (probs.q is not None and probs.q[i] > 0)}
    free = [token for token in probs.tokens if token in possible - must][
        : max(0, count - len(must))
    ]  # at temperature 0 most have none
    drawn_from = probs.p if probs.q is None else probs.q
    chance = dict(zip(probs.tokens, drawn_from, strict=True))
    shown = sorted((token for token in probs.tokens if token in must or token in free), key=lambda token: -chance[token])
    left = None if probs.residual is None else (sum(probs.residual) + probs.rest["residual"]) or None
    bars = []
    for token in shown:
        i, raw = probs.tokens.index(token), read_piece(trace.pieces, token)
        numbers = {key: None if (row := getattr(probs, key)) is None else row[i] for key in ("p", "q", "overlap", "residual")}
        numbers = {key: _round_digits(value) for key, value in numbers.items()}
        marks = {"drafted": token == drafted, "drawn": token == drawn_token}
        bars.append({"glyphs": build_glyphs(raw, token), **numbers, **marks, "end": _compute_draw_probability(numbers, left)})
    hidden = [i for i, token in enumerate(probs.tokens) if token not in shown]
    rest = {key: total + sum(getattr(probs, key)[i] for i in hidden) for key, total in probs.rest.items()}
    numbers = {key: _round_digits(rest.get(key)) for key in ("p", "q", "overlap", "residual")}
    return [*bars, {"glyphs": None, **numbers, "drafted": False, "drawn": False, "end": _compute_draw_probability(numbers, left)}]


def _compute_draw_probability(numbers: dict[str, float | None], left: float | None) -> float | None:
    """Height of a bar in the distribution that the last draw comes from: of the residual, or, with no draft, of p itself."""
    if numbers["residual"] is None:
        return numbers["p"]
    return None if left is None else _round_digits(numbers["residual"] / left)


def _round_digits(x: float | None) -> float | None:
    """Five significant digits of what is drawn, or written with fewer: a hundredth of a pixel, and less than half the bytes."""
    return None if x is None else float(f"{x:.5g}")


def build_unrecorded_distribution(trace: Trace, decision: Decision) -> dict[str, Any]:
    """A distribution that was not recorded: the draft token's own two bars."""
    raw = read_piece(trace.pieces, decision.token)
    bar = {"glyphs": build_glyphs(raw, decision.token), "p": decision.p, "q": decision.q, "overlap": None, "residual": None}
    bar |= {"drafted": True, "drawn": False, "end": None}
    place = name_place(trace, None, decision.token)
    return {"place": place, "beta": None, "left": None, "views": {size: [bar] for size in BARS}}
