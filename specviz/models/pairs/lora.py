"""A LoRA adapter merged into its base model by hand: each weight W becomes W + scale * B A (Hu et al. 2021)."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from specviz.errors import DamagedModelError, UnsupportedModelError
from specviz.models.hub.files import ADAPTER, read_adapter_config

PREFIX, DOWN, UP = "base_model.model.", ".lora_A.weight", ".lora_B.weight"


@torch.no_grad()
def merge_adapter(place: str, folder: Path, model: PreTrainedModel) -> str:
    """Add an adapter to the weights of its base model. Returns a sentence on what was merged.

    Raises UnsupportedModelError for an adapter that is more than plain LoRA, DamagedModelError for one that does not fit the model.
    """
    config = read_adapter_config(place, folder)
    tensors = load_file(folder / ADAPTER)
    names = [name.removesuffix(DOWN) for name in tensors if name.endswith(DOWN)]
    if other := set(tensors) - {name + part for name in names for part in (DOWN, UP)}:
        raise UnsupportedModelError(f"'{place}' has weights that are no part of a plain LoRA adapter, such as {min(other)}.")
    if not names or any(name + UP not in tensors for name in names):
        raise DamagedModelError(f"'{place}' is a LoRA adapter without {'weights' if not names else 'some of its weights'}.")
    for name in names:
        down, up = tensors[name + DOWN].float(), tensors[name + UP].float()
        rank = down.shape[0]
        alpha = float(config.get("lora_alpha") or rank)
        _add(place, model, name.removeprefix(PREFIX), up @ down * (alpha / (rank**0.5 if config.get("use_rslora") else rank)))
    base = config["base_model_name_or_path"]
    return f"The LoRA adapter '{place}' ({len(names)} matrices) is merged into '{base}'."


def _add(place: str, model: PreTrainedModel, name: str, change: Tensor) -> None:
    """Add a change to the weight of the module of this name."""
    try:
        module = model.get_submodule(name)
    except AttributeError as error:
        raise DamagedModelError(f"'{place}' changes {name}, which its base model does not have.") from error
    weight = getattr(module, "weight", None)
    embedding = model.get_input_embeddings()
    if module is not embedding and weight is embedding.weight:
        raise UnsupportedModelError(
            f"'{place}' changes {name}, which shares its weights with the embedding. Merge it with peft and save the model."
        )
    change = change.T if isinstance(module, Conv1D) else change
    if weight is None or weight.shape != change.shape:
        raise DamagedModelError(f"'{place}' does not fit its base model: {name} has another shape.")
    weight.data = (weight.data.float() + change.to(weight.device)).to(weight.dtype)
