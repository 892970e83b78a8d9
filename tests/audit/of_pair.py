"""A server of the tests that runs the target of a pair, or anything else over its tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch

from specviz.models.pairs.pair import LoadedPair


@cache
def compute_next_probs(model: torch.nn.Module, ids: tuple[int, ...]) -> np.ndarray:
    """(V,) float64, the model's distribution of the token after ``ids``; computed once for all servers."""
    return find_small_llama(model).compute_probs(ids)


@cache
def find_small_llama(model: torch.nn.Module) -> SmallLlama:
    """The same network in NumPy, which is compared with the original before it is used."""
    small, ids = SmallLlama(model), (5, 8, 13, 21, 5, 34)
    with torch.no_grad():
        expected = model(torch.tensor([ids])).logits[0, -1].double().softmax(-1).numpy()
    assert np.abs(small.compute_probs(ids) - expected).max() < 1e-6
    return small


class SmallLlama:
    """The forward pass of a Llama of these tests in float64: a tenth of the time that the original needs for a few tokens."""

    def __init__(self, model: torch.nn.Module):
        config = model.config
        self.heads, self.size, self.eps = config.num_attention_heads, config.head_dim, config.rms_norm_eps
        assert config.num_key_value_heads == self.heads
        self.weights = {name: weights.detach().double().numpy() for name, weights in model.state_dict().items()}
        self.layers = range(config.num_hidden_layers)
        frequencies = config.rope_parameters["rope_theta"] ** -(np.arange(0, self.size, 2) / self.size)
        angles = np.outer(np.arange(config.max_position_embeddings), np.concatenate([frequencies, frequencies]))
        self.cosines, self.sines = np.cos(angles), np.sin(angles)

    def compute_probs(self, ids: Sequence[int]) -> np.ndarray:
        """(V,) the distribution of the token after ``ids``."""
        n, half, w = len(ids), self.size // 2, self.weights
        hidden, future = w["model.embed_tokens.weight"][list(ids)], np.triu(np.full((n, n), -np.inf), 1)

        def rotate(x: np.ndarray) -> np.ndarray:  # (n, heads, size) -> (heads, n, size)
            turned = np.concatenate([-x[..., half:], x[..., :half]], -1)
            return (x * self.cosines[:n, None] + turned * self.sines[:n, None]).transpose(1, 0, 2)

        for layer in self.layers:
            at = f"model.layers.{layer}."
            inside = self._normalize(hidden, w[f"{at}input_layernorm.weight"])
            queries, keys, values = (
                (inside @ w[f"{at}self_attn.{name}_proj.weight"].T).reshape(n, self.heads, self.size) for name in "qkv"
            )
            scores = rotate(queries) @ rotate(keys).transpose(0, 2, 1) / self.size**0.5 + future
            mixed = _apply_softmax(scores) @ values.transpose(1, 0, 2)
            hidden = hidden + mixed.transpose(1, 0, 2).reshape(n, -1) @ w[f"{at}self_attn.o_proj.weight"].T
            inside = self._normalize(hidden, w[f"{at}post_attention_layernorm.weight"])
            gate = inside @ w[f"{at}mlp.gate_proj.weight"].T
            up = inside @ w[f"{at}mlp.up_proj.weight"].T
            hidden = hidden + (gate / (1.0 + np.exp(-gate)) * up) @ w[f"{at}mlp.down_proj.weight"].T
        return _apply_softmax(self._normalize(hidden[-1], w["model.norm.weight"]) @ w["lm_head.weight"].T)

    def _normalize(self, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + self.eps) * weights


def _apply_softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def answer_from_pair(
    pair: LoadedPair, bent: Callable[[np.ndarray], np.ndarray] = lambda probs: probs, deepest: int = 9
) -> dict[str, Any]:
    """Switches for a server whose distribution is the target's, or what ``bent`` makes of it.

    Beyond ``deepest`` tokens a text is continued as if it ended there: what comes later is in no test, and costs passes.
    """

    def probs(ids: Sequence[int]) -> np.ndarray:
        return bent(compute_next_probs(pair.target, tuple(ids[:deepest])))

    (end,) = pair.eos_token_ids
    return {
        "probs": probs,
        "encode": lambda text: list(pair.encode(text)),
        "piece": lambda token: pair.decode([token]),
        "end": end,
    }
