"""Break it in a real browser: the game, a list of bugs, bars that leave their boxes, a stop that is quick, nothing that scrolls sideways."""

from __future__ import annotations

import re
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect

from specviz.evidence.mistakes.published import REPORTED
from specviz.web.common.side_by_side.state import load_recorded_samples
from specviz.web.mistakes.state import FIRST
from specviz.web.mistakes.words import list_wrong
from tests.browser.chromium import at_rest, resize
from tests.browser.conftest import laptop
from tests.browser.first_screen import read_first_screen
from tests.browser.test_app import NASTY, PATIENT, assert_harmless, query


def open_broken(page: Page, server: str, link: str = "?prompt=Once+upon&mistake=R5") -> Page:
    """Open the page and wait until its bars are drawn."""
    page.goto(f"{server}/mistakes{link}")
    expect(page.locator(".filling .cell").nth(1)).to_be_visible(timeout=PATIENT)
    expect(page.locator(".st-key-mistakes-stop")).to_have_count(0, timeout=PATIENT)
    return page


def build_recorded_link(server: str, mistake: str) -> str:
    """A mistake under the text and the seed of its recorded samples."""
    asked = load_recorded_samples().find_mistake(mistake).settings
    return f"{server}/mistakes?{urlencode({'mistake': mistake, 'prompt': asked.prompt, 'seed': asked.seed})}"


@pytest.fixture(scope="module")
def detected_page(context, server) -> Page:
    """The page after its mistake was detected; ``before`` is what it said until then. Tests only read it."""
    page = open_broken(laptop(context), server)
    page.before = page.locator(".filling .answer").inner_text()
    page.get_by_role("button", name="Draw until it is detected").click()
    expect(page.locator(".filling .answer")).to_contain_text("Not exact", timeout=PATIENT)
    at_rest(page)
    yield page
    page.close()


def test_a_mistake_is_caught_and_the_right_rule_passes(detected_page):
    assert "No samples yet" in detected_page.before
    reports = detected_page.locator(".st-key-mistakes-conditions")
    expect(reports.get_by_role("link").first).to_have_attribute("href", "https://github.com/ShopeeLLM/Spec-RL/issues/14")
    expect(reports).to_contain_text("many other decoders")
    assert detected_page.locator(".strip .dot.outside").count() >= 1, "a dot is outside the blue"
    detected_page.get_by_text("Numbers, tests and the command").click()
    expect(detected_page.get_by_text("The right rule, tested alike, passes", exact=False)).to_be_visible(timeout=PATIENT)
    expect(detected_page.get_by_test_id("stDataFrame")).to_have_count(5, timeout=PATIENT)
    detected_page.get_by_text("Distance from the exact distribution, and speed").click()
    expect(detected_page.locator(".js-plotly-plot")).to_have_count(2, timeout=PATIENT)
    expect(detected_page.locator("[aria-label*='Detected at'], [alt*='Detected at']").first).to_be_attached()
    assert detected_page.mistakes == []


@pytest.mark.parametrize(("width", "height"), [(390, 844), (1366, 768), (1920, 1080)])
def test_the_first_screen_holds_the_bars_their_answer_and_the_button(context, server, width, height):
    page = laptop(context)
    resize(page, width, height)
    page.goto(build_recorded_link(server, "R4"))
    answer, button = page.locator(".filling .answer"), page.locator(".st-key-mistakes-draw button")
    expect(answer).to_contain_text("Not exact", timeout=PATIENT)
    at_rest(page)
    places = [page.locator(".filling .cells").bounding_box(), answer.bounding_box(), button.bounding_box()]
    assert places[2]["y"] + places[2]["height"] <= places[0]["y"], "the button stands with the samples that it adds to"
    if width < 640:
        assert places[1]["y"] + places[1]["height"] <= places[0]["y"], "the answer stands over its picture"
    else:
        assert places[1]["x"] >= places[0]["x"] + places[0]["width"], "the answer stands beside its picture"
    assert max(box["y"] + box["height"] for box in places) <= height
    assert page.evaluate("document.querySelector('.stMain').scrollWidth") <= width
    expect(page.locator(".mistakesPlace")).to_have_text(f"Bug 1 of {len(list_wrong())}")
    rows, more = page.locator(".mistakes li"), page.locator(".mistakesMore")
    expect(rows.filter(visible=True)).to_have_count(0)
    controls = read_first_screen(page)[1]
    assert len(controls) == 3 or (height > 800 and len(controls) <= 6), (
        controls
    )  # a large screen holds the texts and folds as well
    page.get_by_role("button", name="Next bug").click()
    page.wait_for_url(re.compile("mistake=R1$|mistake=R1&"))
    more.click()
    expect(more).to_have_attribute("aria-expanded", "true")
    expect(rows.filter(visible=True)).to_have_count(len(REPORTED))
    page.get_by_role("button", name="Random number stuck at 0").click()
    page.wait_for_url(re.compile("mistake=R18"))
    expect(more).to_have_attribute("aria-expanded", "false")  # the choice closes the list
    page.close()


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (390, "dark"), (1366, "dark"), (1920, "light")])
def test_no_width_scrolls_sideways(detected_page, width, scheme):
    detected_page.emulate_media(color_scheme=scheme)
    resize(detected_page, width)
    assert detected_page.evaluate("document.querySelector('.stMain').scrollWidth") <= width


@pytest.mark.parametrize(("width", "height"), [(390, 844), (1366, 768), (1920, 1080)])
def test_the_page_opens_with_the_game_in_three_controls_and_few_words(context, server, width, height):
    """Which decoder is a choice of two; the draw; the way to the list of bugs."""
    page = laptop(context)
    resize(page, width, height)
    page.goto(f"{server}/mistakes")
    page.get_by_role("button", name="Draw 10", exact=True).wait_for(timeout=PATIENT)
    at_rest(page)
    buttons = page.get_by_test_id("stMainBlockContainer").locator(".play button").filter(visible=True)
    assert buttons.all_inner_texts() == [
        "Draw 10",
        "A has the bug",
        "B has the bug",
        f"See all {len(list_wrong())} bugs, each with its samples →",
    ]
    assert all(box["y"] + box["height"] <= height for box in (one.bounding_box() for one in buttons.all()))
    words, controls = read_first_screen(page)
    assert len(words) <= 60 and len(controls) == 3, (words, controls)
    assert page.locator(".mistakes, .filling").count() == 0, "one idea"
    assert page.evaluate("document.querySelector('.stMain').scrollWidth") <= width
    assert page.mistakes == []
    page.close()


def test_each_click_draws_also_while_samples_still_come_in(page, server):
    page.emulate_media(reduced_motion="no-preference")
    page.goto(f"{server}/mistakes")
    page.get_by_role("button", name="Draw 10", exact=True).evaluate("(button) => { button.click(); button.click(); }")
    expect(page.locator(".drawn")).to_have_text("20 samples each.", timeout=PATIENT)


def test_the_game_is_answered_and_leads_to_its_bug_to_another_game_and_to_all_bugs(page, server):
    page.goto(build_recorded_link(server, "R4"))
    page.locator(".mistakesMore").click()
    page.locator(".mistakesPlay").click()
    page.wait_for_url(re.compile("mistake=hidden"))
    for n in (10, 20):
        page.get_by_role("button", name="Draw 10", exact=True).click()
        expect(page.locator(".drawn")).to_have_text(f"{n} samples each.", timeout=PATIENT)
    assert page.locator(".game .rows .wrong").count() == 0, "no color tells before the answer"
    expect(page.locator(".game .key")).to_have_text(
        re.compile("^exact probability ?how often it was written ?outside its band ?chance")
    )
    expect(page.locator(".game .of-wrong")).to_be_hidden()
    page.get_by_role("button", name="A has the bug").click()
    told = page.locator(".game .told")
    expect(told).to_contain_text(re.compile("Right: A, after 20 samples|No: B has the bug"))
    expect(page.locator(".game .of-wrong")).to_be_visible()
    expect(told.get_by_role("link").first).to_have_attribute("href", re.compile("^https://github.com/"))
    name = told.locator(".bug b").inner_text()
    before = query(page)["seed"]
    page.get_by_role("button", name="Play again").click()
    expect(page.locator(".drawn")).to_have_text("0 samples each.", timeout=PATIENT)
    assert query(page)["seed"] != before
    page.go_back()
    page.wait_for_url(re.compile(f"seed={before}\\b"))
    at_rest(page)
    page.get_by_role("button", name="Draw 10", exact=True).click()
    page.get_by_role("button", name="A has the bug").click()
    expect(told.locator(".bug b")).to_have_text(name, timeout=PATIENT)
    page.get_by_role("button", name="See this bug").click()
    expect(page.locator(".filling .answer")).to_contain_text("Not exact", timeout=PATIENT)
    assert query(page)["mistake"] in REPORTED
    expect(page.locator(".st-key-mistakes-about")).to_contain_text(name)
    page.locator(".mistakesMore").click()
    page.locator(".mistakesPlay").click()
    page.get_by_role("button", name=f"See all {len(list_wrong())} bugs").click()
    page.wait_for_url(re.compile(f"mistake={FIRST}"))
    expect(page.locator(".mistakes li.chosen")).to_be_visible(timeout=PATIENT)
    resize(page, 390, 844)
    page.locator(".mistakesPlay").click()
    page.get_by_role("button", name=f"See all {len(list_wrong())} bugs").click()
    expect(page.locator(".mistakes li").filter(visible=True)).to_have_count(len(REPORTED), timeout=PATIENT)  # one gesture
    assert page.mistakes == []


def test_a_link_opens_its_mistake_long_work_stops_within_a_moment_and_a_choice_stands_in_the_address(page, server):
    open_broken(page, server, "?prompt=Once+upon&mistake=R35")
    expect(page.locator(".st-key-mistakes-about")).to_contain_text(REPORTED["R35"].description)
    for size, label in (("100", "Draw 100"), ("1,000", "Draw 900 more")):
        page.get_by_role("button", name=label, exact=True).click()
        expect(page.locator(".st-key-mistakes-conditions")).to_contain_text(f"{size} samples of each so far", timeout=PATIENT)
    asked = page.get_by_role("button", name="Draw 9,000 more")
    asked.click()  # every sample runs the decoder, round by round: much longer work than a million on shared distributions
    expect(page.get_by_test_id("stProgress")).to_contain_text("Sampling", timeout=PATIENT)
    stop = page.locator(".st-key-mistakes-stop button")
    stop.click()
    expect(stop).to_have_count(0, timeout=PATIENT)
    more = page.get_by_role("button", name=re.compile(r"^Draw [\d,]+ more$"))  # what was drawn before the stop is kept
    expect(more).to_be_enabled(timeout=PATIENT)
    page.get_by_role("button", name="Settings").click()
    field = page.get_by_label("Text to continue", exact=True)
    field.fill(NASTY)
    field.press("Control+Enter")
    page.wait_for_url(re.compile("onerror"))
    page.keyboard.press("Escape")
    expect(page.locator(".two-texts")).not_to_contain_text("rule", timeout=PATIENT)
    page.get_by_role("button", name="I guess B").click()
    expect(page.locator(".two-texts")).to_contain_text("wrong rule", timeout=PATIENT)
    assert_harmless(page)
    page.locator(".mistakesMore").click()
    page.get_by_role("button", name="Random number stuck at 0").click()
    page.wait_for_url(re.compile("mistake=R18"))
    assert query(page)["prompt"] == NASTY
    expect(page.locator(".st-key-mistakes-conditions").get_by_role("link").first).to_have_attribute(
        "href", "https://github.com/vllm-project/vllm-ascend/issues/13766"
    )
