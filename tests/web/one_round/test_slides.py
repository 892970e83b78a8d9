"""Slides of a round: every step fits 16:9 with letters that are read from the back of a room, and the animation has them all."""

import io
import json
import re
from dataclasses import replace
from functools import cache, partial
from itertools import combinations

import pytest
from matplotlib.font_manager import findfont
from PIL import Image, ImageSequence

from specviz.export.matplotlib_adapter import use_print_settings
from specviz.export.package import Package, Picture
from specviz.figures.token_bars import BarPanel, plot_panels
from specviz.records import ASSETS
from specviz.settings import Settings
from specviz.trace import Trace
from specviz.web.one_round import slides
from specviz.web.one_round.export import build_round_package
from specviz.web.one_round.payload import build_round_payload
from specviz.web.one_round.words import build_steps

TRACE = Trace.from_json((ASSETS / "traces" / "opening.json").read_text(encoding="utf-8"))
PAYLOAD = build_round_payload(TRACE)
MOTIONS = [(round_, step) for round_, one in enumerate(PAYLOAD["rounds"]) for step in range(len(one["steps"]))]
KINDS = {PAYLOAD["rounds"][round_]["steps"][step]["kind"]: (round_, step) for round_, step in MOTIONS}  # the last of each


def list_texts(drawn):
    return [one for one in drawn.texts if one.get_text()]


@pytest.mark.fast_cases(8)
@pytest.mark.parametrize(
    ("round_", "step"),
    [one if one[0] == 0 or one in KINDS.values() else pytest.param(*one, marks=pytest.mark.slow) for one in MOTIONS],
)
def test_every_motion_fits_and_is_read_from_the_back_of_a_room(round_, step):
    """No word leaves the slide or lies on another, and the least letters have 24 pixels on a screen of 1920.

    The fast tests draw the first round and a motion of each kind.
    """
    drawn = slides.draw_slide(PAYLOAD, round_, step)
    drawn.draw_without_rendering()
    assert drawn.get_figwidth() / drawn.get_figheight() == pytest.approx(16 / 9, rel=1e-3)
    found = list_texts(drawn)
    assert min(one.get_fontsize() for one in found) / 72 * slides.SCREEN >= 24
    boxes = [one.get_window_extent() for one in found]
    assert all(one.x0 >= 0 and one.x1 <= drawn.bbox.x1 and one.y0 >= 0 and one.y1 <= drawn.bbox.y1 for one in boxes)
    for (one, a), (two, b) in combinations(zip([box.shrunk(0.95, 0.7) for box in boxes], found, strict=True), 2):
        assert not one.overlaps(two), f"{a.get_text()!r} lies on {b.get_text()!r}"


@pytest.mark.parametrize("kind", KINDS)
def test_a_slide_says_what_the_stage_says(kind):
    round_, step = KINDS[kind]
    said = " ".join(one.get_text() for one in list_texts(slides.draw_slide(PAYLOAD, round_, step)))
    assert PAYLOAD["rounds"][round_]["steps"][step]["sentence"] in said
    assert f"{step + 1} of {len(PAYLOAD['rounds'][round_]['steps'])}" in said


def test_a_long_text_a_long_token_and_markup_stay_within_the_slide_as_text():
    odd = json.loads(json.dumps(PAYLOAD))
    odd["prompt"] = "word " * 200
    odd["rounds"][0]["chips"][0]["glyphs"] = [{"t": "$x_1$<b>" * 20, "k": "text"}]
    odd["rounds"][0]["steps"][0]["sentence"] = "猫 $\\frac{1}{0}$ " * 12
    drawn = slides.draw_slide(odd, 0, 0)
    drawn.draw_without_rendering()
    boxes = [one.get_window_extent() for one in list_texts(drawn)]
    assert all(one.x0 >= 0 and one.x1 <= drawn.bbox.x1 for one in boxes)
    assert "$x_1$<b>" in " ".join(one.get_text() for one in list_texts(drawn))


def test_there_is_no_slide_of_a_motion_that_is_not_there():
    with pytest.raises(IndexError):
        slides.draw_slide(PAYLOAD, 0, 99)


def test_the_animation_has_a_frame_for_each_motion_and_stays_on_the_last_one(monkeypatch):
    """Of the first five motions of a round."""
    payload = PAYLOAD | {"rounds": [one | {"steps": one["steps"][:5]} for one in PAYLOAD["rounds"]]}
    draw_once = cache(partial(slides.draw_slide, PAYLOAD, 0))
    monkeypatch.setattr(slides, "draw_slide", lambda payload, round_, step: draw_once(step % 3))  # three pictures in turn
    content = slides.build_animation(payload, 0)
    with Image.open(io.BytesIO(content)) as read:
        times = [frame.info["duration"] for frame in ImageSequence.Iterator(read)]
        assert read.size == (960, 540)
        assert read.info["loop"] == 0
    assert len(times) == 5 < len(PAYLOAD["rounds"][0]["steps"])
    assert times[-1] > times[0] > 0
    assert content == slides.build_animation(payload, 0)


def test_the_export_offers_the_round_as_one_deck_with_a_page_for_each_step(monkeypatch):
    package = build_round_package(TRACE, 0, {}, {})
    assert [name for name in package.names if name.startswith("round-1") and name.endswith((".gif", "slides.pdf"))] == [
        "round-1-slides.pdf",
        "round-1.gif",
    ]
    assert len(package.names) <= 14, "a few files, not one a step"
    drawn, draw = [], slides.draw_slide
    monkeypatch.setattr(slides, "draw_slide", lambda payload, round_, step: drawn.append(step) or draw(payload, round_, 0))
    deck = package.build_file("round-1-slides.pdf")
    steps = len(build_steps(TRACE, TRACE.rounds[0]))
    assert drawn == list(range(steps)) and deck.count(b"/Type /Page\n") + deck.count(b"/Type /Page ") == steps


def test_the_print_font_is_the_one_of_the_pages():
    text = next(one for one in list_texts(slides.draw_slide(PAYLOAD, 0, 0)))
    with use_print_settings():
        assert text.get_fontfamily()[0] == "Inter" and "Inter" in findfont("Inter", fallback_to_default=False)


def test_the_slides_of_the_residual_have_the_stripes_and_hatches_that_their_sentence_names():
    step = next(i for i, one in enumerate(PAYLOAD["rounds"][0]["steps"]) if one["kind"] == "residual")
    assert "striped" in PAYLOAD["rounds"][0]["steps"][step]["sentence"]
    hatches = {patch.get_hatch() for patch in slides.draw_slide(PAYLOAD, 0, step).artists if hasattr(patch, "get_hatch")}
    assert {"//", "\\\\"} <= hatches


def test_a_figure_is_a_slide_of_the_same_size():
    bars = dict(zip(("p", "q"), ((0.6, 0.1), (0.2, 0.3)), strict=True))
    one = Picture(partial(plot_panels, (BarPanel("first draft token", ("a", "b"), bars),)))
    package = Package("one", "One", {}, {}, {"bars": one}, (), {})
    with Image.open(io.BytesIO(package.build_file("bars-slide.png"))) as read:
        assert read.size == (1920, 1080)


def test_a_round_without_a_draft_has_slides_too():
    first = TRACE.rounds[0]
    alone = replace(
        TRACE,
        rounds=(replace(first, proposals=(), distributions=(), accepted_path=(), ending=replace(first.ending, kind="bonus")),),
    )
    payload = build_round_payload(alone)
    for step in range(len(payload["rounds"][0]["steps"])):
        slides.draw_slide(payload, 0, step).draw_without_rendering()


def test_the_page_that_steps_offline_holds_all_it_needs():
    from specviz.web.one_round.export import build_step_page

    page = build_step_page(TRACE, 1).decode()
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)[1]
    assert "default-src &#x27;none&#x27;" in policy
    assert not re.search(r'(?:src|href)="(?!data:|#)', page)
    assert 'url("data:font/woff2;base64,' in page
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])
    assert data["data"]["payload"]["id"] == TRACE.compute_digest()
    assert data["data"]["cursor"] == {"round": 1, "step": 0}
    assert data["own"]["prompt"] == Settings.from_record(TRACE.settings).prompt


def test_a_replacement_stands_in_the_place_of_the_rejected_token_and_the_result_has_no_unchecked_one():
    """The chips from left to right, at the draw and at the end of each round that was replaced in."""
    checked = 0
    for number, one in enumerate(PAYLOAD["rounds"]):
        rejected = next((i for i, chip in enumerate(one["chips"]) if chip["status"] == "rejected"), None)
        if rejected is None or one["ending"]["kind"] != "residual":
            continue
        for at, step in enumerate(one["steps"]):
            chips = slides._Slide(PAYLOAD, number, one, step, at).list_chips()
            if step["kind"] == "draw":
                assert chips[rejected][2] == "residual" and len(chips) == len(one["chips"])
            if step["kind"] == "tally":
                assert [status for *_, status, _ in chips] == ["accepted"] * rejected + ["residual"]
                checked += 1
    assert checked > 2


@pytest.mark.parametrize(
    ("kind", "words"), [("lift", {"overlap", "missing", "rejected"}), ("residual", {"accepted", "replaced", "rejected"})]
)
def test_the_legend_of_a_slide_has_the_words_of_its_sentence(kind, words):
    step = next(i for i, one in enumerate(PAYLOAD["rounds"][0]["steps"]) if one["kind"] == kind)
    shown = {one.get_text() for one in list_texts(slides.draw_slide(PAYLOAD, 0, step))}
    assert words <= shown and "shared" not in shown
