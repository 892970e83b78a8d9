"""The wall's pictures show what their records say, in order and at scale, and nothing that a model or a teacher wrote is markup."""

from __future__ import annotations

import re

import numpy as np
import pytest

from specviz.evidence.testing.results import CellShares
from specviz.figures.cell_shares import compute_axis_end
from specviz.web.classroom.room import figures, wall
from specviz.web.classroom.room.records import RACE_METHODS, Assignment
from specviz.web.classroom.room.results import ClassSamplesResult, PredictionResult, RaceResult, VoteResult
from specviz.web.classroom.room.tally import Calibration, ClassSamples, Race, RaceChoice, Votes

MARKUP = '<img src=x onerror="alert(1)"> & "so"'


def build_shares(n: int = 200, cells: int = 20) -> CellShares:
    masses = np.arange(cells, 0, -1.0)
    counts = (n * masses / masses.sum()).astype(int).tolist()
    return CellShares.from_counts("the class", [f"cell {place}" for place in range(cells)], [True] * cells, masses, counts, n)


def list_marks(html: str, name: str) -> list[tuple[float, ...]]:
    """Left and width, in percent of the axis, of every mark of this kind."""
    found = re.findall(rf'<i class="{name}" style="([^"]+)"', html)
    return [tuple(float(value) for value in re.findall(r":(-?[\d.]+)%", style)) for style in found]


def test_a_histogram_has_the_heaviest_cells_at_the_scale_of_its_axis():
    one = build_shares()
    html, end = wall.draw_histogram(one), compute_axis_end(one)
    names = re.findall(r'class="name">([^<]+)<', html)
    assert names == [f"cell {place}" for place in range(wall.MAX_CELLS)]
    assert [width for _, width in list_marks(html, "share")] == pytest.approx(
        [100 * one.shares[place] / end for place in range(wall.MAX_CELLS)], abs=0.01
    )
    assert [left for (left,) in list_marks(html, "exact")] == pytest.approx(
        [100 * one.probs[place] / end for place in range(wall.MAX_CELLS)], abs=0.01
    )
    low, width = list_marks(html, "band")[0]
    assert (low, low + width) == pytest.approx((100 * one.low[0] / end, 100 * min(1.0, one.high[0] / end)), abs=0.02)
    ticks = [(float(left), float(value) / 100) for left, value in re.findall(r'<i style="left:([\d.]+)%">([\d.]+)%</i>', html)]
    assert len(ticks) >= 3 and all(left == pytest.approx(100 * value / end, abs=0.02) for left, value in ticks)
    assert "band" not in wall.draw_histogram(build_shares(0)).replace('<i class="band"></i>', ""), (
        "no noise before the first sample"
    )


def test_a_text_that_a_mistake_makes_frequent_has_a_row_within_the_axis_and_the_rest_is_a_line():
    one = build_shares()
    counts = [0] * 19 + [one.n]  # the rarest text is all that this decoder writes
    wrong = CellShares.from_counts("the decoder", one.labels, one.is_whole_text, np.array(one.probs), counts, one.n)
    html = wall.draw_histogram(wrong)
    names, bars = re.findall(r'class="name">([^<]+)<', html), list_marks(html, "share")
    assert names[-1] == "cell 19" and len(names) == wall.MAX_CELLS and 90 < bars[-1][1] < 100
    rest = [place for place in range(20) if f"cell {place}" not in names]
    assert f"All other texts together: 0.0% of the samples, exact {sum(one.probs[place] for place in rest):.1%}." in html
    assert wall.describe_bars(one) == list(range(wall.MAX_CELLS)), "without a mistake the most likely texts, in their order"


def test_charts_for_print_have_the_numbers_of_the_wall():
    found = Calibration(7, 0.3, 0.8, 0.5, 0.2, 0.41, 0.16, ((0.25, 6, 0.5), (0.95, 1, 1.0)), (*[(0.26, 0.8)] * 6, (0.93, 0.8)))
    line, *dots, came = figures.plot_calibration(found).data
    assert [(*dot.x, *dot.y) for dot in dots] == [(0.25, 0.8), (0.95, 0.8)] and (came.x, came.y) == ((0.25,), (0.5,))
    assert line.x == line.y and (dots[0].marker.size / dots[1].marker.size) ** 2 == pytest.approx(6)
    figure = figures.plot_votes([{"name": "no mistake"}, {"name": MARKUP}], Votes((3, 1), (0, 4), 3), 1)
    before, after = figure.data
    assert (before.x, after.x) == ((3, 1), (0, 4)) and all(a > b for a, b in zip(before.y, after.y, strict=True))
    assert [(note.x, note.text) for note in figure.layout.annotations] == [(3, "3"), (1, "1"), (0, "0"), (4, "4")]
    assert [name.startswith("✓ ") for name in figure.layout.yaxis.ticktext] == [False, True]
    assert "<img" not in "".join(figure.layout.yaxis.ticktext)
    figure = figures.plot_race([RaceChoice("draft", 4, 2, 48, 16, 60, 30), RaceChoice("ngram", 1, 1, 24, 24, 24, 0)])
    bars, mark = figure.data
    assert (bars.x, mark.x) == ((3.0, 1.0), (1.0, 1.0)) and [note.text for note in figure.layout.annotations] == ["3.00", "1.00"]


def test_the_class_s_predictions_stand_where_they_were_said_and_outcomes_need_enough_of_them():
    found = Calibration(7, 0.3, 0.8, 0.5, 0.2, 0.41, 0.16, ((0.25, 6, 0.5), (0.95, 1, 1.0)), (*[(0.26, 0.8)] * 6, (0.93, 0.8)))
    html = wall.draw_calibration(found)
    dots = list_marks(html, "said")
    assert dots == [(25.0, 80.0), (95.0, 80.0)] and list_marks(html, "came") == [(25.0, 50.0)]
    sizes = [float(size) for size in re.findall(r"--size:([\d.]+)", html)]
    assert sizes[0] == wall.MAX_DOT and sizes[0] ** 2 / sizes[1] ** 2 == pytest.approx(6, rel=0.02), "areas are as the numbers"


def test_votes_and_races_show_every_count_and_mark_the_right_answer():
    options = [{"name": "no mistake"}, {"name": MARKUP}]
    html = wall.draw_votes(options, Votes((3, 1), (0, 4), 3), 1)
    assert [width for _, width in list_marks(html, "before upper")] == pytest.approx([300 / 4.48, 100 / 4.48], abs=0.01)
    assert [width for _, width in list_marks(html, "after lower")] == pytest.approx([0, 400 / 4.48], abs=0.01)
    assert html.count("✓") == 1 and "no mistake: 3 before, 0 after" in html
    rows = [RaceChoice("draft", 4, 2, 48, 16, 60, 30), RaceChoice("ngram", 1, 1, 24, 24, 24, 0)]
    html = wall.draw_race(rows)
    assert re.findall(r"<b [^>]*>([^<]+)</b>", html) == ["3.00 · 2 students", "1.00"]
    assert list_marks(html, "share")[1][1] == list_marks(html, "exact")[1][0], "one token for each pass is what no drafting gives"


def test_no_text_of_a_model_is_markup():
    content = {"token": MARKUP, "p": 0.5, "q": 0.25, "bars": [{"token": MARKUP, "p": 0.5, "q": 0.25}]}
    one = build_shares(10, 3)
    labeled = CellShares.from_counts(MARKUP, [MARKUP] * 3, [True] * 3, np.array(one.probs), one.counts, one.n)
    drawn = [
        wall.draw_situation(content),
        wall.draw_histogram(labeled),
        wall.draw_votes([{"name": MARKUP}], Votes((1,), (1,), 0), 0),
    ]
    assert not any("<img" in html for html in drawn) and all("&lt;img" in html for html in drawn)
    assert list_marks(drawn[0], "draft lower") == [(0.0, 40.0)] and list_marks(drawn[0], "target upper") == [(0.0, 80.0)]
    assert "q = 0.25" in drawn[0] and "p = 0.50" in drawn[0]


def test_a_tied_race_has_no_winner():
    """12/4 and 3/1 are the same; a third choice is behind."""
    tied = (RaceChoice("draft", 4, 2, 12, 4, 9, 3), RaceChoice("ngram", 1, 1, 3, 1, 2, 1), RaceChoice("draft", 1, 1, 2, 1, 1, 1))
    task = Assignment(1, "race", "closed", {})
    assert not task.accepts_answers
    said = RaceResult(task, Race(tied, 4)).sentence
    assert said.startswith("Tied: ") and said.endswith("3.00 tokens per target pass each.") and "Winner" not in said
    assert "gamma 4 and" in said and RACE_METHODS["ngram"] in said
    assert RaceResult(task, Race(tied[1:], 2)).sentence.startswith("Winner: ")


def test_votes_are_counted_only_where_somebody_voted():
    options = [{"name": "no mistake", "wrong": "Nothing is."}, {"name": "stuck", "wrong": "It is stuck."}]
    task, shares = Assignment(1, "vote", "shown", {"options": options, "answer": 1, "n": 200}), build_shares()
    both = VoteResult(task, Votes((3, 1), (1, 3), 2), shares).sentence
    assert both.endswith("Right before the discussion: 1 of 4; after it: 3 of 4. 2 students changed their minds.")
    once = VoteResult(task, Votes((3, 1), (0, 0), 0), shares).sentence
    assert once.endswith("Right before the discussion: 1 of 4. There was one vote only.") and "of 0" not in once
    assert VoteResult(task, Votes((0, 0), (0, 0), 0), shares).sentence.endswith("Nobody voted.")


def test_the_wall_says_the_lesson_in_large_type_and_the_score_in_small():
    found = Calibration(7, 0.3, 0.8, 0.5, 0.2, 0.41, 0.16, ((0.25, 6, 0.5),), ((0.26, 0.8),))
    content = {"p": 0.4, "q": 0.5, "chance": 0.8, "text": "", "token": " a", "bars": []}
    result = PredictionResult(Assignment(1, "predict", "shown", content), found, found)
    shown = result.build_wall()
    assert "Brier" not in shown.sentence and shown.note.startswith("Expected Brier score of what was said: 0.410")
    assert result.details in result.build_class_payload()["sentence"], "a phone has both"


def test_few_rows_fill_the_wall_and_names_of_votes_are_whole():
    rows = [RaceChoice("draft", gamma, 1, 48, 16, 60, 30) for gamma in range(1, 11)]
    heights = [float(re.search(r"--row:([\d.]+)", wall.draw_race(rows[:count]))[1]) for count in (1, 2, 5, 10)]
    assert heights == sorted(heights, reverse=True) and heights[0] == wall.MAX_ROW and heights[-1] >= wall.MIN_ROW
    name = "a name that is longer than any row of a histogram may have it"
    assert name in wall.draw_votes([{"name": name}], Votes((1,), (1,), 0), 0)


def test_a_race_that_nobody_has_entered_shows_what_can_be_chosen_and_the_line_without_drafting():
    html = wall.draw_race([])
    assert all(name in html for name in RACE_METHODS.values())
    assert (
        html.count('class="row"') == len(RACE_METHODS) == html.count('<i class="exact" style=')
        and 'class="share" style=' not in html
    )


def test_a_verdict_on_the_class_names_what_its_samples_never_reached():
    every = {
        "proposed": 9, "accepted": 4, "rejected": 3, "not_checked": 2, "residual": 3, "bonus": 1, "target_only": 0, "rollbacks": None,
    }  # fmt: skip

    def explain(exercised: dict | None) -> str:
        test = {"n": 100, "verdict": "consistent", "detectable_tv": 0.4, "exercised": exercised}
        result = ClassSamplesResult(Assignment(1, "sample", "open", {}), ClassSamples(build_shares(120), 3, (test,)))
        mark, _, details = result.verdict
        assert mark == "consistent" and result.build_wall().note == details
        return details

    assert explain(every) == explain(None), "all parts reached, or not counted by an earlier version"
    missing = explain(every | {"rejected": 0, "residual": 0, "bonus": 0})
    assert "so rejection and the residual distribution were not tested. No bonus token was drawn." in missing
