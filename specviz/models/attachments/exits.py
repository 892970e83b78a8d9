"""Early exits: draft the next token from a hidden state in the middle of the target (Elhoushi et al. 2024, LayerSkip).

The state after the first layers is normalized, goes through an adapter of residual blocks (Cai et al. 2024), and is multiplied by
the target's output matrix. A folder holds ``config.json`` with ``exit_layer``, the number of layers below the exit, and
``exit_blocks``; its ``exit.safetensors`` holds ``norm.weight`` (width,) and, for block K, ``K.linear.weight`` (width, width) and
``K.linear.bias``. Without a trained exit the target's own final norm is applied.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import Gemma3ForCausalLM, LlamaForCausalLM, PreTrainedModel

from specviz.errors import ModelError, SettingsError, UnsupportedModelError
from specviz.models.attachments.folder import Attachment, Layer, ResidualBlock, build_block, name_layer
from specviz.models.fast_llama.layers import find_fast_weights
from specviz.models.fast_llama.products import Weights, multiply
from specviz.models.few_tokens import copy_for_few_tokens
from specviz.settings import EXIT_LAYER_MAX, Settings

WEIGHTS = "exit.safetensors"
BLOCKS_MAX = 8

EXITS = Attachment("early_exit", "early exit", WEIGHTS, {"exit_layer": (1, EXIT_LAYER_MAX), "exit_blocks": (0, BLOCKS_MAX)})


@dataclass(frozen=True, slots=True)
class Exit:
    """An early exit of one target. Read-only."""

    layer: int  # number of the target's layers below the exit
    norm: Tensor  # (width,) weights of an RMS norm
    epsilon: float  # of that norm
    blocks: tuple[ResidualBlock, ...]  # residual blocks of the adapter
    output: Weights | nn.Module  # output matrix (V, width), as ``product`` takes it

    @torch.inference_mode()
    def compute_logits(self, states: Tensor) -> Tensor:
        """States after the layers below (B, T, width) -> logits (B, T, V), both in the target's dtype."""
        x = F.rms_norm(states, self.norm.shape, self.norm, self.epsilon)
        for block in self.blocks:
            x = block(x)
        return multiply(x, self.output)


def find_exit(name: str, target: PreTrainedModel, settings: Settings) -> Exit:
    """The exit of the settings: a trained one (from an admitted folder or the pair's own), or a bare one at their layer.

    Raises SettingsError for a layer that the target or the folder's exit does not have and for a folder that was not admitted;
    ModelError without a layer and a trained exit; UnsupportedModelError for a target whose layers cannot be run separately; and
    as ``load_exit``.
    """
    layers = _count_layers(target)
    if settings.exit_layer is not None and settings.exit_layer >= layers:
        raise SettingsError("exit-layer", settings.exit_layer, f"from 1 to {layers - 1}: the target has {layers} layers")
    if place := EXITS.choose_folder(name, settings.early_exit):
        trained = EXITS.load_once(target, place, load_exit)
        if settings.exit_layer in (None, trained.layer):
            return trained
        if settings.early_exit:
            raise SettingsError("exit-layer", settings.exit_layer, f"{trained.layer}, the layer that the exit in '{place}' reads")
    if settings.exit_layer is None:
        raise ModelError(
            f"This pair has no trained exit of its own: name a layer with --exit-layer N (1 to {layers - 1}), or a folder with --early-exit DIR. "
            f"The pair is {name!r}."
        )
    return build_bare_exit(target, settings.exit_layer)


def build_bare_exit(target: PreTrainedModel, layer: int) -> Exit:
    """The target's own final norm and output matrix, applied to an earlier state. Needs no training; few draft tokens are accepted."""
    norm = target.model.norm
    if isinstance(target, Gemma3ForCausalLM):  # whose norm multiplies by 1 + weight
        return Exit(layer, 1.0 + norm.weight.detach(), norm.eps, (), copy_for_few_tokens(target).get_output_embeddings())
    return Exit(layer, norm.weight, norm.variance_epsilon, (), find_fast_weights(target).head)


def load_exit(folder: Path, target: PreTrainedModel) -> Exit:
    """Load a trained exit, in the target's dtype and on its device.

    Raises ModelError if there is none or it was made for another target, DamagedModelError if it cannot be read.
    """
    layer, count = EXITS.read_config(folder)
    bare, width = build_bare_exit(target, layer), target.config.hidden_size
    shapes: dict[str, tuple[int, ...]] = {"norm.weight": (width,)}
    for k in range(count):
        weight, bias = name_layer(f"{k}")
        shapes |= {weight: (width, width), bias: (width,)}
    weights = EXITS.load_weights(folder, set(shapes), f"an exit of {count} blocks")
    if layer >= _count_layers(target) or any(tuple(weights[name].shape) != shape for name, shape in shapes.items()):
        raise ModelError(
            f"The exit in '{folder}' was made for another target: it reads a state of width {len(weights['norm.weight'])} after layer "
            f"{layer}; this target has {_count_layers(target)} layers of width {width}."
        )
    ready = {name: weights[name].to(bare.norm.device, bare.norm.dtype) for name in shapes}
    blocks = tuple(build_block(ready, f"{k}") for k in range(count))
    return Exit(layer, ready["norm.weight"], bare.epsilon, blocks, bare.output)


def save_exit(layer: int, norm: Tensor, blocks: list[Layer], folder: Path) -> None:
    """Write an exit in the layout above; blocks: (weight, bias) each."""
    named = {"norm.weight": norm}
    for k, pair in enumerate(blocks):
        named |= dict(zip(name_layer(f"{k}"), pair, strict=True))
    EXITS.save(folder, named, layer, len(blocks))


def _count_layers(target: PreTrainedModel) -> int:
    """Number of layers of the target. An exit needs at least one below it and one above it."""
    is_capped = getattr(target.config, "final_logit_softcapping", None) is not None  # after the output matrix
    if type(target) not in (LlamaForCausalLM, Gemma3ForCausalLM) or is_capped:
        raise UnsupportedModelError(
            "Early exit runs the target's layers separately, which is supported for Llama and Gemma 3 decoders; this target is of the family "
            f"'{target.config.model_type}'."
        )
    if target.config.num_hidden_layers < 2:
        raise UnsupportedModelError(
            "Early exit needs a target with at least 2 layers, one of them above the exit; this one has 1."
        )
    return target.config.num_hidden_layers
