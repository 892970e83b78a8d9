"""What the page Break it says: what a mistake does, when it was detected, what sampling cannot show, and what speed tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specviz.evidence.mistakes.comparison import DistanceCurve, TextPair, compare_acceptance_rates
from specviz.evidence.mistakes.published import OFFERED_MISTAKES, UNSAMPLED_TIERS, PublishedMistake
from specviz.evidence.results import NO_DRAFT, NOTHING_TESTED, SIZES, describe_unreached
from specviz.records import load_toml
from specviz.statistics.finding import format_p_for_table
from specviz.web.common import html
from specviz.web.common.html import TextLine
from specviz.web.common.side_by_side.words import (
    PageVerdict,
    announce_next_test,
    build_early_verdict,
    count_samples,
    describe_conditions,
    describe_detectable,
    describe_prompt,
    describe_rejection,
    format_percent,
    shorten_prompt,
)
from specviz.web.mistakes.state import MistakeQuestion, MistakeState

if TYPE_CHECKING:
    from specviz.evidence.results import InterimTest

TEXTS = load_toml("texts/mistakes")


def order_mistakes() -> list[str]:
    """All mistakes: those reported in real projects first, and last those that sampling cannot show."""
    return sorted(
        OFFERED_MISTAKES,
        key=lambda name: (not (mistake := OFFERED_MISTAKES[name]).can_be_sampled, mistake.thread == "derived"),
    )


def title_mistake(name: str) -> str:
    """An entry of the list: the mistake, and where it was made."""
    if name not in OFFERED_MISTAKES:
        return "Hidden: which decoder is wrong?"
    mistake = OFFERED_MISTAKES[name]
    projects = " and ".join(mistake.projects[: 2 if mistake.can_be_sampled else 1])
    parts = (
        _name_mistake(mistake),
        f"in {projects}" if projects else "",
        "" if mistake.can_be_sampled else "not shown by sampling",
    )
    return " · ".join(filter(None, parts))


def _name_mistake(mistake: PublishedMistake) -> str:
    name = mistake.title or mistake.name
    return name[0].upper() + name[1:]


def describe_mistake(mistake: PublishedMistake) -> str:
    """What goes wrong, with the page's apostrophes."""
    return mistake.description.replace("'", "’")


def describe_run(state: MistakeState) -> str:
    """Text, settings and number of samples."""
    question, n = state.question, state.result.n
    said = f"{describe_prompt(question.settings.prompt)}: {describe_conditions(question.settings)}"
    said += f" · {n:,} samples of each so far" if n else ""
    return said if question.is_hidden else f"{said}. {TEXTS['settings']}"


def describe_source(mistake: PublishedMistake) -> str:
    """Who reported it, with links, as markdown; the words come from this package alone."""
    if mistake.thread == "derived":
        return "Not seen in a real decoder so far."
    if mistake.thread == "common":
        return "A common mistake, found in many decoders."
    return "Reported in " + ", ".join(f"[{words}]({link})" if link else words for words, link in mistake.threads) + "."


def describe_question(question: MistakeQuestion) -> str:
    """What is wrong, and who reported it; empty where it is hidden."""
    if (mistake := question.mistake) is None or question.is_hidden:
        return ""
    sentence = f"**{_name_mistake(mistake)}.** {describe_mistake(mistake)} {describe_source(mistake)}"
    if not mistake.on_shared_distributions:
        sentence += f" Sampling it takes the full decoder, so this page draws at most {question.max_samples:,} samples."
    return sentence


def describe_enumeration(mistake: PublishedMistake | None, toy: float) -> str:
    """How far the mistake is from the target on small tables, where every outcome is added up; empty where that says nothing."""
    moved = f"{format_percent(toy)} of the" if toy else "no"
    if toy or (mistake and mistake.tier in ("injected random number", "tokens per pass")):
        return f"In a worked example with few tokens, where every outcome is added up, this mistake moves {moved} probability."
    return ""


def build_verdict(state: MistakeState) -> PageVerdict:
    """What the tests have found so far."""
    question, result, rejected = state.question, state.shown_result, state.find_rejection(state.shown_result)
    if not state.is_revealed:
        return PageVerdict("waiting", *_describe_game(state))
    if question.is_hidden:
        return _build_game_verdict(state)
    if rejected:
        return PageVerdict("rejected", _announce_detection(rejected), _explain_detection(state, rejected))
    if question.mistake and not question.mistake.can_be_sampled:
        return _build_unshown_verdict(state, question.mistake)
    if early := build_early_verdict(state, "Sample, and watch the distance of the wrong rule part from that of the right one."):
        return early
    if result.n == result.same:
        words = f"On this text the two decoders wrote the same in all {result.n:,} samples: with the same random numbers the mistake changes nothing here."
        return PageVerdict("untold", words, f"Try another text, in Settings. {announce_next_test(state)}")
    found = result.looks[-1][1]
    if found.verdict == NOTHING_TESTED:
        return PageVerdict("untold", "Nothing was tested.", f"{count_samples(found.n)} of the wrong rule, and {NO_DRAFT}")
    words = f"Not detected yet: {found.n:,} samples of the wrong rule show no difference."
    seen = (
        describe_detectable(found) if found.can_show_difference else "All texts share one cell here, so nothing can be decided."
    )
    return PageVerdict(
        "untold",
        words,
        " ".join(filter(None, (seen, *describe_unreached(found.exercised), _describe_pooling(found), announce_next_test(state)))),
    )


def _build_unshown_verdict(state: MistakeState, mistake: PublishedMistake) -> PageVerdict:
    """The verdict on a mistake that sampling cannot show, which samples confirm."""
    tier, looks = UNSAMPLED_TIERS[mistake.tier], state.shown_result.looks
    confirmation = f" As expected, {count_samples(looks[-1][1].n)} show no difference." if looks else ""
    return PageVerdict("unshown", tier["verdict"], tier["instead"] + confirmation)


def _announce_detection(test: InterimTest) -> str:
    return f"Detected: {test.n:,} samples were enough."


def _explain_detection(state: MistakeState, test: InterimTest) -> str:
    """How clear it is, what the test before saw, and what the tests say of the correct decoder."""
    looks, right = state.shown_result.looks, 1 - state.question.wrong_decoder[1]
    said, place = describe_rejection(test), SIZES.index(test.n)
    if place:
        said += f" At {SIZES[place - 1]:,} samples the test did not reject it yet."
    if any(pair[right].verdict == "rejected" for pair in looks):
        return f"{said} The right rule was rejected too: a false alarm, which happens in 1 of 1,000 runs."
    return f"{said} The right rule, tested alike, passes."


def _describe_pooling(test: InterimTest) -> str:
    if test.pooled < 0.2:
        return ""
    return f"{test.pooled:.0%} of the probability lies in groups of several texts. Differences inside a group show only in the longer test on the command line, below."


def _describe_game(state: MistakeState) -> tuple[str, str]:
    if not state.shown_result.n:
        return "At most one of these two decoders is wrong. Which?", TEXTS["quiz"]
    return f"{state.shown_result.n:,} samples of each. Is one of them wrong?", TEXTS["answer"]


def _build_game_verdict(state: MistakeState) -> PageVerdict:
    question, found = state.question, state.find_rejection(state.shown_result)
    good = state.guess == question.answer
    mark, answer = ("consistent", "Right.") if good else ("rejected", "No.")
    if not question.mistake:
        return PageVerdict(
            mark,
            f"{answer} Neither is wrong: both follow the target’s distribution.",
            f"You answered after {state.guessed_at:,} samples.",
        )
    seen = (
        f"At {found.n:,} samples the test could see it"
        if found
        else "The test does not see it yet; more samples show when it does"
    )
    return PageVerdict(
        mark,
        f"{answer} Decoder {question.answer} is wrong.",
        f"**{_name_mistake(question.mistake)}.** {describe_mistake(question.mistake)} {describe_source(question.mistake)} {seen}; you answered after {state.guessed_at:,}.",
    )


def describe_curve(curve: DistanceCurve, state: MistakeState) -> str:
    """The sentence of meaning under the curve."""
    mistake, same, n = state.question.mistake if state.is_revealed else None, state.shown_result.same, state.shown_result.n
    said = "The distance of a right decoder is sampling noise alone: it stays in the gray band 99 times in 100, and falls with more samples."
    if mistake and not mistake.can_be_sampled:
        return f"{said} So does that of this mistake, as far as samples can tell."
    said += " That of a wrong one levels off."
    if not n or state.question.is_hidden:
        return said
    if not any(right for right, _ in curve.tv):
        said += " Here the right rule’s distance is always 0, which a logarithmic axis cannot show."
    length = state.question.settings.max_new_tokens
    of = f" of {'1 token' if length == 1 else f'{length} tokens'}"
    if same == n:
        return f"The two rules wrote the same in all {n:,} samples. {said}"
    return f"With the same random numbers, the two rules wrote the same in {same:,} of {n:,} samples{of}; the mistake shows in the others. {said}"


def describe_acceptance(state: MistakeState) -> str:
    """The lesson of the second picture."""
    speeds, question = state.shown_result.speeds, state.question
    counted = f"Counted on {speeds[0].texts} longer texts of each."
    arm = question.wrong_index
    if not state.is_revealed or arm is None:
        return f"A higher acceptance rate is faster, but does not say which decoder is correct. {counted}"
    right, wrong = speeds[1 - arm], speeds[arm]
    way = compare_acceptance_rates(right, wrong)
    if way > 0:
        said = f"The mistake accepts {wrong.acceptance_rate:.0%} of its draft tokens instead of {right.acceptance_rate:.0%}: **it looks faster because it is wrong.** "
        return said + f"A higher acceptance rate does not mean a better decoder. {counted}"
    if way < 0:
        return f"The mistake accepts fewer draft tokens, {wrong.acceptance_rate:.0%} instead of {right.acceptance_rate:.0%}: it is wrong and slower. {counted}"
    if wrong.per_pass < 0.95 * right.per_pass:
        return (
            f"Each target pass writes {wrong.per_pass:.2f} tokens instead of {right.per_pass:.2f}. The acceptance rates, {wrong.acceptance_rate:.1%} and "
            f"{right.acceptance_rate:.1%}, are too close to tell apart on these texts. {counted}"
        )
    return f"The two acceptance rates are too close to tell apart on these texts, so speed does not show this mistake. {counted}"


def describe_cells(state: MistakeState) -> str:
    """The sentence under the picture of the wrong rule's cells."""
    arm = state.shown_result.arms[state.question.wrong_decoder[1]]
    beyond, bars = len(arm.rows.outliers), len(arm.rows.probs)
    if not beyond:
        said = "So far sampling noise explains every bar of the wrong rule."
    else:
        said = f"Sampling noise does not explain {beyond} of the wrong rule’s {bars} bars: {'the one that ends' if beyond == 1 else 'those that end'} at a diamond."
    if left_out := arm.undrawn_mass:
        said += f" Not drawn: all other texts together, {left_out:.0%}."
    return f"{said} A dot stands for a space, and … for all other texts that begin like this."


def build_tests_table(state: MistakeState) -> list[dict[str, str]]:
    """Every test of both decoders as a row."""
    return [
        {"samples": f"{one.n:,}", "decoder": name, "test": test.name, "p-value": format_p_for_table(test.p_value), "level": format_p_for_table(test.alpha),
         "found": "a difference" if test.rejected else "no difference"}
        for pair in state.shown_result.looks for name, one in zip(state.question.names, pair, strict=True) for test in one.tests
    ]  # fmt: skip


def build_texts_title(state: MistakeState) -> str:
    """What stands over the texts side by side."""
    alike, of = state.shown_result.alike
    if alike == of:
        return f"**Same random numbers, same texts.** In all {of} texts of 16 tokens the two rules wrote the same."
    return (
        f"**Same text, same random numbers, two rules.** {of - alike} of {of} longer texts differ. In the first of them, ≠ marks the first "
        "word that differs; from there on the texts go separate ways. What is clumsy in them is the small target’s own."
    )


def build_texts_html(question: MistakeQuestion, pairs: tuple[TextPair, ...]) -> str:
    """The texts side by side."""
    before = shorten_prompt(question.settings.prompt)
    return html.build_two_texts(
        TextLine(f"{one.number} · {name}", kind, before, one.same, token if one.first[0] != one.first[1] else None, rest)
        for one in pairs
        for name, kind, token, rest in zip(question.names, ("right", "wrong"), one.first, one.rest, strict=True)
    )
