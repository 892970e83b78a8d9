"""The stage in a real browser, without a server: stepping is instant, text stays text, a moved u answers at once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from playwright.sync_api import expect

from specviz.figures.numbers import format_probability
from specviz.figures.pages_and_glossary import PAGES
from specviz.records import ASSETS, read_file
from specviz.trace import Trace
from specviz.web.one_round.opening_run import choose_opening_round
from specviz.web.one_round.payload import TEXTS, build_round_payload
from tests.browser.component_pages import find_step, open_more, page_html, sentence, standings, step_through
from tests.helpers import hand_made_traces


def test_each_motion_shows_its_sentence_in_a_live_region_and_back_returns(open_stage):
    payload = build_round_payload(hand_made_traces.build_story())
    page = open_stage(payload)
    told = [step["sentence"] for round_ in payload["rounds"] for step in round_["steps"]]
    assert [*step_through(page, len(told) - 1), sentence(page)] == told
    page.keyboard.press("ArrowLeft")
    assert sentence(page) == told[-2]
    assert page.locator(".sentence").get_attribute("aria-live") == "polite"
    assert page.evaluate("window.asked") == []


def test_a_key_draws_its_state_before_the_next_line_of_script_runs_and_asks_no_server(open_stage):
    page = open_stage(build_round_payload(hand_made_traces.build_story()))
    seen = page.evaluate(
        """() => {
        const press = (key) => document.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true}));
        const read = () => window.stage.querySelector(".sentence").textContent;
        const out = [read()];
        for (const key of ["ArrowRight", "End", "Home"]) { press(key); out.push(read()); }
        return {out, asked: window.asked.length};
    }"""
    )
    steps = [step["sentence"] for step in build_round_payload(hand_made_traces.build_story())["rounds"][0]["steps"]]
    assert seen["out"] == [steps[0], steps[1], steps[-1], steps[0]]
    assert seen["asked"] == 0


def test_chips_follow_the_trace_from_ghost_over_draft_token_to_their_fate(open_stage):
    payload = build_round_payload(hand_made_traces.build_story())
    page = open_stage(payload)
    assert standings(page) == ["draft", "ghost", "ghost", "ghost", "hidden"]
    page.locator(".track input").fill(str(find_step(payload, "uniform", node=2)))
    assert standings(page) == ["accepted", "accepted", "rejected", "unchecked", "hidden"]
    page.keyboard.press("End")
    assert standings(page) == ["accepted", "accepted", "rejected", "unchecked", "residual"]


def test_drafting_and_the_pass_have_a_bar_to_scale_where_the_record_holds_their_times(open_stage):
    story = hand_made_traces.build_story()
    timed = replace(story, rounds=tuple(replace(one, timing={"draft": 0.002, "target": 0.006}) for one in story.rounds))
    page = open_stage(build_round_payload(timed))
    page.get_by_role("button", name="times and settings of this round").click()
    assert page.locator(".timeParts").inner_text() == "drafting 2.0 ms, pass 6.0 ms"
    draft, target = (page.locator(f".timeBar .{part}").bounding_box()["width"] for part in ("draft", "target"))
    assert target / draft == pytest.approx(3, rel=0.1)
    untimed = replace(story, rounds=tuple(replace(one, timing={}) for one in story.rounds))
    assert open_stage(build_round_payload(untimed)).locator(".timeBar").count() == 0


ADDRESS = "http://stage.test/?seed=7"


def test_a_visit_opens_at_the_first_step_with_few_words_and_three_controls(open_stage):
    payload = build_round_payload(hand_made_traces.build_story())
    page = open_stage(payload, address=ADDRESS)
    assert sentence(page) == payload["rounds"][0]["steps"][0]["sentence"]
    assert page.locator(".roundHead .headline").inner_text() == TEXTS["headline"]
    assert TEXTS["headline"] == PAGES["one_round"].title
    assert page.locator(".opening").inner_text() == TEXTS["opening"]
    assert page.locator(".transport button:visible").all_inner_texts() == ["← Back", "▶ Play", "Step →"]
    for step in payload["rounds"][0]["steps"]:
        read = " ".join(page.locator(".headline, .opening, .sentence, .said .aside").all_inner_texts())
        assert len(read.split()) <= 60, step
        if step["kind"] == "pass":
            break
        page.keyboard.press("ArrowRight")


@pytest.mark.parametrize(("width", "height"), [(1366, 768), (1920, 1080), (390, 844)])
def test_the_buttons_stand_still_through_a_round(open_stage, width, height):
    """Sentences have one line or four, and stand near the tokens or above the buttons: neither picture nor buttons follow them, and all are in sight."""
    payload = build_round_payload(hand_made_traces.build_story())
    page = open_stage(payload)
    page.set_viewport_size({"width": width, "height": height})
    tops = set()
    for _ in payload["rounds"][0]["steps"]:
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        scene, said, buttons = (page.locator(one).bounding_box() for one in (".scene", ".sentence", ".buttons"))
        tops.add((round(scene["y"]), round(scene["height"]), round(buttons["y"])))
        assert said["y"] + said["height"] <= (buttons["y"] if width < 900 else scene["y"]), "whole"
        assert buttons["y"] + buttons["height"] <= height
        page.keyboard.press("ArrowRight")
    assert len(tops) == 1, tops


@pytest.mark.parametrize(("forth", "back"), [("ArrowRight", "ArrowLeft"), ("PageDown", "PageUp"), (" ", "ArrowLeft")])
def test_arrows_a_clicker_and_the_space_bar_step(open_stage, forth, back):
    payload = build_round_payload(hand_made_traces.build_story())
    told = [step["sentence"] for step in payload["rounds"][0]["steps"]]
    page = open_stage(payload, address=ADDRESS)
    for at in (1, 2):
        page.keyboard.press(forth)
        assert sentence(page) == told[at]
    page.keyboard.press(back)
    assert sentence(page) == told[1]
    page.get_by_role("button", name="Back").focus()
    page.keyboard.press(" ")  # presses the button
    assert sentence(page) == told[0]


def test_steps_go_on_while_a_number_is_in_a_persons_hand(open_stage):
    payload = build_round_payload(hand_made_traces.build_story())
    at = find_step(payload, "uniform", node=2)
    page = open_stage(payload, cursor=(0, at), address=ADDRESS)
    page.locator(".grip").focus()
    page.keyboard.press("Shift+ArrowDown")
    assert sentence(page) != payload["rounds"][0]["steps"][at]["sentence"]
    page.keyboard.press("ArrowRight")
    assert sentence(page) == payload["rounds"][0]["steps"][at + 1]["sentence"]


def test_an_answer_that_changes_nothing_puts_the_number_back(open_stage):
    """The server refused, or had nothing to compute: the page gives the same run again, without having been busy."""
    payload = build_round_payload(hand_made_traces.build_story())
    page = open_stage(payload, cursor=(0, find_step(payload, "uniform", node=2)), address=ADDRESS)
    before = standings(page)
    page.locator(".grip").focus()
    for _ in range(4):
        page.keyboard.press("Shift+ArrowDown")
    page.keyboard.press("Enter")
    assert [event["kind"] for _, event in page.evaluate("window.asked")] == ["uniform"]
    assert standings(page) != before
    page.evaluate("window.give({notices: ['It could not be computed.']})")
    assert standings(page) == before


@pytest.mark.parametrize(("address", "mode"), [(f"{ADDRESS}&at=1.15", "recorded"), (ADDRESS, "live")])
def test_a_link_to_the_end_of_a_round_steps_on_from_there(open_stage, address, mode):
    payload = build_round_payload(hand_made_traces.build_story())
    page = open_stage(payload, cursor=(0, find_step(payload, "tally")), address=address, mode=mode)
    assert sentence(page) == payload["rounds"][0]["steps"][-1]["sentence"]
    page.keyboard.press("ArrowRight")
    assert sentence(page) == payload["rounds"][1]["steps"][0]["sentence"]


def test_rounds_are_counted_only_where_no_further_one_can_follow(open_stage):
    options = "options => options.map(option => option.textContent)"
    assert open_stage(build_round_payload(hand_made_traces.build_story())).locator("option").evaluate_all(options) == [
        "Round 1",
        "Round 2",
    ]
    assert open_stage(build_round_payload(hand_made_traces.build_ended_trace())).locator("option").evaluate_all(options) == [
        "Round 1 of 1"
    ]


def test_the_browser_writes_numbers_as_python_does(open_stage):
    numbers = [0.62, 0.0349, 0.0042, 0.00054, 0.000054, 3e-12, 0.9961, 0.99999, 0.9949, 0.1, 0.01, 0.0001]
    payload = build_round_payload(hand_made_traces.build_longest_block())
    for chip, x in zip(payload["rounds"][0]["chips"], numbers, strict=False):
        chip["q"] = x
    page = open_stage(payload, cursor=(0, find_step(payload, "pass")))
    said = page.locator(".board .slot title").all_text_contents()[: len(numbers)]
    assert [one.partition(", ")[2] for one in said] == [f"q {format_probability(x)}" for x in numbers]


def test_nodes_are_updated_and_not_made_anew(open_stage):
    page = open_stage(build_round_payload(hand_made_traces.build_story()))
    page.evaluate("window.first = window.stage.querySelector('.chip'); window.bar = window.stage.querySelector('.slot .bar')")
    page.keyboard.press("End")
    page.evaluate("window.give({notices: ['A sentence.']})")
    assert page.evaluate("window.first === window.stage.querySelector('.chip') && window.bar.isConnected")
    assert page.locator(".notices p").all_inner_texts() == ["A sentence."]


def test_notes_of_a_link_do_not_move_the_stage_and_can_be_closed(open_stage):
    page = open_stage(build_round_payload(hand_made_traces.build_story()))
    before = page.locator(".scene").bounding_box()
    page.evaluate("window.give({notices: ['One. '.repeat(60), 'Two. '.repeat(60)]})")
    assert page.locator(".notices p").count() == 2 and page.locator(".scene").bounding_box() == before
    page.get_by_role("button", name="×").click()
    assert not page.locator(".notices").is_visible()
    page.evaluate("window.give({})")
    assert not page.locator(".notices").is_visible()


def test_the_address_follows_the_step_and_keeps_everything_else(open_stage):
    page = open_stage(build_round_payload(hand_made_traces.build_story()), cursor=(0, 3))
    page.keyboard.press("ArrowRight")
    page.wait_for_function("location.search.includes('at=1.5')")
    assert "seed=7" in page.url and "prompt=a" in page.url


def test_the_browsers_back_goes_back_a_step_and_forward_again(open_stage):
    payload = build_round_payload(hand_made_traces.build_story())
    told = [step["sentence"] for step in payload["rounds"][0]["steps"]]
    page = open_stage(payload)
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    for way, at in ((page.go_back, 2), (page.go_back, 1), (page.go_forward, 2), (page.go_back, 1), (page.go_back, 0)):
        way()
        page.wait_for_function("(said) => stage.querySelector('.sentence').textContent === said", arg=told[at])
    assert page.evaluate("window.ready"), "the page was not loaded again"


def test_the_replacement_stands_in_the_place_of_the_rejected_token(open_stage):
    payload = build_round_payload(hand_made_traces.build_story())
    page = open_stage(payload, cursor=(0, find_step(payload, "tally")))
    shown = """chips => chips.filter(chip => chip.checkVisibility({visibilityProperty: true}))
        .sort((one, other) => one.getBoundingClientRect().left - other.getBoundingClientRect().left).map(chip => chip.dataset.is)"""
    assert page.locator(".chips > .chip").evaluate_all(shown) == ["accepted", "accepted", "residual"]
    assert page.locator(".chip.last .caption").inner_text() == f"◆ replaces {payload['rounds'][0]['chips'][2]['name']}"


def test_the_draft_has_a_row_for_each_pass_the_target_all_rows_in_one_and_the_end_says_why_the_text_is_exact(open_stage):
    payload = build_round_payload(hand_made_traces.build_story())
    page = open_stage(payload)
    count = len(payload["rounds"][0]["chips"]) + 1
    words = [chip["name"].strip("“”") for chip in payload["rounds"][0]["chips"]]
    chips = payload["rounds"][0]["chips"]
    for drawn in range(1, count):
        assert (
            page.locator(".draftMask .cell").count() == (count - 1) ** 2 and page.locator(".targetMask .cell").count() == count**2
        )
        assert page.locator(".mask .cell.q").count() == page.locator(".mask .cell.seen").count() == drawn * (drawn + 1) // 2
        rows = page.locator(".draftMask .rowName").all_text_contents()
        assert all(name.startswith("for ") for name in rows) and [name == "for …" for name in rows] == [
            n > drawn for n in range(1, count)
        ]
        assert page.locator(".mask .reads").all_text_contents() == ["reads"] * 2, "the columns"
        columns = page.locator(".draftMask .name").all_text_contents()
        assert columns[0] == "text" and [name == "…" for name in columns[1:]] == [n >= drawn for n in range(len(words) - 1)]
        assert all(f"·{word}".startswith(name.rstrip("…")) for name, word in zip(columns[1:], words, strict=False))
        assert page.locator(".board").is_hidden() and page.locator(".distributions").is_visible()
        page.keyboard.press("ArrowRight")
    assert page.locator(".draftMask .cell.seen").count() == (count - 1) * count // 2, "both stand side by side"
    assert page.locator(".targetMask .cell.seen").count() == count * (count + 1) // 2
    names = page.locator(".mask .rowName").all_text_contents()
    assert names[: count - 1] == names[count - 1 : -1] and names[-1] == "the next", "a row for each token that a pass is about"
    expect(page.locator(".mask .sub")).to_have_text(["one after the other", "all rows at once"])
    assert page.locator(".distributions").is_hidden()
    for width in (1366, 390):
        page.set_viewport_size({"width": width, "height": 844})
        expect(page.locator(".mask .title")).to_have_text([f"Draft: {count - 1} passes", "Target: 1 pass"])
        assert page.locator(".board .name").all_text_contents() == [f"·{word}" for word in words]
        for key in "pq":
            written = [format_probability(chip[key]) for chip in chips]
            assert page.locator(f".board .value.{key}").all_text_contents() == written, "the target's number beside the draft's"
        assert page.locator(".board .tick").all_text_contents() == ["0.4", "0.8"], "a scale"
        said = page.locator(".board .chanceWord").all_text_contents()
        foot = page.locator(".board .foot").text_content()
        assert foot == "how often it is accepted, if those before it are", "not unconditionally"
        assert len(page.locator(".targetMask .rowName").all_text_contents()) == count, "named on a phone, too"
        rates = [min(1, chip["p"] / chip["q"]) for chip in chips]
        assert all(
            (f"{rate:.0%}" in one) == (rate < 1) and ("always" in one) == (rate == 1)
            for rate, one in zip(rates, said, strict=True)
        )
        left, right = (page.locator(f".{one} .panel").bounding_box() for one in ("board", "mask"))
        assert left["x"] + left["width"] < right["x"] if width > 900 else left["y"] + left["height"] < right["y"]
    page.set_viewport_size({"width": 1366, "height": 768})
    page.keyboard.press("End")
    factors = page.locator(".chain .factor b").all_inner_texts()
    round_ = payload["rounds"][0]
    kept = [chip["p"] for chip in round_["chips"] if chip["status"] == "accepted"] + [round_["ending"]["p"]]
    product = 1.0
    for p in kept:
        product *= p
    assert factors == [format_probability(p) for p in [*kept, product]]
    assert page.locator(".chain math mi").count() > 4


def test_a_page_that_opens_plays_by_itself_to_the_end_of_the_round_unless_less_motion_is_preferred(open_html, browser):
    payload = build_round_payload(hand_made_traces.build_story())
    steps = payload["rounds"][0]["steps"]
    page = open_html(page_html(payload, plays=True), ADDRESS, reduced=False, where=browser.new_context())
    page.clock.install()
    page.reload()
    page.wait_for_function("window.ready")
    page.clock.run_for(900)
    assert sentence(page) == steps[0]["sentence"], "it begins with a rest"
    assert page.get_by_role("button", name="Pause").get_attribute("aria-pressed") == "true"
    page.clock.run_for(6700)
    assert sentence(page) != steps[0]["sentence"]
    page.clock.run_for(1500 + 1200 * len(steps) - 7600)
    assert sentence(page) == steps[-1]["sentence"], "a whole round in 1.2 s a step, and it rests at its end"
    still = open_html(page_html(payload, plays=True), ADDRESS, where=browser.new_context())
    still.clock.install()
    still.reload()
    still.wait_for_function("window.ready")
    still.clock.run_for(9000)
    assert sentence(still) == steps[0]["sentence"]


def test_a_new_run_stands_at_the_cursor_and_the_same_run_stays_where_it_is(open_stage):
    page = open_stage(build_round_payload(hand_made_traces.build_story()), cursor=(0, 2))
    page.keyboard.press("ArrowRight")
    page.evaluate("window.give({cursor: {round: 0, step: 0}, mode: 'live'})")
    assert page.locator(".track input").input_value() == "3"
    page.evaluate(
        "(payload) => window.give({payload, cursor: {round: 0, step: 1}})",
        build_round_payload(hand_made_traces.build_same_distributions()),
    )
    assert page.locator(".track input").input_value() == "1"
    assert page.locator(".chip").count() == 4


@pytest.mark.parametrize("between", ([], [None]), ids=["at once", "after a wait"])
def test_a_shorter_run_takes_the_place_of_one_that_plays(open_stage, between):
    """The run that plays stands in a round that the new one does not have."""
    page = open_stage(build_round_payload(hand_made_traces.build_story()), cursor=(1, 0))
    page.keyboard.press("p")
    for payload in (*between, build_round_payload(hand_made_traces.build_undrafted())):
        page.evaluate("(payload) => window.give({payload, cursor: {round: 0, step: 0}})", payload)
    assert page.get_by_role("button", name="Play").is_visible()
    assert sentence(page) == build_round_payload(hand_made_traces.build_undrafted())["rounds"][0]["steps"][0]["sentence"]


def test_keys_are_left_alone_while_someone_types(open_stage):
    payload = build_round_payload(hand_made_traces.build_story())
    page = open_stage(payload, cursor=(0, find_step(payload, "uniform", node=2)))
    before = sentence(page)
    page.locator(".uniformForm input").click()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Home")
    assert sentence(page) == before


def test_next_round_is_in_the_record_or_asked_of_the_server(open_stage):
    payload = build_round_payload(hand_made_traces.build_story())
    page = open_stage(payload)
    page.keyboard.press("Enter")
    assert sentence(page) == payload["rounds"][1]["steps"][0]["sentence"]
    page.keyboard.press("Enter")
    assert page.evaluate("window.asked") == [["ask", {"kind": "next", "round": 2, "at": {"round": 1, "step": 0}}]]


def test_going_live_asks_once_and_not_while_the_pair_is_busy(open_stage):
    page = open_stage(build_round_payload(hand_made_traces.build_story()))
    open_more(page)
    page.get_by_role("button", name="Run it now").click()
    page.evaluate("window.give({busy: 'Loading the pair.'})")
    open_more(page)
    assert page.get_by_role("button", name="Run it now").is_disabled()
    assert page.locator(".busy").inner_text() == "Loading the pair."
    assert [event["kind"] for _, event in page.evaluate("window.asked")] == ["live"]


def test_without_a_run_the_opening_and_going_live_stand_alone(open_stage):
    page = open_stage(None)
    assert page.locator(".opening").inner_text() == TEXTS["opening"]
    page.keyboard.press("ArrowRight")
    open_more(page)
    page.get_by_role("button", name="Run it now").click()
    assert [event["kind"] for _, event in page.evaluate("window.asked")] == ["live"]
    page.evaluate("(payload) => window.give({payload})", build_round_payload(hand_made_traces.build_story()))
    assert page.locator(".chip").count() == 5


def test_playing_steps_by_itself_and_stops_at_the_end(open_stage, browser):
    payload = build_round_payload(hand_made_traces.build_undrafted())
    page = open_stage(payload, where=browser.new_context())  # whose clock is its own
    page.clock.install()
    page.keyboard.press("p")
    page.clock.run_for(7000)
    page.clock.run_for(7000)
    page.clock.run_for(7000)
    assert sentence(page) == payload["rounds"][0]["steps"][-1]["sentence"]
    assert page.get_by_role("button", name="Play").is_visible()


@pytest.mark.parametrize(
    ("width", "first", "last"),
    [(1366, "draft tokens", "last token"), (390, "draft tokens", "last token"), (300, "draft", "last")],
)
def test_every_part_of_a_round_has_its_name_and_a_click_in_a_part_leads_to_its_step(open_stage, width, first, last):
    payload = build_round_payload(hand_made_traces.build_story())
    page = open_stage(payload)
    page.set_viewport_size({"width": width, "height": 844})
    labels = page.locator(".part .label")
    expect(labels.first).to_have_text(first)
    assert labels.all_inner_texts() == [first, "pass", "checks", last, "result"]
    assert labels.evaluate_all("all => all.every((one) => one.scrollWidth <= one.clientWidth)"), "no name is cut"
    for share, kind in ((2.5 / 6, "look"), (3.5 / 6, "uniform")):
        page.evaluate("document.fonts.ready")  # a part is as wide as its name needs
        box = page.locator(".part").nth(2).bounding_box()
        page.mouse.click(box["x"] + share * box["width"], box["y"] + 4)
        assert page.locator(".track input").input_value() == str(find_step(payload, kind, node=1))
        expect(page.locator(".part.now .label")).to_have_text("checks")


def test_the_axis_stays_through_a_round_and_every_bar_stands_on_it_at_every_frame(open_stage):
    recording = read_file(ASSETS / "traces" / "opening.json", Trace.from_json)
    payload, first = build_round_payload(recording), choose_opening_round(recording.rounds)
    page, seen = open_stage(payload, cursor=(first, 0), reduced=False), set()
    page.evaluate(WATCH_BARS)
    for step in payload["rounds"][first]["steps"]:
        if step["kind"] in ("draft", "look", "lift"):
            seen.add(tuple(page.locator(".distributions .tick").all_text_contents()))
        page.keyboard.press("ArrowRight")
        page.wait_for_timeout(250)  # in the middle of the motion, too
    assert len(seen) == 1, seen
    frames, left = page.evaluate("window.watched")
    assert frames > 20 and left == [], left[:3]


def test_a_number_over_a_bar_is_never_ahead_of_it(open_stage):
    """From draft token to draft token, and to the checks, the bars are other ones: at the first frame each is as high as its number says."""
    payload = build_round_payload(hand_made_traces.build_story())
    page = open_stage(payload, reduced=False)
    high = """() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(
        [...window.stage.querySelectorAll(".distributions .slot:not(.off) .bar.q")].map((bar) => bar.getBoundingClientRect().height)))))"""
    for step in payload["rounds"][0]["steps"]:
        if step["kind"] in ("draft", "look"):
            at_once = page.evaluate(high)
            page.wait_for_timeout(700)
            assert page.evaluate(high) == pytest.approx(at_once, abs=0.5), step
        page.keyboard.press("ArrowRight")


WATCH_BARS = """() => {
  const watched = window.watched = [0, []];
  const look = () => {
    watched[0] += 1;
    const card = window.stage.querySelector(".distributions .panel").getBoundingClientRect(), base = [...window.stage.querySelectorAll(".distributions > .axis")].at(-1).getBoundingClientRect();
    for (const bar of window.stage.querySelectorAll(".distributions .slot:not(.off) .bar")) {
      const box = bar.getBoundingClientRect(), shown = bar.checkVisibility({ opacityProperty: true }) && box.height > 0.5 && box.width > 0.5;
      if (shown && (box.left < base.left - 1 || box.right > base.right + 1 || box.bottom > base.bottom + 1 || box.right > card.right))
        watched[1].push([window.stage.querySelector("section.stage").dataset.step, bar.getAttribute("class"), box.left, box.right, box.bottom, base.left, base.right, base.bottom]);
    }
    requestAnimationFrame(look);
  };
  look();
}"""

OVERLAPPING = """() => {
  const boxes = [...stage.querySelectorAll(".scene text")].filter((one) => one.textContent.trim() && one.checkVisibility({ opacityProperty: true }))
    .map((one) => [one.textContent, one.getBoundingClientRect(), one.closest("g:has(> .panel)")?.querySelector(".panel").getBoundingClientRect()])
    .filter(([, box]) => box.width > 0);
  const met = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3;
  const left = boxes.filter(([, box, panel]) => panel && (box.left < panel.left || box.right > panel.right)).map(([text]) => `${text} leaves its panel`);
  return left.concat(boxes.flatMap(([text, box], i) => boxes.slice(i + 1).filter(([, other]) => met(box, other)).map(([other]) => `${text} | ${other}`)));
}"""


@pytest.mark.parametrize(("width", "height"), [(683, 384), (844, 390), (933, 700), (1000, 700), (1100, 760)])
def test_words_of_the_panels_do_not_meet_on_tablets_and_at_200_percent(open_stage, width, height):
    payload = build_round_payload(hand_made_traces.build_story())
    page = open_stage(payload)
    page.set_viewport_size({"width": width, "height": height})
    for one in range(len(payload["rounds"])):
        page.locator("select[aria-label=round]").select_option(str(one), force=True)
        page.evaluate("document.activeElement.blur()")
        for _ in payload["rounds"][one]["steps"]:
            assert page.evaluate(OVERLAPPING) == []
            page.keyboard.press("ArrowRight")


def test_names_over_the_mask_of_four_draft_tokens_are_whole_and_do_not_meet(open_stage):
    payload = build_round_payload(hand_made_traces.build_story())
    chips = payload["rounds"][0]["chips"]
    assert len(chips) == 4
    for chip, word in zip(chips, ("little", "bird", "people", "children"), strict=True):
        chip["glyphs"] = [{"t": "·", "k": "space"}, {"t": word, "k": "text"}]
    page = open_stage(payload, cursor=(0, find_step(payload, "pass")))
    assert page.locator(".targetMask .name").all_text_contents() == ["text", "·little", "·bird", "·people", "·children"]
    assert page.evaluate(OVERLAPPING) == []


@pytest.mark.parametrize(("width", "height"), [(683, 384), (390, 844)])
def test_the_words_of_the_buttons_are_whole_while_it_plays_and_at_the_end(open_stage, width, height):
    payload = build_round_payload(hand_made_traces.build_story())
    page = open_stage(payload)
    page.set_viewport_size({"width": width, "height": height})
    whole = """() => [...stage.querySelectorAll(".buttons .button")].every((one) => {
      const words = document.createRange();
      words.selectNodeContents(one.querySelector("span") ?? one);
      const { left, right } = one.getBoundingClientRect(), said = words.getBoundingClientRect();
      return said.left > left && said.right < right;
    })"""
    page.keyboard.press("p")
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    assert page.evaluate(whole)
    page.keyboard.press("End")
    assert page.evaluate(whole)


def test_a_number_of_a_phone_does_not_lie_on_a_neighbors_bar(open_stage):
    """A number is wider than its bar there: beside a taller bar it stands over that one, too."""
    payload = build_round_payload(read_file(ASSETS / "traces" / "opening.json", Trace.from_json))
    met = """() => [...stage.querySelectorAll(".distributions .slot")].flatMap((slot, i, all) => [...slot.querySelectorAll(".value")].filter((text) => text.style.opacity === "1").flatMap((text) => {
      const box = text.getBoundingClientRect();
      return all.filter((other) => other !== slot).flatMap((other) => [...other.querySelectorAll(".bar.p, .bar.q")]).map((bar) => bar.getBoundingClientRect())
        .filter((bar) => Math.min(box.right, bar.right) - Math.max(box.left, bar.left) > 1 && box.bottom - 3 - bar.top > 1 && bar.height > 1).map(() => text.textContent);
    }))"""
    looks = [(n, i) for n, one in enumerate(payload["rounds"]) for i, step in enumerate(one["steps"]) if step["kind"] == "look"]
    page = open_stage(payload, cursor=looks[0], size="390")
    rounds, steps = page.locator("select[aria-label=round]"), page.locator(".track input")
    for number, step in looks[:20]:
        rounds.select_option(str(number), force=True)
        steps.fill(str(step))
        assert page.evaluate(met) == [], (number, step)
