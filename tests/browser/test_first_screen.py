"""Every page, loaded by its own address on a laptop: few words, few controls, the way on at one place, no error in the browser's log.

The same visit reads it by the rules of axe-core, light and dark: nothing serious is found. And it says its language and its name.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from specviz.figures.preview import build_tab_title
from specviz.web.common.frame import FRONT, PAGES
from tests.browser.chromium import at_rest
from tests.browser.conftest import laptop
from tests.browser.first_screen import read_first_screen
from tests.browser.test_accessibility import found_in_both_schemes
from tests.browser.test_exactness import recorded_link

MOST_WORDS, MOST_CONTROLS = 60, 3
LINKS = {
    FRONT: str,
    "exactness": recorded_link,
}  # address of the server -> of the page, where its name is not the address; the server's pair has no recorded samples
LAST_DRAWN = {
    FRONT: ".race .claim",
    "one_round": ".transport .primary",
    "one_token": ".folds summary",
    "whole_text": ".lead .answer",
    "questions": ".options button",
    "exactness": ".filling .told",
    "mistakes": ".play .acts button",
    "serving_limits": ".fork .ways",
    "speed": "[data-testid=stSlider]",
    "drafting_methods": ".picture .speed",
    "summary": ".in-short figure",
    "classroom": ".st-key-classroom-example-wrong .told",
}  # of what stands on the first screen
FEW_CONTROLS = (
    "one_round",
    "one_token",
    "whole_text",
    "questions",
    "exactness",
    "mistakes",
    "serving_limits",
    "drafting_methods",
    "summary",
    "classroom",
)  # pages that have at most so many
PLACES = """() => {
  const box = (node) => node?.getBoundingClientRect();
  const own = [...document.querySelectorAll(":is(.st-key-fold, .st-key-export) button")].map((one) => box(one).right);
  return [box(document.querySelector(".st-key-place > :first-child a")).right, box(document.querySelector(".st-key-place > :last-child a")).left, own.length ? Math.max(...own) : null];
}"""  # of the header: end of the way back, start of the way on, end of the page's own buttons


class Visit(NamedTuple):
    """What a visitor finds on a page: words, controls, places in the header, what went wrong on the way, title and language, and what axe finds."""

    words: list[str]
    controls: list[str]
    places: list[float | None] | None
    problems: list[str]
    title: str
    language: str
    violations: list[str]


@pytest.fixture(scope="module")
def first_screens(context: BrowserContext, server: str) -> dict[str, Visit]:
    """The first screen of each page, which is opened once; axe reads the whole page after that."""
    visits = {}
    for path in (FRONT, *PAGES):
        page, problems = laptop(context), []
        watch_problems(page, problems)
        page.goto(LINKS[path](server) if path in LINKS else f"{server}/{path}")
        page.locator(LAST_DRAWN[path]).filter(visible=True).last.wait_for()
        expect(page.locator(".st-key-place a")).to_have_count(0 if path == FRONT else 2)
        at_rest(page)
        places = None if path == FRONT else page.evaluate(PLACES)
        words, controls = read_first_screen(page)
        if path != FRONT:
            page.locator(f"[class*='st-key-onward-{path}']").wait_for()
        page.wait_for_load_state("networkidle")
        language, violations = page.evaluate("document.documentElement.lang"), found_in_both_schemes(page)
        visits[path] = Visit(words, controls, places, [*problems, *page.mistakes], page.title(), language, violations)
        page.close()
    return visits


def watch_problems(page: Page, problems: list[str]) -> None:
    """Keep in ``problems`` what the console calls an error, and each request that fails."""
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("response", lambda answer: problems.append(f"{answer.status} {answer.url}") if answer.status >= 400 else None)
    page.on("requestfailed", lambda request: problems.append(f"failed: {request.url}"))


@pytest.mark.parametrize("path", (FRONT, *PAGES))
def test_a_direct_load_logs_no_error_and_no_request_fails(first_screens, path):
    visit = first_screens[path]
    assert visit.problems == []
    assert visit.title == build_tab_title(path)


@pytest.mark.parametrize("path", (FRONT, *PAGES))
def test_a_page_of_the_app_has_no_serious_finding_and_says_its_language(first_screens, path):
    assert first_screens[path].violations == []
    assert first_screens[path].language == "en"


def test_the_way_back_and_on_stand_at_the_same_place_of_every_page_and_no_button_leaves_a_hole(first_screens):
    places = {path: visit.places for path, visit in first_screens.items() if path != FRONT}
    assert len({round(back) for back, _, _ in places.values()}) == 1, places
    assert len({round(onward) for _, onward, _ in places.values()}) == 1, places
    assert len({round(own) for _, _, own in places.values() if own is not None}) == 1, places


@pytest.mark.parametrize("path", (FRONT, *PAGES))
def test_a_first_screen_has_few_words_outside_of_its_pictures(first_screens, path):
    words = first_screens[path].words
    assert 3 <= len(words) <= MOST_WORDS, f"{len(words)}: {' '.join(words)}"


@pytest.mark.parametrize("path", FEW_CONTROLS)
def test_a_first_screen_has_few_controls(first_screens, path):
    controls = first_screens[path].controls
    assert len(controls) <= MOST_CONTROLS, controls
