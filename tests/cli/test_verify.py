"""``verify`` from end to end on a tiny random pair: its output, its exit codes, and that a wrong decoder is rejected.

Samples are fixed by their seed. A correct decoder is rejected with probability 0.001 over seeds; the seed here is the default.
"""

from __future__ import annotations

import json

import pytest

from specviz.__main__ import main
from specviz.errors import SettingsError
from specviz.evidence.decoder import Decoder, build_decoder
from specviz.evidence.mistakes.registry import MISTAKES
from specviz.evidence.testing.hypothesis_tests import TestPlan
from specviz.settings import Settings


@pytest.fixture(scope="module")
def folders(pair_folders):
    return ["--target", str(pair_folders[0]), "--draft", str(pair_folders[1])]


def verify(folders, *more: str) -> int:
    return main(["verify", *folders, "--prompt", "Once upon", *more])


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.usefixtures("all_permutations")
def test_a_right_decoder_is_consistent_in_both_modes_and_json_says_all(folders, capsys, tmp_path):
    code = verify(folders, "--max-new-tokens", "2", "--samples", "4000", "--min-tv", "0.2", "--seconds", "0.3", "--format", "json",
                  "--out", str(tmp_path / "new"))  # fmt: skip
    report = json.loads(capsys.readouterr().out)
    assert code == 0 and report["verdict"] == "consistent"
    assert [one["mode"] for one in report["answers"]] == ["shared distributions", "engine"]
    for one in report["answers"]:
        assert one["n"] > 0 and one["detectable_tv"] > 0 and one["tv"] < one["tv_null_band"]["upper"] * 1.5
        assert all({"name", "statistic", "p_value", "detectable_tv"} <= set(test) for test in one["tests"])
    assert report["settings"]["seed"] == 7 and report["versions"]["torch"]
    assert json.loads((tmp_path / "new" / "report.json").read_text()) == report


def test_too_few_samples_are_said_with_the_number_that_is_needed(folders, capsys):
    assert verify(folders, "--samples", "300", "--min-tv", "0.01", "--mode", "shared-distributions") == 3
    said = capsys.readouterr().out
    assert "Too few samples" in said and f"{TestPlan.for_distance(300, 3, 0.01).needed:,}" in said


@pytest.mark.parametrize("tv", [0.2, 0.05, 0.003])
def test_the_number_of_samples_that_is_named_suffices(tv):
    """And one in ten less does not."""
    needed = TestPlan.for_distance(300, 2, tv).needed
    assert TestPlan.for_distance(needed, 2, tv).cells >= 16 and TestPlan.for_distance(int(0.9 * needed), 2, tv).cells == 0


def test_greedy_is_tested_for_equality_and_says_so(folders, capsys):
    assert (
        verify(
            folders,
            "--temperature",
            "0",
            "--max-new-tokens",
            "2",
            "--samples",
            "2000",
            "--mode",
            "shared-distributions",
            "--format",
            "json",
        )
        == 0
    )
    report = json.loads(capsys.readouterr().out)
    assert "equality" in report["tests"][0]["note"] and report["tv"] == 0.0


def test_in_words_too_and_with_the_samples_that_equality_needs(folders, capsys):
    """One outcome has probability 1. A distribution 0.01 away shows in 459 samples 99 times in 100, since 0.99^459 < 0.01. Shared
    distributions alone say what was not sampled."""
    greedy = ("--temperature", "0", "--max-new-tokens", "2", "--mode", "shared-distributions")
    assert verify(folders, *greedy, "--samples", "458") == 3
    said = capsys.readouterr().out
    assert "0.01 needs 459." in said and "the test is equality. Every draw is that outcome." in said
    assert verify(folders, *greedy, "--samples", "459") == 0
    said = capsys.readouterr().out
    assert said.startswith("Consistent: no difference from the target's distribution was found.\n")
    assert "the cached decoder was not sampled" in said


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize("tv", [pytest.param("0.9", marks=pytest.mark.slow), "1"])
def test_samples_that_all_lie_in_one_cell_tell_nothing_and_are_never_called_consistent(tv, folders, capsys, tmp_path):
    """At temperature 5 no token expects 5 of 40 samples, so everything lies in one cell, on which no distribution could fail."""
    flat = (
        "--temperature",
        "5",
        "--max-new-tokens",
        "2",
        "--samples",
        "40",
        "--mode",
        "shared-distributions",
        "--min-tv",
        tv,
        "--out",
        str(tmp_path / "out"),
    )
    assert verify(folders, *flat) == 3
    said = capsys.readouterr().out
    assert "Too few samples: 40 samples tell nothing. No text is probable enough for a cell of its own" in said
    assert "Consistent" not in said and said.startswith("No verdict: ")
    assert said.split("chi-square")[1].split("\n")[0].strip().startswith("tested nothing. "), "and no p-value of it"
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert (report["verdict"], report["detectable_tv"], len(report["answers"][0]["cells"])) == ("too few samples", 1.0, 1)
    assert main(["check", str(tmp_path / "out" / "report.json")]) == 0


def test_an_engine_that_is_asked_for_less_says_so(folders, capsys, monkeypatch):
    """The engine has at least 64 samples; after shared distributions it is only asked to detect what these can."""
    monkeypatch.setattr(
        Decoder, "compute_analytic_tv", lambda *_: None
    )  # takes longer than all samples, and says nothing of them
    assert verify(folders, "--max-new-tokens", "2", "--samples", "64", "--min-tv", "0.001", "--seconds", "0.001") == 3
    verdict, _, shared, engine = capsys.readouterr().out.splitlines()[:4]
    assert verdict == "No verdict: there are too few samples."
    assert shared.endswith(".") and "it was only asked to detect 0." in engine


@pytest.mark.parametrize("option", [("--decoder", "R5"), ("--samples", "77"), ("--mode", "engine"), ("--resume", "x.draws")])
def test_options_for_drawing_are_refused_with_a_sample_file(option, folders, capsys, tmp_path):
    (tmp_path / "draws.jsonl").write_text('{"prompt": "Once", "tokens": [65]}\n' * 60)
    assert verify(folders, "--sample-file", str(tmp_path / "draws.jsonl"), *option) == 2
    assert f"{option[0][2:]} must be left out with --sample-file: nothing is drawn, got" in capsys.readouterr().err


def test_transformers_own_speculation_is_a_source_too(folders, capsys):
    """67 samples detect a distance of 0.5; a minute is time for many more."""
    assert verify(folders, "--decoder", "assisted", "--max-new-tokens", "2", "--samples", "80", "--min-tv", "0.5") == 0
    assert "transformers: Consistent" in capsys.readouterr().out


def test_a_published_mistake_is_drawn_by_its_id_under_its_own_settings(folders, capsys):
    """R5 draws replacements from p. Enumerated on the pair, its distance is far above 0.1. The id may be in lower case."""
    code = verify(
        folders, "--decoder", "r5", "--samples", "4000", "--min-tv", "0.2", "--mode", "shared-distributions", "--format", "json"
    )
    record = json.loads(capsys.readouterr().out)
    wanted = MISTAKES["R5"].settings
    assert code == 1 and record["verdict"] == "rejected" and record["decoder"] == "R5"
    assert (record["settings"]["gamma"], record["settings"]["max_new_tokens"]) == (wanted.gamma, wanted.max_new_tokens)


def test_a_mistake_that_shared_distributions_cannot_draw_is_drawn_by_the_engine(folders, capsys):
    assert verify(folders, "--decoder", "kept-rest", "--mode", "shared-distributions") == 2
    assert "engine or both for kept-rest" in capsys.readouterr().err


def test_a_run_with_chosen_random_numbers_is_refused(pair):
    with pytest.raises(SettingsError, match="not a sample"):
        build_decoder("speculative", pair, Settings(uniforms={(0, "accept"): 0.5}))


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--samples", "0", "from 1 to 20,000,000"),
        ("--samples", "-5", "from 1 to 20,000,000"),
        ("--samples", "99999999999", "from 1 to 20,000,000"),
        ("--max-new-tokens", "9", "from 1 to 4"),
        ("--min-tv", "0", "above 0 and at most 1"),
        ("--min-tv", "nan", "above 0 and at most 1"),
        ("--seconds", "0", "above 0"),
        ("--seed", "-1", "from 0 to"),
        ("--decoder", "magic", "one of speculative, target, assisted"),
        ("--out", "/proc/nowhere/deep", "could not be written"),
    ],
)
def test_bad_input_is_one_sentence_with_the_value(folders, capsys, option, value, said):
    assert verify(folders, option, value) == 2
    error = capsys.readouterr().err
    assert said in error and value in error and "Traceback" not in error
