"""A server of the tests that runs the target of a pair, or anything else over its tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch

from specviz.models.pairs.pair import LoadedPair


@cache
def compute_next_probs(model: torch.nn.Module, ids: tuple[int, ...]) -> np.ndarray:
    """(V,) float64, the model's distribution of the token after ``ids``; computed once for all servers."""
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0, -1].double().softmax(-1).numpy()


def answer_from_pair(
    pair: LoadedPair, bent: Callable[[np.ndarray], np.ndarray] = lambda probs: probs, deepest: int = 9
) -> dict[str, Any]:
    """Switches for a server whose distribution is the target's, or what ``bent`` makes of it.

    Beyond ``deepest`` tokens a text is continued as if it ended there: what comes later is in no test, and costs passes.
    """

    def probs(ids: Sequence[int]) -> np.ndarray:
        return bent(compute_next_probs(pair.target, tuple(ids[:deepest])))

    (end,) = pair.eos_token_ids
    return {
        "probs": probs,
        "encode": lambda text: list(pair.encode(text)),
        "piece": lambda token: pair.decode([token]),
        "end": end,
    }
