"""What was sampled of two decoders, and what the tests found: plain records, which Is it exact? and Break it show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from specviz.evidence.tally import Look, Tally
from specviz.figures.cell_shares import CellShares, SeedPValues
from specviz.figures.labels import label

if TYPE_CHECKING:
    from specviz.decoding.samples import Samples
    from specviz.evidence.partition import Partition

DECODERS = {"speculative": "Speculative decoding", "target": "Target-only sampling"}
TEXTS = 200  # latest samples that are searched for two different texts


@dataclass(frozen=True, slots=True)
class SamplingResult:
    """What was found so far.

    arms   the samples of both decoders; None until the exact distribution is known
    looks  what each test found, in the order of the plan: one entry for each decoder that is tested
    notes  sentences about what is unusual here
    """

    arms: tuple[CellShares, CellShares] | None = None
    looks: tuple[tuple[Look, ...], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def n(self) -> int:
        return self.arms[0].n if self.arms else 0


@dataclass(frozen=True, slots=True)
class ExactnessResult(SamplingResult):
    """What was found so far; the second decoder is target-only sampling under another seed, which is not tested.

    texts     (number of the sample from 1, text of the source, target-only text), the latest that differ
    p_values  of many seeds, once they were asked for
    engine    samples that ran through the engine and its caches; the others were drawn on shared distributions
    """

    texts: tuple[int, str, str] | None = None
    p_values: SeedPValues | None = None
    engine: int = 0


def labels_of(cells: Partition, pieces: Callable[[set[int]], Mapping[int, str]]) -> tuple[str, ...]:
    """What cells are called. pieces: token ids -> the text of each."""
    named = pieces({token for name in cells.names for token in name})
    return tuple(label(*cell, named) for cell in zip(cells.names, cells.whole.tolist(), strict=True))


def shares(tally: Tally, labels: tuple[str, ...]) -> tuple[CellShares, ...]:
    """The samples of each decoder so far, in the cells of the picture."""
    cells = tally.cells
    fixed = labels, cells.whole.tolist(), cells.masses
    return tuple(
        CellShares.of(name, *fixed, counts.tolist(), tally.n) for name, counts in zip(tally.names, tally.counts, strict=True)
    )


def latest_difference(decode: Callable[[list[int]], str], arms: Sequence[Samples]) -> tuple[int, str, str] | None:
    """The latest sample of which two decoders wrote different texts; None where the last TEXTS are the same.

    decode  token ids -> text
    """
    from specviz.decoding.samples import NONE

    for back in range(1, min(TEXTS, len(arms[0])) + 1):
        left, right = (samples.tokens[-back].tolist() for samples in arms)
        if left != right:
            written = [decode([token for token in row if token != NONE]) for row in (left, right)]
            return arms[0].first + len(arms[0]) - back + 1, written[0], written[1]
    return None
