"""Why it is exact in a real browser: dragging and keys, links, no word to the server. The arithmetic is tested in tests/js/one_token.test.js."""

from __future__ import annotations

import itertools
from urllib.parse import parse_qs, urlparse

import pytest
from playwright.sync_api import expect

from specviz.figures.pages_and_glossary import PAGES
from specviz.trace import Trace
from specviz.web.one_token.payload import GRID, PRESETS, list_positions
from tests.browser.chromium import at_rest, resize
from tests.browser.component_pages import ROOT, SIZES
from tests.browser.one_token_pages import page_html

RECORDED = Trace.from_json((ROOT / "assets" / "traces" / "opening.json").read_text(encoding="utf-8"))


@pytest.fixture
def open_token(open_html):
    """Opens the page as an address would."""

    def opener(query=None, size="1366", scheme="light", where=None):
        return open_html(page_html(query, RECORDED, scheme), "http://token.test/token?seed=7", size, where=where)

    return opener


def bar(page, name: str):
    return page.get_by_role("slider", name=name, exact=True)


def value(page, name: str) -> float:
    return float(bar(page, name).get_attribute("aria-valuenow"))


def bars(page, letter: str) -> list[float]:
    words = "target p of" if letter == "p" else "draft q of"
    reach = page.locator(f".slot:not(.off) .reach[aria-label^='{words}']")
    return reach.evaluate_all("bars => bars.map((one) => Number(one.getAttribute('aria-valuenow')))")


def query(page) -> dict[str, str]:
    return parameters(page.url)


def parameters(url: str) -> dict[str, str]:
    return {key: values[0] for key, values in parse_qs(urlparse(url).query).items()}


def format_percents(probs: list[float]) -> str:
    """As the address holds a distribution: percent with at most two decimals."""
    return "-".join(f"{100 * x:.2f}".rstrip("0").rstrip(".") for x in probs)


def drag(page, name: str, by: float) -> None:
    box = bar(page, name).bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + 27
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, y - by / 2)
    page.mouse.move(x, y - by)
    page.mouse.up()


def test_dragging_changes_overlap_table_sentence_and_address_at_once(open_token):
    page = open_token()
    expect(page.locator(".big")).to_have_text("73%")
    drag(page, "draft q of “mat”", 60)
    moved = value(page, "draft q of “mat”")
    assert 0.2 < moved <= 0.4
    p, q = bars(page, "p"), bars(page, "q")
    assert sum(q) == pytest.approx(1.0, abs=1e-12)
    assert p == [0.4, 0.3, 0.2, 0.07, 0.03]
    assert float(page.locator(".big").text_content().rstrip("%")) == pytest.approx(100 * sum(map(min, p, q)), abs=0.51)
    expect(page.locator(".bars .foot")).to_contain_text("“mat” is always accepted")
    expect(page.locator(".aloud")).to_contain_text("“mat” is always accepted")  # said once the hand rests
    page.wait_for_url(
        lambda url: parameters(url) == {"seed": "7", "q": format_percents(q)} | ({"p": format_percents(p)} if "p=" in url else {})
    )
    page.get_by_role("button", name="Undo").click()
    assert bars(page, "q") == [0.15, 0.45, 0.25, 0.05, 0.1]
    page.wait_for_url(lambda url: parameters(url) == {"seed": "7"})


ENDS = {
    "p": "p the target’s",
    "q": "q the draft’s",
    "residual": "p − q the difference",
}


def choose(page, end: str) -> None:
    page.locator(".complete").get_by_role("button", name=ENDS[end], exact=True).click()


def stacks(page) -> list[tuple[float, float, float]]:
    """Of every stack: its accepted part, its added part, and where its mark is, all as probabilities."""
    page.locator("section.stage").evaluate("node => node.classList.add('jump')")
    return page.locator(".out .slot:not(.off)").evaluate_all("""slots => {
      const lines = [...window.stage.querySelectorAll(".out .axes line:not(.off)")].map((line) => line.getBoundingClientRect().top);
      const ticks = [...window.stage.querySelectorAll(".out .axes text:not(.off)")].map((one) => Number(one.textContent));
      const unit = (lines[0] - lines[1]) / (ticks[1] - ticks[0]);
      return slots.map((one) => [parseFloat(one.querySelector(".accepted").style.height) / unit, parseFloat(one.querySelector(".added").style.height) / unit,
        (lines[0] - one.querySelector(".mark").getBoundingClientRect().top) / unit]);
    }""")


def test_each_end_of_the_sentence_draws_the_stacks_that_it_leads_to(open_token):
    """Redrawn from p: mat 0.15 + 0.27 * 0.40. From q: mat 0.15 + 0.27 * 0.15. From the residual: mat 0.15 + 0.25."""
    page = open_token()
    p, q = [0.4, 0.3, 0.2, 0.07, 0.03], [0.15, 0.45, 0.25, 0.05, 0.1]
    both = list(map(min, p, q))
    added = {"p": [0.27 * x for x in p], "q": [0.27 * x for x in q], "residual": [x - y for x, y in zip(p, both, strict=True)]}
    said = {"p": "“mat” comes out with probability 0.26, but p is 0.40", "q": "“mat” comes out with probability 0.19, but p is 0.40",
            "residual": "for “mat”, 0.15 + 0.25 = 0.40. It always fits: p and q both sum to 1, so the rejected excess, 0.27,"}  # fmt: skip
    told = page.locator(".out .told")
    expect(page.locator(".complete .fact")).to_have_text("27 of 100 draft tokens are rejected.")
    says = page.locator(".headline, .lead, .complete .fact, .complete .stem, .out .told").all_inner_texts()
    assert len(" ".join(says).split()) <= 60, "sentences before an answer"
    gaps = page.locator(".out .slot:not(.off) .gap")
    assert not any(gaps.all_text_contents()), "nobody has answered yet"
    wanted = page.locator(".out .slot:not(.off) .wanted").all_text_contents()
    assert wanted == ["0.40", "0.30", "0.20", "0.07", "0.03"], "p stands at every mark"
    values = page.locator(".out .slot:not(.off) .value:not(.wanted)").all_text_contents()
    assert values == ["✓ 0.15", "✓ 0.30", "✓ 0.20", "✓ 0.05", "✓ 0.03"], "and what was accepted below every name"
    choose(page, "q")
    assert gaps.all_text_contents() == ["0.21 missing", "0.12 too much", "0.07 too much", "0.01 missing", "0.03 too much"]
    choose(page, "residual")
    assert not any(gaps.all_text_contents())
    for end in ("p", "q", "residual", "p"):
        choose(page, end)
        expect(told).to_contain_text("✓ Exact." if end == "residual" else "✗ Not exact.")
        expect(told).to_contain_text(said[end])
        expect(told).to_have_class("told sentence" if end == "residual" else "told sentence wrong")
        for (low, high, mark), *expected in zip(stacks(page), both, added[end], p, strict=True):
            assert (low, high) == pytest.approx(expected[:2], abs=0.004), end
            assert mark == pytest.approx(expected[2], abs=0.01)
    expect(page.locator(".complete button[aria-pressed=true]")).to_have_text(ENDS["p"])
    page.get_by_label("starting distributions").select_option("disjoint")
    expect(told).to_contain_text("✓ Exact. But only here")
    page.get_by_label("starting distributions").select_option("equal")
    expect(told).to_contain_text("✓ Exact. But only here: the two distributions are equal")
    choose(page, "residual")
    expect(told).to_contain_text("✓ Exact. As with any bars.")


def test_before_an_answer_neither_picture_nor_words_give_it_away(open_token):
    """The part where p is larger than q stays blue, nothing is stacked on what was accepted, no number says what is missing, and no sentence in sight
    names the residual, for any preset."""
    page = open_token()
    for preset in PRESETS:
        page.get_by_label("starting distributions").select_option(preset)
        assert "residual" not in page.locator("section.stage").inner_text().lower(), preset
        assert all(height == 0 for _, height, _ in stacks(page)), preset
        assert not any(page.locator(".out .gap").all_text_contents()), preset
        assert "missing" not in page.locator("section.stage").inner_text(), preset
        heights = page.locator(".bars .slot:not(.off) .over.left").evaluate_all(
            "all => all.map((one) => parseFloat(one.style.height))"
        )
        assert heights == [0] * 5, preset
    page.get_by_label("starting distributions").select_option("usual")
    drag(page, "draft q of “mat”", -20)
    assert "residual" not in page.locator("section.stage").inner_text().lower()


@pytest.mark.parametrize("end", ("", "p", "q", "residual"))
def test_the_outcome_follows_a_drag_in_each_state(open_token, end):
    page = open_token()
    if end:
        choose(page, end)
    drag(page, "draft q of “sofa”", 20)
    p, q = bars(page, "p"), bars(page, "q")
    both = list(map(min, p, q))
    rest = 1 - sum(both)
    for (low, high, _), x, y, kept in zip(stacks(page), p, q, both, strict=True):
        added = {"": 0, "p": rest * x, "q": rest * y, "residual": x - kept}[end]
        assert (low, high) == pytest.approx((kept, added), abs=0.004)


@pytest.mark.parametrize("size", ("390", "1366"))
def test_neither_an_answer_nor_the_first_drag_moves_what_stands_below(open_token, size):
    page = open_token(size=size)
    below = ".card, .card svg, .ends, .told" + ", .folds" * (size != "390")  # there nothing but folds stands below the answer
    tops = f"() => [...window.stage.querySelectorAll('{below}')].map((one) => one.getBoundingClientRect().top + window.scrollY)"
    page.evaluate(
        "() => document.fonts.ready.then(() => new Promise(requestAnimationFrame))"
    )  # then its lines break as they stay
    before = page.evaluate(tops)
    for end in ENDS:
        choose(page, end)
        assert page.evaluate(tops) == pytest.approx(before, abs=0.5), end
    if size == "390":
        expect(page.locator(".out svg")).to_be_in_viewport(ratio=1.0)  # the answer is worth a look: the page goes there by itself
        expect(page.locator(".complete .ends")).to_be_in_viewport()
    bar(page, "draft q of “sofa”").focus()
    page.keyboard.press("ArrowUp")
    assert page.evaluate(tops) == pytest.approx(before, abs=0.5)
    page.keyboard.press("ArrowDown")


def test_the_first_screen_holds_both_cards_and_the_question_and_the_rest_is_folded(open_token):
    page = open_token()
    expect(page.get_by_label("starting distributions")).to_be_in_viewport(ratio=1.0)
    expect(page.locator(".out .told")).to_be_in_viewport(ratio=1.0)
    cards = [one.bounding_box() for one in page.locator(".card").all()]
    assert len(cards) == 2 and cards[0]["height"] == pytest.approx(cards[1]["height"], abs=1.0)
    grown = [page.locator(f"{card} svg").last.bounding_box() for card in (".bars", ".out")]
    assert all(card["y"] + card["height"] - box["y"] - box["height"] < 130 for card, box in zip(cards, grown, strict=True)), (
        "no hole"
    )
    assert page.locator("header .headline").inner_text() == PAGES["one_token"].title
    assert page.locator(".bars > svg").get_attribute("aria-label").startswith("Next token after “The cat sat on the”: ")
    for name in (
        "The sum for every token",
        "Other exact rules",
        "Show the maths",
        "A real text, more tokens",
    ):
        fold = page.locator("details", has=page.locator("summary", has_text=name))
        expect(fold).not_to_have_attribute("open", "")
        fold.locator("summary").click()
        expect(fold).to_have_attribute("open", "")


@pytest.mark.parametrize("size", ("390", "1366"))
def test_the_question_stands_above_its_answers_and_their_picture_and_below_what_is_rejected(open_token, size):
    page = open_token(size=size)
    stem, ends = page.locator(".complete .stem"), page.locator(".complete .ends")
    expect(stem).to_have_text("Which distribution replaces them, so that p comes out?")
    tops = [one.bounding_box()["y"] for one in (page.locator(".out .fact"), stem, ends, page.locator(".out svg"))]
    assert tops == sorted(tops)
    if size == "390":
        assert page.locator(".proposal").bounding_box()["y"] < tops[0]
    expect(ends).to_be_in_viewport(ratio=1.0)
    shown = [one.bounding_box() for one in ends.get_by_role("button").all()]
    assert len({round(box["width"]) for box in shown}) == 1 and len({round(box["height"]) for box in shown}) == 1, (
        "three of one kind"
    )
    glosses = [len(one) for one in ends.locator("span").all_text_contents()]
    assert max(glosses) - min(glosses) <= 3, "no answer has more words than another"
    if size == "390":
        expect(page.locator(".out .told")).to_be_in_viewport(ratio=1.0)


def test_a_phone_has_the_examples_the_rule_of_acceptance_and_bars_for_a_finger(open_token):
    page = open_token(size="390")
    expect(page.get_by_label("starting distributions")).to_be_in_viewport(ratio=1.0)
    expect(page.locator(".bars .status")).to_have_text(
        "Accepted: q × min(1, p/q), the smaller of p and q. Drag any bar; the numbers are invented."
    )
    expect(page.locator(".bars .status")).to_be_in_viewport(ratio=1.0)
    reaches = [one.bounding_box() for one in page.locator(".bars .slot:not(.off) .reach").all()]
    assert all(box["width"] >= 30 and box["height"] >= 48 for box in reaches)
    edges = sorted((box["x"], box["x"] + box["width"]) for box in reaches)
    assert all(right <= left + 0.6 for (_, right), (left, _) in itertools.pairwise(edges)), "none lies on another"
    page.get_by_label("starting distributions").select_option("disjoint")
    expect(page.locator(".bars .status")).to_contain_text("No overlap: nothing is accepted.")


def test_a_finger_drags_a_bar(open_token, browser):
    page = open_token(size="390", where=browser.new_context(has_touch=True))
    bar(page, "target p of “moon”").scroll_into_view_if_needed()
    box = bar(page, "target p of “moon”").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + 27
    client = page.context.new_cdp_session(page)
    for kind, at in (("touchStart", y), ("touchMove", y - 30), ("touchMove", y - 60), ("touchEnd", None)):
        points = [] if at is None else [{"x": x, "y": at}]
        client.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    assert value(page, "target p of “moon”") > 0.1


def test_keys_move_a_focused_bar_and_a_way_back_leads_back(open_token):
    page = open_token()
    before = bars(page, "p")
    bar(page, "target p of “mat”").focus()
    for key, now in (
        ("ArrowUp", 0.41),
        ("ArrowRight", 0.42),
        ("PageUp", 0.52),
        ("Shift+ArrowUp", 0.521),
        ("End", 1.0),
        ("Home", 0.0),
    ):
        page.keyboard.press(key)
        assert value(page, "target p of “mat”") == pytest.approx(now, abs=1e-9), key
    for _ in range(4):
        page.keyboard.press("PageUp")
    assert bars(page, "p") == before


def test_a_drag_moves_nothing_else_on_the_page(open_token):
    """Digits come and go in the table while a bar moves: its columns stay where they are."""
    page = open_token()
    page.locator("details").evaluate_all("nodes => nodes.forEach((node) => { node.open = true; })")
    edges = "() => [...window.stage.querySelectorAll('.sums th[scope=col], .card, .sentence')].map((one) => one.getBoundingClientRect().right + window.scrollY)"
    bar(page, "target p of “mat”").focus()
    page.keyboard.press("ArrowUp")
    before = page.evaluate(edges)
    for _ in range(12):
        page.keyboard.press("ArrowDown")
        assert page.evaluate(edges) == before


def test_escape_gives_a_drag_back(open_token):
    page = open_token()
    box = bar(page, "draft q of “sofa”").bounding_box()
    x, y = box["x"] + 10, box["y"] + 27
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, y + 40)
    assert value(page, "draft q of “sofa”") < 0.4
    page.keyboard.press("Escape")
    page.mouse.up()
    assert bars(page, "q") == [0.15, 0.45, 0.25, 0.05, 0.1]


def test_every_preset_closes_to_the_last_digit_and_says_so(open_token):
    page = open_token()
    choose(page, "residual")
    for preset, one in PRESETS.items():
        page.get_by_label("starting distributions").select_option(preset)
        assert bars(page, "q") == [n / GRID for n in one.q]
        written = page.locator(".sums tr:not(.off) td.difference").all_text_contents()
        assert len(written) == 5
        assert all(abs(float(text.replace("−", "-"))) < 4e-16 for text in written), written
        assert page.locator(".told").text_content().startswith("✓ Exact."), preset


def test_a_recorded_position_shows_the_models_own_overlap_until_a_bar_is_dragged(open_token):
    page = open_token({"from": "1.3"})
    (recorded,) = (one for one in list_positions(RECORDED) if one["id"] == "1.3")
    beta = RECORDED.rounds[0].distributions[2].beta  # the whole vocabulary's; lumping the rest would say more
    assert beta < sum(min(slot["p"], slot["q"]) for slot in recorded["slots"])
    expect(page.locator(".status")).to_contain_text(f"the draft model suggested {recorded['draft']}")
    expect(page.locator(".big")).to_have_text(f"{beta:.0%}")
    assert page.locator(".rules .foot").text_content().startswith("These rules need the probability of every token")
    page.locator("[role=slider][aria-label^='draft q of']").first.focus()
    page.keyboard.press("ArrowUp")
    expect(page.locator(".status")).to_contain_text("the rest of the vocabulary counts as one token")
    page.wait_for_url(lambda url: "p" in parameters(url))
    assert query(page)["from"] == "1.3"
    assert len(query(page)["p"].split("-")) == len(query(page)["q"].split("-")) == 8
    page.get_by_label("starting distributions").select_option("usual")
    assert bars(page, "p") == [0.4, 0.3, 0.2, 0.07, 0.03]


def test_tokens_can_be_added_and_taken_away(open_token):
    page = open_token()
    page.locator("summary", has_text="A real text").click()
    count = page.get_by_label("number of tokens")
    count.select_option("8")
    assert bars(page, "p") == [0.4, 0.3, 0.2, 0.07, 0.03, 0, 0, 0]
    count.select_option("5")
    assert bars(page, "p") == [0.4, 0.3, 0.2, 0.07, 0.03]


def test_the_maths_holds_the_numbers_of_the_bars(open_token):
    page = open_token()
    page.locator("summary", has_text="Show the maths").click()
    page.locator(".line1").first.wait_for()
    lines = "".join(page.locator(".line1").all_text_contents()).replace(" ", "")
    assert "=0.15+0.30+0.20+0.05+0.03=0.73" in lines
    assert "=0.15+0.25=0.40,andp=0.40" in lines
    fractions = page.locator(".line1 mfrac").evaluate_all(
        "all => all.map((one) => [...one.children].map((part) => part.textContent))"
    )
    assert ["0.40", "0.15"] in fractions and ["0.25", "0.27"] in fractions, "fractions are typeset"


@pytest.mark.parametrize("scheme", ("light", "dark"))
def test_no_width_scrolls_sideways(open_token, scheme):
    page = open_token({"p": "30-20-15-10-10-5-5-5", "q": "5-25-20-10-20-10-5-5"}, scheme=scheme)
    page.locator("details").evaluate_all("nodes => nodes.forEach((node) => { node.open = true; })")
    for width, height in SIZES.values():
        resize(page, width, height)
        page.wait_for_function("(width) => document.documentElement.scrollWidth <= width", arg=width)


def test_on_a_server_a_link_shows_the_same_bars_and_dragging_sends_nothing(page, server):
    sent = []
    page.on("websocket", lambda socket: socket.on("framesent", lambda frame: sent.append(frame)))
    page.goto(f"{server}/one_token?p=10-20-30-20-20&q=30-30-20-10-10")
    page.locator(".token .headline").wait_for()
    assert page.title() == "Why it is exact · specviz"
    expect(page.get_by_role("link", name="Next: Whole text")).to_be_visible()  # framed by app.py, even on a fresh server
    assert bars(page, "p") == [0.1, 0.2, 0.3, 0.2, 0.2]
    at_rest(page)
    before = len(sent)
    drag(page, "target p of “mat”", 40)
    page.keyboard.press("ArrowUp")
    shown = bars(page, "p"), bars(page, "q")
    page.wait_for_url(lambda url: parameters(url)["p"] == format_percents(shown[0]))
    assert len(sent) == before
    page.goto(page.url)
    page.locator(".token .headline").wait_for()
    assert (bars(page, "p"), bars(page, "q")) == shown
    assert page.mistakes == []


def test_an_option_that_only_says_what_stands_there_chooses_nothing(open_token):
    page = open_token()
    failed = []
    page.on("pageerror", lambda error: failed.append(error.message))
    choice = page.get_by_label("starting distributions")
    before = choice.input_value()
    for value in ("", "own"):
        choice.evaluate("(node, value) => { node.value = value; node.dispatchEvent(new Event('change')); }", value)
        assert choice.input_value() == before
    assert failed == []
