"""The samples that Is it exact? and Break it open with: those of the question asked first, what the page would draw, told as recorded."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specviz.errors import TraceError
from specviz.evidence import page_samples
from specviz.evidence.recorded_samples import BugSamplesRecord, DecoderSamplesRecord, RecordedSamples, has_same_samples
from specviz.settings import Settings
from specviz.web.exactness import words as exact_words
from specviz.web.exactness import work as exact_work
from specviz.web.exactness.state import ExactnessQuestion, ExactnessState
from specviz.web.jobs import cache
from specviz.web.mistakes import words as mistake_words
from specviz.web.mistakes import work as mistake_work
from specviz.web.mistakes.state import HIDDEN, BugQuestion, BugState
from specviz.web.sampling.state import load_recorded_samples
from specviz.web.sampling.words import describe_origin
from tests.pages import FreeTicket, draw_first_paint

FIRST = Settings.from_record(cache.load_recording().settings)


def build_exactness_state(**changes) -> ExactnessState:
    return ExactnessState(replace(ExactnessQuestion.from_link({}, FIRST)[0], **changes))


def build_bug_state(**changes) -> BugState:
    return BugState(replace(BugQuestion.from_link({}, FIRST)[0], **changes))


@pytest.mark.parametrize("page", ("exactness", "mistakes"))
def test_the_page_opens_with_recorded_samples_and_their_verdict_and_without_torch(page):
    seen = draw_first_paint(page, {}, '"waits": app.session_state["PAGE"].is_busy'.replace("PAGE", page))
    assert (seen["errors"], seen["heavy"], seen["waits"]) == (0, [], False), "a record needs no work"
    assert seen["figures"] >= 2
    assert any(line.startswith("Recorded on ") and "you draw take their place" in line for line in seen["text"]), seen["text"]
    verdict = {"exactness": "Yes, as far as 100,000 samples can tell.", "mistakes": "Detected: 1,000 samples were enough."}[page]
    assert any(verdict in line for line in seen["said"])


def test_what_is_recorded_is_the_question_that_the_pages_open_with():
    assert (
        not build_exactness_state().has_own_result
        and build_exactness_state().shown_result.n >= 10_000
        and describe_origin(build_exactness_state())
    )
    assert (
        not build_bug_state().has_own_result
        and build_bug_state().find_rejection(build_bug_state().shown_result)
        and build_bug_state().first_rejection is None
    )
    assert "sha" in " ".join(build_exactness_state().models) and build_exactness_state().models == build_bug_state().models


def test_of_any_other_question_nothing_recorded_is_shown():
    settings = build_exactness_state().question.settings
    for change in ({"prompt": "Once"}, {"seed": 1}, {"temperature": 0.5}, {"gamma": 1}, {"max_new_tokens": 3}, {"top_k": 5}):
        other = build_exactness_state(settings=replace(settings, **change))
        assert other.has_own_result and other.shown_result.n == 0 and describe_origin(other) == []
    assert build_exactness_state(source="target").has_own_result
    assert build_bug_state(mistake="R4").has_own_result and build_bug_state(mistake=HIDDEN).has_own_result
    assert has_same_samples(replace(settings, device="cpu", dtype="float32"), settings), (
        "the machine's choice fixes no other samples"
    )


def test_own_samples_take_the_place_of_the_recorded_ones():
    one = build_exactness_state()
    one.result = replace(one.shown_result, arms=tuple(replace(arm, n=3) for arm in one.shown_result.arms), looks=())
    assert one.has_own_result and one.shown_result.n == 3 and describe_origin(one) == []
    assert "too few" in exact_words.build_verdict(one).words


def test_the_record_is_read_back_as_it_was_written_and_a_damaged_one_is_refused():
    found = load_recorded_samples()
    assert RecordedSamples.from_json(found.to_json()) == found
    with pytest.raises(TraceError, match="lacks counts"):
        RecordedSamples.from_json(found.to_json().replace('"counts"', '"cuonts"'))


def test_the_command_records_just_what_the_pages_draw(page_pair, pair, monkeypatch):
    """On the tiny pair, 1,000 samples of the decoder, 20 seeds, and of the mistake until it is detected."""
    monkeypatch.setattr(page_samples, "SEEDS", 20)

    def quiet(share: float, doing: str) -> None:
        pass

    one = ExactnessState(ExactnessQuestion(Settings(prompt="A bear", seed=7, gamma=2, max_new_tokens=2)))
    exact_work.draw_samples(one, FreeTicket(), 1000)
    exact_work.run_many_seeds(one, FreeTicket(), page_samples.SEEDS)
    made = page_samples.record_decoder(pair, one.question.settings, 1000, quiet)
    assert isinstance(made, DecoderSamplesRecord) and made.result == one.result
    other = BugState(BugQuestion(Settings(prompt="A bear", seed=7)))
    mistake_work.draw_until_detected(other, FreeTicket())
    found = page_samples.record_bug(pair, Settings(prompt="A bear", seed=7), quiet)
    assert isinstance(found, BugSamplesRecord) and found.settings == other.question.settings
    assert replace(found.result, notes=()) == replace(other.result, notes=())
    assert mistake_words.build_verdict(other).words.startswith("Detected")
