"""Distillation: a draft learns the distributions of a frozen target instead of the text (DistillSpec, Zhou et al. 2024)."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import torch
from torch import Tensor, nn

from specviz.training.loop import in_bfloat16

CHUNK = 2048  # positions whose distributions are in memory at once


def forward_kl(p: Tensor, q: Tensor) -> Tensor:
    """KL(p || q) in nats from log probabilities (N, V): the draft must cover everything that the target may write."""
    return (p.exp() * (p - q)).sum(-1)


def reverse_kl(p: Tensor, q: Tensor) -> Tensor:
    """KL(q || p) in nats from log probabilities (N, V): the draft is penalized for what the target would not write."""
    return (q.exp() * (q - p)).sum(-1)


def total_variation(p: Tensor, q: Tensor) -> Tensor:
    """TV(p, q) in [0, 1] from log probabilities (N, V): 1 minus the acceptance rate at temperature 1."""
    return 0.5 * (p.exp() - q.exp()).abs().sum(-1)


DIVERGENCES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "forward-kl": forward_kl,
    "reverse-kl": reverse_kl,
    "tv": total_variation,
}


class Lesson:
    """The loss of a student on rows of ids: its mean divergence from the teacher's distributions over all positions.

    Args:
        teacher: A causal model in bf16 with frozen weights.
        divergence: A key of DIVERGENCES.
    """

    def __init__(self, teacher: nn.Module, divergence: str):
        self.teacher = in_bfloat16(teacher).eval().requires_grad_(False)
        compiled = torch.compile if shutil.which("g++") else lambda function: function
        self._states = compiled(_find_hidden)
        self._loss = compiled(average_divergence(DIVERGENCES[divergence]))

    def __call__(self, student: nn.Module, ids: Tensor) -> Tensor:
        """Nats (or TV) per position, mean over rows of ids (B, T + 1)."""
        with torch.no_grad():
            taught = _find_hidden(self.teacher, ids).flatten(0, 1)
        learned = self._states(student, ids).flatten(0, 1)
        parts = [
            self._loss(self.teacher.lm_head.weight, student.lm_head.weight, p, q) * len(q)
            for p, q in zip(taught.split(CHUNK), learned.split(CHUNK), strict=True)
        ]
        return sum(parts) / len(learned)


def _find_hidden(model: nn.Module, ids: Tensor) -> Tensor:
    return model.model(input_ids=ids[:, :-1], use_cache=False).last_hidden_state


def average_divergence(divergence: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    """Mean divergence over positions, as loss(teacher's output matrix, student's, teacher's states (N, width), student's)."""

    def loss(teacher_head: Tensor, student_head: Tensor, taught: Tensor, learned: Tensor) -> Tensor:
        with torch.no_grad():
            p = torch.log_softmax((taught @ teacher_head.T).float(), -1)
        q = torch.log_softmax((learned @ student_head.T).float(), -1)
        return divergence(p, q).mean()

    return loss
