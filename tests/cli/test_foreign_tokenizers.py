"""Two folders whose tokenizers differ: every command on them says what the draft can propose, and its answers hold."""

from __future__ import annotations

import json

import pytest

from specviz.__main__ import main
from specviz.models.pairs.names import describe_draftable
from specviz.trace import Trace
from specviz.web.one_round.state import OneRoundState
from tests.helpers.foreign_pairs import write_foreign_pair
from tests.helpers.tiny_pairs import TEXT

SAID = "of the draft's 300 tokens are the target's too, and "


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    target, draft = map(str, write_foreign_pair(tmp_path_factory.mktemp("foreign")))
    return ["--target", target, "--draft", draft, "--device", "cpu"]


def run_command(capsys, *options: str) -> str:
    assert main([*options]) in (0, 3)
    return capsys.readouterr().out


def test_decode_says_what_share_could_be_proposed(places, capsys):
    options = "decode", *places, "--prompt", "the river", "--max-new-tokens", "12"
    assert SAID in run_command(capsys, *options)
    tokens = json.loads(run_command(capsys, *options, "--format", "json"))["models"]["draft"]["tokens"]
    assert 0.0 < tokens["draftable"] <= 1.0


def test_plan_says_it_of_the_targets_own_texts(places, capsys, tmp_path):
    (tmp_path / "text.txt").write_text(TEXT[0] * 5)
    small = "--continuations", "4", "--opening", "8", "--max-new-tokens", "8", "--gammas", "1-2", "--tokens-only"
    options = "plan", *places, "--text", str(tmp_path / "text.txt"), *small
    assert SAID in run_command(capsys, *options)
    plan = json.loads(run_command(capsys, *options, "--format", "json"))
    assert 0.0 < plan["models"]["draft"]["tokens"]["draftable"] <= 1.0


@pytest.mark.usefixtures("one_bench_prompt")
def test_bench_times_all_but_assisted_generation(places, capsys):
    found = json.loads(run_command(capsys, "bench", *places, "--runs", "1", "--max-new-tokens", "8", "--format", "json"))
    for result in found["results"]:
        assert {*result["rates"]} == {"target only", "generate", "speculative"}
        assert 0.0 < result["draftable"] <= 1.0


def test_verify_finds_the_samples_consistent(places, capsys):
    small = "--samples", "1500", "--max-new-tokens", "2", "--min-tv", "0.3", "--mode", "shared-distributions"
    shown = run_command(capsys, "verify", *places, "--prompt", "the river", *small)
    assert "Consistent with the target's distribution" in shown and "of the draft's 300 tokens" in shown


def test_assisted_generation_is_refused_with_what_works(places, capsys):
    assert main(["verify", *places, "--decoder", "assisted", "--samples", "100", "--seconds", "1"]) == 2
    assert "decoder must be speculative or target for a pair whose tokenizers differ" in capsys.readouterr().err


def test_the_stage_says_it_once_above_its_rounds(places, capsys):
    trace = Trace.from_json(run_command(capsys, "decode", *places, "--prompt", "the river", "--format", "json"))
    assert OneRoundState(trace).notices.count(describe_draftable(trace.models)) == 1
