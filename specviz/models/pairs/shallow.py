"""A model of a configuration with some of its layers and meaningless weights: it takes the time of the real one, and nothing is read."""

from __future__ import annotations

import copy
from typing import Any

import torch
from transformers import PretrainedConfig, PreTrainedModel
from transformers.initialization import no_init_weights

from specviz.models.pairs.families import find_library_class

FILL = 1e-3  # every weight: finite in each number type, and no slower to multiply than another number


def count_layers(config: PretrainedConfig) -> int:
    """Number of layers that a pass goes through; an encoder's are not counted."""
    return int(getattr(config.get_text_config(), _list_layer_count_names(config)[0]))


def cut_config(config: PretrainedConfig, layers: int) -> PretrainedConfig:
    """The same configuration with the first ``layers`` layers; an encoder keeps one."""
    made = copy.deepcopy(config)
    text, whole = made.get_text_config(), count_layers(config)
    for name, value in vars(text).items():
        if isinstance(value, list) and len(value) == whole:  # what is said of each layer
            setattr(text, name, value[:layers])
    for name in _list_layer_count_names(config)[1:]:
        setattr(text, name, 1)
    setattr(text, _list_layer_count_names(config)[0], layers)
    return made


def build_shallow_model(config: PretrainedConfig, layers: int, device: torch.device, dtype: torch.dtype) -> PreTrainedModel:
    """A model of that many layers, in eval mode."""
    with no_init_weights():
        model: Any = find_library_class(config).from_config(cut_config(config, layers), dtype=dtype)
    model.tie_weights()
    with torch.no_grad():
        for weight in model.parameters():
            weight.fill_(FILL)
    return model.to(device).eval().requires_grad_(False)


def _list_layer_count_names(config: PretrainedConfig) -> tuple[str, ...]:
    """Names of the number of layers: of those that a pass goes through, and of an encoder's."""
    return ("num_decoder_layers", "num_layers") if config.is_encoder_decoder else ("num_hidden_layers",)
