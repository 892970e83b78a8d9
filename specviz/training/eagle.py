"""Train a feature-level draft head on a frozen target (EAGLE, Li et al. 2024).

The head predicts the target's next hidden state from the states and tokens before it. While drafting it reads its own predictions in
place of states that the target has not computed yet. Training therefore takes two steps: the first reads the target's states, the
second reads what the first predicted for the latest state (Zhang et al. 2024, HASS).
"""

from __future__ import annotations

import shutil

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding, apply_rotary_pos_emb

from specviz.training.lessons import CHUNK
from specviz.training.loop import in_bfloat16

FEATURES = 1.0  # weight of the distance between states, beside the cross-entropy of distributions


class TrainableEagle(nn.Module):
    """A projection of [embedding ; state] (2 width) to the width, then one Llama layer. It starts as the latest state unchanged.

    The parameter names contain ``layers.``, by which the optimizers recognize matrices inside a network.

    Args:
        config: Of the target: the layer has its width, heads and rotary angles.
    """

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

    def forward(self, embedded: Tensor, states: Tensor, seen: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, ...]:
        """One step over all columns: (B, T, width) twice -> predicted states (B, T, width), and this step's keys and values.

        ``embedded``: embedding of the token after each state. ``seen``: keys and values of the first step, (B, heads, T, size):
        each column reads those before its own, and itself anew.
        """
        project, layer = self.layers
        hidden = project(torch.cat([embedded, states], -1))
        entering, attention = layer.input_layernorm(hidden), layer.self_attn
        query, key, value = (self._split(part(entering)) for part in (attention.q_proj, attention.k_proj, attention.v_proj))
        angles = self.rotary(hidden, torch.arange(hidden.shape[1])[None])
        query, key = apply_rotary_pos_emb(query, key, *angles)
        far = torch.full((hidden.shape[1],) * 2, torch.finfo(hidden.dtype).min, dtype=hidden.dtype)
        if seen is None:
            scores = query @ key.transpose(2, 3) * attention.scaling + far.triu(1)
            mixed = torch.softmax(scores, -1) @ value
        else:
            before = query @ seen[0].transpose(2, 3) * attention.scaling + far.triu(0)
            own = (query * key).sum(-1, keepdim=True) * attention.scaling
            shares = torch.softmax(torch.cat([before, own], -1), -1)
            mixed = shares[..., :-1] @ seen[1] + shares[..., -1:] * value
        hidden = hidden + attention.o_proj(mixed.transpose(1, 2).flatten(2))
        return hidden + layer.mlp(layer.post_attention_layernorm(hidden)), key, value

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.size)).transpose(1, 2)

    def weights(self) -> dict[str, Tensor]:
        """The weights by their published names, as models.attachments.eagle.save_eagle takes them."""
        project, layer = self.layers
        named = {f"layers.0.{name}": value for name, value in layer.state_dict().items()}
        return {f"fc.{name}": value for name, value in project.state_dict().items()} | named


class EagleLesson:
    """The loss of a draft head on rows of ids: how far its states and its distributions are from the target's.

    Smooth L1 between states (mean over their numbers) plus cross-entropy with the target's distribution, mean of both steps.
    """

    def __init__(self, teacher: nn.Module):
        self.teacher = in_bfloat16(teacher).eval().requires_grad_(False)
        compiled = torch.compile if shutil.which("g++") else lambda function: function
        self._part, self._steps = compiled(_chunk_loss), compiled(unroll_two_steps)

    def __call__(self, head: TrainableEagle, ids: Tensor) -> Tensor:
        """Nats per position, plus the distance of states; ids (B, T + 1)."""
        with torch.no_grad():
            states = self.teacher.model(input_ids=ids, use_cache=False).last_hidden_state
            embedded = self.teacher.model.embed_tokens(ids[:, 1:])
        taught = states[:, 1:].flatten(0, 1)
        table, total = self.teacher.lm_head.weight, 0.0
        made = self._steps(head, embedded, states[:, :-1])
        for learned in made:
            pairs = zip(learned.flatten(0, 1).split(CHUNK), taught.split(CHUNK), strict=True)
            total = total + sum(self._part(table, a, b) * len(a) for a, b in pairs) / len(taught)
        return total / len(made)


def unroll_two_steps(head: TrainableEagle, embedded: Tensor, states: Tensor) -> tuple[Tensor, Tensor]:
    """States that the head predicts from the target's, and from its own prediction of the latest one, each (B, T, width)."""
    first, key, value = head(embedded, states)
    own = torch.cat([states[:, :1], first[:, :-1]], 1)
    return first, head(embedded, own, (key, value))[0]


def _chunk_loss(table: Tensor, learned: Tensor, taught: Tensor) -> Tensor:
    with torch.no_grad():
        p = torch.softmax((taught @ table.T).float(), -1)
    q = torch.log_softmax((learned @ table.T).float(), -1)
    return FEATURES * F.smooth_l1_loss(learned.float(), taught.float()) - (p * q).sum(-1).mean()
