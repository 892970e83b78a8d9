"""A certificate's samples are drawn again with its stored seed: where the same models are, a consistent forgery is found.

The samples are fixed by their seed; nothing here is left to chance.
"""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import numpy as np
import pytest

from specviz.__main__ import main
from specviz.evidence.decoder import ENGINE, Decoder
from specviz.evidence.sampling.certificate import (
    ALTERED,
    CONFIRMED,
    compare_reports,
    explain_difference,
    load_models,
    read_test_report,
    recompute,
    recompute_analytic,
    recompute_masses,
    redraw_certificate,
)
from specviz.evidence.testing.partition import Partition
from specviz.evidence.testing.report import RULE_ONLY, seal
from specviz.models.table import TableModel
from specviz.progress import ignore_progress
from specviz.settings import Settings
from tests.helpers.certificate_files import alter_record, first_answer, first_test

QUIET = lambda label: ignore_progress  # noqa: E731


def change_settings(**changed):
    return lambda record: record["settings"].update(changed)


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (change_settings(max_new_tokens=3), "the settings give texts of 3 tokens, but the cells are for 2"),
        (change_settings(prompt="Upon"), "a cell's mass is off by"),
        (change_settings(temperature=0.5), "a cell's mass is off by"),
        (change_settings(max_new_tokens=1), "texts of 1 tokens do not fill cells of longer ones"),
    ],
)
def test_a_changed_setting_is_found_by_drawing_again_even_if_the_digests_are_made_anew(record, change, said, tmp_path, capsys):
    changed = copy.deepcopy(record)
    change(changed)
    (tmp_path / "report.json").write_text(json.dumps(seal(changed)))
    assert main(["check", str(tmp_path / "report.json")]) == 1
    assert said in capsys.readouterr().out


def test_a_sample_that_moved_inside_a_cell_is_no_alteration_and_a_larger_change_is(record):
    """In float32 a sample very close to an edge may fall elsewhere; where its cell holds several texts, the counts do not show it."""
    before = next(test for test in record["answers"][1]["tests"] if test["name"].startswith("tokens with q > p"))
    n = before["n"]
    for moved, found in ((1, ""), (3, "statistic")):
        after = before | {"statistic": before["statistic"] + moved / n, "p_value": before["p_value"] * 0.99}
        assert explain_difference(before, after, 1).startswith(found) and bool(explain_difference(before, after, 1)) == bool(
            found
        )
    assert explain_difference(before, before | {"p_value": before["alpha"] / 2}, 1).startswith("p_value")
    level = before["alpha"]
    near = before | {"p_value": 1.1 * level}
    assert explain_difference(near, before | {"p_value": 1.2 * level}, 1) == ""
    assert explain_difference(near, before | {"p_value": 0.9 * level}, 1).startswith("p_value"), "it has crossed the test's level"
    assert explain_difference(before, before | {"n": n + 1}, 1)


@pytest.mark.parametrize("allowed", [0, 3, 7])
def test_one_sample_more_than_may_move_is_an_alteration(record, allowed):
    """A sample that moves leaves one cell and joins another: every one of them counts, once."""
    one = record["answers"][0]
    stored = replace(read_test_report(one), borderline=allowed)
    full = int(stored.counts.argmax())
    for moved, state in ((allowed, CONFIRMED), (allowed + 1, ALTERED)):
        counts = stored.counts.copy()
        counts[full] -= moved
        for draw in range(moved):
            counts[(full + 1 + draw % 2) % len(counts)] += 1
        line = next(compare_reports("1", one, stored, replace(stored, counts=counts)))
        assert (line.field, line.state) == ("1: cells", state)
        assert f"{moved} of {stored.plan.n:,} samples fall into other cells; {allowed} may" in line.reason


def test_positions_of_earlier_certificates_count_from_zero(record):
    one, stored = copy.deepcopy(record["answers"][0]), read_test_report(record["answers"][0])
    for number, test in enumerate(test for test in one["tests"] if test["name"].startswith("tokens with q > p at position")):
        assert test["name"].endswith(f" {number + 1}")
        test["name"] = f"tokens with q > p at position {number}"
    lines = list(compare_reports("1", one, stored, stored))
    assert all(line.state == CONFIRMED for line in lines) and one != record["answers"][0]
    named = {line.field for line in lines}
    assert all(f"1: {test['name']}" in named for test in one["tests"] if "q > p" in test["name"]), (
        "a line has the name in the file"
    )


def test_samples_are_redrawn_in_the_same_shards(monkeypatch, pair, record):
    """The tokens of one row may depend, in float32, on its neighbors in the shard; so the redraw uses the same shards."""
    asked = []
    sample = Decoder.sample
    monkeypatch.setattr(Decoder, "sample", lambda *given: (asked.append(given[1:4]), sample(*given))[1])
    for line in redraw_certificate(record, pair, QUIET):
        assert line.state != ALTERED
    n = record["answers"][1]["n"]
    engine = [(first, count) for mode, first, count in asked if mode == ENGINE]
    assert engine[0] == (0, min(n, 64)) and sum(count for _, count in engine) == n
    assert all(count == 512 for _, count in engine[1:-1]) and [first for first, _ in engine] == sorted({f for f, _ in engine})


@pytest.mark.fast_cases(4)
@pytest.mark.parametrize(
    "change",
    [
        lambda r: r["settings"].update(temperature=0.9),
        lambda r: (r["settings"].update(seed=8), r.update(seed=8)),
        lambda r: claim_decoder(r, "target"),
        lambda r: first_test(r, "probability transform").update(statistic=0.5),
        lambda r: r.update(analytic_tv=1e-12),
        lambda r: r["pieces"].update({next(iter(r["pieces"])): "00ff00"}),
        lambda r: [one["redraw_tolerance"].update(draws=400) for one in (r, first_answer(r))],
    ],
    ids=["temperature", "seed", "decoder", "transform", "analytic distance of a mode that is not there", "pieces", "near"],
)
def test_drawing_again_finds_a_forgery_that_agrees_with_itself(record, change):
    """All digests made anew, every recomputable number right: only redrawn samples can tell."""
    forged = copy.deepcopy(record)
    forged |= {"answers": forged["answers"][:1], "note": RULE_ONLY, "analytic_tv": None}
    change(forged)
    forged["tests"] = forged["answers"][0]["tests"]
    forged = seal(forged)
    assert not alter_record(forged)
    assert any(line.state == ALTERED for line in redraw_certificate(forged, load_models(forged), QUIET))


def claim_decoder(record, name: str) -> None:
    """Another decoder, with the sentence that it would have."""
    one = recompute(first_answer(record), name)
    record |= {"decoder": name, "answers": [one]} | {key: value for key, value in one.items() if key != "cells"}


def test_other_masses_with_right_counts_are_found_by_the_models(record):
    forged = copy.deepcopy(record)
    one = forged["answers"][0]
    cells = one["cells"]
    cells[1]["mass"], cells[2]["mass"] = cells[1]["mass"] * 0.99, cells[2]["mass"] + cells[1]["mass"] * 0.01
    forged |= {"answers": [recompute(one)], "note": RULE_ONLY}
    forged = seal(forged | {name: value for name, value in forged["answers"][0].items() if name != "cells"})
    assert not alter_record(forged)
    found = [line for line in redraw_certificate(forged, load_models(forged), QUIET) if line.state == ALTERED]
    assert "a cell's mass is off" in found[0].reason


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize(
    ("change", "found"), [(1e-3, ALTERED), (1 / 20, ALTERED), (20, ALTERED), (None, ALTERED), (1.5, CONFIRMED)]
)
def test_the_distance_without_samples_is_computed_again_where_the_models_are(record, change, found):
    """It is rounding error: another machine finds another number of the same size, and only such a number is confirmed."""
    record["analytic_tv"] = change and record["analytic_tv"] * change
    pair = load_models(record)
    line = recompute_analytic(record, pair, replace(Settings.from_record(record["settings"]), pair=pair.name))
    assert line.field == "analytic_tv" and line.state == found, line.reason


def test_nothing_but_the_versions_is_left_unchecked_where_the_models_are(report, capsys):
    """The versions that ran cannot be recomputed; everything else is confirmed."""
    assert main(["check", str(report), "--format", "json"]) == 0
    fields = json.loads(capsys.readouterr().out)["fields"]
    assert {one["field"] for one in fields if one["state"] != CONFIRMED} == {"versions", "files"}


def _move_pair(record):
    record["settings"]["pair"] = "/nowhere/target|/nowhere/draft"


def _change_weights(record):
    record["models"]["target_sha256"] = "0" * 64


@pytest.mark.parametrize(
    ("change", "options", "why"),
    [
        (_move_pair, [], "'/nowhere/target|/nowhere/draft' is not on this machine"),
        (_change_weights, [], "has a different target than the certificate"),
        (lambda record: None, ["--no-redraw"], "--no-redraw was given"),
    ],
    ids=["models elsewhere", "another hash of the target", "told not to"],
)
def test_a_certificate_that_was_not_redrawn_is_not_called_unaltered(record, change, options, why, tmp_path, capsys):
    """The file agrees with itself, and nothing was compared with new samples: a headline and an exit code of their own."""
    change(record)
    path = tmp_path / "report.json"
    path.write_text(json.dumps(seal(record)))
    assert main(["check", str(path), *options]) == 4
    said = capsys.readouterr().out
    assert "Nothing was altered" not in said
    (headline,) = [line for line in said.splitlines() if line.startswith("Not redrawn: ")]
    assert why in headline
    assert main(["check", str(path), *options, "--format", "json"]) == 4
    found = json.loads(capsys.readouterr().out)
    assert found["outcome"] == "not redrawn" and found["summary"] == headline


def test_an_altered_certificate_stays_altered_where_the_models_are_not_here(record, tmp_path, capsys):
    _move_pair(record)
    path = tmp_path / "report.json"
    path.write_text(json.dumps(record))
    assert main(["check", str(path)]) == 1
    assert "Altered: settings." in capsys.readouterr().out


def test_the_exit_codes_stand_in_the_help(capsys):
    assert main(["check", "--help"]) == 0
    assert "4 not redrawn" in " ".join(capsys.readouterr().out.split())


def test_models_that_have_moved_are_named_on_the_command_line(record, pair_folders, tmp_path, capsys):
    record["settings"]["pair"] = "/nowhere/target|/nowhere/draft"
    path = tmp_path / "moved.json"
    path.write_text(json.dumps(seal(record)))
    assert main(["check", str(path), "--target", str(pair_folders[0]), "--draft", str(pair_folders[1])]) == 0
    said = capsys.readouterr().out
    assert "Nothing was altered" in said and "Redrawn with the stored seed" in said
    assert "0 of 3,000 samples fall into other cells" in said


def test_other_weights_are_not_drawn_from(record, pair_folders, tmp_path, capsys):
    path = tmp_path / "same.json"
    path.write_text(json.dumps(record))
    assert main(["check", str(path), "--target", str(pair_folders[1]), "--draft", str(pair_folders[0])]) == 4
    assert "has a different target and draft than the certificate" in capsys.readouterr().out


def test_a_cell_from_which_everything_was_split_off_stays_empty_although_the_masses_round():
    """0.7 + 0.1 + 0.2 leaves 5.6e-17 of the whole in float64: a cell of that mass could not be tested."""
    target = TableModel(lambda ids: (0.7, 0.1, 0.2), 3)
    names = ((), (0,), (1,), (2,))
    stored = Partition(names, np.array([0.0, 0.7, 0.1, 0.2]), 1, np.array([False, True, True, True]))
    assert 1.0 - 0.7 - 0.1 - 0.2 > 0.0
    assert recompute_masses(target, (0,), stored, frozenset()).masses.tolist() == [0.0, 0.7, 0.1, 0.2]
