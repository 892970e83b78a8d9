"""How fast? in a real browser: choices, a text, tabs and sliders stand in the address, a prediction is stopped or made."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from specviz.speed.records import headline
from tests.browser.chromium import at_rest, resize
from tests.browser.conftest import laptop
from tests.browser.test_app import NASTY, PATIENT, assert_harmless, query

SHORT = NASTY[:40]
PARAGRAPH = "The cat sat on the mat and looked at the dog, who ran to the brook. Then the sun went down over the hill. "


def open_plans(page: Page, server: str) -> Page:
    """Open the page and wait until its pictures stand."""
    page.goto(f"{server}/speed")
    expect(page.locator(".js-plotly-plot").first).to_be_visible(timeout=PATIENT)
    page.get_by_role("tab", name="Predict for a text").click()
    page.get_by_text("Predict it for a text of your own").click()
    return page


@pytest.mark.slow  # tests/web/speed/test_link.py holds the tabs and the link without a browser
def test_what_is_chosen_stands_in_the_address_a_short_text_is_a_sentence_and_only_the_open_tab_is_drawn(page, server):
    open_plans(page, server)
    page.get_by_role("radio", name="copied text").click()
    page.wait_for_url(re.compile("draft=ngram"))
    page.get_by_role("radio", name="0.6", exact=True).click()
    page.wait_for_url(re.compile(r"temperature=0\.6"))
    field = page.get_by_label("A text like those to be written", exact=True)
    field.fill(SHORT)
    field.press("Control+Enter")
    page.wait_for_url(re.compile("text="))
    assert query(page)["text"] == SHORT
    page.get_by_role("tab", name="How it is predicted").click()
    expect(page.locator(".st-key-speed-said-tokens")).to_contain_text("without running speculative decoding", timeout=PATIENT)
    page.get_by_role("tab", name="Predict for a text").click()
    expect(page.locator(".st-key-speed-said-tokens")).to_have_count(0, timeout=PATIENT)
    page.get_by_role("button", name="Predict for this text").click()
    expect(page.locator(".st-key-speed-notes-failed")).to_contain_text("tokens long", timeout=PATIENT)
    assert_harmless(page)
    expect(page.locator(".annotation-text").first).to_be_visible(timeout=PATIENT)
    resize(page, 390)
    words = [*page.get_by_role("tab").all(), *page.locator(".annotation-text").all()]
    boxes = [word.bounding_box() for word in words]
    assert len(boxes) > 4 and all(box["x"] >= 0 and box["x"] + box["width"] <= 390 for box in boxes), "no tab, no name is cut"
    resize(page, 1366, 768)
    page.get_by_role("tab", name="The formula").click()
    expect(page.get_by_role("slider", name="Draft tokens a round")).to_be_visible(timeout=PATIENT)
    for name, key in (("Draft tokens accepted", "Home"), ("Draft tokens a round", "End")):
        page.get_by_role("slider", name=name).focus()
        page.keyboard.press(key)
    said = page.locator(".st-key-speed-said-surface")
    expect(said).to_contain_text("At alpha 0.00", timeout=PATIENT)
    expect(said).to_contain_text("with gamma 16", timeout=PATIENT)
    expect(said).to_contain_text("no gamma pays")
    page.wait_for_url(re.compile("tab=what-if.*alpha=0&gamma=16"))
    page.reload()
    expect(said).to_contain_text("At alpha 0.00", timeout=PATIENT)
    expect(said).to_contain_text("with gamma 16")
    expect(field).to_have_value(SHORT, timeout=PATIENT)
    page.get_by_role("tab", name="Batch size").click()
    expect(page.locator(".st-key-speed-batch")).to_be_visible(timeout=PATIENT)
    expect(said).to_have_count(0)
    page.wait_for_url(re.compile("gamma=16(?!.*tab=)"))
    page.go_back()
    expect(said).to_contain_text("At alpha 0.00", timeout=PATIENT)
    assert_harmless(page)


@pytest.mark.slow  # work of a page is stopped in test_mistakes.py, which is fast
def test_a_plan_is_stopped_and_made(page, server):
    open_plans(page, server)
    field = page.get_by_label("A text like those to be written", exact=True)
    field.fill(PARAGRAPH * 6)
    field.press("Control+Enter")
    page.wait_for_url(re.compile("text="))
    page.get_by_role("button", name="Predict for this text").click()
    page.locator(".st-key-speed-stop button").click()  # the frame's own Stop appears in its head where a run takes long
    expect(page.get_by_role("button", name="Predict for this text")).to_be_enabled(timeout=PATIENT)
    expect(page.locator(".st-key-speed-notes-from")).to_contain_text(re.compile("Recorded: Storybook|Your prediction"))
    page.get_by_role("button", name="Predict for this text").click()
    expect(page.locator(".st-key-speed-notes-from")).to_contain_text("16 continuations", timeout=2 * PATIENT)
    expect(page.locator(".js-plotly-plot")).to_have_count(2, timeout=PATIENT)
    assert page.mistakes == []


@pytest.fixture(scope="module")
def drawn_page(context, server) -> Page:
    """The page with all its pictures, at rest. Tests leave its sliders as they were."""
    page = laptop(context)
    page.goto(f"{server}/speed")
    expect(page.locator(".js-plotly-plot")).to_have_count(3, timeout=PATIENT)
    at_rest(page)
    yield page
    page.close()


def test_a_phones_first_screen_has_the_answer_its_picture_and_all_four_sliders(drawn_page):
    page = drawn_page
    for width, height in ((390, 844), (1366, 768)):
        resize(page, width, height)
        for part in (".st-key-speed-answer", ".st-key-speed-figure-timeline"):
            expect(page.locator(part)).to_be_in_viewport(ratio=0.99)
        sliders = page.locator(".st-key-speed-sandbox").get_by_test_id("stSlider")
        expect(sliders).to_have_count(4)
        for slider in sliders.all():
            expect(slider).to_be_in_viewport(ratio=0.99)
        ends = sliders.nth(3).get_by_test_id("stSliderTickBar").locator("> *")
        assert [one.evaluate("node => getComputedStyle(node).visibility") for one in ends.all()] == ["hidden", "visible"], (
            "the thumb stands over its 1"
        )
        before = sliders.first.bounding_box()["y"]
        page.get_by_role("slider", name="Draft tokens accepted").focus()
        page.keyboard.press("ArrowRight")
        expect(page.locator(".st-key-speed-known")).to_contain_text(
            f"Computed for these sliders; measured: {headline.get_speed('1').value:.2f}×", timeout=PATIENT
        )
        back = page.get_by_role("button", name="Back to the measured speed")
        expect(back).to_be_visible()
        at_rest(page)
        assert sliders.first.bounding_box()["y"] == pytest.approx(before, abs=1), "no slider moves away under a finger"
        back.click()
        expect(back).to_have_count(0)
        at_rest(page)


def test_paper_has_the_charts_and_no_sliders_or_closed_folds(drawn_page):
    """A landscape A4 between its margins is 1,039 px wide."""
    page = drawn_page
    resize(page, 1366, 768)
    page.emulate_media(media="print", color_scheme="dark")
    charts = page.locator(".js-plotly-plot .main-svg").evaluate_all("all => all.map((one) => one.getBoundingClientRect().right)")
    assert len(charts) >= 3 and max(charts) <= page.viewport_size["width"]
    expect(page.get_by_role("slider")).to_have_count(0)
    expect(page.get_by_text("Its own rounds are one more measurement")).to_be_hidden()
    page.emulate_media(media="screen", color_scheme="light")


def test_tabs_open_one_after_the_other(drawn_page):
    page = drawn_page
    tabs = (("Predict for a text", "speed-factors"), ("The formula", "speed-surface"), ("Batch size", "speed-batch"))
    for title, screen in tabs:
        page.get_by_role("tab", name=title).click()
        expect(page.locator(f".st-key-screen-{screen}")).to_be_visible(timeout=PATIENT)
        expect(page.get_by_role("tab", name=title)).to_have_attribute("aria-selected", "true")
