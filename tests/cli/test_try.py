"""``try`` answers whether a pair fits, is exact and pays, in this order, and what was found stays when it is interrupted or cannot go on."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from specviz.__main__ import main
from specviz.evidence.decoder import Decoder
from specviz.models.pairs import loading
from specviz.settings import Settings
from specviz.speed.prediction import assessment
from specviz.speed.prediction.plan_effort import PlanEffort
from specviz.speed.records.assessment import Assessment, MethodSpeed
from specviz.speed.records.estimate import Estimate
from specviz.verification.token import TokenRule
from tests.helpers.tiny_pairs import TEXT

try_command = importlib.import_module("specviz.cli.try")  # a word of Python's, which no import statement takes
choose_exit_code = try_command.choose_exit_code


@pytest.fixture(autouse=True)
def little_work(monkeypatch):
    """150 samples, 2 texts of 8 tokens, and 2 runs: the answers are poor, and their form is whole."""
    for name, value in {"SAMPLES": 150, "CONTINUATION_TOKENS": 8, "OPENING_TOKENS": 8, "GAMMAS": (1, 2), "MOST_RUNS": 2}.items():
        monkeypatch.setattr(assessment, name, value)
    monkeypatch.setattr(PlanEffort, "make_quick", lambda self, seconds: PlanEffort(2, 8, 2, seconds=seconds))


@pytest.fixture
def command(pair_folders, tmp_path, capsys):
    """Run ``try`` on a tiny pair; returns exit code, stdout, stderr."""
    text = tmp_path / "text.txt"
    text.write_text(TEXT[0] * 20)

    def call(*places: str, more=()):
        places = places or tuple(map(str, pair_folders))
        return main(["try", *places, "--device", "cpu", "--text", str(text), *more]), *capsys.readouterr()

    return call


def test_every_question_has_an_answer_with_what_it_can_detect_or_its_interval(command, pair_folders, monkeypatch):
    found_by_command = []
    monkeypatch.setattr(try_command, "choose_exit_code", lambda one: found_by_command.append(one) or choose_exit_code(one))
    code, out, _ = command(more=("--format", "json"))
    record = json.loads(out)
    assert code in (0, 8) and record["preflight"]["ready"]
    report = record["report"]
    assert report["verdict"] == "consistent" and report["n"] == 150 and report["answers"][0]["mode"] == "engine"
    assert report["exercised"]["rejected"] > 0 and report["analytic_tv"] < 1e-4
    plan = report["plan"]  # of the tests
    assert 0.1 < report["detectable_tv"] <= plan["tv"] < 1.0, "what 150 samples show, not what was wished for"
    assert [row["gamma"] for row in record["plan"]["rows"]] == [1, 2] and record["plan"]["costs"]["alone"]
    found = {one["key"]: one for one in record["methods"]}
    assert list(found) == ["draft", "ngram", "lookahead", "early-exit"] and found["early-exit"]["reason"] == ""
    assert all(one["speedup"]["n"] == 2 and one["tokens_per_pass"] >= 1.0 for one in found.values())
    assert "too few for an interval" in record["advice"]
    assert {one["server"] for one in record["server_commands"]} >= {
        "vLLM",
        "transformers",
    }  # all of those that have copied text, which may be the fastest here

    (one,) = found_by_command
    out = "\n".join([*try_command.format_assessment(one), try_command.format_server_lines(one)])
    target, draft = map(str, pair_folders)
    for words in ("fits     Yes", "exact    Consistent", "pays ", "methods ", "To start servers"):
        assert words in out
    assert f"specviz plan --target {target} --draft {draft} --text FILE" in out, "a line to copy is not broken"


def test_without_a_draft_the_methods_that_need_none_are_tried(command, pair_folders):
    record = json.loads(command(str(pair_folders[0]), more=("--format", "json"))[1])
    assert [one["key"] for one in record["methods"]] == ["ngram", "lookahead", "early-exit"]
    assert record["plan"]["settings"]["proposer"] == "ngram" and record["report"]["exercised"]["proposed"] > 0
    assert all("draft" not in one["text"].lower() for one in record["server_commands"] if one["server"] == "vLLM")


def test_models_that_do_not_fit_are_not_loaded(command, pair_folders, monkeypatch):
    monkeypatch.setattr(loading, "load_pair", lambda *_: pytest.fail("weights were read"))
    code, out, _ = command(str(pair_folders[0]), "owner/nobody")
    assert code == 1 and out.startswith("fits     No") and "exact" not in out
    code, _, err = command("storybook", str(pair_folders[1]))
    assert code == 2 and "a pair that brings its own" in err


@pytest.mark.parametrize("form", (pytest.param("text", marks=pytest.mark.slow), "json"))  # text: the first test
def test_an_interrupt_keeps_what_was_found(command, monkeypatch, form):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(assessment, "make_plan", stop)
    code, out, err = command(more=("--format", form))
    assert code == 130 and "what was found until then is above" in err
    if form == "json":
        record = json.loads(out)
        assert record["report"]["verdict"] == "consistent" and record["plan"] is None and record["methods"] == []
    else:
        assert "exact    Consistent" in out and "pays" not in out


def test_an_interrupt_while_samples_are_drawn_tests_those_of_the_whole_shards(command, monkeypatch):
    """Stopped in the second shard, after the 64 samples of the pilot; the shard that is being drawn does not count."""
    whole = Decoder.sample

    def stop_later(self, mode, first, *more):
        if first:
            raise KeyboardInterrupt
        return whole(self, mode, first, *more)

    monkeypatch.setattr(Decoder, "sample", stop_later)
    code, out, err = command()
    assert code == 130 and err.endswith("interrupted: what was found until then is above\n")
    assert "exact    Consistent" in out and "engine: interrupted after 64 of 150 samples." in out and "pays" not in out


def test_an_interrupt_before_the_first_samples_says_so(command, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(Decoder, "sample", stop)
    code, out, err = command()
    assert code == 130 and "too few samples were drawn to test" in err and "exact" not in out


def test_a_wrong_rule_shows_in_the_distribution_along_a_text(command, monkeypatch):
    """A rule that accepts everything; the exact decoder of this pair lies below 1e-4."""
    monkeypatch.setattr(TokenRule, "accepts", lambda self, u, p, q: u >= 0.0)
    report = json.loads(command(more=("--format", "json"))[1])["report"]
    assert report["analytic_tv"] > 1e-2 and report["exercised"]["rejected"] == 0


@pytest.mark.parametrize("verdict, code", (("rejected", 1), ("nothing tested", 5), ("too few samples", 3), ("consistent", 8)))
def test_the_exit_code_is_that_of_the_first_question_without_a_good_answer(verdict, code):
    """Of the last one nothing was planned."""
    ready = SimpleNamespace(ready=True)
    assert choose_exit_code(Assessment(Settings(), ready, {"verdict": verdict})) == code
    assert choose_exit_code(Assessment(Settings(), SimpleNamespace(ready=False))) == 1


def make_assessment(settings, *speeds):
    methods = tuple(MethodSpeed(key, 2, 1.5, speed) for key, speed in speeds)
    return Assessment(settings, methods=methods)


def test_the_advice_is_as_sure_as_its_intervals():
    clear, wide, slow = Estimate(1.5, 1.4, 1.6, 9), Estimate(1.45, 1.2, 1.7, 9), Estimate(0.9, 0.8, 1.0, 9)
    settings = Settings()
    assert make_assessment(settings, ("draft", clear), ("ngram", slow)).advice.startswith(
        "Draft model is the fastest here, 1.50 (1.40"
    )
    assert "Copy from the text cannot be told apart" in make_assessment(settings, ("draft", clear), ("ngram", wide)).advice
    assert make_assessment(settings, ("draft", slow)).advice.startswith("No method is clearly faster")
    few = Estimate(1.5, 1.4, 1.6, 3)
    assert "3 runs, too few for an interval" in make_assessment(settings, ("draft", few)).advice
    assert make_assessment(settings).advice == ""


def test_the_lines_for_servers_say_what_was_measured_of_the_draft():
    row = SimpleNamespace(gamma=3, factor=1, speedup=Estimate(0.7, 0.6, 0.8, 9))
    slower, wide = Estimate(0.6, 0.5, 0.7, 2), Estimate(0.9, 0.7, 1.1, 9)
    doubts = []
    for verdict, speed in (("no verdict", slower), ("no verdict", wide), ("do not speculate", wide), ("speculate", wide)):
        plan = SimpleNamespace(rows=(row,), verdict=verdict)
        doubts.append(replace(make_assessment(Settings(), ("draft", speed)), plan=plan).doubt)
    assert doubts == [
        "slower than the target alone here: 0.60 (0.50 to 0.70) times",
        "whether it pays is not known",
        "it does not pay on this machine",
        "",
    ]


def test_without_a_verdict_the_counts_are_given_and_the_command_that_needs_no_clock():
    rows = tuple(SimpleNamespace(gamma=gamma, tokens=Estimate(1.1 + 0.1 * gamma, 1.0, 1.5, 8)) for gamma in (1, 2))
    plan = SimpleNamespace(
        rows=rows, verdict="no verdict", in_words="No verdict: busy.", openings=8, length=16, settings=Settings()
    )
    section = try_command.format_speed(replace(make_assessment(Settings()), plan=plan))
    assert "a target pass writes 1.30 (1.00 to 1.50) tokens at gamma 2, from 8 texts of 16 tokens" in " ".join(section.split())
    assert section.rstrip().endswith("specviz plan --text FILE --tokens-only")


def test_swapped_models_are_doubted_in_the_first_line():
    preflight = SimpleNamespace(
        memory_bytes=1, free_bytes=2, device="cpu", dtype="float32", ready=True, notes=("A note.",), is_swapped=True
    )
    section = try_command.format_fit(preflight)
    assert section.startswith("fits     Yes, but: The draft is larger than the target") and section.count("swapped") == 1
    assert "A note." in section and "free on this cpu" in section


def test_servers_get_copied_text_where_it_alone_is_faster():
    fast, slow = Estimate(1.3, 1.2, 1.4, 9), Estimate(1.0, 0.9, 1.1, 9)
    served = make_assessment(Settings(gamma=1), ("draft", slow), ("ngram", fast)).served
    assert served is not None and (served[0].proposer, served[1]) == ("ngram", 2)
    assert make_assessment(Settings(), ("draft", fast), ("ngram", slow)).served is None, "nothing was planned"
    assert make_assessment(Settings(), ("ngram", slow)).served is None
