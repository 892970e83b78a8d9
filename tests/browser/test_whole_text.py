"""Whole text in a real browser: a replay asks nothing of the server, tokens open their rounds, a run streams, stops, and takes its place."""

from __future__ import annotations

import itertools
import re

import pytest
from playwright.sync_api import Locator, Page, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from specviz.speed.records.headline import get_speed
from specviz.speed.records.passage import SPECULATIVE, TARGET_ONLY
from specviz.web.whole_text.figures import MARKED
from specviz.web.whole_text.state import load_recorded_passages
from tests.browser.chromium import resize
from tests.browser.test_app import NASTY, PATIENT, assert_harmless, query

SECOND, FIRST = ".lane.speculative .token", ".lane.target .token"


def open_whole(page: Page, server: str, link: str = "") -> Page:
    """Open the page and wait until all of it stands."""
    page.goto(f"{server}/whole_text{link}")
    expect(page.locator(SECOND).first).to_be_visible(timeout=PATIENT)
    expect(page.locator(".divergenceItem").first).to_be_attached(timeout=PATIENT)
    return page


def open_divergences(page: Page) -> None:
    """Open the fold with the places where the models differ."""
    page.get_by_text("Where do the two models differ?").click()
    expect(page.locator(".divergenceCard")).to_be_visible()
    page.wait_for_timeout(1000)  # it has grown


def test_a_replay_keys_and_divergences_need_no_server_and_no_width_scrolls_sideways(page, server):
    open_whole(page, server)
    sent = []
    page.on("websocket", lambda socket: sent.append(socket.url))
    # Streamlit loads parts of its own script late.
    page.on("request", lambda request: "/static/js/" in request.url or sent.append(request.url))
    clock = page.locator(".lane.speculative .clock")
    whole = clock.inner_text()
    assert page.locator(FIRST).count() == page.locator(SECOND).count() == 128
    page.get_by_label("moment of both clocks").fill("500")
    assert page.locator(f"{FIRST}.later").count() > page.locator(f"{SECOND}.later").count() > 0, "the second lane is ahead"
    expect(page.locator(".tracks .now")).not_to_have_css("display", "none")
    page.get_by_role("button", name="Continue").click()
    page.get_by_label("moment of both clocks").fill("1000")
    expect(clock).to_have_text(whole)
    assert page.locator(f"{SECOND}.later").count() == 0
    page.locator(SECOND).first.focus()
    page.keyboard.press("ArrowRight")
    label = page.evaluate(
        "() => { let at = document.activeElement; while (at.shadowRoot) at = at.shadowRoot.activeElement; return at.ariaLabel; }"
    )
    assert re.search("(accepted draft token|replacement|bonus token), round \\d+; opens the round", label)
    before = page.locator(".divergences .sentence").text_content()
    expect(page.locator(".divergenceCard")).to_be_hidden()
    page.locator(f"{FIRST}.divergence").nth(1).click()  # opens the fold
    expect(page.locator(".divergenceCard")).to_be_in_viewport()
    expect(page.locator(".divergences .sentence")).not_to_have_text(before)
    expect(page.locator(".divergences .sentence")).to_contain_text("the rejection probability is the rest")
    assert page.locator(".divergenceItem").count() == page.locator(f"{FIRST}.divergence").count() == MARKED
    page.locator(".divergenceItem[aria-checked=true]").focus()
    page.keyboard.press("Home")
    expect(page.locator(".divergenceItem").first).to_have_attribute("aria-checked", "true")
    assert sent == []
    for width in (390, 768, 1920):
        resize(page, width)
        assert page.evaluate("document.querySelector('.stMain').scrollWidth") <= width
        lane = page.locator(".lane.speculative").bounding_box()
        for box in (page.locator(SECOND).nth(n).bounding_box() for n in range(0, 128, 13)):
            assert lane["x"] - 1 <= box["x"] and box["x"] + box["width"] <= lane["x"] + lane["width"] + 1
    page.get_by_text("Every token: along the text").click()
    expect(page.locator(".js-plotly-plot")).to_have_count(3, timeout=PATIENT)  # drawn once somebody asks
    page.set_viewport_size({"width": 390, "height": 844})
    page.get_by_role("button", name="Your own text").click()
    heat = page.get_by_label("Temperature", exact=True)
    heat.fill("99")
    heat.press("Enter")
    said = page.locator(".st-key-whole_text-notes-at-temperature")
    expect(said).to_contain_text("temperature must be", timeout=PATIENT)
    expect(said).to_be_in_viewport()
    assert 0 <= said.bounding_box()["y"] - (heat.bounding_box()["y"] + heat.bounding_box()["height"]) < 40, (
        "right below its field"
    )
    assert page.mistakes == []


@pytest.mark.slow  # work of a page is stopped in test_mistakes.py, which is fast
def test_a_run_streams_stops_takes_its_place_and_a_token_opens_its_round(page, server):
    open_whole(page, server, "?length=192&seed=3&prompt=Once")
    expect(page.locator(".st-key-whole_text-notes-from")).to_contain_text("Recorded for")
    page.get_by_role("button", name="Your own text").click()
    field = page.get_by_label("Text to continue", exact=True)
    field.fill(NASTY)
    field.press("Control+Enter")
    page.wait_for_url(re.compile("onerror"))
    assert query(page)["max_new_tokens"] == "192"
    write = page.get_by_role("button", name="Write it live")
    stop = page.locator(".st-key-whole_text-stop button")
    stop_in_time(write, stop)
    expect(stop).to_have_count(0, timeout=PATIENT)
    expect(page.locator(".st-key-whole_text-notes-from")).to_contain_text(re.compile("Recorded for|Your run"))
    begin_run(write)
    expect(page.locator(".st-key-whole_text-notes-from")).to_contain_text("Your run. Measured", timeout=PATIENT)
    expect(page.locator(SECOND).first).to_be_visible()
    assert_harmless(page)
    token = page.locator(SECOND).nth(20)
    round_ = int(re.search(r"round (\d+)", token.get_attribute("aria-label"))[1])
    step = re.search(r"at=\d+\.(\d+)", token.get_attribute("href"))[1]
    with page.expect_popup() as opened:
        token.click()
    expect(opened.value.locator("select[aria-label=round]").first).to_have_value(str(round_ - 1), timeout=PATIENT)
    expect(opened.value.locator(".transport input[type=range]")).to_have_value(str(int(step) - 1))
    opened.value.close()


def test_the_first_screen_has_answer_race_and_texts_and_the_chart_stands_still_when_the_answer_comes(page, server):
    page.set_viewport_size({"width": 1366, "height": 768})
    open_whole(page, server)
    title, race, answer = page.locator("h1"), page.locator(".tracks"), page.locator(".answer")
    for what in (page.get_by_role("button", name="Your own text"), race, page.locator("ul.legend").last, answer):
        expect(what).to_be_in_viewport(ratio=1.0)
    for lane in page.locator("article.lane").all():
        expect(lane).to_be_in_viewport(ratio=0.9)
    tops = [what.bounding_box()["y"] for what in (title, answer, race)]
    assert tops == sorted(tops), "the finding is the headline of its picture"
    expect(page.get_by_label("Text to continue", exact=True)).to_be_hidden()  # the race comes first
    recorded = load_recorded_passages()["temperature 0.8"]
    passes = [len(getattr(recorded, lane).clock) for lane in (SPECULATIVE, TARGET_ONLY)]
    found, why = answer.locator(".found"), answer.locator(".why").inner_text()
    says = " ".join(page.locator("h1, .st-key-whole_text-head p, .answer .found, .answer .why").all_inner_texts())
    assert 20 < len(says.split()) <= 60, says
    expect(found).to_have_text(f"This text: {recorded.gain.value:.2f}× as fast on average {get_speed('1').value:.2f}×")
    alone, drafted, cost, ratio = (float(value) for value in re.findall(r"\d+\.?\d*", why))
    assert [drafted, alone] == passes and f"{alone / (drafted * cost):.2f}" == f"{ratio:.2f}", why
    assert ratio == pytest.approx(float(found.locator("b").inner_text().rstrip("×")), abs=0.02)
    said = page.locator(".st-key-whole_text-details").text_content()  # in its fold
    gained, cost, speed = (float(value) for value in re.search(r": ([\d.]+) / ([\d.]+) [=≈] ([\d.]+),", said).groups())
    assert gained / cost == pytest.approx(speed, abs=0.02) and speed == float(found.locator("b").inner_text().rstrip("×"))
    faces = page.locator(SECOND).evaluate_all(
        "tokens => tokens.map(token => [token.getBoundingClientRect(), token.firstChild.textContent])"
    )
    joined = [
        (one, other) for (one, _), (other, text) in itertools.pairwise(faces) if text[:1].isalpha() and one["top"] == other["top"]
    ]
    gaps = [other["left"] - one["right"] for one, other in joined]
    assert min(gaps) >= -0.1 and any(abs(gap) < 0.1 for gap in gaps), "the letters of a word stand together"
    page.get_by_label("moment of both clocks").fill("1000")
    expect(page.locator(".lane.speculative .clock")).to_have_text("128 tokens in 46 passes · click a token to open its round")
    for width, height in ((1366, 768), (390, 844)):
        page.set_viewport_size({"width": width, "height": height})
        page.get_by_label("moment of both clocks").fill("1000")
        boxes = [one.bounding_box() for one in (answer, page.locator(".replay"))]
        tall = page.locator(".whole").bounding_box()["height"]
        ends = [box["y"] + box["height"] for box in (one.bounding_box() for one in page.locator("article.lane").all())]
        assert width < 640 or ends[0] == ends[1], "both cards end at one height"
        expect(found).to_be_in_viewport(ratio=1.0)
        page.get_by_label("moment of both clocks").fill("900")
        took = page.locator(".tracks .took:not(.later)")
        expect(page.locator(".tracks .now ~ .took:not(.later)")).to_have_count(1)  # drawn over the line of now
        expect(took).to_have_text(f"{recorded.speculative.clock[-1]:.3f} s")  # the second text has ended, the first has not
        order = [page.locator(f".lane.{lane}").bounding_box() for lane in ("target", "speculative")]
        assert [box["y"] + box["x"] for box in order] == sorted(box["y"] + box["x"] for box in order), "the order of their times"
        end = recorded.target.clock[-1]
        ticks = [float(one.rstrip(" s")) for one in page.locator(".tracks .tick").all_text_contents()]
        assert all(round(at * 100, 6) % 1 == 0 for at in ticks), "round numbers alone: no end before it is reached"
        number, unit = found.locator("b").bounding_box(), found.get_by_text("as fast").bounding_box()
        assert unit["y"] < number["y"] + number["height"] and unit["x"] > number["x"], "in one line"
        so_far = page.locator(f"{FIRST}:not(.later)").count()
        expect(page.locator(".lane.target .clock")).to_have_text(f"{so_far} tokens in {so_far} passes")
        page.get_by_label("moment of both clocks").fill("100")
        expect(took).to_have_count(0)
        expect(found.locator("b")).to_have_text(f"{recorded.gain.value:.2f}×")  # one ratio at any moment
        count = page.locator(f"{SECOND}:not(.later)").count()
        expect(page.locator(".lane.speculative .clock")).to_have_text(re.compile(f"{count} tokens in \\d+ passes"))
        expect(page.locator(".replay .slow")).to_have_text("20× slower than it ran")
        expect(page.locator(".replay .moment")).to_have_text(f"{0.1 * end:.3f} s of {end:.3f} s")
        columns = ".tracks .column[data-lane=speculative]:not(.later)"
        kinds = [one.get_attribute("data-kind") for one in page.locator(".legend [data-kind]").all()]
        assert kinds.pop(0) == "target", "gray has a key, too"
        entries = {kind: page.locator(f"{SECOND}:not(.later)[data-is={kind}]").count() for kind in kinds}
        assert sum(entries.values()) == count > 0, "the legend names all that stands"
        for kind, n in entries.items():
            expect(page.locator(f".legend .token[data-is={kind}]")).to_be_visible(visible=n > 0)
            expect(page.locator(f"{columns} .slice.{kind}")).to_have_count(n)
        rounds = recorded.speculative.trace.rounds[: page.locator(columns).count()]
        dropped = sum(len(one.proposals) - len(one.accepted_path) for one in rounds)
        expect(page.locator(f"{columns} .slice.dropped")).to_have_count(dropped)
        assert dropped > 0 and dropped + entries["accepted"] == sum(len(one.proposals) for one in rounds)
        assert [one.bounding_box() for one in (answer, page.locator(".replay"))] == boxes
        assert page.locator(".whole").bounding_box()["height"] == tall, "nothing below moves while the texts are written"


def measure_all(page, selector: str) -> list[dict[str, float]]:
    """Boxes of all such elements, measured at once: the chart is drawn again while it grows."""
    return page.locator(selector).evaluate_all(
        "all => all.map((one) => one.getBoundingClientRect()).map(({ x, y, width, height }) => ({ x, y, width, height }))"
    )


def test_the_axis_grows_or_slides_with_the_time_and_at_rest_every_width_has_the_whole_race(page, server):
    """A phone shows a window of the latest rounds, whose columns are as wide as on a large screen."""
    page.set_viewport_size({"width": 1366, "height": 768})
    open_whole(page, server)
    slider = page.get_by_label("moment of both clocks")
    for width, least, written in ((1366, 4.0, 4.0), (390, 4.5, 12.0)):
        resize(page, width)
        chart = page.locator(".tracks").bounding_box()
        for share in ("150", "240", "260", "490", "510", "990"):
            slider.fill(share)
            now = page.locator(".tracks .now").bounding_box()
            filled = (now["x"] + now["width"] / 2 - chart["x"]) / chart["width"]
            assert (0.59 if width > 640 else 0.49) <= filled <= 1.0, (width, share)
            columns = measure_all(page, ".tracks .column[data-lane=speculative]:not(.later)")
            assert all(box["width"] >= written for box in columns[:-1]), (width, share)
            ends = [one["x"] + one["width"] for one in measure_all(page, ".tracks .column[data-lane=target]:not(.later)")]
            assert max(ends) <= now["x"] + now["width"] + 1, "a column ends when its round ended"
        slider.fill("1000")
        boxes = measure_all(page, ".tracks .column[data-lane=speculative]")
        assert all(box["width"] >= least for box in boxes[:-1]), "no sliver; the last round may be a single token"
        assert all(box["x"] >= chart["x"] - 1 for box in boxes)
        assert all(one["x"] + one["width"] <= other["x"] + 0.5 for one, other in itertools.pairwise(boxes)), "side by side"
        ends = measure_all(page, ".tracks .took")
        assert all(chart["x"] < one["x"] and one["x"] + one["width"] <= chart["x"] + chart["width"] + 1 for one in ends)
        for lane in page.locator("article.lane").all():
            assert lane.locator(".given").bounding_box()["y"] >= lane.bounding_box()["y"], "a text has its beginning"


def test_every_word_of_the_list_stands_and_the_replay_ends_once_it_is_out_of_sight(page, server):
    page.set_viewport_size({"width": 1366, "height": 600})
    open_whole(page, server)
    open_divergences(page)
    rows, slider = page.locator(".divergenceItem"), page.get_by_label("moment of both clocks")
    slider.scroll_into_view_if_needed()
    slider.fill("50")
    clock = page.locator(".lane.target .clock")
    expect(clock).not_to_contain_text("128 tokens")
    for row in rows.all():
        expect(row).to_be_visible()
    rows.last.scroll_into_view_if_needed()
    expect(clock).to_contain_text("128 tokens")


def test_on_a_phone_the_card_opens_under_the_chosen_row(page, server):
    page.set_viewport_size({"width": 390, "height": 844})
    open_whole(page, server)
    open_divergences(page)
    rows, card = page.locator(".divergenceItem"), page.locator(".divergenceCard")
    for n in (0, 3, rows.count() - 1, 1):
        rows.nth(n).click()
        row, box = rows.nth(n).bounding_box(), card.bounding_box()
        assert 0 <= box["y"] - (row["y"] + row["height"]) < 12, n
        if n + 1 < rows.count():
            assert rows.nth(n + 1).bounding_box()["y"] >= box["y"] + box["height"], n
        expect(rows.nth(n)).to_be_in_viewport(ratio=1.0)
        expect(card).to_be_in_viewport(ratio=1.0)


def begin_run(write: Locator) -> None:
    """Press the button in its fold, which closes over the race."""
    fold = write.page.get_by_role("button", name="Your own text")
    if not write.is_visible():
        fold.click()
    expect(write).to_be_enabled(timeout=PATIENT)
    write.click()
    expect(write).to_have_count(0)


def stop_in_time(write: Locator, stop: Locator) -> None:
    """Begin a run and stop it. On a machine where the tiny pair has written its texts before the click arrives, begin another one."""
    for _ in range(5):
        begin_run(write)
        try:
            stop.click(timeout=5_000)
            return
        except PlaywrightTimeout:
            continue
    raise AssertionError("no run lasted until it was stopped")
