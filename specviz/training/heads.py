"""Train Medusa heads on a frozen target: each learns the target's distribution of a token further ahead (Medusa-1, Cai et al. 2024)."""

from __future__ import annotations

import shutil

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from specviz.training.lessons import CHUNK
from specviz.training.loop import in_bfloat16

FADE = 0.8  # weight of each head relative to the one before, as in the paper


class TrainableHeads(nn.Module):
    """K heads of residual blocks x + silu(W x + b). Their weights start at zero, so every head starts as the target's own output.

    The parameter names contain ``layers.``, by which the optimizers recognize matrices inside a network.
    """

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

    def blocks(self) -> list[list[tuple[Tensor, Tensor]]]:
        """For each head the (weight, bias) of each block, as models.attachments.heads.save_heads takes them."""
        return [[(layer.weight.detach(), layer.bias.detach()) for layer in head["layers"]] for head in self.heads]


class HeadsLesson:
    """The loss of heads on rows of ids: cross-entropy with the target's distribution of the token that each head drafts.

    Heads further ahead have smaller weights (FADE).
    """

    def __init__(self, teacher: nn.Module):
        self.teacher = in_bfloat16(teacher).eval().requires_grad_(False)
        self._part = torch.compile(_chunk_loss) if shutil.which("g++") else _chunk_loss

    def __call__(self, heads: TrainableHeads, ids: Tensor) -> Tensor:
        """Nats per position, weighted mean over heads; ids (B, T + 1)."""
        with torch.no_grad():
            hidden = self.teacher.model(input_ids=ids, use_cache=False).last_hidden_state
        table, total, weights = self.teacher.lm_head.weight, 0.0, 0.0
        for k in range(len(heads.heads)):
            ahead = k + 1  # head k learns the target's distribution ``ahead`` positions later
            seen, taught = hidden[:, :-ahead].flatten(0, 1), hidden[:, ahead:].flatten(0, 1)
            parts = [
                self._part(table, heads(a, k), b) * len(a) for a, b in zip(seen.split(CHUNK), taught.split(CHUNK), strict=True)
            ]
            total, weights = total + FADE**k * sum(parts) / len(seen), weights + FADE**k
        return total / weights


def _chunk_loss(table: Tensor, learned: Tensor, taught: Tensor) -> Tensor:
    with torch.no_grad():
        p = torch.softmax((taught @ table.T).float(), -1)
    q = torch.log_softmax((learned @ table.T).float(), -1)
    return -(p * q).sum(-1).mean()
