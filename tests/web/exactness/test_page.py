"""Exactness test: links and bad input become sentences, samples add up over clicks, tests follow their plan, pictures say what is so.

Samples are fixed by their seeds; a right decoder is rejected with probability 0.001 over seeds, and the seeds here are the first tried.
"""

from __future__ import annotations

import json
import re
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from specviz.errors import SettingsError
from specviz.evidence.testing import results
from specviz.evidence.testing.results import REST, CellShares, ExactnessResult
from specviz.figures import cell_shares
from specviz.figures.theme import PERCENT
from specviz.jobs.queue import FairQueue
from specviz.settings import Settings
from specviz.web.common.controls import read_fields
from specviz.web.common.side_by_side.payload import build_frames
from specviz.web.common.side_by_side.state import load_recorded_samples
from specviz.web.common.side_by_side.words import describe_excess, describe_power, write_plain_labels
from specviz.web.exactness import words, work
from specviz.web.exactness.state import ExactnessQuestion, ExactnessState, read_question
from specviz.web.hosting import cache
from tests.helpers.pages import BASE, draw_first_paint, open_on_tiny_pair, run_first, settle
from tests.helpers.pages import build_exactness_state as exam

# first paint, links, bad input


def test_the_first_paint_needs_no_torch_and_a_damaged_link_says_so():
    seen = draw_first_paint(
        "exactness", {"max_new_tokens": "9", "source": "nobody", "uniforms": "0=0.5", "prompt": "a $x$ :red[b]"}
    )
    assert (seen["errors"], seen["heavy"], seen["prompt"]) == (0, [], "a $x$ :red[b]")
    assert {"Draw 100 samples", "Draw 10,000 samples", "Sample a million"} <= set(seen["buttons"])
    said = "\n".join(seen["text"])
    for part in (
        "number of new tokens was left out: it must be a whole number from 1 to 4 on this page, got 9",
        "got 'nobody'",
        "not a random sample",
    ):
        assert part in said


def test_a_link_leads_to_the_question_it_was_made_from():
    question = ExactnessQuestion(replace(BASE, max_new_tokens=3, temperature=0.7, top_k=5), "target")
    assert ExactnessQuestion.from_link(question.build_link(), Settings()) == (question, [])


def test_an_edited_run_cannot_come_in():
    edited = BASE.with_uniform(0, "accept", 0.9)
    with pytest.raises(SettingsError, match="not a random sample"):
        ExactnessQuestion(replace(edited, max_new_tokens=2))
    question, said = ExactnessQuestion.from_link({}, edited)
    assert (question.settings.is_edited, "not a random sample" in said[0]) == (False, True)
    assert ExactnessQuestion.from_link({"uniforms": "0=0.5"}, BASE)[0].settings.uniforms == {}


@pytest.mark.parametrize(
    ("raw", "sentence"),
    (
        (
            {"max_new_tokens": 9, "source": "speculative"},
            "The number of new tokens must be a whole number from 1 to 4 on this page, got 9.",
        ),
        (
            {"max_new_tokens": 2, "source": "magic"},
            "The decoder to test must be one of speculative, target, assisted, file, server, got 'magic'.",
        ),
        (
            {"max_new_tokens": 2, "source": "assisted", "gamma": 0},
            "The number of draft tokens per round must be at least 1 for assisted generation, got 0.",
        ),
        (
            {"max_new_tokens": 2, "source": "target", "temperature": "-1"},
            "The temperature must be a number from 0 (greedy) to 5, got -1.0.",
        ),
    ),
)
def test_fields_that_cannot_be_used_leave_the_question_as_it_is(raw, sentence):
    question = exam().question
    assert read_question(question, raw, read_fields) == (question, [sentence])


@pytest.mark.parametrize("count", (0, -5, True, 2.5, "many", None, "", "1e3", "²"))
def test_a_number_of_samples_that_cannot_be_drawn_gets_a_sentence(count):
    asked = exam()
    asked.request_samples(count, work.draw_samples)
    got = "nothing" if count in (None, "") else repr(count)
    assert asked.notes == [f"The number of samples must be a whole number from 1 to 1,000,000, got {got}."]
    assert (asked.ticket, asked.result) == (None, ExactnessResult())


def test_numbers_are_read_as_people_write_them():
    counts: list[int] = []
    for text in ("2,500", " 10 000 ", "7"):
        asked = exam()
        asked.request_samples(text, lambda exam, ticket, count: counts.append(count))
        assert asked.ticket.ended.wait(10)
    assert counts == [2500, 10000, 7]


def test_samples_go_on_where_the_recorded_ones_end():
    counts: list[int] = []
    asked = ExactnessState(ExactnessQuestion(load_recorded_samples().exactness.settings))
    asked.request_samples(100, lambda exam, ticket, count: counts.append(count))
    assert asked.ticket.ended.wait(10)
    assert counts == [asked.load_recorded().result.n + 100]


# pictures


def build_three_cells(n: int = 100, counts=(60, 30, 10)) -> CellShares:
    return CellShares("Speculative decoding", ("·a", "·<b>$x$ …", REST), (True, False, False), (0.5, 0.3, 0.2), counts,
                   (0.35, 0.2, 0.05), (0.65, 0.42, 0.35), n)  # fmt: skip


def test_the_picture_holds_the_numbers_and_shows_labels_as_text():
    one = build_three_cells()
    figure = cell_shares.plot_cells(one, cell_shares.compute_rows_end(one))
    bars, band, marks = figure.data
    assert (list(bars.x), list(marks.x), list(band.base)) == ([0.6, 0.3, 0.1], [0.5, 0.3, 0.2], [0.35, 0.2, 0.05])
    assert list(np.add(band.base, band.x)) == pytest.approx([0.65, 0.42, 0.35])
    assert figure.layout.yaxis.ticktext == ("·a", "·&lt;b&gt;&#36;x&#36; …", "any other text")
    assert figure.layout.xaxis.title.text == "share of all samples"
    assert figure.layout.xaxis.tickformat == PERCENT == ".4~%", "of a flat distribution no two ticks read the same"
    assert [row["samples"] for row in one.table] == [60, 30, 10]


def build_thirteen_cells(rest: float, n: int = 1000) -> CellShares:
    """Twelve cells with names, each lighter than the one before, and all other texts with probability ``rest``."""
    weights = np.array([*range(12, 0, -1)], dtype=float)
    probs = (*(weights / weights.sum() * (1.0 - rest)).tolist(), rest)
    counts = tuple(round(n * p) for p in probs)
    labels = (*(f"·{letter}" for letter in "abcdefghijkl"), REST)
    return CellShares("a", labels, (True,) * 12 + (False,), probs, counts, (0.0,) * 13, (1.0,) * 13, sum(counts))


def test_the_picture_has_the_heaviest_cells_and_all_others_in_one_bar():
    one = build_thirteen_cells(0.2)
    shown = one.rows
    assert shown.labels == (*one.labels[: results.ROWS], REST) and one.undrawn_mass == 0.0
    assert sum(shown.probs) == pytest.approx(1.0) and sum(shown.counts) == one.n, "nothing is lost"
    assert shown.low[-1] < shown.probs[-1] < shown.high[-1] and shown.high[-1] - shown.low[-1] < 0.2
    assert max(len(trace.x) for trace in cell_shares.plot_cells(one, cell_shares.compute_rows_end(one)).data) == results.ROWS + 1


def test_a_bar_of_all_others_that_would_dwarf_the_rest_is_left_out_and_the_page_says_so():
    one = build_thirteen_cells(0.7)
    assert REST not in one.rows.labels and one.undrawn_mass == pytest.approx(0.7 + 0.3 * 10 / 78)
    assert f"Not drawn: all other texts together, {one.undrawn_mass:.0%}." in words.describe_undrawn(ExactnessResult((one, one)))
    assert words.describe_undrawn(ExactnessResult((build_thirteen_cells(0.2), build_thirteen_cells(0.2)))) == ""


def test_marks_of_neighbors_never_touch():
    figure = cell_shares.plot_cells(build_thirteen_cells(0.2), 1.0)
    (marks,) = [trace for trace in figure.data if trace.name == "exact distribution"]
    assert marks.marker.size < figure.layout.height / len(marks.y) * 0.6


def test_the_answer_counts_texts_and_the_distance_stands_in_the_fold():
    one = ExactnessState(ExactnessQuestion(load_recorded_samples().exactness.settings))
    found = one.shown_result.looks[-1][0]
    assert words.build_verdict(one).details.endswith(
        f"This tests only these tokens, after this one prompt. {describe_power(found.detectable_tv, found.cells)}"
    )
    assert (
        words.describe_more(one, 10_000)
        == "10,000 more samples narrow the blue by 4.7%. The next test comes at 1,000,000 samples."
    )
    more = words.describe_limits(one)
    assert f"a total variation distance of {found.detectable_tv:.2g}, on the {found.cells} cells" in more
    assert "This changes no sample." in more and "identical" not in more


def test_the_smallest_bug_that_is_caught_is_a_percentage_of_texts_with_two_digits():
    shares = {0.34: "34%", 0.098: "9.8%", 0.013: "1.3%", 0.0052: "0.52%", 1.0: "100%"}
    for share, percent in shares.items():
        assert describe_power(share).startswith(f"A bug that moves {percent} of the samples between the groups of texts tested")


def test_what_many_runs_say_waits_for_all_of_them():
    whole = load_recorded_samples().exactness.result.p_values
    part = replace(whole, values=whole.values[:40])
    off = replace(whole, values=(0.01,) * len(whole.values))
    said = [words.build_seed_verdict(one) for one in (part, whole, off)]
    assert [one.mark for one in said] == ["waiting", "consistent", "rejected"]
    drawn = build_frames((whole.shares,), pooled=False)
    assert len(drawn["labels"]) == 10
    assert said[0].words == "40 of 200 runs so far." and "As even" in said[1].words and "Not" in said[2].words


def test_what_a_server_is_asked_is_said_before_it_is_asked():
    said = words.describe_server_test(replace(BASE, max_new_tokens=2))
    assert (
        "2,000 times to continue the text, by 2 tokens each, 8 requests at a time: about 25 s if an answer takes 0.1 s." in said
    )


def test_the_words_for_who_cannot_see_it_say_what_is_so():
    assert "All 3 bars lie within sampling noise" in build_three_cells().conclusion
    alone = CellShares("a", (REST,), (False,), (1.0,), (10,), (1.0,), (1.0,), 10)
    assert alone.conclusion == "a: 10 samples. The one bar lies within sampling noise of the exact distribution."
    off = build_three_cells(counts=(70, 20, 10))
    assert off.outliers == ("·a",) and "1 of 3 bars lies beyond sampling noise" in off.conclusion
    assert describe_excess(off) == "“a” came 70 times in 100, not 50"
    assert describe_excess(build_three_cells(counts=(55, 1, 44))).startswith("“<b>$x$ …” came once in 100, not ")
    assert describe_excess(build_three_cells(counts=(80, 10, 10))) == "“a” came 80 times in 100, not 50", "the farthest of two"
    assert describe_excess(build_three_cells()) == "", "no dot is outside the blue"
    (diamonds,) = [trace for trace in cell_shares.plot_cells(off, 1.0).data if trace.name == results.BEYOND]
    assert (list(diamonds.x), list(diamonds.y)) == ([0.7], [2])
    assert "no samples yet" in build_three_cells(0, (0, 0, 0)).conclusion
    assert len(cell_shares.plot_cells(build_three_cells(0, (0, 0, 0)), 1.0).data) == 1


def test_names_of_cells_have_plain_spaces_unless_two_would_be_the_same():
    assert write_plain_labels(("·woman·who", "·a …")) == ["woman who", "a …"]
    assert write_plain_labels(("·a", "a", "b")) == ["·a", "a", "b"] and write_plain_labels(("·", "a")) == ["·", "a"]


def test_the_command_repeats_the_question():
    one = exam(length=3, prompt="a 'b'", temperature=0.5)
    assert words.build_command(one) == (
        "python -m specviz verify --pair storybook '--prompt=a '\"'\"'b'\"'\"'' --decoder speculative --seed 7 --max-new-tokens 3 --samples 10000 "
        "--gamma 2 --temperature 0.5"
    )


# the page itself


@pytest.fixture
def app(pair_folders, monkeypatch):
    yield open_on_tiny_pair("exactness", pair_folders, monkeypatch)
    cache.load_weights.cache_clear()


def list_histograms(app) -> list[dict]:
    given = [json.loads(one.proto.mixed.json or one.proto.json) for one in app.get("bidi_component")]
    return [one["payload"] for one in given if "payload" in one]


def test_a_click_samples_and_the_page_says_what_it_could_have_detected(app):
    assert not app.exception
    (empty,) = list_histograms(app)
    assert (empty["answer"]["mark"], "control" in empty) == ("waiting", False)
    settle(app.button(key="exactness-draw-100").click().run(), "exactness")
    assert not app.exception
    (decoder,) = list_histograms(app)
    assert decoder["answer"]["words"] == "No difference seen, but 100 samples can show only a large one."
    assert decoder["conclusion"].count("100 samples") == 2, "of the decoder and of the control"
    assert decoder["frames"][-1]["n"] == decoder["control"]["n"] == 100
    app.text_input(key="exactness-count-0").set_value("0").run()
    app.button(key="exactness-count-go").click().run()
    assert "The number of samples must be a whole number from 1 to 1,000,000, got '0'." in [one.value for one in app.text]
    assert list_histograms(app)[0]["frames"][-1]["n"] == 100, "what was drawn stays"
    assert any(re.search(r"tokens per sample, seed \d+\b", one.value) for one in app.caption), "under settings in sight"
    assert "exactness-recorded" not in [one.key for one in app.button], "nothing is recorded for this text"


def test_while_the_exact_distribution_is_computed_no_button_takes_a_click(pair_folders, monkeypatch):
    """The work that the page begins by itself is the only work: a click beside it would be lost."""
    prepare, may_end = work.prepare_session, threading.Event()
    monkeypatch.setattr(work, "prepare_session", lambda state, ticket: (may_end.wait(), prepare(state, ticket)))
    app = run_first("exactness", pair_folders, monkeypatch)
    draws = ("exactness-draw-100", "exactness-draw-10000", "exactness-draw-1000000", "exactness-count-go")
    busy = [app.button(key=name).disabled for name in draws]
    may_end.set()
    settle(app, "exactness")
    cache.load_weights.cache_clear()
    assert (busy, [app.button(key=name).disabled for name in draws]) == ([True] * 4, [False] * 4)


def test_another_question_begins_anew_and_stands_in_the_address(app):
    settle(app.button(key="exactness-draw-100").click().run(), "exactness")
    app.selectbox(key="exactness-max_new_tokens-0").set_value(1).run()
    settle(app, "exactness")
    assert (app.session_state["exactness"].result.n, app.query_params["max_new_tokens"]) == (0, "1")
    app.text_input(key="exactness-temperature-0").set_value("-1").run()
    assert any("The temperature must be a number" in one.value for one in app.text)
    assert app.session_state["exactness"].question.settings.temperature == 1.0


def test_work_that_waits_shows_its_place_and_a_button_to_leave():
    queue = FairQueue(places=1)
    first, second = exam(), exam()
    first.queue = second.queue = queue
    blocker = queue.submit(lambda ticket: [(time.sleep(0.01), ticket.tick()) for _ in range(500)])
    while blocker.state != "working":
        time.sleep(0.01)
    first.submit(work.run_many_seeds), second.submit(work.run_many_seeds)
    assert second.describe_progress() == "Waiting for one of 1 places, 1 ahead …"
    first.stop(), second.stop(), blocker.cancel()
