"""The first screen of every page on a laptop: few words, few controls, and the way on at one place."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

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


@pytest.fixture(scope="module")
def first_screens(context, server) -> dict[str, Any]:
    """What a visitor finds on each page: words, controls, and places in the header. Each page is opened once."""
    found = {}
    for path in (FRONT, *PAGES):
        page = laptop(context)
        page.goto(LINKS[path](server) if path in LINKS else f"{server}/{path}")
        page.locator(LAST_DRAWN[path]).filter(visible=True).last.wait_for()
        expect(page.locator(".st-key-place a")).to_have_count(0 if path == FRONT else 2)
        at_rest(page)
        found[path] = (*read_first_screen(page), None if path == FRONT else page.evaluate(PLACES))
        page.close()
    return found


def test_the_way_back_and_on_stand_at_the_same_place_of_every_page_and_no_button_leaves_a_hole(first_screens):
    places = {path: places for path, (_, _, places) in first_screens.items() if path != FRONT}
    assert len({round(back) for back, _, _ in places.values()}) == 1, places
    assert len({round(onward) for _, onward, _ in places.values()}) == 1, places
    assert len({round(own) for _, _, own in places.values() if own is not None}) == 1, places


@pytest.mark.parametrize("path", (FRONT, *PAGES))
def test_a_first_screen_has_few_words_outside_of_its_pictures(first_screens, path):
    words, _, _ = first_screens[path]
    assert 3 <= len(words) <= MOST_WORDS, f"{len(words)}: {' '.join(words)}"


@pytest.mark.parametrize("path", FEW_CONTROLS)
def test_a_first_screen_has_few_controls(first_screens, path):
    _, controls, _ = first_screens[path]
    assert len(controls) <= MOST_CONTROLS, controls
