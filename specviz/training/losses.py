"""What students of a frozen target learn: its distributions instead of the text (DistillSpec, Zhou et al. 2024).

Heads learn the distributions of later tokens (Medusa-1, Cai et al. 2024). A draft head learns the target's next hidden states too
(EAGLE, Li et al. 2024); while drafting it reads its own predictions in place of states that the target has not computed yet, so it is
trained in two steps: the first reads the target's states, the second what the first predicted for the latest state (Zhang et al.
2024, HASS).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from specviz.training.loop import compile_if_possible, round_to_bfloat16
from specviz.training.students import TrainableEagle, TrainableExit, TrainableHeads

CHUNK = 2048  # positions whose distributions are in memory at once
FADE = 0.8  # weight of each Medusa head relative to the one before, as in the paper
FEATURES = 1.0  # weight of the distance between states in EAGLE, beside the cross-entropy of distributions

Divergence = Callable[[Tensor, Tensor], Tensor]  # log probabilities p and q, (N, V) -> (N,)
Loss = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]  # both output matrices, both states (N, width): teacher's, student's


def compute_forward_kl(p: Tensor, q: Tensor) -> Tensor:
    """KL(p || q) in nats from log probabilities (N, V): the draft must cover everything that the target may write."""
    return (p.exp() * (p - q)).sum(-1)


def compute_reverse_kl(p: Tensor, q: Tensor) -> Tensor:
    """KL(q || p) in nats from log probabilities (N, V): the draft is penalized for what the target would not write."""
    return (q.exp() * (q - p)).sum(-1)


def compute_total_variation(p: Tensor, q: Tensor) -> Tensor:
    """TV(p, q) in [0, 1] from log probabilities (N, V): 1 minus the acceptance rate at temperature 1."""
    return 0.5 * (p.exp() - q.exp()).abs().sum(-1)


def compute_cross_entropy(p: Tensor, q: Tensor) -> Tensor:
    """Cross-entropy of q with p in nats from log probabilities (N, V)."""
    return -(p.exp() * q).sum(-1)


DIVERGENCES: dict[str, Divergence] = {
    "forward-kl": compute_forward_kl,
    "reverse-kl": compute_reverse_kl,
    "tv": compute_total_variation,
}


def average_divergence(divergence: Divergence) -> Loss:
    """The mean divergence over positions as a loss."""

    def loss(teacher_head: Tensor, student_head: Tensor, taught: Tensor, learned: Tensor) -> Tensor:
        with torch.no_grad():
            p = torch.log_softmax((taught @ teacher_head.T).float(), -1)
        return divergence(p, torch.log_softmax((learned @ student_head.T).float(), -1)).mean()

    return loss


def compare_features(teacher_head: Tensor, student_head: Tensor, taught: Tensor, learned: Tensor) -> Tensor:
    """Smooth L1 between states (mean over their numbers) plus cross-entropy with the target's distribution."""
    distance = F.smooth_l1_loss(learned.float(), taught.float())
    return FEATURES * distance + average_divergence(compute_cross_entropy)(teacher_head, student_head, taught, learned)


class DistillationLoss:
    """The loss of a draft model on rows of ids. The teacher is rounded to bf16 and frozen."""

    def __init__(self, teacher: nn.Module, loss: Loss):
        self.teacher = round_to_bfloat16(teacher).eval().requires_grad_(False)
        self._loss = compile_if_possible(loss)
        self._find_states = compile_if_possible(_find_states)

    def __call__(self, student: nn.Module, ids: Tensor) -> Tensor:
        """Mean loss over the positions of rows of ids (B, T + 1)."""
        with torch.no_grad():
            taught = _find_states(self.teacher, ids)
        return self.compute_mean_loss(taught, self._find_states(student, ids), student.lm_head.weight)

    def compute_mean_loss(self, taught: Tensor, learned: Tensor, student_head: Tensor | None = None) -> Tensor:
        """Mean loss of states (B, T, width), computed in chunks. ``student_head`` is the teacher's output matrix unless given."""
        table = self.teacher.lm_head.weight
        head = table if student_head is None else student_head
        pairs = zip(taught.flatten(0, 1).split(CHUNK), learned.flatten(0, 1).split(CHUNK), strict=True)
        total = sum((self._loss(table, head, p, q) * len(q) for p, q in pairs), torch.zeros(()))
        return total / taught.shape[:2].numel()


class ExitLoss(DistillationLoss):
    """The loss of an early exit: it learns the target's last states from those after its own layers."""

    def __call__(self, student: TrainableExit, ids: Tensor) -> Tensor:
        with torch.no_grad():
            states = self.teacher.model(input_ids=ids[:, :-1], use_cache=False, output_hidden_states=True).hidden_states
        return self.compute_mean_loss(states[-1], student(states[student.layer]))


class HeadsLoss(DistillationLoss):
    """The loss of Medusa heads: cross-entropy with the target's distribution of the token that each head drafts, weighted by FADE."""

    def __init__(self, teacher: nn.Module):
        super().__init__(teacher, average_divergence(compute_cross_entropy))

    def __call__(self, student: TrainableHeads, ids: Tensor) -> Tensor:
        with torch.no_grad():
            states = self.teacher.model(input_ids=ids, use_cache=False).last_hidden_state
        weights = [FADE**k for k in range(len(student.heads))]
        losses = [self.compute_mean_loss(states[:, k + 1 :], student(states[:, : -k - 1], k)) for k in range(len(weights))]
        return sum((weight * loss for weight, loss in zip(weights, losses, strict=True)), torch.zeros(())) / sum(weights)


class EagleLoss(DistillationLoss):
    """The loss of a draft head: how far its states and its distributions are from the target's, mean of both steps."""

    def __init__(self, teacher: nn.Module):
        super().__init__(teacher, compare_features)
        self._unroll = compile_if_possible(unroll_two_steps)

    def __call__(self, student: TrainableEagle, ids: Tensor) -> Tensor:
        with torch.no_grad():
            states = self.teacher.model(input_ids=ids, use_cache=False).last_hidden_state
            embedded = self.teacher.model.embed_tokens(ids[:, 1:])
        first, second = self._unroll(student, embedded, states[:, :-1])
        return (self.compute_mean_loss(states[:, 1:], first) + self.compute_mean_loss(states[:, 1:], second)) / 2


def unroll_two_steps(head: TrainableEagle, embedded: Tensor, states: Tensor) -> tuple[Tensor, Tensor]:
    """States that the head predicts from the target's, and from its own prediction of the latest one, each (B, T, width)."""
    first, key, value = head(embedded, states)
    own = torch.cat([states[:, :1], first[:, :-1]], 1)
    return first, head(embedded, own, (key, value))[0]


def _find_states(model: nn.Module, ids: Tensor) -> Tensor:
    return model.model(input_ids=ids[:, :-1], use_cache=False).last_hidden_state
