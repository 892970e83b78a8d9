"""The random number u on the stage, in a real browser: dragged, typed or moved by keys it shows its fate at once, and a chosen u is said."""

from __future__ import annotations

import pytest

from specviz.web.one_round.payload import build_round_payload
from tests.browser.component_pages import find_step, sentence, standings
from tests.helpers import hand_made_traces


def drag_u(page, by):
    box = page.locator(".uniform .grip .reach").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + by, y, steps=5)


@pytest.mark.parametrize("mode", ["recorded", "live"])
def test_a_dragged_u_shows_its_own_fate_at_once_and_asks_on_release(open_stage, mode):
    payload = build_round_payload(hand_made_traces.build_story())
    page = open_stage(payload, cursor=(0, find_step(payload, "uniform", node=2)), mode=mode)
    drag_u(page, -200)
    assert standings(page)[2:] == ["accepted", "pending", "hidden"]
    assert "“sat” is accepted" in sentence(page)
    assert page.evaluate("window.asked") == []
    page.mouse.up()
    ((_, event),) = page.evaluate("window.asked")
    assert (event["kind"], event["position"], event["purpose"]) == ("uniform", 2, "accept")
    assert 0 <= event["u"] < payload["rounds"][0]["chips"][2]["threshold"]
    assert page.locator(".uniformForm .hint").inner_text() == "you chose this number"


def test_a_u_moved_to_a_rejection_shows_the_replacement(open_stage):
    payload = build_round_payload(hand_made_traces.build_story())
    page = open_stage(payload, cursor=(0, find_step(payload, "uniform", node=1)))
    drag_u(page, 420)
    assert standings(page) == ["accepted", "rejected", "unchecked", "unchecked", "residual"]
    assert page.locator(".chip.last .face").inner_text() == ","
    page.keyboard.press("Escape")
    page.mouse.up()


def test_u_is_a_slider_for_the_keyboard(open_stage):
    payload = build_round_payload(hand_made_traces.build_story())
    page = open_stage(payload, cursor=(0, find_step(payload, "uniform", node=2)))
    disc = page.get_by_role("slider", name="the random number u")
    disc.focus()
    for _ in range(3):
        page.keyboard.press("Shift+ArrowDown")
    assert disc.get_attribute("aria-valuetext") == "0.41: accepted"
    page.keyboard.press("Enter")
    assert [event["u"] for _, event in page.evaluate("window.asked")] == [0.41]


def test_a_typed_u_out_of_range_gets_a_sentence_and_changes_nothing(open_stage):
    payload = build_round_payload(hand_made_traces.build_story())
    page = open_stage(payload, cursor=(0, find_step(payload, "uniform", node=2)))
    before = standings(page)
    for typed in ("1", "1.0", "-0.1", "nan", "", "<b>"):
        page.locator(".uniformForm input").fill(typed)
        page.keyboard.press("Enter")
        said = f"u must be at least 0 and below 1, got {typed or 'nothing'}."
        assert said in page.locator(".uniformForm .hint").inner_text()
        assert standings(page) == before and page.evaluate("window.asked") == [], typed


def test_a_typed_u_is_asked_once_with_its_full_number(open_stage):
    payload = build_round_payload(hand_made_traces.build_story())
    page = open_stage(payload, cursor=(0, find_step(payload, "uniform", node=2)))
    page.locator(".uniformForm input").fill("0.12345")
    page.keyboard.press("Enter")
    page.locator(".opening").click()
    assert [event["u"] for _, event in page.evaluate("window.asked")] == [0.12345]


def test_chosen_numbers_are_said_and_can_be_undone(open_stage):
    payload = build_round_payload(hand_made_traces.build_edited())
    page = open_stage(payload, cursor=(0, find_step(payload, "uniform", node=2)))
    assert "you set u of “sat” to 0.71" in page.locator(".status").inner_text()
    page.get_by_role("button", name="Undo my numbers").click()
    assert [event["kind"] for _, event in page.evaluate("window.asked")] == ["undo"]


def test_the_line_of_the_ratio_stands_at_its_place_at_once_and_the_verdict_waits_for_u(open_stage):
    payload = build_round_payload(hand_made_traces.build_story())
    page = open_stage(payload, cursor=(0, find_step(payload, "look", node=0) - 1), reduced=False)
    words = "[...stage.querySelectorAll('.uniform .zoneName')].map((one) => one.textContent)"
    moving = "[...stage.querySelectorAll('.uniform :is(.edge, .zone, .threshold)')].flatMap((one) => one.getAnimations()).length"
    page.keyboard.press("ArrowRight")
    assert page.evaluate(moving) == 0
    assert page.evaluate(words) == ["accepts", "rejects"]
    page.keyboard.press("ArrowRight")
    assert "✓ accepted" in page.evaluate(words)
    timings = "one => one.getAnimations().map(({ effect }) => effect.getTiming()).map(({ delay, duration }) => [delay, duration])"
    (until, _), *_ = page.locator(".uniform .zoneName.verdict").evaluate(timings)
    assert until >= max(delay + duration for delay, duration in page.locator(".uniform .level").evaluate(timings))
