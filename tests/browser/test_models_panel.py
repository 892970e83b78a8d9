"""The panel Models in a browser: a pair of one's own is checked, used, kept over pages and brought back by a reload; on a phone all of it fits."""

from __future__ import annotations

import shutil

import pytest
from playwright.sync_api import expect

from tests.browser.chromium import at_rest, resize
from tests.browser.test_accessibility import IS_DARK
from tests.browser.test_app import PATIENT, open_page, query, wait_live

LEAST = 40  # px: height of what a finger hits


@pytest.fixture
def own_folders(opening, tmp_path):
    """Folders of a pair of the visitor's own."""
    return [shutil.copytree(opening / name, tmp_path / f"my {name}") for name in ("target", "draft")]


def line(page):
    return page.get_by_role("button", name="Models:")


def look_at(page, own) -> None:
    """Open the panel, name the pair and check it."""
    line(page).click()
    page.locator(".st-key-models-panel").wait_for(timeout=PATIENT)
    at_rest(page)  # the run that draws the panel has ended: no field is drawn anew below the text that is entered
    for label, folder in zip(("Target", "Draft"), own, strict=True):
        field = page.get_by_label(label, exact=True)
        field.fill(str(folder))
        field.press("Enter")
        at_rest(page)
        expect(field).to_have_value(str(folder))
    expect(page.locator(".st-key-models-check button")).to_be_enabled(timeout=PATIENT)
    page.locator(".st-key-models-check button").click()
    page.get_by_role("button", name="Use this pair").wait_for(timeout=PATIENT)
    at_rest(page)


def test_a_pair_of_ones_own_is_used_kept_over_pages_and_brought_back_by_a_reload(page, server, own_folders):
    open_page(page, f"{server}/one_round")
    look_at(page, own_folders)
    expect(page.locator(".models-table")).to_contain_text("llama")
    page.get_by_role("button", name="Use this pair").click()
    expect(line(page)).to_contain_text("Models: my target with my draft", timeout=PATIENT)
    expect(page.locator(".st-key-models-panel")).to_have_count(0)
    wait_live(page)
    page.get_by_role("button", name="Learn").click()
    page.get_by_role("menuitem", name="Whole text").click()
    expect(line(page)).to_contain_text("my target with my draft", timeout=PATIENT)
    page.wait_for_url(lambda url: "whole_text" in url and "pair=" in url)
    assert query(page)["pair"] == "|".join(map(str, own_folders))
    page.reload()
    expect(line(page)).to_contain_text("my target with my draft", timeout=PATIENT)
    assert page.mistakes == []


LEGIBLE = """() => {
    const brush = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const luminance = (color) => {
        brush.fillStyle = color;
        brush.fillRect(0, 0, 1, 1);
        const part = (x) => (x / 255 <= 0.03928 ? x / 255 / 12.92 : ((x / 255 + 0.055) / 1.055) ** 2.4);
        const [red, green, blue] = brush.getImageData(0, 0, 1, 1).data;
        return 0.2126 * part(red) + 0.7152 * part(green) + 0.0722 * part(blue);
    };
    const text = getComputedStyle(document.querySelector(".st-key-models button p")).color;
    const paper = getComputedStyle(document.querySelector(".stApp")).backgroundColor;
    const [low, high] = [luminance(text), luminance(paper)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05) >= 4.5;
}"""


def wait_legible(page):
    """In both color schemes."""
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_function(IS_DARK if scheme == "dark" else f"() => !({IS_DARK})()")
        page.wait_for_function(LEGIBLE)


def test_the_line_is_legible_at_rest_under_the_pointer_and_open(page, server):
    """A contrast of 4.5 to 1, as WCAG 2.2 asks of text (criterion 1.4.3)."""
    page.set_viewport_size({"width": 1366, "height": 900})
    page.goto(f"{server}/one_token")
    line(page).wait_for(timeout=PATIENT)
    at_rest(page)
    wait_legible(page)
    line(page).hover()
    wait_legible(page)
    line(page).click()
    page.locator(".st-key-models-panel").wait_for()
    wait_legible(page)
    page.get_by_label("Target", exact=True).click()  # neither hovered nor focused any more
    page.mouse.move(1300, 850)
    at_rest(page)
    wait_legible(page)


def test_the_panel_fits_a_phone_and_its_targets_are_large_enough(page, server, own_folders):
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{server}/exactness")
    page.locator(".stage .strip").first.wait_for(timeout=PATIENT)  # the line stands below the histograms
    resize(page, 390)
    at_rest(page)
    look_at(page, own_folders)
    box = page.locator("[data-testid=stPopoverBody]:has(.st-key-models-panel)").bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 390 and box["y"] >= 0 and box["y"] + box["height"] <= 844
    inside = "e => e.scrollWidth <= e.clientWidth + 1"
    assert page.locator("[data-testid=stPopoverBody]:has(.st-key-models-panel)").evaluate(inside), (
        "nothing is cut off at the side"
    )
    targets = [line(page), *(page.get_by_role("button", name=name) for name in ("Check", "Use this pair"))]
    fields = ("[data-testid=stTextInputRootElement]", "[data-testid=stSelectbox] .react-aria-ComboBox [role=group]")
    targets += [page.locator(f".st-key-models-panel {field}").first for field in fields]
    assert all(one.bounding_box()["height"] >= LEAST for one in targets)
    resize(page, 390)
    assert page.evaluate("document.querySelector('.stMain').scrollWidth") <= 390
