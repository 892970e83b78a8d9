"""Grow a trained model in depth: new layers that change nothing yet, between the old ones (block expansion, Wu et al. 2024)."""

from __future__ import annotations

import torch
from transformers import LlamaForCausalLM


def grow_model(model: LlamaForCausalLM, layers: int) -> LlamaForCausalLM:
    """A deeper model that computes what the given one computes, ready to be trained further.

    ``layers``: of the new model, at least as many as now. The new ones are spread evenly among the old: each is a copy of the
    layer before it whose two matrices that write to the residual stream are zero. Attention and MLP then add nothing, and get
    gradients from the first step on.

    Raises ValueError if the model already has more layers.
    """
    old = model.config.num_hidden_layers
    if layers < old:
        raise ValueError(f"A model of {old} layers cannot grow to {layers}; ask for at least {old}.")
    config = type(model.config)(**{**model.config.to_dict(), "num_hidden_layers": layers})
    bigger = type(model)(config)
    sources = [position * old // layers for position in range(layers)]
    state = {name: value for name, value in model.state_dict().items() if ".layers." not in name}
    for position, source in enumerate(sources):
        new = position > 0 and sources[position - 1] == source
        for name, value in model.model.layers[source].state_dict().items():
            adds = name in ("self_attn.o_proj.weight", "mlp.down_proj.weight")
            state[f"model.layers.{position}.{name}"] = torch.zeros_like(value) if new and adds else value.clone()
    bigger.load_state_dict(state)
    return bigger
