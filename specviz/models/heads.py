"""Medusa heads: small networks that read the target's last hidden state and guess the tokens after the next one.

Cai et al. 2024. Head k, from 0, guesses the token k + 2 places after the one whose hidden state it reads. Folders are read in
the published layout: ``config.json`` with ``medusa_num_heads`` and ``medusa_num_layers``, weights as ``medusa_lm_head.safetensors``
with ``K.L.linear.weight``, ``K.L.linear.bias`` (width, width) for block L of head K, and ``K.LAYERS.weight`` (V, width), its own
output matrix. Where that is missing the head uses the target's own, as the heads that ship do.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from specviz.errors import DamagedModel, ModelError, SettingsError
from specviz.models.catalogue import PAIRS
from specviz.models.written import product

if TYPE_CHECKING:
    from specviz.models.pair import Pair

CONFIG, WEIGHTS = "config.json", "medusa_lm_head.safetensors"
HEADS_MAX, LAYERS_MAX = 16, 8

_admitted: set[str] = set()  # folders named by whoever runs the program
_read: WeakKeyDictionary = WeakKeyDictionary()  # target -> {folder: Heads}; only read once they are made


@dataclass(frozen=True, slots=True)
class Block:
    """x + silu(W x + b)."""

    weight: Tensor
    bias: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """(B, T, width) -> the same."""
        return x + F.silu(product(x, self.weight) + self.bias)


@dataclass(frozen=True, slots=True)
class Heads:
    """K heads over one target. Read-only.

    blocks   per head its residual blocks
    outputs  per head its output matrix (V, width)
    """

    blocks: tuple[tuple[Block, ...], ...]
    outputs: tuple[Tensor, ...]

    def __len__(self) -> int:
        return len(self.blocks)

    @torch.inference_mode()
    def logits(self, features: Tensor, count: int | None = None) -> Tensor:
        """Hidden states (B, width), after the target's last norm -> (B, count, V) logits of the first ``count`` heads."""
        count = len(self) if count is None else min(count, len(self))
        made = []
        for blocks in self.blocks[:count]:
            x = features[:, None]
            for block in blocks:
                x = block(x)
            made.append(x)
        if count and all(matrix is self.outputs[0] for matrix in self.outputs):  # one product reads the shared matrix once
            return product(torch.cat(made, 1), self.outputs[0])
        return torch.cat([product(x, matrix) for x, matrix in zip(made, self.outputs, strict=False)], 1)


def admit(folder: str) -> str:
    """A folder that heads may be read from, from now on in this process; for the command line alone.

    Raises ModelError where it holds no heads, DamagedModel where it does not say how many.
    """
    _config(Path(folder))
    _admitted.add(folder)
    return folder


def heads_of(pair: Pair, folder: str = "") -> Heads:
    """A pair's heads, read once for each target: from a folder that was admitted, or from the pair's own where it is left empty.

    Raises SettingsError for a folder that nobody admitted, ModelError where the pair has no heads of its own, and as ``load_heads``.
    """
    if folder and folder not in _admitted:
        raise SettingsError(
            "heads", folder[:60], "left out for the pair's own, or a folder named on the command line: --heads DIR"
        )
    entry = PAIRS.get(pair.name)
    place = folder or (entry.heads if entry else None)
    if place is None:
        raise ModelError(f"The pair {pair.name!r} has no Medusa heads of its own: name a folder of heads with --heads DIR.")
    known = _read.setdefault(pair.target, {})
    if place not in known:
        known[place] = load_heads(Path(place), pair.target)
    return known[place]


def load_heads(folder: Path, target: nn.Module) -> Heads:
    """Heads in the published layout, in the target's dtype and on its device.

    Raises ModelError where the folder holds no heads or they were made for another target, DamagedModel where it cannot be
    read; nothing half loaded is kept.
    """
    count, layers = _config(folder)
    try:
        weights = load_file(folder / WEIGHTS)
    except (OSError, SafetensorError) as error:
        raise DamagedModel(f"'{folder / WEIGHTS}' cannot be read: {error}.") from error
    text = target.config.get_text_config()
    own = target.get_output_embeddings().weight
    square, table = (text.hidden_size, text.hidden_size), (own.shape[0], text.hidden_size)
    wanted = {f"{k}.{layer}.linear.{name}" for k in range(count) for layer in range(layers) for name in ("weight", "bias")}
    tables = {f"{k}.{layers}.weight" for k in range(count)}
    if missing := wanted - set(weights):
        raise DamagedModel(f"'{folder / WEIGHTS}' lacks {len(missing)} of the {len(wanted)} weights of {count} heads.")
    shapes = {name: square[: weights[name].ndim] for name in wanted} | {name: table for name in tables & set(weights)}
    for name, shape in shapes.items():
        if tuple(weights[name].shape) != shape:
            raise ModelError(
                f"The heads in '{folder}' were made for another target: {name} is {_by(weights[name].shape)}, and this target"
                f" needs {_by(shape)}."
            )
    ready = {name: value.to(own.device, own.dtype) for name, value in weights.items()}
    blocks = tuple(
        tuple(Block(ready[f"{k}.{layer}.linear.weight"], ready[f"{k}.{layer}.linear.bias"]) for layer in range(layers))
        for k in range(count)
    )
    return Heads(blocks, tuple(ready.get(f"{k}.{layers}.weight", own) for k in range(count)))


def save_heads(blocks: list[list[tuple[Tensor, Tensor]]], folder: Path) -> None:
    """Heads that use the target's own output matrix, in the published layout; blocks: per head (weight, bias) pairs."""
    folder.mkdir(parents=True, exist_ok=True)
    named = {
        f"{k}.{layer}.linear.{name}": value.contiguous()
        for k, head in enumerate(blocks)
        for layer, pair in enumerate(head)
        for name, value in zip(("weight", "bias"), pair, strict=True)
    }
    save_file(named, folder / WEIGHTS)
    (folder / CONFIG).write_text(json.dumps({"medusa_num_heads": len(blocks), "medusa_num_layers": len(blocks[0])}) + "\n")


def _config(folder: Path) -> tuple[int, int]:
    """Number of heads and of residual blocks in each."""
    path = folder / CONFIG
    if not path.is_file() or not (folder / WEIGHTS).is_file():
        raise ModelError(f"'{folder}' holds no Medusa heads: {CONFIG} and {WEIGHTS} are needed.")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        count, layers = config["medusa_num_heads"], config["medusa_num_layers"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedModel(f"'{path}' names no medusa_num_heads and medusa_num_layers.") from error
    for name, value, most in (("medusa_num_heads", count, HEADS_MAX), ("medusa_num_layers", layers, LAYERS_MAX)):
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            raise DamagedModel(f"'{path}' says {name} {value!r}; allowed is a whole number from 1 to {most}.")
    return count, layers


def _by(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
