"""Who sees what in a pass: additive masks, zero where a token sees a column and the lowest number where it does not."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from specviz.verification.draft_tree import ancestors


def causal(fresh: int, width: int, like: Tensor) -> Tensor:
    """Additive mask (1, 1, fresh, width + fresh): each fresh column sees all before it and itself."""
    mask = torch.full((fresh, width + fresh), lowest(like.dtype), dtype=like.dtype, device=like.device)
    return mask.triu_(width + 1)[None, None]


def lowest(kind: torch.dtype) -> float:
    """What a mask adds to a column that is not to be seen: finite in ``kind`` and in float32, in which many families take softmax.

    Were it infinite there, a row that sees nothing (padding of a ragged batch) would be NaN, and with it, through the cache,
    its neighbours.
    """
    return max(torch.finfo(kind).min, torch.finfo(torch.float32).min)


@lru_cache(maxsize=64)
def corner(lead: int, parents: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """What a pass over so many tokens and a tree adds for its own columns, (T, T): each token sees those before it, each node its ancestors."""
    seen = torch.ones(lead + len(parents), lead + len(parents), dtype=torch.bool).tril_()
    seen[lead:, lead:] = ancestors(parents, len(parents))
    return torch.zeros(seen.shape, dtype=dtype).masked_fill_(~seen, lowest(dtype))


def additive(
    seen: Tensor, where: Tensor, positions: Tensor, windows: dict[str, int | None], dtype: torch.dtype, device: torch.device
) -> Tensor | dict[str, Tensor]:
    """(B, 1, T, S) by kind of layer, or the one mask where there is one kind.

    seen   (B, T, S) bool: which columns each fresh token sees but for windows
    where  (B, S) position of the token in each column; positions  (B, T) of the fresh tokens
    """
    masks = {}
    for kind, window in windows.items():
        near = seen if window is None else seen & (where[:, None, :] > positions[:, :, None] - window)
        mask = torch.zeros(near.shape, dtype=dtype).masked_fill_(~near, lowest(dtype))
        masks[kind] = mask[:, None].to(device)
    return masks if len(masks) > 1 else next(iter(masks.values()))


def windows(config: object) -> dict[str, int | None]:
    """Kinds of attention layers and how far back each looks; None: to the beginning."""
    window = getattr(config, "sliding_window", None)
    kinds = getattr(config, "layer_types", None)
    if kinds:
        return {kind: window if kind == "sliding_attention" else None for kind in sorted(set(kinds))}
    return {"full_attention": window}
