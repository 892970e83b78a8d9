"""Quick products for a few tokens give the library's numbers up to rounding, on the model's own weights, and leave the model as it is."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from transformers import Qwen2Config, Qwen2ForCausalLM

from specviz.models.few_tokens import FewTokensLinear, copy_for_few_tokens


@pytest.fixture(scope="module")
def qwen():
    """A family with biases in its attention, which are drawn: a forgotten bias would move the logits by more than 0.01."""
    torch.manual_seed(0)
    sizes = {
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    }
    model = Qwen2ForCausalLM(Qwen2Config(vocab_size=300, max_position_embeddings=64, **sizes)).eval()
    for module in model.modules():
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.normal_(module.bias)
    return model


@pytest.mark.parametrize("tokens", (1, 2, 5, 8, 9))
def test_the_logits_are_the_librarys_up_to_rounding(qwen, tokens):
    ids = torch.arange(1, tokens + 1)[None]
    with torch.no_grad():
        expected, found = qwen(ids).logits, copy_for_few_tokens(qwen)(ids).logits
    assert torch.allclose(found, expected, atol=1e-4, rtol=0.0)


def test_the_copy_is_made_once_on_the_same_weights_and_the_model_stays(qwen):
    copy = copy_for_few_tokens(qwen)
    assert copy is copy_for_few_tokens(qwen) and copy is not qwen
    assert any(type(one) is FewTokensLinear for one in copy.modules())
    assert not any(type(one) is FewTokensLinear for one in qwen.modules())
    assert copy.lm_head.weight.data_ptr() == qwen.lm_head.weight.data_ptr()
