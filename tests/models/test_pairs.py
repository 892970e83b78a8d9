"""The memory that a pair needs is known before its weights are read. A pair that does not fit is refused with both numbers."""

from __future__ import annotations

import json

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, GPT2Config, T5Config

from specviz.__main__ import main
from specviz.errors import ModelError
from specviz.models.pairs import families, loading
from specviz.models.pairs.catalog import list_public_pairs
from specviz.models.pairs.families import ENCODER_DECODERS, FAMILIES, count_parameters, find_free_memory, refuse_too_large

CPU = torch.device("cpu")
PUBLIC = list_public_pairs()


def test_parameters_are_counted_without_a_model(pair_folders):
    assert count_parameters(GPT2Config()) == 124_439_808, "the published size of GPT-2"
    config = AutoConfig.from_pretrained(pair_folders[0])
    assert count_parameters(config) == loading.load_model(str(pair_folders[0]), CPU, torch.float32).num_parameters()


def test_a_model_that_does_not_fit_is_refused_before_its_weights_are_read(monkeypatch, pair_folders):
    monkeypatch.setattr(families, "find_free_memory", lambda device: 400_000_000)
    with pytest.raises(ModelError, match=r"'big' needs about 0\.6 GB in float32, and 0\.4 GB are free on this cpu"):
        refuse_too_large("big", GPT2Config(), CPU, torch.float32)
    refuse_too_large("big", GPT2Config(), CPU, torch.bfloat16)
    monkeypatch.setattr(families, "find_free_memory", lambda device: 1000)
    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", lambda *_, **__: pytest.fail("weights were read"))
    with pytest.raises(ModelError, match="needs about"):
        loading.load_model(str(pair_folders[0]), CPU, torch.float32)


def test_free_memory_is_a_part_of_the_machines():
    assert 0 < find_free_memory(CPU) < 2**44


def test_the_list_says_what_fits(capsys, monkeypatch):
    monkeypatch.setattr(families, "find_free_memory", lambda device: 5_000_000_000)
    assert main(["pairs", "--dtype", "bfloat16", "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["pairs"]
    assert len(rows) == len(PUBLIC) >= 10
    for row in rows:
        assert row["fits"] == (row["gb"]["bfloat16"] <= 5.0)
    assert main(["pairs"]) == 0
    text = capsys.readouterr().out
    assert all(pair.target in text and pair.draft in text and pair.license in text for pair in PUBLIC)
    lines = {line.split()[1]: line for line in text.splitlines() if line.startswith(("yes", "no"))}
    assert all(("encoder-decoder" in lines[pair.target]) == (pair.kind != "causal") for pair in PUBLIC)
    assert main(["pairs", "--dtype", "int3"]) == 2
    assert "int3" in capsys.readouterr().err


def test_every_causal_pair_belongs_to_a_family_that_may_be_opened():
    kinds = {"GPT-2": "gpt2", "GPT-NeoX": "gpt_neox", "SmolLM2": "llama", "OPT": "opt", "Qwen": "qwen3", "Llama 3": "llama"}
    assert all(kinds[pair.family] in FAMILIES for pair in PUBLIC if pair.kind == "causal")


T5_SHAPES = {  # d_model, d_ff, layers on each side, heads, size of a head, as the published configurations say
    "google-t5/t5-small": (512, 2048, 6, 8, 64),
    "google-t5/t5-large": (1024, 4096, 24, 16, 64),
    "google-t5/t5-3b": (1024, 16384, 24, 32, 128),
    "small": (512, 1024, 8, 6, 64),
    "large": (1024, 2816, 24, 16, 64),
    "xl": (2048, 5120, 24, 32, 64),
    "xxl": (4096, 10240, 24, 64, 64),
}


def test_listed_sizes_of_t5_models_are_those_of_their_published_shapes():
    """Counted on models without memory; v1.1, its LM-adapted and its Flan models hold an output matrix of their own."""
    for pair in PUBLIC:
        if pair.kind != "causal":
            counted = tuple(round(count_t5_parameters(name) / 1e6) for name in (pair.target, pair.draft))
            assert counted == pair.millions, pair


def count_t5_parameters(name: str) -> int:
    first = name in T5_SHAPES
    size = name if first else next(part for part in name.split("/")[1].split("-") if part in T5_SHAPES)
    width, inner, layers, heads, head = T5_SHAPES[size]
    config = T5Config(
        d_model=width,
        d_ff=inner,
        num_layers=layers,
        num_heads=heads,
        d_kv=head,
        feed_forward_proj="relu" if first else "gated-gelu",
    )
    return count_parameters(config) + (0 if first else config.vocab_size * width)


def test_every_encoder_decoder_pair_is_of_a_family_that_may_be_opened_and_says_what_is_pickled():
    assert T5Config.model_type in ENCODER_DECODERS
    listed = {pair.target: pair for pair in PUBLIC if pair.kind != "causal"}
    assert {"google-t5/t5-large", "google/t5-v1_1-xl", "google/t5-v1_1-xxl", "google/t5-xxl-lm-adapt"} <= set(listed)
    for name, pair in listed.items():
        assert ("pickled" in pair.note) == ("v1_1" in name or "lm-adapt" in name)
