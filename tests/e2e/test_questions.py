"""Eight questions in a real browser: every answer of every question, keys, a reload, a link, and what no answer may do."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from specviz.figures.questions.questions import payload, shipped
from tests.stage_harness import COLORS, SIZES, component_page

PAYLOAD = payload(shipped())
ADDRESS = "http://questions.test/questions"


@pytest.fixture
def open_questions(open_html, browser):
    """Opens the page as an address would, in a browser that has kept nothing; ``question`` as it stands in the address."""
    context = browser.new_context()

    def opener(question: str | None = None, size: str = "1366", scheme: str = "light"):
        data = {"payload": PAYLOAD, "question": question, "ending": "", "notices": []}
        return open_html(component_page("questions", data, scheme), ADDRESS, size, where=context)

    yield opener
    context.close()


def test_each_question_answered_wrong_and_right_explains_itself(open_questions):
    page = open_questions()
    for n, one in enumerate(PAYLOAD["questions"], start=1):
        expect(page.locator(".asks")).to_have_text(one["asks"])
        expect(page.locator(".explained")).to_be_hidden()
        for i, option in enumerate(one["options"]):
            page.locator(".option").nth(i).click()
            expect(page.locator(".verdict")).to_have_text("✓ Right" if option["right"] else "✗ Not quite")
            expect(page.locator(".why")).to_have_text(option["why"])
            expect(page.locator(".after figcaption")).to_have_text(option["picture"]["title"])
        first = "right" if one["options"][0]["right"] else "wrong"
        assert page.locator(".place").nth(n - 1).get_attribute("aria-label") == f"question {n}: {first} at the first try"
        if n < 8:
            page.get_by_role("button", name="Next →").click()
    right = sum(one["options"][0]["right"] for one in PAYLOAD["questions"])
    expect(page.locator(".tally")).to_have_text(f"8 of 8 answered, {right} right at the first try.")


def test_answers_outlast_a_reload_and_are_forgotten_on_request(open_questions):
    page = open_questions("2")
    page.keyboard.press("2")
    expect(page.locator(".verdict")).to_have_text("✓ Right")
    page.reload()
    expect(page.locator(".tally")).to_have_text("1 of 8 answered, 1 right at the first try.")
    expect(page.locator(".why")).to_have_text(PAYLOAD["questions"][1]["options"][1]["why"])
    page.get_by_role("button", name="Start again").click()
    expect(page.locator(".tally")).to_have_text("")
    page.reload()
    expect(page.locator(".explained")).to_be_hidden()


def test_arrows_and_a_clicker_turn_pages_and_the_address_follows(open_questions):
    page = open_questions()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("PageDown")
    expect(page.locator(".place.now")).to_have_text("3")
    page.wait_for_url("**?question=3")
    page.keyboard.press("PageUp")
    page.wait_for_url("**?question=2")
    page.keyboard.press("4")  # there is no fourth answer
    expect(page.locator(".explained")).to_be_hidden()


def test_a_link_to_no_question_opens_the_first_with_a_sentence(open_questions):
    page = open_questions("<b>9</b>")
    expect(page.locator(".place.now")).to_have_text("1")
    expect(page.locator(".notices")).to_contain_text("'<b>9</b>' is not one of 1 to 8")


def test_the_focus_stays_where_the_answer_was_given(open_questions):
    page = open_questions()
    option = page.locator(".option").nth(1)
    option.focus()
    page.keyboard.press("Enter")
    expect(option).to_be_focused()
    expect(option).to_have_attribute("aria-pressed", "true")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", COLORS)
def test_no_width_needs_to_be_scrolled_sideways(open_questions, size, scheme):
    page = open_questions("7", size, scheme)
    page.keyboard.press("1")
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
    assert page.evaluate(
        "[...stage.querySelectorAll('.option, .why, .barName')].every((one) => one.scrollWidth <= one.clientWidth + 1)"
    )
