"""One p-value for each of many seeds: those of an exact decoder are spread evenly over 0 to 1."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from specviz.decoding.samples import Samples
from specviz.errors import SpecvizError
from specviz.evidence.partition import exact_partition
from specviz.models.pairs.loading import LoadedPair
from specviz.settings import Settings
from specviz.statistics.goodness import chi_square

CELLS = 16  # at most; each with at least 5 expected samples


def p_values(
    pair: LoadedPair, settings: Settings, ids: Sequence[int], seeds: int, samples: int, draw: Callable[[Settings], Samples]
) -> Iterator[float]:
    """Chi-square p-values, each in [0, 1], of the seeds after the next one, on cells of their own that are fixed before.

    ids      of the prompt; samples  of each seed
    draw     (settings with a seed of their own) -> so many samples

    Raises SpecvizError where the distribution has a single cell.
    """
    target, _ = pair.open(settings)
    cells = exact_partition(target, ids, settings.max_new_tokens, CELLS, 5.0 / samples, pair.eos_token_ids)
    if (cells.masses > 0).sum() < 2:
        raise SpecvizError("P-values need a distribution with several cells; here all samples fall into one.")
    probs = cells.masses / cells.masses.sum()
    for number in range(seeds):
        own = replace(settings, seed=(settings.seed + 2 + number) % 2**63)
        yield chi_square(cells.counts(draw(own)), probs).p_value
