"""The eight questions. Every situation and every number is of the recorded runs; the sentences say what was seen there.

A wrong answer has an explanation and a picture of its own. The answers of a visitor stay in the browser.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from specviz.evidence.serving_setups import records
from specviz.evidence.serving_setups.records import SetupComparison
from specviz.figures import pages
from specviz.figures.narration import format_probability
from specviz.glyphs import Glyph
from specviz.records import ASSETS, read_file
from specviz.speed.estimate import Estimate, describe_interval
from specviz.speed.records import methods
from specviz.speed.records.batches import BatchSpeeds
from specviz.speed.records.methods import FirstToken, MethodComparison, MethodRow
from specviz.statistics.finding import ALPHA, POWER
from specviz.trace import Decision, Trace
from specviz.web.drafting_methods.method_figures import name_first_token
from specviz.web.one_token.payload import list_positions
from specviz.web.questions.figures import Bar, BarPicture, draw_amounts, draw_estimates, draw_over_tokens

HEADLINE = "What would you expect?"
LEDE = (
    "Eight situations from recorded runs. Answer first, then see what happened. The first four need only the pages before this one; "
    "the others begin with the term they need."
)
INTERVAL = "95% interval"
SHARES = (("p", "target’s exact distribution"), ("plain", "samples"))
SHOWN = 4  # tokens beside all others where samples are shown
OFF, CELLS = 0.02, 15  # the distance and the number of compared tokens of the question about samples


@dataclass(frozen=True, slots=True)
class Option:
    """An answer: its words, why it is right or wrong, and the picture that shows it."""

    text: str
    why: str
    picture: BarPicture
    right: bool = False


@dataclass(frozen=True, slots=True)
class PageLink:
    """A page by its name, the parameters of its address, and the words of the link."""

    name: str
    query: Mapping[str, str]
    words: str


@dataclass(frozen=True, slots=True)
class Question:
    """One situation and what it asks.

    key      its name in addresses and in what the browser keeps
    page     where the situation can be seen
    picture  what is shown before the answer; None: nothing
    term     a sentence that teaches a term no page before this one does; empty where none is needed
    """

    key: str
    situation: str
    asks: str
    options: tuple[Option, ...]
    page: PageLink
    picture: BarPicture | None = None
    term: str = ""

    def __post_init__(self) -> None:
        if sum(option.right for option in self.options) != 1:
            raise ValueError(f"question {self.key!r} must have one right answer")


@dataclass(frozen=True, slots=True)
class RecordedRuns:
    """The recorded runs that the questions are about. methods: those at temperature 1."""

    opening: Trace
    methods: MethodComparison
    batches: BatchSpeeds
    setups: SetupComparison


def load_recorded_runs() -> RecordedRuns:
    """The runs that come with the project. Raises TraceError where one is missing or damaged."""
    traces = ASSETS / "traces"
    return RecordedRuns(
        read_file(traces / "opening.json", Trace.from_json),
        read_file(traces / "methods.json", methods.load_comparisons)["1"],
        read_file(traces / "batches.json", BatchSpeeds.from_json),
        read_file(traces / "setups.json", records.load_setups),
    )


def build_questions_payload(
    recorded: RecordedRuns, linked: Callable[[PageLink], PageLink] = lambda page: page, among: tuple[pages.Page, ...] = pages.ALL
) -> dict[str, Any]:
    """All that the component needs, as JSON. linked: where a page is found, if not in the app; among: the pages that are read in this order."""
    after = pages.next_page("questions", among)
    return {
        "pair": recorded.methods.settings.pair,
        "headline": HEADLINE,
        "lede": LEDE,
        "onward": {"name": after.path, "title": after.title},
        "questions": [
            {
                "key": one.key,
                "term": one.term,
                "situation": one.situation,
                "asks": one.asks,
                "picture": one.picture and one.picture.payload(),
                "options": [
                    {"text": option.text, "why": option.why, "picture": option.picture.payload(), "right": option.right}
                    for option in one.options
                ],
                "page": asdict(linked(one.page)),
            }
            for one in list_questions(recorded)
        ],
    }


def list_questions(recorded: RecordedRuns) -> tuple[Question, ...]:
    """In the order of the page."""
    opening, drafting = recorded.opening, recorded.methods
    return (
        ask_faster_draft(drafting),
        ask_adversary(drafting),
        ask_rejected_mass(opening),
        ask_redraw_from_p(opening),
        ask_tree(drafting),
        ask_samples(),
        ask_when_not_faster(recorded.batches),
        ask_quantized(recorded.setups),
    )


def ask_faster_draft(one: MethodComparison) -> Question:
    """Tokens per pass against the cost of drafting."""
    small, same, alone = _find_row(one, "draft"), _find_row(one, "oracle"), _find_row(one, "target")
    per_pass = draw_amounts(
        "tokens per round",
        {
            name: (row.per_pass, f"{row.per_pass:.2f}")
            for name, row in (("A: a small model", small), ("B: the target itself", same))
        },
    )
    a, b = "A: a small model", "B: the target itself"
    rounds = draw_estimates(
        f"milliseconds per round ({_under(one)})",  # its tokens times the time per token
        {name: row.ms.times(row.per_pass, "ms/round") for name, row in ((a, small), (b, same))},
        describe_interval(one.runs),
        b,
    )
    most, length = one.settings.gamma + 1, one.settings.max_new_tokens
    whole = abs(same.per_pass - length / math.ceil(length / most)) < 0.005
    cut = f" ({most}, but the last round of a text is cut short)" if whole and length % most else ""
    measured = f"{_format_ms(small)} per token with A, {_format_ms(same)} with B"
    return Question(
        "faster",
        f"Two decoders write the same kind of text at temperature {one.settings.temperature:g}, with up to {one.settings.gamma} draft tokens a "
        "round. In A a small model drafts. In B the target drafts for itself, so that p = q and its draft tokens are accepted.",
        "Which one writes faster?",
        (
            Option(
                "B, because it gets more tokens out of each round.",
                f"It gets more: {same.per_pass:.2f} tokens a round{cut}, and A {small.per_pass:.2f}. But each of B’s draft tokens costs a whole step of the target, "
                f"so its rounds take much longer, and nothing is saved: {measured}, {_format_ms(alone)} without a draft.",
                rounds,
            ),
            Option(
                "Neither: the target decides in both.",
                "The target decides what is written, not how long it takes. A round takes the time of the draft’s steps and of one target pass: "
                f"{measured}.",
                _draw_times(one, {a: small, b: same}, a),
            ),
            Option(
                "A, because its draft tokens cost much less.",
                f"A gets fewer tokens out of a round ({small.per_pass:.2f}, not {same.per_pass:.2f}), but its draft steps are cheap: {measured}, {_format_ms(alone)} without a draft. Speed is the tokens of a "
                "round over the time of the round, and drafting is part of that time.",
                _draw_times(one, {"no draft": alone, a: small, b: same}, a),
                right=True,
            ),
        ),
        PageLink("drafting_methods", {"row": "draft"}, "Compare the drafting methods"),
        per_pass,
    )


def ask_adversary(one: MethodComparison) -> Question:
    """A bad draft costs speed, never correctness."""
    bad, alone = _find_row(one, "adversarial"), _find_row(one, "target")
    first, plain = bad.first, alone.first
    hardly = ", hardly more than its replacement" if bad.per_pass < 1.05 else ""
    return Question(
        "adversary",
        "The draft model is replaced by an adversary, whose distribution is the draft’s upside down: the least likely tokens are suggested most "
        "often. The target and the acceptance rule stay as they are.",
        "What happens to the text?",
        (
            Option(
                "It gets worse: some of the bad suggestions slip in.",
                "A bad suggestion is accepted with probability min(1, p/q), so none is written more often than the target’s p. "
                f"{_within(first, 'with the adversary')}",
                _sampled(f"first token: exact distribution, and {first.n:,} samples written with the adversary", first),
            ),
            Option(
                "It follows the same distribution, and takes longer.",
                f"Whatever the draft suggests, the rule gives the target’s distribution. The adversary only costs time: {_format_ms(bad)} per token, "
                f"{_format_ms(alone)} without any draft. A round gives {bad.per_pass:.2f} tokens{hardly}.",
                _draw_times(one, {"no draft": alone, "adversary": bad}, "adversary"),
                right=True,
            ),
            Option(
                "With the same random numbers it is the same text, word for word, only later.",
                "The distribution is the same, the single text is not. The random numbers decide about other suggestions, so other tokens of the same "
                "distribution are drawn. Both kinds of samples differ from the exact distribution by chance only, and so from each other.",
                _two_samples(plain, first),
            ),
        ),
        PageLink("drafting_methods", {"row": "adversarial"}, "See the adversary among the drafting methods"),
    )


def ask_rejected_mass(trace: Trace) -> Question:
    """The replacement is drawn from the residual distribution."""
    place, names, slots = _find_rejection(trace)
    beta = sum(slot["overlap"] for slot in slots)
    top = max(range(len(slots) - 1), key=lambda i: slots[i]["p"])
    most = [slot["overlap"] + (1.0 - beta) * (i == top) for i, slot in enumerate(slots)]
    again = [slot["overlap"] + (1.0 - beta) * slot["q"] for slot in slots]
    over_ = max(range(len(slots) - 1), key=lambda i: again[i] - slots[i]["p"])
    gains = max(range(len(slots) - 1), key=lambda i: slots[i]["residual"])
    again_ = ", which was just rejected," if names[top] == place["draft"] else ""
    return Question(
        "refused",
        f"After “{place['before']}” the draft model suggested {place['draft']}, and the target rejected it. The bars show what both models gave "
        "to the next token.",
        "Which token takes its place?",
        (
            Option(
                "One drawn in proportion to p − q, among the tokens where p is larger.",
                f"Accepted draft tokens already bring each token min(p, q), {format_probability(beta)} in all. What is missing up to p is {format_probability(1.0 - beta)} in all. Rescaled "
                f"to 1 it is the residual distribution, here with {format_probability(slots[gains]['residual'] / (1.0 - beta))} at {names[gains]}.",
                _made(names, slots, [slot["residual"] for slot in slots], "residual", "replaced from the residual"),
                right=True,
            ),
            Option(
                "The token that the target finds most likely.",
                f"Then {names[top]}{again_} would be written with probability {format_probability(most[top])} instead of {format_probability(slots[top]['p'])}, and others too "
                "rarely. The output would be more predictable than the target.",
                _made(
                    names,
                    slots,
                    [(1.0 - beta) * (i == top) for i in range(len(slots))],
                    "wrong",
                    "replaced by the target’s most likely token",
                ),
            ),
            Option(
                "Another draw from the draft’s q.",
                f"Then the draft would have a say in the text: {names[over_]} would be written with probability {format_probability(again[over_])} "
                f"instead of {format_probability(slots[over_]['p'])}. Nothing checks a replacement, so it has to bring just what is still missing up to p.",
                _made(names, slots, [(1.0 - beta) * slot["q"] for slot in slots], "wrong", "replaced by another draw from q"),
            ),
        ),
        PageLink("one_token", {"from": place["id"]}, "Drag these bars yourself"),
        _both(names, slots),
    )


def ask_redraw_from_p(trace: Trace) -> Question:
    """Redrawing from p gives what was accepted already a second time."""
    place, names, slots = _find_rejection(trace)
    beta = sum(slot["overlap"] for slot in slots)
    written = [slot["overlap"] + (1.0 - beta) * slot["p"] for slot in slots]
    over_ = max(range(len(slots) - 1), key=lambda i: written[i] - slots[i]["p"])
    under = min(range(len(slots) - 1), key=lambda i: written[i] - slots[i]["p"])
    picture = _made(names, slots, [(1.0 - beta) * slot["p"] for slot in slots], "wrong", "redrawn from p")
    left_out = _without(slots)
    excess = f"{names[over_]} is written with probability {format_probability(written[over_])} instead of {format_probability(slots[over_]['p'])}, {names[under]} with "
    excess += f"{format_probability(written[under])} instead of {format_probability(slots[under]['p'])}"
    return Question(
        "redraw",
        "Somebody writes a decoder: draft tokens are accepted with probability min(1, p/q), and after a rejection the token is drawn from p, the "
        f"target’s own distribution. The bars are those of question 3, after “{place['before']}”.",
        "Does p come out?",
        (
            Option(
                "Yes: a rejected token is replaced by a draw from p itself.",
                f"That draw follows p, but it is not all that comes out: accepted draft tokens come out as well. Together they are too much of some "
                f"tokens: {excess}.",
                picture,
            ),
            Option(
                "Only if the rejected token is left out of the redraw.",
                f"Leaving it out does not help the others: {names[over_]} is then written with probability "
                f"{format_probability(slots[over_]['overlap'] + left_out[over_])} instead of {format_probability(slots[over_]['p'])}. It already comes out with all of its p as an "
                "accepted draft token, so any further draw of it is too much.",
                _made(names, slots, left_out, "wrong", "redrawn from p without the rejected token"),
            ),
            Option(
                "No: the tokens that both models like come out too often.",
                f"What both models agree on has come out as accepted draft tokens already, and the redraw adds to it: {excess}. The residual leaves "
                "it out: it holds only what the draft gives too little.",
                picture,
                right=True,
            ),
        ),
        PageLink("mistakes", {}, "Break it: this mistake and others, running"),
        _both(names, slots),
    )


def ask_tree(one: MethodComparison) -> Question:
    """A tree raises tokens per pass and the cost of a pass."""
    chain, wide = _find_row(one, "eagle"), _find_row(one, "eagle-wide")
    times = _draw_times(one, {"chain": chain, "tree": wide}, "tree")
    tokens = f"{wide.per_pass:.2f} tokens per target pass instead of {chain.per_pass:.2f}"
    larger = f"{wide.nodes:.1f} draft tokens in each pass instead of {chain.nodes:.1f}"
    return Question(
        "tree",
        "One draft, an EAGLE head (a layer that reads the target’s own states), suggests a chain or a tree. "
        f"The chain has up to {one.settings.gamma} draft tokens, one after the other. The tree has three side by side, two after each of them, and one after each of those. The temperature is {one.settings.temperature:g}.",
        "What does the tree buy?",
        (
            Option(
                "A better text: the target can choose among branches.",
                f"The text follows the same distribution. {_within(wide.first, 'with the tree')} More branches are only more chances that a draft "
                "token is accepted.",
                _sampled(f"first token: exact distribution, and {wide.first.n:,} samples written with the tree", wide.first),
            ),
            Option(
                "More tokens out of each target pass, for a larger pass.",
                f"It gives {tokens}, with {larger}. Whether that pays depends on what a larger pass costs. Measured here: {_format_ms(wide)} per token, "
                f"{_format_ms(chain)} with the chain.{_apart(wide.ms, chain.ms)}",
                draw_amounts(
                    "tokens per target pass",
                    {"chain": (chain.per_pass, f"{chain.per_pass:.2f}"), "tree": (wide.per_pass, f"{wide.per_pass:.2f}")},
                    "tree",
                ),
                right=True,
            ),
            Option(
                "Speed: the more tokens per pass, the faster.",
                f"Only where a larger pass costs no more. The tree gives {tokens}, but with {larger}. Measured here: {_format_ms(wide)} per token, "
                f"{_format_ms(chain)} with the chain.{_apart(wide.ms, chain.ms)}",
                times,
            ),
        ),
        PageLink("drafting_methods", {"row": "eagle-wide"}, "Walk through such a tree"),
        term="In a draft tree the draft suggests several tokens for the same place, and goes on after each of them; one target pass checks them all.",
    )


def ask_samples() -> Question:
    """How many samples a distance needs; the formula of statistics/power.py."""
    from specviz.statistics.power import detectable_tv, draws_needed  # scipy, which a page of another run can do without

    need = draws_needed(OFF, CELLS - 1)
    enough = _round_to_two_digits(need)
    few, some, many = enough // 100, enough // 10, 100 * enough
    seen = {n: detectable_tv(CELLS - 1, n) for n in (few, some, enough, many)}

    def picture(now: int) -> BarPicture:
        return draw_amounts(
            f"smallest total variation that is detected {100 * POWER:.0f} times in 100",
            {f"{n:,} samples": (tv, format_probability(tv)) for n, tv in seen.items()},
            f"{now:,} samples",
            (OFF, f"the server’s error, {OFF:g}"),
        )

    return Question(
        "samples",
        f"A server’s output is off by a total variation of {OFF:g}, over {CELLS} tokens. A test must detect it {100 * POWER:.0f} times in 100, and raise a "
        f"false alarm once in {1 / ALPHA:,.0f} times at most. With {few:,} samples it detects {format_probability(seen[few])}. Four times as many samples have half the "
        "sampling noise.",
        "How many samples does it take?",
        (
            Option(
                f"About {few:,}.",
                f"Sampling noise is then ten times too large: with {few:,} samples the test detects only distances of {format_probability(seen[few])} and more. If it "
                f"finds nothing, that says nothing about {OFF:g}.",
                picture(few),
            ),
            Option(
                f"About {some:,}.",
                f"With {some:,} samples the test detects distances of {format_probability(seen[some])} and more: sampling noise still hides the error. A third of the "
                "noise needs about ten times as many samples.",
                picture(some),
            ),
            Option(
                f"About {enough:,}.",
                f"From {few:,} samples on, {format_probability(seen[few])} is detected. An error of {OFF:g} is about a tenth of that, so it needs about a hundred times as many: "
                f"computed, {need:,}.",
                picture(enough),
                right=True,
            ),
            Option(
                f"About {many:,}.",
                f"That would do, but it is a hundred times more than it takes: so many samples detect a distance of {format_probability(seen[many])}, a tenth of the "
                "error.",
                picture(many),
            ),
        ),
        PageLink("exactness", {}, "Choose a distance and see what it needs"),
        term="Total variation is the distance between two distributions: half the sum of the absolute differences of their probabilities, 0 if they are "
        "equal and 1 if they have nothing in common.",
    )


def ask_when_not_faster(batches: BatchSpeeds) -> Question:
    """Many texts at once use the idle arithmetic themselves."""
    key = f"{batches.settings.pair} {batches.settings.temperature:g}"
    best = {rows: batches.best(key, rows) for rows in batches.rows}
    names = {rows: f"{_count_things(rows, 'text')}, {_count_things(gamma, 'draft token')}" for rows, (gamma, _) in best.items()}
    one, last = batches.rows[0], batches.rows[-1]

    def picture(rows: Sequence[int], now: int) -> BarPicture:
        return draw_estimates(
            f"speed with draft tokens over speed without; the fastest of {batches.gammas[0]} to {batches.gammas[-1]} draft tokens a round",
            {names[n]: best[n][1] for n in rows},
            INTERVAL,
            names[now],
            (1.0, "no gain"),
        )

    single, many = best[one][1], best[last][1]
    said = f"{single.value:.2f} times as fast with one text, {many.value:.2f} times ({INTERVAL} {many.low:.2f} to {many.high:.2f}) with {last}"
    idle = (
        "With one text the processor mostly waits for the weights, so checking a few more tokens in the same pass costs little."
    )
    return Question(
        "when-not",
        f"A server writes 1 to {last} texts at once (temperature {batches.settings.temperature:g}{_describe_machine(batches.machine)}). For each number of "
        "texts it is measured with the number of draft tokens that is fastest there.",
        "When should it not speculate?",
        (
            Option(
                "With many texts at once.",
                f"Measured: {said}. {idle} With many texts the processor is busy already, so extra tokens cost time. {_between(best)}",
                picture(batches.rows, last),
                right=True,
            ),
            Option("With a single text.", f"There it gains most: {said}. {idle}", picture(batches.rows, one)),
            Option(
                "Never: the output is exact, so it cannot hurt.",
                f"Exact says what is written, not how long it takes: {said}. Draft steps and rejected tokens cost time.",
                picture((one, last), last),
            ),
        ),
        PageLink("speed", {}, "Plan for a number of texts"),
        term="A server can write several texts at once: one target pass reads the weights once, and computes the next token of every text.",
    )


def ask_quantized(one: SetupComparison) -> Question:
    """Exactness is relative to the target as it is served."""
    row = next(row for row in one.rows if row.key == "int8")
    wrong = next(row for row in one.rows if row.key == "int8-pass")
    moved, own = format_probability(row.apart.value), format_probability(row.own.worst)
    kept, whole = "draft tokens, each token rounded by itself", "draft tokens, a pass rounded as a whole"
    moves = {
        "quantization": (row.apart.value, moved),
        kept: (row.own.mean, format_probability(row.own.mean)),
        whole: (wrong.own.mean, format_probability(wrong.own.mean)),
    }
    title = "how far the next token’s distribution moves, mean total variation"
    from_either = {"from the weights before rounding": moves["quantization"], "from the quantized target": moves[kept]}
    return Question(
        "quantized",
        "The target is served in 8 bits. What it computes for a token is rounded too, for each token by itself. The draft and the acceptance rule stay as "
        "they are.",
        "Which distribution does the output follow?",
        (
            Option(
                "That of the weights before rounding: the rule repairs it.",
                f"The rule only knows the p that it is given. Quantization moves that p by a total variation of {moved} on average, and the output moves "
                "with it.",
                draw_amounts(
                    "how far the output’s distribution is, mean total variation", from_either, "from the quantized target"
                ),
            ),
            Option(
                "Neither: a quantized target cannot be decoded exactly.",
                f"It can: draft tokens move the quantized target’s distribution by {own} at most, which is the rounding of sums. It goes wrong if all tokens "
                f"of a pass are rounded as a whole: then draft tokens change how the others are rounded, and the distribution moves by "
                f"{format_probability(wrong.own.mean)} on average.",
                draw_amounts(title, {name: moves[name] for name in (kept, whole)}, kept),
            ),
            Option(
                "That of the quantized target.",
                f"Exactness is relative to the target as it is served. Draft tokens move its distribution by a total variation of {own} at most, which is "
                f"the rounding of sums. Quantization itself moved it by {moved}.",
                draw_amounts(title, moves, kept),
                right=True,
            ),
        ),
        PageLink("serving_limits", {}, "Compare ways of serving a target"),
        term="Quantization rounds the numbers of a model to fewer bits: with 8 bits instead of 32 there are only 256 different values, and a quarter as much "
        "to read from memory.",
    )


def _find_row(one: MethodComparison, key: str) -> MethodRow:
    found = one.row(key)
    if found is None or found.ms is None or found.first is None:
        raise ValueError(f"the record of drafting methods has no numbers for {key!r}")
    return found


def _format_ms(row: MethodRow) -> str:
    return f"{row.ms.value:.2f} ms"


def _draw_times(one: MethodComparison, rows: Mapping[str, MethodRow], now: str) -> BarPicture:
    """Milliseconds per token, with what they were measured under."""
    title = f"milliseconds per token, lower is faster ({_under(one)})"
    return draw_estimates(title, {name: row.ms for name, row in rows.items()}, describe_interval(one.runs), now)


def _under(one: MethodComparison) -> str:
    return f"temperature {one.settings.temperature:g}{_describe_machine(one.machine)}"


def _describe_machine(machine: Mapping[str, Any]) -> str:
    """Such as ", AMD EPYC, 2 threads"; empty for a record that does not say."""
    name, threads = machine.get("processor"), machine.get("threads")
    return f", {name}, {_count_things(threads, 'thread')}" if name and threads else ""


def _count_things(n: int, thing: str) -> str:
    return f"{n} {thing}" if n == 1 else f"{n} {thing}s"


def _within(first: FirstToken, how: str) -> str:
    """Whether samples are as close to the exact distribution as sampling noise leaves them, as a sentence."""
    verb = "no more" if first.tv <= first.upper else "more"
    return f"The shares of {first.n:,} first tokens written {how} differ from the exact probabilities by {verb} than sampling noise explains."


def _between(best: Mapping[int, tuple[int, Estimate]]) -> str:
    """What the factors between the first and the last number of texts show, as their intervals tell."""
    if any(more.low > fewer.high for (_, fewer), (_, more) in pairwise(best.values())):
        return "In between the gain goes up and down on this machine, by more than noise."
    return "Differences between neighbors are within their intervals, so they may be noise."


def _apart(one: Estimate, other: Estimate) -> str:
    """A sentence where two intervals overlap."""
    overlap = one.low <= other.high and other.low <= one.high
    return " The intervals of the two times overlap, so neither is shown to be faster." if overlap else ""


def _find_rejection(trace: Trace) -> tuple[dict[str, Any], list[str], list[dict[str, Any]]]:
    """The rejected draft token of a run at which even the mildest wrong replacement is easiest to see: its position, the names of its bars, and
    the bars, the rest of the vocabulary last."""
    places = [place for place in list_positions(trace) if _find_decision(trace, place).accepted is False]
    if not places:
        raise ValueError("the recorded run has no rejected draft token")
    place = max(places, key=lambda one: _mildest(one["slots"]))
    names = ["all others" if slot["glyphs"] is None else f"“{_join_glyphs(slot['glyphs'])}”" for slot in place["slots"]]
    cut, _, words = place["before"].partition(" ")
    before = f"…{words}" if cut.startswith("…") and words else place["before"]  # without half a word
    return place | {"before": before}, names, place["slots"]


def _find_decision(trace: Trace, place: dict[str, Any]) -> Decision:
    round_, token = (int(part) - 1 for part in place["id"].split("."))
    return trace.rounds[round_].proposals[token]


def _mildest(slots: list[dict[str, Any]]) -> float:
    """How far a single bar is off p at least, if a rejected token is replaced by the likeliest one, by another draw from q or from p."""
    left = 1.0 - sum(slot["overlap"] for slot in slots)
    top = max(range(len(slots) - 1), key=lambda i: slots[i]["p"])
    ways = (
        [left * (i == top) for i in range(len(slots))],
        [left * slot["q"] for slot in slots],
        [left * slot["p"] for slot in slots],
        _without(slots),
    )
    return min(max(abs(slot["overlap"] + more - slot["p"]) for slot, more in zip(slots, added, strict=True)) for added in ways)


def _join_glyphs(glyphs: list[Glyph]) -> str:
    """A token in quotes; its first space is not shown, as in every sentence."""
    text = "".join(glyph["t"] for glyph in glyphs)
    return text.removeprefix("·") or text


def _both(names: list[str], slots: list[dict[str, Any]]) -> BarPicture:
    lanes = [
        [Bar((("p", slot["p"]),), format_probability(slot["p"])), Bar((("q", slot["q"]),), format_probability(slot["q"]))]
        for slot in slots
    ]
    return draw_over_tokens("probability of the next token", names, lanes, (("p", "target p"), ("q", "draft q")))


def _made(names: list[str], slots: list[dict[str, Any]], added: list[float], role: str, words: str) -> BarPicture:
    """What is accepted, what replaces a rejected token on top of it, and marks where p ends."""
    lanes = [
        [Bar((("accepted", slot["overlap"]), (role, more)), format_probability(slot["overlap"] + more), slot["p"])]
        for slot, more in zip(slots, added, strict=True)
    ]
    return draw_over_tokens(
        "how often each token is written", names, lanes, (("accepted", "accepted draft tokens"), (role, words)), "the target’s p"
    )


def _without(slots: list[dict[str, Any]]) -> list[float]:
    """What redraws from p bring each token if the rejected token, whichever it was, is left out of them.

    A draft token x is rejected with probability q(x) - min(p, q)(x). The last slot is many tokens: leaving out one of them is leaving
    out next to nothing.
    """
    rejected = [slot["q"] - slot["overlap"] for slot in slots]
    *single, rest = range(len(slots))
    return [
        rejected[rest] * slot["p"] + sum(rejected[x] * slot["p"] / (1.0 - slots[x]["p"]) for x in single if x != y)
        for y, slot in enumerate(slots)
    ]


def _sampled(title: str, first: FirstToken) -> BarPicture:
    names, exact, found = zip(*_shares(first), strict=True)
    lanes = [
        [Bar((("p", p),), format_probability(p)), Bar((("plain", share),), format_probability(share))]
        for p, share in zip(exact, found, strict=True)
    ]
    return draw_over_tokens(title, names, lanes, SHARES)


def _two_samples(one: FirstToken, other: FirstToken) -> BarPicture:
    names, exact, plain = zip(*_shares(one), strict=True)
    drafted = [share for _, _, share in _shares(other)]
    lanes = [
        [Bar((("plain", x),), format_probability(x), p), Bar((("strong", y),), format_probability(y), p)]
        for p, x, y in zip(exact, plain, drafted, strict=True)
    ]
    key = (("plain", "samples without a draft"), ("strong", "samples with the adversary"))
    return draw_over_tokens(
        f"first token: {one.n:,} samples without a draft, and {other.n:,} with the adversary",
        names,
        lanes,
        key,
        "target’s exact distribution",
    )


def _shares(first: FirstToken) -> list[tuple[str, float, float]]:
    """Name, exact probability and share of the samples of the likeliest tokens; all others together at the end."""
    shown = [(f"“{name_first_token(first, i).removeprefix('·')}”", first.probs[i], first.shares[i]) for i in range(SHOWN)]
    return [*shown, ("all others", sum(first.probs[SHOWN:]), sum(first.shares[SHOWN:]))]


def _round_to_two_digits(n: int) -> int:
    """Rounded to two digits: 33,826 is 34,000."""
    scale = 10 ** max(0, len(str(n)) - 2)
    return round(n / scale) * scale
