"""Modules trained onto a frozen target and stored in a folder of their own, or under a hub name: Medusa heads, early exits.

A folder holds ``config.json`` with a few whole numbers, and one file of weights. It is read only if it was named on the command
line. It is read once for each target, into the target's dtype and device; nothing half read is kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import PreTrainedModel

from specviz.errors import DamagedModelError, ModelError, SettingsError
from specviz.models.fast_llama.products import Weights, multiply
from specviz.models.hub.download import download_models
from specviz.models.hub.files import describe_pickled, list_model
from specviz.models.pairs.catalog import PAIRS
from specviz.models.pairs.names import expand_path, parse_hub_name

CONFIG = "config.json"
T = TypeVar("T")
Layer = tuple[Tensor, Tensor]  # weight and bias


@dataclass(frozen=True, slots=True)
class ResidualBlock:
    """x + silu(W x + b)."""

    weight: Weights | Tensor
    bias: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """(B, T, width) -> the same."""
        return x + F.silu(multiply(x, self.weight) + self.bias)


class Attachment:
    """One kind of attachment.

    Args:
        name: Name of the setting and of the option that names a folder.
        what: Its name in sentences, such as "Medusa heads".
        weights: Name of the weights file.
        numbers: What config.json must hold: name -> (least, most).
        others: Further names of the weights file, and of numbers: name -> the same number's name in another layout.
    """

    def __init__(
        self,
        name: str,
        noun: str,
        weights: str,
        numbers: Mapping[str, tuple[int, int]],
        others: tuple[tuple[str, ...], Mapping[str, str]] = ((), {}),
    ):
        self.name, self.noun, self.weights, self.numbers = name, noun, weights, dict(numbers)
        self.other_weights, self.other_numbers = others
        self.allowed: set[str] = set()  # folders named on the command line
        self.read: WeakKeyDictionary = WeakKeyDictionary()  # target -> {folder: what was read}; read-only once made

    def allow(self, folder: str) -> str:
        """Allow a folder or hub name to be read in this process. Only the command line calls this.

        Raises ModelError if the folder holds nothing of this kind, DamagedModelError if its config cannot be used.
        """
        self.read_config(self.find_folder(folder))
        self.allowed.add(folder)
        return folder

    def find_folder(self, place: str) -> Path:
        """The folder that a place names; of a hub name, after the download of what is not here.

        Raises ModelError as ``listing`` and ``download`` for what the hub refuses or does not hold.
        """
        if parse_hub_name(place) is None:
            return expand_path(place)
        listed = list_model(place, (self.weights, *self.other_weights))
        download_models([listed])
        return listed.folder

    def choose_folder(self, pair: str, folder: str) -> str | None:
        """The folder to read: an admitted one, else the own of the pair of this name, if any. Raises SettingsError for any other."""
        option = self.name.replace("_", "-")
        if folder and folder not in self.allowed:
            allowed = f"left out to use the pair's own, or a folder named on the command line with --{option} DIR"
            raise SettingsError(option, folder[:60], allowed)
        return folder or getattr(PAIRS.get(pair), self.name, None)

    def find(self, pair: str, target: PreTrainedModel, folder: str, load: Callable[[Path, PreTrainedModel], T]) -> T:
        """The attachment of a pair's target, read once: from an admitted folder, or from the pair's own if ``folder`` is empty.

        Raises SettingsError for a folder that was not admitted, ModelError if the pair has none of its own, and as ``load``.
        """
        if (place := self.choose_folder(pair, folder)) is None:
            option = self.name.replace("_", "-")
            raise ModelError(f"This pair has no {self.noun} of its own: name a folder with --{option} DIR. The pair is {pair!r}.")
        return self.load_once(target, place, load)

    def load_once(self, target: PreTrainedModel, place: str, load: Callable[[Path, PreTrainedModel], T]) -> T:
        """What the folder holds for this target; read at the first call."""
        known = self.read.setdefault(target, {})
        if place not in known:
            known[place] = load(self.find_folder(place), target)
        return known[place]

    def read_config(self, folder: Path) -> tuple[int, ...]:
        """The numbers of config.json, in the order of ``numbers``."""
        path, config = folder / CONFIG, self.record(folder)
        values = tuple(config[name] for name in self.numbers)
        for (name, (least, most)), value in zip(self.numbers.items(), values, strict=True):
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise DamagedModelError(f"'{path}' says {name} {value!r}; allowed is a whole number from {least} to {most}.")
        return values

    def find_weights_file(self, folder: Path) -> Path:
        """The weights file of a folder, under the first of its names that is there; under the usual one if none is."""
        paths = [folder / name for name in (self.weights, *self.other_weights)]
        return next((path for path in paths if path.is_file()), paths[0])

    def record(self, folder: Path) -> dict[str, Any]:
        """The part of config.json that holds ``numbers``, under their usual names: all of it, or what stands under one of its keys."""
        path = folder / CONFIG
        if not path.is_file() or not self.find_weights_file(folder).is_file():
            why = describe_pickled(file.name for file in folder.glob("*"))
            raise ModelError(f"'{folder}' holds no {self.noun}: {CONFIG} and {self.weights} are needed{why}.")
        try:
            config = json.loads(path.read_text(encoding="utf-8"))
            parts = [part for part in (config, *config.values()) if isinstance(part, dict)]
            parts += [part | {name: part.get(other) for name, other in self.other_numbers.items()} for part in parts]
            return next(part for part in parts if all(part.get(name) is not None for name in self.numbers))
        except (OSError, ValueError, AttributeError, StopIteration, RecursionError) as error:
            raise DamagedModelError(f"'{path}' does not hold {' and '.join(self.numbers)}.") from error

    def load_weights(
        self, folder: Path, names: set[str], of: str, usual: Callable[[str], str] = lambda name: name
    ) -> dict[str, Tensor]:
        """The weights by name. names: those that must be there; of: what they belong to, for the sentence. Raises DamagedModelError.

        ``usual``: a name of another layout -> the same weight's usual name.
        """
        path = self.find_weights_file(folder)
        try:
            weights = {usual(name): value.clone() for name, value in load_file(path).items()}  # the file may change later
        except (OSError, SafetensorError) as error:
            raise DamagedModelError(f"'{path}' cannot be read: {error}.") from error
        if missing := names - weights.keys():
            raise DamagedModelError(f"'{path}' lacks {len(missing)} of the {len(names)} weights of {of}.")
        return weights

    def save(self, folder: Path, weights: Mapping[str, Tensor], *values: int) -> None:
        """Write a folder in the layout that is read: the weights, and the values of ``numbers`` unless none are given."""
        folder.mkdir(parents=True, exist_ok=True)
        save_file({name: value.contiguous() for name, value in weights.items()}, folder / self.weights)
        if values:
            (folder / CONFIG).write_text(json.dumps(dict(zip(self.numbers, values, strict=True))) + "\n")


def name_layer(prefix: str) -> tuple[str, str]:
    """Names of the weight and the bias of the block with this prefix, such as "0" or "0.1"."""
    return f"{prefix}.linear.weight", f"{prefix}.linear.bias"


def build_block(weights: Mapping[str, Tensor], prefix: str) -> ResidualBlock:
    """The block with this prefix."""
    weight, bias = (weights[name] for name in name_layer(prefix))
    return ResidualBlock(Weights(weight, packs=True), bias)


def format_shape(shape: tuple[int, ...]) -> str:
    """A shape in a sentence, such as 4096 x 256."""
    return " x ".join(map(str, shape))
