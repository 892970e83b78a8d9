"""Mistakes around the rule: a processor, a scale or a ban that is not a function of the prefix of each distribution. Each wraps one argument."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from specviz.models.fast_llama.int8 import Int8Linear
from specviz.models.processed import ProcessedModel
from specviz.randomness import Prefix
from specviz.verification.draft_tree import DraftTree
from specviz.verification.token import TokenRule


class OncePerRound(ProcessedModel):
    """The processor is given the committed text alone, whatever draft tokens stand before a distribution: it forgets what the draft itself repeats."""

    def prefixes(self, row: Prefix, tree: DraftTree, index: int) -> list[tuple[int, ...]]:
        return [row.ids] * (len(tree.tokens[index]) + 1)


class OneScalePerPass(Int8Linear):
    """One scale for all tokens of a pass, as ``torch.ao.quantization.quantize_dynamic`` has it: draft tokens change how the prefix is rounded."""

    def scales(self, tokens: Tensor) -> Tensor:
        return tokens.abs().amax().view(1, 1)


class OnDrawsAlone(TokenRule):
    """Draft tokens are judged by the distribution as it was; what the target draws itself, replacement and bonus, comes from the changed one.

    change  (V,) float64 -> (V,), both distributions
    """

    name, title = "processor on the draws alone", "processor on the draws alone (lossy)"
    exact = False

    def __init__(self, change: Callable[[Tensor], Tensor]):
        self.change = change

    def replacement(self, p: Tensor, q: Tensor) -> Tensor:
        return super().replacement(self.change(p), q)

    def bonus(self, p: Tensor) -> Tensor:
        return self.change(p)


def without(ids: Sequence[int]) -> Callable[[Tensor], Tensor]:
    """The distribution in which some tokens are impossible."""

    def change(probs: Tensor) -> Tensor:
        left = probs.index_fill(-1, torch.tensor(ids, device=probs.device), 0.0)
        return left / left.sum(-1, keepdim=True)

    return change
