"""A draft head on hidden states: one layer that predicts the target's next hidden state (EAGLE, Li et al. 2024).

It reads the target's last hidden state, or its own prediction while drafting, and the embedding of the token after it; the
target's output matrix turns the predicted state into a distribution. Folders have the published layout: ``config.json`` of a
Llama model with one layer, at the top or one key below, and ``model.safetensors`` with ``fc.weight`` (width, 2 width), embedding
first, perhaps ``fc.bias``, and the layer as ``layers.0.*``. Published heads have no ``layers.0.input_layernorm.weight``; the
shipped one has. ``embed_tokens.weight`` and ``lm_head.weight`` take the place of the target's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM, PretrainedConfig, PreTrainedModel

from specviz.errors import DamagedModelError, ModelError, UnsupportedModelError
from specviz.models.attachments.folder import CONFIG, Attachment, format_shape
from specviz.models.fast_llama.products import Weights, multiply

WEIGHTS = "model.safetensors"
SIZES = {
    "hidden_size": (1, 2**16),
    "intermediate_size": (1, 2**19),
    "num_attention_heads": (1, 2**12),
    "num_hidden_layers": (1, 1),
    "vocab_size": (1, 10**7),
}
OPTIONAL_SIZES = (
    "num_key_value_heads",
    "head_dim",
    "rms_norm_eps",
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
    "hidden_act",
)
LAYER = "layers.0."

EAGLES = Attachment("eagle", "EAGLE head", WEIGHTS, SIZES)


@dataclass(frozen=True, slots=True, eq=False)
class DraftHead:
    """A draft head over one target. Read-only."""

    # a Llama model with the head's layer, without a last norm; its embeddings and output matrix are the target's or its own
    network: LlamaForCausalLM
    projection: Weights  # (width, 2 width), of [embedding ; state]
    bias: Tensor | None  # (width,), or None

    @torch.inference_mode()
    def embed_inputs(self, ids: Tensor, states: Tensor) -> Tensor:
        """Compute what the layer reads: ids (B, T) and the states before them (B, T, width) -> (B, T, width)."""
        read = torch.cat([self.network.model.embed_tokens(ids), states], -1)
        mixed = multiply(read, self.projection)
        return mixed if self.bias is None else mixed + self.bias


def load_eagle(folder: Path, target: PreTrainedModel) -> DraftHead:
    """Load a draft head in the published layout, in the target's dtype and on its device.

    Raises ModelError if there is none or it was made for another target, UnsupportedModelError for a target whose output matrix
    cannot be used or a head of another generation, DamagedModelError if it cannot be read.
    """
    sizes, config = EAGLES.read_config(folder), EAGLES.record(folder)
    embedding, output = _find_embeddings(target)
    width, vocabulary = output.weight.shape[1], output.weight.shape[0]
    weights = EAGLES.load_weights(folder, set(), "an EAGLE head", lambda name: name.removeprefix("model."))
    if found := sorted(name for name in weights if name.startswith(("midlayer.", "d2t")) or name == "hidden_norm.weight"):
        raise UnsupportedModelError(
            f"'{folder}' holds a head of EAGLE-3 ({found[0]}), which reads three layers of the target; heads of EAGLE and EAGLE-2 are read."
        )
    network = _build_network(config, target, any(name.endswith("q_proj.bias") for name in weights))
    layer = network.model.layers[0]
    if f"{LAYER}input_layernorm.weight" not in weights:
        layer.input_layernorm = nn.Identity()
    shapes = {"fc.weight": (width, 2 * width)} | {LAYER + name: tuple(value.shape) for name, value in layer.state_dict().items()}
    shapes |= {name: (vocabulary, width) for name in ("embed_tokens.weight", "lm_head.weight") if name in weights}
    shapes |= {"fc.bias": (width,)} if "fc.bias" in weights else {}
    if sizes[0] != width or sizes[-1] != vocabulary:
        raise ModelError(
            f"The EAGLE head in '{folder}' was made for another target: its states have width {sizes[0]} and its vocabulary {sizes[-1]} "
            f"tokens; this target has width {width} and {vocabulary} tokens."
        )
    weights |= {
        name: torch.zeros(shape) for name, shape in shapes.items() if name.endswith("o_proj.bias") and name not in weights
    }
    if missing := sorted(shapes.keys() - weights.keys()):
        raise DamagedModelError(
            f"'{folder / WEIGHTS}' lacks {len(missing)} of the {len(shapes)} weights of an EAGLE head: {missing[0]}."
        )
    for name, shape in shapes.items():
        if tuple(weights[name].shape) != shape:
            raise DamagedModelError(
                f"'{folder / WEIGHTS}' does not fit its own {CONFIG}: {name} is {format_shape(weights[name].shape)}, not {format_shape(shape)}."
            )
    ready = {name: weights[name].to(output.weight.device, output.weight.dtype) for name in shapes}
    layer.load_state_dict({name: ready[LAYER + name] for name in layer.state_dict()})
    network.model.embed_tokens, network.lm_head = embedding, output
    if "embed_tokens.weight" in ready:
        network.model.embed_tokens = nn.Embedding.from_pretrained(ready["embed_tokens.weight"])
    if "lm_head.weight" in ready:
        network.lm_head = nn.Linear(width, vocabulary, bias=False, device="meta")
        network.lm_head.weight = nn.Parameter(ready["lm_head.weight"], requires_grad=False)
    network.to(output.weight.device, output.weight.dtype).eval().requires_grad_(False)
    return DraftHead(network, Weights(ready["fc.weight"], packs=True), ready.get("fc.bias"))


def _find_embeddings(target: PreTrainedModel) -> tuple[nn.Module, nn.Linear]:
    """The target's embeddings and its output matrix."""
    output = target.get_output_embeddings()
    if target.config.is_encoder_decoder or not isinstance(output, nn.Linear) or output.bias is not None:
        raise UnsupportedModelError(
            "An EAGLE head needs a decoder whose last state, times one matrix without a bias, gives its logits; this target of the family "
            f"'{target.config.model_type}' is another."
        )
    return target.get_input_embeddings(), output


def _build_network(config: Mapping[str, Any], target: PreTrainedModel, biased: bool) -> LlamaForCausalLM:
    """A Llama model with one layer of these sizes, without a last norm; its embeddings are left to be set."""
    text = target.config.get_text_config()
    more = {name: config[name] for name in (*SIZES, *OPTIONAL_SIZES) if config.get(name) is not None} | {
        "vocab_size": 1,
        "bos_token_id": None,
        "eos_token_id": None,
    }
    try:
        made = LlamaForCausalLM(LlamaConfig(**more, attention_bias=biased, max_position_embeddings=text.max_position_embeddings))
    except Exception as error:  # the library's checks of a configuration raise unrelated types
        first = str(error).strip().splitlines()[0][:240] if str(error).strip() else type(error).__name__
        raise DamagedModelError(f"The {CONFIG} of the EAGLE head does not describe a Llama layer: {first}") from error
    made.config.vocab_size, made.model.norm = text.vocab_size, nn.Identity()
    return made


def save_eagle(weights: Mapping[str, Tensor], config: PretrainedConfig, folder: Path) -> None:
    """Write a head in the published layout, by its published names; config: of the target, whose layers have the head's sizes."""
    EAGLES.save(folder, weights)
    sizes = {name: getattr(config, name, None) for name in (*SIZES, *OPTIONAL_SIZES) if name != "rope_scaling"}
    sizes = {name: value for name, value in sizes.items() if value is not None}
    known = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"} | sizes | {"num_hidden_layers": 1}
    (folder / CONFIG).write_text(json.dumps(known, indent=1) + "\n")
