"""The pass over a cache of fixed size is the library's, for every family it covers, and leaves keys and values where they are."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from specviz.models.cache import fixed
from specviz.models.cache.decoder import CachedModel
from specviz.models.cache.fixed import FixedModel, PassTokens
from specviz.models.fast_llama import fixed_pass
from specviz.randomness import Prefix
from specviz.settings import Settings
from specviz.verification.draft_tree import build_empty_tree

SHAPE: dict[str, Any] = {
    "vocab_size": 60, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "max_position_embeddings": 64,
    "head_dim": 8, "num_attention_heads": 4,
}  # fmt: skip
FAMILIES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "Llama, a key head each": (LlamaForCausalLM, LlamaConfig, {"num_key_value_heads": 4}),
    "Llama, grouped queries": (LlamaForCausalLM, LlamaConfig, {"num_key_value_heads": 2}),
    "Llama, biases": (LlamaForCausalLM, LlamaConfig, {"num_key_value_heads": 1, "attention_bias": True, "mlp_bias": True}),
    "Mistral, a window": (MistralForCausalLM, MistralConfig, {"num_key_value_heads": 2, "sliding_window": 4}),
    "Qwen2": (Qwen2ForCausalLM, Qwen2Config, {"num_key_value_heads": 2}),
    "Qwen3": (Qwen3ForCausalLM, Qwen3Config, {"num_key_value_heads": 2}),
}
TEXT = (7, 3, 50, 9, 9, 21, 4)


def build_model(name: str) -> PreTrainedModel:
    """A random model of a family, in float64."""
    family, config, changes = FAMILIES[name]
    torch.manual_seed(3)
    model = family(config(**(SHAPE | changes))).double().eval().requires_grad_(False)
    for parameter in model.parameters():
        parameter.add_(0.3 * torch.randn_like(parameter))  # biases are zeros and norms ones otherwise
    return model


def open_model(model: PreTrainedModel, rows: int = 2, columns: int = 32) -> FixedModel:
    """The model with its first row read, and a second row that is a copy."""
    opened = FixedModel(model, Settings(), 60, rows, columns)
    assert opened._pass is not None
    opened.read(0, TEXT)
    opened.copy(0, 1)
    return opened


@pytest.mark.parametrize("longest", [fixed.READ_MAX, 0], ids=["read by the pass", "read by the library"])
@pytest.mark.parametrize("name", FAMILIES)
def test_a_pass_gives_the_librarys_distributions(name: str, longest: int, monkeypatch) -> None:
    monkeypatch.setattr(fixed, "READ_MAX", longest)
    model = build_model(name)
    opened, added = open_model(model), ((5, 6, 30), (8, 2, 11))
    with torch.inference_mode():
        found, finite = opened.compute_probs(torch.tensor(added), torch.tensor([7, 4]), PassTokens.build_chain(3, opened.device))
    assert finite.isfinite().all()
    for row, begin in enumerate((7, 4)):
        for place in range(3):
            prefix = Prefix(TEXT[:begin] + added[row][: place + 1], 0, 4)
            expected = CachedModel(model, Settings()).compute_distributions([prefix], build_empty_tree(1))[0, 0]
            torch.testing.assert_close(found[row, place], expected, rtol=1e-9, atol=1e-12)


def test_one_token_may_leave_the_groups_of_heads_to_the_kernel(monkeypatch) -> None:
    """As on a GPU whose fused kernel takes them; a pass over several tokens stacks them all the same."""
    monkeypatch.setattr(fixed_pass, "_can_group_heads", lambda *arguments: True)
    model, grouped, attend = build_model("Llama, grouped queries"), [], F.scaled_dot_product_attention
    monkeypatch.setattr(F, "scaled_dot_product_attention", lambda *a, **k: grouped.append("enable_gqa" in k) or attend(*a, **k))
    opened = open_model(model)
    for tokens in (1, 2):
        with torch.inference_mode():
            ids = torch.tensor([[5, 6], [8, 2]])[:, :tokens]
            found, _ = opened.compute_probs(ids, torch.tensor([7, 4]), PassTokens.build_chain(tokens, opened.device))
        seen = [*grouped]
        for row, begin in enumerate((7, 4)):
            prefix = Prefix(TEXT[:begin] + tuple(ids[row].tolist()), 0, 4)
            expected = CachedModel(model, Settings()).compute_distributions([prefix], build_empty_tree(1))[0, 0]
            torch.testing.assert_close(found[row, -1], expected, rtol=1e-9, atol=1e-12)
        assert seen[-2:] == [tokens == 1] * 2
        grouped.clear()


@pytest.mark.parametrize("tokens", [1, 4])
@pytest.mark.parametrize("name", ["Llama, a key head each", "Llama, grouped queries", "Qwen3"])
def test_attention_gets_what_the_fused_kernels_take(name: str, tokens: int, monkeypatch) -> None:
    """A mask whose columns lie side by side, and keys and values of the cache itself, not expanded over query heads. Otherwise torch
    computes attention in a dozen kernels a layer."""
    opened, calls = open_model(build_model(name)), []
    attend = F.scaled_dot_product_attention

    def watch(queries, keys, values, attn_mask, scale):
        calls.append((queries, keys, values, attn_mask))
        return attend(queries, keys, values, attn_mask=attn_mask, scale=scale)

    monkeypatch.setattr(F, "scaled_dot_product_attention", watch)
    with torch.inference_mode():
        ids = torch.ones(2, tokens, dtype=torch.int64)
        opened.compute_probs(ids, torch.tensor([7, 4]), PassTokens.build_chain(tokens, opened.device))
    assert len(calls) == 2
    for (queries, keys, values, mask), layer in zip(calls, opened._cache.layers, strict=True):
        assert mask.is_contiguous() and mask.shape == (2, 1, queries.shape[2], 32)
        assert queries.shape[:2] == keys.shape[:2] and queries.stride(-1) == keys.stride(-1) == values.stride(-1) == 1
        assert (keys.data_ptr(), values.data_ptr()) == (layer.keys.data_ptr(), layer.values.data_ptr())


class _OperationNames(TorchDispatchMode):
    """Lists the operations that torch dispatches."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", ["Llama, a key head each", "Llama, grouped queries", "Qwen3"])
@pytest.mark.parametrize("tokens", [1, 5])
def test_attention_takes_the_fused_path_and_repeats_no_keys(name: str, tokens: int) -> None:
    """One fused operation a layer, no softmax of scores of its own, and nothing repeated over query heads."""
    opened = FixedModel(build_model(name).float(), Settings(), 60, 2, 32)
    ids, fed = torch.ones(2, tokens, dtype=torch.int64), PassTokens.build_chain(tokens, opened.device)
    with torch.inference_mode():
        opened.compute_probs(ids, torch.tensor([7, 4]), fed)  # makes the masks
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION), _OperationNames() as found:  # an error where it cannot be taken
            opened.compute_probs(ids, torch.tensor([7, 4]), fed)
    assert sum("scaled_dot_product" in one for one in found.names) == 2
    assert sum("softmax" in one for one in found.names) <= 1  # of the logits
    assert not any("repeat" in one or "expand" in one for one in found.names)
