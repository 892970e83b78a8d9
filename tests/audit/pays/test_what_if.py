"""Another draft at a server's costs: tokens per round are the plan's, and the costs are those of the report."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from specviz.audit.pays import what_if
from specviz.audit.pays.load import LoadPlan
from specviz.audit.pays.record import SCHEMA, parse_pays_record
from specviz.audit.pays.report import build_report, format_report
from specviz.audit.pays.what_if import METHODS, ServerCosts, describe_assumption, forecast_methods
from specviz.errors import SettingsError
from specviz.settings import Settings
from specviz.speed.records.server_commands import MIXED_WINDOWS
from tests.audit.pays.simulation import SimulatedServer

SERVER = SimulatedServer(gamma=2, noise=0.0, drift=0.0)  # 10 ms a token, 12 ms a round
PROMPTS = ("the river ran by the house", "the old woman ran by the river")


@pytest.fixture(scope="module")
def report() -> dict:
    plan = LoadPlan((1,), turns=3)
    return build_report(SERVER.simulate(plan, 1), plan, {}, "2 of 'mine.txt'", {}, "specviz pays URL", "2026-11-27")


def test_every_method_is_forecast_at_the_costs_of_the_server(pair, report):
    costs = ServerCosts.from_report(report)
    assert costs.token == pytest.approx(0.010, rel=0.01) and costs.per_draft == pytest.approx(0.001, rel=0.1)
    settings = Settings(pair=pair.name, max_new_tokens=8)
    found = forecast_methods(pair, settings, PROMPTS, report)
    assert [one["proposer"] for one in found] == [*METHODS]
    for one in found:
        assert [row["gamma"] for row in one["rows"]] == [1, 2, 3, 4], "twice the server's own length"
        for row in one["rows"]:
            factor = costs.token / (costs.token + row["gamma"] * costs.per_draft)
            assert row["speedup"]["value"] == pytest.approx(row["tokens_per_round"]["value"] * factor)
            assert 1.0 <= row["tokens_per_round"]["value"] <= row["gamma"] + 1
        best = max(row["speedup"]["value"] for row in one["rows"])
        assert f"{best:.2f}" in one["sentence"] and bool(one["lines"]) == (best > 1.0)
    whole = report | {"what_if": found, "remarks": [describe_assumption(report)]}
    assert parse_pays_record(SCHEMA.format_record(whole).encode()) == json.loads(SCHEMA.format_record(whole))
    assert all(one["sentence"] in format_report(whole) for one in found) and "10.00 ms for a token" in format_report(whole)


def test_the_lines_know_what_a_draft_with_windows_needs(pair, report, monkeypatch):
    plain, settings = what_if.make_plan, Settings(pair=pair.name, max_new_tokens=8)

    def plan_mixed(*arguments, **options):
        plan = plain(*arguments, **options)
        return replace(plan, models={**plan.models, "draft": {**plan.models["draft"], "windows": MIXED_WINDOWS}})

    def list_vllm_lines() -> list[str]:
        found = forecast_methods(pair, settings, PROMPTS, report)
        return [line for line in next(one["lines"] for one in found if one["proposer"] == "draft") if line.startswith("vLLM")]

    option = "--disable-hybrid-kv-cache-manager"
    (usual,) = list_vllm_lines()
    monkeypatch.setattr(what_if, "make_plan", plan_mixed)
    (mixed,) = list_vllm_lines()
    assert option not in usual and option in mixed


def test_without_the_time_of_a_round_nothing_is_forecast(report):
    for missing in ({"seconds_per_token": None}, {"rounds": []}, {"gamma": None}):
        with pytest.raises(SettingsError, match="needs times of the server's rounds"):
            ServerCosts.from_report(report | missing)
