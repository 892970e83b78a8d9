"""'The node budget is chosen from the measured curve': what a tree without a size gets, by name and in the gallery, and that records say so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specviz.cli import record
from specviz.errors import TraceError
from specviz.export.manifest import build_decode_command
from specviz.proposers.trees import node_count
from specviz.proposers.trees.node_count import SCHEMA, NodeCountCurve, NodeCountPoint, choose_node_count, is_sized_by_curve
from specviz.settings import DEFAULT_TREE_SHAPE, NODES_MAX, Settings
from specviz.speed.measurement.costs import NodeBudget, PassCostCurves
from specviz.speed.records.methods import DRAFTING_METHODS, MethodRow
from specviz.web.drafting_methods import words

CURVE = NodeCountCurve(
    {
        "tree 0": (NodeCountPoint(2, 2.0, 1.3), NodeCountPoint(6, 2.5, 1.5), NodeCountPoint(16, 2.9, 1.2)),
        "tree 1": (NodeCountPoint(2, 1.8, 1.2), NodeCountPoint(6, 2.1, 1.1)),
        "medusa 0": (NodeCountPoint(2, 1.4, 1.1), NodeCountPoint(16, 2.0, 0.9)),
    },
    "storybook",
    {"processor": "a machine"},
    "21 November 2026",
)


@pytest.fixture
def curve(monkeypatch):
    monkeypatch.setattr(node_count, "load_recorded_curve", lambda: CURVE)
    return CURVE


@pytest.mark.parametrize(
    ("proposer", "temperature", "nodes"), (("tree", 0.0, 6), ("tree", 0.3, 2), ("tree", 1.0, 2), ("medusa", 0.0, 2))
)
def test_a_tree_without_a_size_gets_the_nodes_that_were_fastest(curve, proposer, temperature, nodes):
    assert choose_node_count(Settings(proposer=proposer, temperature=temperature)).tree_budget == nodes


def test_what_was_asked_for_stays_and_where_nothing_was_measured_the_usual_shape_does(curve):
    for asked in (
        Settings(),
        Settings(proposer="tree", tree="2-1"),
        Settings(proposer="tree", tree_budget=9),
        Settings(proposer="medusa"),
    ):
        assert choose_node_count(asked) == asked


def test_without_a_record_the_usual_shape_stays(monkeypatch):
    monkeypatch.setattr(node_count, "load_recorded_curve", lambda: None)
    assert choose_node_count(Settings(proposer="tree")) == Settings(proposer="tree")


def test_the_record_that_comes_with_the_project_names_a_number_for_every_tree_that_ships():
    """The figures that it must not lose: heads' trees at temperature 0 reach 1.6 tokens per pass at some size."""
    known = node_count.load_recorded_curve()
    assert known.pair == "storybook" and known.date and known.machine["processor"]
    for proposer in record.TREE_CURVES:
        for temperature in (0.0, 1.0):
            points = known.list_points(proposer, temperature)
            assert [p.nodes for p in points] == sorted({p.nodes for p in points}) and points[-1].nodes <= NODES_MAX
            assert known.find_best(proposer, temperature).speed == max(point.speed for point in points)
    assert max(point.tokens_per_pass for point in known.list_points("medusa", 0.0)) >= 1.6


def test_a_record_comes_back_and_a_damaged_one_is_a_sentence():
    assert NodeCountCurve.from_json(CURVE.to_json()) == CURVE
    for broken in (
        "{",
        "[]",
        CURVE.to_json().replace(SCHEMA.tag, "specviz-trees-0"),
        CURVE.to_json().replace('"nodes": 16', '"nodes": 900'),
    ):
        with pytest.raises(TraceError):
            NodeCountCurve.from_json(broken)


def test_the_command_that_repeats_a_run_of_the_usual_shape_names_it():
    """On a command line a tree without a size would have another one."""
    assert f"--tree {DEFAULT_TREE_SHAPE}" in build_decode_command(Settings(proposer="tree"), {})
    assert "--tree " not in build_decode_command(Settings(proposer="tree", tree_budget=4), {}) + build_decode_command(
        Settings(), {}
    )


def test_rows_of_the_gallery_grow_as_far_as_pays_and_the_larger_ones_do_not(curve):
    for key, entry in DRAFTING_METHODS.items():
        under = entry.build_settings(Settings(temperature=0.0))
        assert (under.tree_budget is not None) == entry.size_from_curve, key
    assert {key for key, entry in DRAFTING_METHODS.items() if entry.size_from_curve} == {"tree-top", "tree", "medusa"}
    assert {DRAFTING_METHODS[key].settings["tree"] for key in ("tree-wide", "medusa-wide")} == {DEFAULT_TREE_SHAPE}


def test_a_row_says_where_its_size_comes_from(curve):
    from specviz.trace import Trace

    settings = DRAFTING_METHODS["tree-top"].build_settings(Settings(temperature=0.0))
    row = MethodRow("tree-top", "token by token", True, trace=Trace(settings.to_record(), (1,), (), "", {}, {}))
    said = words.explain_tree_size(row, curve)
    assert (
        "At most 6 nodes, the fastest of 2, 6, 16 " in said
        and "1.50 times the speed of target-only" in said
        and "2.90 tokens per target pass" in said
    )
    assert words.explain_tree_size(replace(row, key="tree-wide"), curve) == "" == words.explain_tree_size(row, None)


def test_recording_keeps_the_points_of_the_measured_curves(monkeypatch, tmp_path):
    from specviz.__main__ import main

    budgets = {
        f"{name}, temperature {t}": (NodeBudget(2, 1.5, 0.1, 1.1), NodeBudget(4, 1.9, 0.1, 1.3 - t))
        for name in ("draft's tree",)
        for t in (0, 1)
    }
    monkeypatch.setattr(
        "specviz.speed.measurement.costs.measure_pass_curves", lambda *_: PassCostCurves({1: 1.0}, {}, {}, 4, 2.0, budgets)
    )
    out = tmp_path / "trees.json"
    assert main(["record", "trees", "--out", str(out)]) == 0
    known = NodeCountCurve.from_json(out.read_text())
    assert [known.find_best("tree", t).nodes for t in (0.0, 1.0)] == [4, 2] and known.find_best("medusa", 0.0) is None
    assert all(map(is_sized_by_curve, record.TREE_CURVES)) and not is_sized_by_curve("eagle")
