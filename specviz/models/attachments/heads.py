"""Medusa heads: networks that read the target's last hidden state and draft the tokens after the next one (Cai et al. 2024).

Head k, from 0, drafts the token k + 2 places after the one whose hidden state it reads. Folders have a published layout:
``config.json`` with ``medusa_num_heads`` and ``medusa_num_layers``, and ``medusa_lm_head.safetensors`` with ``K.L.linear.weight``
(width, width) and ``K.L.linear.bias`` (width,) for block L of head K, perhaps with ``K.LAYERS.weight`` (V, width), the head's own
output matrix in place of the target's. vLLM's layout has ``num_heads`` and ``num_hidden_layers``, and in ``model.safetensors``
``blocks.K.layers.L.weight``, often without biases, and ``lm_heads.K.weight``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import LlamaForCausalLM, PreTrainedModel

from specviz.errors import ModelError
from specviz.models.attachments.folder import Attachment, Layer, ResidualBlock, build_block, format_shape, name_layer
from specviz.models.fast_llama.layers import find_fast_weights
from specviz.models.fast_llama.products import Weights, multiply

WEIGHTS = "medusa_lm_head.safetensors"
HEADS_MAX, LAYERS_MAX = 16, 8

VLLM = ("model.safetensors",), {"medusa_num_heads": "num_heads", "medusa_num_layers": "num_hidden_layers"}
NUMBERS = {"medusa_num_heads": (1, HEADS_MAX), "medusa_num_layers": (1, LAYERS_MAX)}
_BLOCK, _OUTPUT = re.compile(r"blocks\.(\d+)\.layers\.(\d+)\.(weight|bias)"), re.compile(r"lm_heads\.(\d+)\.weight")

HEADS = Attachment("heads", "Medusa heads", WEIGHTS, NUMBERS, VLLM)


@dataclass(frozen=True, slots=True)
class Heads:
    """K heads over one target. Read-only."""

    blocks: tuple[tuple[ResidualBlock, ...], ...]  # for each head its residual blocks
    outputs: tuple[Weights | Tensor | nn.Module, ...]  # for each head its output matrix (V, width), as ``product`` takes it

    def __len__(self) -> int:
        return len(self.blocks)

    @torch.inference_mode()
    def compute_logits(self, features: Tensor, count: int | None = None) -> Tensor:
        """Hidden states (B, width) after the target's final norm -> logits (B, count, V) of the first ``count`` heads."""
        count = len(self) if count is None else min(count, len(self))
        made = []
        for blocks in self.blocks[:count]:
            x = features[:, None]
            for block in blocks:
                x = block(x)
            made.append(x)
        if count and all(matrix is self.outputs[0] for matrix in self.outputs):  # one product reads the shared matrix once
            return multiply(torch.cat(made, 1), self.outputs[0])
        return torch.cat([multiply(x, matrix) for x, matrix in zip(made, self.outputs, strict=False)], 1)


def load_heads(folder: Path, target: PreTrainedModel) -> Heads:
    """Load heads in a published layout, in the target's dtype and on its device.

    Raises ModelError if there are none or they were made for another target, DamagedModelError if they cannot be read.
    """
    count, layers = HEADS.read_config(folder)
    text, own = target.config.get_text_config(), target.get_output_embeddings().weight
    width, names = text.hidden_size, [name_layer(f"{k}.{layer}") for k in range(count) for layer in range(layers)]
    shapes = {name: shape for pair in names for name, shape in zip(pair, ((width, width), (width,)), strict=True)}
    biases = {} if HEADS.find_weights_file(folder).name == WEIGHTS else {name: torch.zeros(width) for _, name in names}
    weights = biases | HEADS.load_weights(
        folder, shapes.keys() - biases.keys(), f"{count} heads", partial(_rename_weight, layers)
    )
    tables = {f"{k}.{layers}.weight" for k in range(count)}
    shapes |= {name: (own.shape[0], width) for name in tables & weights.keys()}
    for name, shape in shapes.items():
        if tuple(weights[name].shape) != shape:
            raise ModelError(
                f"The heads in '{folder}' were made for another target: {name} is {format_shape(weights[name].shape)}, and this target"
                f" needs {format_shape(shape)}."
            )
    ready = {name: value.to(own.device, own.dtype) for name, value in weights.items()}
    blocks = tuple(tuple(build_block(ready, f"{k}.{layer}") for layer in range(layers)) for k in range(count))
    shared = find_fast_weights(target).head if type(target) is LlamaForCausalLM else own
    return Heads(blocks, tuple(ready.get(f"{k}.{layers}.weight", shared) for k in range(count)))


def _rename_weight(layers: int, name: str) -> str:
    """The usual name of a weight in vLLM's layout, or below another module; any other name as it is."""
    name = name.removeprefix("medusa_heads.").removeprefix("medusa_head.")
    if found := _BLOCK.fullmatch(name):
        return f"{found[1]}.{found[2]}.linear.{found[3]}"
    return f"{found[1]}.{layers}.weight" if (found := _OUTPUT.fullmatch(name)) else name


def save_heads(blocks: list[list[Layer]], folder: Path) -> None:
    """Write heads that use the target's output matrix, in the published layout; blocks: (weight, bias) pairs for each head."""
    named = {
        name: value
        for k, head in enumerate(blocks)
        for layer, pair in enumerate(head)
        for name, value in zip(name_layer(f"{k}.{layer}"), pair, strict=True)
    }
    HEADS.save(folder, named, len(blocks), len(blocks[0]))
