"""The tour in a real browser: it starts when it is asked for, follows whoever steps, and stands in the link."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from specviz.figures.numbers import format_probability
from specviz.web.one_round.payload import TEXTS, build_round_payload, select_texts
from specviz.web.questions.questions import load_recorded_runs
from tests.browser.chromium import resize
from tests.browser.component_pages import open_more, page_html
from tests.helpers import hand_made_traces

PAYLOAD = build_round_payload(load_recorded_runs().opening)
TOUR = TEXTS["tour"]
ADDRESS = "http://tour.test/?seed=7"
TITLE = ".tourStop.now h3"
SPOKEN_OF = (".chips", ".scene", ".track")


@pytest.fixture
def open_tour(open_html):
    def opener(address: str = f"{ADDRESS}&tour=1", size: str = "1366", payload=PAYLOAD, **data):
        return open_html(page_html(payload, **data), address, size)

    return opener


def test_there_are_at_most_eight_stops_and_each_says_what_to_do_in_few_words():
    assert len(TOUR) <= 8
    assert all(len(stop["says"]) < 260 for stop in TOUR)


def test_a_rule_that_does_not_accept_with_p_over_q_has_no_tour(open_tour):
    page = open_tour(tour=select_texts("block")["tour"])
    open_more(page)
    assert not page.locator(".tour").is_visible() and not page.get_by_role("button", name="Tour", exact=True).is_visible()


def test_it_never_starts_by_itself_and_starts_by_a_button(open_tour):
    page = open_tour(ADDRESS)
    assert not page.locator(".tour").is_visible()
    open_more(page)
    page.get_by_role("button", name="Tour", exact=True).click()
    expect(page.locator(TITLE)).to_have_text(TOUR[0]["title"])
    page.wait_for_url("**tour=1*")


@pytest.mark.parametrize("size", ["390", "1366", "1920"])
def test_every_stop_points_at_one_thing_in_sight(open_tour, size):
    page = open_tour(size=size)
    for n, stop in enumerate(TOUR, start=1):
        expect(page.locator(TITLE)).to_have_text(stop["title"])
        expect(page.locator(".tourCount")).to_have_text(f"{n} of {len(TOUR)}")
        ring, card = page.locator(".ring").bounding_box(), page.locator(".tour").bounding_box()
        width = page.viewport_size["width"]
        assert ring["width"] > 40 and ring["height"] > 30
        assert card["x"] >= 0 and card["x"] + card["width"] <= width
        tops = [page.locator(one).bounding_box()["y"] for one in SPOKEN_OF]
        assert all(card["y"] + card["height"] <= top for top in tops), "the card covers what it speaks of"
        if n < len(TOUR):
            page.get_by_role("button", name="Next →").click()
    page.get_by_role("button", name="Done").click()
    assert not page.locator(".tour").is_visible()


@pytest.mark.parametrize("size", ["390", "1366", "1920"])
def test_nothing_moves_from_stop_to_stop(open_tour, size):
    page = open_tour(size=size)
    places = set()
    for n in range(len(TOUR)):
        if n:
            page.get_by_role("button", name="Next →").click()
        if n == 0 and size == "390":
            continue  # a phone's picture grows after the first step
        boxes = [page.locator(one).bounding_box() for one in (".tour .primary", ".tour", ".scene")]
        places.add(tuple((round(box["y"]), round(box["height"])) for box in boxes))
    assert len(places) == 1


def test_the_third_stop_says_in_the_rounds_own_numbers_why_the_target_gets_its_share(open_tour):
    page = open_tour()
    for _ in range(2):
        page.get_by_role("button", name="Next →").click()
    rejected = next(one for one in load_recorded_runs().opening.rounds[0].proposals if one.accepted is False)
    q, share, p = (format_probability(one) for one in (rejected.q, rejected.threshold, rejected.p))
    expect(page.locator(".tourStop.now p")).to_contain_text(f"{q} × {share} makes {p}")
    expect(page.locator(".tour")).not_to_contain_text("{")


def test_the_tour_puts_chosen_numbers_back_before_it_begins(open_tour):
    page = open_tour(ADDRESS, payload=build_round_payload(hand_made_traces.build_edited()))
    open_more(page)
    page.get_by_role("button", name="Tour", exact=True).click()
    assert [event["kind"] for _, event in page.evaluate("window.asked")] == ["undo"]
    expect(page.locator(".tour")).to_be_hidden()
    page.evaluate(
        "(payload) => window.give({payload, cursor: {round: 0, step: 3}})", build_round_payload(hand_made_traces.build_story())
    )
    expect(page.locator(".tourCount")).to_have_text(f"1 of {len(TOUR)}")


def test_the_tour_has_one_text_and_one_way_on_in_sight_at_every_stop_of_a_small_window(open_tour):
    page = open_tour()
    resize(page, 1000, 700)
    for n in range(1, len(TOUR) + 1):
        expect(page.locator(".tourCount")).to_have_text(f"{n} of {len(TOUR)}")
        page.locator(".tour .primary").click(trial=True)
        assert not page.locator(".transport .buttons").is_visible() and not page.locator(".sentence").is_visible()
        if n < len(TOUR):
            page.get_by_role("button", name="Next →").click()


def test_on_a_phone_the_end_of_the_tour_leaves_the_focus_on_a_button_in_sight(open_tour):
    page = open_tour(size="390")
    page.get_by_role("button", name="Next →").click()
    page.keyboard.press("Escape")
    assert page.evaluate("stage.activeElement.offsetWidth > 0 && stage.activeElement.textContent") == "Step →"


def test_a_u_that_is_dragged_in_the_tour_shows_its_fate_and_goes_back(open_tour):
    page = open_tour()
    at = next(i for i, stop in enumerate(TOUR) if stop["kind"] == "uniform")
    for _ in range(at):
        page.get_by_role("button", name="Next →").click()
    said = page.locator(".sentence")
    before = said.text_content()
    disc = page.get_by_role("slider", name="the random number u")
    disc.focus()
    for _ in range(9):
        page.keyboard.press("Shift+ArrowDown")
    assert "is accepted" in said.text_content() and said.text_content().endswith("Let go, and u goes back to where it was.")
    page.keyboard.press("Enter")
    assert said.text_content() == before and page.evaluate("window.asked") == []
    expect(page.locator(".tourCount")).to_have_text(f"{at + 1} of {len(TOUR)}")


def test_it_follows_whoever_steps_and_waits_on_other_rounds(open_tour):
    page = open_tour()
    while page.locator(TITLE).inner_text() == TOUR[0]["title"]:
        page.keyboard.press("ArrowRight")
    expect(page.locator(TITLE)).to_have_text(TOUR[1]["title"])
    page.keyboard.press("Enter")  # the next round
    assert not page.locator(".tour").is_visible()
    page.locator("select[aria-label=round]").select_option("0", force=True)
    expect(page.locator(".tour")).to_be_visible()


def test_a_reload_goes_on_where_it_was_and_escape_ends_it(open_tour):
    page = open_tour(f"{ADDRESS}&tour=1&at=1.7", cursor=(0, 6))
    title = page.locator(TITLE).inner_text()
    assert title != TOUR[0]["title"]
    page.reload()
    page.wait_for_function("window.ready")
    expect(page.locator(TITLE)).to_have_text(title)
    page.keyboard.press("Escape")
    assert not page.locator(".tour").is_visible()
    page.wait_for_function("!location.search.includes('tour')")
    assert "seed=7" in page.url


def test_a_run_without_a_rejection_offers_no_tour(open_tour):
    page = open_tour(payload=build_round_payload(hand_made_traces.build_same_distributions()))
    open_more(page)
    assert not page.locator(".tour").is_visible() and not page.get_by_role("button", name="Tour", exact=True).is_visible()


def test_escape_ends_the_tour_first_and_the_presenter_view_after_it(open_tour):
    page = open_tour(f"{ADDRESS}&tour=1&present=1")
    page.keyboard.press("Escape")
    expect(page.locator(".tour")).to_be_hidden()
    assert "present=1" in page.url
    page.keyboard.press("Escape")
    expect(page.locator(".presenting")).to_have_count(0)
    page.wait_for_url(ADDRESS)
