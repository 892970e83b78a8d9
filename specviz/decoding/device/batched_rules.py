"""The token rule and the block rule for all rows of a batch at once, in tensor operations of fixed shape.

They decide as ``verification.token.TokenRule`` and ``verification.block.BlockRule`` do, from the same numbers
(tests/decoding/test_device_round.py compares the records). No result is read in between, so on an accelerator the host waits for
nothing, and the operations can be compiled.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from specviz.decoding.device.fixed_shape import FixedShape
from specviz.verification.token import compute_unscaled_residual, judge_tokens


class DraftBatch(NamedTuple):
    """What a rule judges.

    tokens  (B, N) int64
    levels  (B,) int64: how many levels each row has drafted; nodes further down are not judged
    u       (B, N) float64: the random number that tests each node
    """

    tokens: Tensor
    levels: Tensor
    u: Tensor


class BatchVerdict(NamedTuple):
    """What a rule decided about B rows of N nodes each, at most K of them on a path.

    p         (B, N) float64: target probability of each node's token, as it was tested
    edges     (B, N) float64: what the random numbers of the block rule were compared with; for the token rule 0
    checked   (B, N) bool
    accepted  (B, N) bool, only where checked
    path      (B, K) int64: accepted nodes, from the first level down; what follows the last of them is unspecified
    count     (B,) int64: how many they are
    rejected  (B,) int64: the last sibling rejected below the last accepted node; -1 where the path ends in a leaf
    probs     (B, V) float64: what the round's last token is drawn from, not necessarily rescaled
    """

    p: Tensor
    edges: Tensor
    checked: Tensor
    accepted: Tensor
    path: Tensor
    count: Tensor
    rejected: Tensor
    probs: Tensor


def gather_node_probabilities(p: Tensor, q: Tensor, tokens: Tensor, above: Tensor) -> tuple[Tensor, Tensor]:
    """Target and draft probability of each draft token, (B, N) each.

    p, q    (B, N + 1, V) and (B, N, V)
    tokens  (B, N) int64
    above   (N,) int64: 1 + parent of each node
    """
    picked = tokens.unsqueeze(-1)
    return p.index_select(1, above).gather(2, picked)[..., 0], q.gather(2, picked)[..., 0]


def apply_token_rule(
    shape: FixedShape, below: Tensor, p: Tensor, q: Tensor, at: tuple[Tensor, Tensor], drafted: DraftBatch
) -> BatchVerdict:
    """The token rule (Leviathan et al. 2023, Algorithm 1; in a tree Miao et al. 2024), walked down all rows at once.

    below  ``shape.below`` on the device
    p, q   (B, N + 1, V) and (B, N, V) float64
    at     ``gather_node_probabilities``
    """
    tokens, levels, u = drafted
    rows = torch.arange(len(p), device=p.device)
    p_nodes, q_nodes = at
    tested, checked, accepted = (
        p_nodes.clone(),
        torch.zeros_like(tokens, dtype=torch.bool),
        torch.zeros_like(tokens, dtype=torch.bool),
    )
    place = torch.zeros_like(levels)  # 0 for the prefix, else 1 + the last accepted node
    rejected, path, count = torch.full_like(levels, -1), [], torch.zeros_like(levels)
    alive, probs = levels >= 0, p[:, 0]
    for level, nodes in enumerate(shape.levels):
        going = here = alive & (levels > level)
        here_probs, chosen = probs, torch.zeros_like(levels)
        for sibling in range(len(nodes) // (len(shape.levels[level - 1]) if level else 1)):
            node = below[place, sibling].clamp(min=0)
            p_x = here_probs.gather(1, tokens[rows, node][:, None])[:, 0]
            left, total = compute_unscaled_residual(here_probs, q[rows, node])
            passed = judge_tokens(u[rows, node], p_x, q_nodes[rows, node], total[:, 0])
            taken, lost = here & passed, here & ~passed
            tested[rows, node] = torch.where(here, p_x, tested[rows, node])
            checked[rows, node] |= here
            accepted[rows, node] |= taken
            chosen = torch.where(taken, node, chosen)
            rejected = torch.where(lost, node, torch.where(taken, -1, rejected))
            here_probs = torch.where(lost[:, None], left / total, here_probs)
            here = lost
        alive = going & ~here
        place = torch.where(alive, chosen + 1, place)
        probs = torch.where(alive[:, None], p[rows, place], here_probs)
        path.append(chosen)
        count = count + alive
    return BatchVerdict(tested, torch.zeros_like(tested), checked, accepted, torch.stack(path, 1), count, rejected, probs)


def apply_chain_rule(p: Tensor, q: Tensor, at: tuple[Tensor, Tensor], drafted: DraftBatch) -> BatchVerdict:
    """The token rule for B chains at once, all levels in the same operations. Arguments as in ``apply_token_rule``."""
    _, levels, u = drafted
    p_nodes, q_nodes = at
    most = p_nodes.shape[1]
    left, total = compute_unscaled_residual(p[:, :most], q)
    after = torch.arange(1, most + 1, device=p.device)
    within = after <= levels[:, None]
    passed = judge_tokens(u, p_nodes, q_nodes, total[..., 0]) & within
    count = torch.where(passed, most, after - 1).amin(1)  # tokens before the first that is not accepted
    checked, accepted = within & (after <= count[:, None] + 1), after <= count[:, None]
    cut = count < levels
    rows, held = torch.arange(len(p), device=p.device), count.clamp(max=most - 1)
    probs = torch.where(cut[:, None], left[rows, held] / total[rows, held], p[rows, count])
    path = (after - 1).expand(len(p), -1)
    return BatchVerdict(p_nodes, torch.zeros_like(p_nodes), checked, accepted, path, count, torch.where(cut, count, -1), probs)


def apply_block_rule(p: Tensor, q: Tensor, at: tuple[Tensor, Tensor], drafted: DraftBatch) -> BatchVerdict:
    """Block verification (Sun et al. 2024, Algorithm 2) of B chains at once. Arguments as in ``apply_token_rule``."""
    _, levels, u = drafted
    p_nodes, q_nodes = at
    most = p_nodes.shape[1]
    weights = [torch.ones_like(p_nodes[:, 0])]
    for level in range(most):
        weights.append((weights[-1] * p_nodes[:, level] / q_nodes[:, level]).clamp(max=1.0))
    w = torch.stack(weights, 1)
    left = (p[:, :most] * w[:, :most, None]).sub_(q).clamp_(min=0.0)
    mass = left.sum(-1)
    after = torch.arange(1, most + 1, device=p.device)
    last, within = after == levels[:, None], after <= levels[:, None]
    missing = torch.cat([mass[:, 1:], mass[:, :1]], 1)  # the number in the last place is not used: there the edge is the weight
    total = missing + 1.0 - w[:, 1:]
    edges = torch.where(last, w[:, 1:], torch.where(total > 0.0, missing / total, 1.0))
    count = (after * ((u < edges) & within)).amax(1)
    cut = count < levels
    held = count.clamp(max=most - 1)
    rows = torch.arange(len(p), device=p.device)
    probs = torch.where((cut & (mass[rows, held] > 0.0))[:, None], left[rows, held], p[rows, count])
    accepted = within & (after <= count[:, None])
    path = (after - 1).expand(len(p), -1)
    return BatchVerdict(p_nodes, edges, within, accepted, path, count, torch.where(cut, count, -1), probs)
