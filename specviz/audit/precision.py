"""Distance between two precisions of the same weights: the distance that rounding alone explains."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np
import torch

from specviz.evidence.certificate import recompute_masses
from specviz.evidence.partition import Partition
from specviz.evidence.serving_setups.targets import round_to_bfloat16
from specviz.models.pairs.catalog import OVERHEAD
from specviz.models.pairs.families import find_free_memory
from specviz.models.pairs.pair import LoadedPair
from specviz.settings import Settings


@dataclass(frozen=True, slots=True)
class PrecisionDistance:
    """reference, other: names of the number types; tv: between the two distributions on the cells of the test, in [0, 1]."""

    reference: str
    other: str
    tv: float


def convert_precision(pair: LoadedPair) -> LoadedPair | None:
    """The pair with its target in bfloat16, or in float32 where it is in 16 bits; None where memory does not hold both."""
    target = pair.target
    other = torch.bfloat16 if target.dtype in (torch.float32, torch.float64) else torch.float32
    if target.num_parameters() * other.itemsize * OVERHEAD > find_free_memory(target.device):
        return None
    return replace(pair, target=round_to_bfloat16(target) if other is torch.bfloat16 else deepcopy(target).float())


def measure_distance(
    pair: LoadedPair, other: LoadedPair, settings: Settings, prompt: Sequence[int], partition: Partition
) -> PrecisionDistance:
    """Total variation between two precisions on the cells of a partition. Both are computed here, on the same tree of prefixes."""
    masses = [
        recompute_masses(one.open(settings)[0], tuple(prompt), partition, one.eos_token_ids).masses for one in (pair, other)
    ]
    tv = float(np.abs(masses[0] / masses[0].sum() - masses[1] / masses[1].sum()).sum()) / 2.0
    names = [str(one.target.dtype).removeprefix("torch.") for one in (pair, other)]
    return PrecisionDistance(names[0], names[1], tv)
