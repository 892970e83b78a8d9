"""A round as a tree that can be walked: chips, the mask of ancestors, and step by step what each coin met. From the trace alone.

Every probability, threshold and verdict is one that the trace holds; JavaScript draws them and computes none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specviz.figures.glyphs import glyphs, is_special, name, piece, whole
from specviz.figures.narration import apart, number
from specviz.trace import Decision, Law, Round, Trace

ROOT = -1
TAIL = 60  # characters of the text before the round that are shown


def tree_payload(trace: Trace) -> dict[str, Any]:
    """What the component draws of a trace's last round. Its settings name the rule, for the sentences.

    nodes   per guess its glyphs, parent, fate, p, q, u, threshold and bars; met  whether its coin met the target's law or what
            refused siblings left; col, line  where it stands
    mask    (N, N) 0 or 1: which nodes each may see; path  kept ones; ending  the token the rule added, and where it stands
    steps   [{"kind", "node", "sentence"}]; kind tree, coin, residual, end, tally
    """
    round_ = trace.rounds[-1]
    parents = [one.parent for one in round_.proposals]
    end = round_.accepted_path[-1] if round_.accepted_path else ROOT
    places, lines = layout(parents, end, round_.ending.token is not None)
    before = [piece(trace.pieces, token) for token in trace.prompt_ids]
    words = _Words(trace, round_, trace.settings.get("rule", "token"))
    return {
        "id": trace.digest()[:16],
        "before": _tail(whole(b"".join(raw for raw in before if not is_special(raw)))),
        "nodes": [words.node(node) | places[node] for node in range(len(parents))],
        "mask": mask(parents),
        "path": list(round_.accepted_path),
        "ending": words.ending() | places[len(parents)] if round_.ending.token is not None else None,
        "endKind": round_.ending.kind,
        "columns": max((one["col"] for one in places), default=0) + 1,
        "lines": lines,
        "steps": words.steps(),
    }


def mask(parents: Sequence[int]) -> list[list[int]]:
    """(N, N): 1 where a node may see another: its ancestors and itself. The prefix before the round is seen by all."""
    rows: list[list[int]] = []
    for node, parent in enumerate(parents):
        row = list(rows[parent]) if parent != ROOT else [0] * len(parents)
        row[node] = 1
        rows.append(row)
    return rows


def below(parents: Sequence[int], node: int) -> list[int]:
    """Children in the order they were proposed."""
    return [index for index, parent in enumerate(parents) if parent == node]


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
    """Nodes in the order in which their coins were looked at: siblings one after the other, then those below the kept one."""
    parents, kept, order, node = [one.parent for one in round_.proposals], set(round_.accepted_path), [], ROOT
    while node is not None:
        looked = [child for child in below(parents, node) if round_.proposals[child].accepted is not None]
        order += looked
        node = next((child for child in looked if child in kept), None)
    rest = [n for n, one in enumerate(round_.proposals) if one.accepted is not None and n not in order]
    return order + rest


def _tail(text: str) -> str:
    """The end of a text, from a whole word on."""
    return text if len(text) <= TAIL else text[-TAIL:].partition(" ")[2] or text[-TAIL:]


class _Words:
    """One round's nodes and sentences."""

    def __init__(self, trace: Trace, round_: Round, rule: str):
        self.trace, self.round, self.rule = trace, round_, rule
        self.parents = [one.parent for one in round_.proposals]

    def name(self, token: int) -> str:
        return name(piece(self.trace.pieces, token), token)

    def glyphs(self, token: int) -> list[dict[str, str]]:
        return glyphs(piece(self.trace.pieces, token), token)

    def node(self, index: int) -> dict[str, Any]:
        one = self.round.proposals[index]
        kind = "never" if one.accepted is None else "kept" if index in self.round.accepted_path else "refused"
        return {
            "glyphs": self.glyphs(one.token), "name": self.name(one.token), "parent": one.parent, "fate": kind,
            "p": one.p, "q": one.q, "u": one.u, "threshold": one.threshold, "bars": self._bars(index),
            "met": "left" if self.rule == "token" and one.accepted is not None and self._before(index) else "target",
        }  # fmt: skip

    def ending(self) -> dict[str, Any]:
        end = self.round.ending
        found = {"glyphs": self.glyphs(end.token), "name": self.name(end.token), "kind": end.kind, "u": end.u}
        refused = self._refused()
        law = self.round.laws[-1 if refused is None else refused] if self.round.laws else None
        mine = self._end()
        return found | {"parent": mine, "bars": _bars(law, self.glyphs, end.token)}

    def _bars(self, index: int) -> list[dict[str, Any]]:
        return _bars(self.round.laws[index], self.glyphs, self.round.proposals[index].token) if self.round.laws else []

    def _end(self) -> int:
        return self.round.accepted_path[-1] if self.round.accepted_path else ROOT

    def _refused(self) -> int | None:
        """The refusal that the replacement repairs; under the block rule the guess behind the last kept one."""
        if self.round.ending.kind != "residual":
            return None
        return max(
            (child for child in below(self.parents, self._end()) if self.round.proposals[child].accepted is not None),
            default=None,
        )

    def steps(self) -> list[dict[str, Any]]:
        rows = [{"kind": "tree", "node": None, "sentence": self._opening()}]
        for index in walk(self.round):
            rows.append({"kind": "coin", "node": index, "sentence": self._coin(index)})
            if self._hands_on(index):
                rows.append({"kind": "residual", "node": index, "sentence": self._residual(index)})
        rows.append({"kind": "end", "node": None, "sentence": self._ending()})
        rows.append({"kind": "tally", "node": None, "sentence": self._tally()})
        return rows

    def _opening(self) -> str:
        count = len(self.parents)
        if not count:
            return "Nobody guesses here: one pass of the target gives one token."
        depths = 1 + max(row["col"] for row in layout(self.parents, ROOT, False)[0])
        shape = (
            f"a chain of {count}"
            if max(map(len, (below(self.parents, n) for n in range(ROOT, count)))) == 1
            else f"a tree of {count}"
        )
        guesses = "guess" if count == 1 else "guesses"
        levels = f", {depths} deep" if "tree" in shape else ""
        return (
            f"{shape[0].upper()}{shape[1:]} {guesses}{levels}. One pass of the target gives the law after each of them: "
            "by the mask, each sees the text, its ancestors and itself."
        )

    def _coin(self, index: int) -> str:
        one = self.round.proposals[index]
        who = self.name(one.token)
        if self.rule == "typical":
            said = "likely enough: kept, with no coin" if index in self.round.accepted_path else "not the way that is kept"
            return f"{who}: the target gives it {number(one.p)}. Typical acceptance finds it {said}."
        coin, edge = apart(one.u, one.threshold)
        verdict = "kept" if one.accepted else "refused"
        if self.rule == "block":
            said = f"the chain up to here is kept with probability {edge}, judged as a whole. The coin shows {coin}"
            if one.accepted and not one.u < one.threshold:
                return f"{who}: {said}; a later guess carries it along: kept."
            return f"{who}: {said}: {verdict}."
        drawn = f"It was drawn with q {number(one.q)}" if one.u_draft is not None else "It was put there for certain, q 1"
        equals = len(below(self.parents, one.parent))
        if self.rule == "k-seq" and equals > 1:
            return (
                f"{who}: one of {equals} equals. {drawn}; the target gives it {number(one.p)}, and each of them is kept with a "
                f"probability that leaves room for the others, here {edge}. The coin shows {coin}: {verdict}."
            )
        met = f"what its refused sibling{'s' if self._before(index) > 1 else ''} left" if self._before(index) else "the target"
        return f"{who}: {drawn}; {met} gives it {number(one.p)}, so it is kept with probability {edge}. The coin shows {coin}: {verdict}."

    def _before(self, index: int) -> int:
        """Siblings that were refused before it."""
        return sum(1 for one in below(self.parents, self.parents[index]) if one < index)

    def _hands_on(self, index: int) -> bool:
        """Whether a refusal leaves a law that something meets next, and the trace holds it."""
        one: Decision = self.round.proposals[index]
        if not self.round.laws or one.accepted is not False:
            return False
        return self.rule == "token" or (self.rule == "k-seq" and index == self._refused())

    def _residual(self, index: int) -> str:
        law = self.round.laws[index]
        left = sum(law.residual) + law.rest["residual"]
        siblings = [
            n for n in below(self.parents, self.parents[index]) if n > index and self.round.proposals[n].accepted is not None
        ]
        after = f"The sibling {self.name(self.round.proposals[siblings[0]].token)} meets this law, rescaled" if siblings else "From it, rescaled, comes the replacement"  # fmt: skip
        return f"{self.name(self.round.proposals[index].token)} is refused. What it did not cover is left: {number(left)} of the law. {after}."

    def _ending(self) -> str:
        end = self.round.ending
        if end.kind == "eos":
            return "The text ends inside the block: nothing is added."
        if end.kind == "length":
            return "The text is as long as was asked for: nothing is added."
        who = self.name(end.token)
        if self.rule == "typical":
            return f"{who}: the target’s likeliest token comes next, whatever its odds. This is where the law is lost."
        if end.kind == "residual":
            return f"{who} is drawn from what the refused guesses left: the replacement."
        if not self.parents:
            return f"{who} is drawn from the target’s own law."
        return f"{who} is drawn from the target’s own law after the last kept guess: the bonus."

    def _tally(self) -> str:
        written = len(self.round.committed)
        never = sum(1 for one in self.round.proposals if one.accepted is None)
        tail = f" {never} guess{' was' if never == 1 else 'es were'} never looked at." if never else ""
        return f"{written} token{'' if written == 1 else 's'} from one pass of the target.{tail}"


def _bars(law: Law | None, shown: Any, token: int) -> list[dict[str, Any]]:
    """The law's bars and its rest, as the trace holds them; tokens that neither law has are left out."""
    if law is None:
        return []
    rows = []
    for place, one in enumerate(law.tokens):
        if one != token and law.p[place] == 0.0 and not (law.q and law.q[place]):
            continue  # where a law is certain, others fill its places
        row: dict[str, Any] = {"glyphs": shown(one), "p": law.p[place], "mine": one == token}
        if law.q is not None:
            row |= {"q": law.q[place], "overlap": law.overlap[place], "residual": law.residual[place]}
        rows.append(row)
    return [*rows, {"glyphs": None, "mine": False} | law.rest]
