"""The page in a real browser on a real server: links, steps without calls, live runs, text that stays text."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlparse

import pytest
from playwright.sync_api import Page, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from specviz.web.common.frame import ABOUT
from tests.browser.chromium import at_rest, resize
from tests.browser.component_pages import open_more
from tests.browser.conftest import ROOT, VIOLATIONS, laptop

PATIENT = 150_000  # ms; importing torch beside twenty clients on two busy cores takes that long at worst
NASTY = "<img src=x onerror=alert(1)> $x$ :red[a] </script><script>alert(2)</script> ![i](http://127.0.0.1:9/i.png)"


def open_page(page: Page, address: str) -> Page:
    page.goto(address)
    page.locator(".stage .opening").wait_for(timeout=PATIENT)
    return page


def status(page: Page) -> str:
    return page.locator(".stage .status").text_content()


def sentence(page: Page) -> str:
    return page.locator(".stage .sentence").text_content()


def wait_live(page: Page) -> None:
    expect(page.locator(".stage .status")).to_contain_text("live round", timeout=PATIENT)
    expect(page.locator(".stage .busy")).to_be_hidden(timeout=PATIENT)


def query(page: Page) -> dict[str, str]:
    return {key: values[0] for key, values in parse_qs(urlparse(page.url).query, keep_blank_values=True).items()}


def wait_for_address(page: Page) -> None:
    """Until it names the round and the step that are shown."""
    round_, step = (int(page.locator(f".stage {place}").first.input_value()) for place in ("select", ".track input"))
    page.wait_for_url(re.compile(rf"[?&]at={round_ + 1}\.{step + 1}(&|$)"))


def fill(page: Page, label: str, text: str) -> None:
    """Type into a field of the fold, which is opened where it is closed.

    While a run's result is put on the page the browser draws an open fold anew: it is out of the page for a moment.
    """
    field, fold = page.get_by_label(label, exact=True), page.get_by_role("button", name="Your own text")
    for _ in range(3):
        try:
            field.wait_for(timeout=1500)
            break
        except PlaywrightTimeout:
            fold.click()
    field.fill(text)
    field.press("Control+Enter" if label == "Text to continue" else "Enter")


@pytest.fixture(scope="module")
def opened_page(browser, server) -> Page:
    """The page as it opens for somebody who was never here, at rest. Tests only step through it, or leave it as wide as it was."""
    page = laptop(browser.new_context(viewport={"width": 1366, "height": 768}, reduced_motion="reduce"))
    page.sent = []
    page.on("websocket", lambda socket: socket.on("framesent", lambda frame: page.sent.append(frame)))
    open_page(page, f"{server}/one_round")
    page.wait_for_load_state("networkidle")
    at_rest(page)
    yield page
    page.context.close()


def test_a_laptop_screen_holds_the_page_without_scrolling_but_for_the_way_to_the_next_one(opened_page):
    page = opened_page
    assert page.evaluate("document.querySelector('.st-key-terms-one_round').getBoundingClientRect().bottom <= innerHeight")
    for name in ("Step →", "Play", "Your own text"):
        expect(page.get_by_role("button", name=name)).to_be_in_viewport(ratio=1)
    assert status(page).startswith("recorded round")
    assert "cpu float32" in status(page)
    assert re.search(r"drafting \d+ tokens [\d.]+ ms, target pass over \d+ tokens \(\d+ of the prompt\) [\d.]+ ms", status(page))


@pytest.mark.parametrize("width", [900, 1024, 1366, 1920])
def test_the_pair_and_the_terms_stand_clear_of_the_line_under_the_stage(opened_page, width):
    page = opened_page
    resize(page, width, 768)
    row = page.locator(".st-key-terms-one_round").bounding_box()
    line = page.locator(".stage .status").bounding_box()
    assert line["y"] + line["height"] <= row["y"]
    assert row["y"] + row["height"] <= 768
    resize(page, 1366, 768)


def test_nothing_moves_for_those_who_asked_for_that(opened_page):
    page = opened_page
    long = page.evaluate(
        """() => [...document.querySelectorAll("*")].filter((one) => parseFloat(getComputedStyle(one).transitionDuration) > 0.02)
            .map((one) => one.className)"""
    )
    assert long == []


def test_the_menu_names_the_lessons_the_glossary_and_the_reading(page, server):
    page.goto(f"{server}/questions")
    page.locator("[class*=st-key-onward-]").wait_for(timeout=PATIENT)
    page.get_by_test_id("stMainMenu").get_by_role("button").click()
    page.get_by_test_id("stMainMenuItem-about").click()
    for name in re.findall(r"`([\w-]+\.md)`", ABOUT):
        expect(page.get_by_role("dialog")).to_contain_text(name)
        assert len(list((ROOT / "docs").rglob(name))) == 1


def test_nothing_is_fetched_from_outside(opened_page, server):
    asked = opened_page.asked
    assert [url for url in asked if not url.startswith((server, server.replace("http", "ws"), "data:", "blob:"))] == []
    assert any("inter-latin" in url for url in asked)


@pytest.mark.parametrize("width", [390, 768, 1920])
def test_no_width_scrolls_sideways(opened_page, width):
    resize(opened_page, width)
    assert opened_page.evaluate("document.querySelector('.stMain').scrollWidth") <= width
    expect(opened_page.get_by_role("button", name="Your own text")).to_be_in_viewport(ratio=1)
    resize(opened_page, 1366, 768)


def test_stepping_costs_no_server_call(opened_page):
    page, before, seen = opened_page, len(opened_page.sent), set()
    for key in ["ArrowRight"] * 12 + ["ArrowLeft"] * 12 + ["Home", "End"]:
        page.keyboard.press(key)
        seen.add(sentence(page))
    wait_for_address(page)
    assert len(seen) > 8
    assert len(page.sent) - before == 0
    assert "at" in query(page)


def test_a_copied_link_shows_the_same_round_and_motion(opened_page, browser):
    page = opened_page
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    wait_for_address(page)
    here = sentence(page)
    other = browser.new_page(viewport={"width": 1366, "height": 768})
    open_page(other, page.url)
    assert sentence(other) == here
    assert status(other).startswith("recorded")
    other.close()


def test_going_live_says_so_and_next_adds_a_round(page, server):
    open_page(page, f"{server}/one_round")
    open_more(page)
    page.get_by_role("button", name="Run it now").click()
    wait_live(page)
    rounds = page.locator(".stage select option")
    rounds.first.wait_for(state="attached")
    count = rounds.count()
    page.locator(".stage select").select_option(str(count - 1), force=True)
    page.locator(".stage .sentence").click()  # a key in the list of rounds is its own
    page.keyboard.press("Enter")
    expect(rounds).to_have_count(count + 1, timeout=PATIENT)
    assert page.mistakes == []


def test_settings_in_the_fold_run_the_pair_and_their_link_opens_elsewhere(page, server, browser):
    open_page(page, f"{server}/one_round")
    fill(page, "Text to continue", "a little rabbit")
    wait_live(page)
    fill(page, "Temperature", "0.8")
    expect(page.locator(".stage .status")).to_contain_text("temperature 0.8", timeout=PATIENT)
    page.keyboard.press("Escape")
    page.wait_for_url(re.compile("temperature="))  # the address follows the stage
    assert (query(page)["prompt"], query(page)["temperature"]) == ("a little rabbit", "0.8")
    page.locator(".stage .sentence").click()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    wait_for_address(page)
    here = sentence(page)
    other = browser.new_page(viewport={"width": 1366, "height": 768})
    open_page(other, page.url)
    wait_live(other)
    assert sentence(other) == here
    other.close()


def choose_uniform(page: Page, text: str) -> None:
    """Type a random number where the first one is on the ruler."""
    page.keyboard.press("Home")
    for _ in range(30):
        if page.locator(".stage").get_attribute("data-step") == "uniform":
            break
        page.keyboard.press("ArrowRight")
    field = page.locator(".stage .uniformForm input, .stage form input").first
    field.fill(text)
    field.press("Enter")


def test_a_chosen_random_number_is_marked_linked_and_undone(page, server):
    open_page(page, f"{server}/one_round")
    choose_uniform(page, "0.999")
    expect(page.locator(".stage .status")).to_contain_text("you set u of", timeout=PATIENT)
    wait_live(page)
    page.wait_for_url(re.compile("uniforms="))
    assert query(page)["uniforms"] == "0=0.999"
    page.get_by_role("button", name="Undo my numbers").click()
    expect(page.locator(".stage .status")).to_contain_text("recorded round", timeout=PATIENT)
    page.wait_for_url(lambda url: "uniforms" not in url)


def test_back_returns_to_the_run_before(page, server):
    open_page(page, f"{server}/one_round")
    fill(page, "Seed", "12")
    expect(page.locator(".stage .status")).to_contain_text("seed 12", timeout=PATIENT)
    expect(page).to_have_url(
        re.compile("seed=12"), timeout=PATIENT
    )  # the address follows the page; before that, Back leads out of the app
    page.keyboard.press("Escape")
    page.go_back()
    expect(page.locator(".stage .status")).to_contain_text("recorded round", timeout=PATIENT)
    page.go_forward()
    expect(page.locator(".stage .status")).to_contain_text("seed 12", timeout=PATIENT)


def test_a_damaged_link_opens_with_sentences_and_its_markup_runs_nothing(page, server):
    markup = "pair=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E&seed=%3Cscript%3Ealert(2)%3C%2Fscript%3E&at=%3Cb%3E&top_k=%24x%24"
    open_page(page, f"{server}/?gamma=17&top_p=1.5&uniforms=0=1.0&{markup}")
    notices = page.locator(".stage .notices")
    for part in ("got 17.", "got 1.5.", "not in the catalog", "below 1", "ROUND.STEP", "got '$x$'"):
        expect(notices).to_contain_text(part)
    for part in ("<img src=x onerror=alert(1)>", "<script>alert(2)</script>"):
        expect(notices).to_contain_text(part)
    assert status(page).startswith("recorded")
    assert_harmless(page)


def test_a_prompt_with_markup_is_shown_as_the_text_it_is(page, server):
    open_page(page, f"{server}/one_round")
    fill(page, "Text to continue", NASTY)
    wait_live(page)
    page.get_by_title("show the whole text").click()  # its end alone fits beside the draft tokens
    expect(page.locator(".stage .line")).to_contain_text(NASTY[:60])
    fill(page, "Temperature", "<img src=x onerror=alert(3)> $y$ :red[b]")
    said = page.get_by_test_id("stText").filter(has_text="temperature must be").first
    expect(said).to_contain_text("'<img src=x onerror=alert(3)> $y$ :red[b]'")
    at_rest(page)
    assert_harmless(page)


def assert_harmless(page: Page) -> None:
    """Nothing of the text became an element, a request, a formula, a color or a script."""
    assert page.dialogs == []
    assert page.mistakes == []
    assert page.locator("img[src='x'], img[alt='i'], .stage img, .stage script, .stage .notices b").count() == 0
    assert page.locator(".katex, .stMarkdownColoredText").count() == 0
    assert not [url for url in page.asked if url.endswith("/x") or "127.0.0.1:9/" in url]


def test_a_script_that_is_put_into_the_page_is_refused_by_the_servers_policy(page, server):
    page.goto(f"{server}/questions")
    page.locator("[class*=st-key-onward-]").wait_for(timeout=PATIENT)
    assert VIOLATIONS == []
    page.evaluate("document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.ran = true'}))")
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.ran = true\">')")
    expect(page.locator("img[src=x]")).to_have_js_property("complete", True)
    assert page.evaluate("window.ran") is None
    assert len(VIOLATIONS) >= 2, "the browser says so"
    VIOLATIONS.clear()


def test_the_menu_of_a_narrow_window_closes_once_a_page_was_chosen(context, server):
    """Streamlit does so on phones alone, which it knows by their user agent."""
    page = laptop(context)
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{server}/one_token")
    page.get_by_test_id("stExpandSidebarButton").click()
    drawer = page.get_by_test_id("stSidebar")
    expect(drawer).to_have_attribute("data-collapsed", "false")
    drawer.get_by_role("link", name="Eight questions").click()
    page.wait_for_url("**/questions")
    expect(drawer).to_have_attribute("data-collapsed", "true")
    page.close()
