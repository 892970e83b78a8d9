"""How the stage looks in a real browser: text stays text, unusual rounds fit the page, colors keep their meaning, less step is obeyed."""

from __future__ import annotations

import pytest

from specviz.web.one_round.payload import BARS, build_round_payload
from tests.browser.chromium import resize
from tests.browser.component_pages import SIZES, find_step, sentence, step_through
from tests.helpers import hand_made_traces


def test_at_the_residual_striped_and_green_stand_on_each_other_and_make_the_targets_bars(open_stage):
    payload = build_round_payload(hand_made_traces.build_story())
    page = open_stage(payload, cursor=(0, find_step(payload, "residual")))
    boxes = page.locator(".distributions .slot").evaluate_all(
        """slots => slots.filter(slot => !slot.classList.contains("off")).map(slot => Object.fromEntries(
            [".bar.p", ".bar.add", ".slab"].map(name => [name, slot.querySelector(name).getBBox()]).map(([name, box]) => [name, [box.y, box.height]])))"""
    )
    assert len(boxes) == BARS["wide"] + 1
    for box in boxes:
        assert box[".slab"][1] + box[".bar.add"][1] == pytest.approx(box[".bar.p"][1], abs=0.05)
        assert box[".bar.add"][0] == pytest.approx(box[".bar.p"][0], abs=0.05)
    assert (
        page.locator(".distributions .foot").text_content()
        == "Striped (accepted) 0.67 + green (added) 0.33: bar for bar exactly the target’s p."
    )


def test_text_that_looks_like_markup_is_shown_as_the_text_it_is(open_stage):
    payload = build_round_payload(hand_made_traces.build_unusual_text())
    page = open_stage(payload, cursor=(0, find_step(payload, "tally")))
    assert page.locator(".sofar").inner_text() == "<img src=x onerror=alert(1)> $x$ :red[a] </script>"
    assert "<img" in page.locator(".chip").nth(9).inner_text()
    assert page.evaluate("window.stage.querySelectorAll('img, script').length") == 0


def test_bytes_stand_in_boxes_under_a_brace_that_shows_their_character(open_stage):
    payload = build_round_payload(hand_made_traces.build_unusual_text())
    page = open_stage(payload, cursor=(0, find_step(payload, "tally")))
    assert page.locator(".brace .letter").all_inner_texts() == ["λ", "你", "👩\u200d🚀"]
    assert page.locator(".chip").nth(4).locator(".glyph.byte").all_inner_texts() == ["E4", "BD"]


@pytest.mark.parametrize(
    "name",
    hand_made_traces.UNUSUAL,
)
def test_unusual_rounds_are_drawn_to_their_end_without_overflowing_the_page(open_stage, name):
    payload = build_round_payload(hand_made_traces.TRACES[name]())
    told = [step["sentence"] for step in payload["rounds"][0]["steps"]]
    page = open_stage(payload, size="390")
    for width in (390, 1366):
        resize(page, width)
        page.keyboard.press("Home")
        assert [*step_through(page, len(told) - 1), sentence(page)] == told
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        chain = page.locator(".chain")
        assert chain.evaluate("node => node.scrollWidth <= node.clientWidth"), "the end of a round fits a phone"
        numbers = page.locator(".scene").evaluate("scene => scene.outerHTML")
        assert "NaN" not in numbers and "undefined" not in numbers


@pytest.mark.parametrize("name", ["build_longest_block", "build_unusual_text"])
def test_a_long_block_is_one_strip_that_follows_the_chip_in_question(open_stage, name):
    payload = build_round_payload(hand_made_traces.TRACES[name]())
    page = open_stage(payload)
    for width, height in SIZES.values():
        resize(page, width, height)
        page.keyboard.press("Home")
        for step in payload["rounds"][0]["steps"]:
            seen = page.evaluate(
                """() => {
                window.scrollTo(0, document.body.scrollHeight); // where the buttons of a phone stand below a long sentence
                const box = (name) => window.stage.querySelector(name)?.getBoundingClientRect();
                const tops = new Set([...window.stage.querySelectorAll(".chip, .onePass")].filter((node) => node.offsetParent)
                    .map((node) => Math.round(node.closest(".chip").offsetTop)));
                const focus = box(".chip.focus");
                return {rows: tops.size, wide: document.documentElement.scrollWidth, inSight: !focus || (focus.left >= 0 && focus.right <= innerWidth),
                        end: box(".transport").bottom, clear: box(".sentence").bottom <= box(".transport").top};
            }"""
            )
            assert (seen["rows"], seen["inSight"], seen["clear"]) == (1, True, True), step
            assert seen["wide"] <= width and seen["end"] <= height
            page.keyboard.press("ArrowRight")


def test_the_pass_is_named_under_its_line_and_takes_no_place(open_stage):
    payload = build_round_payload(hand_made_traces.build_story())
    page = open_stage(payload, cursor=(0, find_step(payload, "pass")))
    place = "() => { const box = window.stage.querySelector('.onePass').getBoundingClientRect(); return [box.left, box.top]; }"
    before, first = page.evaluate(place), page.locator(".chip").first.bounding_box()
    assert before[0] == pytest.approx(first["x"], abs=1) and before[1] < first["y"] + first["height"]
    page.keyboard.press("ArrowRight")
    assert page.evaluate(place) == before


def test_the_bars_of_the_residual_stand_still_when_the_draw_comes(open_stage):
    payload = build_round_payload(hand_made_traces.build_story())
    page = open_stage(payload, cursor=(0, find_step(payload, "residual")))
    boxes = """pieces => pieces.filter(piece => piece.checkVisibility()).map(piece => [piece.style.y, piece.style.height])"""
    before = page.locator(".piece").evaluate_all(boxes)
    page.keyboard.press("ArrowRight")
    assert page.locator(".drawForm").is_visible() and page.locator(".piece").evaluate_all(boxes) == before


def test_numbers_over_two_bars_of_one_height_do_not_overlap(open_stage):
    payload = build_round_payload(hand_made_traces.build_story())
    for probs in payload["rounds"][0]["distributions"][:1]:
        for bar in [bar for view in probs["views"].values() for bar in view if bar["drafted"]]:
            bar["p"], bar["q"] = 0.0002, 0.001
    page = open_stage(payload, size="390", cursor=(0, find_step(payload, "look", node=0)))
    boxes = [
        page.locator(f".distributions .value.{letter}").evaluate_all(
            "all => all.filter(one => one.style.opacity === '1').map(one => one.getBoundingClientRect().toJSON())"
        )[0]
        for letter in "pq"
    ]
    assert boxes[0]["right"] <= boxes[1]["left"]


def test_many_notices_leave_the_transport_on_the_screen(open_stage):
    said = ["The link's top-p was left out: top-p must be above 0 and at most 1; leave it out to switch it off, got 1.5."] * 6
    page = open_stage(build_round_payload(hand_made_traces.build_story()), notices=said)
    for width, height in (SIZES["390"], SIZES["1366"]):
        resize(page, width, height)
        assert page.locator(".notices").bounding_box()["height"] <= 100
        end = page.locator(".transport").bounding_box()
        assert end["y"] + end["height"] <= height


def test_at_the_bonus_the_left_panel_looks_back_at_the_random_numbers(open_stage):
    payload = build_round_payload(hand_made_traces.build_story())
    page = open_stage(payload, cursor=(1, find_step(payload, "bonus", 1)))
    assert page.locator(".distributions .title").text_content() == "Why there is a bonus token"
    shown = "rings => rings.filter(ring => ring.style.opacity === '1' && ring.parentNode.checkVisibility()).length"
    assert page.locator(".distributions .fell").evaluate_all(shown) == 4
    values = [text for text in page.locator(".distributions .value.p").all_text_contents() if text]
    assert values == ["0.48", "0.76", "0.87", "1"]
    page.keyboard.press("ArrowLeft")
    assert page.locator(".distributions .fell").evaluate_all(shown) == 0
    assert (
        page.locator(".distributions .title").text_content() == "Probability of the next token: p by the target, q by the draft"
    )


def test_a_laptop_screen_needs_no_scrolling(open_stage):
    payload = build_round_payload(hand_made_traces.build_story())
    page = open_stage(payload, pad=80)
    for kind in ("look", "uniform", "draw", "tally"):
        page.locator(".track input").fill(str(find_step(payload, kind)))
        assert page.evaluate("document.documentElement.scrollHeight <= window.innerHeight"), kind


def test_a_preference_for_less_motion_turns_transitions_into_jumps(open_stage):
    payload = build_round_payload(hand_made_traces.build_story())
    press_and_count = """() => {
        document.dispatchEvent(new KeyboardEvent("keydown", {key: "End", bubbles: true, cancelable: true}));
        return window.stage.getAnimations({subtree: true}).length;
    }"""
    for reduced in (True, False):
        page = open_stage(payload, reduced=reduced)
        page.wait_for_function("!window.stage.querySelector('.jump')")  # the first picture stands
        assert (page.evaluate(press_and_count) == 0) == reduced


FILLS = """pieces => pieces.filter(piece => piece.style.opacity !== "0" && piece.checkVisibility()).map(piece => getComputedStyle(piece).fill)"""


@pytest.mark.parametrize(
    ("scheme", "green", "magenta"), [("light", "0, 158, 115", "204, 121, 167"), ("dark", "34, 184, 140", "217, 141, 183")]
)
def test_the_residual_is_green_and_the_bonus_has_a_color_of_its_own(open_stage, scheme, green, magenta):
    payload = build_round_payload(hand_made_traces.build_story())
    page = open_stage(payload, scheme=scheme)
    for kind in ("lift", "residual", "draw"):
        page.locator(".track input").fill(str(find_step(payload, kind)))
        assert set(page.locator(".piece").evaluate_all(FILLS)) == {f"rgb({green})"}, kind
    page.keyboard.press("Enter")
    page.locator(".track input").fill(str(find_step(payload, "bonus", 1)))
    assert set(page.locator(".piece").evaluate_all(FILLS)) == {f"rgb({magenta})"}


def test_a_strip_that_goes_on_says_so_at_its_edge(open_stage):
    payload = build_round_payload(hand_made_traces.build_longest_block())
    page = open_stage(payload, size="390", cursor=(0, 0))
    less, further = page.locator(".aside.less"), page.locator(".aside.further")
    assert (less.is_visible(), further.is_visible()) == (False, True)
    page.keyboard.press("End")
    page.wait_for_function("window.stage.querySelector('.aside.less').checkVisibility()")
