"""The text twin: every step of a round has one plain sentence, and numbers are written so that they say something."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from specviz.records import ASSETS
from specviz.trace import Trace
from specviz.web.one_round.payload import build_distribution
from specviz.web.one_round.words import build_steps, find_replaced, list_checked
from tests.helpers import hand_made_traces


def build_trace_steps(trace, round_=0):
    return build_steps(trace, trace.rounds[round_])


def list_kinds(trace, round_=0):
    return [step.kind for step in build_trace_steps(trace, round_)]


def test_a_round_with_a_rejection_goes_from_draft_tokens_over_one_pass_and_uniforms_to_the_residual():
    uniforms = ["look", "uniform"] * 3
    assert list_kinds(hand_made_traces.build_story()) == ["draft"] * 4 + ["pass", *uniforms, "lift", "residual", "draw", "tally"]


def test_a_full_round_ends_with_the_bonus():
    assert list_kinds(hand_made_traces.build_story(), 1) == ["draft"] * 4 + ["pass"] + ["look", "uniform"] * 4 + [
        "bonus",
        "tally",
    ]


def test_without_draft_tokens_the_target_decides_alone():
    assert list_kinds(hand_made_traces.build_undrafted()) == ["pass", "bonus", "tally"]
    assert "chooses the next token alone" in build_trace_steps(hand_made_traces.build_undrafted())[0].sentence


def test_every_motion_has_one_line_that_starts_like_a_sentence_and_ends_with_a_full_stop():
    for trace in [build() for build in hand_made_traces.TRACES.values()] + [hand_made_traces.build_ended_trace("length")]:
        for round_ in range(len(trace.rounds)):
            for step in build_trace_steps(trace, round_):
                assert step.sentence.endswith(".") and "\n" not in step.sentence
                assert not step.sentence[0].islower()


def test_the_pass_says_how_little_longer_several_tokens_take_than_one():
    """Numbers of the cost model's file: 5 tokens in 5.631 ms, one in 5.156 ms. Another model's, so on a line of their own."""
    step = next(step for step in build_trace_steps(hand_made_traces.build_story()) if step.kind == "pass")
    assert step.sentence.endswith("for all 4 draft tokens and the token after them.")
    assert step.note == "On a large model (8B\u00a0model,\u00a0H200), it takes 1.09 times a one-token pass."
    assert [one.note for one in build_trace_steps(hand_made_traces.build_story()) if one.note] == [step.note]
    assert build_trace_steps(hand_made_traces.build_undrafted())[0].note == ""


def test_the_uniform_sentence_says_the_numbers_that_were_compared_and_the_verdict():
    sentences = [step.sentence for step in build_trace_steps(hand_made_traces.build_story())]
    assert (
        "“sat”: the draft gives it 0.62, the target only 0.30, so it is accepted with probability p/q\u00a0=\u00a00.48."
        in sentences
    )
    assert any(one.startswith("The random number u is 0.71, not below 0.48: “sat” is rejected.") for one in sentences)


def test_a_threshold_can_be_checked_from_the_two_probabilities_in_its_sentence():
    for q, p in ((0.0012, 0.00054), (0.013, 0.0061), (0.0008, 0.00004)):
        words = hand_made_traces.Words()
        round_ = hand_made_traces.build_round(
            words, 4, [("a", {"a": p, "b": 1 - p}, {"a": q, "b": 1 - q}, 0.99, "b")], ("b", 0.5)
        )
        look = next(
            step for step in build_trace_steps(hand_made_traces.build_trace(words, [round_], gamma=1)) if step.kind == "look"
        ).sentence
        written = [part.rstrip(",.") for part in look.split() if part.startswith("0.") or "×" in part]
        assert read_number(written[1]) / read_number(written[0]) == pytest.approx(read_number(written[2]), rel=0.06)


def read_number(written: str) -> float:
    head, _, exponent = written.partition("×10")
    return float(head) * 10.0 ** int((exponent or "0").translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")))


def test_equal_distributions_accept_every_draft_token_whatever_the_uniform_shows():
    looks = [step.sentence for step in build_trace_steps(hand_made_traces.build_same_distributions()) if step.kind == "look"]
    assert len(looks) == 3
    assert all("just as much" in sentence and "whatever the random number is" in sentence for sentence in looks)


def test_checks_after_the_end_of_the_text_are_not_told():
    ended = hand_made_traces.build_ended_trace()
    assert list_checked(ended.rounds[0]) == [0, 1]
    assert find_replaced(ended.rounds[0]) is None
    assert list_kinds(ended)[-2:] == ["stop", "tally"]


def test_the_residual_sentence_names_its_mass_and_the_share_of_the_replacement():
    sentence = next(step.sentence for step in build_trace_steps(hand_made_traces.build_story()) if step.kind == "residual")
    assert (
        sentence.startswith("The green part, 0.33, is rescaled to 1: the residual distribution.")
        and "gives “stood” 0.48." in sentence
    )


def test_the_residual_says_why_the_result_is_exact():
    sentence = next(step.sentence for step in build_trace_steps(hand_made_traces.build_story()) if step.kind == "residual")
    assert "rejected as often, 0.33: accepted (striped) and replaced (green) together are exactly the target’s p." in sentence


def test_draft_tokens_after_a_rejection_are_not_checked():
    said = [step.sentence for step in build_trace_steps(hand_made_traces.build_story()) if "not checked" in step.sentence]
    assert said == [
        "The random number u is 0.71, not below 0.48: “sat” is rejected. "
        "The draft token after it is not checked: it was drawn to follow “sat”."
    ]


def test_a_round_without_recorded_distributions_is_still_told_to_its_end():
    assert list_kinds(hand_made_traces.build_without_distributions())[-3:] == ["uniform", "draw", "tally"]


def test_the_tally_counts_tokens_of_one_target_pass():
    assert build_trace_steps(hand_made_traces.build_story())[-1].sentence.startswith(
        "3 tokens from 1 target pass: 2 accepted and 1 replacement, “river and stood”."
    )
    assert "Target-only sampling would have needed 3 passes." in build_trace_steps(hand_made_traces.build_story())[-1].sentence
    assert build_trace_steps(hand_made_traces.build_story(), 1)[-1].sentence.startswith(
        "5 tokens from 1 target pass: 4 accepted and 1 bonus token, “"
    )


def test_a_motion_stands_under_the_scrubber_name_of_what_it_shows():
    under, name = {}, ""
    for step in build_trace_steps(hand_made_traces.build_story()):
        name = step.label or name
        under[step.kind, step.node] = name
    assert (under["draft", 3], under["pass", None]) == ("draft tokens", "pass")
    assert {under[kind, node] for node in range(3) for kind in ("look", "uniform")} == {"checks"}
    assert {under[kind, 2] for kind in ("lift", "residual", "draw")} == {"last token"}


def test_no_name_on_the_scrubber_tells_how_the_round_will_end():
    """A rejection and a bonus have the same names in the same order, however many draft tokens are checked."""
    rejected, full = ([step.label for step in build_trace_steps(hand_made_traces.build_story(), n) if step.label] for n in (0, 1))
    assert rejected == full == ["draft tokens", "pass", "checks", "last token", "result"]


def test_why_p_over_q_is_the_right_probability_is_said_once_a_round_with_numbers_that_multiply():
    recorded = (ASSETS / "traces" / "opening.json").read_text(encoding="utf-8")
    found = 0
    for trace in (hand_made_traces.build_story(), Trace.from_json(recorded)):
        for number_, round_ in enumerate(trace.rounds):
            said = [step.sentence for step in build_steps(trace, round_) if "as often as the target says" in step.sentence]
            assert len(said) <= 1, (number_, said)
            found += len(said)
            for sentence in said:
                q, rate, p = re.search(r"comes out (\S+)\s×\s(\S+)\s= (\S+) of the time", sentence).groups()
                assert f"{float(q) * float(rate):.{len(p) - 2}f}" == p
    assert found, "said somewhere"


def test_at_temperature_0_nothing_is_drawn_at_random_and_tokens_without_probability_are_no_candidates():
    story = hand_made_traces.build_story()
    first = story.rounds[0]
    sure, *others = first.proposals
    only = [float(token == sure.token) for token in first.distributions[0].tokens]
    zero = [0.0] * len(only)
    probs = replace(first.distributions[0], p=tuple(only), q=tuple(only), overlap=tuple(only), residual=tuple(zero))
    greedy = replace(first, proposals=(replace(sure, q=1.0, p=1.0), *others), distributions=(probs, *first.distributions[1:]))
    trace = replace(story, rounds=(greedy, *story.rounds[1:]))
    said = build_trace_steps(trace)[0].sentence
    assert "at random" not in said and "at temperature 0 all probability is on the likeliest token" in said
    bars = build_distribution(trace, greedy, 0)["views"]["wide"]
    assert [bar["p"] for bar in bars if bar["glyphs"] is not None] == [1.0]
