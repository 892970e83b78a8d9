"""What an examination on the page Is it exact? keeps between clicks: the pair, the exact law in cells, the counts of both arms."""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from specviz.figures.exactness.evidence import Filling, label
from specviz.web.common import cache, loads
from specviz.web.common.queue import Ticket
from specviz.web.exactness.state import Exam

if TYPE_CHECKING:
    from specviz.evidence.partition import Partition

SHOWN = 18  # most cells of the picture
LEAST = 0.002  # their least mass
BAND = 0.99  # of all bars together


class Bench:
    """What an examination keeps between clicks: the open pair, the cells of picture and looks, the counts of both arms."""

    def __init__(self, exam: Exam, ticket: Ticket):
        settings = exam.question.settings
        key = settings.pair, settings.device, settings.dtype
        self.pair = loads.waited(ticket, key, cache.weights)
        self.models = cache.identity(*key)
        importlib.import_module(
            "pandas"
        )  # Plotly looks at it while it draws, and must not meet it half imported by another visitor
        ticket.tick(doing="Computing the exact distribution")
        from specviz.evidence import looks
        from specviz.evidence.partition import exact_partition

        self.ids = self.pair.encode(settings.prompt)
        target, _ = self.pair.open(settings)
        shape = settings.length, self.pair.eos_token_ids
        self.cells = possible(exact_partition(target, self.ids, settings.length, SHOWN, LEAST, self.pair.eos_token_ids))
        self.looks: list[Partition] = []
        for look in range(looks.LOOKS.looks):
            ticket.tick()
            self.looks.append(looks.partition(target, self.ids, look, *shape))
        self.look_counts = [np.zeros(len(one.names), dtype=np.int64) for one in self.looks]
        self.counts = [np.zeros(len(self.cells.names), dtype=np.int64) for _ in range(2)]
        self.n = 0
        pieces = self.pair.pieces({token for name in self.cells.names for token in name})
        self.labels = tuple(label(*cell, pieces) for cell in zip(self.cells.names, self.cells.whole.tolist(), strict=True))

    def picture(self, names: tuple[str, str]) -> tuple[Filling, Filling]:
        """Both arms as they stand."""
        from specviz.statistics.variation import cell_band

        law = self.cells.masses / self.cells.masses.sum()
        one_by_one = 1.0 - (1.0 - BAND) / len(law)  # so that all bars together stay inside with BAND
        low, high = cell_band(law, self.n, one_by_one).tolist() if self.n else ([0.0] * len(law), [1.0] * len(law))
        fixed = (self.labels, tuple(self.cells.whole.tolist()), tuple(law.tolist()))
        return tuple(
            Filling(name, *fixed, tuple(counts.tolist()), tuple(low), tuple(high), self.n)
            for name, counts in zip(names, self.counts, strict=True)
        )


def possible(cells: Partition) -> Partition:
    """Without cells that the target never writes, unless nothing else is left: a draw there is found by the looks."""
    keep = [place for place, mass in enumerate(cells.masses) if mass > 0.0 or not cells.names[place]]
    return replace(cells, names=tuple(cells.names[place] for place in keep), masses=cells.masses[keep], whole=cells.whole[keep])


def only_outcome(bench: Bench) -> str:
    """What to say where the law leaves nothing to chance, or to tell."""
    possible = bench.cells.masses > 0.0
    if possible.sum() > 1:
        return ""
    if bench.cells.whole[possible].all():
        return "The distribution has only one outcome (temperature 0, or a cut that leaves one token): the test is equality, sample by sample."
    return "All continuations share one cell. This distribution is too flat for a picture, and samples cannot be told apart here."
