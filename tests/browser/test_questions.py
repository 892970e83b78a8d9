"""Eight questions in a real browser: every answer of every question, keys, a reload, a link, and what no answer may do."""

from __future__ import annotations

from itertools import pairwise

import pytest
from playwright.sync_api import expect

from specviz.web.questions.questions import build_questions_payload, load_recorded_runs
from tests.browser.component_pages import COLORS, SIZES, component_page

PAYLOAD = build_questions_payload(load_recorded_runs())
ADDRESS = "http://questions.test/questions"


@pytest.fixture
def open_questions(open_html):
    """Opens the page as an address would; ``question`` as it stands in the address."""

    def opener(question: str | None = None, size: str = "1366", scheme: str = "light"):
        data = {"payload": PAYLOAD, "question": question, "ending": "", "notices": []}
        return open_html(component_page("questions", data, scheme), ADDRESS, size)

    return opener


def find_visible(page, what: str):
    """The part of the question in sight: the others are in the page too, for their room and for paper."""
    return page.locator(f".card.now {what}")


def find_explanation(page):
    """The explanation in sight."""
    return find_visible(page, ".explained.now")


def test_each_question_answered_wrong_and_right_explains_itself(open_questions):
    page = open_questions()
    for n, one in enumerate(PAYLOAD["questions"], start=1):
        expect(find_visible(page, ".question")).to_have_text(one["asks"])
        expect(find_explanation(page)).to_have_count(0)
        for i, option in enumerate(one["options"]):
            find_visible(page, ".option").nth(i).click()
            expect(find_explanation(page).locator(".verdict")).to_have_text("✓ Right" if option["right"] else "✕ Not quite")
            expect(find_explanation(page).locator(".explanation")).to_have_text(option["explanation"])
            expect(find_explanation(page).locator("figcaption")).to_have_text(option["picture"]["title"])
        first = "right at the first try" if one["options"][0]["right"] else "wrong at the first try, the right answer seen since"
        assert page.locator(".dot").nth(n - 1).get_attribute("title") == f"{n}, {one['topic']}: {first}"
        if n < 8:
            page.get_by_role("button", name="Next question →").click()
    right = sum(one["options"][0]["right"] for one in PAYLOAD["questions"])
    expect(page.locator(".tally")).to_have_text(f"8 of 8 answered, {right} right at the first try.")


def test_before_an_answer_the_answers_are_all_there_is_to_press_and_sixty_words_say_what_is_asked(open_questions):
    page = open_questions()
    for n, one in enumerate(PAYLOAD["questions"], start=1):
        controls = page.locator("button:visible, a:visible").all_inner_texts()
        assert controls == [
            f"Answer {i + 1} of {len(one['options'])}:\n{'ABCD'[i]}\n{option['text']}" for i, option in enumerate(one["options"])
        ] + ["← Back"] * (n > 1)
        words = page.evaluate(
            "[...stage.querySelectorAll(':is(h2, h3, p)')].filter((node) => node.checkVisibility({visibilityProperty: true}) && !node.closest('.picture, .progress, .aloud'))"
            ".map((node) => node.textContent.trim().split(/\\s+/).length).reduce((all, more) => all + more, 0)"
        )
        assert 20 < words <= 60, (one["key"], words)
        page.keyboard.press("ArrowRight")


def test_the_next_button_comes_with_the_answer_and_stands_where_it_stood(open_questions):
    page = open_questions()
    onward = page.get_by_role("button", name="Next question →")
    expect(onward).to_have_count(0)
    page.keyboard.press("1")
    place = onward.bounding_box()
    onward.click()
    expect(onward).to_have_count(0)
    page.keyboard.press("1")
    assert onward.bounding_box()["x"] == place["x"], "the way back stands at the other end"


def test_a_wrong_answer_invites_another_try_and_the_right_one_can_be_shown(open_questions):
    page = open_questions()
    find_visible(page, ".option").nth(0).click()
    find_visible(page, ".option").nth(1).click()
    shows = page.get_by_role("button", name="Show the right answer")
    shows.focus()
    page.keyboard.press("Enter")
    expect(find_explanation(page).locator(".explanation")).to_have_text(PAYLOAD["questions"][0]["options"][2]["explanation"])
    expect(find_visible(page, ".option").nth(2)).to_be_focused()
    find_visible(page, ".option").nth(0).click()
    expect(shows).to_be_hidden()  # it is known by now
    expect(page.locator(".tally")).to_have_text("1 of 8 answered, 0 right at the first try.")


def test_after_the_last_question_a_summary_says_what_was_right_and_leads_on(open_questions):
    page = open_questions("2")
    page.keyboard.press("2")  # right
    for _ in range(6):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("1")  # wrong
    page.get_by_role("button", name="See the summary →").press("Enter")
    expect(page.locator(".summary h3")).to_have_text("1 of 8 right at the first try")
    rows = page.locator(".summary li")
    expect(rows.locator(".sign")).to_have_text(["– Open", "✓ Right", *["– Open"] * 5, "✕ Not yet"])
    expect(rows.nth(1)).to_contain_text(next(one["text"] for one in PAYLOAD["questions"][1]["options"] if one["right"]))
    expect(rows.nth(7)).to_contain_text(PAYLOAD["questions"][7]["asks"])  # the right answer stays open
    onward = page.get_by_role("link", name="Next: Exactness test →")
    expect(onward).to_be_focused()
    assert onward.get_attribute("href") == "exactness"
    page.keyboard.press("1")  # no question is in sight
    expect(rows.locator(".sign").first).to_have_text("– Open")
    rows.nth(0).get_by_role("button").click()
    expect(find_visible(page, ".question")).to_have_text(PAYLOAD["questions"][0]["asks"])
    expect(onward).to_be_hidden()


def test_an_answer_leaves_the_question_in_its_place_and_the_next_button_on_the_screen(open_questions):
    page = open_questions()
    for one in PAYLOAD["questions"]:
        tops, places = set(), []
        for key in range(len(one["options"]) + 1):
            if key:
                page.keyboard.press(str(key))
            expect(find_visible(page, ".choose")).to_have_text(PAYLOAD["choose"])
            tops.add(tuple(find_visible(page, ".question").bounding_box()[side] for side in ("x", "y")))
            places.append(page.locator(".steps").bounding_box()["y"])
        page.keyboard.press("ArrowRight")
        assert len(tops) == 1 and len(set(places[1:])) == 1, one["key"]  # explanations of a question take the same room
        assert max(places) + 40 <= 768


def test_a_screen_reader_hears_which_answer_of_how_many_and_what_came_of_it(open_questions):
    page = open_questions("6")
    one = PAYLOAD["questions"][5]
    text = one["options"][0]["text"]
    option = page.get_by_role("button", name=f"Answer 1 of 4: {text}", exact=True)
    expect(page.get_by_role("list", name=one["asks"]).get_by_role("button")).to_have_count(4)
    option.click()
    expect(page.get_by_role("button", name=f"Answer 1 of 4: {text} Not right.", exact=True)).to_be_focused()
    expect(page.locator(".heard")).to_have_text(f"Answer 1 of 4: not right. {one['options'][0]['explanation']}")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".heard")).to_have_text(f"Question 7 of 8. {PAYLOAD['questions'][6]['asks']}")
    expect(page.get_by_role("heading", level=3)).to_have_count(1)


@pytest.mark.parametrize("size", ["390", "1366"])
def test_paper_has_all_questions_and_marks_only_what_was_answered(open_questions, size):
    page = open_questions(size=size)
    page.keyboard.press("1")
    page.keyboard.press("ArrowRight")
    page.emulate_media(media="print")
    for n, one in enumerate(PAYLOAD["questions"]):
        card = page.locator(".card").nth(n)
        expect(card.locator(".question")).to_be_visible()
        expect(card.locator(".situation")).to_be_visible()
        for i in range(len(one["options"])):
            expect(card.locator(".option").nth(i)).to_be_visible()
            expect(card.locator(".sign").nth(i)).to_have_text("✕" if (n, i) == (0, 0) else "")
        expect(card.locator(".explained:visible")).to_have_count(1 if n == 0 else 0)
        expect(card.locator(".before figure:visible")).to_have_count(len(one["pictures"]) if n else 0)
    for only_on_screen in (".steps", ".progress", ".choose", ".again:visible", ".more:visible"):
        assert page.locator(only_on_screen).filter(visible=True).count() == 0
    boxes = [page.locator(".card").nth(n).bounding_box() for n in range(8)]
    assert all(a["y"] + a["height"] <= b["y"] for a, b in pairwise(boxes)), "one below the other"


def test_answers_outlast_a_reload_and_are_forgotten_on_request(open_questions):
    page = open_questions("2")
    page.keyboard.press("2")
    expect(find_explanation(page).locator(".verdict")).to_have_text("✓ Right")
    page.reload()
    expect(page.locator(".tally")).to_have_text("1 of 8 answered, 1 right at the first try.")
    expect(find_explanation(page).locator(".explanation")).to_have_text(PAYLOAD["questions"][1]["options"][1]["explanation"])
    for _ in range(7):
        page.keyboard.press("ArrowRight")
    page.get_by_role("button", name="Start again").click()
    expect(find_visible(page, ".option").first).to_be_focused()
    expect(page.locator(".tally")).to_have_text("")
    page.reload()
    expect(find_explanation(page)).to_have_count(0)


def test_arrows_and_a_clicker_turn_pages_and_the_address_follows(open_questions):
    page = open_questions()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("PageDown")
    expect(page.locator(".progress b")).to_have_text("3 of 8")
    page.wait_for_url("**?question=3")
    page.keyboard.press("PageUp")
    page.wait_for_url("**?question=2")
    expect(page.locator(".dot")).to_have_text([""] * 8)
    page.keyboard.press("2")
    expect(page.locator(".dot.now")).to_have_text("✓")
    page.keyboard.press("PageUp")
    page.keyboard.press("4")  # there is no fourth answer
    expect(find_explanation(page)).to_have_count(0)


def test_a_link_to_no_question_opens_the_first_with_a_sentence(open_questions):
    page = open_questions("<b>9</b>")
    expect(page.locator(".progress b")).to_have_text("1 of 8")
    expect(page.locator(".notices")).to_contain_text("'<b>9</b>' is not one of 1 to 8")


def test_the_focus_stays_where_the_answer_was_given_and_an_answer_of_one_line_has_one(open_questions):
    page = open_questions("1")
    assert all(one.bounding_box()["height"] <= 52 for one in find_visible(page, ".option").all())
    option = find_visible(page, ".option").nth(1)
    option.focus()
    page.keyboard.press("Enter")
    expect(option).to_be_focused()
    expect(option).to_have_attribute("aria-pressed", "true")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", COLORS)
def test_no_width_needs_to_be_scrolled_sideways(open_questions, size, scheme):
    page = open_questions("7", size, scheme)
    page.keyboard.press("1")
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
    assert page.evaluate(
        "[...stage.querySelectorAll('.option, .explanation, .barName')].every((one) => one.scrollWidth <= one.clientWidth + 1)"
    )


def test_a_number_stands_at_the_end_of_its_bar(open_questions):
    for n in range(1, len(PAYLOAD["questions"]) + 1):
        page = open_questions(str(n))
        for lane in find_visible(page, ".before .lane.open").all():  # an unknown one fills its track, and hints at no length
            track, box, mark = (lane.locator(part).bounding_box() for part in (".run", ".unknown", "b"))
            assert abs(box["width"] - track["width"]) < 1 and lane.locator("b").inner_text() == "?"
            assert abs(mark["x"] + mark["width"] / 2 - box["x"] - box["width"] / 2) < 1
        gaps = find_visible(page, ".before .lane:not(.open)").evaluate_all(
            "lanes => lanes.map(lane => lane.querySelector('b').getBoundingClientRect().left - Math.max(lane.querySelector('.run').getBoundingClientRect().left, "
            "...[...lane.querySelectorAll('.fill, .range')].map(part => part.getBoundingClientRect().right)))"
        )
        assert gaps and all(4 <= gap <= 16 for gap in gaps), (n, gaps)


def test_on_a_phone_an_answer_brings_its_verdict_into_sight(open_questions):
    page = open_questions("7", "390")
    page.set_viewport_size({"width": 375, "height": 560})
    answers, picture = (find_visible(page, part).bounding_box() for part in (".options", ".before"))
    assert picture["y"] + picture["height"] <= answers["y"], "the picture that the answers are about stands above them"
    page.keyboard.press("1")
    expect(find_explanation(page).locator(".verdict")).to_be_in_viewport(ratio=1.0)
