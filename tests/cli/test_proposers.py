"""Proposers, rules and policies by name on the command line: each decodes, verify says how it sampled, bench times the named ones, an
export's command names them too, and bad input gives one sentence and exit code 2 before any weights are read.
"""

from __future__ import annotations

import argparse
import json
import shlex

import pytest

from specviz.__main__ import main
from specviz.cli import decode as decode_command_module
from specviz.cli.bench import table as bench_command
from specviz.cli.common import command_options
from specviz.export.manifest import build_decode_command, describe_conditions
from specviz.export.report import build_commands
from specviz.models.pairs import loading
from specviz.proposers import source_texts
from specviz.proposers.adaptive import DRAFT_LENGTH_POLICIES
from specviz.proposers.registry import PROPOSERS
from specviz.settings import DRAFTING_FIELDS, SIBLINGS, Settings
from specviz.trace import Trace
from specviz.verification.registry import RULES
from tests.helpers.proposer_cases import CASES

CHOICES = {
    "tree": ["--proposer", "tree", "--tree", "2-1"],
    "tree, top": ["--proposer", "tree", "--siblings", "top"],
    "budget": ["--proposer", "tree", "--tree-budget", "6", "--siblings", "independent"],
    "several": ["--proposer", "several", "--num-chains", "3", "--rule", "k-seq"],
    "ngram": ["--proposer", "ngram"],
    "retrieval": ["--proposer", "retrieval", "--source-text", "dorothy"],
    "unigram": ["--proposer", "unigram"],
    "uniform": ["--proposer", "uniform"],
    "adversarial": ["--proposer", "adversarial"],
    "oracle": ["--proposer", "oracle", "--rule", "block"],
    "early exit": ["--proposer", "early-exit", "--exit-layer", "1"],
    "none": ["--proposer", "none"],
    "draft_length_policy": ["--draft-length-policy", "gain", "--rule", "block"],
    "typical": ["--rule", "typical", "--typical-epsilon", "0.3"],
}


@pytest.fixture(scope="module")
def folders(pair_folders):
    return ["--target", str(pair_folders[0]), "--draft", str(pair_folders[1]), "--device", "cpu"]


@pytest.fixture(autouse=True)
def folder(monkeypatch):
    """Texts that a test admits are forgotten after it."""
    monkeypatch.setattr(source_texts, "TEXTS", dict(source_texts.TEXTS))


def decode(folders, *more: str) -> int:
    return main(["decode", *folders, "--prompt", "Once upon a time", "--max-new-tokens", "12", *more])


# decode --------------------------------------------------------------------------------------------------------------------------


@pytest.mark.fast_cases(7)
@pytest.mark.parametrize("name", CHOICES)
def test_each_proposer_and_rule_decodes_by_name_and_its_trace_reads_back(name, folders, capsys):
    """The record holds the requested settings, so the same run can be repeated from them."""
    assert decode(folders, *CHOICES[name], "--format", "json") == 0
    trace = Trace.from_json(capsys.readouterr().out)
    asked = dict(zip(CHOICES[name][::2], CHOICES[name][1::2], strict=True))
    options = {f"--{key.replace('_', '-')}": str(trace.settings[key]) for key in DRAFTING_FIELDS}
    assert {name: value for name, value in options.items() if name in asked} == asked
    assert 1 <= len(trace.output_ids) <= 12
    assert decode(folders, *CHOICES[name], "--format", "json") == 0
    assert Trace.from_json(capsys.readouterr().out) == trace


@pytest.mark.parametrize(
    ("chosen", "said"),
    (
        (["--proposer", "tree", "--tree", "2-1"], "proposer tree; rule token by token\n"),
        (["--proposer", "tree", "--tree-budget", "5"], "proposer tree, at most 5 nodes; rule token by token\n"),
        (["--rule", "block", "--draft-length-policy", "entropy"], "proposer draft, lengths entropy; rule block verification\n"),
        (["--rule", "typical"], "proposer draft; rule typical acceptance (lossy)\n"),
    ),
)
def test_the_text_says_who_drafted_and_that_a_lossy_rule_is_lossy(chosen, said, folders, capsys):
    assert decode(folders, *chosen) == 0
    assert said in capsys.readouterr().out
    assert decode(folders) == 0
    assert "proposer" not in capsys.readouterr().out, "the usual one needs no line"


def test_a_text_file_is_read_by_its_path(folders, tmp_path, capsys):
    path = tmp_path / "mine.txt"
    path.write_text("Once upon a time there was a rabbit. " * 10)
    assert decode(folders, "--proposer", "retrieval", "--source-text", str(path), "--format", "json", "--temperature", "0") == 0
    trace = json.loads(capsys.readouterr().out)
    assert {one["source"] for round_ in trace["rounds"] for one in round_["proposals"]} == {"retrieval"}


@pytest.mark.parametrize(
    ("wrong", "said"),
    (
        (["--proposer", "magic"], "proposer must be one of draft, adversarial, "),
        (["--rule", "magic"], "rule must be one of token, block, k-seq, typical, got 'magic'."),
        (
            ["--draft-length-policy", "magic"],
            "draft-length-policy must be one of fixed, heuristic, entropy, gain, ceiling, got 'magic'.",
        ),
        (["--tree", "0"], "with at least one child each and 64 nodes at most, got '0'."),
        (["--tree", "10000"], "64 nodes at most, got '10000'."),
        (["--tree", "wide"], "tree must be children per level, such as 3-2-1, got 'wide'."),
        (["--siblings", "twins"], "siblings must be one of top, independent, distinct, got 'twins'."),
        (["--tree-budget", "0"], "tree-budget must be a whole number from 1 to 64, got 0."),
        (["--exit-layer", "0"], "exit-layer must be a whole number from 1 to 1024, got 0."),
        (["--num-chains", "0"], "num-chains must be a whole number from 1 to 8, got 0."),
        (["--typical-epsilon", "0"], "typical-epsilon must be above 0 and at most 1, got 0.0."),
        (
            ["--proposer", "retrieval", "--source-text", "/nowhere.txt"],
            "It must be one of dorothy, or on the command line the path of a text file.",
        ),
        (["--tree-budget", "many"], "tree-budget must be a whole number from 1 to 64, got 'many'."),
    ),
)
def test_bad_input_is_one_sentence_before_anything_is_loaded(wrong, said, folders, capsys, monkeypatch):
    monkeypatch.setattr(loading, "load_pair", lambda *_: pytest.fail("weights were read"))
    for command in ("decode", "verify", "bench"):
        assert main([command, *folders, *wrong]) == 2
        error = capsys.readouterr().err
        assert said in error and error.count("\n") == 1 and "Traceback" not in error


def test_a_rule_that_cannot_judge_a_tree_says_which_can(folders, capsys):
    assert decode(folders, "--proposer", "tree", "--rule", "block") == 2
    assert "rule must be token or typical here: block judges chains" in capsys.readouterr().err


@pytest.mark.parametrize("command", ("decode", "verify", "bench"))
def test_help_names_every_proposer_policy_rule_and_kind_of_sibling(command, capsys):
    assert main([command, "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    for name in (*PROPOSERS, *DRAFT_LENGTH_POLICIES, *RULES, *SIBLINGS):
        assert name in said, name


# verify --------------------------------------------------------------------------------------------------------------------------


def verify(folders, *more: str) -> int:
    """1,000 samples on shared distributions, 200 through the engine however long they take: enough to detect any distance of 0.9."""
    effort = ["--samples", "1000"] if "shared-distributions" in more else ["--samples", "200", "--seconds", "1000"]
    plain = ["--prompt", "Once upon", "--max-new-tokens", "2", "--min-tv", "0.9", *effort]
    return main(["verify", *folders, *plain, *more])


def test_what_shared_distributions_cannot_draw_is_drawn_by_the_engine_and_the_report_says_so(folders, capsys):
    """A correct decoder is rejected once in a thousand seeds; the seed is the default."""
    assert verify(folders, "--proposer", "tree", "--tree", "2") == 0
    said = capsys.readouterr().out
    assert (
        "proposer tree; rule token by token" in said
        and "sampled only through the engine: shared distributions support only chains" in said
    )
    assert verify(folders, "--proposer", "tree", "--mode", "shared-distributions") == 2
    assert "engine or both for speculative: shared distributions support only chains of a fixed length" in capsys.readouterr().err


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("chosen", (["--proposer", "uniform"], ["--rule", "typical"]))
def test_a_chain_of_fixed_length_is_drawn_on_shared_distributions_and_a_lossy_rule_turns_red(chosen, folders, capsys):
    lossy = "typical" in chosen
    assert verify(folders, *chosen, "--mode", "shared-distributions", "--format", "json") == (1 if lossy else 0)
    record = json.loads(capsys.readouterr().out)
    assert record["verdict"] == ("rejected" if lossy else "consistent") and record["analytic_tv"] is None


@pytest.mark.usefixtures("no_pictures")
def test_a_certificate_of_another_proposer_is_drawn_again(folders, tmp_path, capsys):
    assert verify(folders, "--proposer", "several", "--rule", "k-seq", "--out", str(tmp_path / "out")) == 0
    assert main(["check", str(tmp_path / "out" / "report.json")]) == 0
    assert "Redrawn with the stored seed" in capsys.readouterr().out


@pytest.mark.usefixtures("no_pictures")
def test_a_certificate_whose_text_is_not_at_hand_says_so(folders, tmp_path, capsys, monkeypatch):
    """The path was named for verify; for check it was not."""
    path = tmp_path / "mine.txt"
    path.write_text("Once upon a time there was a rabbit. " * 10)
    chosen = ["--proposer", "retrieval", "--source-text", str(path)]
    assert verify(folders, *chosen, "--out", str(tmp_path / "out")) == 0
    monkeypatch.setattr(source_texts, "TEXTS", {"dorothy": source_texts.TEXTS["dorothy"]})
    assert main(["check", str(tmp_path / "out" / "report.json")]) == 4
    assert "Not redrawn: source-text must be one of dorothy, got" in capsys.readouterr().out


@pytest.mark.parametrize("decoder", ("target", "assisted", "R5"))
def test_other_decoders_bring_their_own_proposer(decoder, folders, capsys):
    assert verify(folders, "--decoder", decoder, "--proposer", "tree") == 2
    assert f"proposer must be left out with decoder {decoder}, which brings its own, got 'tree'." in capsys.readouterr().err


# What an export says -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_the_command_of_an_export_names_proposer_and_rule(name):
    """Parsed by the command's own parser, it gives the same settings."""
    settings = Settings(**{"rule": "k-seq", "prompt": "Once", **CASES[name]})
    parser = argparse.ArgumentParser()
    decode_command_module.add_arguments(parser)
    words = shlex.split(build_decode_command(settings, {}))
    assert command_options.read_run_settings(parser.parse_args(words[4:])) == settings
    assert f"proposer {settings.proposer}" in describe_conditions(settings, {}) or settings.proposer == "draft"
    assert "rule k-seq" in describe_conditions(settings, {})
    one = {"mode": "engine", "plan": {"n": 9, "tv": 0.1}}
    record = {"decoder": "speculative", "answers": [one], "models": {"device": "cpu", "dtype": "float32"}}
    assert "--rule k-seq" in build_commands(record | {"settings": settings.to_record()})[0]


# bench ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("one_bench_prompt")
def test_bench_times_the_proposer_and_rule_that_are_named(folders, capsys):
    short = ["--runs", "1", "--max-new-tokens", "8", "--proposer", "tree", "--tree", "2-1", "--rule", "token"]
    assert main(["bench", *folders, *short, "--format", "json"]) == 3  # one run is no verdict
    record = json.loads(capsys.readouterr().out)
    assert record["speculative"]["proposer"] == "tree" and record["speculative"]["tree"] == "2-1"
    for one in record["results"]:
        costs = one["costs"]
        assert one["leviathan"] is None and 0 < one["draft_tokens"] <= 4
        assert one["allowed"] == pytest.approx(
            one["tokens_per_pass"]
            / ((costs["draft"]["value"] + costs["block"]["value"] + costs["rule"]["value"]) / costs["one"]["value"])
        )
    said = bench_command._format_results(record)
    assert (
        "speculative: proposer tree; rule token by token" in said and "in each round drafting" in said and "Leviathan" not in said
    )


@pytest.mark.parametrize("other", (["policies"], ["samples", "100"], ["shapes", "1x64"], ["curves"]))
def test_other_benches_bring_their_own_proposer(other, capsys):
    assert main(["bench", *other, "--proposer", "tree"]) == 2
    assert "There is no option --proposer" in capsys.readouterr().err
