"""Names beside the ends of lines: none covers another, and none stands further from its line than that needs."""

from __future__ import annotations

import plotly.graph_objects as go
import pytest

from specviz.web.speed.plan_figures import APART, add_line_names

TOP = 10.0
STEP = APART * TOP


def place_names(ends: dict[str, float]) -> dict[str, float]:
    figure = go.Figure()
    add_line_names(figure, ends, TOP, "light")
    return {note.text: note.y for note in figure.layout.annotations}


def test_names_with_room_stand_at_their_lines():
    ends = {"a": 1.0, "b": 5.0, "c": 9.0}
    assert place_names(ends) == pytest.approx(ends)


def test_names_of_lines_that_end_together_stand_around_their_end():
    assert place_names({"b": 5.0, "a": 5.0, "c": 5.0, "far": 9.0}) == pytest.approx(
        {"b": 5.0 - STEP, "a": 5.0, "c": 5.0 + STEP, "far": 9.0}
    )


def test_groups_that_would_run_into_each_other_become_one():
    """Two pairs at 5 and at 5.3: four names in steps of 0.6 around their mean, 5.15."""
    found = place_names({"a": 5.0, "b": 5.0, "c": 5.3, "d": 5.3})
    assert list(found.values()) == pytest.approx([5.15 + STEP * k for k in (-1.5, -0.5, 0.5, 1.5)])
