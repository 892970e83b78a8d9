"""The presenter view in a real browser: type for the last row, a clicker's keys, and a second window that moves along."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from specviz.figures.pages_and_glossary import PAGES
from specviz.web.drafting_methods.tree import build_tree
from specviz.web.one_round.payload import TEXTS, build_round_payload
from specviz.web.one_token.payload import build_token_payload
from specviz.web.one_token.state import read_state
from specviz.web.questions.questions import build_questions_payload, load_recorded_runs
from specviz.web.whole_text.payload import build_lanes_payload
from specviz.web.whole_text.state import load_recorded_passages
from tests.browser.chromium import TWO_FRAMES, at_rest, resize
from tests.browser.component_pages import component_page, page_html
from tests.browser.conftest import run_server
from tests.browser.serve import SHIPPED
from tests.browser.test_accessibility import list_violations as axe_finds
from tests.browser.test_app import PATIENT

RECORDED = load_recorded_runs()
STAGE = build_round_payload(RECORDED.opening)
TREES = {key: build_tree(RECORDED.methods.find_row(key).trace) for key in ("tree-wide", "several", "draft")}
LANES = build_lanes_payload(load_recorded_passages()["temperature 0.8"])
ADDRESS = "http://present.test/?seed=7"
SMALLEST = """() => {
  const found = [];
  const walk = (root) => {
    for (const node of root.querySelectorAll("*")) {
      if (node.shadowRoot) walk(node.shadowRoot);
      const shown = [...node.childNodes].some((one) => one.nodeType === 3 && one.textContent.trim());
      let view = node.closest(".presenting:not(.within)");
      for (let at = node.getRootNode(); !view && at.host; at = at.host.getRootNode()) view = at.host.closest(".presenting");
      const box = node.getBoundingClientRect(), style = getComputedStyle(node), edge = view?.getBoundingClientRect();
      if (!shown || !view || !box.width || box.bottom <= edge.top || box.top >= edge.bottom || node.tagName === "STYLE" || style.visibility === "hidden" || Number(style.opacity) === 0 || node.closest(".aloud")) continue;
      const size = parseFloat(style.fontSize) * new DOMMatrix(getComputedStyle(view).transform).a;
      found.push([size, node.textContent.trim().slice(0, 40)]);
    }
  };
  walk(document);
  return found;
}"""


def build_component_page(name: str) -> str:
    """A component's page with what the app gives it."""
    if name == "one_round":
        return page_html(STAGE)
    if name in TREES:
        return component_page("drafting_methods/tree", {"payload": TREES[name]})
    if name == "whole_text":
        return component_page("whole_text", {"payload": LANES})
    if name == "questions":
        return component_page(
            "questions", {"payload": build_questions_payload(RECORDED), "question": None, "ending": "", "notices": []}
        )
    given = build_token_payload(RECORDED.opening)
    return component_page("one_token", {"payload": given, "state": read_state({}, [])[0], "notices": []})


@pytest.fixture
def open_presenter(open_html, browser):
    """Opens a component on a projector, in a browser that has kept nothing."""
    context = browser.new_context(reduced_motion="reduce")

    def opener(name: str = "one_round", address: str = f"{ADDRESS}&present=1"):
        page = open_html(build_component_page(name), address, "1920", where=context)
        page.evaluate("document.activeElement.blur()")
        return page

    yield opener
    context.close()


def open_notes(page):
    with page.expect_popup() as opened:
        page.keyboard.press("s")
    return opened.value


@pytest.mark.parametrize("name", ["one_round", "one_token", "questions", "whole_text", *TREES])
def test_no_type_is_smaller_than_24_px_on_a_projector(open_presenter, name):
    page = open_presenter(name)
    steps = {"one_round": len(STAGE["rounds"][0]["steps"]), "questions": 8, "one_token": 1, "whole_text": 3}.get(name) or len(
        TREES[name]["steps"]
    )
    for _ in range(steps):
        if name == "questions":
            page.keyboard.press("1")
        found = page.evaluate(SMALLEST)
        assert len(found) > 10 and min(found)[0] >= 24.0, min(found)
        page.keyboard.press("ArrowRight")


def test_the_stage_fits_the_projector_at_every_step(open_presenter):
    page = open_presenter()
    for _ in STAGE["rounds"][0]["steps"]:
        tall = page.evaluate(
            "[stage.querySelector('section.stage').scrollHeight, stage.querySelector('section.stage').clientHeight]"
        )
        assert tall[0] <= tall[1]
        page.keyboard.press("ArrowRight")


@pytest.mark.parametrize("name", TREES)
def test_a_round_of_a_drafting_method_fits_the_projector_at_every_step(open_presenter, name):
    page = open_presenter(name)
    for _ in TREES[name]["steps"]:
        assert page.evaluate(
            "[stage.querySelector('section.stage')].every((node) => node.scrollHeight <= node.clientHeight && node.scrollWidth <= node.clientWidth)"
        )
        for part in (".sentence", ".barsCard", ".leaf >> nth=-1"):
            box = page.locator(f".presenting {part}").bounding_box()
            assert box["y"] + box["height"] <= 1080 and box["x"] + box["width"] <= 1920
        page.keyboard.press("ArrowRight")


def test_each_question_and_each_explanation_fits_the_projector(open_presenter):
    page = open_presenter("questions")
    for one in build_questions_payload(RECORDED)["questions"]:
        for key in range(len(one["options"]) + 1):
            if key:
                page.keyboard.press(str(key))
            tall = page.evaluate(
                "(([stage]) => [stage.scrollHeight, stage.clientHeight])(stage.querySelectorAll('section.stage'))"
            )
            assert tall[0] <= tall[1], (one["key"], key)
        page.keyboard.press("ArrowRight")


@pytest.mark.parametrize(("width", "height"), ((1920, 1080), (1366, 768)))
def test_the_bars_of_one_token_and_the_sentence_under_them_fit_the_projector(open_presenter, width, height):
    page = open_presenter("one_token")
    resize(page, width, height)
    for end in (None, "p the target", "q the draft", "the difference"):
        if end:
            page.locator(".complete").get_by_role("button", name=end).click()
        box = page.locator("section.stage .sentence").bounding_box()
        assert box["y"] + box["height"] <= height, end
        assert page.locator(".bars > svg").bounding_box()["height"] > 250 * height / 1080
        assert page.locator("section.stage .sentence").evaluate("node => node.scrollHeight <= node.clientHeight")


def test_a_key_opens_the_view_and_another_leaves_it_and_the_link_stays_the_same_but_for_it(open_presenter):
    page = open_presenter(address=ADDRESS)
    node = page.locator("section.stage")
    expect(node).not_to_have_class("presenting")
    page.keyboard.press("f")
    assert page.url == f"{ADDRESS}&present=1"
    expect(page.locator(".presenting .transport")).to_be_hidden()
    page.keyboard.press("Escape")
    assert page.url == ADDRESS
    expect(page.locator(".transport")).to_be_visible()
    page.keyboard.press("b")
    assert page.locator("body > div[aria-hidden=true]").count() == 0, "black is for the presenter view alone"


@pytest.mark.parametrize("name", ["one_round", "one_token", "whole_text", "questions"])
def test_a_clickers_keys_walk_the_page_and_back(open_presenter, name):
    """On Whole text the space bar replays both texts; the others go round by round."""
    page = open_presenter(name)
    said = {"whole_text": ".lane.speculative .clock", "questions": ".card.now .question"}.get(name, "section.stage .sentence")
    text = f"stage.querySelector('{said}').textContent"
    for forth, back in (("PageDown", "PageUp"), ("ArrowRight", "ArrowLeft"), (" ", "PageUp"))[: 2 if name == "whole_text" else 3]:
        before = page.evaluate(text)
        page.keyboard.press(forth)
        after = page.evaluate(text)
        assert after != before, forth
        page.keyboard.press(forth)
        assert page.evaluate(text) != after, forth
        page.keyboard.press(back)
        assert page.evaluate(text) == after, back
        assert page.evaluate("[scrollY, stage.querySelector('section.stage').scrollTop]") == [0, 0]


def test_black_covers_everything_and_goes_again(open_presenter):
    page = open_presenter()
    page.keyboard.press("b")
    black = page.locator("body > div[aria-hidden=true]")
    assert black.evaluate("node => document.elementFromPoint(900, 500) === node")
    page.keyboard.press(".")
    expect(black).to_have_count(0)


def test_the_notes_say_what_to_ask_and_what_is_next_and_both_windows_move_together(open_presenter):
    page = open_presenter()
    notes = open_notes(page)
    steps = STAGE["rounds"][0]["steps"]
    expect(notes.locator(".place")).to_have_text(f"Round 1, step 1 of {len(steps)}")
    expect(notes.locator(".ask")).to_have_text(TEXTS["notes"][steps[0]["kind"]])
    expect(notes.locator(".next")).to_have_text(steps[1]["sentence"])
    page.keyboard.press("ArrowRight")
    expect(notes.locator(".now")).to_have_text(steps[1]["sentence"])
    notes.keyboard.press("ArrowRight")
    expect(page.locator("section.stage .sentence")).to_have_text(steps[2]["sentence"])
    expect(notes.locator(".place")).to_have_text(f"Round 1, step 3 of {len(steps)}")


def test_a_reload_in_the_middle_finds_its_notes_again(open_presenter):
    page = open_presenter()
    notes = open_notes(page)
    page.keyboard.press("ArrowRight")
    page.wait_for_url("**&at=1.2*")
    page.reload()
    page.wait_for_function("window.ready")
    expect(notes.locator(".now")).to_contain_text("Press a key there")
    page.keyboard.press("ArrowRight")
    expect(notes.locator(".now")).not_to_contain_text("Press a key there")
    assert len(page.context.pages) == 2


def test_notes_that_were_closed_stay_closed_until_they_are_asked_for(open_presenter):
    page = open_presenter()
    open_notes(page).close()
    page.wait_for_function("sessionStorage.getItem('specviz-notes') === null")
    page.keyboard.press("ArrowRight")
    assert len(page.context.pages) == 1
    open_notes(page)


def test_the_answer_of_a_question_stands_in_the_notes_alone(open_presenter):
    page = open_presenter("questions")
    notes = open_notes(page)
    right = next(one for one in build_questions_payload(RECORDED)["questions"][0]["options"] if one["right"])
    expect(notes.locator(".ask")).to_contain_text(right["text"])
    expect(page.locator(".explained:visible")).to_have_count(0)


def test_a_bar_is_dragged_to_where_the_pointer_is_in_a_scaled_view(open_presenter):
    page = open_presenter("one_token")
    bar = page.locator(".reach").first
    box = bar.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    before = float(bar.get_attribute("aria-valuenow"))
    top = page.locator(".half").first
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, y - 30, steps=4)
    page.mouse.up()
    after = float(bar.get_attribute("aria-valuenow"))
    assert after > before
    unscaled = page.evaluate("new DOMMatrix(getComputedStyle(stage.querySelector('section.stage')).transform).a")
    assert unscaled > 1.8 and top.count() == 1
    page.mouse.move(x, y - 30)
    page.mouse.down()
    page.mouse.move(x, y, steps=4)
    page.mouse.up()
    assert float(bar.get_attribute("aria-valuenow")) == pytest.approx(before, abs=0.011), "back to where it was"


def test_every_kind_of_motion_has_its_note():
    kinds = {row["kind"] for round_ in STAGE["rounds"] for row in round_["steps"]}
    assert kinds <= set(TEXTS["notes"])


LINES = """() => Math.max(...[...stage.querySelectorAll(".chip .caption")].map((one) => {
  const words = document.createRange();
  words.selectNodeContents(one);
  return new Set([...words.getClientRects()].map(({ top }) => Math.round(top / 8))).size;
}))"""


def test_captions_of_draft_tokens_take_one_line_on_the_projector(open_presenter):
    page = open_presenter()
    for _ in range(sum(len(one["steps"]) for one in STAGE["rounds"])):
        waits = page.locator("section.stage").get_attribute("data-step") in ("draft", "pass", "look")
        assert page.evaluate(LINES) in ((0, 1) if waits else (1,)), page.locator("section.stage .sentence").inner_text()
        page.keyboard.press("ArrowRight")


@pytest.mark.parametrize(("width", "height"), ((1920, 1080), (1366, 768)))
def test_whole_text_shows_both_texts_whole_and_fits_the_projector(open_presenter, width, height):
    page = open_presenter("whole_text")
    resize(page, width, height)
    assert page.locator(".lane > .text").evaluate_all(
        "lanes => lanes.every((one) => !one.scrollTop && one.scrollHeight <= one.clientHeight)"
    )
    assert page.evaluate(
        "(({scrollTop, scrollHeight, clientHeight}) => !scrollTop && scrollHeight <= clientHeight)(stage.querySelector('.whole'))"
    )
    for lane in page.locator(".lane").all():
        box = lane.bounding_box()
        assert box["height"] > 0.25 * height and box["y"] + box["height"] <= height


def test_a_clicker_replays_whole_text_round_by_round_and_its_youngest_token_stays_in_sight(open_presenter):
    page = open_presenter("whole_text")
    notes = open_notes(page)
    expect(notes.locator(".ask")).to_have_text(LANES["ask"])
    rounds = LANES["lanes"][1]["rounds"]
    written = [sum(one["round"] < n for one in LANES["lanes"][1]["tokens"]) for n in range(len(rounds) + 1)]
    there = page.locator(".lane.speculative .token:not(.later)")
    for n in range(3):
        page.keyboard.press("PageDown")
        expect(there).to_have_count(written[n])
        expect(notes.locator(".place")).to_have_text(f"Round {n} of {len(rounds)}")
    page.keyboard.press("PageUp")
    expect(there).to_have_count(written[1])
    for _ in range(len(rounds) - 2):
        page.keyboard.press("PageDown")
    assert page.locator(".lane.speculative").evaluate(
        """lane => [...lane.querySelectorAll(".token:not(.later)")].at(-1).getBoundingClientRect().bottom <= lane.getBoundingClientRect().bottom"""
    )
    page.keyboard.press("End")
    for _ in range(2):
        page.keyboard.press("PageDown")
    expect(notes.locator(".place")).to_have_text("Both texts")
    assert page.locator(".lane > .text").evaluate_all("lanes => lanes.map((one) => one.scrollTop)") == [0, 0], "at its first line"


SCREEN = """() => { const view = document.querySelector(".stMain.presenting"), box = view.getBoundingClientRect();
  const pictures = [...view.querySelectorAll(".js-plotly-plot, [data-testid^=stBidiComponent], .setup-list, .fork, .gaps")].map((one) => one.getBoundingClientRect());
  return {at: view.scrollTop, picture: Math.max(0, ...pictures.filter(({ top }) => top < box.bottom).map(({ top, bottom }) => (Math.min(bottom, box.bottom) - Math.max(top, box.top)) / innerHeight)), fits: box.bottom <= innerHeight + 1,
    declared: [...view.querySelectorAll("[class*=st-key-screen-]")].filter((one) => one.checkVisibility() && one.clientHeight > 1).length,
    inputs: [...view.querySelectorAll("input[type=text], textarea, [class*=st-key-terms-], [class*=st-key-onward-]")].filter((one) => one.checkVisibility()).length,
    charts: [...view.querySelectorAll(".js-plotly-plot")].every((one) => {
      const drawn = one.querySelector(".main-svg").getBoundingClientRect();
      return Math.abs(drawn.width - one.getBoundingClientRect().width) < 3 && drawn.right <= box.right + 3;
    })}; }"""
PICTURES = ".js-plotly-plot .main-svg, .stage .strip, .stage .track, .gaps .columns"  # a chart or a histogram
CHARTS = [page.path for page in PAGES.values() if page.ask and not page.presented_by_component]
PRESENTED = dict.fromkeys(CHARTS, "?present=1") | {
    "drafting_methods": "?present=1&row=adversarial",  # a method whose round has a chart
    "mistakes": "?present=1&mistake=R4",
}


@pytest.fixture(scope="module")
def shipped_server(tmp_path_factory):
    """The app with the pair and the records that it is shipped with."""
    with run_server(SHIPPED, tmp_path_factory.mktemp("shipped") / "log.txt") as address:
        yield address


@pytest.fixture
def projector(browser, server):
    context = browser.new_context(viewport={"width": 1920, "height": 1080}, reduced_motion="reduce")

    def opener(name: str, query: str = "?present=1", host: str = server):
        page = context.new_page()
        page.goto(f"{host}/{name}{query}")
        page.locator(f"[class*='st-key-onward-{name}']").wait_for(state="attached")
        page.locator(".instead").wait_for(state="attached")  # the component that listens to the keys
        if name in CHARTS:
            page.locator(PICTURES).first.wait_for(state="attached", timeout=PATIENT)
        at_rest(page)
        page.wait_for_load_state("networkidle")
        return page

    yield opener
    context.close()


def walk_screens(page):
    """Goes through all screens of a page, which fit and have no small type; returns where each begins."""
    page.locator(".stMain.presenting").wait_for()
    places, sizes = [], []
    for _ in range(30):
        page.wait_for_function(
            """() => [...document.querySelectorAll(".js-plotly-plot")].every((one) => one.querySelector(".main-svg"))"""
        )
        page.evaluate(TWO_FRAMES)
        now = page.evaluate(SCREEN)
        if now["at"] in places:
            break
        assert places or now["picture"] > 0.3, "the first screen is no empty one"
        places.append(now["at"])
        assert now["fits"] and now["charts"] and not now["inputs"], now
        sizes += page.evaluate(SMALLEST)
        page.keyboard.press("PageDown")
    assert places == sorted(places) and len(places) == now["declared"] >= 1, "each declared screen is one, and none is cut"
    assert len(sizes) > 20 and min(sizes)[0] >= 24.0, min(sizes)
    return places


@pytest.mark.parametrize("name", CHARTS)
def test_a_page_of_charts_is_shown_screen_by_screen_with_no_type_below_24_px(projector, name):
    page = projector(name, PRESENTED[name])
    places = walk_screens(page)
    page.keyboard.press("PageUp")
    assert page.evaluate(SCREEN)["at"] == places[-2:][0]  # Exactness test has one screen
    assert "present=1" in page.url
    assert axe_finds(page) == []
    page.keyboard.press("Escape")
    expect(page.locator(".stMain.presenting")).to_have_count(0)
    assert "present" not in page.url
    expect(page.locator(f"[class*='st-key-onward-{name}']")).to_be_visible()


def test_the_game_of_a_page_is_its_one_screen(projector):
    assert len(walk_screens(projector("mistakes"))) == 1


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("name", CHARTS)
def test_the_shipped_records_fit_the_projector_screen_by_screen(projector, shipped_server, name):
    """Those of the tiny pair are shorter, or not there."""
    walk_screens(projector(name, PRESENTED[name], shipped_server))


def test_what_stands_in_a_tab_can_be_clicked_on_its_screen_whichever_tab_was_open(projector):
    page = projector("serving_limits")
    page.locator(".stMain.presenting").wait_for()
    for _ in range(4):
        page.keyboard.press("PageDown")
    row = page.locator(".setup-list details").first
    row.locator("summary").click()
    expect(row).to_have_attribute("open", "")
    page.keyboard.press("PageUp")
    page.get_by_role("radio", name="float32 and bfloat16").click()
    page.wait_for_url("**arm=bf16**")
    at_rest(page)  # the screens are counted anew when the page is drawn
    page.keyboard.press("PageUp")
    page.get_by_role("radio", name="Neither").click()
    expect(page.locator(".lead-bars")).to_be_visible()


def test_the_notes_of_a_page_say_what_to_ask_and_its_keys_turn_the_black_on(projector):
    page = projector("speed", "")
    page.keyboard.press("f")
    page.locator(".stMain.presenting").wait_for()
    notes = open_notes(page)
    expect(notes.locator(".ask")).to_contain_text("gamma")
    expect(notes.locator(".place")).to_contain_text("Screen 1 of")
    notes.keyboard.press("PageDown")
    expect(notes.locator(".place")).to_contain_text("Screen 2 of")
    for key, screen in (("ArrowRight", 3), ("ArrowUp", 2), (" ", 3), ("Shift+ ", 2), ("ArrowLeft", 1), ("ArrowDown", 2)):
        page.keyboard.press(key)  # whatever a clicker sends
        expect(notes.locator(".place")).to_contain_text(f"Screen {screen} of")
    page.keyboard.press("b")
    assert page.evaluate("document.elementFromPoint(900, 500).style.background") == "rgb(0, 0, 0)"


def test_a_page_that_is_not_presented_says_what_is(projector):
    page = projector("classroom")
    expect(page.get_by_role("status").filter(has_text="no presenter view")).to_contain_text("wall")
    expect(page.locator(".presenting")).to_have_count(0)


@pytest.mark.parametrize("name", [page.path for page in PAGES.values() if page.instead])
def test_a_clicker_walks_a_page_without_the_view_and_back(projector, name):
    page = projector(name)
    resize(page, 1366, 768)
    for forth, back in (("PageDown", "PageUp"), ("ArrowRight", "ArrowLeft"), ("ArrowDown", "ArrowUp"), (" ", "Shift+ ")):
        for key, there in ((forth, "scrollTop > 100"), (back, "scrollTop === 0")):
            page.keyboard.press(key)
            page.wait_for_function(f"() => document.querySelector('.stMain').{there}")


def test_every_page_is_presented_or_says_why_not():
    assert all(page.presented_by_component or page.ask or page.instead for page in PAGES.values())


def test_a_phone_steps_in_the_view_and_leaves_it_by_a_button(open_presenter):
    page = open_presenter()
    resize(page, 390)
    page.keyboard.press("f")
    page.keyboard.press("f")
    before = page.locator(".sentence").inner_text()
    page.get_by_role("button", name="Step →").click()
    expect(page.locator(".presenting .sentence")).not_to_have_text(before)
    page.get_by_role("button", name="leave the presenter view").click()
    expect(page.locator("section.stage")).not_to_have_class("presenting")
    assert "present=1" not in page.url
