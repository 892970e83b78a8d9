"""Break it in a real browser: a mistake is caught, a secret is kept until the guess, a stop is quick, nothing scrolls sideways."""

from __future__ import annotations

import re
import time

from playwright.sync_api import Page, expect

from tests.browser import resize
from tests.e2e.test_page import NASTY, PATIENT, query


def open_broken(page: Page, server: str, link: str = "?prompt=Once+upon&mistake=R5") -> Page:
    """Open the page and wait until its texts are written."""
    page.goto(f"{server}/broken{link}")
    expect(page.get_by_test_id("stMainBlockContainer").get_by_text("How fast?", exact=True)).to_be_visible(timeout=PATIENT)
    expect(page.locator(".st-key-broken-stop")).to_have_count(0, timeout=PATIENT)
    return page


def verdict(page: Page):
    return page.locator("[class*=st-key-broken-verdict]")


def test_a_mistake_is_caught_and_the_right_rule_passes(page, server):
    open_broken(page, server)
    expect(verdict(page)).to_contain_text("There are no samples yet")
    page.get_by_role("button", name="Sample until it is detected").click()
    expect(verdict(page)).to_contain_text(re.compile(r"Detected: [\d,]+ samples were enough"), timeout=PATIENT)
    expect(verdict(page)).to_contain_text("The correct one passes")
    expect(page.locator(".js-plotly-plot")).to_have_count(3)
    expect(page.locator("[aria-label*='Detected at'], [alt*='Detected at']").first).to_be_attached()
    page.get_by_text("The numbers behind the pictures").click()
    expect(page.get_by_test_id("stDataFrame")).to_have_count(4)
    assert page.mistakes == []


def test_the_choice_stands_in_the_address_and_opens_elsewhere(page, server, browser):
    open_broken(page, server)
    page.get_by_label("Mistake", exact=True).click()
    page.get_by_role("option", name=re.compile("random number stuck at 0")).click()
    page.wait_for_url(re.compile("mistake=R18"))
    assert query(page)["prompt"] == "Once upon"
    expect(page.get_by_role("link", name="vllm-project/vllm-ascend#13766")).to_have_attribute(
        "href", "https://github.com/vllm-project/vllm-ascend/issues/13766"
    )
    other = browser.new_page()
    other.set_default_timeout(PATIENT)
    other.goto(page.url)
    expect(other.get_by_text("The random number is always 0", exact=False)).to_be_visible(timeout=PATIENT)
    other.close()


def test_a_secret_is_kept_until_the_guess(page, server):
    open_broken(page, server, "?prompt=Once+upon&mistake=hidden&seed=5")
    expect(page.get_by_role("button", name="Sample until it is detected")).to_have_count(0)
    page.get_by_role("button", name="Sample to 100", exact=True).click()
    expect(page.get_by_text("100 samples of each so far")).to_be_visible(timeout=PATIENT)
    guess = page.get_by_role("button", name="A is wrong", exact=True)
    expect(guess).to_have_count(1)
    expect(guess).to_be_enabled()
    expect(verdict(page)).to_contain_text("Which one is wrong?")
    guess.click()
    expect(verdict(page)).to_contain_text("You guessed after 100 samples")
    page.get_by_role("button", name="Another hidden one").click()
    expect(verdict(page)).to_contain_text("Which?", timeout=PATIENT)
    page.wait_for_url(re.compile(r"seed=(?!5(&|$))"))
    expect(page.get_by_role("button", name="Sample to 100", exact=True)).to_be_enabled(timeout=PATIENT)


def test_long_work_shows_progress_and_stops_within_a_moment(page, server):
    open_broken(page, server, "?prompt=Once+upon&mistake=R16")
    page.get_by_role("button", name="Sample until it is detected").click()
    expect(page.get_by_test_id("stProgress")).to_contain_text("Sampling", timeout=PATIENT)
    stop = page.locator(".st-key-broken-stop button")
    began = time.monotonic()
    stop.click()
    expect(stop).to_have_count(0, timeout=PATIENT)
    assert time.monotonic() - began < 25.0, "the page follows; the second is held in test_queue.py, without a browser"
    expect(page.get_by_role("button", name="Sample until it is detected")).to_be_enabled()


def test_a_prompt_with_markup_stays_text(page, server):
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    open_broken(page, server)
    field = page.get_by_label("Text to continue", exact=True)
    field.fill(NASTY)
    field.press("Control+Enter")
    page.wait_for_url(re.compile("onerror"))
    expect(page.locator(".broken-texts")).to_contain_text("rule", timeout=PATIENT)
    assert (page.dialogs, page.mistakes) == ([], [])
    assert page.locator("img[src='x'], .katex, .stMarkdownColoredText").count() == 0
    assert not [url for url in asked if url.endswith("/x") or "127.0.0.1:9/" in url]


def test_no_width_scrolls_sideways(browser, server):
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.set_default_timeout(PATIENT)
    open_broken(page, server)
    page.get_by_role("button", name="Sample until it is detected").click()
    expect(verdict(page)).to_contain_text("Detected:", timeout=PATIENT)
    expect(page.locator(".js-plotly-plot")).to_have_count(3)
    for width, scheme in ((390, "light"), (390, "dark"), (1366, "dark"), (1920, "light")):
        page.emulate_media(color_scheme=scheme)
        resize(page, width)
        assert page.evaluate("document.querySelector('.stMain').scrollWidth") <= width, (width, scheme)
    page.close()
