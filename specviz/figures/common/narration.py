"""A round told in plain sentences, one per motion: caption, screen-reader text and transcript at once.

Letters as in Leviathan et al. 2023: p target, q draft. Nothing is decided here: thresholds, verdicts and sums come from the
trace.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from specviz.figures.common.glyphs import name, piece
from specviz.trace import Decision, Distribution, Round, Trace

HEADLINE = "A small model drafts. A big model decides. Every text keeps exactly the odds that the big model gives it."
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True, slots=True)
class Motion:
    """One step of the stage.

    kind      draft token, pass, look, random number, lift, residual, draw, bonus, stop, tally
    node      index of the chip it is about, None where it is about the whole round
    sentence  what happens, for a reader who does not see the picture
    label     name on the scrubber of this motion and those behind it; empty where it goes on under the name before
    """

    kind: str
    node: int | None
    sentence: str
    label: str = ""


def number(x: float, digits: int = 2) -> str:
    """A probability for a reader: .62, .016, .00054, 5.4×10⁻⁵, >.999. Two digits at least count, so that p/q can be checked."""
    if x <= 0.0 or x >= 1.0:
        return f"{x:.0f}"
    if x < 0.0001:
        head, exponent = f"{x:.1e}".split("e")
        return f"{head}×10{str(int(exponent)).translate(_RAISED)}"
    if round(x, digits) == 1.0:
        digits = max(3, digits)
    if round(x, digits) == 1.0:
        return f">.{'9' * digits}"
    while x * 10**digits < 10.0:
        digits += 1
    return f"{x:.{digits}f}".lstrip("0")


def apart(u: float, threshold: float) -> tuple[str, str]:
    """A random number and what it is compared with, with as many digits as it takes to tell them apart."""
    for digits in (2, 3, 4, 6, 9):
        pair = number(u, digits), number(threshold, digits)
        if pair[0] != pair[1] or u == threshold:
            return pair
    return pair


def ordinal(index: int) -> str:
    """0 -> "first"."""
    return ORDINALS[index] if index < len(ORDINALS) else f"{index + 1}th"


def looked_at(round_: Round) -> list[int]:
    """Proposals whose random numbers count, in order: none behind a token that ended the text or filled its room."""
    looked = [i for i, decision in enumerate(round_.proposals) if decision.accepted is not None]
    if round_.ending.kind in ("eos", "length"):
        last = max(round_.accepted_path, default=-1)
        looked = [i for i in looked if i <= last]
    return looked


def rejected_at(round_: Round) -> int | None:
    """The proposal whose refusal the replacement repairs; None where the round did not end with one."""
    if round_.ending.kind != "residual":
        return None
    return max(i for i, decision in enumerate(round_.proposals) if decision.accepted is False)


def motions(trace: Trace, round_: Round) -> list[Motion]:
    """The motions of one round, in order. At least two: the pass and the tally."""
    return list(_Teller(trace, round_).tell())


class _Teller:
    def __init__(self, trace: Trace, round_: Round):
        self.trace, self.round = trace, round_
        self.many = len(round_.proposals)

    def name(self, token: int) -> str:
        return name(piece(self.trace.pieces, token), token)

    def tell(self) -> Iterator[Motion]:
        for i, decision in enumerate(self.round.proposals):
            yield Motion("draft", i, self.draft_token(i, decision), "draft tokens" if i == 0 else "")
        yield Motion("pass", None, self.one_pass(), "one pass")
        for i in looked_at(self.round):
            yield Motion("look", i, self.look(self.round.proposals[i]), f"random number {i + 1}")
            yield Motion("coin", i, self.uniform(self.round.proposals[i]))
        yield from self.ending()
        yield Motion("tally", None, self.tally(), "tally")

    def draft_token(self, i: int, decision: Decision) -> str:
        start = f"The {ordinal(i)} draft token" if self.many > 1 else "The only draft token"
        return f"{start} is {self.name(decision.token)}: the draft gives it {number(decision.q)}."

    def one_pass(self) -> str:
        if self.many == 0:
            return "Nothing was drafted: the target reads the text in one pass and decides alone."
        what = "its draft token" if self.many == 1 else f"all {self.many} draft tokens at once"
        return f"In one pass the target checks {what}: it computes its own odds at every place."

    def look(self, decision: Decision) -> str:
        word, q, p = self.name(decision.token), number(decision.q), number(decision.p)
        word = word[0].upper() + word[1:]
        if decision.threshold >= 1.0:
            more = "just as much" if decision.p == decision.q else f"{p}, no less"
            return f"{word}: the draft gave it {q}, the target gives it {more}, so it is kept whatever the random number shows."
        if decision.threshold <= 0.0:
            return f"{word}: the draft gave it {q}, the target never says it here, so it is refused whatever the random number shows."
        less = "a trace less" if p == q else f"only {p}"
        return f"{word}: the draft gave it {q}, the target {less}, so it is kept with probability {number(decision.threshold)}."

    def uniform(self, decision: Decision) -> str:
        u, threshold = apart(decision.u, decision.threshold)
        word = self.name(decision.token)
        if not 0.0 < decision.threshold < 1.0:
            return f"The random number shows {u}: {word} is {'kept' if decision.accepted else 'refused'}, as with any other random number."
        if decision.accepted:
            return f"The random number shows {u}, below {threshold}: {word} is kept."
        return f"The random number shows {u}, not below {threshold}: {word} is refused."

    def ending(self) -> Iterator[Motion]:
        kind, refused = self.round.ending.kind, rejected_at(self.round)
        if kind == "residual":
            probs = self.round.distributions[refused] if self.round.distributions else None
            if probs is not None and probs.residual is not None:
                yield Motion("lift", refused, self.lift(probs), "residual")
                yield Motion("residual", refused, self.residual(probs))
            yield Motion("draw", refused, self.draw(refused), "" if probs else "draw")
        elif kind == "bonus":
            yield Motion("bonus", None, self.bonus(), "bonus" if self.many else "draw")
        else:
            yield Motion("stop", None, self.stop(), "end")

    def lift(self, probs: Distribution) -> str:
        return (
            f"Take away the overlap, what both models give: {number(probs.beta)} in all. Left is what the draft gives too little."
        )

    def residual(self, probs: Distribution) -> str:
        left, token = sum(probs.residual) + probs.rest["residual"], self.round.ending.token
        share = probs.residual[probs.tokens.index(token)] / left
        return (
            f"What is left, {number(left)}, slides together and grows until it fills 1: the residual. "
            f"{self.name(token)} has {number(share)} of it. A draft token here is refused just as often, {number(left)} of the time: so the "
            "overlap (striped) and the residual together make exactly the blue bars. What the draft gives too little, the residual adds."
        )

    def draw(self, refused: int) -> str:
        ending, bad = self.round.ending, self.round.proposals[refused]
        unseen = sum(decision.accepted is None for decision in self.round.proposals)
        what, them = ("draft token", "it") if unseen == 1 else (f"{unseen} draft tokens", "them")
        behind = f" The target computed odds for the {what} after it too, but the rule never looked at {them}." if unseen else ""
        place = f"it takes the place of {self.name(bad.token)}."
        return f"One draw, {number(ending.u)}, lands on {self.name(ending.token)}: {place}{behind}"

    def bonus(self) -> str:
        word, u = self.name(self.round.ending.token), number(self.round.ending.u)
        if self.many == 0:
            return f"One draw from the target’s own odds, {u}, lands on {word}."
        kept = "The draft token was kept" if self.many == 1 else f"All {self.many} draft tokens were kept"
        return f"{kept}, so the same pass pays for one more: the draw {u} from the target’s own odds lands on {word}."

    def stop(self) -> str:
        if self.round.ending.kind == "length":
            return "The text has the length that was asked for, so nothing is added."
        last = self.round.proposals[self.round.accepted_path[-1]]
        return f"{self.name(last.token)} was kept and ends the text, so nothing is added."

    def tally(self) -> str:
        count, kept = len(self.round.committed), len(self.round.accepted_path)
        parts = [f"{kept} kept"] if self.many else []
        if self.round.ending.token is not None and self.many:
            parts.append("1 replacement" if self.round.ending.kind == "residual" else "1 bonus")
        made_of = f": {' and '.join(parts)}" if parts else ""
        alone = (
            "the target alone would have needed 1 pass too"
            if count == 1
            else f"the target alone would have needed {count} passes"
        )
        return f"{count} token{'' if count == 1 else 's'} for 1 big pass{made_of}. One by one, {alone}."
