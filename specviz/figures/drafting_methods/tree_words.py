"""A walked tree in plain sentences, one for each step: caption, screen-reader text and transcript at once.

Nothing is decided here: thresholds, verdicts and sums come from the trace.
"""

from __future__ import annotations

from collections.abc import Sequence

from specviz.figures.common.glyphs import name, piece
from specviz.figures.common.narration import apart, number
from specviz.trace import Round, Trace

ROOT = -1


def below(parents: Sequence[int], node: int) -> list[int]:
    """Children in the order they were proposed."""
    return [index for index, parent in enumerate(parents) if parent == node]


class Words:
    """What one round's nodes and its ending are called, and the sentence of every step."""

    def __init__(self, trace: Trace, round_: Round):
        self.trace, self.round, self.rule = trace, round_, trace.settings.get("rule", "token")
        self.parents = [one.parent for one in round_.proposals]

    def name(self, token: int) -> str:
        return name(piece(self.trace.pieces, token), token)

    def end(self) -> int:
        return self.round.accepted_path[-1] if self.round.accepted_path else ROOT

    def refused(self) -> int | None:
        """The refusal that the replacement repairs; under the block rule the draft token behind the last kept one."""
        if self.round.ending.kind != "residual":
            return None
        return max(
            (child for child in below(self.parents, self.end()) if self.round.proposals[child].accepted is not None),
            default=None,
        )

    def depth(self, node: int) -> int:
        """0 for a draft token right after the text."""
        return 0 if self.parents[node] == ROOT else 1 + self.depth(self.parents[node])

    def opening(self, depths: int) -> str:
        """depths: how many draft tokens stand one below the other at most."""
        count = len(self.parents)
        if not count:
            return "Nobody draft tokens here: one pass of the target gives one token."
        chain = all(len(below(self.parents, node)) <= 1 for node in range(ROOT, count))
        shape = f"A chain of {count}" if chain else f"A tree of {count}"
        draft_tokens = "draft" if count == 1 else "draft_tokens"
        levels = "" if chain else f", {depths} deep"
        return (
            f"{shape} {draft_tokens}{levels}. One pass of the target gives the distribution after each of them: "
            "by the mask, each sees the text, its ancestors and itself."
        )

    def uniform(self, index: int) -> str:
        one = self.round.proposals[index]
        who = self.name(one.token)
        if self.rule == "typical":
            kept = (
                "finds that likely enough: kept, with no random number."
                if one.accepted
                else "does not keep it, and asks no random number."
            )
            return f"{who}: the target gives it {number(one.p)}. Typical acceptance {kept}"
        uniform, edge = apart(one.u, one.threshold)
        verdict = "kept" if one.accepted else "refused"
        if self.rule == "block":
            said = f"the chain up to here is kept with probability {edge}, judged as a whole. The random number shows {uniform}"
            if one.accepted and not one.u < one.threshold:
                return f"{who}: {said}; a later draft token carries it along: kept."
            return f"{who}: {said}: {verdict}."
        drawn = f"It was drawn with q {number(one.q)}" if one.u_draft is not None else "It was put there for certain, q 1"
        equals = len(below(self.parents, one.parent))
        if self.rule == "k-seq" and equals > 1:
            return (
                f"{who}: one of {equals} equals. {drawn}; the target gives it {number(one.p)}, and each of them is kept with a "
                f"probability that leaves room for the others, here {edge}. The random number shows {uniform}: {verdict}."
            )
        met = f"what its rejected sibling{'s' if self.before(index) > 1 else ''} left" if self.before(index) else "the target"
        return f"{who}: {drawn}; {met} gives it {number(one.p)}, so it is kept with probability {edge}. The random number shows {uniform}: {verdict}."

    def before(self, index: int) -> int:
        """Siblings that were refused before it."""
        return sum(1 for one in below(self.parents, self.parents[index]) if one < index)

    def hands_on(self, index: int) -> bool:
        """Whether a refusal leaves a distribution that something meets next, and the trace holds it."""
        one = self.round.proposals[index]
        if not self.round.distributions or one.accepted is not False:
            return False
        return self.rule == "token" or (self.rule == "k-seq" and index == self.refused())

    def residual(self, index: int) -> str:
        probs = self.round.distributions[index]
        left = sum(probs.residual) + probs.rest["residual"]
        siblings = [
            n for n in below(self.parents, self.parents[index]) if n > index and self.round.proposals[n].accepted is not None
        ]
        after = f"The sibling {self.name(self.round.proposals[siblings[0]].token)} meets this distribution, rescaled" if siblings else "From it, rescaled, comes the replacement"  # fmt: skip
        return f"{self.name(self.round.proposals[index].token)} is refused. What it did not cover is left: {number(left)} of the distribution. {after}."

    def ending(self) -> str:
        end = self.round.ending
        if end.kind == "eos":
            return "The text ends inside the block: nothing is added."
        if end.kind == "length":
            return "The text is as long as was asked for: nothing is added."
        who = self.name(end.token)
        if self.rule == "typical":
            lost = "" if self.trace.settings.get("temperature") == 0.0 else " This is where the distribution is lost."
            return f"{who}: the target’s likeliest token comes next, whatever its odds.{lost}"
        if end.kind == "residual":
            return f"{who} is drawn from what the rejected draft tokens left: the replacement."
        if not self.parents:
            return f"{who} is drawn from the target’s own distribution."
        return f"{who} is drawn from the target’s own distribution after the last accepted draft token: the bonus."

    def tally(self, never: int) -> str:
        """never: draft tokens that were never looked at."""
        written = len(self.round.committed)
        tail = f" {never} draft token{' was' if never == 1 else 'es were'} never looked at." if never else ""
        return f"{written} token{'' if written == 1 else 's'} from one pass of the target.{tail}"
