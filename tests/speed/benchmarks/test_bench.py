"""The bench: its numbers agree with each other, and every contestant does its work. No test looks at how fast anything is."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

import pytest

from specviz.__main__ import main
from specviz.cli.bench import table as bench_command
from specviz.models.pairs.loading import load_pair
from specviz.speed.benchmarks import bench as bench_module
from specviz.speed.benchmarks import sampling_rates
from specviz.speed.benchmarks.bench import generate_with_assistant, run_bench
from specviz.speed.benchmarks.target_only import generate_text
from specviz.speed.measurement import costs, timed_decoding
from specviz.speed.measurement.costs import measure_block_gap
from specviz.speed.records.estimate import Estimate
from specviz.theory import compute_expected_tokens, compute_wall_clock_factor

PROMPTS = {"one": "Once upon a time", "two": "The river"}


@pytest.fixture(scope="module")
def result(pair):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench_module, "PROMPTS", PROMPTS)
        return run_bench(pair, gamma=2, length=12, runs=2, temperatures=(1.0,), log=lambda _: None)[0]


def test_every_contestant_runs_and_the_ratios_come_from_the_same_runs(result):
    assert set(result.rates) == {"target only", "generate", "speculative", "assisted"}
    assert all(0 < rate.low <= rate.value <= rate.high for rate in result.rates.values())
    faster = max(("target only", "generate"), key=lambda name: result.rates[name].value)
    assert result.baseline == faster


def test_the_allowed_factor_is_tokens_per_pass_over_the_measured_costs(result):
    one, block, draft, rule = (getattr(result.costs, name).value for name in ("one", "block", "draft", "rule"))
    assert result.allowed == pytest.approx(result.tokens_per_pass / ((2 * draft + block + rule) / one))
    assert result.share == pytest.approx(result.ratio["speculative / baseline"].value / result.allowed)
    assert result.leviathan == pytest.approx(compute_wall_clock_factor(result.accepted_per_tested, 2, draft / one))
    assert 1.0 <= result.tokens_per_pass <= 3.0


def test_the_timeline_of_a_round_is_all_of_the_time_that_the_runs_took(result):
    """Nothing is left out: what is in no part is the rest."""
    tokens, both = 12 * len(PROMPTS), result.rates["speculative"]
    rounds = 2 * tokens / result.tokens_per_pass  # of two runs, whose rates are the lowest and the highest
    assert list(result.timeline) == ["draft", "target", "rule", "rest"] and min(result.timeline.values()) > 0
    assert sum(result.timeline.values()) == pytest.approx((tokens / both.low + tokens / both.high) / rounds)


def test_every_contestant_makes_exactly_the_tokens_asked_for(pair):
    settings = bench_module.Settings(gamma=3, max_new_tokens=17, temperature=0.0)
    ids = pair.encode("Once upon")
    greedy = generate_text(pair, settings, ids)[0, len(ids) :].tolist()
    assert len(greedy) == 17
    assert generate_with_assistant(pair, settings, ids)[0, len(ids) :].tolist() == greedy
    for name in ("target only", "speculative"):
        rounds = bench_module._DECODERS[name](pair, settings, ids)
        assert [token for r in rounds for token in r.committed] == greedy
    assert pair.target.generation_config.eos_token_id == 0, "what was switched off for the bench is back"


def test_the_command_prints_json_with_the_machine(pair_folders, capsys, monkeypatch):
    for module in (bench_module, timed_decoding):
        monkeypatch.setattr(module, "PROMPTS", {"one": "Once upon a time"})
    monkeypatch.setattr(costs, "time_rule", partial(costs.time_rule, repeats=1))
    target, draft = map(str, pair_folders)
    short = ["--runs", "1", "--max-new-tokens", "8", "--gamma", "2", "--format", "json"]
    assert main(["bench", "--target", target, "--draft", draft, "--device", "cpu", *short]) == bench_command.NO_VERDICT
    record = json.loads(capsys.readouterr().out)
    assert {"processor", "cores", "threads", "torch", "transformers", "dtype"} <= record["machine"].keys()
    assert [r["temperature"] for r in record["results"]] == [0.0, 1.0]
    assert "1 runs; fewer than 6 give no 95% interval" in record["verdict"]


def test_in_float32_a_block_has_the_distribution_of_single_passes_and_in_bfloat16_the_gap_is_measured(pair_folders):
    gaps = {}
    for kind in ("float32", "bfloat16"):
        pair = load_pair("|".join(map(str, pair_folders)), "cpu", kind)
        gaps[kind] = measure_block_gap(
            pair, bench_module.Settings(), pair.encode("Once upon a time there was a little rabbit who ran")
        )
    assert len(gaps["float32"]) == len(gaps["bfloat16"]) >= 20
    assert max(gaps["float32"]) < 5e-6
    assert 1e-4 < max(gaps["bfloat16"]) < 0.5


@pytest.mark.parametrize("shapes", ["12", "0x64", "2x100", "axb", "2x64x3"])
def test_bad_shapes_are_a_sentence(shapes, capsys):
    assert main(["bench", "shapes", shapes]) == 2
    assert "LAYERSxWIDTH" in capsys.readouterr().err


def test_shapes_are_measured(capsys):
    assert main(["bench", "shapes", "1x64,2x64"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in lines[1:]] == ["1 x 64", "2 x 64"]


def test_expected_tokens_is_the_papers_equation_and_its_limits():
    for alpha in (0.1, 0.5, 0.9):
        assert compute_expected_tokens(alpha, 4) == pytest.approx((1 - alpha**5) / (1 - alpha))
    assert compute_expected_tokens(1.0, 4) == 5.0
    assert compute_expected_tokens(0.0, 4) == 1.0
    assert compute_wall_clock_factor(0.8, 5, 0.0) == compute_expected_tokens(0.8, 5)


def test_draws_are_counted_three_ways_and_compared_with_one_after_the_other(pair_folders, capsys, monkeypatch):
    monkeypatch.setattr(sampling_rates, "SAMPLES_PER_RUN", dict.fromkeys(sampling_rates.SAMPLES_PER_RUN, 4))
    target, draft = map(str, pair_folders)
    assert main(["bench", "samples", "500", "--target", target, "--draft", draft, "--device", "cpu", "--format", "json"]) == 0
    record = json.loads(capsys.readouterr().out)
    for one in record["results"]:
        assert one["rates"][sampling_rates.SHARED]["value"] == pytest.approx(500 / one["seconds"])
        assert one["ratios"][sampling_rates.ONE_BY_ONE] == 1.0 and one["entropy"] > 0
    assert main(["bench", "samples", "0"]) == 2


def test_curves_hang_together_and_the_best_budget_is_the_fastest(pair_folders, capsys, monkeypatch):
    for name, few in {"CHAIN_SIZES": (1, 3), "TREE_SIZES": (2, 4), "NODE_BUDGETS": (2, 4), "ROW_COUNTS": (1, 2)}.items():
        monkeypatch.setattr(costs, name, few)
    given = [part for role, folder in zip(("--target", "--draft"), pair_folders, strict=True) for part in (role, str(folder))]
    asked = ["bench", "curves", *given, "--device", "cpu", "--runs", "1", "--max-new-tokens", "8"]
    assert main([*asked, "--format", "json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert set(record["budgets"]) == {"draft's tree, temperature 0", "draft's tree, temperature 1"}  # this pair has no heads
    for name, budgets in record["budgets"].items():
        for one in budgets:
            spent = record["tree"][str(one["nodes"])]["value"] + one["drafting"]["value"]
            assert one["speed"] == pytest.approx(one["tokens_per_pass"] * record["chain"]["1"]["value"] / spent)
        assert record["best_nodes"][name] == max(budgets, key=lambda one: one["speed"])["nodes"]
    for count, batch in record["rows"].items():
        one, block, draft, rule = (batch[name]["value"] for name in ("one", "block", "draft", "rule"))
        spent = block + record["gamma"] * draft + rule
        assert record["allowed"][count] == pytest.approx(record["tokens_per_pass"] * one / spent)
    assert main(asked) == 0 and "speculation stops paying" in capsys.readouterr().out


def test_a_tree_of_curves_branches():
    assert costs.build_branching_parents(9) == (-1, -1, -1, 0, 0, 1, 1, 2, 2)


def test_a_bench_whose_runs_are_few_or_lie_far_apart_gives_no_verdict(result):
    """Six runs count whole; of more, one that was disturbed is no reason to say nothing."""
    calm, one_slow = [1.4, 1.45, 1.5, 1.55, 1.6, 1.5], [1.4, 1.45, 1.5, 1.55, 1.6, 2.4]
    for values, verdict in (
        (calm, True),
        (calm[:5], False),
        (one_slow, False),
        (calm + one_slow, True),
        (calm + [2.4] * 6, False),
    ):
        ratio = {"speculative / baseline": Estimate.from_runs(values, "times")}
        said = bench_command.explain_no_verdict([replace(result, ratio=ratio)])
        assert (said == "") is verdict and ("at temperature 1" in said) is not verdict
