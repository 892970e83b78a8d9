"""Is it exact?: links and bad input become sentences, samples add up over clicks, tests follow their plan, pictures say what is so.

Samples are fixed by their seeds; a right decoder is rejected with probability 0.001 over seeds, and the seeds here are the first tried.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from specviz.errors import SettingsError
from specviz.figures.common.labels import REST
from specviz.figures.common.theme import PERCENT
from specviz.figures.exactness import evidence
from specviz.figures.exactness.evidence import CellShares
from specviz.figures.exactness.samples import ExactnessResult
from specviz.settings import Settings
from specviz.web.common import cache
from specviz.web.common.controls import from_fields
from specviz.web.common.queue import Queue
from specviz.web.exactness import words, work
from specviz.web.exactness.state import Question, another
from tests.pages import BASE, first_paint, on_tiny_pair, settle
from tests.pages import exact_exam as exam

# first paint, links, bad input


def test_the_first_paint_needs_no_torch_and_a_damaged_link_says_so():
    seen = first_paint("exactness", {"length": "9", "source": "nobody", "uniforms": "0=0.5", "prompt": "a $x$ :red[b]"})
    assert (seen["errors"], seen["heavy"], seen["prompt"]) == (0, [], "a $x$ :red[b]")
    assert {"1 sample", "100", "10,000", "A million"} <= set(seen["buttons"])
    said = "\n".join(seen["text"])
    for part in ("length was left out: it must be from 1 to 4 on this page, got 9", "got 'nobody'", "not a random sample"):
        assert part in said


def test_a_link_leads_to_the_question_it_was_made_from():
    question = Question(replace(BASE, length=3, temperature=0.7, top_k=5), "target")
    assert Question.of_link(question.link(), Settings()) == (question, [])


def test_an_edited_run_cannot_come_in():
    edited = BASE.with_uniform(0, "accept", 0.9)
    with pytest.raises(SettingsError, match="not a random sample"):
        Question(replace(edited, length=2))
    question, said = Question.of_link({}, edited)
    assert (question.settings.edited, "not a random sample" in said[0]) == (False, True)
    assert Question.of_link({"uniforms": "0=0.5"}, BASE)[0].settings.uniforms == {}


@pytest.mark.parametrize(
    ("raw", "sentence"),
    (
        ({"length": 9, "source": "speculative"}, "length must be a whole number from 1 to 4 on this page, got 9."),
        ({"length": 2, "source": "magic"}, "source must be one of speculative, target, assisted, file, server, got 'magic'."),
        ({"length": 2, "source": "assisted", "gamma": 0}, "gamma must be at least 1 for assisted generation, got 0."),
        ({"length": 2, "source": "target", "temperature": "-1"}, "temperature must be a number from 0 (greedy) to 5, got -1.0."),
    ),
)
def test_fields_that_cannot_be_used_leave_the_question_as_it_is(raw, sentence):
    question = exam().question
    assert another(question, raw, from_fields) == (question, [sentence])


@pytest.mark.parametrize("count", (0, -5, True, 2.5, "many", None, "", "1e3", "²"))
def test_a_number_of_samples_that_cannot_be_drawn_gets_a_sentence(count):
    asked = exam()
    asked.ask(count, work.draw)
    assert asked.said == [f"samples must be a whole number from 1 to 1,000,000, got {count!r}."]
    assert (asked.ticket, asked.result) == (None, ExactnessResult())


def test_numbers_are_read_as_people_write_them():
    counts: list[int] = []
    for text in ("2,500", " 10 000 ", "7"):
        asked = exam()
        asked.ask(text, lambda exam, ticket, count: counts.append(count))
        assert asked.ticket.ended.wait(10)
    assert counts == [2500, 10000, 7]


# pictures


def some(n: int = 100, counts=(60, 30, 10)) -> CellShares:
    return CellShares("Speculative decoding", ("·a", "·<b>$x$ …", REST), (True, False, False), (0.5, 0.3, 0.2), counts,
                   (0.35, 0.2, 0.05), (0.65, 0.42, 0.35), n)  # fmt: skip


def test_the_picture_holds_the_numbers_and_shows_labels_as_text():
    one = some()
    figure = evidence.cell_bars(one, evidence.axis_end(one))
    band, bars, marks = figure.data
    assert (list(bars.x), list(marks.x), list(band.base)) == ([0.6, 0.3, 0.1], [0.5, 0.3, 0.2], [0.35, 0.2, 0.05])
    assert list(np.add(band.base, band.x)) == pytest.approx([0.65, 0.42, 0.35])
    assert figure.layout.yaxis.ticktext == ("·a", "·&lt;b&gt;&#36;x&#36; …", "any other text")
    assert figure.layout.xaxis.title.text == "share of all samples"
    assert figure.layout.xaxis.tickformat == PERCENT == ".4~%", "of a flat distribution no two ticks read the same"
    assert [row["samples"] for row in one.table] == [60, 30, 10]


def test_a_pooled_bar_that_would_dwarf_the_others_is_left_to_the_table():
    probs = (0.5, 0.2, 0.1, 0.08, 0.07, 0.05)
    labels, fixed = ("·a …", REST, "·b", "·c", "·d", "·e"), ((0,) * 6, (0.0,) * 6, (1.0,) * 6, 0)
    one = CellShares("a", labels, (False, False, True, True, True, True), probs, *fixed)
    assert (one.bars, one.hidden) == ((2, 3, 4, 5), (0, 1))
    assert "2 pooled bars hold 70% of the probability" in words.bars_sentence(ExactnessResult((one, one)))
    assert replace(one, whole=(True,) * 6).bars == (0, 2, 3, 4, 5), "one single text is always shown"


def test_the_words_for_who_cannot_see_it_say_what_is_so():
    assert "All 3 bars lie within sampling noise" in some().conclusion
    alone = CellShares("a", (REST,), (False,), (1.0,), (10,), (1.0,), (1.0,), 10)
    assert alone.conclusion == "a: 10 samples. The one bar lies within sampling noise of the exact distribution."
    off = some(counts=(70, 20, 10))
    assert off.outside == ("·a",) and "1 of 3 bars lies outside" in off.conclusion
    arms = ExactnessResult((off, some()))
    assert "Here some bars are outside (1 of “Speculative decoding”). The verdict comes from the tests" in words.bars_sentence(
        arms
    )
    assert "no samples yet" in some(0, (0, 0, 0)).conclusion
    assert len(evidence.cell_bars(some(0, (0, 0, 0)), 1.0).data) == 1


def test_the_command_repeats_the_question():
    one = exam(length=3, prompt="a 'b'", temperature=0.5)
    assert words.command(one) == (
        "python -m specviz verify --pair storybook '--prompt=a '\"'\"'b'\"'\"'' --decoder speculative --seed 7 --length 3 --samples 10000 "
        "--gamma 2 --temperature 0.5"
    )


# the page itself


@pytest.fixture
def app(pair_folders, monkeypatch):
    yield on_tiny_pair("exactness", pair_folders, monkeypatch)
    cache.weights.clear()


def test_a_click_samples_and_the_page_says_what_it_could_have_detected(app):
    assert not app.exception
    assert len(app.get("plotly_chart")) == 2
    settle(app.button(key="exactness-draw-100").click().run(), "exactness")
    assert not app.exception
    seen = [one.value for one in app.markdown]
    assert any("100 samples, no difference seen" in one for one in seen), seen
    alts = [chart.proto.alt for chart in app.get("plotly_chart")]
    assert all("100 samples" in alt for alt in alts)
    app.text_input(key="exactness-count-0").set_value("0").run()
    app.button(key="exactness-count-go").click().run()
    assert "samples must be a whole number from 1 to 1,000,000, got '0'." in [one.value for one in app.text]
    assert "100 samples so far" in [one.value for one in app.caption], "what was drawn stays"


def test_another_question_begins_anew_and_stands_in_the_address(app):
    settle(app.button(key="exactness-draw-100").click().run(), "exactness")
    app.selectbox(key="exactness-length-0").set_value(1).run()
    settle(app, "exactness")
    assert (app.session_state["exactness"].result.n, app.query_params["length"]) == (0, "1")
    app.text_input(key="exactness-temperature-0").set_value("-1").run()
    assert any("temperature must be a number" in one.value for one in app.text)
    assert app.session_state["exactness"].question.settings.temperature == 1.0


def test_work_that_waits_shows_its_place_and_a_button_to_leave():
    queue = Queue(places=1)
    first, second = exam(), exam()
    first.queue = second.queue = queue
    blocker = queue.submit(lambda ticket: [(time.sleep(0.01), ticket.tick()) for _ in range(500)])
    while blocker.state != "working":
        time.sleep(0.01)
    first.submit(work.many_seeds), second.submit(work.many_seeds)
    assert second.progress() == "Waiting for one of 1 places, 1 ahead …"
    first.stop(), second.stop(), blocker.cancel()
