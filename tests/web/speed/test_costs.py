"""Whose costs count, on How fast? and Drafting methods: the choice, its link, computed speeds and their words, exports."""

from __future__ import annotations

import argparse
import csv
import io
import json
from dataclasses import replace

import pytest

from specviz.cli import plan as plan_command
from specviz.errors import SettingsError
from specviz.jobs.queue import FairQueue
from specviz.settings import Settings
from specviz.speed.records.cost_model import load_cost_models
from specviz.speed.records.methods import DRAFTING_METHODS
from specviz.speed.records.plan import PLAN_CHOICES
from specviz.web.common.cost_choice import MEASURED, apply_costs, list_cost_titles
from specviz.web.drafting_methods import export as methods_export
from specviz.web.drafting_methods import words
from specviz.web.drafting_methods.overview import build_overview
from specviz.web.drafting_methods.state import MethodsQuestion, MethodsState, build_first_settings, load_recorded_comparisons
from specviz.web.speed import export as plan_export
from specviz.web.speed import plan_figures
from specviz.web.speed.round_model import build_headline_model, build_machine_model
from specviz.web.speed.state import (
    SpeedQuestion,
    SpeedState,
    build_round_model,
    load_example_text,
    load_recorded_plans,
    place_sliders,
)

GPUS = ("h200-1.7b", "h200-8b")
CHOICES = (*GPUS, "two-cpu-cores")


def open_methods(costs: str, choice: str = "1") -> MethodsState:
    return MethodsState(MethodsQuestion(build_first_settings(Settings()), choice, costs=costs), FairQueue())


def open_plan(costs: str) -> SpeedState:
    return SpeedState(SpeedQuestion(load_example_text(), costs=costs), FairQueue())


def test_the_choices_are_the_timed_machine_the_same_from_its_pass_times_and_each_shipped_one():
    assert list_cost_titles() == {
        MEASURED: "two CPU cores, timed", "two-cpu-cores": "two CPU cores, computed", "h200-1.7b": "H200, target of 1.7B",
        "h200-8b": "H200, target of 8B",
    }  # fmt: skip


@pytest.mark.parametrize("costs", CHOICES)
def test_links_carry_the_choice_and_leave_the_first_one_out(costs):
    for question, kind in ((open_plan(costs).question, SpeedQuestion), (open_methods(costs).question, MethodsQuestion)):
        assert question.build_link()["costs"] == costs and kind.from_link(question.build_link(), Settings()) == (question, [])
        assert "costs" not in replace(question, costs=MEASURED).build_link()


def test_a_link_names_no_file_and_no_unknown_machine(tmp_path):
    for wrong in ("a100", "/etc/passwd", str(tmp_path)):
        for kind in (SpeedQuestion, MethodsQuestion):
            question, said = kind.from_link({"costs": wrong}, Settings())
            assert question.costs == MEASURED and said[0].startswith(
                "The link's machine whose costs count was left out: it must be one of measured, two"
            )
    with pytest.raises(SettingsError):
        replace(open_methods(MEASURED).question, costs="")


@pytest.mark.parametrize("costs", CHOICES)
def test_a_plans_words_and_pictures_are_those_of_the_chosen_costs(costs):
    state, measured = open_plan(costs), load_recorded_plans()["storybook 1"]
    plan, model = state.shown_plan, load_cost_models()[costs]
    assert plan == measured.with_cost_model(model) and state.shown_plan is plan, "the same object, so that pictures are kept"
    assert plan_figures.describe_gap(plan) == "", "what was measured here is no speed there"
    predicted = next(trace for trace in plan_figures.plot_factors(plan).data if trace.name == "predicted")
    assert list(predicted.y) == [row.speedup.value for row in plan.rows]
    round_model = build_round_model(state.question, measured, None)
    assert (round_model.machine, round_model.kind) == (model.title, "computed") and model.machine in round_model.origin
    assert round_model.passes[3] == pytest.approx(model.compute_pass(4) / model.target_only)
    assert place_sliders(state.question, round_model).c == pytest.approx(model.find_draft(1).step / model.target_only)


def test_every_recorded_plan_has_speeds_under_every_costs():
    for choice in PLAN_CHOICES:
        for costs in CHOICES:
            plan = apply_costs(load_recorded_plans()[choice.key], costs)
            assert all(0.5 < row.speedup.value < 3.0 for row in plan.rows) and plan.verdict != "no verdict"


@pytest.mark.parametrize("costs", GPUS)
@pytest.mark.parametrize("choice", ("0", "1", "top-p .9"))
def test_with_the_costs_of_a_gpu_large_trees_gain_what_they_lose_on_two_cores(costs, choice):
    state = open_methods(costs, choice)
    measured = state.shown_result
    computed = state.apply_costs(measured)
    pairs = [[words.compute_speed(one.find_row(key), one).value for one in (computed, measured)] for key in words.WIDE]
    assert all(there > here and here < 1.0 for there, here in pairs) and sum(there > 1.0 for there, _ in pairs) >= 2
    said = words.explain_large_trees(computed, measured)
    growth = {"h200-1.7b": "1.20", "h200-8b": "1.10"}[costs]
    assert any(f"A pass over {tokens} tokens takes {growth} times" in said for tokens in (15, 16))
    assert said.count("as measured") == 3
    assert ("so large trees gain" in said) == all(there > 1.0 for there, _ in pairs)
    assert f"costs of {computed.cost_model.title}" in words.describe_comparison(computed)
    assert words.explain_large_trees(measured, measured) == ""


def test_a_computed_time_is_drafting_pass_and_rest_over_the_tokens_of_a_pass():
    state, model = open_methods("h200-8b"), load_cost_models()["h200-8b"]
    computed = state.apply_costs(state.shown_result)
    draft, tree, heads, oracle = (computed.find_row(key) for key in ("draft", "eagle-wide", "medusa-wide", "oracle"))
    step, rest = model.drafts[0].step, model.drafts[0].rest
    assert 2.9 < draft.nodes < 3.0, "the last rounds of a text draft fewer tokens; they count as whole rounds"
    assert draft.ms.value * draft.per_pass == pytest.approx(3 * step + model.compute_pass(4) + rest)
    assert tree.ms.value * tree.per_pass == pytest.approx(3 * step + model.compute_pass(1 + tree.nodes) + rest)
    assert heads.ms.value * heads.per_pass == pytest.approx(step + model.compute_pass(1 + heads.nodes) + rest)
    assert oracle.ms.value * oracle.per_pass > oracle.nodes * model.passes[1]
    assert computed.find_row("target").ms.value == model.target_only and computed.find_row("early-exit").ms is None


def test_pass_times_of_the_same_machine_give_a_chains_timed_speed_and_too_much_for_trees():
    """What a computation from pass times leaves out: nothing of a chain beyond the interval of its timing, the work of a tree beside its passes."""
    measured = load_recorded_comparisons()["1"]
    computed = open_methods("two-cpu-cores").apply_costs(measured)
    speeds = {
        key: [words.compute_speed(one.find_row(key), one) for one in (computed, measured)] for key in ("draft", "tree-wide")
    }
    there, here = speeds["draft"]
    assert here.low <= 1.1 * there.value and there.value <= 1.1 * here.high, "of one day's passes and another's rounds"
    there, here = speeds["tree-wide"]
    assert there.value > here.high


def test_drafting_methods_and_how_fast_compute_one_speed_of_the_draft_model():
    for name, costs in load_cost_models().items():
        computed = open_methods(name).apply_costs(load_recorded_comparisons()["1"])
        model = build_machine_model(build_headline_model(None), costs, None)
        assert words.compute_speed(computed.find_row("draft"), computed).value == pytest.approx(
            model.compute_speed(model.alpha, model.c, model.gamma)
        )


def test_the_chart_of_computed_speeds_has_no_ranges_and_says_what_is_not_counted():
    state = open_methods("h200-8b")
    payload = build_overview("here", state.apply_costs(state.shown_result))
    (there,) = payload["views"]
    lines = {line["key"]: line for line in there["speeds"]}
    assert sorted(lines) == sorted(DRAFTING_METHODS) and "computed" in there["note"] and "not counted" in there["note"]
    for key, line in lines.items():
        assert (line["speed"] is None) == (key == "early-exit")
        if line["speed"] and key != "target":
            assert line["speed"]["computed"] and line["speed"]["span"] == ""
            faster = "faster, but lossy" if key == "typical" else "faster"
            assert line["speed"]["verdict"] == (
                "at most" if DRAFTING_METHODS[key].branches else faster if float(line["speed"]["said"]) > 1.0 else "slower"
            )
    (here,) = build_overview("here", state.shown_result)["views"]
    assert "95% range" in here["note"] and "computed" not in here["note"]
    rows = {row["method"]: row for row in words.build_detail_rows(state.apply_costs(state.shown_result))}
    assert "(" not in rows["EAGLE tree of 15"]["times target only"] and rows["Draft model"]["ms per token, computed"]


def test_exports_name_whose_costs_they_are_and_keep_what_was_measured(monkeypatch):
    state = open_plan("h200-8b")
    package = plan_export.build_offer(state).build()
    assert package.facts["costs"]["machine"] == "NVIDIA H200" and "costs=h200-8b" in package.facts["permalink"]
    assert (
        "--costs h200-8b" in package.facts["commands"][0]
        and "costs of H200, target of 8B" in package.build_file("caption.txt").decode()
    )
    assert json.loads(package.build_file("plan.json"))["cost_model"]["title"] == "H200, target of 8B"
    parser = argparse.ArgumentParser()
    plan_command.add_arguments(parser)
    assert parser.parse_args(package.facts["commands"][0].split()[4:]).costs == "h200-8b"
    assert "costs" not in plan_export.build_offer(open_plan(MEASURED)).build().facts

    state = open_methods("h200-1.7b")
    package = methods_export.build_offer(state).build()
    assert package.facts["costs"]["title"] == "H200, target of 1.7B"
    rows = {row["row"]: row for row in csv.DictReader(io.StringIO(package.build_file("rows.csv").decode("utf-8-sig")))}
    assert rows["draft"]["comparison"] == "computed" and float(rows["draft"]["speed"]) > 1.4
    kept = json.loads(package.build_file("methods.json"))["comparisons"]["1"]["rows"]
    assert [row["ms"] and row["ms"]["value"] for row in kept] == [row.ms and row.ms.value for row in state.shown_result.rows]
