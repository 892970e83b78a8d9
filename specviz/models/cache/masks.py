"""Additive attention masks: zero where a token sees a column, the lowest number where it does not."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from specviz.verification.draft_tree import KEPT_WIDTH, build_ancestor_mask


def build_causal_mask(fresh: int, width: int, like: Tensor) -> Tensor:
    """Additive mask (1, 1, fresh, width + fresh): each new column sees all columns before it and itself."""
    mask = torch.full((fresh, width + fresh), find_lowest_value(like.dtype), dtype=like.dtype, device=like.device)
    return mask.triu_(width + 1)[None, None]


def find_lowest_value(kind: torch.dtype) -> float:
    """Mask value of a column that is not seen. It is finite in ``kind`` and in float32, in which many families compute the softmax.

    With an infinite value a row that sees nothing (padding of a ragged batch) would become NaN and spread it through the cache.
    """
    return max(torch.finfo(kind).min, torch.finfo(torch.float32).min)


def count_self_seen(mask: Tensor) -> int:
    """How many of the last columns of an additive mask (B, 1, T, S) only their own token sees, as the leaves of a tree."""
    seen = mask[:, 0] > find_lowest_value(mask.dtype) / 2
    own = seen.diagonal(mask.shape[3] - mask.shape[2], 1, 2)  # (B, T)
    alone = own & (seen[:, :, -mask.shape[2] :].sum(1) == 1)
    return int(alone.all(0).flip(0).long().cumprod(0).sum())


def build_tree_mask(lead: int, parents: tuple[int, ...], dtype: torch.dtype, device: torch.device | str = "cpu") -> Tensor:
    """Mask (T, T) of a pass over ``lead`` tokens and a tree, for its own columns: tokens see earlier ones, nodes their ancestors."""
    return (_build_tree_mask if len(parents) <= KEPT_WIDTH else _build_tree_mask.__wrapped__)(lead, parents, dtype, device)


@lru_cache(maxsize=64)
def _build_tree_mask(lead: int, parents: tuple[int, ...], dtype: torch.dtype, device: torch.device | str) -> Tensor:
    seen = torch.ones(lead + len(parents), lead + len(parents), dtype=torch.bool, device=device).tril_()
    seen[lead:, lead:] = build_ancestor_mask(parents, len(parents)).to(device)
    return torch.zeros(seen.shape, dtype=dtype, device=device).masked_fill_(~seen, find_lowest_value(dtype))


def build_additive_masks(
    visible: Tensor, where: Tensor, positions: Tensor, windows: dict[str, int | None], dtype: torch.dtype, device: torch.device
) -> Tensor | dict[str, Tensor]:
    """Masks (B, 1, T, S) by kind of layer; a single mask if there is one kind.

    ``visible`` (B, T, S) bool: the columns that each new token sees, before sliding windows; ``where`` (B, S) positions of the columns,
    ``positions`` (B, T) of the new tokens.
    """
    masks = {}
    for kind, window in windows.items():
        near = visible if window is None else visible & (where[:, None, :] > positions[:, :, None] - window)
        mask = torch.zeros(near.shape, dtype=dtype).masked_fill_(~near, find_lowest_value(dtype))
        masks[kind] = mask[:, None].to(device)
    return masks if len(masks) > 1 else next(iter(masks.values()))


def list_attention_windows(config: object) -> dict[str, int | None]:
    """Kinds of attention layers and how far back each attends; None: to the beginning."""
    window = getattr(config, "sliding_window", None)
    kinds = getattr(config, "layer_types", None)
    if kinds:
        return {kind: window if kind == "sliding_attention" else None for kind in sorted(set(kinds))}
    return {"full_attention": window}
