"""Sentences of *One round*: one per step, which is caption, text for screen readers and transcript, and what stands around the round.

Letters as in Leviathan et al. 2023: p target, q draft. Thresholds, verdicts and sums come from the trace.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from specviz.figures.numbers import format_apart, format_probability, format_quotient
from specviz.glyphs import decode_whole, name_token, read_piece
from specviz.models.pairs.names import parse_pair_name
from specviz.records import load_toml
from specviz.settings import CUT_FIELDS
from specviz.speed.records.cost_model import load_cost_models
from specviz.trace import Decision, Distribution, Round, Trace

TEXTS = load_toml("texts/one_round")
GPU = "h200-8b"  # name of a cost model
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


@dataclass(frozen=True, slots=True)
class RoundStep:
    """One step of a round.

    Attributes:
        kind: draft, pass, look, uniform (u meets its threshold), lift, residual, draw, bonus, stop or tally.
        node: Index of the draft token it is about; None for the whole round.
        sentence: What happens, for a reader who does not see the picture.
        label: Name on the scrubber of this step and those after it; empty where the label before it still holds.
        note: A line of its own about other models than the round's; empty for none.
    """

    kind: str
    node: int | None
    sentence: str
    label: str = ""
    note: str = ""


def compute_residual_mass(probs: Distribution) -> float:
    """Mass of the target's distribution beyond the overlap, in [0, 1]: how often a draft token there is rejected."""
    assert probs.residual is not None, "the residual was recorded"
    return sum(probs.residual) + probs.rest["residual"]


def _is_product_visible(decision: Decision) -> bool:
    """Whether the numbers as they are written show that q times p/q is p."""
    if decision.threshold is None or not 0.0 < decision.threshold < 1.0:
        return False
    p, q, rate = format_quotient(decision.p, decision.q, decision.threshold)
    written = all(one.replace(".", "").isdecimal() for one in (p, q, rate))
    return written and f"{float(q) * float(rate):.{len(p.partition('.')[2])}f}" == p


def name_ordinal(index: int) -> str:
    """0 -> "first"."""
    return ORDINALS[index] if index < len(ORDINALS) else f"{index + 1}th"


def list_checked(round_: Round) -> list[int]:
    """Draft tokens that were checked, in order: none after a token that ended the text or gave it its full length."""
    found = [i for i, decision in enumerate(round_.proposals) if decision.accepted is not None]
    if round_.ending.kind in ("eos", "length"):
        last = max(round_.accepted_path, default=-1)
        found = [i for i in found if i <= last]
    return found


def find_replaced(round_: Round) -> int | None:
    """The draft token that the replacement replaces; None where the round did not end with one."""
    if round_.ending.kind != "residual":
        return None
    return max(i for i, decision in enumerate(round_.proposals) if decision.accepted is False)


def build_steps(trace: Trace, round_: Round) -> list[RoundStep]:
    """The steps of one round, in order. At least two: the pass and the tally."""
    return list(_RoundNarrator(trace, round_).list_steps())


class _RoundNarrator:
    def __init__(self, trace: Trace, round_: Round):
        self.trace, self.round = trace, round_
        self.drafted = len(round_.proposals)

    def name_token(self, token: int | None) -> str:
        assert token is not None, "this kind of ending has a token"
        return name_token(read_piece(self.trace.pieces, token), token)

    def list_steps(self) -> Iterator[RoundStep]:
        for i, decision in enumerate(self.round.proposals):
            yield RoundStep("draft", i, self.describe_draft_token(i, decision), "draft tokens" if i == 0 else "")
        note = describe_large_pass(self.drafted + 1) if self.drafted else ""
        yield RoundStep("pass", None, self.describe_pass(), "pass", note)
        chosen = list_checked(self.round)
        explained = next((i for i in chosen if _is_product_visible(self.round.proposals[i])), None)  # once a round is enough
        for n, i in enumerate(chosen):
            label = "" if n else "checks"  # how many there are would tell the end
            yield RoundStep("look", i, self.describe_check(self.round.proposals[i], i == explained), label)
            yield RoundStep("uniform", i, self.describe_uniform(self.round.proposals[i], n == 0) + self.describe_unchecked(i))
        yield from self.list_ending_steps()
        yield RoundStep("tally", None, self.describe_tally(), "result")

    def describe_draft_token(self, i: int, decision: Decision) -> str:
        start = f"The {name_ordinal(i)} draft token" if self.drafted > 1 else "The only draft token"
        drawn = ", drawn at random," if decision.u_draft is not None and decision.q < 1.0 else ""
        sentence = f"{start}{drawn} is {self.name_token(decision.token)}: the draft model gives it probability {format_probability(decision.q)}."
        if decision.u_draft is None:
            return sentence
        if decision.q == 1.0:
            return (
                f"{sentence} It has no choice."
                if i
                else f"{sentence} It has no choice: at temperature 0 all probability is on the likeliest token."
            )
        likelier = self.has_likelier_token(i, decision)
        if i == 0:
            return f"{sentence} {'A draw need not give the likeliest token.' if likelier else 'It is also the likeliest token here.'}"
        return f"{sentence} Others were likelier." if likelier else sentence

    def has_likelier_token(self, i: int, decision: Decision) -> bool:
        """Whether the draft gives another token more than the one that was drawn."""
        probs = self.round.distributions[i] if i < len(self.round.distributions) else None
        return probs is not None and probs.q is not None and max(probs.q) > decision.q

    def describe_pass(self) -> str:
        if self.drafted == 0:
            return "Nothing was drafted: the target model reads the text in one pass and chooses the next token alone."
        where, last = ("the draft token", "it") if self.drafted == 1 else (f"all {self.drafted} draft tokens", "them")
        return f"One target pass gives the target’s probabilities for {where} and the token after {last}."

    def describe_check(self, decision: Decision, reason: bool) -> str:
        """``reason``: whether it explains why p/q is the right probability."""
        assert decision.threshold is not None, "it was checked"
        word, (p, q, rate) = self.name_token(decision.token), format_quotient(decision.p, decision.q, decision.threshold)
        word = word[0].upper() + word[1:]
        if decision.threshold >= 1.0:
            more = "just as much" if decision.p == decision.q else f"{p}, no less"
            return f"{word}: the draft gives it {q}, the target {more}, so it is accepted whatever the random number is."
        if decision.threshold <= 0.0:
            return f"{word}: the draft gives it {q}, the target gives it 0 here, so it is rejected whatever the random number is."
        less = "slightly less" if p == q else f"only {p}"
        sentence = (
            f"{word}: the draft gives it {q}, the target {less}, so it is accepted with probability p/q\u00a0=\u00a0{rate}."
        )
        if reason:
            sentence += f" So it comes out {q}\u00a0×\u00a0{rate}\u00a0= {p} of the time, as often as the target says."
        return sentence

    def describe_uniform(self, decision: Decision, first: bool) -> str:
        assert decision.u is not None and decision.threshold is not None, "it was checked"
        u, threshold = format_apart(decision.u, decision.threshold)
        word = self.name_token(decision.token)
        drawn = f"The random number u{', uniform between 0 and 1,' if first else ''} is {u}"
        if not 0.0 < decision.threshold < 1.0:
            return f"{drawn}: {word} is {'accepted' if decision.accepted else 'rejected'}, as with any other u."
        if decision.accepted:
            return f"{drawn}, below {threshold}: {word} is accepted."
        return f"{drawn}, not below {threshold}: {word} is rejected."

    def describe_unchecked(self, i: int) -> str:
        """What becomes of the draft tokens behind the rejected one; empty after any other check."""
        unchecked = sum(decision.accepted is None for decision in self.round.proposals)
        if not unchecked or i != find_replaced(self.round):
            return ""
        what, are, was = ("draft token", "is", "it was") if unchecked == 1 else (f"{unchecked} draft tokens", "are", "they were")
        return f" The {what} after it {are} not checked: {was} drawn to follow {self.name_token(self.round.proposals[i].token)}."

    def list_ending_steps(self) -> Iterator[RoundStep]:
        kind, rejected = self.round.ending.kind, find_replaced(self.round)
        if kind == "residual":
            assert rejected is not None, "a replacement follows a rejection"
            probs = self.round.distributions[rejected] if self.round.distributions else None
            if probs is not None and probs.residual is not None:
                yield RoundStep("lift", rejected, self.describe_overlap(probs), "last token")
                yield RoundStep("residual", rejected, self.describe_residual(probs))
            yield RoundStep("draw", rejected, self.describe_replacement(rejected), "" if probs else "last token")
        elif kind == "bonus":
            yield RoundStep("bonus", None, self.describe_bonus(), "last token" if self.drafted else "draw")
        else:
            yield RoundStep("stop", None, self.describe_stop(), "end")

    def describe_overlap(self, probs: Distribution) -> str:
        assert probs.beta is not None, "both distributions were recorded"
        return (
            f"Take away the overlap, which both distributions share: {format_probability(probs.beta)} in all. Green, {format_probability(compute_residual_mass(probs))}, is what the target "
            "gives beyond the draft. Hatched, just as much, is what the draft gives beyond the target: it is rejected."
        )

    def describe_residual(self, probs: Distribution) -> str:
        left, token = compute_residual_mass(probs), self.round.ending.token
        assert probs.residual is not None and token is not None, "both were recorded"
        share = probs.residual[probs.tokens.index(token)] / left
        return (
            f"The green part, {format_probability(left)}, is rescaled to 1: the residual distribution. It gives {self.name_token(token)} {format_probability(share)}. A draft token "
            f"here is rejected as often, {format_probability(left)}: accepted (striped) and replaced (green) together are exactly the target’s p."
        )

    def describe_replacement(self, rejected: int) -> str:
        ending, bad = self.round.ending, self.round.proposals[rejected]
        assert ending.u is not None, "the replacement was drawn"
        draw = f"One draw from the residual, with another random number, gives {self.name_token(ending.token)}"
        return f"{draw}: it replaces {self.name_token(bad.token)}."

    def describe_bonus(self) -> str:
        ending = self.round.ending
        assert ending.u is not None, "the bonus token was drawn"
        draw = f"One draw from the target’s distribution, with random number {format_probability(ending.u)}, gives {self.name_token(ending.token)}"
        if self.drafted == 0:
            return f"{draw}."
        accepted = "The draft token was accepted" if self.drafted == 1 else f"All {self.drafted} draft tokens were accepted"
        return f"{accepted}, so the target’s last distribution, after them all, gives one more token. {draw}, the bonus token."

    def describe_stop(self) -> str:
        if self.round.ending.kind == "length":
            return "The text has the length that was asked for, so nothing is added."
        last = self.name_token(self.round.proposals[self.round.accepted_path[-1]].token)
        return f"{last[0].upper()}{last[1:]} was accepted and ends the text, so nothing is added."

    def describe_tally(self) -> str:
        count, accepted = len(self.round.committed), len(self.round.accepted_path)
        parts = [f"{accepted} accepted"] if self.drafted else []
        if self.round.ending.token is not None and self.drafted:
            parts.append("1 replacement" if self.round.ending.kind == "residual" else "1 bonus token")
        made_of = f": {' and '.join(parts)}" if parts else ""
        if count > 1 and (
            written := decode_whole(b"".join(read_piece(self.trace.pieces, token) for token in self.round.committed)).strip()
        ):
            made_of += f", “{written}”"
        alone = "1 pass too" if count == 1 else f"{count} passes"
        sentence = f"{count} token{'' if count == 1 else 's'} from 1 target pass{made_of}. Target-only sampling would have needed {alone}."
        if not self.drafted:
            return sentence
        return (
            f"{sentence} Drafting took time, too."
            if count > 1
            else f"{sentence} Nothing was gained here, and drafting took time."
        )


def describe_large_pass(tokens: int) -> str:
    """What a pass over several tokens takes on a server's GPU, as a line that stands alone; empty where it is not on record."""
    model = load_cost_models().get(GPU)
    if model is None:
        return ""
    _, size = model.title.rsplit(" of ", 1)
    where = f"{size}\u00a0model,\u00a0{model.title.split(',')[0]}"
    ratio = model.compute_pass(tokens) / model.passes[1]
    return f"On a large model ({where}), it takes {ratio:.2f} times a one-token pass."


# Around the steps -------------------------------------------------------------------------------------------------------------


def describe_settings(trace: Trace) -> list[str]:
    """The settings of a run that its line of status names, a part each."""
    settings, models = trace.settings, trace.models
    where = " ".join(str(models[key]) for key in ("device", "dtype") if models.get(key))
    parts = [f"temperature {settings.get('temperature', 1):g}"]
    parts += [f"{key.replace('_', '-')} {settings[key]:g}" for key in CUT_FIELDS if settings.get(key)]
    return [part for part in [*parts, f"seed {settings.get('seed', 0)}", where] if part]


def name_pair(pair: str) -> str:
    """A pair of folders or hub names by their last parts: a page is no place for paths."""
    if (places := parse_pair_name(pair)) is None:
        return f"{pair} models"
    target, draft = (part.rstrip("/").split("/")[-1] for part in (places.target, places.draft))
    return f"target {target}, draft {draft}{' in 8 bits' if places.rounded else ''}"


def describe_edits(edits: dict[tuple[int, str], float], rounds: list[dict[str, Any]]) -> list[str]:
    """Each random number that somebody chose, by the token that it decided; by its place where no round has come to it."""
    what = {"accept": "u", "residual": "the draw", "bonus": "the draw", "draft": "the draft’s draw"}
    tokens = {}
    for round_ in rounds:
        for chip in round_["chips"]:
            tokens[chip["position"], "draft"] = chip["name"]
            if chip["edited"]:
                tokens[chip["position"], "accept"] = chip["name"]
        if ending := round_["ending"]:
            tokens[ending["position"], ending["kind"]] = ending["name"]
    said = []
    for (position, purpose), u in sorted(edits.items()):
        token = tokens.get((position, purpose), f"generated token {position + 1}")
        said.append(f"you set {what[purpose]} of {token} to {format_probability(u, 3).rstrip('0') if u else 0}")
    return said


def describe_times(round_: Round, busy: bool, read: tuple[int, int] | None = None) -> list[str]:
    """What drafting and the target pass took, in words; nothing where no clock ran.

    ``read``: tokens that the pass read, and how many of them are the prompt's; a longer pass takes longer.
    """
    many = len(round_.proposals)
    over = f" over {read[0]} tokens" if read and read[0] > 1 else ""
    prompt = f" ({read[1]} of the prompt)" if read and read[1] else ""
    names = {
        "draft": f"drafting {many} token{'' if many == 1 else 's'}" if many else "",
        "target": f"target pass{over}{prompt}",
        "round": "round",
    }
    ms = {name: 1000.0 * round_.timing[key] for key, name in names.items() if name and key in round_.timing}
    said = ", ".join(f"{name} {took:.{1 if took < 10 else 0}f} ms" for name, took in ms.items())
    return [f"{said}{' on a busy machine' if busy else ''}"] if said else []


def describe_alternatives(word: str, threshold: float, replacement: str | None) -> tuple[str | None, str | None]:
    """What a u below the threshold of a draft token does, and what any other does, with {u} for its value; None where no u can do so."""
    bar = format_probability(threshold)
    accepted = f"With u = {{u}}, below {bar}, {word} is accepted."
    rejected = replacement and f"With u = {{u}}, not below {bar}, {word} is rejected and {replacement} replaces it."
    return accepted if threshold > 0.0 else None, rejected if threshold < 1.0 else None


def count_tokens(trace: Trace, index: int) -> dict[str, str]:
    """Tokens of a round, and of all rounds up to it after the first."""
    count = len(trace.rounds[index].committed)
    total = sum(len(round_.committed) for round_ in trace.rounds[: index + 1])
    so_far = f"{total} token{'s' if total != 1 else ''} from {index + 1} target pass{'es' if index else ''} so far"
    return {"line": f"{count} token{'' if count == 1 else 's'} from 1 target pass", "total": so_far if index else ""}


def name_place(trace: Trace, index: int | None, drafted: int | None) -> str:
    """The position in the text that a distribution is of, with its temperature: of draft token ``index``, where one was drafted, else of the next token."""
    at = f", at temperature {trace.settings.get('temperature', 1):g}"
    if drafted is None:
        return f"the token after the draft{at}" if index else f"the next token{at}"
    token = name_token(read_piece(trace.pieces, drafted), drafted)
    return f"draft token: {token}{at}" if index is None else f"{name_ordinal(index)} draft token: {token}{at}"
