"""What the draft says in another request of the same traffic: rows that a server may take for those of the tested one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from specviz.audit.findings.prefix_table import PrefixTable, compute_distributions
from specviz.models.base import LanguageModel
from specviz.models.continuations import draw_continuations
from specviz.statistics.random_streams import RandomUse, make_generator

TEXTS = 16  # texts of another request that its rows are averaged over
MAX_ROWS = 48  # rows of the tested request itself: those after its most frequent prefixes
MAX_PROMPTS = 4  # other prompts whose rows are compared


@dataclass(frozen=True, slots=True)
class OtherRows:
    """The draft's distributions along the texts of another request.

    Attributes:
        name: Of the request, for a sentence.
        q: (M, V) after each text.
        place: (M,) how many tokens were written before; every place from 0 to the last is there.
        weight: (M,) share of each row among those of its place.
    """

    name: str
    q: Tensor
    place: np.ndarray
    weight: np.ndarray

    def weigh(self, length: int) -> dict[str, np.ndarray]:
        """Where the other request stands -> (L, M): weight of each row where the tested request has 0, 1, ... tokens."""
        last = int(self.place.max())
        at = np.stack([self.weight * (self.place == min(place, last)) for place in range(length)])
        return {
            "which has just begun": np.tile(at[0], (length, 1)),
            "as long as this one": at,
            "of any length": np.tile(self.weight / (last + 1), (length, 1)),
        }


def read_own_rows(table: PrefixTable) -> OtherRows:
    """Of another request after the same prompt: the prefixes of the samples themselves."""
    times = np.bincount(table.edge, table.count, minlength=len(table.prefixes))
    kept = np.sort(np.argsort(-times, kind="stable")[:MAX_ROWS])
    return _build_rows("the same prompt", table.q[torch.from_numpy(kept)], table.prefix_lengths[kept], times[kept])


def draw_other_rows(
    target: LanguageModel, draft: LanguageModel, name: str, prompt: Sequence[int], length: int, seed: int
) -> OtherRows:
    """Of a request after another prompt, along TEXTS texts that the target writes."""
    prefixes, _, times = draw_continuations(target, prompt, TEXTS, length, make_generator(seed, RandomUse.OTHER_ROWS))
    place = np.array([len(one) for one in prefixes])
    return _build_rows(f"the prompt {name!r}", compute_distributions(draft, prompt, prefixes), place, times)


def _build_rows(name: str, q: Tensor, place: np.ndarray, often: np.ndarray) -> OtherRows:
    return OtherRows(name, q, place, often / np.bincount(place, often)[place])
