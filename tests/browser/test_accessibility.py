"""What opens over a page, the tour, the door of a room and the static edition by the rules of axe-core, light and dark: nothing serious is found.

test_first_screen.py reads every page of the app so, in its one visit.
"""

from __future__ import annotations

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from specviz.static_site import document as edition
from tests.browser.chromium import at_rest
from tests.browser.component_pages import open_more
from tests.browser.test_static_site import SHOWN, watch_origin

GRAVE = ("serious", "critical")


STILL = (
    "() => document.getAnimations().every((one) => one.playState !== 'running') && !document.querySelector('[data-stale=true]')"
)


OF_COLORS = ("color-contrast", "link-in-text-block")  # the rules whose findings a color scheme can change
IS_DARK = """() => {
    const app = document.querySelector(".stApp");
    return !app || getComputedStyle(app).backgroundColor.match(/[0-9]+/g).slice(0, 3).every((one) => Number(one) < 128);
}"""


RUN = "([within, options]) => axe.run(within || document, options).then((found) => found.violations)"


def found_in_both_schemes(page, within: str = "") -> list[str]:
    """What is found on a light page, and then, for what concerns colors, when the system turns dark. within: selector of a part; the page if none."""
    light = list_violations(page, within=within)
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(IS_DARK)
    dark = list_violations(page, OF_COLORS, within)
    page.emulate_media(color_scheme="light")
    return light + [f"dark: {one}" for one in dark]


def list_violations(page, rules: tuple[str, ...] = (), within: str = "") -> list[str]:
    """What axe finds on a page and calls serious or critical, with the first element of each finding. rules: of axe; all if none.

    Nothing may be fading in or out meanwhile. A page that looks at its work by itself may begin to while axe reads, so only what is found again counts.
    """
    said: list[str] = []
    if not page.evaluate("'axe' in window"):  # once for each document: reading the script takes as long as a short page
        page.evaluate(Axe().axe_script)
    for _ in range(3):
        page.wait_for_function(STILL)
        options = {"resultTypes": ["violations"]} | ({"runOnly": list(rules)} if rules else {})
        violations = page.evaluate(RUN, [within, options])
        said = [
            f"{one['id']}: {one['help']} ({len(one['nodes'])}, {one['nodes'][0]['target']} {one['nodes'][0]['failureSummary']})"
            for one in violations
            if one["impact"] in GRAVE
        ]
        if not said:
            break
    return said


@pytest.fixture(scope="module")
def eyes(browser):
    """A browser with a light color scheme."""
    context = browser.new_context(viewport={"width": 1366, "height": 768}, color_scheme="light", reduced_motion="reduce")
    yield context
    context.close()


def test_what_opens_over_a_page_has_no_serious_finding(eyes, server):
    page = eyes.new_page()
    page.goto(f"{server}/speed")
    for name, within in (("Models", ".st-key-models-panel input"), ("Terms", ".terms"), ("Export", "button")):
        page.get_by_role("button", name=name).first.click()
        page.get_by_test_id("stPopoverBody").locator(within).first.wait_for()  # the server draws what is in it once it is open
        at_rest(page)
        assert found_in_both_schemes(page, "[data-testid=stPopoverBody], [data-testid=stPopover]") == [], name
        page.keyboard.press("Escape")
        page.get_by_test_id("stPopoverBody").wait_for(state="detached")


def test_the_tour_a_bet_and_the_presenter_view_have_no_serious_finding(eyes, server):
    page = eyes.new_page()
    page.goto(f"{server}/?tour=1")
    page.locator(".stage.touring").wait_for()
    at_rest(page)
    page.wait_for_load_state("networkidle")
    assert found_in_both_schemes(page) == []
    page.keyboard.press("Escape")
    open_more(page)
    page.get_by_role("button", name="Guess first").click()
    for _ in range(8):
        if page.get_by_role("button", name="Draw u").is_visible():
            break
        page.keyboard.press("ArrowRight")
    page.get_by_role("button", name="Draw u").wait_for()
    assert found_in_both_schemes(page) == []
    page.keyboard.press("f")
    page.locator(".stage.presenting").wait_for()
    assert found_in_both_schemes(page) == []


def test_the_door_of_a_room_has_no_serious_finding(eyes, server):
    page = eyes.new_page()
    page.goto(f"{server}/room/")
    page.get_by_role("button", name="Join").wait_for()
    assert found_in_both_schemes(page) == []


@pytest.mark.parametrize("name", edition.PAGES)
def test_a_page_of_the_static_edition_opens_from_the_disk_and_has_no_serious_finding(eyes, site, name):
    page, problems = eyes.new_page(), []
    watch_origin(page, "file://", problems)
    page.goto((site / f"{name}.html").as_uri())
    expect(page.locator(SHOWN[name]).first).to_be_visible()
    page.evaluate("document.fonts.ready")
    assert problems == []
    assert found_in_both_schemes(page) == []
    assert page.evaluate("document.documentElement.lang") == "en"


def test_a_finding_is_found(eyes):
    page = eyes.new_page()
    dark = "<style>@media (prefers-color-scheme: dark) { p { color: #444; background: #333 } }</style>"
    page.set_content(f'<html lang="en"><title>x</title>{dark}<main><h1>x</h1><p>some words</p><button></button></main>')
    assert [re.split(r": | \(", one)[:2] for one in found_in_both_schemes(page)] == [
        ["button-name", "Buttons must have discernible text"],
        ["dark", "color-contrast"],
    ]
    assert [re.split(r": | \(", one)[:2] for one in found_in_both_schemes(page, "p, h1")] == [["dark", "color-contrast"]], (
        "in a part"
    )
