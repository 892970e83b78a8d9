"""Train an early exit on a frozen target: a small adapter after the first layers learns the target's own distributions."""

from __future__ import annotations

import shutil

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from specviz.training.lessons import CHUNK, DIVERGENCES, average_divergence
from specviz.training.loop import in_bfloat16


class TrainableExit(nn.Module):
    """An RMS norm, initialized as the target's final one, then residual blocks x + silu(W x + b) with zero initial weights.

    The parameter names contain ``layers.``, by which the optimizers recognize matrices inside a network.

    Args:
        layer: Number of the target's layers below the exit.
    """

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

    def blocks(self) -> list[tuple[Tensor, Tensor]]:
        """(weight, bias) of each block, as models.attachments.exits.save_exit takes them."""
        return [(layer.weight.detach(), layer.bias.detach()) for layer in self.layers]


class ExitLesson:
    """The loss of an exit on rows of ids: its mean divergence from the target's own distribution at each position.

    Args:
        teacher: The target, in bf16 with frozen weights.
        divergence: A key of DIVERGENCES.
    """

    def __init__(self, teacher: nn.Module, divergence: str):
        self.teacher = in_bfloat16(teacher).eval().requires_grad_(False)
        loss = average_divergence(DIVERGENCES[divergence])
        self._loss = torch.compile(loss) if shutil.which("g++") else loss

    def __call__(self, exit_: TrainableExit, ids: Tensor) -> Tensor:
        """Nats (or TV) per position, mean over rows of ids (B, T + 1)."""
        with torch.no_grad():
            states = self.teacher.model(input_ids=ids[:, :-1], use_cache=False, output_hidden_states=True).hidden_states
        taught, seen = (state.flatten(0, 1) for state in (states[-1], states[exit_.layer]))
        table = self.teacher.lm_head.weight
        parts = [
            self._loss(table, table, p, exit_(s)) * len(s) for p, s in zip(taught.split(CHUNK), seen.split(CHUNK), strict=True)
        ]
        return sum(parts) / len(seen)
