"""A round as a tree that can be walked: chips, the mask of ancestors, and step by step what each random number met. From the trace alone.

Every probability, threshold and verdict is one that the trace holds; JavaScript draws them and computes none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specviz.figures.common.glyphs import glyphs, is_special, piece, whole
from specviz.figures.common.narration import looked_at
from specviz.figures.drafting_methods.tree_words import ROOT, Words, below
from specviz.trace import Distribution, Round, Trace

TAIL = 60  # characters of the text before the round that are shown


def tree_payload(trace: Trace) -> dict[str, Any]:
    """What the component draws of a trace's last round. Its settings name the rule, for the sentences.

    nodes   per draft token its glyphs, parent, fate, p, q, u, threshold and bars; met  whether its random number met the target's distribution or what
            rejected sibling left; col, line  where it stands
    mask    (N, N) 0 or 1: which nodes each may see; path  kept ones; ending  the token the rule added, and where it stands
    steps   [{"kind", "node", "sentence"}]; kind tree, random number, residual, end, tally
    """
    round_ = trace.rounds[-1]
    parents = [one.parent for one in round_.proposals]
    end = round_.accepted_path[-1] if round_.accepted_path else ROOT
    places, lines = layout(parents, end, round_.ending.token is not None)
    before = [piece(trace.pieces, token) for token in trace.prompt_ids]
    words, order = Words(trace, round_), walk(round_)
    return {
        "id": trace.digest()[:16],
        "before": _tail(whole(b"".join(raw for raw in before if not is_special(raw)))),
        "nodes": [_node(words, node, node in order) | places[node] for node in range(len(parents))],
        "mask": mask(parents),
        "path": list(round_.accepted_path),
        "ending": _ending(words) | places[len(parents)] if round_.ending.token is not None else None,
        "endKind": round_.ending.kind,
        "columns": max((one["col"] for one in places), default=0) + 1,
        "lines": lines,
        "steps": _steps(words, order),
    }


def mask(parents: Sequence[int]) -> list[list[int]]:
    """(N, N): 1 where a node may see another: its ancestors and itself. The prefix before the round is seen by all."""
    rows: list[list[int]] = []
    for node, parent in enumerate(parents):
        row = list(rows[parent]) if parent != ROOT else [0] * len(parents)
        row[node] = 1
        rows.append(row)
    return rows


def layout(parents: Sequence[int], end: int, more: bool) -> tuple[list[dict[str, float]], int]:
    """Where each node stands: its depth as column, its leaves' middle as line; the ending is one more child of ``end``.

    Returns the places, the ending's behind the nodes', and how many lines there are.
    """
    every = [*parents, end] if more else list(parents)
    places: list[dict[str, float]] = [{"col": 0, "line": 0.0} for _ in every]
    lines = 0

    def put(node: int, column: int) -> float:
        nonlocal lines
        inside = [put(child, column + 1) for child in below(every, node)]
        line = (inside[0] + inside[-1]) / 2.0 if inside else float(lines)
        lines += not inside
        if node != ROOT:
            places[node] = {"col": column, "line": line}
        return line

    put(ROOT, -1)
    return places, lines


def walk(round_: Round) -> list[int]:
    """Nodes in the order in which their random numbers were looked at: siblings one after the other, then those below the kept one."""
    counted, kept, order, node = looked_at(round_), set(round_.accepted_path), [], ROOT
    parents = [one.parent for one in round_.proposals]
    while node is not None:
        looked = [child for child in below(parents, node) if child in counted]
        order += looked
        node = next((child for child in looked if child in kept), None)
    return order + [node for node in counted if node not in order]


def _tail(text: str) -> str:
    """The end of a text, from a whole word on."""
    return text if len(text) <= TAIL else text[-TAIL:].partition(" ")[2] or text[-TAIL:]


def _steps(words: Words, order: Sequence[int]) -> list[dict[str, Any]]:
    rows = [{"kind": "tree", "node": None, "sentence": words.opening(len({*map(words.depth, range(len(words.parents)))}))}]
    for index in order:
        rows.append({"kind": "coin", "node": index, "sentence": words.uniform(index)})
        if words.hands_on(index):
            rows.append({"kind": "residual", "node": index, "sentence": words.residual(index)})
    rows.append({"kind": "end", "node": None, "sentence": words.ending()})
    rows.append({"kind": "tally", "node": None, "sentence": words.tally(len(words.parents) - len(order))})
    return rows


def _node(words: Words, index: int, looked: bool) -> dict[str, Any]:
    one, round_ = words.round.proposals[index], words.round
    fate = "never" if not looked else "kept" if index in round_.accepted_path else "refused"
    return {
        "glyphs": _glyphs(words.trace, one.token), "name": words.name(one.token), "parent": one.parent, "fate": fate,
        "p": one.p, "q": one.q, "u": one.u, "threshold": one.threshold,
        "bars": _bars(round_.distributions[index], words.trace, one.token) if round_.distributions else [],
        "met": "left" if words.rule == "token" and looked and words.before(index) else "target",
    }  # fmt: skip


def _ending(words: Words) -> dict[str, Any]:
    end, refused, distributions = words.round.ending, words.refused(), words.round.distributions
    probs = distributions[-1 if refused is None else refused] if distributions else None
    return {
        "glyphs": _glyphs(words.trace, end.token), "name": words.name(end.token), "kind": end.kind, "u": end.u,
        "parent": words.end(), "bars": _bars(probs, words.trace, end.token),
    }  # fmt: skip


def _glyphs(trace: Trace, token: int) -> list[dict[str, str]]:
    return glyphs(piece(trace.pieces, token), token)


def _bars(probs: Distribution | None, trace: Trace, token: int) -> list[dict[str, Any]]:
    """The distribution's bars and its rest, as the trace holds them; tokens that neither distribution has are left out."""
    if probs is None:
        return []
    rows = []
    for place, one in enumerate(probs.tokens):
        if one != token and probs.p[place] == 0.0 and not (probs.q and probs.q[place]):
            continue  # where a distribution is certain, others fill its places
        row: dict[str, Any] = {"glyphs": _glyphs(trace, one), "p": probs.p[place], "mine": one == token}
        if probs.q is not None:
            row |= {"q": probs.q[place], "overlap": probs.overlap[place], "residual": probs.residual[place]}
        rows.append(row)
    return [*rows, {"glyphs": None, "mine": False} | probs.rest]
