"""Early exits: what guesses the next token from a state in the middle of the target.

After its first layers a target's state is normed, goes through a small adapter of residual blocks, and meets the target's own
output matrix (Elhoushi et al. 2024, LayerSkip; the adapter as in Cai et al. 2024). A folder holds ``config.json`` with
``exit_layer``, how many layers lie below, and ``exit_blocks``; ``exit.safetensors`` with ``norm.weight`` (width,) and, for block
K, ``K.linear.weight`` (width, width) and ``K.linear.bias``. Without a trained exit the target's own last norm reads the state.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import LlamaForCausalLM, PreTrainedModel

from specviz.errors import DamagedModel, ModelError, SettingsError, UnsupportedModel
from specviz.models.catalogue import PAIRS
from specviz.models.heads import Block
from specviz.models.products import product
from specviz.settings import EXIT_LAYER_MAX, Settings

CONFIG, WEIGHTS = "config.json", "exit.safetensors"
BLOCKS_MAX = 8

_admitted: set[str] = set()  # folders named by whoever runs the program
_read: WeakKeyDictionary = WeakKeyDictionary()  # target -> {folder: Exit}; only read once they are made


@dataclass(frozen=True, slots=True)
class Exit:
    """Read-only.

    layer   how many of the target's layers lie below
    norm    (width,) of an RMS norm, and its epsilon; blocks  of the adapter; output  (V, width)
    """

    layer: int
    norm: Tensor
    epsilon: float
    blocks: tuple[Block, ...]
    output: Tensor

    @torch.inference_mode()
    def logits(self, states: Tensor) -> Tensor:
        """States after the layers below, (B, T, width) -> (B, T, V), both in the target's dtype."""
        x = F.rms_norm(states, self.norm.shape, self.norm, self.epsilon)
        for block in self.blocks:
            x = block(x)
        return product(x, self.output)


def admit(folder: str) -> str:
    """A folder that an exit may be read from, from now on in this process; for the command line alone.

    Raises ModelError where it holds no exit, DamagedModel where it does not say which layer it reads.
    """
    _config(Path(folder))
    _admitted.add(folder)
    return folder


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
    place = _place(name, settings)
    if place:
        known = _read.setdefault(target, {})
        if place not in known:
            known[place] = load_exit(Path(place), target)
        trained = known[place]
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
    """The target's own last norm and output matrix on a state for which they were not made: no training, and few guesses kept."""
    norm = target.model.norm
    return Exit(layer, norm.weight, norm.variance_epsilon, (), target.lm_head.weight)


def load_exit(folder: Path, target: LlamaForCausalLM) -> Exit:
    """A trained exit in the target's dtype and on its device.

    Raises ModelError where the folder holds none or it was made for another target, DamagedModel where it cannot be read;
    nothing half loaded is kept.
    """
    layer, count = _config(folder)
    try:
        weights = load_file(folder / WEIGHTS)
    except (OSError, SafetensorError) as error:
        raise DamagedModel(f"'{folder / WEIGHTS}' cannot be read: {error}.") from error
    bare, width = bare_exit(target, layer), target.config.hidden_size
    shapes = {"norm.weight": (width,)}
    for k in range(count):
        shapes |= {f"{k}.linear.weight": (width, width), f"{k}.linear.bias": (width,)}
    if missing := shapes.keys() - weights.keys():
        raise DamagedModel(
            f"'{folder / WEIGHTS}' lacks {len(missing)} of the {len(shapes)} weights of an exit of {count} blocks."
        )
    if layer >= _layers(target) or any(tuple(weights[name].shape) != shape for name, shape in shapes.items()):
        raise ModelError(
            f"The exit in '{folder}' was made for another target: it reads a state of width {len(weights['norm.weight'])} after layer "
            f"{layer}; this target has {_layers(target)} layers of width {width}."
        )
    ready = {name: weights[name].to(bare.output.device, bare.output.dtype) for name in shapes}
    blocks = tuple(Block(ready[f"{k}.linear.weight"], ready[f"{k}.linear.bias"]) for k in range(count))
    return Exit(layer, ready["norm.weight"], bare.epsilon, blocks, bare.output)


def save_exit(layer: int, norm: Tensor, blocks: list[tuple[Tensor, Tensor]], folder: Path) -> None:
    """An exit in the layout above; blocks: (weight, bias) each."""
    folder.mkdir(parents=True, exist_ok=True)
    named = {"norm.weight": norm.contiguous()}
    for k, pair in enumerate(blocks):
        named |= {f"{k}.linear.{name}": value.contiguous() for name, value in zip(("weight", "bias"), pair, strict=True)}
    save_file(named, folder / WEIGHTS)
    (folder / CONFIG).write_text(json.dumps({"exit_layer": layer, "exit_blocks": len(blocks)}) + "\n")


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


def _place(name: str, settings: Settings) -> str | None:
    """The folder of a trained exit, or None."""
    if settings.exit and settings.exit not in _admitted:
        raise SettingsError(
            "exit", settings.exit[:60], "left out for the pair's own, or a folder named on the command line: --exit DIR"
        )
    entry = PAIRS.get(name)
    return settings.exit or (entry.exit if entry else None)


def _config(folder: Path) -> tuple[int, int]:
    """Layers below the exit, and blocks of its adapter."""
    path = folder / CONFIG
    if not path.is_file() or not (folder / WEIGHTS).is_file():
        raise ModelError(f"'{folder}' holds no early exit: {CONFIG} and {WEIGHTS} are needed.")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        layer, blocks = config["exit_layer"], config["exit_blocks"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedModel(f"'{path}' names no exit_layer and exit_blocks.") from error
    for name, value, least, most in (("exit_layer", layer, 1, EXIT_LAYER_MAX), ("exit_blocks", blocks, 0, BLOCKS_MAX)):
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise DamagedModel(f"'{path}' says {name} {value!r}; allowed is a whole number from {least} to {most}.")
    return layer, blocks
