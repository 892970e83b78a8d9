"""Break it in a real browser: a mistake is caught, a stop is quick, a choice stands in the address, nothing scrolls sideways."""

from __future__ import annotations

import re
import time

import pytest
from playwright.sync_api import Page, expect

from specviz.evidence.mistakes.published import OFFERED_MISTAKES
from tests.browser.chromium import at_rest, resize
from tests.browser.conftest import laptop
from tests.browser.test_app import NASTY, PATIENT, assert_harmless, query


def open_broken(page: Page, server: str, link: str = "?prompt=Once+upon&mistake=R5") -> Page:
    """Open the page and wait until its texts are written."""
    page.goto(f"{server}/mistakes{link}")
    expect(page.get_by_test_id("stMainBlockContainer").get_by_text("How fast?", exact=True)).to_be_visible(timeout=PATIENT)
    expect(page.locator(".st-key-mistakes-stop")).to_have_count(0, timeout=PATIENT)
    return page


def verdict(page: Page):
    return page.locator("[class*=st-key-mistakes-verdict]")


@pytest.fixture(scope="module")
def detected_page(context, server) -> Page:
    """The page after its mistake was detected; ``before`` is what it said until then. Tests only read it."""
    page = open_broken(laptop(context), server)
    page.before = verdict(page).inner_text()
    page.get_by_role("button", name="Sample until it is detected").click()
    expect(verdict(page)).to_contain_text(re.compile(r"Detected: [\d,]+ samples were enough"), timeout=PATIENT)
    expect(page.locator(".js-plotly-plot")).to_have_count(3)
    yield page
    page.close()


def test_a_mistake_is_caught_and_the_right_rule_passes(detected_page):
    assert "There are no samples yet" in detected_page.before
    expect(verdict(detected_page)).to_contain_text("The right rule, tested alike, passes")
    expect(detected_page.locator("[aria-label*='Detected at'], [alt*='Detected at']").first).to_be_attached()
    detected_page.get_by_text("The numbers behind the pictures").click()
    expect(detected_page.get_by_test_id("stDataFrame")).to_have_count(5)
    assert detected_page.mistakes == []


@pytest.mark.parametrize(("width", "height"), [(1366, 768), (1920, 1080)])
def test_the_first_screen_holds_the_answer_its_picture_and_three_controls(context, server, width, height):
    page = laptop(context)
    resize(page, width, height)
    page.goto(f"{server}/mistakes?mistake=hidden")
    chart = page.locator(".js-plotly-plot").first
    expect(chart).to_be_visible(timeout=PATIENT)
    at_rest(page)
    box = chart.bounding_box()
    assert box["y"] + box["height"] <= height
    game = page.get_by_role("button", name=re.compile("^Draw .* of each")), page.get_by_role("radio", name="Decoder A")
    if not game[1].is_visible():  # a server that has worked for others opens a new game
        game[0].click()
        expect(game[1]).to_be_visible(timeout=PATIENT)
        at_rest(page)
        box = chart.bounding_box()
    for control in (page.get_by_label("Mistake", exact=True), *game):
        assert control.bounding_box()["y"] < box["y"], "the game and its picture"
    resize(page, 390, 844)
    assert game[0].bounding_box()["y"] < chart.bounding_box()["y"] < 844 - 100
    page.close()


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (390, "dark"), (1366, "dark"), (1920, "light")])
def test_no_width_scrolls_sideways(detected_page, width, scheme):
    detected_page.emulate_media(color_scheme=scheme)
    resize(detected_page, width)
    assert detected_page.evaluate("document.querySelector('.stMain').scrollWidth") <= width


def test_a_link_opens_its_mistake_long_work_stops_within_a_moment_and_a_choice_stands_in_the_address(page, server):
    open_broken(page, server, "?prompt=Once+upon&mistake=R35")
    expect(page.locator(".st-key-mistakes-about")).to_contain_text(OFFERED_MISTAKES["R35"].description)
    for size, label in (("100", "Draw 100 of each, anyway"), ("1,000", "Draw 900 more of each, anyway")):
        page.get_by_role("button", name=label, exact=True).click()
        expect(page.locator(".st-key-mistakes-conditions")).to_contain_text(f"{size} samples of each so far", timeout=PATIENT)
    asked = page.get_by_role("button", name=re.compile("^Draw .* more of each, anyway$"))
    asked.click()  # every sample runs the decoder, round by round: much longer work than a million on shared distributions
    expect(page.get_by_test_id("stProgress")).to_contain_text("Sampling", timeout=PATIENT)
    stop = page.locator(".st-key-mistakes-stop button")
    began = time.monotonic()
    stop.click()
    expect(stop).to_have_count(0, timeout=PATIENT)
    assert time.monotonic() - began < 25.0, "the page follows; the second is held in test_queue.py, without a browser"
    expect(asked).to_be_enabled(timeout=PATIENT)
    page.get_by_role("button", name="Settings").click()
    field = page.get_by_label("Text to continue", exact=True)
    field.fill(NASTY)
    field.press("Control+Enter")
    page.wait_for_url(re.compile("onerror"))
    page.keyboard.press("Escape")
    expect(page.locator(".two-texts")).to_contain_text("rule", timeout=PATIENT)
    assert_harmless(page)
    page.get_by_label("Mistake", exact=True).click()
    page.get_by_role("option", name=re.compile("Random number stuck at 0")).click()
    page.wait_for_url(re.compile("mistake=R18"))
    assert query(page)["prompt"] == NASTY
    expect(page.get_by_role("link", name="vllm-project/vllm-ascend#13766")).to_have_attribute(
        "href", "https://github.com/vllm-project/vllm-ascend/issues/13766"
    )
