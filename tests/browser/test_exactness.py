"""Exactness test in a real browser: draws fill up, a stop is quick, links open elsewhere, text stays text, nothing scrolls sideways."""

from __future__ import annotations

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect

from specviz.web.common.side_by_side.state import load_recorded_samples
from tests.browser.chromium import at_rest, resize
from tests.browser.conftest import laptop, run_server
from tests.browser.crowd import Visitor, open_at_once
from tests.browser.first_screen import read_first_screen
from tests.browser.test_app import NASTY, PATIENT, assert_harmless, query


def open_exact(page: Page, server: str, link: str = "?prompt=Once+upon&length=2") -> Page:
    """Open the page and wait until its distribution is drawn."""
    page.goto(f"{server}/exactness{link}")
    expect(page.locator(".filling")).to_have_count(1, timeout=PATIENT)
    return page


def recorded_link(server: str) -> str:
    """The question with which the page opens where nothing else was run before."""
    asked = load_recorded_samples().exactness.settings
    return f"{server}/exactness?{urlencode(asked.to_query() | {'prompt': asked.prompt, 'max_new_tokens': asked.max_new_tokens})}"


def draw(page: Page, name: str, so_far: str) -> None:
    page.get_by_role("button", name=re.compile(f"^Draw {name} (samples|more)$")).click()
    expect_drawn(page, so_far)


def expect_drawn(page: Page, so_far: str) -> None:
    expect(page.locator(".filling .count").first).to_contain_text(so_far, timeout=PATIENT)


def draw_another(page: Page, count: str) -> None:
    """Draw a number of samples that has no button in sight."""
    page.get_by_role("button", name="Settings", exact=True).click()
    page.get_by_label("Another number of samples", exact=True).fill(count)
    page.get_by_role("button", name="Sample that many", exact=True).click()
    page.keyboard.press("Escape")


def verdict(page: Page):
    return page.locator(".filling .answer").first


@pytest.fixture(scope="module")
def sampled_page(context, server) -> Page:
    """The page after its buttons were pressed one after the other; ``verdicts`` are what it said after how many samples. Tests only read it."""
    page = open_exact(laptop(context), server)
    page.verdicts = {0: verdict(page).inner_text()}
    for name, so_far in (("1", "1 samples"), ("100", "101 samples"), ("10,000", "10,101 samples")):
        if name == "1":
            draw_another(page, name)
            expect_drawn(page, so_far)
        else:
            draw(page, name, so_far)
        at_rest(page)
        page.verdicts[so_far] = verdict(page).inner_text()
    yield page
    page.close()


def test_a_first_link_to_the_page_opens_with_the_distribution_and_nothing_sampled(sampled_page):
    assert "No samples yet" in sampled_page.verdicts[0]


def test_draws_add_up_and_the_verdict_says_what_could_have_been_seen(sampled_page):
    assert "too few to tell" in sampled_page.verdicts["1 samples"]
    assert "100 samples can show only a large one" in sampled_page.verdicts["101 samples"]
    assert re.search(r"moves \d+% of the samples between .+ would be caught \(power 99%\)", sampled_page.verdicts["101 samples"])
    assert "✓ Exact, as far as 10,000 samples can tell." in sampled_page.verdicts["10,101 samples"]
    assert sampled_page.mistakes == []


def test_pictures_have_words_and_a_table_behind_them(sampled_page):
    expect(sampled_page.locator("[aria-label*='10,101 samples'], [alt*='10,101 samples']").first).to_be_attached()
    sampled_page.get_by_text("Numbers, tests and the command").click()
    expect(sampled_page.get_by_test_id("stDataFrame").nth(1)).to_be_visible(timeout=PATIENT)
    expect(sampled_page.get_by_text("at no other time", exact=False)).to_be_visible()
    expect(sampled_page.locator("p", has_text="next test comes at 100,000")).to_be_visible()
    expect(sampled_page.get_by_text("python -m specviz verify", exact=False).first).to_be_visible()


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (390, "dark"), (1366, "dark"), (1920, "light")])
def test_no_width_scrolls_sideways(sampled_page, width, scheme):
    sampled_page.emulate_media(color_scheme=scheme)
    resize(sampled_page, width)
    assert sampled_page.evaluate("document.querySelector('.stMain').scrollWidth") <= width


@pytest.mark.parametrize("width", [1366, 1920])
def test_paper_holds_whole_charts_and_nothing_to_click(sampled_page, width):
    """A landscape A4 between its margins is 1,039 px wide; charts keep the width that they have on the screen."""
    resize(sampled_page, width)
    sampled_page.emulate_media(media="print")
    try:
        charts = sampled_page.locator(".filling")
        edges = charts.evaluate_all("charts => charts.map((one) => one.getBoundingClientRect()).map(({ width }) => width)")
        assert len(edges) == 1 and max(edges) <= 1039
        assert sampled_page.locator(".block-container").evaluate("one => one.getBoundingClientRect().width") <= 1039
        for name in ("Export", "Settings", "Draw 10,000 more"):
            expect(sampled_page.get_by_role("button", name=name, exact=True)).to_be_hidden()
        expect(sampled_page.get_by_label("Text to continue", exact=True)).to_be_hidden()
    finally:
        sampled_page.emulate_media(media="screen")


def test_paper_is_white_and_its_words_dark_whatever_the_screen_has(sampled_page):
    sampled_page.emulate_media(media="print", color_scheme="dark")
    try:
        colors = sampled_page.evaluate("""() => [getComputedStyle(document.querySelector(".stApp")).backgroundColor,
            ...[...document.querySelectorAll(".stMain :is(h1, p)")].map((one) => getComputedStyle(one).color)]""")
        assert len(colors) > 5 and colors[0] == "rgb(255, 255, 255)" and set(colors[1:]) == {"rgb(26, 31, 38)"}
    finally:
        sampled_page.emulate_media(media="screen", color_scheme="light")


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1366, "light")])
def test_the_fold_of_the_export_stays_on_the_screen_and_hides_nothing(sampled_page, width, scheme):
    sampled_page.emulate_media(color_scheme=scheme)
    resize(sampled_page, width)
    button, other = (sampled_page.get_by_role("button", name=name, exact=True) for name in ("Export", "Settings"))
    first, second = sorted((one.bounding_box() for one in (button, other)), key=lambda box: box["x"])
    assert first["x"] + first["width"] <= second["x"], "neither lies on the other"
    button.click()
    expect(sampled_page.get_by_role("button", name="Everything, one zip")).to_be_enabled(timeout=PATIENT)
    box = sampled_page.get_by_test_id("stPopoverBody").bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= width
    sampled_page.keyboard.press("Escape")


def test_the_page_opens_with_recorded_samples_waits_for_nothing_and_answers_last(page, server):
    page.emulate_media(reduced_motion="no-preference")  # the other visitors of these tests see the last picture at once
    page.goto(recorded_link(server))
    answer, count = verdict(page), page.locator(".filling .count").first
    expect(page.locator(".filling.underway").first).to_contain_text("so far", timeout=PATIENT)
    expect(answer.locator(".told")).to_be_hidden()
    expect(answer.locator(".told")).to_be_visible(timeout=PATIENT)  # it has filled
    expect(answer).to_contain_text("Exact, as far as 100,000 samples can tell")
    expect(count).to_contain_text("100,000 samples")
    expect(page.locator(".st-key-exactness-conditions")).to_contain_text("Recorded on")
    expect(page.locator(".filling")).to_have_count(2)  # and p-values
    rings = page.locator(".filling .strip .without").filter(visible=True)
    expect(rings).to_have_count(0)
    page.get_by_label("compare with 100,000 samples of the target itself").check()
    expect(rings).to_have_count(9)  # the control, in every row
    page.get_by_role("button", name="Replay").first.click()
    expect(answer.locator(".told")).to_be_hidden()
    expect(answer.locator(".told")).to_be_visible(timeout=PATIENT)
    expect(page.locator(".st-key-exactness-stop")).to_have_count(0)
    draw(page, "10,000", "110,000 samples")  # they add to the recorded ones
    expect(answer).to_contain_text("Exact, as far as 100,000 samples can tell", timeout=PATIENT)
    page.get_by_role("button", name="Back to the 100,000 recorded").click()
    expect(count).to_contain_text("100,000 samples", timeout=PATIENT)
    page.get_by_role("button", name="Back to your 110,000").click()
    draw(page, "10,000", "120,000 samples")  # and to one another
    assert page.mistakes == []


@pytest.mark.parametrize(("width", "height"), [(390, 844), (1366, 768), (1920, 1080)])
def test_the_first_screen_holds_a_whole_picture_its_answer_and_at_most_three_controls(context, server, width, height):
    page = laptop(context)
    resize(page, width, height)
    page.goto(recorded_link(server))
    expect(page.locator(".filling")).to_have_count(2, timeout=PATIENT)
    at_rest(page)
    box, answer = page.locator(".filling .cells").first.bounding_box(), verdict(page).bounding_box()
    assert box["y"] + box["height"] <= height and answer["y"] + answer["height"] <= height
    assert answer["y"] + answer["height"] <= box["y"] if width < 640 else answer["x"] >= box["x"] + box["width"], (
        "the answer stands beside its picture, on a phone above it"
    )
    main = page.get_by_test_id("stMainBlockContainer")
    assert main.locator("[class*=st-key-exactness] [data-testid=stTextArea]").count() == 0, "the text is in Settings"
    assert main.locator(".st-key-exactness-buttons button").count() == 1
    button = main.locator(".st-key-exactness-buttons button").bounding_box()
    assert button["y"] + button["height"] <= box["y"] and button["x"] + button["width"] <= width, (
        "over the samples that it adds to"
    )
    assert width < 640 or button["x"] + button["width"] <= answer["x"]
    expect(page.get_by_role("radio")).to_have_count(5)  # what to test, all in sight
    words, _ = read_first_screen(page)
    assert len(words) <= 60 or height > 900, words  # a large screen holds the runs as well
    marks = (
        page.locator(".filling")
        .first.locator(".strip .exact")
        .evaluate_all("all => all.map((one) => one.getBoundingClientRect().x)")
    )
    zero = (
        page.locator(".filling")
        .first.locator(".ticks span", has_text=re.compile("^0$"))
        .evaluate("one => { const { x, width } = one.getBoundingClientRect(); return x + width / 2; }")
    )
    assert max(marks) - min(marks) < 0.1 and abs(marks[0] + 1.5 - zero) < 1.5, "one axis for all texts, the target at its 0"
    page.close()


@pytest.mark.slow  # the same on Break it is fast
def test_long_work_stops_within_a_moment_and_a_change_stands_in_the_address_and_opens_elsewhere(page, server, browser):
    open_exact(page, server, "?prompt=Once+upon&length=4")
    page.get_by_role("button", name="Settings", exact=True).click()
    page.get_by_role("button", name="Sample a million", exact=True).click()
    page.keyboard.press("Escape")
    expect(page.get_by_test_id("stProgress")).to_contain_text("Sampling")
    stop = page.locator(".st-key-exactness-stop button")
    stop.click()
    expect(stop).to_have_count(0, timeout=PATIENT)
    expect(page.locator(".st-key-exactness-draw-100 button")).to_be_enabled()
    page.get_by_role("button", name="Settings").click()
    field = page.get_by_label("Text to continue", exact=True)
    field.fill(NASTY)
    field.press("Control+Enter")
    page.wait_for_url(re.compile("onerror"))
    temperature = page.get_by_label("Temperature", exact=True)
    temperature.fill("0")
    temperature.press("Enter")
    page.wait_for_url(re.compile("temperature=0"))
    page.keyboard.press("Escape")
    assert (query(page)["prompt"], query(page)["max_new_tokens"]) == (NASTY, "4")
    other = laptop(browser)
    other.goto(page.url)
    other.get_by_role("button", name="Settings").click()
    expect(other.get_by_label("Text to continue", exact=True)).to_have_value(NASTY, timeout=PATIENT)
    other.keyboard.press("Escape")
    expect(other.get_by_text("The distribution has only one outcome", exact=False)).to_be_visible(timeout=PATIENT)
    draw(other, "100", "100 samples")
    expect(verdict(other)).to_contain_text("the test is equality")
    assert_harmless(page)
    assert_harmless(other)
    other.close()


CLIENTS, DRAWN = 20, "exactness-histogram"


@pytest.mark.slow
def test_twenty_clients_at_once_on_a_cold_server_stand_in_line_and_get_their_distribution(opening, tmp_path):
    log = tmp_path / "log.txt"
    everybody = [Visitor(seed, f"prompt=a+bear&length=2&seed={seed}", "exactness") for seed in range(CLIENTS)]
    with run_server(opening, log) as address, ThreadPoolExecutor(1) as apart:  # the browser's loop is this thread's
        apart.submit(asyncio.run, open_at_once(everybody, address, lambda visitor: DRAWN in visitor.widgets)).result()
    written = log.read_text()
    assert "Traceback" not in written and "partially initialized" not in written
    assert [one.exceptions for one in everybody] == [0] * CLIENTS and all(DRAWN in one.widgets for one in everybody)
    assert any(re.search(r"places, \d+ ahead", line) for one in everybody for line in one.lines)
