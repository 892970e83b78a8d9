"""The sentences of Whole text: where the tokens came from, how long each way took, and why."""

from __future__ import annotations

from specviz.figures.numbers import format_probability
from specviz.glyphs import is_special, name_token, read_piece
from specviz.process import BUSY_LOAD
from specviz.records import load_toml
from specviz.speed.records import headline
from specviz.speed.records.divergence_profile import ScoredText
from specviz.speed.records.estimate import describe_interval
from specviz.speed.records.passage import (
    ACCEPTED,
    BONUS,
    LANES,
    REPLACED,
    SPECULATIVE,
    TARGET_ONLY,
    WRITTEN,
    Passage,
)

TEXTS = load_toml("texts/whole_text")
TITLES = {TARGET_ONLY: "Target model alone", SPECULATIVE: "With a draft model"}
TEXT_TITLES = {TARGET_ONLY: "Text without a draft", SPECULATIVE: "Text with a draft"}
SAID = {"accepted": "accepted draft token", "residual": "replacement", "bonus": "bonus token", "target": "target token"}
HINTS = {TARGET_ONLY: "dashed: the models differ most", SPECULATIVE: "click a token to open its round"}  # what is behind tokens
UNEVEN, SLOW = 1.3, 10.0  # slowest over fastest run; tokens per second, about as fast as people read


def count_things(count: int, noun: str, several: str = "") -> str:
    """A number of things; of none of them only the name."""
    return noun if count == 0 else f"{count} {noun if count == 1 else several or f'{noun}s'}"


def build_answer(passage: Passage, average: str = "") -> dict[str, str]:
    """The answer of the page: the speed, and what it is computed from, the passes with a draft and how long one lasts.

    average: the benchmark's speed of the same pair; empty: none. Returns ``text``, ``factor``, ``unit``, ``average`` and ``passes``; all are empty
    until both texts are written.
    """
    alone, drafted = passage.target, passage.speculative
    if passage.read is None or not (alone.seconds and drafted.seconds):
        return dict.fromkeys(("text", "factor", "unit", "average", "passes"), "")
    speed, cost = drafted.speed / alone.speed, drafted.per_round / alone.per_round
    tokens, passes = len(drafted.trace.output_ids), len(drafted.clock)
    equals = "=" if f"{tokens / (passes * round(cost, 2)):.2f}" == f"{speed:.2f}" else "≈"
    return {
        "text": "This text:" if average else "",
        "factor": f"{speed:.2f}",
        "unit": "as fast" if average else "as fast with a draft model" if speed >= 1.0 else "as fast: drafting does not pay here",
        "average": f"on average {average}×" if average else "",
        "passes": f"{count_things(tokens, 'token')} / ({count_things(passes, 'round')}, each as long as {cost:.2f} target-only passes) {equals} {speed:.2f}",
    }


def relate_speed(passage: Passage) -> str:
    """The speed as a quotient, and the benchmark's of the same pair; empty where a text has no time."""
    alone, drafted = passage.target, passage.speculative
    if not (alone.seconds and drafted.seconds):
        return ""
    gained, cost, speed = drafted.tokens_per_pass, drafted.per_round / alone.per_round, drafted.speed / alone.speed
    equals = "=" if f"{round(gained, 2) / round(cost, 2):.2f}" == f"{speed:.2f}" else "≈"
    quotient = f"A round gives {gained:.2f} tokens and lasts {cost:.2f} single passes: {gained:.2f} / {cost:.2f} {equals} {speed:.2f}, at temperature {passage.settings.temperature:g}."
    return f"{quotient} {headline.relate_to_headline(passage.settings)}".strip()


def explain_speed(passage: Passage) -> str:
    """Why a round gives several tokens and takes longer than a pass, and how far the runs agree."""
    alone, drafted, gamma = passage.target, passage.speculative, passage.settings.gamma
    tokens, rounds = count_things(len(drafted.trace.output_ids), "token"), count_things(len(drafted.clock), "round")
    return (
        f"{drafted.tokens_per_pass:.2f} tokens a pass: {tokens} in {rounds}, each with one target pass and up to {count_things(gamma, 'draft token')}. "
        f"A round takes {_format_seconds(drafted.per_round)}: the draft model runs {count_things(gamma, 'time')}, then the target reads "
        f"{count_things(gamma + 1, 'token')}. Without a draft, a pass reads one token and takes {_format_seconds(alone.per_round)}. "
        f"Speed: {_describe_spread(passage)}. {_describe_conditions(passage)}."
    )


def _format_seconds(seconds: float) -> str:
    """A duration with three digits."""
    return f"{seconds:.2f} s" if seconds >= 1.0 else f"{1000 * seconds:#.3g} ms".replace(". ms", " ms")


def _describe_conditions(passage: Passage) -> str:
    """What the speed depends on besides the models and the kind of machine."""
    settings, machine = passage.settings, passage.machine
    cuts = [f"{name.replace('_', '-')} {value:g}" for name, value in settings.cuts.items()]
    said = [
        f"One text at temperature {settings.temperature:g}",
        *cuts,
        f"{count_things(settings.gamma, 'draft token')} per round",
    ]
    return ", ".join(
        [*said, *([f"{machine['threads']} of {machine['cores']} cores"] if "threads" in machine and "cores" in machine else [])]
    )


def describe_divergence(scored_text: ScoredText, place: int) -> str:
    """Both models' likeliest tokens there, and the one that was written."""
    probs = scored_text.divergences[place]
    target, draft = (max(zip(row, probs.tokens, strict=True), key=lambda pair: pair[0]) for row in (probs.p, probs.q or probs.p))
    said = {token: name_token(read_piece(scored_text.pieces, token), token) for token in probs.tokens}
    token, rejected = scored_text.tokens[place], round(100 * (1.0 - scored_text.beta[place]))
    return (
        f"The target’s likeliest token is {said[target[1]]} ({format_probability(target[0])}), the draft’s {said[draft[1]]} ({format_probability(draft[0])}). "
        f"Over the whole vocabulary, the distributions overlap by {100 - rejected}%: the rejection probability is the rest, {rejected}%."
        + (
            ""
            if token == target[1]
            else f" The text has {said[token]}, drawn with probability {format_probability(scored_text.p[place])}."
        )
    )


def describe_tokens(passage: Passage) -> str:
    """Where the tokens came from, counted."""
    counts, total = passage.speculative.counts, len(passage.speculative.trace.output_ids)
    accepted = counts.get(ACCEPTED, 0)
    drawn = [
        f"{counts.get(REPLACED, 0)} as replacement{'s' if counts.get(REPLACED, 0) != 1 else ''} of rejected draft tokens",
        f"{counts.get(BONUS, 0)} as bonus token{'s' if counts.get(BONUS, 0) != 1 else ''} of rounds without a rejection",
    ]
    drawn += [f"{counts[WRITTEN]} without a draft, as no more was left to write"] if WRITTEN in counts else []
    suggested = sum(len(round_.proposals) for round_ in passage.speculative.trace.rounds)
    return (
        f"Of the {total} tokens of speculative decoding, {accepted} {'is an accepted draft token' if accepted == 1 else 'are accepted draft tokens'}, "
        f"of {suggested} that the draft model suggested{_describe_not_accepted(suggested, accepted, counts.get(REPLACED, 0))}. "
        f"The other {total - accepted} were drawn, one at the end of a round: {', '.join(drawn)}. "
        f"That took {len(passage.speculative.trace.rounds)} target passes; target-only sampling took {len(passage.target.trace.rounds)}. "
        "At every place, what comes out, an accepted token or a drawn one, is distributed exactly as the target’s next token."
    )


def _describe_not_accepted(suggested: int, accepted: int, rejected: int) -> str:
    """What became of the others; empty where there are none."""
    unchecked = suggested - accepted - rejected
    parts = [f"{rejected} {'was' if rejected == 1 else 'were'} rejected"] if rejected else []
    parts += (
        [f"{unchecked} {'was' if unchecked == 1 else 'were'} not checked, being behind a rejected one or the end"]
        if unchecked
        else []
    )
    return f" ({', '.join(parts)})" if parts else ""


def compare_texts(passage: Passage) -> str:
    """Why the two texts are the same, or not."""
    if passage.same_text:
        return "Both ways wrote the same text, token for token." + (
            " At temperature 0 nothing is random." if passage.settings.temperature == 0.0 else ""
        )
    return (
        "The texts differ, as any two samples do, and neither is the better one: what is clumsy in them is the target’s own. Even the same random numbers would give different texts, because here they also decide about draft "
        "tokens. Single texts cannot show that both follow the same distribution; the page “Exactness test” can."
    )


def describe_short_texts(passage: Passage) -> str:
    """Where a text is shorter than was asked for, and why; empty where both have their length."""
    asked, counts = passage.settings.max_new_tokens, {key: len(getattr(passage, key).trace.output_ids) for key in LANES}
    short = {key: count for key, count in counts.items() if count < asked}
    if len(short) == 2 and counts[TARGET_ONLY] == counts[SPECULATIVE]:
        return f"Both texts end after {counts[TARGET_ONLY]} of {asked} tokens, {_explain_end(passage, TARGET_ONLY)}."
    whose = {TARGET_ONLY: "The text of target-only sampling", SPECULATIVE: "The text of speculative decoding"}
    return " ".join(
        f"{whose[key]} ends after {count} of {asked} tokens, {_explain_end(passage, key)}." for key, count in short.items()
    )


def _explain_end(passage: Passage, key: str) -> str:
    trace = getattr(passage, key).trace
    last = read_piece(trace.pieces, trace.output_ids[-1]) if trace.output_ids else b""
    return f"with {last.decode()}, which ends a text" if is_special(last) else "because a token ended it or the context was full"


def describe_speed(passage: Passage) -> str:
    """The two clocks compared, with their spread."""
    if (gain := passage.gain) is None:
        return ""
    verdict = "" if gain.value >= 1.0 else "Drafting does not pay here. "
    return f"{verdict}Speculative decoding runs at {gain.value:.2f} times the speed of target-only sampling ({_describe_spread(passage)})."


def _describe_spread(passage: Passage) -> str:
    """Between what the factors of the runs lie."""
    if (gain := passage.gain) is None:
        return "First run"
    return f"{gain.low:.2f} to {gain.high:.2f}, {describe_interval(gain.n)}" if passage.runs > 1 else "One run"


def list_cautions(passage: Passage) -> list[str]:
    """What the reader of these times must know about the machine."""
    said, machine = [], passage.machine
    load, cores = machine.get("load", 0.0), machine.get("cores") or 1
    uneven = max((max(lane.rates) / min(lane.rates) for lane in (passage.target, passage.speculative) if lane.rates), default=1.0)
    if load > BUSY_LOAD * cores:
        said.append(
            f"The machine was busy at the start (load {load:.1f} on {cores} cores). An idle one is faster, and the ratio may differ there."
        )
    elif uneven > UNEVEN:
        said.append(f"The runs differ by a factor of {uneven:.1f}: the machine was doing other work as well.")
    if passage.target.rates and max(passage.target.rates) < SLOW:
        said.append("On this machine these models write no faster than people read.")
    return said


def describe_measurement(passage: Passage) -> str:
    """Machine and method of the times."""
    machine = passage.machine
    where = f"{machine.get('processor', 'a machine')}, {machine.get('threads', '?')} of {machine.get('cores', '?')} cores, load {machine.get('load', 0.0):.1f}"  # fmt: skip
    runs = f"{passage.runs} runs" if passage.runs != 1 else "one run"
    faster = f" {passage.baseline.in_words}" if passage.baseline else ""
    return f"measured {passage.date} on {where}; {runs} after a warm-up of {passage.warm:.1f} s.{' The clocks show the run of median speed.' if passage.runs > 1 else ''}{faster}"
