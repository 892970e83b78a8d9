"""Cost models: shipped ones follow from recorded measurements, computed speeds are tokens over costs, hostile files are a sentence."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from statistics import median

import pytest

from specviz.errors import SettingsError, TraceError
from specviz.records import ASSETS
from specviz.settings import Settings
from specviz.speed.prediction import machine_costs as measurement
from specviz.speed.records.cost_model import CostModel, DraftCosts, find_cost_model, load_cost_models
from specviz.speed.records.gpu_costs import list_gpu_costs
from specviz.speed.records.methods import load_comparisons
from specviz.speed.records.plan import RoundCostCurve, SpeedPlan, load_plans

MODEL = CostModel(
    "a machine", "two wheels", "1 May 2026", "by hand", 10, 4.0, {1: 4.0, 3: 5.0, 9: 8.0}, (DraftCosts(1, 0.5, 1.0), DraftCosts(9, 4.0, 2.0))
)  # fmt: skip


@pytest.fixture(scope="module")
def plans() -> dict[str, SpeedPlan]:
    return load_plans((ASSETS / "traces" / "plans.json").read_text(encoding="utf-8"))


def test_passes_between_and_beyond_the_measured_ones_lie_on_lines():
    assert [MODEL.compute_pass(n) for n in (1, 2, 3, 6, 9, 11)] == pytest.approx([4.0, 4.5, 5.0, 6.5, 8.0, 9.0])
    assert MODEL.compute_round(2, 2, MODEL.drafts[0]) == pytest.approx(2 * 0.5 + 5.0 + 1.0)


def test_the_draft_of_the_nearest_depth_is_taken_and_copied_tokens_cost_no_step():
    assert [MODEL.find_draft(n).layers for n in (None, 1, 4, 28)] == [1, 1, 1, 9]
    assert MODEL.find_draft(0) == DraftCosts(0, 0.0, 1.0)
    bare = replace(MODEL, drafts=(DraftCosts(0, 0.1, 0.2), *MODEL.drafts))
    assert (bare.find_draft(0).rest, bare.find_draft().layers) == (0.2, 1)


def test_the_shipped_models_of_the_gpu_follow_from_its_record():
    layers = {"1.7B": 28, "8B": 36}
    for name, model in list_gpu_costs()["h200"].build_cost_models(layers).items():
        shipped = load_cost_models()[f"h200-{name.lower()}"]
        assert shipped == model
        assert [draft.layers for draft in model.drafts] == [2, 28] and model.target_only == model.passes[1] == min(
            model.passes.values()
        )


def test_the_shipped_model_of_two_cores_follows_from_the_recorded_plans(plans):
    model, drafted, copied = load_cost_models()["two-cpu-cores"], plans["storybook 1"].costs, plans["ngram 1"].costs
    assert drafted.list_passes().items() <= model.passes.items()
    assert model.drafts == (copied.fit_draft(0), drafted.fit_draft(1)) and model.target_only == pytest.approx(
        1e3 * median(drafted.target_only), abs=1e-4
    )


@pytest.mark.parametrize("temperature", ("0", "0.6", "1"))
def test_the_model_of_two_cores_predicts_what_the_probes_of_that_machine_did(plans, temperature):
    """The same passes timed in other runs differ by up to 8% there; without the rest of a round, say, it would be 15% off."""
    for draft in ("storybook", "storybook-plain"):
        plan = plans[f"{draft} {temperature}"]
        for row, computed in zip(plan.rows, plan.with_cost_model(load_cost_models()["two-cpu-cores"]).rows, strict=True):
            assert computed.speedup.value == pytest.approx(row.speedup.value, rel=0.1)


def test_a_computed_speed_is_the_tokens_of_the_pair_over_the_costs_of_the_machine(plans):
    plan = replace(plans["storybook 1"], rows=tuple(replace(row, round_sizes=()) for row in plans["storybook 1"].rows))
    computed = plan.with_cost_model(MODEL)
    for before, row in zip(plan.rows, computed.rows, strict=True):
        cost = MODEL.compute_round(row.gamma, row.gamma, MODEL.drafts[0]) / MODEL.target_only
        assert row.tokens == before.tokens and row.speedup.value == pytest.approx(row.tokens.value / cost)
    assert computed.target_only_rates is None and computed.lost is None and all(one.factor is None for one in computed.checked)
    assert "Computed from both: tokens per target pass of this pair, costs of a machine." in computed.in_words
    assert computed.costs.c == pytest.approx(0.5 / 4.0) and computed.find_row(int(computed.best.value)).speedup.value > 1.0


def test_rounds_without_draft_tokens_cost_what_they_cost(plans):
    """Copied tokens are often none: the mean round is much shorter than one with gamma draft tokens."""
    row = plans["ngram 1"].find_row(4)
    assert sum(row.round_sizes) == pytest.approx(1.0, abs=1e-5) and row.round_sizes[0] > 0.5
    curve = RoundCostCurve.from_cost_model(MODEL, 4, MODEL.find_draft(0))
    expected = sum(share * cost for share, cost in zip(row.round_sizes, curve.rounds[0], strict=True))
    assert row.compute_mean_round(curve.rounds[0]) == pytest.approx(expected, rel=1e-5)


def test_a_draft_as_deep_as_its_target_loses_on_the_gpu_and_hardly_pays_if_every_token_were_accepted(plans):
    (said,) = plans["storybook 1"].with_cost_model(load_cost_models()["h200-1.7b"]).describe_drafts()
    assert said.startswith("A draft of 28 layers beside this target of 28")
    (row, most), = plans["storybook 1"].with_cost_model(load_cost_models()["h200-1.7b"]).compare_drafts().values()  # fmt: skip
    assert row.speedup.value < 1.0 < most < 1.2
    (row, most), = plans["storybook 1"].with_cost_model(load_cost_models()["h200-8b"]).compare_drafts().values()  # fmt: skip
    assert most > 2.0
    assert plans["ngram 1"].with_cost_model(MODEL).describe_drafts() == [] == plans["storybook 1"].describe_drafts()


def test_the_draft_is_the_one_as_deep_as_the_pairs_own_where_that_is_known(plans):
    plan = replace(plans["storybook 1"], models={"draft": {"layers": 28}})
    model = load_cost_models()["h200-8b"]
    assert plan.with_cost_model(model).costs.c == pytest.approx(model.drafts[1].step / model.target_only)


def test_a_plan_with_other_costs_is_read_back_and_a_measured_one_has_no_word_of_them(plans):
    computed = plans["storybook 0"].with_cost_model(MODEL)
    assert SpeedPlan.from_json(computed.to_json()) == computed
    assert "cost_model" not in plans["storybook 0"].to_record()


def test_a_file_is_read_back_and_a_name_finds_a_shipped_one(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(MODEL.to_json())
    assert find_cost_model(str(path)) == MODEL and find_cost_model("h200-8b").machine == "NVIDIA H200"


def test_an_unknown_name_lists_the_names():
    with pytest.raises(
        SettingsError, match=r"costs must be h200-1\.7b, h200-8b, two-cpu-cores, or a file with a cost model, got 'a100'"
    ):
        find_cost_model("a100")


def _change(**changes: object) -> str:
    return json.dumps(json.loads(MODEL.to_json()) | changes)


@pytest.mark.parametrize(
    ("text", "said"),
    (
        ("", "damaged, or no JSON"),
        ("[]", "damaged"),
        ("{}", "has schema 'None'"),
        (json.dumps({key: value for key, value in json.loads(MODEL.to_json()).items() if key not in ("passes", "drafts")}), "lacks drafts, passes"),
        (_change(alone=0), "alone must be a number of milliseconds above 0"),
        (_change(alone=True), "alone must be of type float"),
        (_change(alone=1e9), "alone must be"),
        (_change(passes={"1": 4.0}), "passes must be times of a pass over 1 token and over at least one larger number"),
        (_change(passes={"2": 4.0, "3": 5.0}), "passes must be"),
        (_change(passes={"x": 4.0}), "the key 'x', which is no int"),
        (_change(passes={"1": 1.0, "-3": 5.0}), "tokens of a pass must be"),
        (_change(passes={"1": 1.0, "3": -5.0}), "passes of 3 tokens must be"),
        (_change(drafts=[]), "drafts must be 1 to 16 of different depth"),
        (_change(drafts=[{"layers": 0, "step": 0.0, "rest": 1.0}]), "at least one with layers"),
        (_change(drafts=[{"layers": 2, "step": 0.0, "rest": 1.0}]), "step of a draft must be"),
        (_change(drafts=2 * [{"layers": 2, "step": 1.0, "rest": 1.0}]), "of different depth"),
        (_change(title=""), "title must be one line of 1 to 300 characters"),
        (_change(machine="a\nb"), "machine must be one line"),
        (_change(more=1), "has more, which is not known"),
        (MODEL.to_json().replace("8.0", "NaN"), "NaN is no number of JSON"),
        ('{"schema":' * 5000, "damaged, or no JSON"),
    ),
)  # fmt: skip
def test_a_hostile_file_is_refused_with_a_sentence(tmp_path, text, said):
    path = tmp_path / "costs.json"
    path.write_text(text)
    with pytest.raises(TraceError, match="cost model") as raised:
        find_cost_model(str(path))
    assert said in str(raised.value)


def test_this_machine_is_measured_with_its_own_pair_and_read_back(pair, monkeypatch):
    monkeypatch.setattr(measurement, "GAMMA", 2)
    monkeypatch.setattr(measurement, "NODES", (4,))
    monkeypatch.setattr(measurement, "find_baseline", lambda *_: None)
    settings = Settings(max_new_tokens=6, temperature=0.0)
    model = measurement.measure_cost_model(pair, settings, [pair.encode("Once upon"), pair.encode("The old bear")], 2)
    assert CostModel.from_json(model.to_json()) == model and list(model.passes) == [1, 2, 3, 5]
    assert [draft.layers for draft in model.drafts] == [0, pair.draft.config.num_hidden_layers]
    assert model.layers == pair.target.config.num_hidden_layers and model.machine.endswith("cores")
    assert [measurement.format_parameters(n) for n in (10_688_768, 1_720_574_976, 8e9, 360e6, 52_000)] == [
        "11M",
        "1.7B",
        "8B",
        "360M",
        "52K",
    ]


PREDICTION = ASSETS.parent / "docs" / "explanation" / "prediction.md"


def test_the_docs_table_is_what_the_models_give_and_their_example_is_a_cost_model():
    text = PREDICTION.read_text(encoding="utf-8").split("## Whose costs count")[1]
    (example,) = re.findall(r"```json\n(.*?)```", text, re.S)
    assert CostModel.from_json(example).find_draft().step == 0.4
    recorded = load_comparisons((ASSETS / "traces" / "methods.json").read_text(encoding="utf-8"))["1"]
    columns = [recorded, *(recorded.with_cost_model(load_cost_models()[name]) for name in ("h200-1.7b", "h200-8b"))]
    rows = {
        "draft model, gamma 3": "draft",
        "draft model, tree": "tree-wide",
        "Medusa heads": "medusa-wide",
        "EAGLE head": "eagle-wide",
    }
    for label, key in rows.items():
        _, *computed = (f"{one.find_row('target').ms.value / one.find_row(key).ms.value:.2f}" for one in columns)
        measured = f"{recorded.find_row(key).speed.value:.2f}"
        bound = "" if key == "draft" else "at most "  # a computed speed leaves out what growing a tree costs
        speeds = " | ".join([measured, *(bound + one for one in computed)])
        assert re.search(rf"^\| {label}[^|]*\| {re.escape(speeds)} \|$", text, re.M), f"{label}: {speeds}"
    model = load_cost_models()
    for name, said in (("h200-8b", "1.10"), ("two-cpu-cores", "2.17")):
        assert f"{model[name].compute_pass(16) / model[name].passes[1]:.2f}" == said and f"{said} times" in text
