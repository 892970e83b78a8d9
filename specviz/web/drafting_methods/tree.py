"""A round as a tree to walk through: draft tokens, the attention mask, and step by step how each one was checked. From the trace alone.

Every probability, threshold and verdict is one that the trace holds; JavaScript draws them and computes none. Each step has one
sentence: caption, screen-reader text and transcript at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specviz.figures.numbers import format_apart, format_probability
from specviz.glyphs import Glyph, build_glyphs, decode_whole, is_special, name_token, read_piece
from specviz.trace import Distribution, Round, Trace
from specviz.web.one_round.words import list_checked

ROOT = -1
NO_TOKEN = -1
GAP = 0.8  # lines below each branch of a tree
TAIL = 60  # characters of the text before the round that are shown


def build_tree(trace: Trace) -> dict[str, Any]:
    """Payload of the component for a trace's last round. The trace's settings name the rule, for the sentences.

    Returns:
        ``nodes``: per draft token its glyphs, parent, status, p, q, u, threshold and bars; met: "target" where it was checked against the
        target's distribution, "left" where against the residual after rejected siblings; left: mass of the residual after its own
        rejection; col, line: its place. ``first``: bars of the distributions after the text, every token that was drafted there among them.
        ``order``: the nodes branch by branch. ``mask``: (N, N) 0 or 1, which nodes each may attend to. ``path``: accepted nodes. ``ending``:
        the token that the rule added, the u that drew it, and its distribution; a residual is rescaled, as "drawn". ``steps``:
        [{"kind", "node", "sentence"}]; kind tree, uniform, residual, end, tally.
    """
    round_ = trace.rounds[-1]
    parents = [one.parent for one in round_.proposals]
    end = round_.accepted_path[-1] if round_.accepted_path else ROOT
    places, lines = lay_out_tree(parents, end, round_.ending.token is not None)
    before = [read_piece(trace.pieces, token) for token in trace.prompt_ids]
    narration, order = RoundNarration(trace, round_), order_checks(round_)
    ending = _build_ending(narration)
    return {
        "id": trace.compute_digest()[:16],
        "before": _shorten_text(decode_whole(b"".join(raw for raw in before if not is_special(raw)))),
        "nodes": [_build_node(narration, node, node in order) | places[node] for node in range(len(parents))],
        "first": _build_first_bars(narration) if parents and round_.distributions else [],
        "order": list_by_branch(parents),
        "mask": build_mask(parents),
        "path": list(round_.accepted_path),
        "ending": ending | places[len(parents)] if ending is not None else None,
        "endKind": round_.ending.kind,
        "columns": max((one["col"] for one in places), default=0) + 1,
        "lines": lines,
        "steps": _build_steps(narration, order),
    }


def build_mask(parents: Sequence[int]) -> list[list[int]]:
    """(N, N): 1 where a node may attend to another: its ancestors and itself. All attend to the text before the round."""
    rows: list[list[int]] = []
    for node, parent in enumerate(parents):
        row = list(rows[parent]) if parent != ROOT else [0] * len(parents)
        row[node] = 1
        rows.append(row)
    return rows


def lay_out_tree(parents: Sequence[int], end: int, has_ending: bool) -> tuple[list[dict[str, float]], float]:
    """Places of the nodes, the ending's last, and the number of lines.

    A node's column is its depth, its line that of its first leaf, so that every chain is level. Below each branch of a tree stands the same gap;
    the ending takes the middle of the one below its branch, so that nothing moves when it comes. A chain has the ending behind or below it.
    """
    roots = list_children(parents, ROOT)
    if not any(len(list_children(parents, node)) > 1 for node in range(ROOT, len(parents))):
        places = [{"col": node, "line": 0.0} for node in range(len(parents))]
        column = 0 if end == ROOT else end + 1
        below = has_ending and column < len(parents)
        return [*places, *([{"col": column, "line": float(below)}] if has_ending else [])], 1.0 + below
    places = [{"col": 0, "line": 0.0} for _ in parents]
    gaps: dict[int, float] = {}
    lines = 0.0

    def put(node: int, column: int) -> float:
        nonlocal lines
        inside = [put(child, column + 1) for child in list_children(parents, node)]
        line = inside[0] if inside else lines
        lines += not inside
        places[node] = {"col": column, "line": line}
        return line

    for root in roots:
        put(root, 0)
        gaps[root] = lines - 0.5 + GAP / 2
        lines += GAP
    if has_ending:
        top, column = end, 0
        while top != ROOT and parents[top] != ROOT:
            top = parents[top]
        column = 0 if end == ROOT else int(places[end]["col"]) + 1
        places.append({"col": column, "line": gaps[roots[-1] if end == ROOT else top]})
    return places, lines


def order_checks(round_: Round) -> list[int]:
    """Nodes in the order in which they were checked: siblings one after the other, then those below the accepted one."""
    counted, accepted = list_checked(round_), set(round_.accepted_path)
    order: list[int] = []
    node: int | None = ROOT
    parents = [one.parent for one in round_.proposals]
    while node is not None:
        siblings = [child for child in list_children(parents, node) if child in counted]
        order += siblings
        node = next((child for child in siblings if child in accepted), None)
    return order + [node for node in counted if node not in order]


def list_by_branch(parents: Sequence[int], node: int = ROOT) -> list[int]:
    """The nodes below one, each followed by its own branch."""
    return [one for child in list_children(parents, node) for one in (child, *list_by_branch(parents, child))]


def _build_first_bars(narration: RoundNarration) -> list[dict[str, Any]]:
    """Bars of p and q after the text, the largest first, each drafted token among them and marked.

    A later sibling is drawn from q without the earlier ones: its q here is the one at its draw times what a token in both lists lost. A token whose
    target probability the trace does not hold, because it met a residual, is left out.
    """
    round_, parents = narration.round, narration.parents
    siblings, probs = list_children(parents, ROOT), round_.distributions[0]
    drafted = {round_.proposals[node].token for node in siblings}
    bars = {
        bar_token: bar
        for bar_token, bar in zip(probs.tokens, _build_bars(probs, narration.trace, NO_TOKEN, True)[:-1], strict=True)
    }
    rest = dict(probs.rest)
    for node in siblings[1:]:
        one, own = round_.proposals[node], round_.distributions[node]
        shared = next(
            (
                token
                for token in probs.tokens
                if token in own.tokens and probs.q and own.q and own.q[own.tokens.index(token)] > 0.0
            ),
            None,
        )
        is_residual = one.accepted is not None and narration.count_earlier_siblings(node) > 0
        if one.token in bars or shared is None or is_residual or probs.q is None or own.q is None:
            continue
        scale = probs.q[probs.tokens.index(shared)] / own.q[own.tokens.index(shared)]
        p, q = one.p, one.q * scale
        bars[one.token] = {"glyphs": _build_glyphs(narration.trace, one.token), "p": p, "q": q, "mine": True}
        rest = rest | {"p": max(0.0, rest["p"] - p), "q": max(0.0, rest["q"] - q)}
    rows = [bar | {"mine": token in drafted} for token, bar in bars.items() if bar["p"] or bar.get("q") or token in drafted]
    rows.sort(key=lambda bar: max(bar["p"], bar.get("q", 0.0)), reverse=True)
    return [*rows, {"glyphs": None, "mine": False} | rest]


def _shorten_text(text: str) -> str:
    """The end of a text, from a whole word on."""
    return text if len(text) <= TAIL else text[-TAIL:].partition(" ")[2] or text[-TAIL:]


def _build_steps(narration: RoundNarration, order: Sequence[int]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [{"kind": "tree", "node": None, "sentence": narration.describe_tree()}]
    for index in order:
        rows.append({"kind": "uniform", "node": index, "sentence": narration.describe_uniform(index)})
        if narration.leaves_residual(index):
            rows.append({"kind": "residual", "node": index, "sentence": narration.describe_residual(index)})
    rows.append({"kind": "end", "node": None, "sentence": narration.describe_ending()})
    rows.append({"kind": "tally", "node": None, "sentence": narration.describe_tally(len(narration.parents) - len(order))})
    return rows


def _build_node(narration: RoundNarration, index: int, is_checked: bool) -> dict[str, Any]:
    one, round_ = narration.round.proposals[index], narration.round
    status = "unchecked" if not is_checked else "accepted" if index in round_.accepted_path else "rejected"
    return {
        "glyphs": _build_glyphs(narration.trace, one.token), "name": narration.name_token(one.token), "parent": one.parent, "status": status,
        "p": one.p, "q": one.q, "u": one.u, "threshold": one.threshold,
        "bars": _build_bars(round_.distributions[index], narration.trace, one.token) if round_.distributions else [],
        "left": narration.compute_residual_mass(index) if narration.leaves_residual(index) else None,
        "met": "left" if narration.rule == "token" and is_checked and narration.count_earlier_siblings(index) else "target",
    }  # fmt: skip


def _build_ending(narration: RoundNarration) -> dict[str, Any] | None:
    end, rejected, distributions = narration.round.ending, narration.find_rejected(), narration.round.distributions
    if end.token is None:
        return None
    probs = distributions[-1 if rejected is None else rejected] if distributions else None
    bars, mass = _build_bars(probs, narration.trace, end.token), narration.compute_residual_mass(rejected)
    if mass:
        bars = [{"glyphs": bar["glyphs"], "mine": bar["mine"], "drawn": bar["residual"] / mass} for bar in bars]
    return {
        "glyphs": _build_glyphs(narration.trace, end.token), "name": narration.name_token(end.token), "kind": end.kind,
        "u": narration.find_last_uniform(), "parent": narration.find_end(), "bars": bars,
    }  # fmt: skip


def _build_glyphs(trace: Trace, token: int) -> list[Glyph]:
    return build_glyphs(read_piece(trace.pieces, token), token)


def _build_bars(probs: Distribution | None, trace: Trace, token: int, whole: bool = False) -> list[dict[str, Any]]:
    """The distribution's bars and its rest, as the trace holds them; tokens that neither distribution has are left out unless ``whole``."""
    if probs is None:
        return []
    rows = []
    for place, one in enumerate(probs.tokens):
        if not whole and one != token and probs.p[place] == 0.0 and not (probs.q and probs.q[place]):
            continue  # where a distribution is certain, others fill its places
        row: dict[str, Any] = {"glyphs": _build_glyphs(trace, one), "p": probs.p[place], "mine": one == token}
        if probs.q is not None:
            assert probs.overlap is not None and probs.residual is not None
            row |= {"q": probs.q[place], "overlap": probs.overlap[place], "residual": probs.residual[place]}
        rows.append(row)
    return [*rows, {"glyphs": None, "mine": False} | probs.rest]


def list_children(parents: Sequence[int], node: int) -> list[int]:
    """Children in the order they were proposed."""
    return [index for index, parent in enumerate(parents) if parent == node]


class RoundNarration:
    """What one round's nodes and its ending are called, and the sentence of every step."""

    def __init__(self, trace: Trace, round_: Round):
        self.trace, self.round, self.rule = trace, round_, trace.settings.get("rule", "token")
        self.parents = [one.parent for one in round_.proposals]

    def name_token(self, token: int) -> str:
        return name_token(read_piece(self.trace.pieces, token), token)

    def find_end(self) -> int:
        return self.round.accepted_path[-1] if self.round.accepted_path else ROOT

    def find_rejected(self) -> int | None:
        """The draft token that the replacement replaces; under the block rule the one after the last accepted one."""
        if self.round.ending.kind != "residual":
            return None
        return max(
            (child for child in list_children(self.parents, self.find_end()) if self.round.proposals[child].accepted is not None),
            default=None,
        )

    def compute_depth(self, node: int) -> int:
        """0 for a draft token right after the text."""
        return 0 if self.parents[node] == ROOT else 1 + self.compute_depth(self.parents[node])

    def describe_tree(self) -> str:
        count = len(self.parents)
        if not count:
            return "Nothing is drafted here: one target pass gives one token."
        chain = all(len(list_children(self.parents, node)) <= 1 for node in range(ROOT, count))
        shape = f"A chain of {count}" if chain else f"A tree of {count}"
        tokens = f"draft token{'' if count == 1 else 's'}"
        levels = "" if chain else f", {1 + max(map(self.compute_depth, range(count)))} deep"
        return (
            f"{shape} {tokens}{levels}. One target pass gives the distribution after each of them: "
            "the attention mask lets each see the text, its ancestors and itself."
        )

    def describe_uniform(self, index: int) -> str:
        one = self.round.proposals[index]
        who = self.name_token(one.token)
        if self.rule == "typical":
            said = "likely enough, so it is accepted" if one.accepted else "not likely enough, so it is rejected"
            return f"{who}: the target gives it {format_probability(one.p)}. Typical acceptance finds that {said}. It uses no random number."
        assert one.u is not None and one.threshold is not None, "a token that was checked"
        uniform, edge = format_apart(one.u, one.threshold)
        verdict = "accepted" if one.accepted else "rejected"
        if self.rule == "block":
            said = f"the chain up to here is accepted as a whole with probability {edge}. The random number u is {uniform}"
            if one.accepted and not one.u < one.threshold:
                return f"{who}: {said}, but a longer chain is accepted, so it is accepted."
            return f"{who}: {said}: {verdict}."
        drawn = (
            f"it was drawn with q = {format_probability(one.q)}"
            if one.u_draft is not None
            else "it was proposed for certain, q = 1"
        )
        siblings = len(list_children(self.parents, one.parent))
        number_u = f"The random number u is {uniform}: {verdict}."
        if self.rule == "k-seq" and siblings > 1:
            return (
                f"{who}: one of {siblings} independent siblings; {drawn}, and the target gives it {format_probability(one.p)}. Each is accepted with a "
                f"probability that leaves room for the others, here {edge}. {number_u}"
            )
        met = (
            f"the residual of its rejected sibling{'s' if self.count_earlier_siblings(index) > 1 else ''}"
            if self.count_earlier_siblings(index)
            else "the target"
        )
        return (
            f"{who}: {drawn}; {met} gives it {format_probability(one.p)}. So it is accepted with probability {edge}. {number_u}"
        )

    def count_earlier_siblings(self, index: int) -> int:
        """Siblings that were rejected before it."""
        return sum(1 for one in list_children(self.parents, self.parents[index]) if one < index)

    def leaves_residual(self, index: int) -> bool:
        """Whether its rejection leaves a residual that is used next, and the trace holds it."""
        one = self.round.proposals[index]
        if not self.round.distributions or one.accepted is not False:
            return False
        return self.rule == "token" or (self.rule == "k-seq" and index == self.find_rejected())

    def compute_residual_mass(self, index: int | None) -> float:
        """Mass of the residual after a draft token, before it is rescaled; 0 where a replacement is not drawn from one, or it is not recorded."""
        if index is None or not self.round.distributions or self.rule == "typical":
            return 0.0
        probs = self.round.distributions[index]
        return 0.0 if probs.residual is None else sum(probs.residual) + probs.rest["residual"]

    def find_last_uniform(self) -> float | None:
        """The random number that drew the last token; None where nothing was drawn."""
        return None if self.rule == "typical" else self.round.ending.u

    def describe_residual(self, index: int) -> str:
        left = self.compute_residual_mass(index)
        siblings = [
            n
            for n in list_children(self.parents, self.parents[index])
            if n > index and self.round.proposals[n].accepted is not None
        ]
        after = "the replacement is drawn from it"
        if siblings:
            after = f"its sibling {self.name_token(self.round.proposals[siblings[0]].token)} is checked against it"
        return (
            f"{self.name_token(self.round.proposals[index].token)} is rejected. Where the target gives more than the draft, {format_probability(left)} remains. "
            f"Rescaled to 1, this is the residual distribution: {after}."
        )

    def describe_ending(self) -> str:
        end = self.round.ending
        if end.kind == "eos":
            return "An accepted token ends the text, so nothing is added."
        if end.token is None:
            return "The text has the length that was asked for, so nothing is added."
        who = self.name_token(end.token)
        if self.rule == "typical":
            lost = "" if self.trace.settings.get("temperature") == 0.0 else " Here the text leaves the target’s distribution."
            return f"{who}: typical acceptance adds the target’s likeliest token.{lost}"
        by = "" if end.u is None else f" The random number of this draw is {format_probability(end.u)}."
        if end.kind == "residual":
            return f"The replacement, {who}, is drawn from the residual distribution.{by}"
        if not self.parents:
            return f"{who} is drawn from the target’s distribution.{by}"
        return f"The bonus token, {who}, is drawn from the target’s distribution after the last accepted draft token.{by}"

    def describe_tally(self, unchecked: int) -> str:
        """unchecked: number of draft tokens that the rule did not reach."""
        written = len(self.round.committed)
        tail = (
            f" The pass also read {unchecked} draft token{'' if unchecked == 1 else 's'} that the rule did not reach."
            if unchecked
            else ""
        )
        return f"{written} token{'' if written == 1 else 's'} from 1 target pass.{tail}"
