"""A grown model is the old one until it is trained: same logits, new layers that take gradients."""

from __future__ import annotations

import pytest
import torch

from specviz.training.growth import grow_model
from specviz.training.loop import Schedule, compute_loss, in_bfloat16
from specviz.training.pair import ModelShape

IDS = torch.arange(24).reshape(2, 12) % 90


def trained(layers: int):
    """A model whose every weight is random: fresh norms of ones could hide a layer that is not copied."""
    model = ModelShape(layers, 64, Schedule(tokens=1)).model(90)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return model


@pytest.mark.parametrize(("layers", "more"), [(1, 2), (2, 5), (3, 8), (4, 4)])
def test_a_grown_model_says_what_the_old_one_says(layers, more):
    old = trained(layers)
    new = grow_model(old, more)
    assert new.config.num_hidden_layers == len(new.model.layers) == more
    with torch.no_grad():
        assert torch.equal(new(IDS).logits, old(IDS).logits)


def test_the_new_layers_stand_between_the_old_ones_and_learn_from_the_first_step():
    new = grow_model(trained(2), 5)
    adds = [bool(layer.mlp.down_proj.weight.any()) for layer in new.model.layers]
    assert adds == [True, False, False, True, False]
    compute_loss(new, IDS).backward()
    for layer in new.model.layers:
        assert layer.mlp.down_proj.weight.grad.abs().sum() > 0
        assert layer.self_attn.o_proj.weight.grad.abs().sum() > 0


def test_no_model_grows_smaller():
    with pytest.raises(ValueError, match="A model of 3 layers cannot grow to 2"):
        grow_model(trained(3), 2)


def test_weights_are_rounded_for_training_and_rotary_frequencies_are_not():
    model = trained(1)
    before = model.model.rotary_emb.inv_freq.clone()
    in_bfloat16(model)
    assert all(parameter.dtype == torch.bfloat16 for parameter in model.parameters())
    assert torch.equal(model.model.rotary_emb.inv_freq, before)
