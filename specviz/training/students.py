"""Students of a frozen target, each as it is trained: Medusa heads, an early exit, a draft head on hidden states.

Their parameter names contain ``layers.``, by which the optimizers recognize matrices inside a network.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding, apply_rotary_pos_emb


class TrainableHeads(nn.Module):
    """K heads of residual blocks x + silu(W x + b). Their weights start at zero, so every head starts as the target's own output."""

    def __init__(self, width: int, count: int = 4, layers: int = 3):
        super().__init__()
        self.heads = nn.ModuleList(
            nn.ModuleDict({"layers": nn.ModuleList(nn.Linear(width, width) for _ in range(layers))}) for _ in range(count)
        )
        for parameter in self.parameters():
            nn.init.zeros_(parameter)

    def forward(self, features: Tensor, head: int) -> Tensor:
        """(N, width) -> (N, width), to be multiplied with the target's output matrix."""
        for layer in self.heads[head]["layers"]:
            features = features + F.silu(layer(features))
        return features

    def list_blocks(self) -> list[list[tuple[Tensor, Tensor]]]:
        """For each head the (weight, bias) of each block, as models.attachments.heads.save_heads takes them."""
        return [[(layer.weight.detach(), layer.bias.detach()) for layer in head["layers"]] for head in self.heads]


class TrainableExit(nn.Module):
    """An RMS norm, initialized as the target's final one, then residual blocks x + silu(W x + b) with zero initial weights."""

    def __init__(self, norm: nn.Module, layer: int, blocks: int = 3):
        super().__init__()
        self.layer, self.epsilon = layer, norm.variance_epsilon
        self.norm = nn.Parameter(norm.weight.detach().clone())
        self.layers = nn.ModuleList(nn.Linear(len(self.norm), len(self.norm)) for _ in range(blocks))
        for parameter in self.layers.parameters():
            nn.init.zeros_(parameter)

    def forward(self, states: Tensor) -> Tensor:
        """(N, width) -> (N, width), to be multiplied with the target's output matrix."""
        x = F.rms_norm(states, self.norm.shape, self.norm, self.epsilon)
        for layer in self.layers:
            x = x + F.silu(layer(x))
        return x

    def list_blocks(self) -> list[tuple[Tensor, Tensor]]:
        """(weight, bias) of each block, as models.attachments.exits.save_exit takes them."""
        return [(layer.weight.detach(), layer.bias.detach()) for layer in self.layers]


class TrainableEagle(nn.Module):
    """A projection of [embedding ; state] to the width, then one Llama layer. It starts as the latest state unchanged."""

    def __init__(self, config: LlamaConfig, seed: int = 19):
        super().__init__()
        torch.manual_seed(seed)
        width = config.hidden_size
        self.layers = nn.ModuleList([nn.Linear(2 * width, width), LlamaDecoderLayer(config, 0)])
        self.rotary = LlamaRotaryEmbedding(config)
        self.heads, self.size = config.num_attention_heads, config.head_dim
        project, layer = self.layers
        with torch.no_grad():
            project.weight.copy_(torch.cat([torch.randn(width, width), torch.eye(width)], 1))
            project.bias.zero_()
            for matrix in (layer.self_attn.o_proj, layer.mlp.down_proj):
                matrix.weight.mul_(0.1)

    def forward(self, embedded: Tensor, states: Tensor, first_step: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, ...]:
        """One step over all columns: (B, T, width) twice -> predicted states (B, T, width), and this step's keys and values.

        ``embedded`` is the embedding of the token after each state. With ``first_step``, keys and values of the first step (B, heads,
        T, size), each column reads those before its own, and itself anew.
        """
        project, layer = self.layers
        hidden = project(torch.cat([embedded, states], -1))
        entering, attention = layer.input_layernorm(hidden), layer.self_attn
        query, key, value = (self._split(part(entering)) for part in (attention.q_proj, attention.k_proj, attention.v_proj))
        angles = self.rotary(hidden, torch.arange(hidden.shape[1])[None])
        query, key = apply_rotary_pos_emb(query, key, *angles)
        far = torch.full((hidden.shape[1],) * 2, torch.finfo(hidden.dtype).min, dtype=hidden.dtype)
        if first_step is None:
            scores = query @ key.transpose(2, 3) * attention.scaling + far.triu(1)
            mixed = torch.softmax(scores, -1) @ value
        else:
            before = query @ first_step[0].transpose(2, 3) * attention.scaling + far.triu(0)
            own = (query * key).sum(-1, keepdim=True) * attention.scaling
            shares = torch.softmax(torch.cat([before, own], -1), -1)
            mixed = shares[..., :-1] @ first_step[1] + shares[..., -1:] * value
        hidden = hidden + attention.o_proj(mixed.transpose(1, 2).flatten(2))
        return hidden + layer.mlp(layer.post_attention_layernorm(hidden)), key, value

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.size)).transpose(1, 2)

    def list_weights(self) -> dict[str, Tensor]:
        """The weights by their published names, as models.attachments.eagle.save_eagle takes them."""
        project, layer = self.layers
        named = {f"layers.0.{name}": value for name, value in layer.state_dict().items()}
        return {f"fc.{name}": value for name, value in project.state_dict().items()} | named
