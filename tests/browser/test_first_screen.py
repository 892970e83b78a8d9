"""Every page, loaded by its own address on a laptop: few words, few controls, the way on at one place, and no error in the browser's log."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from playwright.sync_api import Page, expect

from specviz.web.common.frame import FRONT, PAGES
from tests.browser.chromium import at_rest
from tests.browser.conftest import laptop
from tests.browser.first_screen import read_first_screen
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
    """What a visitor finds on a page: words, controls, places in the header, what went wrong on the way, and the title."""

    words: list[str]
    controls: list[str]
    places: list[float | None] | None
    problems: list[str]
    title: str


@pytest.fixture(scope="module")
def first_screens(context, server) -> dict[str, Visit]:
    """The first screen of each page, which is opened once."""
    visits = {}
    for path in (FRONT, *PAGES):
        page, problems = laptop(context), []
        watch_problems(page, problems)
        page.goto(LINKS[path](server) if path in LINKS else f"{server}/{path}")
        page.locator(LAST_DRAWN[path]).filter(visible=True).last.wait_for()
        expect(page.locator(".st-key-place a")).to_have_count(0 if path == FRONT else 2)
        at_rest(page)
        places = None if path == FRONT else page.evaluate(PLACES)
        visits[path] = Visit(*read_first_screen(page), places, [*problems, *page.mistakes], page.title())
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
    assert visit.title and "Streamlit" not in visit.title


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
