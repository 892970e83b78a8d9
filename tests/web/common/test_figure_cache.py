"""A kept picture is the one of the very record that is asked for."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from plotly.graph_objects import Figure

from specviz.web.common import figure_cache
from specviz.web.common.figure_cache import MAX_KEPT, draw_cached


def draw_picture(record, kind):
    return [list(record), kind]


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch):
    monkeypatch.setattr(figure_cache, "_kept", type(figure_cache._kept)())


def test_the_same_record_is_drawn_once():
    record = (1, 2)
    assert draw_cached(draw_picture, record, "light") is draw_cached(draw_picture, record, "light")


def test_another_palette_and_an_equal_record_are_drawn_for_themselves():
    record = (1, 2)
    first = draw_cached(draw_picture, record, "light")
    assert draw_cached(draw_picture, record, "dark") == [[1, 2], "dark"]
    assert draw_cached(draw_picture, tuple([1, 2]), "light") is not first


def test_a_record_that_is_gone_never_lends_its_picture_to_the_next_one():
    """Python gives the id of a record that is gone to another one: what is kept holds its record."""
    assert [draw_cached(draw_picture, [number], "light")[0] for number in range(MAX_KEPT // 2)] == [
        [number] for number in range(MAX_KEPT // 2)
    ]


def test_two_who_ask_at_the_same_moment_get_one_picture_that_was_drawn_once():
    drawing, go, record, times = threading.Event(), threading.Event(), (1, 2), []

    def draw_slowly(record):
        times.append(record)
        drawing.set()
        go.wait(10)
        return [record]

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(draw_cached, draw_slowly, record)
        drawing.wait(10)
        second = threads.submit(draw_cached, draw_slowly, record)
        go.set()
        assert first.result(10) is second.result(10) and times == [record]


def test_a_picture_that_could_not_be_drawn_is_tried_again():
    tried = []

    def fail_once(record):
        tried.append(record)
        if len(tried) == 1:
            raise ValueError("not yet")
        return record

    record = (1,)
    with pytest.raises(ValueError, match="not yet"):
        draw_cached(fail_once, record)
    assert draw_cached(fail_once, record) is record


def test_a_figure_that_is_kept_is_sent_as_any_other():
    record = (1.0, 2.0)

    def draw_line(record):
        return Figure().add_scatter(y=list(record), name="x")

    kept = draw_cached(draw_line, record)
    assert [kept.to_json() for _ in range(2)] == [draw_line(record).to_json()] * 2 and kept == draw_line(record)


def test_no_more_are_kept_than_fit_and_the_one_shown_longest_ago_goes():
    records = [(number,) for number in range(MAX_KEPT + 1)]
    first = draw_cached(draw_picture, records[0], "light")
    for record in records[1:-1]:
        draw_cached(draw_picture, record, "light")
    assert draw_cached(draw_picture, records[0], "light") is first
    draw_cached(draw_picture, records[-1], "light")
    assert len(figure_cache._kept) == MAX_KEPT and draw_cached(draw_picture, records[0], "light") is first
