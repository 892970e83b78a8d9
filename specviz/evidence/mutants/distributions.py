"""Distribution sources that say something else than the model they ask. Each asks another source and changes the answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from specviz.models.base import LanguageModel
from specviz.randomness import Prefix
from specviz.verification.draft_tree import ROOT, DraftTree
from specviz.verification.warp import first_argmax, one_hot


@dataclass(frozen=True, slots=True)
class Changed:
    """Another source's distributions, (B, N + 1, V), each put through ``change``."""

    source: LanguageModel
    change: Callable[[Tensor], Tensor]

    @property
    def vocabulary(self) -> int:
        return self.source.vocabulary

    @property
    def context(self) -> int | None:
        return self.source.context

    def distributions(self, rows: Sequence[Prefix], block: DraftTree) -> Tensor:
        return self.change(self.source.distributions(rows, block))


def certain(probs: Tensor) -> Tensor:
    """The one-hot distribution on the likeliest token: what an argmax draws from."""
    return one_hot(first_argmax(probs), probs.shape[-1])


def halved(probs: Tensor) -> Tensor:
    """The distribution as bfloat16 holds it, eight bits to a mass, rescaled."""
    rounded = probs.to(torch.bfloat16).double()
    return rounded / rounded.sum(-1, keepdim=True).clamp(min=torch.finfo(torch.float64).tiny)


@dataclass(frozen=True, slots=True)
class RowBefore:
    """Another source's distributions, one row too early: after ids it gives what belongs after ids[:-1]. A text of one token keeps its own.

    The last token of the prefix rides on top of the block, so that caches work as ever.
    """

    source: LanguageModel

    @property
    def vocabulary(self) -> int:
        return self.source.vocabulary

    @property
    def context(self) -> int | None:
        return self.source.context

    def distributions(self, rows: Sequence[Prefix], block: DraftTree) -> Tensor:
        late = [int(len(row.ids) > 1) for row in rows]
        shorter = [replace(row, ids=row.ids[:-1]) if shift else row for row, shift in zip(rows, late, strict=True)]
        tokens = [row.ids[-1:] * shift + block.tokens[i] for i, (row, shift) in enumerate(zip(rows, late, strict=True))]
        parents = [(ROOT,) * shift + tuple(one + shift for one in block.parents[i]) for i, shift in enumerate(late)]
        grown = DraftTree(
            tuple(tokens), tuple(parents), (None,) * len(rows), tuple((None,) * len(t) for t in tokens), block.source
        )
        distributions = self.source.distributions(shorter, grown)
        result = distributions[:, : block.widest + 1].clone()
        for index, shift in enumerate(late):
            for node, parent in enumerate(block.parents[index]):
                result[index, node + 1] = distributions[index, parent + 1 + shift]
        return result
