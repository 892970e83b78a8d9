"""What a pair needs is known before its weights are read; what does not fit is refused with both numbers."""

from __future__ import annotations

import json

import pytest
import torch
from transformers import AutoConfig, GPT2Config

from specviz.__main__ import main
from specviz.errors import ModelError
from specviz.models import fit, loading
from specviz.models.families import FAMILIES
from specviz.models.fit import free_bytes, parameters, refuse_too_large
from specviz.models.public import PUBLIC

CPU = torch.device("cpu")


def test_parameters_are_counted_without_a_model(pair_folders):
    assert parameters(GPT2Config()) == 124_439_808, "the published size of GPT-2"
    config = AutoConfig.from_pretrained(pair_folders[0])
    assert parameters(config) == loading.load_model(str(pair_folders[0]), CPU, torch.float32).num_parameters()


def test_a_model_that_does_not_fit_is_refused_before_its_weights_are_read(monkeypatch, pair_folders):
    monkeypatch.setattr(fit, "free_bytes", lambda device: 400_000_000)
    with pytest.raises(ModelError, match=r"'big' needs about 0\.6 GB in float32, and 0\.4 GB are free on this cpu"):
        refuse_too_large("big", GPT2Config(), CPU, torch.float32)
    refuse_too_large("big", GPT2Config(), CPU, torch.bfloat16)
    monkeypatch.setattr(fit, "free_bytes", lambda device: 1000)
    monkeypatch.setattr(loading.AutoModelForCausalLM, "from_pretrained", lambda *_, **__: pytest.fail("weights were read"))
    with pytest.raises(ModelError, match="needs about"):
        loading.load_model(str(pair_folders[0]), CPU, torch.float32)


def test_free_memory_is_a_part_of_the_machines():
    assert 0 < free_bytes(CPU) < 2**44


def test_the_list_says_what_fits_and_what_this_version_does_not_run(capsys, monkeypatch):
    monkeypatch.setattr(fit, "free_bytes", lambda device: 5_000_000_000)
    assert main(["pairs", "--dtype", "bfloat16", "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["pairs"]
    assert len(rows) == len(PUBLIC) >= 10
    for row in rows:
        assert row["fits"] == (row["kind"] == "causal" and row["gb"]["bfloat16"] <= 5.0)
        assert ("not run by this version" in row["note"]) == (row["kind"] != "causal")
    assert main(["pairs"]) == 0
    text = capsys.readouterr().out
    assert all(pair.target in text and pair.draft in text and pair.licence in text for pair in PUBLIC)
    assert main(["pairs", "--dtype", "int3"]) == 2
    assert "int3" in capsys.readouterr().err


def test_every_causal_pair_belongs_to_a_family_that_may_be_opened():
    kinds = {"GPT-2": "gpt2", "GPT-NeoX": "gpt_neox", "SmolLM2": "llama", "OPT": "opt", "Qwen": "qwen3", "Llama 3": "llama"}
    assert all(kinds[pair.family] in FAMILIES for pair in PUBLIC if pair.kind == "causal")
