"""Which models may be opened: families whose cached passes are tested against uncached ones (tests/models/test_families.py).

A family outside the list may work one row at a time and still be wrong on a tree or a ragged batch: ALiBi and local attention
count columns of the cache instead of positions in the text, and the model emits another distribution without any error.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, PretrainedConfig

from specviz.errors import ModelError, UnsupportedModelError
from specviz.models.pairs.catalog import OVERHEAD

DENSE = (
    *("apertus", "arcee", "biogpt", "codegen", "cohere", "cohere2", "cwm", "ernie4_5", "exaone4", "falcon", "gemma", "gemma2"),
    *("gemma3_text", "glm", "glm4", "gpt2", "gpt_bigcode", "gpt_neox", "gptj", "granite", "helium", "hunyuan_v1_dense", "llama"),
    *("ministral", "ministral3", "mistral", "nemotron", "olmo", "olmo2", "olmo3", "opt", "persimmon", "phi", "phi3", "qwen2"),
    *("qwen3", "seed_oss", "smollm3", "stablelm", "starcoder2", "vaultgemma", "xglm"),
)
EXPERTS = ("granitemoe", "mixtral", "olmoe", "phimoe", "qwen2_moe", "qwen3_moe")  # mixture of experts
FAMILIES = frozenset({*DENSE, *EXPERTS})
RECORDINGS = 3  # rounds recorded as CUDA graphs that a request may keep
RECORDED_COLUMNS = 1024  # tokens for which each of them holds keys and values, unless the request is longer
RECORDING_BYTES = 17_000_000  # of its intermediate results, for each model: 34 MB of the shipped pair on an H200
ENCODER_DECODERS = frozenset({"mt5", "t5"})  # T5 v1.1, LM-adapted and Flan models call themselves t5
LAYERS = frozenset({"full_attention", "sliding_attention"})
ROTARY = ("default", "dynamic", "linear", "llama3", "yarn")  # within the context an angle depends only on the position


def refuse_unsupported(place: str, config: Any) -> None:
    """Refuse a configuration under which a cached pass may give another distribution than an uncached one.

    Raises UnsupportedModelError, which names the value and what is supported.
    """
    family, text = config.model_type, config.get_text_config()
    if config.is_encoder_decoder and family not in ENCODER_DECODERS:
        raise UnsupportedModelError(
            f"'{place}' is an encoder-decoder model of the family '{family}', whose cached passes have not been tested. "
            f"Tested are: {', '.join(sorted(ENCODER_DECODERS))}."
        )
    if odd := set(getattr(text, "layer_types", None) or ()) - LAYERS:
        raise UnsupportedModelError(
            f"'{place}' ({family}) has layers of kind {', '.join(sorted(odd))}: "
            "their state cannot be rolled back after a rejected token."
        )
    if family not in FAMILIES | ENCODER_DECODERS:
        raise UnsupportedModelError(
            f"'{place}' is of the family '{family}', whose cached passes have not been tested against uncached ones. "
            f"Tested are: {', '.join(sorted(FAMILIES | ENCODER_DECODERS))}."
        )
    if odd := list_rotary_types(text) - set(ROTARY):
        raise UnsupportedModelError(
            f"'{place}' ({family}) has rotary angles of type {', '.join(sorted(odd))}. They change with the length of the text, "
            f"which makes cached keys wrong. Supported are: {', '.join(ROTARY)}."
        )
    if getattr(text, "is_causal", True) is False or getattr(text, "use_bidirectional_attention", False):
        raise UnsupportedModelError(f"'{place}' ({family}) attends in both directions; only causal decoders are supported.")
    if getattr(text, "alibi", False):
        raise UnsupportedModelError(
            f"'{place}' ({family}) biases attention by distance (ALiBi), which is correct for a single chain only. "
            "This family is supported with rotary positions (alibi false)."
        )
    if getattr(config, "quantization_config", None):
        raise UnsupportedModelError(_describe_quantized(place, family, config.quantization_config))


def _describe_quantized(place: str, family: str, quantization: Any) -> str:
    """A sentence on a folder of quantized weights, and the way out."""
    found = quantization if isinstance(quantization, dict) else quantization.to_dict()
    method = str(found.get("quant_method") or "an unknown method").rpartition(".")[2].lower()
    bits = found.get("bits") or (4 if found.get("load_in_4bit") else 8 if found.get("load_in_8bit") else None)
    way = (
        "dequantize it once where bitsandbytes is installed: model.dequantize(), then save_pretrained"
        if method == "bitsandbytes"
        else "take the GGUF file of the same model, which is dequantized as it is read"
    )
    return (
        f"'{place}' ({family}) has weights quantized by {method}{f' to {bits} bits' if bits else ''}, whose products depend on a library and a "
        f"device. Name the model that it was made from, or {way}."
    )


def refuse_mixed(places: Sequence[str], configs: Sequence[Any]) -> None:
    """Refuse a pair in which only one model has an encoder.

    Raises UnsupportedModelError, which names both.
    """
    if configs[0].is_encoder_decoder == configs[1].is_encoder_decoder:
        return
    target, draft = (
        f"'{place}' is {'an encoder-decoder model' if config.is_encoder_decoder else 'a causal decoder'} ({config.model_type})"
        for place, config in zip(places, configs, strict=True)
    )
    raise UnsupportedModelError(
        f"Target {target}, draft {draft}: both must be of one kind, because they read the prompt differently."
    )


def find_library_class(config: Any) -> type[AutoModelForSeq2SeqLM] | type[AutoModelForCausalLM]:
    """The transformers class that opens models of this configuration."""
    return AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM


def find_context(config: Any) -> int | None:
    """Tokens that a text may have; None: no limit."""
    return getattr(config.get_text_config(), "max_position_embeddings", None)


def list_rotary_types(config: Any) -> set[str]:
    """Types of rotary angles in a configuration: one for the model, or one for each kind of layer; empty if there are none."""
    given = getattr(config, "rope_parameters", None) or {}
    kinds = [value for value in given.values() if isinstance(value, dict)] or [given]
    return {str(kind["rope_type"]) for kind in kinds if "rope_type" in kind}


def find_free_memory(device: torch.device) -> int:
    """Bytes of memory that a model may take now, on the accelerator or in the system."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2  # no such list: half of the physical memory


def count_parameters(config: PretrainedConfig) -> int:
    """Number of parameters of a model of this configuration, counted without allocating it."""
    return _count_parameters(_ComparedConfig(type(config), config.to_json_string(use_diff=False), config))


@dataclass(frozen=True, slots=True)
class _ComparedConfig:
    """A configuration that equals others with the same fields, so that a count is remembered."""

    kind: type
    fields: str
    config: PretrainedConfig = field(compare=False)


@lru_cache(maxsize=64)
def _count_parameters(compared: _ComparedConfig) -> int:
    with torch.device("meta"):
        return find_library_class(compared.config).from_config(compared.config, dtype=torch.float32).num_parameters()


def estimate_memory(config: PretrainedConfig, dtype: torch.dtype, device: torch.device) -> int:
    """Bytes that a model needs to run: weights and a fifth more, and on CUDA its part of the recorded rounds of a request.

    A request there keeps up to three recordings: the round, the round compiled, and the target alone. Each has keys and values of
    ``RECORDED_COLUMNS`` tokens and the intermediate results of a pass.
    """
    needed = count_parameters(config) * dtype.itemsize * OVERHEAD
    if device.type == "cuda":
        text = config.get_text_config()
        heads = getattr(text, "num_key_value_heads", None) or getattr(text, "num_attention_heads", None) or 0
        size = getattr(text, "head_dim", None) or text.hidden_size // max(1, getattr(text, "num_attention_heads", None) or 1)
        layers = getattr(text, "num_hidden_layers", None) or 0
        columns = min(RECORDED_COLUMNS, find_context(config) or RECORDED_COLUMNS)
        needed += RECORDINGS * (2 * layers * heads * size * columns * dtype.itemsize + RECORDING_BYTES)
    return round(needed)


def refuse_too_large(place: str, config: PretrainedConfig, device: torch.device, dtype: torch.dtype) -> None:
    """Raise ModelError with both numbers if a model's weights and the memory to run them do not fit."""
    needed, free = estimate_memory(config, dtype, device), find_free_memory(device)
    if needed > free:
        kind = str(dtype).removeprefix("torch.")
        raise ModelError(
            f"'{place}' needs about {needed / 1e9:.1f} GB in {kind}, and {free / 1e9:.1f} GB are free on this {device.type}."
            " Take a smaller model, or one of fewer bytes per number (--dtype bfloat16)."
        )
