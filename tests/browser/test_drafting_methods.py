"""Drafting methods in a real browser: methods are chosen, a round is walked without the server, a run shows its progress and stops."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.chromium import at_rest, resize
from tests.browser.test_app import NASTY, PATIENT, assert_harmless, query


def open_methods(page: Page, server: str, link: str = "") -> Page:
    """Open the page and wait until all of it stands."""
    page.goto(f"{server}/drafting_methods{link}")
    expect(page.locator(".picture .speed .machine b").first).to_be_visible(timeout=PATIENT)
    expect(page.locator(".methods li:visible .method").first).to_be_visible(timeout=PATIENT)
    if "row=" in link:
        expect(page.locator(".walked .leaf").first).to_be_visible(timeout=PATIENT)
    return page


def test_a_round_is_walked_with_buttons_keys_and_chips_no_server_is_asked_and_no_width_scrolls_sideways(page, server):
    open_methods(page, server, "?row=tree-wide")
    sent = []
    page.on("websocket", lambda socket: sent.append(socket.url))
    page.on("request", lambda request: sent.append(request.url))
    room, sentence = page.locator(".walked"), page.locator(".walked .sentence")
    expect(sentence).to_contain_text("A tree of 15 draft tokens, 3 deep")
    page.get_by_role("button", name="Step →").click()
    expect(sentence).to_contain_text("accepted with probability")
    expect(room.locator(".aloud")).to_contain_text("accepted with probability")
    expect(room.locator(".aloud")).to_have_attribute("aria-live", "polite")
    first = sentence.inner_text()
    page.keyboard.press("ArrowRight")
    assert sentence.inner_text() != first
    page.keyboard.press("ArrowLeft")
    expect(sentence).to_have_text(first)
    page.keyboard.press("End")
    expect(sentence).to_contain_text("from 1 target pass")
    expect(page.get_by_role("button", name="Step →")).to_be_disabled()
    expect(room.locator(".leaf[data-is=unchecked]").first).to_be_visible()
    room.locator(".leaf").first.click()
    expect(sentence).to_have_text(first)
    room.get_by_label("step of this round").fill("0")
    expect(sentence).to_contain_text("One target pass")
    expect(room.locator(".mask")).to_have_attribute("aria-label", re.compile("sees only the text"))
    assert room.locator(".mask .sees").count() == 3 + 6 * 2 + 6 * 3
    assert sent == [] and page.mistakes == []
    page.emulate_media(color_scheme="dark")
    fits(page)


@pytest.mark.parametrize(("width", "height"), ((1366, 768), (390, 844)))
def test_a_method_is_chosen_in_the_first_screen_and_its_round_and_speed_stand_there(page, server, width, height):
    page.set_viewport_size({"width": width, "height": height})
    open_methods(page, server)
    picture = page.locator(".picture")
    for part in (".tree", ".under", ".speed", ".main > button"):
        expect(picture.locator(part)).to_be_in_viewport(ratio=0.99)
    choices = picture.get_by_role("radiogroup", name="Drafting method").get_by_role("radio")
    expect(choices).to_have_count(7)
    if width > 640:
        expect(page.locator(".methods li:visible .method").nth(1)).to_be_in_viewport(ratio=0.99)
    speeds = picture.locator(".speed .machine")
    expect(speeds).to_contain_text(["two CPU cores, measured", "H200, target of 8B, computed"])
    expect(speeds.locator("b")).to_have_text([re.compile(r"^1\.\d\d×$")] * 2)
    expect(page.locator(".walked")).to_have_count(0)
    expect(page.locator(".methods .method[aria-pressed=true]")).to_contain_text("Draft model")
    expect(picture.get_by_role("radio", checked=True)).to_have_text("Draft model")
    expect(page.get_by_label("Text to continue", exact=True)).to_be_hidden()
    expect(page.get_by_role("button", name="Run all methods")).to_be_hidden()
    expect(page.get_by_role("radio", name="temperature 1")).to_be_hidden()
    before = picture.locator(".leaf").count()
    expect(picture.locator(".under")).to_contain_text(re.compile(r"\d draft tokens, one target pass:"))
    counts = [int(one) for one in picture.locator(".legend li:visible .n").all_inner_texts() if one]
    assert sum(counts) == before, "each token of the round is counted once"
    assert "·" not in picture.locator(".tree").inner_text(), "a space before a word has no mark"
    rejected = picture.locator(".leaf[data-is=rejected]")
    expect(rejected).to_have_css("background-image", "none")
    expect(rejected.locator(".word")).to_have_css("text-decoration-line", "line-through")
    expect(rejected.locator(".mark")).to_have_text("")
    picture.get_by_role("radio", name="Tree of 15 draws").click()
    expect(picture.locator(".about")).to_contain_text("Three tokens, two after each")
    at_rest(page)
    assert (before, picture.locator(".leaf").count()) == (4, 16), "all draft tokens, and one of the target"
    expect(picture.locator(".leaf[data-is=accepted]").first).to_be_visible()
    expect(speeds.first).to_contain_text(re.compile(r"0\.\d\d×as fast"))
    expect(speeds.last).to_contain_text("at most")
    expect(picture.locator(".note")).to_contain_text("a pass that checks 15 draft tokens takes")
    page.wait_for_url(re.compile("row=tree-wide(&|$)"))
    page.keyboard.press("ArrowRight")
    expect(picture.get_by_role("radio", checked=True)).to_have_text("EAGLE tree of 15")
    expect(picture.get_by_role("radio", checked=True)).to_be_focused()
    picture.get_by_role("radio", name="Typical acceptance").click()
    expect(picture.locator(".speed")).to_contain_text("not exact")


def test_the_step_button_leads_to_a_real_round_of_the_method(page, server):
    page.set_viewport_size({"width": 1366, "height": 768})
    open_methods(page, server)
    page.get_by_role("button", name="Step through this round").click()
    expect(page.locator(".walked .leaf").first).to_be_in_viewport(timeout=PATIENT)
    expect(page.get_by_role("heading", name="Draft model: one round")).to_be_visible()
    page.wait_for_url(re.compile("row=draft(&|$)"))


def test_the_round_that_a_click_leads_to_has_tree_bars_and_mask_in_one_screen(page, server):
    page.set_viewport_size({"width": 1366, "height": 768})
    open_methods(page, server)
    page.locator(".methods").get_by_role("button", name="Tree of 15 draws").click()
    expect(page.locator(".walked .leaf").first).to_be_in_viewport(timeout=PATIENT)
    page.wait_for_function("document.querySelector('.stMain').scrollTop > 100")
    at_rest(page)
    for part in (".tree", ".bars", ".mask", "button.primary"):
        expect(page.locator(f".walked {part}")).to_be_in_viewport(ratio=0.99)


def test_a_click_on_a_method_chooses_it_and_all_of_them_are_one_button_away(page, server):
    open_methods(page, server)
    page.locator(".methods").get_by_role("button", name="Copy from the text").click()
    page.wait_for_url(re.compile("row=ngram(&|$)"))
    expect(page.get_by_role("heading", name="Copy from the text: one round")).to_be_visible()
    expect(page.locator('.methods .method[aria-pressed="true"]')).to_have_count(1)
    expect(page.get_by_role("button", name="19 exact methods")).to_have_count(1)
    more = page.get_by_role("button", name="Show all 19 exact methods")
    expect(more).to_have_attribute("aria-expanded", "false")
    more.click()
    expect(page.locator(".methods li:visible .method")).to_have_count(21)
    lookahead = page.get_by_role("button", name="Lookahead. ")
    expect(lookahead).to_have_accessible_name(
        re.compile(
            r"tokens per target pass\. a round takes the time of [\d.]+ tokens without a draft\. two CPU cores, measured: [\d.]+ \([\d.]+ to [\d.]+\) "
            r"times as fast as target only, slower\. H200, target of 8B, computed: at most [\d.]+ times as fast as target only\.$"
        )
    )
    lookahead.focus()
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("row=lookahead(&|$)"))
    expect(page.get_by_role("heading", name="Lookahead: one round")).to_be_visible()
    page.get_by_role("button", name="Fewer methods").click()
    expect(lookahead).to_be_visible()
    for width in (390, 768, 1920, 1366):
        resize(page, width)
        room = page.locator(".methods").bounding_box()
        for line in page.locator(".methods li:visible .method").all():
            assert line.evaluate("node => node.scrollWidth <= node.clientWidth + 1")
            box = line.bounding_box()
            assert room["x"] - 1 <= box["x"] and box["x"] + box["width"] <= room["x"] + room["width"] + 1


def test_both_machines_stand_in_one_table_in_the_order_of_the_measured_speeds_and_the_fold_chooses_the_second(page, server):
    open_methods(page, server)
    chart, lines = page.locator(".methods"), page.locator(".methods li:visible .method")

    def read_speeds(machine: int) -> list[float]:
        """The speeds of the exact methods on one of both machines, as they stand."""
        said = [line.locator(".value").nth(machine).inner_text() for line in lines.all()]
        return [float(text.strip("× ")) for text in said[:-1]]

    machines = page.get_by_role("radiogroup", name="Second machine")
    for width in (1366, 390):
        resize(page, width)
        measured, computed = read_speeds(0), read_speeds(1)
        assert measured == sorted(measured, reverse=True) and len(computed) == len(measured)
        tree = lines.filter(has_text="Tree of 15 draws")
        expect(tree.locator(".verdict")).to_have_text(["slower", "at most"])
        expect(tree.locator(".gloss")).to_be_visible()
        expect(lines.filter(has_text="no draft")).to_have_count(1)
        assert all(bar.bounding_box()["width"] >= 14 for bar in tree.locator(".bar").all()), "a bar can be read"
        expect(chart.locator(".why")).to_contain_text("a pass that checks 15 draft tokens takes")
        lines.last.scroll_into_view_if_needed()
        scale = chart.locator(".heads .fast").first
        expect(scale).to_be_in_viewport() if width < 640 else expect(scale).to_be_visible()
        if not machines.is_visible():
            page.get_by_text("Temperature, another machine, and how this was measured").click()
        expect(machines.get_by_role("radio", name="H200, target of 8B")).to_be_checked()
        machines.get_by_role("radio", name="H200, target of 1.7B").click()
        page.wait_for_url(re.compile("costs=h200-1.7b(&|$)"))
        expect(page.locator(".picture .speed .machine").last).to_contain_text("H200, target of 1.7B, computed", timeout=PATIENT)
        at_rest(page)
        assert read_speeds(0) == measured and read_speeds(1) != computed
        machines.get_by_role("radio", name="H200, target of 8B").click()
        page.wait_for_url(lambda url: "costs=" not in url)
        expect(page.locator(".picture .speed .machine").last).to_contain_text("H200, target of 8B, computed", timeout=PATIENT)
        at_rest(page)
    page.get_by_role("radio", name="temperature 0").click()
    page.wait_for_url(re.compile("distribution=0(&|$)"))
    expect(chart.locator(".who")).to_contain_text("temperature 0", timeout=PATIENT)
    assert page.mistakes == []


@pytest.mark.slow  # work of a page is stopped in test_mistakes.py, which is fast
def test_a_run_can_be_stopped(page, server):
    open_methods(page, server, "?row=draft")
    expect(page.locator(".walked .sentence")).to_contain_text("A chain of 3 draft tokens")
    fits(page)
    page.get_by_text("Compare them on a text of your own").click()
    field = page.get_by_label("Text to continue", exact=True)
    field.fill(NASTY)
    field.press("Control+Enter")
    page.wait_for_url(re.compile("onerror"))
    assert query(page)["row"] == "draft"
    run = page.get_by_role("button", name="Run all methods")
    run.click()
    stop = page.locator(".st-key-drafting_methods-stop button")
    expect(page.get_by_test_id("stProgress")).to_contain_text(re.compile(r"first run|Run \d"), timeout=PATIENT)
    stop.click()
    expect(stop).to_have_count(0, timeout=PATIENT)
    expect(page.locator(".st-key-drafting_methods-notes-from")).to_contain_text(re.compile("Recorded, measured|Your run"))
    expect(run).to_be_enabled(timeout=PATIENT)
    assert_harmless(page)


def fits(page: Page) -> None:
    """At no width does the page scroll sideways or a chip leave its place."""
    for width in (390, 768, 1920, 1366):
        resize(page, width)
        page.keyboard.press("End")
        assert page.evaluate("document.querySelector('.stMain').scrollWidth") <= width
        room = page.locator(".walked").bounding_box()
        for leaf in page.locator(".walked .leaf").all():
            box = leaf.bounding_box()
            assert room["x"] - 1 <= box["x"] and box["x"] + box["width"] <= room["x"] + room["width"] + 1
