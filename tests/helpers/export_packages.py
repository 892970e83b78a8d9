"""What tests of exports share: a package of every kind from recorded or made records, and its tables and figures as plain numbers."""

from __future__ import annotations

import csv
import io
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from specviz.evidence.mistakes.comparison import DistanceCurve, DraftingCounts
from specviz.evidence.serving_setups import records
from specviz.evidence.testing.hypothesis_tests import TestPlan as Planned
from specviz.evidence.testing.hypothesis_tests import TestReport, run_joint_tests
from specviz.evidence.testing.partition import Partition
from specviz.evidence.testing.report import build_answer
from specviz.evidence.testing.results import CellShares, SeedPValues
from specviz.export import report as of_report
from specviz.export.package import Package
from specviz.settings import Settings
from specviz.speed.records import methods, passage
from specviz.speed.records.batches import BatchSpeeds
from specviz.speed.records.plan import SpeedPlan, load_plans
from specviz.speed.records.study import Study
from specviz.trace import Trace
from specviz.web.drafting_methods.export import build_drafting_methods_package
from specviz.web.exactness.export import build_exactness_package
from specviz.web.mistakes.export import build_mistakes_package
from specviz.web.one_round.export import build_round_package
from specviz.web.one_token.export import build_token_package
from specviz.web.serving_limits.export import build_serving_limits_package
from specviz.web.speed.export import build_speed_package
from specviz.web.speed.surface_figures import Spot
from specviz.web.whole_text.export import build_passage_package

TRACES = Path(__file__).resolve().parents[2] / "assets" / "traces"
SAID = {"models": {"pair": "storybook", "dtype": "float32"}, "versions": {"specviz": "0"}}
SETTINGS = Settings(prompt="Once", max_new_tokens=1)
PLAN, BATCH, STUDIED, CHOICE, DISTRIBUTION, ARM = "storybook 1", "storybook 1", "storybook", "1", "temperature 0.8", "bf16"
WHAT_IF = (4, Spot(0.7, 0.1), Spot(0.61, 0.23))
FILLING = CellShares(
    "Speculative decoding", ("·the", "·a", "any other text", "·it …"), (True, True, False, False), (0.3, 0.25, 0.1, 0.35),
    (310, 245, 100, 345), (0.26, 0.21, 0.07, 0.29), (0.34, 0.29, 0.13, 0.41), 1000,
)  # fmt: skip
WRONG = CellShares(
    "R5", ("·the", "·a", "any other text", "·it …"), (True, True, False, False), (0.3, 0.25, 0.1, 0.35), (420, 180, 120, 280),
    (0.26, 0.21, 0.07, 0.29), (0.34, 0.29, 0.13, 0.41), 1000,
)  # fmt: skip
FLAT = SeedPValues(tuple(round((0.37 * k) % 1.0, 4) for k in range(40)), 300, 0, 12)
LOOKS = tuple(
    {"decoder": name, "draws": n, "test": "chi-square", "p_value": p, "level": 0.0005, "detectable_tv": tv, "verdict": verdict}
    for name, n, p, tv, verdict in (("Speculative decoding", 100, 0.41, 0.31, "consistent"), ("R5", 1000, 1e-7, 0.09, "rejected"))
)
CURVE = DistanceCurve(("right rule", "wrong rule"), 1, (10, 100, 1000), ((0.2, 0.3), (0.06, 0.25), (0.02, 0.24)), (0.2, 0.07, 0.021),
              (0.3, 0.1, 0.034), (None, True, None))  # fmt: skip
SPEEDS = (DraftingCounts("right rule", 96, 1000, 600, 1500, 800), DraftingCounts("wrong rule", 95, 1001, 703, 1607, 809))
COLUMNS = {
    "p": (0.5, 0.3, 0.2), "q": (0.25, 0.45, 0.3), "overlap": (0.25, 0.3, 0.2), "residual": (0.25, 0.0, 0.0),
    "accepted": (0.25, 0.3, 0.2), "replaced": (0.25, 0.0, 0.0),
}  # fmt: skip
TWO_RULES = (("token by token", 0.75, 0.5625, 1e-16), ("block", 0.75, 0.6, 2e-16))


def read_raw(name: str) -> Any:
    """A recorded file as it is on the disk, with which every number of an export is compared. Read once; not to be changed."""
    return json.loads(read_text(name))


def read_text(name: str) -> str:
    return (TRACES / f"{name}.json").read_text(encoding="utf-8")


@cache
def build_report() -> dict[str, Any]:
    """A report of two modes by hand, one cell without a draw."""
    partition = Partition(
        ((), (1,), (2,), (3,), (4,), (4, 5)),
        np.array([0.1, 0.298, 0.002, 0.2, 0.2, 0.2]),
        2,
        np.array([False, False, False, False, False, True]),
    )
    answers = []
    for mode, counts in (("shared distributions", (500, 1480, 0, 1020, 1000, 1000)), ("engine", (90, 310, 3, 197, 204, 196))):
        plan, counted = Planned.for_distance(sum(counts), 2, 0.2), np.array(counts)
        answers.append(build_answer(TestReport(mode, plan, run_joint_tests(plan, partition, counted), partition, counted)))
    return {
        "decoder": "speculative", **{key: value for key, value in answers[0].items() if key != "cells"}, "answers": answers, "seed": 7,
        "settings": Settings(prompt="Once", max_new_tokens=2).to_record(), "pieces": {str(k): f" {k}".encode().hex() for k in range(1, 6)},
        "models": {"pair": "storybook", "device": "cpu", "dtype": "float32"}, "versions": {"specviz": "0"}, "digest": "0",
    }  # fmt: skip


PICTURES = {  # of each package: tests have them as parameters, and building packages takes a second of each process
    "report": ("histogram-1-shared-distributions", "tests-1-shared-distributions", "histogram-2-engine", "tests-2-engine"),
    "exactness": ("draws-1", "draws-2", "p-values"),
    "mistakes": ("distance", "speed", "draws"),
    "one_round": ("round-1",),
    "one_token": ("distributions", "out"),
    "speed": (
        *("tokens", "speed", "positions", "acceptance-over-temperature", "acceptance-over-top-p", "foretold", "confidence"),
        *("many-texts", "passes", "timeline", "what-if"),
    ),
    "drafting_methods": ("same-distribution", "shortcut"),
    "whole_text": ("along", "lorenz", "kinds"),
    "serving_limits": ("distances", "margins", "spread"),
}


@cache
def build_packages() -> dict[str, Package]:
    """One package of every kind that leaves the app."""
    trace = Trace.from_json(read_text("opening"))
    plans = load_plans(read_text("plans"))
    sections = ((Study.from_json(read_text("study")), STUDIED), (BatchSpeeds.from_json(read_text("batches")), BATCH), WHAT_IF)
    one = passage.load_passages(read_text("passage"))[DISTRIBUTION]
    return {
        "report": of_report.build_report_package(build_report()),
        "exactness": build_exactness_package(SETTINGS, (FILLING, WRONG), LOOKS, FLAT, "Consistent.", SAID),
        "mistakes": build_mistakes_package(SETTINGS, (FILLING, WRONG), LOOKS, CURVE, SPEEDS, "Caught.", SAID),
        "one_round": build_round_package(trace, 0, {}, trace.models),
        "one_token": build_token_package("Two distributions.", ("a", "b", "c"), COLUMNS, TWO_RULES, SAID),
        "speed": build_speed_package(plans[PLAN], SAID, *sections),
        "drafting_methods": build_drafting_methods_package(
            methods.load_comparisons(read_text("methods"))[CHOICE],
            CHOICE,
            SAID,
            SpeedPlan.from_json(read_text("block")),
            read_raw("matrix"),
        ),
        "whole_text": build_passage_package(one, {DISTRIBUTION: one.survey}, None, SAID),
        "serving_limits": build_serving_limits_package(records.SetupComparison.from_json(read_text("setups")), ARM, SAID),
    }


@cache
def get_page(kind: str, name: str) -> Any:
    """A Plotly figure of a package, made once for all tests; not to be changed."""
    return build_packages()[kind].pictures[name].page()


def read_table(kind: str, name: str) -> list[dict[str, str]]:
    """A CSV of a package, row by row, as a spreadsheet reads it."""
    return list(csv.DictReader(io.StringIO(build_packages()[kind].build_file(name).decode("utf-8-sig"))))


def assert_cells(found: list[dict[str, str]], expected: list[dict[str, Any]], rel: float = 0.0) -> None:
    """Every cell of every row: numbers to the last digit (or to ``rel``), None as an empty cell, no column left over."""
    assert len(found) == len(expected) > 0
    for number, (row, wanted) in enumerate(zip(found, expected, strict=True), start=1):
        assert list(row) == list(wanted), f"row {number}: columns"
        for column, value in wanted.items():
            assert is_same_value(row[column], value, rel), (
                f"row {number}, {column}: {row[column]!r} in the table, {value!r} in the record"
            )


def is_same_value(cell: str, value: Any, rel: float) -> bool:
    if value is None or isinstance(value, bool | str):
        return cell == ("" if value is None else str(value))
    return bool(cell) and abs(float(cell) - value) <= rel * abs(value)


def list_interval(name: str, found: dict[str, float] | None) -> dict[str, float | None]:
    """An interval of a record as three columns."""
    return {f"{name}{end}": found and found[key] for key, end in (("value", ""), ("low", "_low"), ("high", "_high"))}


Points = list[tuple[float, float]]


def list_series(figure: Any) -> dict[str, Points]:
    """What a Plotly figure shows, by the name of each trace: points of lines and marks, ends of bars; errors and starts beside."""
    found: dict[str, Points] = {}
    for number, trace in enumerate(figure.data):
        if trace.type == "heatmap":
            continue
        name = trace.name or f"trace {number}"
        while name in found:
            name += "'"
        across = trace.type == "bar" and trace.orientation == "h"
        starts = [0.0] * len(trace.x) if trace.type != "bar" or trace.base is None else list(trace.base)
        points = [(x, y) for x, y in zip(trace.x, trace.y, strict=True) if y is not None]  # None: the line has a gap here
        starts = starts[: len(points)]
        found[name] = [(a + x, y) if across else (x, y) for a, (x, y) in zip(starts, points, strict=True)]
        if any(starts):
            found[f"{name}, start"] = [(a, y) for a, (_, y) in zip(starts, points, strict=True)]
        for axis, sideways in (("error_x", True), ("error_y", False)):
            error = getattr(trace, axis, None)
            if error is None or error.array is None:
                continue
            less = error.array if error.arrayminus is None else error.arrayminus
            for end, by in (("low", [-e for e in less]), ("high", error.array)):
                found[f"{name}, {end}"] = [(x + e, y) if sideways else (x, y + e) for (x, y), e in zip(points, by, strict=True)]
    return found


def list_values(points: Points, axis: int) -> list[float]:
    return [point[axis] for point in points]
