"""The front page in a browser: the scenes of the static edition, and a prompt of one's own in the app."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Page, expect

from specviz.figures.pages_and_glossary import define_term
from specviz.figures.preview import FRONT, build_tab_title
from specviz.speed.records import headline
from specviz.web.front.payload import build_games_payload
from specviz.web.front.race_payload import TOKENS
from specviz.web.front.state import load_recorded_race
from tests.browser.test_accessibility import found_in_both_schemes

NOON = "2026-11-27T12:00:00Z"
SCENES = ("race", "overlap", "game", "doors")


@pytest.fixture(scope="module")
def address(site) -> str:
    return (site / "index.html").as_uri()


def open_front(page: Page, address: str, motion: str = "reduce") -> Page:
    page.clock.set_fixed_time(NOON)
    page.emulate_media(reduced_motion=motion)
    page.goto(address)
    page.locator(".race .token").first.wait_for()
    return page


def go_to(page: Page, name: str) -> None:
    """Press a key until a scene is the one in view."""
    for _ in SCENES:
        if page.locator(f".scene-{name}").evaluate("node => Math.abs(node.getBoundingClientRect().top) < innerHeight / 4"):
            return
        page.keyboard.press("PageDown")
        page.wait_for_timeout(80)
    raise AssertionError(name)


def read_heights(page: Page) -> list[float]:
    """Height of each bar on the screen: accepted and residual of each word, and the mark of p."""
    return page.evaluate(
        """() => [...document.querySelector('#front').shadowRoot.querySelectorAll('.down')].map((one) => {
        const box = (name) => one.querySelector(name).getBoundingClientRect();
        return [box('.left').height > 0.01 ? box('.left').top : box('.kept').top, box('.mark').bottom - 1.5]; })"""
    )


def read_widest_room(page: Page) -> tuple[float, float]:
    """How far the widest room of decoder B reaches: as a part of its axis, and in percent by the last tick of the axis."""
    part, tick, at = page.evaluate(
        """() => { const root = document.querySelector('#front').shadowRoot, axis = root.querySelector('.scale .track.sideB').getBoundingClientRect();
        const ends = [...root.querySelectorAll('.sideB .band')].map((one) => one.getBoundingClientRect().right - axis.left);
        const tick = [...root.querySelectorAll('.scale .sideB .tick')].at(-1), box = tick.getBoundingClientRect();
        return [Math.max(...ends) / axis.width, parseFloat(tick.textContent), (box.left + box.width / 2 - axis.left) / axis.width]; }"""
    )
    return part, part * tick / at


def test_under_reduced_motion_the_scenes_stand_complete_and_each_fits_a_laptop(page, address):
    open_front(page, address)
    expect(page.locator(".race .strip .count")).to_have_text([str(TOKENS)] * 2)
    alone, drafted = (int(text.split()[0]) for text in page.locator(".race .spent").all_text_contents())
    recorded = load_recorded_race()
    assert alone == TOKENS and drafted < TOKENS / 2
    expect(page.locator(".strip.speculative .done")).to_have_css("opacity", "1")
    expect(page.locator(".strip.target .done")).to_have_css("opacity", "0")  # it needs all of the time that is drawn
    expect(page.locator(".gained b")).to_have_text(f"{headline.get_speed('1').value:.2f}×")
    times = [recorded.target.clock[TOKENS - 1], recorded.speculative.clock[drafted - 1]]
    expect(page.locator(".race .took")).to_have_text([f"{one:.3f} s" for one in times])  # at one place of both ways
    expect(page.locator(".race .origin")).to_contain_text(f"That is {times[0] / times[1]:.2f}× as fast.")
    expect(page.locator(".race .ask")).to_contain_text("× slower")
    for name in SCENES:
        go_to(page, name)
        inside = page.locator(f".scene-{name} .inside").bounding_box()
        assert inside["height"] <= 768 - 60, name
        assert page.locator(f".scene-{name}").get_attribute("aria-labelledby") == f"front-{name}"
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")  # from the beginning, a moment at a time
    expect(page.locator(".race .strip .count")).to_have_text(["0", "0"])
    assert all(re.fullmatch(r"0\.0\d\d s", text) for text in page.locator(".race .took").all_text_contents())
    expect(page.locator(".race .done.shown")).to_have_count(0)
    assert page.locator(".speculative [data-is=draft]").count() == 1
    for _ in range(8):
        page.keyboard.press("ArrowRight")
    assert page.locator(".race .strip .count").all_text_contents() != ["0", "0"]
    page.keyboard.press("ArrowLeft")
    assert page.mistakes == []


LOOKS = """(name) => Object.fromEntries([...document.querySelector('#front').shadowRoot.querySelectorAll(name)].map((one) => {
    const { backgroundImage, backgroundSize, backgroundColor } = getComputedStyle(one);
    return [one.dataset.is, [backgroundImage, backgroundSize, backgroundColor]]; }))"""


def test_entries_of_the_legend_look_as_the_tokens_that_they_explain_and_no_two_alike(page, address):
    open_front(page, address)
    legend, text = page.evaluate(LOOKS, ".race .legend .token"), page.evaluate(LOOKS, ".race .speculative .text .token")
    assert set(legend) == {"draft", "accepted", "rejected", "residual", "bonus", "target"}
    short = page.evaluate(LOOKS, ".race .origins .token")
    assert short == {kind: legend[kind] for kind in set(text) - {"target"}}, "in sight: what a whole text has, and no more"
    for token in page.locator(".race .origins .token").all():
        expect(token).to_be_visible()
    assert set(text) - {"target"} == {"accepted", "residual", "bonus"}, "as on Whole text; the last pass may have nothing drafted"
    assert all(text[kind] == legend[kind] for kind in text if kind != "target")
    forms = [
        (re.sub(r"(rgba?|color)\([^()]*\)", "", image), size) for kind, (image, size, _) in legend.items() if kind != "rejected"
    ]
    assert len(set(forms)) == len(forms), "the lines differ without their colors"
    struck = page.locator(".race .legend .token[data-is=rejected]").evaluate("node => getComputedStyle(node).textDecorationLine")
    assert struck == "line-through"


def test_whatever_is_dragged_the_result_stays_at_the_marks_and_only_the_share_falls(page, address):
    open_front(page, address)
    go_to(page, "overlap")
    page.get_by_role("button", name="Bad", exact=True).click()
    bad = float(page.locator(".share").text_content().rstrip("%"))
    expect(page.locator(".overlap.loses .cost")).to_contain_text(re.compile(r"^0\.[5-8]\d× as fast"))  # slower than no draft
    expect(page.locator(".series")).to_contain_text(" + ".join(["1", "0.16", "0.16²", "0.16³ ="]))
    expect(page.locator(".overlap .equal")).to_have_text("✓ What comes out is still p")
    page.get_by_role("button", name="Good").click()
    expect(page.locator(".overlap:not(.loses) .cost")).to_contain_text("× as fast")
    handle, shares = page.get_by_role("slider").last, []
    for _ in range(4):
        shares.append(float(page.locator(".share").text_content().rstrip("%")))
        for top, mark in read_heights(page):
            assert top == pytest.approx(mark, abs=1.0)
        assert sum(map(float, page.locator(".number.q").all_text_contents())) == pytest.approx(1.0, abs=1e-9)
        beta, computed = shares[-1] / 100, page.locator(".series").text_content()
        pace, cost, speed = map(float, re.search(r"([\d.]+) / ([\d.]+) = ([\d.]+)\.$", computed).groups())
        assert f"= {pace:.2f} tokens" in computed and pace == pytest.approx(1 + beta + beta**2 + beta**3, abs=0.005 + 1e-9)
        assert speed == pytest.approx(pace / cost, abs=0.01)
        assert page.locator(".cost b").text_content() == f"{speed:.2f}× as fast", "the price of the draft in one number"
        handle.press("PageUp")
    assert shares == sorted(shares, reverse=True) and shares[-1] < shares[0] - 20 and bad < shares[-1]
    box = page.get_by_role("slider").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] - 4)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] * 0.4)
    page.mouse.up()
    assert float(page.get_by_role("slider").first.get_attribute("aria-valuenow")) == pytest.approx(0.30, abs=0.03)


@pytest.mark.parametrize("width", [1366, 390])
def test_both_speeds_whose_they_are_and_why_the_words_differ_are_dark_and_above_the_fold(page, address, width):
    page.set_viewport_size({"width": width, "height": 768})
    open_front(page, address)
    ink = page.locator(".race .count").first.evaluate("node => getComputedStyle(node).color")
    for name, words, most in (
        (".gained .owner", "tiny models, two CPU cores", 768 / 2),
        (".computed .owner", "8B model on an H200", 768 / 2),
        (".why", "other random numbers", 844),
    ):
        line = page.locator(f".race {name}")
        expect(line).to_contain_text(words)
        box = line.bounding_box()
        assert box["y"] + box["height"] < most and line.evaluate("node => getComputedStyle(node).color") == ink
    text = page.locator(".race .side.target .text").bounding_box()
    assert 0 <= box["y"] - text["y"] - text["height"] < 24 and box["x"] < text["x"] + text["width"], (
        "under the text that it is about"
    )
    says = page.locator(".subject, .scene-race h2, .scene-race .lede, .gained, .computed, .why").all_inner_texts()
    assert len(" ".join(says).split()) <= 62, "the link and what a screen reader hears are counted, too"
    numbers = page.locator(".race :is(.gained, .computed) b")
    expect(numbers).to_have_count(2)  # and no third one in sight
    assert len(set(numbers.evaluate_all("all => all.map((one) => getComputedStyle(one).fontSize)"))) == 1
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [1366, 1000, 390])
def test_no_item_of_the_second_scenes_legends_breaks(page, address, width):
    page.set_viewport_size({"width": width, "height": 768})
    open_front(page, address)
    items = page.locator(".overlap .caption span:has(.swatch)").all()
    assert len(items) == 6
    for item in items:
        assert item.bounding_box()["height"] < 30, item.text_content()


def test_a_term_shows_its_definition_while_it_has_the_focus_or_the_pointer_and_widens_no_page(page, address):
    for width in (1366, 390):
        page.set_viewport_size({"width": width, "height": 768})
        open_front(page, address)
        term = page.locator(".scene-race .lede .term").nth(3)
        tip = term.locator(".tip")
        for begin, end in ((term.focus, term.blur), (term.hover, lambda: page.mouse.move(0, 0))):
            expect(tip).to_be_hidden()
            begin()
            expect(tip).to_be_visible()
            assert tip.text_content() == define_term("target model")
            assert term.get_attribute("aria-describedby") == tip.get_attribute("id")
            box = tip.bounding_box()
            assert box["x"] >= 0 and box["x"] + box["width"] <= width
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            end()
        expect(tip).to_be_hidden()
    assert page.mistakes == []


def test_a_game_is_the_days_its_answer_names_the_mistake_and_a_reload_remembers_it(page, address):
    open_front(page, address)
    go_to(page, "game")
    expect(page.locator(".drawn")).to_have_text("0 samples each.")
    assert page.locator(".row .fill").evaluate_all("all => all.every((one) => one.getBoundingClientRect().width === 0)")
    assert page.locator(".row .band").evaluate_all("all => all.every((one) => one.getBoundingClientRect().width > 4)"), (
        "of the first draw"
    )
    expect(page.get_by_role("button", name="A has the bug")).to_be_disabled()  # nothing tells before the first draw
    title = page.locator(".scene-game h2").bounding_box()["y"]
    page.get_by_role("button", name="Draw 10", exact=True).click()
    expect(page.locator(".drawn")).to_have_text("10 samples each.")
    times = [int(text) for text in page.locator(".times.sideA").all_text_contents()]
    assert sum(times) == 10
    expect(page.locator(".total")).to_have_text(["of 10"] * 2)
    room = read_widest_room(page)[1]
    page.get_by_role("button", name="Draw 100").click()
    expect(page.locator(".drawn")).to_have_text("110 samples each.")
    part, less = read_widest_room(page)
    assert less < room, "more samples leave less room for chance"
    assert part < 1 / 1.25, "a bar can be seen to leave it"
    page.get_by_role("button", name="A has the bug").click()
    told = page.locator(".told")
    expect(told).to_contain_text("Reported in")
    assert page.locator(".scene-game h2").bounding_box()["y"] == title, "the answer has its place"
    mistake = told.locator(".bug b").text_content()
    assert mistake in [game["name"] for game in build_games_payload()["games"]]
    hatched, result = page.locator(".rows .fill.wrong").count(), told.locator(".result").text_content()
    assert result.startswith("Right") or ("not enough" in result) == (hatched == 0), (
        "what is hatched lies outside the room for chance"
    )
    kept = json.loads(page.evaluate("localStorage.getItem('specviz-daily')"))
    assert kept["n"] == 110 and kept["right"] == told.locator(".result").text_content().startswith("Right")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy the result").click()
    expect(page.get_by_role("button", name="Copied ✓")).to_be_visible()
    shared = page.evaluate("navigator.clipboard.readText()")
    assert "2026-11-27" in shared and "110 samples" in shared and mistake.rstrip(".") not in shared
    page.get_by_role("button", name="Play the game of 26 November 2026").click()
    expect(page.locator(".date")).to_have_text("Game of 26 November 2026")
    page.get_by_role("button", name="Draw 10", exact=True).click()
    page.get_by_role("button", name="B has the bug").click()
    expect(told.locator(".bug b")).not_to_have_text(mistake)
    assert json.loads(page.evaluate("localStorage.getItem('specviz-daily')")) == kept, "only today's game counts"
    page.reload()
    go_to(page, "game")
    expect(page.locator(".told .bug b")).to_have_text(mistake)
    page.evaluate("localStorage.setItem('specviz-daily', '<img src=x>')")
    page.reload()
    go_to(page, "game")
    expect(page.get_by_role("button", name="Draw 10", exact=True)).to_be_enabled()
    assert page.mistakes == [] and page.dialogs == []


def test_the_answer_to_every_game_fits_a_laptop(page, address):
    open_front(page, address)
    go_to(page, "game")
    names = set()
    for _ in range(2 * len(build_games_payload()["games"]) - 1):  # a whole turn, wherever it begins
        page.get_by_role("button", name="Draw 100").click()
        page.get_by_role("button", name="A has the bug").click()
        names.add(page.locator(".told .bug b").text_content())
        assert page.locator(".scene-game .inside").bounding_box()["height"] <= 768 - 60, names
        page.locator(".told .older").click()
    assert len(names) == len(build_games_payload()["games"])


def test_it_moves_by_itself_and_rests_out_of_view(page, address):
    page.emulate_media(reduced_motion="no-preference")
    page.goto(address)
    tokens = page.locator(".strip.speculative .count")
    expect(tokens).not_to_have_text("0")
    assert page.locator(".race.finished").count() == 0
    shown = page.evaluate(
        """() => { const root = document.querySelector('#front').shadowRoot, { race } = JSON.parse(document.getElementById('data').textContent).data;
        return race.lanes.map((lane, i) => {
            const strip = root.querySelectorAll('.race .strip')[i], hidden = parseFloat(strip.querySelector('.run').style.clipPath.split(' ')[1]);
            const gone = (1 - hidden / 100) * Math.max(...race.lanes.map(({ seconds }) => seconds)), count = parseInt(strip.querySelector('.count').textContent);
            const list = (at) => lane.rounds.filter(({ end }) => end <= at).flatMap((round) => round.tokens); // the strip's end is written with two decimals
            const tokens = [list(gone - 1e-4), list(gone + 1e-4)].find(({ length }) => length === count) ?? list(gone), written = [...root.querySelectorAll('.side')[i].querySelectorAll('.text .token:not(del):not([data-is=draft])')];
            return [count, tokens.length, tokens.filter(({ t }) => t.trim()).length, written.filter((token) => getComputedStyle(token).opacity === '1').length]; }); }"""
    )
    for count, ended, words, written in shown:
        assert count == ended and words == written > 0, "the strip ends where the clock is, and what is counted is written"
    gained = page.locator(".gained b").text_content()
    page.locator(".scene-doors").scroll_into_view_if_needed()
    page.wait_for_timeout(600)
    before = tokens.text_content()
    page.wait_for_timeout(600)
    assert tokens.text_content() == before
    assert gained == f"{headline.get_speed('1').value:.2f}×" == page.locator(".gained b").text_content(), (
        "one ratio at any moment"
    )


def test_in_the_app_a_prompt_of_ones_own_runs_and_nothing_serious_is_found_and_the_mark_leads_back(page, server):
    page.add_init_script("window.titles = new Set(); setInterval(() => document.title && window.titles.add(document.title), 5)")
    page.goto(server)
    page.locator(".race .token").first.wait_for()
    expect(page).to_have_title(build_tab_title(FRONT))
    assert not [title for title in page.evaluate("[...window.titles]") if "treamlit" in title]
    field, refused, recorded = (
        page.get_by_role("textbox"),
        page.locator(".race .refused"),
        page.get_by_role("textbox").input_value(),
    )
    for prompt, says in (("too long " * 400, True), ("too long " * 400, True), (recorded, False), ("a <b>bear</b>", False)):
        field.fill(prompt)
        field.press("Enter")
        expect(refused).to_be_visible() if says else expect(refused).to_be_hidden(timeout=200)  # before any answer
    expect(page.locator(".race .origin")).to_contain_text("Your run")
    expect(page.locator(".gained strong").filter(has_text="average")).to_have_count(0)  # its own speed alone
    expect(refused).to_be_hidden()
    assert field.input_value() == "a <b>bear</b>" and page.locator(".race b:not([class])").count() <= 1
    assert page.mistakes == []
    assert found_in_both_schemes(page) == []
    page.goto(f"{server}/questions")
    page.locator("[data-testid=stHeaderLogo]").click()  # the mark leads back
    page.locator(".race .token").first.wait_for()
    page.goto(f"{server}/?at=1.2")
    page.wait_for_url(re.compile("/one_round\\?at=1.2"))
