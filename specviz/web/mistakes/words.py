"""What the page Break it says: the list of mistakes, what each does, when it was detected, what sampling cannot show, and what speed tells."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from specviz.evidence.mistakes.comparison import DistanceCurve, TextPair, compare_acceptance_rates
from specviz.evidence.mistakes.published import REPORTED, UNSAMPLED_TIERS, PublishedMistake
from specviz.evidence.testing.results import NO_DRAFT, NOTHING_TESTED, SIZES, describe_unreached
from specviz.records import load_toml
from specviz.statistics.finding import format_p_for_table
from specviz.web.common import html
from specviz.web.common.html import ALL_SIGNS, TextLine, escape_markdown
from specviz.web.common.pairs import name_pair
from specviz.web.common.side_by_side.state import load_recorded_samples
from specviz.web.common.side_by_side.words import (
    PageVerdict,
    announce_next_test,
    build_early_verdict,
    build_heading,
    count_samples,
    describe_conditions,
    describe_detectable,
    describe_excess,
    describe_rejection,
    format_percent,
    shorten_prompt,
)
from specviz.web.mistakes.state import FIRST, MistakeQuestion, MistakeState, find_rejection

if TYPE_CHECKING:
    from specviz.evidence.testing.results import InterimTest

TEXTS = load_toml("texts/mistakes")
LETTERS = ("A", "B")  # of the two texts
PROJECTS = load_toml("texts/known_mistakes")["projects"]


@lru_cache(maxsize=1)
def build_groups() -> list[dict[str, Any]]:
    """The list of the page: bugs by the number of recorded samples that showed them, then those that samples do not show."""
    recorded = load_recorded_samples()
    results = {one.mistake: one.result for one in recorded.mistakes} if recorded else {}
    needed = {name: found.n for name, result in results.items() if (found := find_rejection(result))}
    sizes = sorted({needed[one.id] for one in list_wrong() if one.id in needed and one.can_be_sampled})
    names: tuple[int | str, ...] = (*sizes, "open", "unshown", "purpose", "exact")
    groups: dict[int | str, list[dict[str, Any]]] = {name: [] for name in names}
    for mistake in sorted(REPORTED.values(), key=lambda one: (one.id != FIRST, not one.is_reported)):
        group = _find_group(mistake)
        shown_by: int | str = needed.get(mistake.id, "open") if group == "sampled" else group
        label = _describe_found(mistake, needed.get(mistake.id), results[mistake.id].n if mistake.id in results else 0)
        groups[shown_by].append(
            {"id": mistake.id, "title": name_mistake(mistake), "where": name_first_report(mistake), "label": label}
        )
    texts = TEXTS["groups"]
    titles = {name: texts["found"].format(n=f"{name:,}") if isinstance(name, int) else texts[name] for name in groups}
    return [{"title": titles[name], "rows": rows} for name, rows in groups.items() if rows]


def build_list_texts() -> dict[str, str | int]:
    """Words around the list, and the number of bugs, which are its first rows."""
    names = ("label", "more", "next", "place")
    return {name: TEXTS["groups"][name].format(all=len(list_wrong()), n="{n}") for name in names} | {"last": len(list_wrong())}


def list_wrong() -> list[PublishedMistake]:
    """The bugs: all but what is lossy on purpose, and what was reported and is exact."""
    return [one for one in REPORTED.values() if _find_group(one) in ("sampled", "unshown")]


def _find_group(mistake: PublishedMistake) -> str:
    if mistake.tier == "exact":
        return "exact"
    if mistake.on_purpose:
        return "purpose"
    return "sampled" if mistake.can_be_sampled else "unshown"


def _describe_found(mistake: PublishedMistake, needed: int | None, drawn: int) -> str:
    """After how many recorded samples the test rejected a mistake."""
    if not mistake.can_be_sampled:
        return {"exact": "exact", "enumerated": "shown by calculation", "analytic": "shown by calculation"}.get(
            mistake.tier, "not shown by samples"
        )
    if needed:
        return f"detected with {count_samples(needed)}"
    return f"not detected with {count_samples(drawn)}" if drawn else ""


def name_mistake(mistake: PublishedMistake) -> str:
    """What goes wrong, in a few words."""
    name = mistake.title or mistake.name
    return name[0].upper() + name[1:]


def describe_mistake(mistake: PublishedMistake) -> str:
    """What goes wrong, with the page's apostrophes."""
    return mistake.description.replace("'", "’")


def list_reports(mistake: PublishedMistake) -> list[tuple[str, str]]:
    """Who reported it, one by one: the project with the number of its thread, and the address; nothing where no report is known."""
    if not mistake.is_reported:
        return []
    return [(_name_report(words, address), address) for words, address in mistake.threads]


def name_first_report(mistake: PublishedMistake) -> str:
    """Who reported it, by the first report."""
    return next((words for words, _ in list_reports(mistake)), TEXTS["groups"]["unreported"])


def describe_reports(mistake: PublishedMistake) -> str:
    """Who reported it, as markdown with a link for each report that has an address; empty where no report is known."""
    links = [
        f"[{escape_markdown(words, ALL_SIGNS)}]({address})" if address else words for words, address in list_reports(mistake)
    ]
    return f"{TEXTS['reported']} {', '.join(links)}." if links else ""


def _name_report(words: str, address: str) -> str:
    repository, _, number = words.partition("#")
    name = repository.rpartition("/")[2] if address else repository
    return PROJECTS.get(name, name) + (f" #{number}" if number else "")


def describe_run(state: MistakeState) -> str:
    """Models, settings and number of samples."""
    question, n = state.question, state.result.n
    said = f"Models: {name_pair(question.settings.pair)} · {describe_conditions(question.settings)}"
    if n and state.has_own_result:
        said += f" · {n:,} samples of each so far"
    slow = f" Sampling it takes the full decoder, so this page draws at most {question.max_samples:,} samples."
    return f"{said}. {TEXTS['settings']}{'' if question.on_shared_distributions else slow}"


def build_mistake_heading(question: MistakeQuestion) -> str:
    """The line over the samples. It names the temperature of Exactness test, which has the same picture, where it differs."""
    recorded = load_recorded_samples()
    usual = recorded.exactness.settings.temperature if recorded else question.settings.temperature
    differs = usual != question.settings.temperature
    return build_heading(question.settings) + (TEXTS["other_settings"].format(temperature=f"{usual:g}") if differs else "")


def describe_question(question: MistakeQuestion) -> str:
    """The mistake, as markdown; the words come from this package alone."""
    return f"**{name_mistake(question.mistake)}.** {describe_mistake(question.mistake)}"


def describe_enumeration(mistake: PublishedMistake | None, toy: float) -> str:
    """How far the mistake is from the target on small tables, where every outcome is added up; empty where that says nothing."""
    moved = f"{format_percent(toy)} of the" if toy else "no"
    if toy or (mistake and mistake.tier in ("injected random number", "tokens per pass")):
        return f"In a worked example with few tokens, where every outcome is added up, this mistake moves {moved} probability."
    return ""


def build_verdict(state: MistakeState) -> PageVerdict:
    """What the samples say of the wrong decoder."""
    mistake, result, rejected = state.question.mistake, state.shown_result, state.first_rejection
    if mistake.tier == "exact":
        return PageVerdict("exact", UNSAMPLED_TIERS["exact"]["verdict"], UNSAMPLED_TIERS["exact"]["instead"])
    if rejected:
        excess = describe_excess(result.arms[1]) or f"{count_samples(rejected.n)} were enough"
        return PageVerdict("rejected", "Not exact.", f"{excess[0].upper()}{excess[1:]}.")
    if not mistake.can_be_sampled:
        tier = UNSAMPLED_TIERS[mistake.tier]
        return PageVerdict("unshown", tier["verdict"], tier["instead"])
    if early := build_early_verdict(state, "Draw samples: dots outside the blue show the bug."):
        return early
    if result.n == result.same:
        words = f"On this text the two decoders wrote the same in all {result.n:,} samples: with the same random numbers the bug changes nothing here."
        return PageVerdict("untold", words, "Try another text, in Settings.")
    found = result.looks[-1][1]
    if found.verdict == NOTHING_TESTED:
        return PageVerdict("untold", "Nothing was tested.", f"{count_samples(found.n)} of the wrong rule, and {NO_DRAFT}")
    return PageVerdict("untold", "samples show no difference on this text.", "", f"{found.n:,}")


def explain_verdict(state: MistakeState) -> str:
    """How clear a verdict is, and what the tests could have seen."""
    looks, rejected = state.shown_result.looks, state.first_rejection
    if not looks:
        return ""
    if rejected:
        return _explain_detection(state, rejected)
    found = looks[-1][1]
    seen = (
        describe_detectable(found) if found.can_show_difference else "All texts share one cell here, so nothing can be decided."
    )
    return " ".join(
        filter(None, (seen, *describe_unreached(found.exercised), _describe_pooling(found), announce_next_test(state)))
    )


def _explain_detection(state: MistakeState, test: InterimTest) -> str:
    """How clear it is, what the test before saw, and what the tests say of the correct decoder."""
    looks = state.shown_result.looks
    said, place = describe_rejection(test), SIZES.index(test.n)
    if place:
        said += f" At {SIZES[place - 1]:,} samples the test did not reject it yet."
    if any(right.verdict == "rejected" for right, _ in looks):
        return f"{said} The right rule was rejected too: a false alarm, which happens in 1 of 1,000 runs."
    return f"{said} The right rule, tested alike, passes."


def _describe_pooling(test: InterimTest) -> str:
    if test.pooled < 0.2:
        return ""
    return f"{test.pooled:.0%} of the probability lies in groups of several texts. Differences inside a group show only in the longer test on the command line, below."


def describe_curve(curve: DistanceCurve, state: MistakeState) -> str:
    """The sentence of meaning under the curve."""
    same, n = state.shown_result.same, state.shown_result.n
    said = TEXTS["distance"]
    if not state.question.mistake.can_be_sampled:
        return f"{said} So does that of this decoder, as far as samples can tell."
    said += " That of a wrong one levels off."
    if not n:
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
    speeds = state.shown_result.speeds
    counted = f"Counted on {speeds[0].texts} longer texts of each."
    right, wrong = speeds
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


def describe_undrawn(state: MistakeState) -> str:
    """What the bars leave out; empty where they leave out nothing."""
    left_out = state.shown_result.arms[1].undrawn_mass if state.shown_result.arms else 0.0
    return f"Not drawn: all other texts together, {left_out:.0%}." if left_out else ""


def build_tests_table(state: MistakeState) -> list[dict[str, str]]:
    """Every test of both decoders as a row."""
    return [
        {"samples": f"{one.n:,}", "decoder": name, "test": test.name, "p-value": format_p_for_table(test.p_value), "level": format_p_for_table(test.alpha),
         "found": "a difference" if test.rejected else "no difference"}
        for pair in state.shown_result.looks for name, one in zip(state.question.names, pair, strict=True) for test in one.tests
    ]  # fmt: skip


def build_texts_title(state: MistakeState) -> str:
    """The line over the texts side by side."""
    alike, of = state.shown_result.alike
    return str(TEXTS["texts"]["alike" if alike == of else "apart"].format(of=of))


def choose_texts(state: MistakeState) -> TextPair | None:
    """The pair of texts that differs the latest, so that a reader has the most to compare; the first where none differs."""
    pairs = state.shown_result.pairs
    return max(pairs, key=lambda pair: (pair.first[0] != pair.first[1], len(pair.same)), default=None) if pairs else None


def find_wrong_text(question: MistakeQuestion) -> int:
    """Place of the wrong decoder's text among the two, 0 or 1: by the question's seed and bug, so that a link shows the same."""
    return random.Random(f"texts {question.mistake_id} {question.settings.seed}").randrange(2)


def judge_guess(question: MistakeQuestion, guess: int) -> str:
    """What a guess gets to hear. guess: place of the text that was called wrong."""
    wrong = find_wrong_text(question)
    return str(TEXTS["texts"]["right" if guess == wrong else "wrong"].format(name=LETTERS[wrong]))


def build_texts_html(question: MistakeQuestion, pair: TextPair, is_told: bool = True) -> str:
    """The texts side by side. is_told: whether they say which is the wrong decoder's."""
    before = shorten_prompt(question.settings.prompt)
    lines = [
        TextLine(
            name,
            kind if is_told else "untold",
            before,
            pair.same,
            token if pair.first[0] != pair.first[1] else None,
            _mark_cut(rest),
        )
        for name, kind, token, rest in zip(question.names, ("right", "wrong"), pair.first, pair.rest, strict=True)
    ]
    if not find_wrong_text(question):
        lines.reverse()
    return html.build_two_texts(
        replace(line, name=f"{letter}: {line.name}" if is_told else letter) for letter, line in zip(LETTERS, lines, strict=True)
    )


def _mark_cut(text: str) -> str:
    """A text that stops within a sentence has an ellipsis at its end."""
    return f"{text} …" if text[-1:].isalnum() or text[-1:] == "," else text
