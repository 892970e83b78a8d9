"""What is trained onto a frozen target and kept in a folder of its own: Medusa heads, early exits.

A folder holds ``config.json`` with a few whole numbers, and one file of weights. It is read only where whoever runs the program has
named it, once for each target, and into the target's dtype and device; nothing half read is kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from weakref import WeakKeyDictionary

import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import PreTrainedModel

from specviz.errors import DamagedModel, ModelError, SettingsError
from specviz.models.fast_llama.products import product
from specviz.models.pairs.names import as_path

CONFIG = "config.json"
T = TypeVar("T")
Layer = tuple[Tensor, Tensor]  # weight and bias


@dataclass(frozen=True, slots=True)
class DraftTree:
    """x + silu(W x + b)."""

    weight: Tensor
    bias: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """(B, T, width) -> the same."""
        return x + F.silu(product(x, self.weight) + self.bias)


class Attachment:
    """One kind of it.

    name     of the setting and of the option that names a folder; what  in sentences, such as "Medusa heads"
    weights  file of the weights; numbers  what config.json must say: name -> (least, most)
    """

    def __init__(self, name: str, what: str, weights: str, numbers: Mapping[str, tuple[int, int]]):
        self.name, self.what, self.weights, self.numbers = name, what, weights, dict(numbers)
        self.admitted: set[str] = set()  # folders named by whoever runs the program
        self.read: WeakKeyDictionary = WeakKeyDictionary()  # target -> {folder: what was read}; only read once it is made

    def admit(self, folder: str) -> str:
        """A folder that may be read from now on in this process; for the command line alone.

        Raises ModelError where it holds nothing of this kind, DamagedModel where its config does not say how much.
        """
        self.config(as_path(folder))
        self.admitted.add(folder)
        return folder

    def place(self, folder: str, own: str | None) -> str | None:
        """The folder to read: one that was admitted, else the pair's own. Raises SettingsError for one that nobody admitted."""
        if folder and folder not in self.admitted:
            allowed = f"left out for the pair's own, or a folder named on the command line: --{self.name} DIR"
            raise SettingsError(self.name, folder[:60], allowed)
        return folder or own

    def once(self, target: PreTrainedModel, place: str, load: Callable[[Path, PreTrainedModel], T]) -> T:
        """What the folder holds for this target, read the first time."""
        known = self.read.setdefault(target, {})
        if place not in known:
            known[place] = load(as_path(place), target)
        return known[place]

    def config(self, folder: Path) -> tuple[int, ...]:
        """The numbers of config.json, in the order of ``numbers``."""
        path = folder / CONFIG
        if not path.is_file() or not (folder / self.weights).is_file():
            raise ModelError(f"'{folder}' holds no {self.what}: {CONFIG} and {self.weights} are needed.")
        try:
            config = json.loads(path.read_text(encoding="utf-8"))
            values = tuple(config[name] for name in self.numbers)
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise DamagedModel(f"'{path}' names no {' and '.join(self.numbers)}.") from error
        for (name, (least, most)), value in zip(self.numbers.items(), values, strict=True):
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise DamagedModel(f"'{path}' says {name} {value!r}; allowed is a whole number from {least} to {most}.")
        return values

    def loaded(self, folder: Path, wanted: set[str], of: str) -> dict[str, Tensor]:
        """The file of weights. wanted: names that it must hold; of: whose they are, in a sentence. Raises DamagedModel."""
        path = folder / self.weights
        try:
            weights = load_file(path)
        except (OSError, SafetensorError) as error:
            raise DamagedModel(f"'{path}' cannot be read: {error}.") from error
        if missing := wanted - weights.keys():
            raise DamagedModel(f"'{path}' lacks {len(missing)} of the {len(wanted)} weights of {of}.")
        return weights

    def save(self, folder: Path, weights: Mapping[str, Tensor], *values: int) -> None:
        """A folder as it is read: weights, and values of ``numbers``."""
        folder.mkdir(parents=True, exist_ok=True)
        save_file({name: value.contiguous() for name, value in weights.items()}, folder / self.weights)
        (folder / CONFIG).write_text(json.dumps(dict(zip(self.numbers, values, strict=True))) + "\n")


def layer_names(prefix: str) -> tuple[str, str]:
    """Names of the weight and the bias of the block with this number, such as "0" or "0.1"."""
    return f"{prefix}.linear.weight", f"{prefix}.linear.bias"


def tree_of(weights: Mapping[str, Tensor], prefix: str) -> DraftTree:
    return DraftTree(*(weights[name] for name in layer_names(prefix)))
