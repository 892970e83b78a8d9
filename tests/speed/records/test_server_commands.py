"""Lines to paste: each server gets the pair, its revisions and the draft length, in a form that a shell or Python takes as it is."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from specviz.settings import LOOKUP_TOKENS, Settings
from specviz.speed.records import server_commands
from specviz.speed.records.plan import SpeedPlan
from specviz.speed.records.server_commands import build_server_commands
from tests.helpers.foreign_pairs import write_foreign_pair
from tests.speed.prediction.test_planning import build_plan

OWN = Settings(pair="owner/target@v1.0|my models/it's a draft")
SERVERS = ["vLLM", "SGLang", "transformers", "llama.cpp"]


def line(server: str, settings: Settings = OWN, gamma: int = 3) -> server_commands.ServerCommand:
    return next(one for one in build_server_commands(settings, gamma) if one.server == server)


def test_every_command_reads_back_to_the_pair_and_the_draft_length():
    assert [one.server for one in build_server_commands(OWN, 3)] == SERVERS
    words = shlex.split(line("vLLM").text)
    assert words[:5] == ["vllm", "serve", "owner/target", "--revision", "v1.0"]
    drafting = {"method": "draft_model", "model": "my models/it's a draft", "num_speculative_tokens": 3}
    assert json.loads(words[words.index("--speculative-config") + 1]) == drafting
    words = shlex.split(line("SGLang").text)
    told = dict(zip(words[3::2], words[4::2], strict=True))
    assert told["--model-path"] == "owner/target" and told["--speculative-draft-model-path"] == "my models/it's a draft"
    assert told["--speculative-algorithm"] == "STANDALONE" and told["--speculative-num-steps"] == "3"
    assert told["--speculative-num-draft-tokens"] == "4", "SGLang counts the token that the round begins with"
    words = shlex.split(line("llama.cpp").text)
    assert words[-4:] == ["--spec-type", "draft-simple", "--spec-draft-n-max", "3"]


def test_a_revision_of_the_draft_goes_where_each_server_wants_it():
    settings = Settings(pair="owner/target|owner/draft@abc")
    assert json.loads(shlex.split(line("vLLM", settings).text)[-1])["revision"] == "abc"
    assert "--speculative-draft-model-revision abc" in line("SGLang", settings).text
    assert "from_pretrained('owner/draft', revision='abc')" in line("transformers", settings).text


def test_vllm_is_told_to_give_layers_of_both_kinds_one_kind_of_cache():
    """vLLM 0.32 says of Gemma 3 270M's own first 12 layers "All drafting layers should belong to the same kv cache group", and starts with the option."""
    option = "--disable-hybrid-kv-cache-manager"
    for draft_model in ({"windows": "some layers"}, {"windows": "some layers", "tokens": {}}):
        found = build_server_commands(OWN, 3, draft_model)[0]
        assert shlex.split(found.text)[-1] == option and "sliding and full attention" in found.note
    assert option not in line("vLLM").text and "sliding" not in line("vLLM").note


def test_a_home_folder_is_written_out_because_quotes_hide_it_from_the_shell(monkeypatch):
    monkeypatch.setenv("HOME", "/home/reader")
    text = line("vLLM", Settings(pair="~/target|~/draft")).text
    assert "/home/reader/target" in text and "~" not in text


def test_the_catalogs_folders_are_those_below_the_project_and_rounding_is_said():
    found = build_server_commands(Settings(), 2)
    assert "assets/models/storybook/target" in found[0].text and str(Path.cwd()) not in found[0].text
    assert not any("unrounded" in one.note for one in found)
    assert all("unrounded" in one.note for one in build_server_commands(Settings(pair="a/target|a/draft|8bit"), 2))


@pytest.mark.parametrize(
    ("settings", "gamma"),
    ((OWN, 0), (replace(OWN, proposer="retrieval"), 3), (replace(OWN, rule="block"), 3)),
)
def test_what_no_server_has_or_needs_gets_no_line(settings, gamma):
    assert build_server_commands(settings, gamma) == ()


def test_copied_draft_tokens_need_no_draft_model():
    found = build_server_commands(replace(OWN, proposer="ngram"), 5)
    vllm, sglang, transformers, llama = (one.text for one in found)
    assert [one.server for one in found] == ["vLLM", "SGLang", "transformers", "llama.cpp"]
    lookup = {"prompt_lookup_min": 1, "prompt_lookup_max": LOOKUP_TOKENS}  # vLLM's smallest is its largest by default
    assert json.loads(shlex.split(vllm)[-1]) == {"method": "ngram", "num_speculative_tokens": 5} | lookup
    assert "NGRAM --speculative-num-draft-tokens 6" in sglang, "it counts the token that the round begins with"
    assert f"prompt_lookup_num_tokens=5, max_matching_ngram_size={LOOKUP_TOKENS}" in transformers
    assert f"-size-n {LOOKUP_TOKENS} --spec-ngram-simple-size-m 5" in llama
    assert not any("draft" in one.replace("num-draft", "") for one in (vllm, sglang, transformers, llama))


def test_a_draft_with_another_tokenizer_gets_the_lines_of_those_that_take_one():
    plan = build_plan(0.1)
    models = {"draft": {"tokens": {"shared": 269, "of_target": 330, "of_draft": 300}}}
    vllm, transformers = replace(plan, models=models).server_commands
    assert json.loads(shlex.split(vllm.text)[-1])["use_heterogeneous_vocab"] is True and "SGLang and llama.cpp" in vllm.note
    assert "assistant_tokenizer=its_tokenizer" in transformers.text
    assert not any("heterogeneous" in one.text or "assistant_tokenizer" in one.text for one in plan.server_commands)


@pytest.mark.parametrize("temperature", (0.0, 1.0))
def test_the_line_for_transformers_runs_with_a_draft_of_another_tokenizer(temperature, tmp_path, capsys):
    places = "|".join(map(str, write_foreign_pair(tmp_path)))
    found = build_server_commands(Settings(pair=places, temperature=temperature), 3, draft_model={"tokens": {}})
    torch.manual_seed(0)
    exec(compile(found[1].text.replace("max_new_tokens=64", "max_new_tokens=12"), "line", "exec"), {})
    assert len(capsys.readouterr().out) > len("Once upon a time")


@pytest.mark.parametrize("settings", (Settings(), Settings(proposer="ngram"), Settings(temperature=0.0)))
def test_the_lines_for_transformers_run_and_draft_that_many_tokens(settings, pair_folders, monkeypatch, capsys):
    """Every call of the draft under a constant schedule asks for the gamma of the line, until the text's last tokens."""
    settings = replace(settings, pair="|".join(map(str, pair_folders)))
    asked, text = [], line("transformers", settings, gamma=3).text.replace("max_new_tokens=64", "max_new_tokens=12")
    opened = AutoModelForCausalLM.from_pretrained

    def open_and_record(place, **more):
        model = opened(place, **more)
        if place == str(pair_folders[1]):
            plain = model.generate
            model.generate = lambda *given, **asks: asked.append(asks["max_new_tokens"]) or plain(*given, **asks)
        return model

    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", open_and_record)
    torch.manual_seed(0)
    exec(compile(text, "line", "exec"), {})
    assert len(capsys.readouterr().out) > len("Once upon a time")
    assert bool(asked) == (settings.proposer == "draft") and set(asked[:1]) <= {3}


def test_a_plan_ends_with_the_lines_of_its_best_gamma_and_none_where_that_is_the_target_alone():
    cheap, costly = build_plan(0.1), build_plan(4.6)
    assert cheap.server_commands == build_server_commands(cheap.settings, 4) and costly.server_commands == ()
    assert json.loads(cheap.to_json())["lines"][0]["server"] == "vLLM"
    assert SpeedPlan.from_json(cheap.to_json()) == cheap
