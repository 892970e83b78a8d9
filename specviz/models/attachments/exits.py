"""Early exits: what draft tokens the next token from a state in the middle of the target.

After its first layers a target's state is normed, goes through a small adapter of residual blocks, and meets the target's own
output matrix (Elhoushi et al. 2024, LayerSkip; the adapter as in Cai et al. 2024). A folder holds ``config.json`` with
``exit_layer``, how many layers lie below, and ``exit_blocks``; ``exit.safetensors`` with ``norm.weight`` (width,) and, for block
K, ``K.linear.weight`` (width, width) and ``K.linear.bias``. Without a trained exit the target's own last norm reads the state.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import LlamaForCausalLM, PreTrainedModel

from specviz.errors import ModelError, SettingsError, UnsupportedModel
from specviz.models.attachments.folder import Attachment, DraftTree, Layer, layer_names, tree_of
from specviz.models.fast_llama.products import product
from specviz.models.pairs.catalogue import PAIRS
from specviz.settings import EXIT_LAYER_MAX, Settings

WEIGHTS = "exit.safetensors"
BLOCKS_MAX = 8

EXITS = Attachment("exit", "early exit", WEIGHTS, {"exit_layer": (1, EXIT_LAYER_MAX), "exit_blocks": (0, BLOCKS_MAX)})


@dataclass(frozen=True, slots=True)
class Exit:
    """Read-only.

    layer   how many of the target's layers lie below
    norm    (width,) of an RMS norm, and its epsilon; blocks  of the adapter; output  (V, width)
    """

    layer: int
    norm: Tensor
    epsilon: float
    blocks: tuple[DraftTree, ...]
    output: Tensor

    @torch.inference_mode()
    def logits(self, states: Tensor) -> Tensor:
        """States after the layers below, (B, T, width) -> (B, T, V), both in the target's dtype."""
        x = F.rms_norm(states, self.norm.shape, self.norm, self.epsilon)
        for block in self.blocks:
            x = block(x)
        return product(x, self.output)


def exit_of(name: str, target: PreTrainedModel, settings: Settings) -> Exit:
    """The exit that settings ask for: a trained one, from a folder that was admitted or the pair's own, or the bare one at their layer.

    name  of the pair

    Raises SettingsError for a layer that the target has not or the folder's exit does not read, and for a folder that nobody
    admitted; ModelError where no layer is named and there is no trained exit, UnsupportedModel for a target whose layers cannot
    be run apart, and as ``load_exit``.
    """
    layers = _layers(target)
    if settings.exit_layer is not None and settings.exit_layer >= layers:
        raise SettingsError("exit-layer", settings.exit_layer, f"from 1 to {layers - 1}: the target has {layers} layers")
    entry = PAIRS.get(name)
    if place := EXITS.place(settings.exit, entry.exit if entry else None):
        trained = EXITS.once(target, place, load_exit)
        if settings.exit_layer in (None, trained.layer):
            return trained
        if settings.exit:
            raise SettingsError("exit-layer", settings.exit_layer, f"{trained.layer}, which the exit in '{place}' reads")
    if settings.exit_layer is None:
        raise ModelError(
            f"The pair {name!r} has no trained exit of its own: name a layer with --exit-layer N (1 to {layers - 1}), or a folder "
            "with --exit DIR."
        )
    return bare_exit(target, settings.exit_layer)


def bare_exit(target: LlamaForCausalLM, layer: int) -> Exit:
    """The target's own last norm and output matrix on a state for which they were not made: no training, and few draft tokens kept."""
    norm = target.model.norm
    return Exit(layer, norm.weight, norm.variance_epsilon, (), target.lm_head.weight)


def load_exit(folder: Path, target: LlamaForCausalLM) -> Exit:
    """A trained exit in the target's dtype and on its device.

    Raises ModelError where the folder holds none or it was made for another target, DamagedModel where it cannot be read;
    nothing half loaded is kept.
    """
    layer, count = EXITS.config(folder)
    bare, width = bare_exit(target, layer), target.config.hidden_size
    shapes = {"norm.weight": (width,)}
    for k in range(count):
        shapes |= dict(zip(layer_names(f"{k}"), ((width, width), (width,)), strict=True))
    weights = EXITS.loaded(folder, set(shapes), f"an exit of {count} blocks")
    if layer >= _layers(target) or any(tuple(weights[name].shape) != shape for name, shape in shapes.items()):
        raise ModelError(
            f"The exit in '{folder}' was made for another target: it reads a state of width {len(weights['norm.weight'])} after layer "
            f"{layer}; this target has {_layers(target)} layers of width {width}."
        )
    ready = {name: weights[name].to(bare.output.device, bare.output.dtype) for name in shapes}
    blocks = tuple(tree_of(ready, f"{k}") for k in range(count))
    return Exit(layer, ready["norm.weight"], bare.epsilon, blocks, bare.output)


def save_exit(layer: int, norm: Tensor, blocks: list[Layer], folder: Path) -> None:
    """An exit in the layout above; blocks: (weight, bias) each."""
    named = {"norm.weight": norm}
    for k, pair in enumerate(blocks):
        named |= dict(zip(layer_names(f"{k}"), pair, strict=True))
    EXITS.save(folder, named, layer, len(blocks))


def _layers(target: PreTrainedModel) -> int:
    """How many layers a target has, one of which must be above the exit and one below."""
    if type(target) is not LlamaForCausalLM:
        raise UnsupportedModel(
            f"Early exit runs the target's layers apart, which is supported for Llama decoders; this target is of the family "
            f"'{target.config.model_type}'."
        )
    if target.config.num_hidden_layers < 2:
        raise UnsupportedModel("Early exit needs a target of at least 2 layers, one of them above the exit; this one has 1.")
    return target.config.num_hidden_layers
