"""A certificate is checked field by field: a changed number is found by its digest, or because it contradicts the rest.

The samples are fixed by their seed; nothing here is left to chance. Checks that need redrawn samples are in test_redraw.py.
"""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import pytest

from specviz.__main__ import main
from specviz.errors import EvidenceError
from specviz.evidence.sampling.certificate import (
    ALTERED,
    CONFIRMED,
    SELF_CONSISTENT,
    check_certificate,
    read_certificate,
    read_test_report,
)
from specviz.evidence.testing.hypothesis_tests import TestPlan, run_joint_tests
from specviz.evidence.testing.report import build_answer, seal
from tests.helpers.certificate_files import alter_record, first_answer, first_test, list_states


def test_without_models_it_says_what_was_only_consistent_in_itself(record):
    found = list_states(record)
    for name in ("chi-square", "G", "n", "tv", "tv_null_band", "detectable_tv", "verdict", "sentence"):
        assert found[f"1 shared distributions: {name}"] == CONFIRMED, name
    for name in ("settings", "models", "1 shared distributions: cells", "1 shared distributions: probability transform"):
        assert found[name] == SELF_CONSISTENT, name


CHANGES = {
    "a count": lambda r: first_answer(r)["cells"][1].update(count=first_answer(r)["cells"][1]["count"] + 1),
    "a count moved to another cell": lambda r: (
        first_answer(r)["cells"][1].update(count=first_answer(r)["cells"][1]["count"] - 9),
        first_answer(r)["cells"][2].update(count=first_answer(r)["cells"][2]["count"] + 9),
    ),
    "a cell's mass": lambda r: first_answer(r)["cells"][1].update(mass=first_answer(r)["cells"][1]["mass"] * 1.01),
    "n": lambda r: first_answer(r).update(n=6000),
    "n for all": lambda r: r.update(n=6000),
    "chi-square": lambda r: first_test(r, "chi-square").update(statistic=first_test(r, "chi-square")["statistic"] * 0.9),
    "its p-value": lambda r: first_test(r, "chi-square").update(p_value=0.5),
    "G": lambda r: first_test(r, "G").update(statistic=first_test(r, "G")["statistic"] + 0.01),
    "what a test could have seen": lambda r: first_test(r, "chi-square").update(detectable_tv=0.01),
    "a corrected p-value": lambda r: first_test(r, "probability transform").update(adjusted_p=0.123),
    "the distance": lambda r: first_answer(r).update(tv=0.001),
    "the band": lambda r: first_answer(r)["tv_null_band"].update(upper=0.5),
    "what could have been seen": lambda r: first_answer(r).update(detectable_tv=0.001),
    "the pooled mass": lambda r: first_answer(r).update(pooled_mass=0.0),
    "the plan's level": lambda r: first_answer(r)["plan"].update(level=0.01),
    "a verdict": lambda r: first_answer(r).update(verdict="rejected"),
    "the verdict for all": lambda r: r.update(verdict="rejected"),
    "a sentence": lambda r: first_answer(r).update(sentence="Proved for ever."),
    "the seed": lambda r: r.update(seed=8),
    "a setting out of range": lambda r: r["settings"].update(temperature=9.0),
    "chosen random numbers": lambda r: r["settings"].update(uniforms=["0=0.5"]),
    "the remark": lambda r: r.update(note="All is well."),
    "how many may move": lambda r: [one["redraw_tolerance"].update(draws=one["n"] + 1) for one in (r, first_answer(r))],
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_one_altered_field_is_found_even_if_the_digests_are_made_anew(record, change):
    changed = copy.deepcopy(record)
    change(changed)
    assert alter_record(changed), "with the old digests"
    assert alter_record(seal(changed)), "with new digests"


@pytest.mark.parametrize("factor", [1.5, 1.0 + 1e-6])
def test_masses_that_do_not_sum_to_1_are_named(record, factor):
    """Every statistic rescales them, so nothing else contradicts them."""
    changed = copy.deepcopy(record)
    for cell in first_answer(changed)["cells"]:
        cell["mass"] *= factor
    found = {line.field: line.reason for line in check_certificate(seal(changed)) if line.state == ALTERED}
    assert found.get("1 shared distributions: cells") == "the masses of the cells do not sum to 1"


JOINT_NUMBERS = [(name, key) for name in ("chi-square", "G") for key in ("statistic", "p_value", "adjusted_p", "detectable_tv")]
OWN_NUMBERS = ["tv", "detectable_tv", "pooled_mass"]


OWN = {
    **{key: lambda r, k=key: (first_answer(r), k) for key in OWN_NUMBERS},
    **{f"{name} {key}": lambda r, n=name, k=key: (first_test(r, n), k) for name, key in JOINT_NUMBERS},
    "level": lambda r: (first_answer(r)["plan"], "level"),
    "median": lambda r: (first_answer(r)["tv_null_band"], "median"),
    "upper": lambda r: (first_answer(r)["tv_null_band"], "upper"),
    "adjusted transform": lambda r: (first_test(r, "probability transform"), "adjusted_p"),
}


def scale_numbers(record, places, factor: float) -> dict:
    """The certificate with these numbers times a factor, at most 1 for p-values; parts that it repeats and digests made anew."""
    changed = copy.deepcopy(record)
    for place in places:
        holder, key = place(changed)
        assert holder[key] > 0.0
        holder[key] *= factor
    for name in ("tests", "tv", "tv_null_band", "detectable_tv", "pooled_mass", "plan"):
        changed[name] = first_answer(changed)[name]
    return seal(changed)


@pytest.mark.parametrize("place", OWN.values(), ids=OWN)
def test_a_number_that_is_off_in_the_sixth_digit_is_altered(record, place):
    """Even with recomputed digests. With the versions that wrote it, a certificate agrees to far more than six digits."""
    assert alter_record(scale_numbers(record, [place], 1.0 - 1e-5))


def test_rounding_of_any_number_is_not_altered(record):
    assert not alter_record(scale_numbers(record, OWN.values(), 1.0 - 1e-9))


def test_every_test_has_the_level_of_a_family_of_length_plus_six(record):
    """Bonferroni over all tests, counted by hand: two on the cells, next tokens given their prefix, the transform, two samples, the
    stopping time, and one at each of L positions."""
    for one in record["answers"]:
        plan = one["plan"]
        assert len(one["tests"]) <= plan["length"] + 6
        assert plan["level"] == pytest.approx(plan["alpha"] / (plan["length"] + 6), rel=1e-12)
        assert {test["alpha"] for test in one["tests"]} == {plan["level"]}


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_a_plan_shares_its_false_alarm_rate_among_all_its_tests(length):
    assert TestPlan.for_distance(200_000, length, 0.01, 0.001).level == pytest.approx(0.001 / (length + 6), rel=1e-12)
    assert TestPlan.for_samples(500, length, 0.01, 0.001).level == pytest.approx(0.001 / (length + 6), rel=1e-12)


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("settings", lambda r: r["settings"].update(temperature=0.7)),
        ("decoder", lambda r: r.update(decoder="target")),
        ("models", lambda r: r["models"].update(target_sha256="0" * 64)),
        ("versions", lambda r: r["versions"].update(torch="9")),
        ("analytic_tv", lambda r: r.update(analytic_tv=1e-9)),
        ("note", lambda r: r.update(note="All well.")),
        ("1 shared distributions: mode", lambda r: first_answer(r).update(mode="engine")),
        (
            "1 shared distributions: probability transform",
            lambda r: first_test(r, "probability transform").update(statistic=0.001),
        ),
        ("digest", lambda r: r.update(digest="0" * 64)),
    ],
)
def test_what_nothing_else_contradicts_is_found_and_named_by_its_digest(record, field, change):
    changed = copy.deepcopy(record)
    change(changed)
    assert field in alter_record(changed) or any("engine: mode" in name for name in alter_record(changed))


def test_altered_is_exit_code_1_and_json_names_the_field(record, tmp_path, capsys):
    record["answers"][0]["cells"][0]["count"] += 1
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(record))
    assert main(["check", str(path), "--format", "json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert {"1 shared distributions: cells", "1 shared distributions: chi-square"} <= {
        one["field"] for one in said["fields"] if one["state"] == ALTERED
    }


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "damaged, or no JSON"),
        (b'{"schema": "specviz-verify-2", "answers"', "damaged, or no JSON"),
        (b"\xff\xfe\x00", "damaged, or no JSON"),
        (b"[1, 2]", "its schema is None"),
        (b'{"schema": "specviz-verify-0"}', "its schema is 'specviz-verify-0'"),
        (b'{"schema": "specviz-verify-2"}', "the field 'answers' is missing"),
        (b'{"schema": "specviz-verify-2", "answers": [3]}', "damaged, or of an older version"),
        (b'{"schema": "specviz-verify-2", "answers": []}', "damaged, or of an older version"),
        (b'{"schema": NaN}', "NaN is no number"),
        (b"[" * 100_000, "damaged, or no JSON"),
    ],
)
def test_what_cannot_be_read_is_one_sentence_and_exit_code_2(tmp_path, capsys, content, said):
    path = tmp_path / "broken.json"
    path.write_bytes(content)
    assert main(["check", str(path)]) == 2
    error = capsys.readouterr().err
    assert said in error and "Traceback" not in error and error.count("\n") == 1


def test_a_file_that_is_not_there_is_one_sentence(tmp_path, capsys):
    assert main(["check", str(tmp_path / "none.json")]) == 2
    assert "could not be read (No such file or directory)" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["n", "plan", "cells", "tests", "tv", "tv_null_band", "verdict", "mode", "pooled_mass"])
def test_a_field_that_is_missing_or_of_another_kind_is_unreadable_or_altered_never_a_crash(record, tmp_path, name):
    for change in (lambda one: one.pop(name), lambda one: one.update({name: "x"}), lambda one: one.update({name: [{}]})):
        changed = copy.deepcopy(record)
        change(changed["answers"][0])
        path = tmp_path / "changed.json"
        path.write_text(json.dumps(changed))
        try:
            assert alter_record(read_certificate(path))
        except EvidenceError as error:
            assert "damaged" in str(error)


def test_a_statistic_that_is_not_installed_is_left_and_named(record):
    """Another package's test lowers the level of all tests. Without the package the rest is recomputed all the same."""
    made = copy.deepcopy(record)
    for one in made["answers"]:
        stored = read_test_report(one)
        extra = replace(stored.tests[1], name="of another package")
        plan = TestPlan.for_distance(stored.plan.n, stored.plan.length, stored.plan.tv, stored.plan.alpha, 1)
        joint = run_joint_tests(plan, stored.partition, stored.counts)
        others = [replace(test, alpha=plan.level) for test in (extra, *stored.tests[2:])]
        one |= build_answer(replace(stored, plan=plan, tests=(*joint, *others)))
    made |= {name: value for name, value in first_answer(made).items() if name in made and name != "cells"}
    assert not alter_record(seal(made))
    found = {line.field: line for line in check_certificate(seal(made))}
    line = found["1 shared distributions: of another package"]
    assert line.state == SELF_CONSISTENT and "'of another package' is not installed here" in line.reason
    assert found["1 shared distributions: chi-square"].state == CONFIRMED
