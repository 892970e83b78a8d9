"""Distribution sources that say something else than the model they ask. Each asks another source and changes the answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from specviz.models.base import LanguageModel
from specviz.randomness import Prefix
from specviz.verification.draft_tree import ROOT, DraftTree
from specviz.verification.warp import first_argmax, one_hot


class Changed:
    """Another source's distributions, (B, N + 1, V), each put through ``change``."""

    def __init__(self, source: LanguageModel, change: Callable[[Tensor], Tensor]):
        self.source, self.change = source, change
        self.vocabulary, self.context = source.vocabulary, source.context

    def distributions(self, rows: Sequence[Prefix], tree: DraftTree) -> Tensor:
        return self.change(self.source.distributions(rows, tree))


def certain(probs: Tensor) -> Tensor:
    """The one-hot distribution on the most likely token: what an argmax draws from."""
    return one_hot(first_argmax(probs), probs.shape[-1])


def halved(probs: Tensor) -> Tensor:
    """The distribution as bfloat16 holds it, eight bits to a mass, rescaled."""
    rounded = probs.to(torch.bfloat16).double()
    return rounded / rounded.sum(-1, keepdim=True).clamp(min=torch.finfo(torch.float64).tiny)


def reheated(probs: Tensor, factor: float) -> Tensor:
    """The distribution at ``factor`` times its temperature: masses to the power 1 / factor, rescaled.

    probs   (..., V) float64. Tokens of probability 0 keep it, so what a cut removed stays removed
    factor  not 0. Infinity makes all other tokens alike; a negative one makes the least likely of them the likeliest
    """
    return torch.where(probs > 0.0, probs.log() / factor, -torch.inf).softmax(-1)


class RowBefore:
    """Another source's distributions, one row too early: after ids it gives what belongs after ids[:-1]. A text of one token keeps its own.

    The source is asked about a tree whose root is the last token of the prefix, so its cache works as usual.
    """

    def __init__(self, source: LanguageModel):
        self.source, self.vocabulary, self.context = source, source.vocabulary, source.context

    def distributions(self, rows: Sequence[Prefix], tree: DraftTree) -> Tensor:
        late = [int(len(row.ids) > 1) for row in rows]
        shorter = [replace(row, ids=row.ids[:-1]) if shift else row for row, shift in zip(rows, late, strict=True)]
        tokens = [row.ids[-1:] * shift + tree.tokens[i] for i, (row, shift) in enumerate(zip(rows, late, strict=True))]
        parents = [(ROOT,) * shift + tuple(one + shift for one in tree.parents[i]) for i, shift in enumerate(late)]
        grown = replace(tree, tokens=tuple(tokens), parents=tuple(parents))
        distributions = self.source.distributions(shorter, grown)
        result = distributions[:, : tree.widest + 1].clone()
        for index, shift in enumerate(late):
            for node, parent in enumerate(tree.parents[index]):
                result[index, node + 1] = distributions[index, parent + 1 + shift]
        return result
