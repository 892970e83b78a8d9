"""Every family on the list gives the logits of a fresh pass from its cache; other models are refused with a sentence.

Random networks of two layers with sliding windows (7) far shorter than the texts. The largest difference is divided by the spread of
the logits, so a wrong row is off by about 1; float32 rounding gives about 1e-5.
"""

from __future__ import annotations

import random

import pytest
import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

from specviz.errors import UnsupportedModelError
from specviz.models.cache.decoder import CachedModel
from specviz.models.pairs.families import DENSE, EXPERTS, FAMILIES, ROTARY, refuse_unsupported
from specviz.models.pairs.loading import load_model
from specviz.randomness import Prefix
from specviz.settings import Settings
from tests.models.test_cache import CONTEXT, WINDOW, V, compute_fresh_logits, continue_text, draw_block, find_path

SIZES = {
    **dict.fromkeys(("hidden_size", "n_embd", "d_model"), 32),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "num_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "attention_heads"), 4),
    **dict.fromkeys(("max_position_embeddings", "n_positions"), CONTEXT),
    **dict.fromkeys(("intermediate_size", "ffn_dim"), 48),
    **dict.fromkeys(("num_experts", "num_local_experts"), 4),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size"), 16),
    **{"vocab_size": V, "num_key_value_heads": 2, "head_dim": 8, "num_experts_per_tok": 2, "word_embed_proj_dim": 32},
    **{"sliding_window": WINDOW, "use_sliding_window": True, "max_window_layers": 1, "rotary_dim": 4},
    **{"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2},
}
ALTERNATING = {"layer_types": ["sliding_attention", "full_attention"]}
MIXED = ("cohere2", "cwm", "exaone4", "gemma2", "gemma3_text", "ministral", "olmo3", "vaultgemma")
ROPE = {
    "linear": {"factor": 4.0},
    "dynamic": {"factor": 4.0},
    "llama3": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 20},
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 20},
    "longrope": {"factor": 4.0, "original_max_position_embeddings": 20, "short_factor": [1.0] * 4, "long_factor": [4.0] * 4},
}


def build_config(family: str, **more):
    """A small configuration, with those of the sizes that the family has."""
    kind = CONFIG_MAPPING[family]
    sizes = SIZES if family != "falcon" else {key: value for key, value in SIZES.items() if key != "head_dim"}
    known, renamed = kind(), kind.attribute_map
    fitting = {key: value for key, value in sizes.items() if hasattr(known, key) and renamed.get(key) not in sizes}
    return kind(**(fitting | (ALTERNATING if family in MIXED else {}) | more))


def describe_rotary(kind: str) -> dict:
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 10000.0, **ROPE.get(kind, {})}}


def build_network(config):
    torch.manual_seed(0)
    network_ = AutoModelForCausalLM.from_config(config).eval()
    for weight in network_.parameters():
        if weight.ndim == 2:
            torch.nn.init.normal_(weight, std=0.2)
    return network_


def measure_worst(config, rounds: int = 12, start: int = 12) -> float:
    """Largest difference from fresh passes, divided by the spread of the logits: one chain, then three ragged trees. NaN stays NaN."""
    network_, apart = build_network(config), []
    for shape, rows in (("chain", 1), ("tree", 3)):
        dice, model = random.Random(shape), CachedModel(network_, Settings())
        texts = [tuple(dice.randrange(V) for _ in range(start - 4 * row)) for row in range(rows)]
        for _ in range(rounds):
            block = draw_block(dice, rows, shape)
            logits = model.compute_logits([Prefix(ids, 0, 9) for ids in texts], block)
            for row in range(rows):
                node = dice.randrange(-1, len(block.tokens[row]))
                ids = texts[row] + tuple(block.tokens[row][i] for i in find_path(block.parents[row], node))
                apart.append((compute_fresh_logits(network_, ids) - logits[row, node + 1]).abs().max())
                texts[row] = continue_text(dice, texts[row], block, row)
    return float(torch.stack(apart).max() / compute_fresh_logits(network_, (3, 4, 5)).std())


@pytest.mark.fast_cases(24)
@pytest.mark.parametrize("rounds", [4, pytest.param(12, marks=pytest.mark.slow)])
@pytest.mark.parametrize("family", (*DENSE, *EXPERTS))
def test_a_family_on_the_list_gives_the_logits_of_a_fresh_pass(family, rounds):
    config = build_config(family)
    refuse_unsupported("somewhere", config)
    assert measure_worst(config, rounds) < 5e-5


@pytest.mark.parametrize("family", (*MIXED, "mistral", "mixtral", "phi3", "qwen2", "qwen3", "qwen3_moe", "starcoder2"))
def test_the_windows_of_these_tests_are_felt(family):
    """A window as long as the context gives other logits, so the test above goes beyond the window."""
    narrow, wide = build_network(build_config(family)), build_network(build_config(family, sliding_window=CONTEXT))
    assert float((compute_fresh_logits(narrow, range(20)) - compute_fresh_logits(wide, range(20))).abs().max()) > 1e-3


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("kind", ROTARY)
def test_rotary_angles_on_the_list_keep_cached_keys_valid_up_to_the_context(kind):
    config = build_config("llama", **describe_rotary(kind))
    refuse_unsupported("somewhere", config)
    assert measure_worst(config) < 5e-5
    assert measure_worst(config, rounds=3, start=CONTEXT - 9) < 5e-5


def test_angles_that_change_with_the_length_are_refused():
    config = build_config("llama", **describe_rotary("longrope"))
    with pytest.raises(UnsupportedModelError, match=r"longrope. They change with the length.*Supported are: default, dynamic"):
        refuse_unsupported("somewhere", config)
    assert measure_worst(config) > 1e-2, "the refusal is needed"


def test_angles_are_looked_up_for_each_kind_of_layer():
    angles = {
        "sliding_attention": describe_rotary("default")["rope_parameters"],
        "full_attention": describe_rotary("longrope")["rope_parameters"],
    }
    config = build_config("gemma3_text")
    config.rope_parameters = angles
    with pytest.raises(UnsupportedModelError, match="longrope"):
        refuse_unsupported("somewhere", config)


@pytest.mark.parametrize(
    ("family", "more"), [("llama", {"is_causal": False}), ("gemma3_text", {"use_bidirectional_attention": True})]
)
def test_a_model_that_reads_ahead_is_refused(family, more):
    config = build_config(family, **more)
    with pytest.raises(UnsupportedModelError, match="attends in both directions"):
        refuse_unsupported("somewhere", config)
    assert measure_worst(config) > 1e-2, "the refusal is needed"


def test_attention_by_distance_is_refused_where_the_family_has_both():
    with pytest.raises(UnsupportedModelError, match=r"ALiBi.*supported with rotary positions"):
        refuse_unsupported("somewhere", build_config("falcon", alibi=True))


def test_quantized_weights_are_refused():
    with pytest.raises(UnsupportedModelError, match=r"has weights quantized by .* Name the model that it was made from"):
        refuse_unsupported("somewhere", build_config("llama", quantization_config={"quant_method": "fp8"}))


@pytest.mark.parametrize("kind", ["chunked_attention", "linear_attention", "hybrid"])
def test_layers_of_other_kinds_are_refused(kind):
    config = build_config("qwen3")
    config.layer_types = ["full_attention", kind]
    with pytest.raises(UnsupportedModelError, match=f"layers of kind {kind}: their state cannot be rolled back"):
        refuse_unsupported("somewhere", config)


@pytest.mark.parametrize("family", ["bert", "bloom", "gpt_neo", "moshi", "mpt", "openai-gpt", "rwkv", "trocr"])
def test_a_family_that_has_not_been_tested_is_refused_with_those_that_have(family):
    """Each of these either gives another distribution on a tree or a ragged batch, or fails there."""
    assert family not in FAMILIES
    config = CONFIG_MAPPING[family]()
    with pytest.raises(
        UnsupportedModelError, match=rf"the family '{family}', whose cached passes have not been tested.*gpt2.*llama"
    ):
        refuse_unsupported("somewhere", config)


def test_a_refused_family_is_not_even_read(tmp_path):
    """The refusal comes before the weights are read; here there are none."""
    (tmp_path / "config.json").write_text('{"model_type": "gpt_neo"}')
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(UnsupportedModelError, match="gpt_neo"):
        load_model(str(tmp_path), torch.device("cpu"), torch.float32)
