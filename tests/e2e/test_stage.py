"""The stage in a real browser, without a server: stepping is instant, text stays text, the coin answers in the hand."""

from __future__ import annotations

import pytest

from specviz.figures.narration import number
from specviz.figures.stage import stage_payload
from tests import traces
from tests.browser import CHROMIUM, FLAGS, need_browser
from tests.stage_harness import SIZES, motion_index, page_html

sync_api = pytest.importorskip("playwright.sync_api")


@pytest.fixture(scope="module")
def browser():
    need_browser()
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def open_stage(browser):
    """Opens a page with this payload; the test fails if the page logs an error."""
    pages, problems = [], []

    def opener(payload, size="1366", reduced=True, address="http://stage.test/?seed=7&prompt=a%20b", **options):
        width, height = SIZES[size]
        motion = "reduce" if reduced else "no-preference"
        page = browser.new_page(viewport={"width": width, "height": height}, reduced_motion=motion)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.on("dialog", lambda dialog: (problems.append("a script ran"), dialog.dismiss()))
        html = page_html(payload, **options)
        page.route("**/*", lambda route: route.fulfill(body=html, content_type="text/html"))
        page.goto(address)
        page.wait_for_function("window.ready")
        pages.append(page)
        return page

    yield opener
    for page in pages:
        page.close()
    assert problems == []


def sentence(page) -> str:
    return page.locator(".sentence").inner_text()


def step_through(page, count: int) -> list[str]:
    """The sentences of the next motions, each followed by one press of the right arrow."""
    script = """(count) => Array.from({length: count}, () => {
        const said = window.stage.querySelector(".sentence").textContent;
        document.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight", bubbles: true, cancelable: true}));
        return said;
    })"""
    return page.evaluate(script, count)


def standings(page) -> list[str]:
    return page.locator(".chip").evaluate_all("chips => chips.map(chip => chip.dataset.is)")


def test_each_motion_shows_its_sentence_in_a_live_region_and_back_returns(open_stage):
    payload = stage_payload(traces.story())
    page = open_stage(payload)
    told = [motion["sentence"] for round_ in payload["rounds"] for motion in round_["motions"]]
    assert step_through(page, len(told)) == told
    page.keyboard.press("ArrowLeft")
    assert sentence(page) == told[-2]
    assert page.locator(".sentence").get_attribute("aria-live") == "polite"
    assert page.evaluate("window.asked") == []


def test_a_key_draws_its_state_before_the_next_line_of_script_runs_and_asks_no_server(open_stage):
    page = open_stage(stage_payload(traces.story()))
    seen = page.evaluate(
        """() => {
        const press = (key) => document.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true}));
        const read = () => window.stage.querySelector(".sentence").textContent;
        const out = [read()];
        for (const key of ["ArrowRight", "End", "Home"]) { press(key); out.push(read()); }
        return {out, asked: window.asked.length};
    }"""
    )
    motions = [motion["sentence"] for motion in stage_payload(traces.story())["rounds"][0]["motions"]]
    assert seen["out"] == [motions[0], motions[1], motions[-1], motions[0]]
    assert seen["asked"] == 0


def test_chips_follow_the_trace_from_ghost_over_guess_to_their_fate(open_stage):
    payload = stage_payload(traces.story())
    page = open_stage(payload)
    assert standings(page) == ["guess", "ghost", "ghost", "ghost", "hidden"]
    page.locator(".track input").fill(str(motion_index(payload, "coin", node=2)))
    assert standings(page) == ["kept", "kept", "refused", "never", "hidden"]
    page.keyboard.press("End")
    assert standings(page) == ["kept", "kept", "refused", "never", "residual"]


ADDRESS = "http://stage.test/?seed=7"


@pytest.mark.parametrize("how", ["ArrowRight", "p", "Step"])
def test_the_first_step_shows_the_finished_opening_from_its_beginning(open_stage, how):
    payload = stage_payload(traces.story())
    told = [motion["sentence"] for motion in payload["rounds"][0]["motions"]]
    page = open_stage(payload, cursor=(0, motion_index(payload, "tally")), address=ADDRESS)
    assert standings(page) == ["kept", "kept", "refused", "never", "residual"]
    assert sentence(page) == f"{told[-1]} Press Step to see it from its beginning."
    page.get_by_role("button", name="Step").click() if how == "Step" else page.keyboard.press(how)
    assert sentence(page) == told[0]
    assert page.locator("select").input_value() == "0"
    page.keyboard.press("End")
    assert sentence(page) == told[-1]
    page.keyboard.press("ArrowRight")
    assert sentence(page) == payload["rounds"][1]["motions"][0]["sentence"]


@pytest.mark.parametrize(("address", "mode"), [(f"{ADDRESS}&at=1.15", "recorded"), (ADDRESS, "live")])
def test_a_link_to_the_end_of_a_round_steps_on_from_there(open_stage, address, mode):
    payload = stage_payload(traces.story())
    page = open_stage(payload, cursor=(0, motion_index(payload, "tally")), address=address, mode=mode)
    assert sentence(page) == payload["rounds"][0]["motions"][-1]["sentence"]
    page.keyboard.press("ArrowRight")
    assert sentence(page) == payload["rounds"][1]["motions"][0]["sentence"]


def test_rounds_are_counted_only_where_no_further_one_can_follow(open_stage):
    options = "options => options.map(option => option.textContent)"
    assert open_stage(stage_payload(traces.story())).locator("option").evaluate_all(options) == ["Round 1", "Round 2"]
    assert open_stage(stage_payload(traces.ended())).locator("option").evaluate_all(options) == ["Round 1 of 1"]


def test_at_the_residual_striped_and_green_stand_on_each_other_and_make_the_blue_bars(open_stage):
    payload = stage_payload(traces.story())
    page = open_stage(payload, cursor=(0, motion_index(payload, "residual")))
    boxes = page.locator(".laws .slot").evaluate_all(
        """slots => slots.filter(slot => !slot.classList.contains("off")).map(slot => Object.fromEntries(
            [".bar.p", ".bar.add", ".slab"].map(name => [name, slot.querySelector(name).getBBox()]).map(([name, box]) => [name, [box.y, box.height]])))"""
    )
    assert len(boxes) == 9
    for box in boxes:
        assert box[".slab"][1] + box[".bar.add"][1] == pytest.approx(box[".bar.p"][1], abs=0.05)
        assert box[".bar.add"][0] == pytest.approx(box[".bar.p"][0], abs=0.05)
    assert page.locator(".laws .foot").text_content() == "Striped (kept) .67 + green (added) .33 = exactly the blue bars."


@pytest.mark.parametrize("x", [0.62, 0.0349, 0.0042, 0.00054, 0.000054, 3e-12, 0.9961, 0.99999, 0.9949, 0.1, 0.01, 0.0001])
def test_the_browser_writes_numbers_as_python_does(open_stage, x):
    payload = stage_payload(traces.story())
    payload["rounds"][0]["chips"][0]["q"] = x
    assert open_stage(payload).locator(".chip .caption").first.inner_text() == f"q {number(x)}"


def test_nodes_are_updated_and_not_made_anew(open_stage):
    page = open_stage(stage_payload(traces.story()))
    page.evaluate("window.first = window.stage.querySelector('.chip'); window.bar = window.stage.querySelector('.slot .bar')")
    page.keyboard.press("End")
    page.evaluate("window.give({notices: ['A sentence.']})")
    assert page.evaluate("window.first === window.stage.querySelector('.chip') && window.bar.isConnected")
    assert page.locator(".notices").inner_text() == "A sentence."


def test_the_address_follows_the_motion_and_keeps_everything_else(open_stage):
    page = open_stage(stage_payload(traces.story()), cursor=(0, 3))
    before = page.evaluate("history.length")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("location.search.includes('at=1.5')")
    assert "seed=7" in page.url and "prompt=a" in page.url
    assert page.evaluate("history.length") == before


def test_a_new_run_stands_at_the_cursor_and_the_same_run_stays_where_it_is(open_stage):
    page = open_stage(stage_payload(traces.story()), cursor=(0, 2))
    page.keyboard.press("ArrowRight")
    page.evaluate("window.give({cursor: {round: 0, motion: 0}, mode: 'live'})")
    assert page.locator(".track input").input_value() == "3"
    page.evaluate("(payload) => window.give({payload, cursor: {round: 0, motion: 1}})", stage_payload(traces.same_laws()))
    assert page.locator(".track input").input_value() == "1"
    assert page.locator(".chip").count() == 4


def test_keys_are_left_alone_while_someone_types(open_stage):
    payload = stage_payload(traces.story())
    page = open_stage(payload, cursor=(0, motion_index(payload, "coin", node=2)))
    before = sentence(page)
    page.locator(".coinForm input").click()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Home")
    assert sentence(page) == before


def test_next_round_is_in_the_record_or_asked_of_the_server(open_stage):
    payload = stage_payload(traces.story())
    page = open_stage(payload)
    page.keyboard.press("Enter")
    assert sentence(page) == payload["rounds"][1]["motions"][0]["sentence"]
    page.keyboard.press("Enter")
    assert page.evaluate("window.asked") == [["ask", {"kind": "next", "round": 2, "at": {"round": 1, "motion": 0}}]]


def test_going_live_asks_once_and_not_while_the_pair_is_busy(open_stage):
    page = open_stage(stage_payload(traces.story()))
    page.get_by_role("button", name="Go live").click()
    page.evaluate("window.give({busy: 'Loading the pair.'})")
    assert page.get_by_role("button", name="Go live").is_disabled()
    assert page.locator(".busy").inner_text() == "Loading the pair."
    assert [event["kind"] for _, event in page.evaluate("window.asked")] == ["live"]


def drag_coin(page, by):
    box = page.locator(".disc .reach").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, y + by, steps=5)


@pytest.mark.parametrize("mode", ["recorded", "live"])
def test_a_dragged_coin_shows_its_own_fate_at_once_and_asks_on_release(open_stage, mode):
    payload = stage_payload(traces.story())
    page = open_stage(payload, cursor=(0, motion_index(payload, "coin", node=2)), mode=mode)
    drag_coin(page, 70)
    assert standings(page)[2:] == ["kept", "pending", "hidden"]
    assert "“sat” is kept" in sentence(page)
    assert page.evaluate("window.asked") == []
    page.mouse.up()
    ((_, event),) = page.evaluate("window.asked")
    assert (event["kind"], event["position"], event["purpose"]) == ("coin", 2, "accept")
    assert 0 <= event["u"] < payload["rounds"][0]["chips"][2]["threshold"]
    assert page.locator(".coinForm .hint").inner_text() == "you chose the luck here"


def test_a_coin_moved_to_a_refusal_puts_the_stand_in_there(open_stage):
    payload = stage_payload(traces.story())
    page = open_stage(payload, cursor=(0, motion_index(payload, "coin", node=1)))
    drag_coin(page, -150)
    assert standings(page) == ["kept", "refused", "never", "never", "residual"]
    assert page.locator(".chip.last .face").inner_text() == ","
    page.keyboard.press("Escape")
    page.mouse.up()


def test_the_coin_is_a_slider_for_the_keyboard(open_stage):
    payload = stage_payload(traces.story())
    page = open_stage(payload, cursor=(0, motion_index(payload, "coin", node=2)))
    disc = page.get_by_role("slider", name="the coin")
    disc.focus()
    for _ in range(3):
        page.keyboard.press("PageDown")
    assert disc.get_attribute("aria-valuetext") == ".41: kept"
    page.keyboard.press("Enter")
    assert [event["u"] for _, event in page.evaluate("window.asked")] == [0.41]


@pytest.mark.parametrize("typed", ["1", "1.0", "-0.1", "nan", "", "<b>"])
def test_a_typed_coin_out_of_range_gets_a_sentence_and_changes_nothing(open_stage, typed):
    payload = stage_payload(traces.story())
    page = open_stage(payload, cursor=(0, motion_index(payload, "coin", node=2)))
    before = standings(page)
    page.locator(".coinForm input").fill(typed)
    page.keyboard.press("Enter")
    assert "at least 0 and below 1" in page.locator(".coinForm .hint").inner_text()
    assert standings(page) == before and page.evaluate("window.asked") == []


def test_a_typed_coin_is_asked_once_with_its_full_number(open_stage):
    payload = stage_payload(traces.story())
    page = open_stage(payload, cursor=(0, motion_index(payload, "coin", node=2)))
    page.locator(".coinForm input").fill("0.12345")
    page.keyboard.press("Enter")
    page.locator(".headline").click()
    assert [event["u"] for _, event in page.evaluate("window.asked")] == [0.12345]


def test_chosen_luck_is_said_and_can_be_undone(open_stage):
    payload = stage_payload(traces.edited())
    page = open_stage(payload, cursor=(0, motion_index(payload, "coin", node=2)))
    assert "you chose the luck" in page.locator(".status").inner_text()
    page.get_by_role("button", name="Undo luck").click()
    assert [event["kind"] for _, event in page.evaluate("window.asked")] == ["undo"]


def test_text_that_looks_like_markup_is_shown_as_the_text_it_is(open_stage):
    payload = stage_payload(traces.unusual())
    page = open_stage(payload, cursor=(0, motion_index(payload, "tally")))
    assert page.locator(".sofar").inner_text() == "<img src=x onerror=alert(1)> $x$ :red[a] </script>"
    assert "<img" in page.locator(".chip").nth(9).inner_text()
    assert page.evaluate("window.stage.querySelectorAll('img, script').length") == 0


def test_bytes_stand_in_boxes_under_a_brace_that_shows_their_character(open_stage):
    payload = stage_payload(traces.unusual())
    page = open_stage(payload, cursor=(0, motion_index(payload, "tally")))
    assert page.locator(".brace .letter").all_inner_texts() == ["λ", "你", "👩\u200d🚀"]
    assert page.locator(".chip").nth(4).locator(".glyph.byte").all_inner_texts() == ["E4", "BD"]


@pytest.mark.parametrize("maker", ["same_laws", "nothing_guessed", "sixteen", "without_laws", "ended", "unusual", "edited"])
@pytest.mark.parametrize("size", ["390", "1366"])
def test_unusual_rounds_are_drawn_to_their_end_without_overflowing_the_page(open_stage, maker, size):
    payload = stage_payload(getattr(traces, maker)())
    told = [motion["sentence"] for motion in payload["rounds"][0]["motions"]]
    page = open_stage(payload, size=size)
    assert step_through(page, len(told)) == told
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    numbers = page.locator(".scene").evaluate("scene => scene.outerHTML")
    assert "NaN" not in numbers and "undefined" not in numbers


@pytest.mark.parametrize("maker", ["sixteen", "unusual"])
@pytest.mark.parametrize("size", SIZES)
def test_a_long_block_is_one_strip_that_follows_the_chip_in_question(open_stage, maker, size):
    payload = stage_payload(getattr(traces, maker)())
    page = open_stage(payload, size=size)
    width, height = SIZES[size]
    for motion in payload["rounds"][0]["motions"]:
        seen = page.evaluate(
            """() => {
            const box = (name) => window.stage.querySelector(name)?.getBoundingClientRect();
            const tops = new Set([...window.stage.querySelectorAll(".chip, .onePass")].filter((node) => node.offsetParent)
                .map((node) => Math.round(node.closest(".chip").offsetTop)));
            const focus = box(".chip.focus");
            return {rows: tops.size, wide: document.documentElement.scrollWidth, inSight: !focus || (focus.left >= 0 && focus.right <= innerWidth),
                    end: box(".transport").bottom, clear: box(".sentence").bottom <= box(".transport").top};
        }"""
        )
        assert (seen["rows"], seen["inSight"], seen["clear"]) == (1, True, True), motion
        assert seen["wide"] <= width and seen["end"] <= height
        page.keyboard.press("ArrowRight")


def test_the_pass_is_named_behind_the_last_chip_and_takes_no_place(open_stage):
    payload = stage_payload(traces.story())
    page = open_stage(payload, cursor=(0, motion_index(payload, "pass")))
    reach = """index => { const chips = [...window.stage.querySelectorAll(".chip")];
        return window.stage.querySelector(".onePass").getBoundingClientRect().left - chips.at(index).getBoundingClientRect().right; }"""
    assert 0 <= page.evaluate(reach, -2) <= 16
    page.keyboard.press("End")
    assert 0 <= page.evaluate(reach, -1) <= 16


def test_numbers_over_two_bars_of_one_height_do_not_overlap(open_stage):
    payload = stage_payload(traces.story())
    for law in payload["rounds"][0]["laws"][:1]:
        for bar in [bar for view in law["views"].values() for bar in view if bar["drafted"]]:
            bar["p"], bar["q"] = 0.0002, 0.001
    page = open_stage(payload, size="390", cursor=(0, motion_index(payload, "look", node=0)))
    boxes = [
        page.locator(f".laws .value.{letter}").evaluate_all(
            "all => all.filter(one => one.style.opacity === '1').map(one => one.getBoundingClientRect().toJSON())"
        )[0]
        for letter in "pq"
    ]
    assert boxes[0]["right"] <= boxes[1]["left"]


@pytest.mark.parametrize("size", ["390", "1366"])
def test_many_notices_leave_the_transport_on_the_screen(open_stage, size):
    said = ["The link's top-p was left out: top-p must be above 0 and at most 1; leave it out to switch it off, got 1.5."] * 6
    page = open_stage(stage_payload(traces.story()), size=size, notices=said)
    assert page.locator(".notices").bounding_box()["height"] <= 100
    end = page.locator(".transport").bounding_box()
    assert end["y"] + end["height"] <= SIZES[size][1]


def test_at_the_bonus_the_left_panel_looks_back_at_the_coins(open_stage):
    payload = stage_payload(traces.story())
    page = open_stage(payload, cursor=(1, motion_index(payload, "bonus", 1)))
    assert page.locator(".laws .title").text_content() == "Why there is a bonus"
    shown = "rings => rings.filter(ring => ring.style.opacity === '1' && ring.parentNode.checkVisibility()).length"
    assert page.locator(".laws .fell").evaluate_all(shown) == 4
    values = [text for text in page.locator(".laws .value.p").all_text_contents() if text]
    assert values == [".48", ".76", ".87", "1"]
    page.keyboard.press("ArrowLeft")
    assert page.locator(".laws .fell").evaluate_all(shown) == 0
    assert page.locator(".laws .title").text_content() == "What each model gives to the next token"


@pytest.mark.parametrize("kind", ["look", "coin", "draw", "tally"])
def test_a_laptop_screen_needs_no_scrolling(open_stage, kind):
    payload = stage_payload(traces.story())
    page = open_stage(payload, cursor=(0, motion_index(payload, kind)), pad=80)
    assert page.evaluate("document.documentElement.scrollHeight <= window.innerHeight")


def test_without_a_run_the_headline_and_going_live_stand_alone(open_stage):
    page = open_stage(None)
    assert page.locator(".headline").inner_text().startswith("A small model guesses.")
    page.keyboard.press("ArrowRight")
    page.get_by_role("button", name="Go live").click()
    assert [event["kind"] for _, event in page.evaluate("window.asked")] == ["live"]
    page.evaluate("(payload) => window.give({payload})", stage_payload(traces.story()))
    assert page.locator(".chip").count() == 5


def test_playing_steps_by_itself_and_stops_at_the_end(open_stage):
    payload = stage_payload(traces.nothing_guessed())
    page = open_stage(payload)
    page.clock.install()
    page.keyboard.press("p")
    page.clock.run_for(7000)
    page.clock.run_for(7000)
    page.clock.run_for(7000)
    assert sentence(page) == payload["rounds"][0]["motions"][-1]["sentence"]
    assert page.get_by_role("button", name="Play").is_visible()


def test_a_preference_for_less_motion_turns_transitions_into_jumps(open_stage):
    payload = stage_payload(traces.story())
    press_and_count = """() => {
        document.dispatchEvent(new KeyboardEvent("keydown", {key: "End", bubbles: true, cancelable: true}));
        return window.stage.getAnimations({subtree: true}).length;
    }"""
    assert open_stage(payload, reduced=True).evaluate(press_and_count) == 0
    assert open_stage(payload, reduced=False).evaluate(press_and_count) > 0


FILLS = """pieces => pieces.filter(piece => piece.style.opacity !== "0" && piece.checkVisibility()).map(piece => getComputedStyle(piece).fill)"""


@pytest.mark.parametrize(
    ("scheme", "green", "magenta"), [("light", "0, 158, 115", "204, 121, 167"), ("dark", "34, 184, 140", "217, 141, 183")]
)
def test_the_residual_is_green_and_the_bonus_has_a_colour_of_its_own(open_stage, scheme, green, magenta):
    payload = stage_payload(traces.story())
    page = open_stage(payload, scheme=scheme)
    for kind in ("lift", "residual", "draw", "tally"):
        page.locator(".track input").fill(str(motion_index(payload, kind)))
        assert set(page.locator(".piece").evaluate_all(FILLS)) == {f"rgb({green})"}, kind
    page.keyboard.press("Enter")
    page.keyboard.press("End")
    assert set(page.locator(".piece").evaluate_all(FILLS)) == {f"rgb({magenta})"}


def test_a_strip_that_goes_on_says_so_at_its_edge(open_stage):
    payload = stage_payload(traces.sixteen())
    page = open_stage(payload, size="390", cursor=(0, 0))
    less, further = page.locator(".aside.less"), page.locator(".aside.further")
    assert (less.is_visible(), further.is_visible()) == (False, True)
    page.keyboard.press("End")
    page.wait_for_function("window.stage.querySelector('.aside.less').checkVisibility()")
