"""The wall's pictures show what their records say, in order and at scale, and nothing that a model or a teacher wrote is markup."""

from __future__ import annotations

import re

import numpy as np
import pytest

from specviz.classroom.tally import Calibration, Choice, Votes
from specviz.figures import classroom as figures
from specviz.figures.exactness.evidence import CellShares, axis_end

MARKUP = '<img src=x onerror="alert(1)"> & "so"'


def shares(n: int = 200, cells: int = 20) -> CellShares:
    masses = np.arange(cells, 0, -1.0)
    counts = (n * masses / masses.sum()).astype(int).tolist()
    return CellShares.of("the class", [f"cell {place}" for place in range(cells)], [True] * cells, masses, counts, n)


def parts(html: str, name: str) -> list[tuple[float, ...]]:
    """Left and width, in percent of the axis, of every mark of this kind."""
    found = re.findall(rf'<i class="{name}" style="([^"]+)"', html)
    return [tuple(float(value) for value in re.findall(r":(-?[\d.]+)%", style)) for style in found]


def test_a_histogram_has_the_heaviest_cells_at_the_scale_of_its_axis():
    one = shares()
    html, end = figures.histogram(one), axis_end(one.heaviest(figures.CELLS))
    names = re.findall(r'class="name">([^<]+)<', html)
    assert names == [f"cell {place}" for place in range(figures.CELLS)]
    assert [width for _, width in parts(html, "share")] == pytest.approx(
        [100 * one.shares[place] / end for place in range(figures.CELLS)], abs=0.01
    )
    assert [left for (left,) in parts(html, "exact")] == pytest.approx(
        [100 * one.probs[place] / end for place in range(figures.CELLS)], abs=0.01
    )
    low, width = parts(html, "band")[0]
    assert (low, low + width) == pytest.approx((100 * one.low[0] / end, 100 * min(1.0, one.high[0] / end)), abs=0.02)
    ticks = [(float(left), float(value) / 100) for left, value in re.findall(r'<i style="left:([\d.]+)%">([\d.]+)%</i>', html)]
    assert len(ticks) >= 3 and all(left == pytest.approx(100 * value / end, abs=0.02) for left, value in ticks)
    assert "band" not in figures.histogram(shares(0)).replace('<i class="band"></i>', ""), "no noise before the first sample"


def test_the_class_s_predictions_stand_where_they_were_said_and_outcomes_need_enough_of_them():
    found = Calibration(7, 0.3, 0.8, 0.5, 0.2, 0.16, ((0.25, 6, 0.5), (0.95, 1, 1.0)), (*[(0.26, 0.8)] * 6, (0.93, 0.8)))
    html = figures.calibration(found)
    dots = parts(html, "said")
    assert dots == [(25.0, 80.0), (95.0, 80.0)] and parts(html, "came") == [(25.0, 50.0)]
    sizes = [float(size) for size in re.findall(r"--size:([\d.]+)", html)]
    assert sizes[0] == figures.DOTS and sizes[0] ** 2 / sizes[1] ** 2 == pytest.approx(6, rel=0.02), "areas are as the numbers"


def test_votes_and_races_show_every_count_and_mark_the_right_answer():
    options = [{"name": "no mistake"}, {"name": MARKUP}]
    html = figures.votes(options, Votes((3, 1), (0, 4), 3), 1)
    assert [width for _, width in parts(html, "before upper")] == pytest.approx([300 / 4.48, 100 / 4.48], abs=0.01)
    assert [width for _, width in parts(html, "after lower")] == pytest.approx([0, 400 / 4.48], abs=0.01)
    assert html.count("✓") == 1 and "no mistake: 3 before, 0 after" in html
    rows = [Choice("draft", 4, 2, 48, 16, 60, 30), Choice("ngram", 1, 1, 24, 24, 24, 0)]
    html = figures.race(rows)
    assert re.findall(r"<b [^>]*>([^<]+)</b>", html) == ["3.00 · 2 students", "1.00"]
    assert parts(html, "share")[1][1] == parts(html, "exact")[1][0], "one token for each pass is what no drafting gives"


def test_no_text_of_a_model_is_markup():
    content = {"token": MARKUP, "bars": [{"token": MARKUP, "p": 0.5, "q": 0.25}]}
    one = shares(10, 3)
    labeled = CellShares.of(MARKUP, [MARKUP] * 3, [True] * 3, np.array(one.probs), one.counts, one.n)
    drawn = [figures.situation(content), figures.histogram(labeled), figures.votes([{"name": MARKUP}], Votes((1,), (1,), 0), 0)]
    assert not any("<img" in html for html in drawn) and all("&lt;img" in html for html in drawn)
    assert parts(drawn[0], "draft upper") == [(0.0, 50.0)] and parts(drawn[0], "target lower") == [(0.0, 100.0)]
