"""Guess first: what the learner says before a draft token is decided, and what becomes of it. In this browser alone."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from specviz.figures.numbers import format_probability
from specviz.web.one_round.payload import build_round_payload
from tests.browser.component_pages import find_step, open_more, page_html, sentence
from tests.helpers import hand_made_traces

PAYLOAD = build_round_payload(hand_made_traces.build_story())
CHIPS = PAYLOAD["rounds"][0]["chips"]
MOTIONS = PAYLOAD["rounds"][0]["steps"]


@pytest.fixture
def open_asking(open_html):
    """The stage before the first check, asked first."""

    def opener(size: str = "1366", scheme: str = "light"):
        page = open_html(page_html(PAYLOAD, scheme, cursor=(0, find_step(PAYLOAD, "pass"))), "http://ask.test/", size)
        page.keyboard.press("a")
        page.keyboard.press("ArrowRight")
        return page

    return opener


def load_forecasts(page) -> list[dict]:
    return page.evaluate("JSON.parse(localStorage.getItem('specviz-forecasts') ?? '[]')")


def has_question(page) -> bool:
    return "How probable is it that" in sentence(page)


def answer(page, percent: int) -> None:
    page.locator(".chance input").fill(str(percent))
    page.get_by_role("button", name="Draw u").click()


def test_the_question_does_not_tell_the_answer(open_asking):
    page = open_asking()
    assert has_question(page)
    assert page.locator(".scene .edge").evaluate("node => node.style.opacity") == "0"
    assert "p/q =" not in page.locator(".scene").text_content()


@pytest.mark.parametrize("size", ["390", "1366"])
def test_an_answer_is_drawn_echoed_and_scored(open_asking, size):
    page = open_asking(size)
    answer(page, 90)
    status = CHIPS[0]["status"]
    assert sentence(page).startswith(MOTIONS[find_step(PAYLOAD, "uniform", node=0)]["sentence"])
    assert "You gave acceptance 90%; the rule gives it" in sentence(page)
    assert load_forecasts(page) == [
        {"said": 0.9, "happened": int(status == "accepted"), "truth": pytest.approx(min(1.0, CHIPS[0]["threshold"]))}
    ]
    expected = (0.9 - (status == "accepted")) ** 2
    expect(page.locator(".score")).to_have_text(
        f"Mean squared error of your probabilities: {format_probability(expected)} after 1 answer."
    )


def test_every_token_is_asked_once_a_step_skips_and_the_curve_grows(open_asking):
    page = open_asking()
    answer(page, 75)
    page.keyboard.press("ArrowRight")
    assert has_question(page)
    page.keyboard.press("ArrowRight")  # skipped
    assert sentence(page) == MOTIONS[find_step(PAYLOAD, "uniform", node=1)]["sentence"] + " You skipped the question."
    page.keyboard.press("ArrowRight")
    answer(page, 10)
    assert len(load_forecasts(page)) == 2 and page.locator(".curve .point").count() == 2
    page.keyboard.press("ArrowLeft")
    assert not has_question(page), "asked once"


def test_whoever_switches_it_on_reads_at_once_that_questions_will_come(open_asking):
    page = open_asking()
    page.keyboard.press("Home")
    assert sentence(page).endswith("You will be asked before each check.")


def test_the_button_that_is_pressed_says_so_in_shape_too(open_asking):
    page = open_asking()
    open_more(page)
    button = page.get_by_role("button", name="Guess first")
    assert button.get_attribute("aria-pressed") == "true"
    assert button.evaluate("node => getComputedStyle(node, '::before').content") == '"✓ "'


def test_a_keyboard_alone_is_enough(open_asking):
    page = open_asking()
    page.locator(".chance input").focus()
    for _ in range(30):
        page.keyboard.press("ArrowLeft")  # the slider's own keys
    assert page.locator(".chance output").inner_text() == "20%"
    assert has_question(page)
    page.get_by_role("button", name="Draw u").focus()
    page.keyboard.press("Enter")
    assert load_forecasts(page)[0]["said"] == 0.2


def test_answers_outlast_a_reload_and_can_be_forgotten(open_asking):
    page = open_asking()
    answer(page, 60)
    page.reload()
    page.wait_for_function("window.ready")
    page.keyboard.press("A")
    expect(page.locator(".score")).to_contain_text("after 1 answer.")
    page.get_by_role("button", name="Forget these").click()
    assert load_forecasts(page) == [] and not page.locator(".calibrated").is_visible()


def test_playing_waits_for_an_answer(open_asking):
    page = open_asking()
    page.keyboard.press("p")
    page.wait_for_timeout(200)
    expect(page.get_by_role("button", name="▶ Play")).to_be_visible(timeout=12_000)
    assert has_question(page)


def test_without_the_switch_nothing_is_asked(open_asking):
    page = open_asking()
    page.keyboard.press("a")
    assert sentence(page) == MOTIONS[find_step(PAYLOAD, "look", node=0)]["sentence"]
    assert not page.locator(".asked").is_visible()
