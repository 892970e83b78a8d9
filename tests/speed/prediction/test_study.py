"""The study: a predictor is tested on kinds of text that its fit has not seen, and the recorded study is complete."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from specviz.__main__ import main
from specviz.errors import TraceError
from specviz.records import ASSETS
from specviz.settings import Settings
from specviz.speed.measurement.acceptance import cut_openings
from specviz.speed.prediction import study as study_run
from specviz.speed.prediction.study import TEXTS_FOLDER, StudySize, compute_statistics, run_study
from specviz.speed.records.study import (
    DRAFTS,
    KINDS,
    STATISTICS,
    TEMPERATURES,
    TOP_PS,
    Study,
    StudyCell,
    average_over_kinds,
    compute_calibration,
    compute_calibration_error,
    compute_reliability,
    predict_left_out,
)

RECORDED = ASSETS / "traces" / "study.json"
TEXTS = {
    "bedtime": "The cat sat on the mat and looked at the dog, who ran to the brook. Then the sun went down, and all slept. " * 4,
    "code": "def f(x):\n    return x + 1\n\n\ndef g(y):\n    return f(y) * f(y + 2)\n" * 6,
}


SIZE = StudySize(openings=4, opening=8, length=16, gamma=3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kinds")
    for kind, text in TEXTS.items():
        (folder / f"{kind}.txt").write_text(text)
    return folder


@pytest.fixture(scope="module")
def small_study(pair, folder):
    """Two kinds, two temperatures, one cut and two drafts on the tiny pair."""
    return run_study(SIZE, 7, tuple(TEXTS), (0.0, 1.0), (0.5,), ("storybook", "ngram"), lambda name: pair, folder)


@pytest.fixture
def run_studies(pair, folder):
    """Makes six cells of one kind; ``cells`` after which it is stopped, and anything else of a study."""

    def make(resume=None, cells=99, seed=7, size=SIZE, top_ps=(0.5,)):
        left = iter(range(cells - 1))

        def on_progress(share):
            if next(left, None) is None:
                raise KeyboardInterrupt

        drafts = ("storybook", "ngram")
        return run_study(size, seed, ("bedtime",), (0.0, 1.0), top_ps, drafts, lambda name: pair, folder, on_progress, resume)

    return make


def test_every_cell_is_measured_or_says_why_not(small_study):
    assert len(small_study.cells) == 2 * 3 * 2
    for cell in small_study.list_measured():
        assert cell.statistics.keys() == STATISTICS.keys() and all(0.0 <= x < 99.0 for x in cell.statistics.values())
        assert 0 <= cell.accepted <= cell.checked and cell.tokens == 4 * 16 <= cell.rounds * 4
        assert cell.accepted + cell.rounds >= cell.tokens - 4, (
            "the accepted ones and one more per pass, except for a last round that is cut"
        )


def test_at_temperature_0_the_prediction_is_what_is_measured(small_study):
    for cell in small_study.list_measured():
        if cell.temperature == 0.0:
            assert cell.predicted == pytest.approx(cell.share) and cell.per_pass == pytest.approx(cell.tokens / cell.rounds)


def test_statistics_of_greedy_distributions_are_all_one_number(pair):
    """One-hot distributions: the overlap, both divergences and the agreement say whether two tokens are one."""
    own = cut_openings(pair, TEXTS["bedtime"], 8, 16, 3)
    found, _ = compute_statistics(pair, Settings(temperature=0.0, max_new_tokens=16), own)
    assert found["overlap"] == pytest.approx(found["kl_pq"]) == pytest.approx(found["kl_qp"]) == pytest.approx(found["agreement"])
    assert found["entropy_p"] == found["entropy_q"] == 0.0


def test_a_kind_is_predicted_by_a_line_that_never_saw_it():
    """Two kinds on y = x, a third far off it: the third is predicted on the line, whatever was measured on it."""
    x, kinds = np.array([0.1, 0.3, 0.2, 0.6, 0.4, 0.5]), np.array(["a", "a", "b", "b", "c", "c"])
    y = np.array([0.1, 0.3, 0.2, 0.6, 0.9, 0.0])
    assert predict_left_out(x, y, kinds)[4:] == pytest.approx([0.4, 0.5])


def test_a_right_predictor_explains_all_and_a_wrong_one_less_than_nothing():
    cells = tuple(
        StudyCell(kind, 1.0, "storybook", dict.fromkeys(STATISTICS, 0.5) | {"overlap": share}, share, 100, round(100 * share))
        for kind, share in (("bedtime", 0.2), ("bedtime", 0.6), ("code", 0.3), ("code", 0.7), ("verse", 0.9), ("verse", 0.5))
    )
    scores = {score.name: score for score in Study(cells, 4, 2, 8, 8, 7).score_predictors()}
    assert scores["accepted draft tokens"].error.value == scores["overlap itself"].error.value == 0.0
    assert scores["overlap"].explained == pytest.approx(1.0) and scores["mean of the others"].explained < 0.0
    assert scores["accepted draft tokens"].error.low <= scores["accepted draft tokens"].error.high


def test_calibration_groups_are_equal_and_ordered():
    points = compute_calibration([0.1, 0.9, 0.5, 0.3], [0.2, 0.8, 0.6, 0.2], groups=2)
    assert points == ((pytest.approx(0.2), pytest.approx(0.2), 2), (pytest.approx(0.7), pytest.approx(0.7), 2))


def test_both_distributions_are_cut_alike_and_both_axes_share_the_whole_distribution_of_temperature_1(small_study):
    assert [cell.top_p for cell in small_study.list_cells_by_top_p("storybook")] == [None, 0.5] * 2
    assert [cell.temperature for cell in small_study.list_cells_by_temperature("storybook")] == [0.0, 1.0] * 2
    whole, cut = small_study.list_cells_by_top_p("storybook")[:2]
    assert (
        cut.statistics["entropy_p"] < whole.statistics["entropy_p"]
        and cut.statistics["entropy_q"] < whole.statistics["entropy_q"]
    )


def test_the_bins_hold_every_place_and_give_the_calibration_error(small_study):
    for cell in small_study.list_measured(("storybook",)):
        assert sum(places for places, _, _ in cell.bins) == 4 * 16
        assert all(0 <= right <= places and places * b / 10 - 1e-9 <= sure <= places * (b + 1) / 10 + 1e-9
                   for b, (places, sure, right) in enumerate(cell.bins))  # fmt: skip
        assert compute_calibration_error([cell]) == pytest.approx(cell.statistics["calibration"])


def test_a_draft_that_is_as_right_as_it_is_sure_lies_on_the_diagonal_and_another_below():
    """Two kinds of 100 places in two bins; the third bin has too few places for a point."""
    honest = StudyCell("bedtime", 1.0, "storybook", bins=((100, 20.0, 20), (100, 80.0, 80), (2, 1.9, 0)))
    proud = StudyCell("code", 1.0, "storybook", bins=((100, 20.0, 10), (100, 80.0, 60), (2, 1.9, 0)))
    assert [(one.confidence, one.right.value, one.right.low, one.right.high) for one in compute_reliability([honest])] == [
        (0.2,) * 4,
        (0.8,) * 4,
    ]
    low, high = compute_reliability([honest, proud])
    assert (low.right.value, high.right.value, high.right.low, high.right.high) == (0.15, 0.7, 0.6, 0.8)
    assert compute_calibration_error([honest]) == pytest.approx(1.9 / 202) and compute_reliability([]) == ()


def test_a_mean_over_kinds_lies_between_the_kinds():
    cells = [StudyCell(kind, 1.0, "storybook", checked=100, accepted=kept) for kind, kept in (("bedtime", 40), ("code", 80))]
    found = average_over_kinds(cells)
    assert (found.value, found.low, found.high) == (pytest.approx(0.6), 0.4, 0.8)


def test_the_record_comes_back_and_damage_is_refused(small_study):
    again = Study.from_json(small_study.to_json())
    assert [(cell.accepted, cell.top_p) for cell in again.cells] == [(cell.accepted, cell.top_p) for cell in small_study.cells]
    assert [len(cell.bins) for cell in again.cells] == [len(cell.bins) for cell in small_study.cells]
    for damaged in ("{}", "[]", small_study.to_json().replace("specviz-study-2", "other"), small_study.to_json()[:-9]):
        with pytest.raises(TraceError):
            Study.from_json(damaged)


def test_the_recorded_study_is_whole_and_the_forecast_is_the_best_predictor_in_it(capsys):
    study = Study.from_json(RECORDED.read_text(encoding="utf-8"))
    assert len(study.cells) == len(KINDS) * (len(TEMPERATURES) + len(TOP_PS)) * len(DRAFTS)
    assert all(len(cell.bins) == 10 for cell in study.list_measured())
    assert study.score_predictors()[0].name == "accepted draft tokens"
    assert {path.stem for path in TEXTS_FOLDER.glob("*.txt")} == set(KINDS)
    assert main(["study", "--read", str(RECORDED)]) == 0
    assert "networks alone" in capsys.readouterr().out


def test_a_study_that_is_stopped_again_and_again_goes_on_to_the_same_cells_and_makes_none_twice(
    run_studies, tmp_path, monkeypatch
):
    whole, path, made = run_studies(), tmp_path / "cells", []
    plain = study_run._measure_cell
    monkeypatch.setattr(study_run, "_measure_cell", lambda *asked: made.append(asked[1:2] + asked[4:]) or plain(*asked))
    for cells in (1, 3):
        with pytest.raises(KeyboardInterrupt):
            run_studies(path, cells)
    again = run_studies(path)
    assert again.cells == whole.cells and again.to_json() == whole.to_json() and len(made) == len(whole.cells) == 6
    assert run_studies(path).cells == whole.cells and len(made) == 6 and [one.name for one in tmp_path.iterdir()] == ["cells"]


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    ("other", "said"),
    (
        ({"seed": 8}, "seed was 7, now 8"),
        ({"size": replace(SIZE, gamma=2)}, "gamma was 3, now 2"),
        ({"top_ps": ()}, "distributions was"),
    ),
)
def test_cells_of_another_study_are_refused_and_left_alone(run_studies, tmp_path, other, said):
    path = tmp_path / "cells"
    with pytest.raises(KeyboardInterrupt):
        run_studies(path, 1)
    before = path.read_bytes()
    with pytest.raises(TraceError, match=f"keeps cells of another study: {said}"):
        run_studies(path, **other)
    assert path.read_bytes() == before


def test_cells_of_other_weights_are_refused(run_studies, tmp_path, monkeypatch):
    with pytest.raises(KeyboardInterrupt):
        run_studies(tmp_path / "cells", 1)
    monkeypatch.setattr(study_run, "hash_pair", lambda pair: {"target_sha256": "other"})
    with pytest.raises(TraceError, match="target-sha256 was"):
        run_studies(tmp_path / "cells")


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    "how", (lambda text: text[:-9], lambda text: text.replace('"checked": ', '"checked": 1'), lambda text: "Dear")
)
def test_a_damaged_file_of_cells_is_refused_and_left_alone(run_studies, tmp_path, how):
    path = tmp_path / "cells"
    with pytest.raises(KeyboardInterrupt):
        run_studies(path, 1)
    path.write_text(how(path.read_text()))
    before = path.read_bytes()
    with pytest.raises(TraceError, match="cells' of a study's cells is damaged"):
        run_studies(path)
    assert path.read_bytes() == before


def test_the_command_says_how_to_go_on_and_forgets_the_cells_of_a_finished_study(small_study, tmp_path, monkeypatch, capsys):
    out, cells = tmp_path / "study.json", tmp_path / "study.json.cells"

    def raise_interrupt(*_, resume, **__):
        if resume is not None and resume.name != "unborn.cells":
            resume.write_text("cells")
        raise KeyboardInterrupt

    monkeypatch.setattr(study_run, "run_study", raise_interrupt)
    for words, said in (
        ((), "nothing was saved; with --out FILE or --resume FILE"),
        (("--out", str(tmp_path / "unborn")), "no cell was finished"),
        (("--out", str(out)), f"every finished cell is saved in '{cells}'; the same command resumes from there"),
    ):
        assert main(["study", *words]) == 130
        assert said in capsys.readouterr().err
    monkeypatch.setattr(study_run, "run_study", lambda *_, **__: small_study)
    assert main(["study", "--out", str(out)]) == 0
    assert not cells.exists() and Study.from_json(out.read_text()).cells


def test_bad_input_is_a_sentence(capsys, tmp_path):
    assert main(["study", "--read", "x", "--resume", "y"]) == 2
    assert "left out with --read" in capsys.readouterr().err
    assert main(["study", "--out", str(tmp_path)]) == 2
    assert "is a folder. --out takes a file." in capsys.readouterr().err
    assert main(["study", "--resume", str(tmp_path / "nowhere" / "cells")]) == 2
    assert "could not be written" in capsys.readouterr().err
    assert main(["study", "--continuations", "1"]) == 2
    assert "from 2 to 1024" in capsys.readouterr().err
    assert main(["study", "--read", str(tmp_path / "none.json")]) == 2
    assert "study --out" in capsys.readouterr().err


def test_out_is_a_new_file_or_an_earlier_study_and_is_looked_at_before_the_work(small_study, tmp_path, monkeypatch, capsys):
    out, asked = tmp_path / "deep" / "study.json", []
    monkeypatch.setattr(study_run, "run_study", lambda *_, **__: asked.append(out.parent.is_dir()) or small_study)
    assert main(["study", "--out", str(out)]) == 0 == main(["study", "--out", str(out)])
    assert asked == [True, True], "the folder is there before cells are kept in it"
    out.write_text("dear reader")
    assert main(["study", "--out", str(out)]) == 2
    assert "a new file, or an earlier record of the same kind (study)" in capsys.readouterr().err
    assert len(asked) == 2 and out.read_text() == "dear reader"
