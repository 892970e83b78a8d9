"""Which models may be opened: families whose cached passes are tested against fresh ones, with what their law depends on.

The list names what has been tried (tests/test_families.py), not what is known to fail. A family outside it may run well one
row at a time and still go wrong on a tree or a ragged batch: ALiBi and local attention count columns of the cache where the
text's positions are meant, and then another law is emitted without any error.
"""

from __future__ import annotations

from typing import Any

from specviz.errors import UnsupportedModel

DENSE = (
    *("apertus", "arcee", "biogpt", "codegen", "cohere", "cohere2", "cwm", "ernie4_5", "exaone4", "falcon", "gemma", "gemma2"),
    *("gemma3_text", "glm", "glm4", "gpt2", "gpt_bigcode", "gpt_neox", "gptj", "granite", "helium", "hunyuan_v1_dense", "llama"),
    *("ministral", "ministral3", "mistral", "nemotron", "olmo", "olmo2", "olmo3", "opt", "persimmon", "phi", "phi3", "qwen2"),
    *("qwen3", "seed_oss", "smollm3", "stablelm", "starcoder2", "vaultgemma", "xglm"),
)
EXPERTS = ("granitemoe", "mixtral", "olmoe", "phimoe", "qwen2_moe", "qwen3_moe")  # some networks of many, chosen per token
FAMILIES = frozenset({*DENSE, *EXPERTS})
LAYERS = frozenset({"full_attention", "sliding_attention"})
ROTARY = ("default", "dynamic", "linear", "llama3", "yarn")  # within the context an angle depends on the position alone


def refuse_unsupported(place: str, config: Any) -> None:
    """Say no to a configuration under which a cached pass may give another law than a fresh one.

    Raises UnsupportedModel naming the value that is refused and what is supported.
    """
    family, text = config.model_type, config.get_text_config()
    if getattr(config, "is_encoder_decoder", False):
        raise UnsupportedModel(f"'{place}' is an encoder-decoder model ({family}); causal decoders are supported.")
    if odd := set(getattr(text, "layer_types", None) or ()) - LAYERS:
        raise UnsupportedModel(
            f"'{place}' ({family}) has layers of kind {', '.join(sorted(odd))}: "
            "their memory cannot be rolled back after a refused token."
        )
    if family not in FAMILIES:
        raise UnsupportedModel(
            f"'{place}' is of the family '{family}', whose cached passes have not been tested to give the law of a fresh pass; "
            f"tested are {', '.join(sorted(FAMILIES))}."
        )
    if odd := rotary_types(text) - set(ROTARY):
        raise UnsupportedModel(
            f"'{place}' ({family}) has rotary angles of type {', '.join(sorted(odd))}, which change with the length of the text, "
            f"so that cached keys go out of date; supported are {', '.join(ROTARY)}."
        )
    if getattr(text, "is_causal", True) is False or getattr(text, "use_bidirectional_attention", False):
        raise UnsupportedModel(f"'{place}' ({family}) reads its text in both directions; causal decoders are supported.")
    if getattr(text, "alibi", False):
        raise UnsupportedModel(
            f"'{place}' ({family}) weighs its attention by distance (alibi), which is right for a single chain only; "
            f"this family is supported with rotary positions (alibi false)."
        )
    if getattr(config, "quantization_config", None):
        raise UnsupportedModel(f"'{place}' ({family}) has quantised weights; unquantised ones are supported.")


def rotary_types(config: Any) -> set[str]:
    """Kinds of rotary angles in a configuration, one for the model or one for each kind of layer; empty without any."""
    given = getattr(config, "rope_parameters", None) or {}
    kinds = [value for value in given.values() if isinstance(value, dict)] or [given]
    return {str(kind["rope_type"]) for kind in kinds if "rope_type" in kind}
