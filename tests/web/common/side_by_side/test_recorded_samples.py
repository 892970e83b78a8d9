"""The samples that Exactness test and Break it open with: those of the question asked first, what the page would draw, told as recorded."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specviz.errors import TraceError
from specviz.evidence.mistakes.comparison import TEXTS
from specviz.evidence.mistakes.published import REPORTED
from specviz.evidence.recordings import sample_drawing
from specviz.evidence.recordings.samples import DecoderSamplesRecord, MistakeSamplesRecord, RecordedSamples, has_same_samples
from specviz.evidence.testing.results import POOLED, REST
from specviz.settings import Settings, build_shared_settings
from specviz.web.classroom.view import EXAMPLE_MISTAKE
from specviz.web.classroom.words import group_by_first_word
from specviz.web.common.side_by_side.payload import LEAST, build_histogram, build_result_frames
from specviz.web.common.side_by_side.state import RECORDED, load_recorded_samples
from specviz.web.common.side_by_side.words import describe_origin
from specviz.web.exactness import words as exact_words
from specviz.web.exactness import work as exact_work
from specviz.web.exactness.state import ExactnessQuestion, ExactnessState
from specviz.web.hosting import cache
from specviz.web.mistakes import words as mistake_words
from specviz.web.mistakes import work as mistake_work
from specviz.web.mistakes.state import HIDDEN, MistakeQuestion, MistakeState, find_rejection
from tests.helpers.pages import FreeTicket, draw_first_paint

FIRST = build_shared_settings(Settings.from_record(cache.load_recording().settings))


def build_exactness_state(**changes) -> ExactnessState:
    return ExactnessState(replace(ExactnessQuestion.from_link({}, FIRST)[0], **changes))


def build_mistake_state(**changes) -> MistakeState:
    return MistakeState(replace(MistakeQuestion.from_link({"mistake": "R5"}, FIRST)[0], **changes))


@pytest.mark.parametrize("page", ("exactness", "mistakes"))
def test_the_page_opens_with_recorded_samples_and_their_verdict_and_without_torch(page):
    more = '"waits": app.session_state["PAGE"].is_busy, "given": given, "captions": [one.value for one in app.caption]'
    seen = draw_first_paint(page, {"mistake": "R4"} if page == "mistakes" else {}, more.replace("PAGE", page))
    assert (seen["errors"], seen["heavy"], seen["waits"]) == (0, [], False), "a record needs no work"
    assert any("Recorded on " in line for line in seen["captions"]), seen["captions"]
    verdict = {
        "exactness": "Exact, as far as 100,000 samples can tell.",
        "mistakes": "Not exact.",
    }[page]
    answers = [one["payload"]["answer"]["words"] for one in seen["given"] if one.get("payload", {}).get("answer")]
    assert answers[0].endswith(verdict) and len(answers) == (2 if page == "exactness" else 1), (
        "the runs have an answer of their own"
    )


def test_what_is_recorded_is_the_question_that_the_pages_open_with():
    assert (
        not build_exactness_state().has_own_result
        and build_exactness_state().shown_result.n >= 10_000
        and describe_origin(build_exactness_state())
    )
    assert (
        not build_mistake_state().has_own_result and build_mistake_state().first_rejection and build_mistake_state().result.n == 0
    )
    assert "sha" in " ".join(build_exactness_state().models) and build_exactness_state().models == build_mistake_state().models


def test_of_any_other_question_nothing_recorded_is_shown():
    settings = build_exactness_state().question.settings
    for change in ({"prompt": "Once"}, {"seed": 1}, {"temperature": 0.5}, {"gamma": 1}, {"max_new_tokens": 3}, {"top_k": 5}):
        other = build_exactness_state(settings=replace(settings, **change))
        assert other.has_own_result and other.shown_result.n == 0 and describe_origin(other) == []
    assert build_exactness_state(source="target").has_own_result
    assert build_mistake_state(settings=replace(settings, prompt="Once")).has_own_result
    assert build_mistake_state(settings=replace(settings, seed=1), mistake_id=HIDDEN).has_own_result
    assert has_same_samples(replace(settings, device="cpu", dtype="float32"), settings), (
        "the machine's choice fixes no other samples"
    )


def test_own_samples_are_shown_and_the_recorded_ones_come_back_and_go_again():
    one = build_exactness_state()
    recorded = one.shown_result
    one.result = replace(recorded, arms=tuple(replace(arm, n=3) for arm in recorded.arms), looks=())
    assert one.has_own_result and one.shown_result.n == 3 and describe_origin(one) == []
    assert "too few" in exact_words.build_verdict(one).words
    one.toggle_recorded()
    assert one.shown_result is recorded and describe_origin(one) and one.result.n == 3, "neither is lost"
    one.toggle_recorded()
    assert one.shown_result.n == 3
    one.toggle_recorded()
    one.submit(lambda state, ticket: None)
    assert one.has_own_result, "what is drawn is shown"


def test_the_record_is_read_back_as_it_was_written_and_a_damaged_one_is_refused():
    found = load_recorded_samples()
    assert RecordedSamples.from_json(found.to_json()) == found
    with pytest.raises(TraceError, match="lacks counts"):
        RecordedSamples.from_json(found.to_json().replace('"counts"', '"cuonts"'))


def test_the_command_records_just_what_the_pages_draw(page_pair, pair, monkeypatch):
    """On the tiny pair, 1,000 samples of the decoder, 20 seeds, and of the mistake until it is detected."""
    monkeypatch.setattr(sample_drawing, "SEEDS", 20)

    def ignore_progress(share: float, doing: str) -> None:
        pass

    one = ExactnessState(ExactnessQuestion(Settings(prompt="A bear", seed=7, gamma=2, max_new_tokens=2)))
    exact_work.draw_samples(one, FreeTicket(), 1000)
    exact_work.run_many_seeds(one, FreeTicket(), sample_drawing.SEEDS)
    made = sample_drawing.record_decoder(pair, one.question.settings, 1000, ignore_progress)
    assert isinstance(made, DecoderSamplesRecord) and made.result == one.result
    other = MistakeState(MistakeQuestion(Settings(prompt="A bear", seed=7), "R5"))
    mistake_work.draw_until_detected(other, FreeTicket())
    specs = mistake_work.make_specs(other.question, tuple(pair.encode("A bear")))
    found = sample_drawing.record_mistake(pair, "R5", specs, 100_000, ignore_progress)
    assert isinstance(found, MistakeSamplesRecord) and found.settings == other.question.settings
    assert replace(found.result, notes=()) == replace(other.result, notes=())
    assert mistake_words.build_verdict(other).mark == "rejected" and find_rejection(found.result).n == found.result.n


def test_every_mistake_is_recorded_and_stays_small():
    """Whether a mistake is found is what its tier says: samples show it, or nothing but an injected number or a count does."""
    found = load_recorded_samples()
    assert [one.mistake for one in found.mistakes] == list(REPORTED)
    for name, mistake in REPORTED.items():
        state = build_mistake_state(mistake_id=name)
        result = state.shown_result
        assert not state.has_own_result and result.alike[1] == TEXTS
        rejected = state.first_rejection
        assert rejected is None or (mistake.can_be_sampled and rejected.n == result.n), name
        assert rejected or result.n >= min(10_000, state.question.max_samples), "not found in fewer says little"
        filled = [one.n for one in result.filling]
        assert filled[:4] == [10, 20, 50, 100] and filled == sorted(set(filled)) and filled[-1] == result.n
        assert sum(result.steps[0].counts) == 10
    assert RECORDED.stat().st_size < 400_000  # of 33


def test_the_histogram_fills_by_the_counts_that_were_drawn():
    result = build_exactness_state().shown_result
    payload = build_histogram(build_result_frames(result), "after")
    numbers = [one["n"] for one in payload["frames"]]
    assert numbers == [step.n for step in result.filling] and numbers[0] == 10 and numbers[-1] == result.n
    last = result.arms[0].rows
    assert payload["exact"] == list(last.probs) and payload["frames"][-1]["shares"] == pytest.approx(last.shares, abs=1e-5)
    for frame in payload["frames"]:
        assert sum(frame["shares"]) == pytest.approx(1.0, abs=1e-3) and len(frame["low"]) == len(payload["labels"])
    assert payload["conclusion"] == result.arms[0].conclusion and payload["live"] is False


def test_find_the_bug_and_classroom_count_the_same_texts_that_begin_alike():
    """Both draw the same recorded samples: a bar “woman …” and those of its endings hold as many as Classroom's bar “woman”."""
    record = load_recorded_samples().find_mistake(EXAMPLE_MISTAKE)
    compared = 0
    for arm in record.result.arms:
        rows, grouped = arm.rows, group_by_first_word(arm)
        counts = dict(zip(grouped.labels, zip(grouped.counts, grouped.probs, strict=True), strict=True))
        for pooled in (label for label in rows.labels if label.endswith(POOLED)):
            begins = pooled.removesuffix(POOLED)
            bars = [place for place, label in enumerate(rows.labels) if label.startswith(begins)]
            count, prob = counts[begins.lstrip("·")]
            assert sum(rows.counts[place] for place in bars) == count
            assert sum(rows.probs[place] for place in bars) == pytest.approx(prob)
            compared += 1
        assert sum(rows.counts) == arm.n and sum(rows.probs) == pytest.approx(1.0)
        assert [*rows.probs[:-1]] == sorted(rows.probs[:-1], reverse=True)
    assert compared >= 4


def test_a_phone_gets_no_rows_of_rare_texts_and_every_sample():
    for mistake in load_recorded_samples().mistakes:
        frames = build_result_frames(mistake.result, few=True)
        few = frames["few"]
        assert len(few["labels"]) == len(few["exact"]) <= len(frames["labels"])
        named = few["exact"][:-1] if few["labels"][-1] == REST else few["exact"]
        assert min(named) >= LEAST or few["exact"] == frames["exact"], mistake.mistake
        assert [sum(one["shares"]) for one in few["frames"]] == pytest.approx([sum(one["shares"]) for one in frames["frames"]])
    first = build_result_frames(load_recorded_samples().find_mistake(EXAMPLE_MISTAKE).result, few=True)
    assert (len(first["labels"]), len(first["few"]["labels"])) == (9, 6)
