"""Break it, what its samples say: both sides use the same random numbers, tests detect the mistake, a secret is kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from specviz.errors import CancelledError
from specviz.evidence.decoder import SHARED, build_decoder
from specviz.evidence.mistakes import comparison
from specviz.evidence.mistakes.comparison import POINTS, TextPair
from specviz.evidence.sampling.sampling_plan import INTERIM
from specviz.evidence.testing.hypothesis_tests import run_count_tests
from specviz.evidence.testing.results import SIZES
from specviz.records import ASSETS
from specviz.settings import Settings
from specviz.web.common.side_by_side.state import MOST_SLOW
from specviz.web.mistakes import words, work
from specviz.web.mistakes.game import MOST, build_game_payload, choose_game
from specviz.web.mistakes.state import HIDDEN, MistakeQuestion, MistakeState, find_rejection
from tests.helpers.pages import FreeTicket

BASE = Settings(prompt="Once upon", seed=7)


def build_state(mistake: str = "R5", **options) -> MistakeState:
    return MistakeState(MistakeQuestion(replace(BASE, **options), mistake))


@pytest.fixture
def ready_page(page_pair, monkeypatch):
    """The work without a server: the tiny pair is what the page's weights are; fewer texts than on the page."""
    monkeypatch.setattr(work, "TEXTS", 12)


def test_both_sides_are_the_mutant_and_the_right_rule_with_the_same_random_numbers(ready_page, pair):
    one = build_state()
    work.draw_samples(one, FreeTicket(), 1000)
    case, bench = one.question, one.bench
    right, wrong = (build_decoder(name, pair, case.settings, bench.ids).sample(SHARED, 0, 1000) for name in ("speculative", "R5"))
    assert bench.session.sessions[0].shown.tolist() == bench.session.cells.shown.count_samples(right).tolist()
    assert bench.session.sessions[1].shown.tolist() == bench.session.cells.shown.count_samples(wrong).tolist()
    assert one.result.same == int((right.tokens == wrong.tokens).all(1).sum())
    assert one.result.curve.n == (10, 20, 50, 100, 200, 500, 1000)
    probs = bench.session.cells.shown.masses / bench.session.cells.shown.masses.sum()
    apart = np.abs(bench.session.cells.shown.count_samples(wrong) / 1000 - probs).sum() / 2
    assert one.result.curve.tv[-1][1] == pytest.approx(apart)
    cells = bench.session.cells.tests[1]
    judged = run_count_tests(INTERIM.plan_look(1, cells.length), cells, cells.count_samples(wrong), "")
    assert one.result.looks[1][1].verdict == judged.verdict


def test_every_test_is_at_a_point_of_the_curve():
    assert set(SIZES) <= set(POINTS)


@pytest.mark.parametrize("mistake", ("R5", "R18", "R4"))
def test_sampling_until_it_is_detected_ends_at_the_test_that_detects_it(ready_page, mistake):
    one = build_state(mistake)
    work.draw_until_detected(one, FreeTicket())
    assert find_rejection(one.result) and one.result.n in SIZES[:4]
    assert not any(right.verdict == "rejected" for right, _ in one.result.looks), "the right rule passes"
    said = words.build_verdict(one)
    assert said.mark == "rejected" and said.words == "Not exact."
    assert one.result.mark_curve(1).samples_at_detection == one.result.n
    assert "The right rule, tested alike, passes." in words.explain_verdict(one)
    assert [step.n for step in one.result.steps] == [point for point in POINTS if point <= one.result.n]


def test_a_random_number_that_is_never_zero_is_said_not_to_be_seen(ready_page):
    one = build_state("R10")
    work.draw_samples(one, FreeTicket(), 100)
    said = words.build_verdict(one)
    assert one.result.same == 100 and one.result.alike == (12, 12)
    assert (said.mark, said.words) == ("unshown", "Sampling never shows this bug.")
    assert "Same random numbers, same texts" in words.build_texts_title(one)


def test_a_mistake_of_whole_rounds_goes_through_the_engine(ready_page):
    one = build_state("no-bonus")
    work.draw_samples(one, FreeTicket(), 100)
    right, wrong = one.result.speeds
    assert wrong.per_pass < right.per_pass and one.question.max_samples == MOST_SLOW
    assert "Compare the tokens per target pass instead" in words.build_verdict(one).details


def test_the_stuck_random_number_raises_acceptance_and_the_page_says_why(ready_page):
    one = build_state("R18")
    work.prepare_session(one, FreeTicket())
    assert comparison.compare_acceptance_rates(*one.result.speeds) == 1
    assert "looks faster because it is wrong" in words.describe_acceptance(one)


def test_texts_are_marked_at_their_first_different_token(ready_page, pair):
    one = build_state("R5")
    work.prepare_session(one, FreeTicket())
    for pair in one.result.pairs:
        assert pair.first[0] != pair.first[1]
    numbers = [pair.number for pair in one.result.pairs]
    assert numbers == sorted(numbers) and 1 <= len(numbers) <= 3


def test_what_was_written_is_escaped():
    case = MistakeQuestion(replace(BASE, prompt="<b>x</b>"), "R5")
    html = words.build_texts_html(case, TextPair(1, " <i>", ("<script>", " a"), ("&", "")))
    assert "<script>" not in html and "&lt;script&gt;" in html and "&lt;b&gt;x" in html
    assert "</q>" in html and " <b class='wrong'>a</b>" in html


def test_two_texts_have_no_names_before_the_guess_and_either_may_be_the_wrong_one():
    pair, places = TextPair(1, " a", (" man", " woman"), (" who lived", ".")), set()
    for seed in range(12):
        case = MistakeQuestion(replace(BASE, seed=seed), "R5")
        untold, told = (words.build_texts_html(case, pair, is_told) for is_told in (False, True))
        place = words.find_wrong_text(case)
        places.add(place)
        assert not any(word in untold for word in ("right", "wrong")) and untold.count("class='untold'") == 4
        assert ["A: wrong rule" in told, "B: wrong rule" in told] == [place == 0, place == 1]
        assert told.index(">woman<") > told.index(">man<") if place else told.index(">woman<") < told.index(">man<")
        assert "who lived …</q>" in told and ".</q>" in told, "a text that is cut off says so"
        assert [words.judge_guess(case, guess)[:3] for guess in (place, 1 - place)] == ["Yes", "No,"]
    assert places == {0, 1}


@pytest.mark.parametrize("ticks", (5, 30, 60))
def test_a_stop_keeps_whole_shards_and_the_next_click_goes_on(ready_page, ticks):
    one, straight = build_state(), build_state()
    try:
        work.draw_samples(one, FreeTicket(ticks), 1000)
    except CancelledError:
        assert one.result.n < 1000
    work.draw_samples(one, FreeTicket(), 1000 - one.result.n)
    work.draw_samples(straight, FreeTicket(), 1000)
    assert [arm.counts for arm in one.result.arms] == [arm.counts for arm in straight.result.arms]
    tests = [[[found.tests for found in pair] for pair in state.result.looks] for state in (one, straight)]
    assert tests[0] == tests[1] and one.result.curve == straight.result.curve


def test_a_seed_chooses_a_game_that_its_samples_decide():
    """The samples offered are at least those with which the recorded test detects the mistake 95 times in 100."""
    games = [choose_game(seed) for seed in range(60)]
    assert {one.wrong for one in games} == {0, 1} and len({one.recorded.mistake for one in games}) >= 5
    for one in games:
        assert one.recorded.needed <= MOST and one.first + MOST <= min(len(one.recorded.right), len(one.recorded.wrong))
        assert one.recorded.right[one.first :][:MOST] != one.recorded.wrong[one.first :][:MOST]
    assert choose_game(7) == choose_game(7)
    assert f"MOST_SAMPLES = {MOST};" in (ASSETS / "components" / "lib" / "samples.js").read_text(encoding="utf-8"), (
        "the game draws as many"
    )


def test_a_game_is_sent_with_its_samples_its_bug_and_where_it_was_reported():
    game, payload = choose_game(3), build_game_payload(3)
    assert (payload["wrong"], payload["first"]) == (game.wrong, game.first)
    sent = payload["game"]
    assert (sent["id"], sent["right"], sent["wrong"]) == (game.recorded.mistake, game.recorded.right, game.recorded.wrong)
    assert sent["threads"] and f"temperature {game.recorded.temperature:g}" in sent["settings"]


def test_the_game_draws_nothing_and_names_no_mistake_of_its_own():
    one = build_state(HIDDEN)
    one.prepare(work.prepare_session)
    assert one.ticket is None and one.shown_result.arms is None and one.load_recorded() is None
