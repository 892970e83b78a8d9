"""What runs in the queue for the page Is it exact? where draws come from files: one against the distribution, or two against each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from specviz.figures.exactness.evidence import Filling, label
from specviz.web.common import cache, loads
from specviz.web.common.queue import Ticket
from specviz.web.exactness.bench import BAND, SHOWN
from specviz.web.exactness.state import Exam, Filed, Upload

TV, TV_OF_TWO = 0.01, 0.1  # that a file must show, where its draws can; that two files must show


def examine_files(exam: Exam, ticket: Ticket, uploads: Sequence[Upload]) -> None:
    """One file against the distribution of the target, or two against each other. The report takes its place only when it is whole."""
    loads.libraries(ticket)
    from specviz.evidence.sample_files.reading import parse
    from specviz.evidence.sample_files.two_files import compare

    settings = exam.question.settings
    heaps = [parse(one.content, Path(one.name).name[:80], lambda share: ticket.tick(0.3 * share, "Reading")) for one in uploads]
    if len(heaps) == 2:
        ticket.tick(0.5, "Comparing the two files")
        exam.filed = Filed(compare(*heaps, TV_OF_TWO, settings.seed, lambda share: ticket.tick(0.5 + 0.5 * share)))
        return
    from specviz.evidence.experiment import Plan
    from specviz.evidence.sample_files.against_weights import against_distribution

    pair = loads.waited(ticket, (settings.pair, settings.device, settings.dtype), cache.weights)
    ticket.tick(0.3, "Working out the exact distribution")

    def plan(n: int, length: int) -> Plan:
        return Plan.fitting(n, length, TV)

    asked = replace(settings, prompt=heaps[0].prompt)
    report = against_distribution(heaps[0], asked, plan, pair, lambda share: ticket.tick(0.3 + 0.7 * share, "Testing the draws"))
    exam.filed = Filed(report, _heaviest(report))


def _heaviest(report: Mapping[str, Any]) -> Filling:
    """The heaviest cells of a report, with the band that chance leaves all of them in."""
    from specviz.statistics.variation import cell_band

    one, pieces = report["answers"][0], {int(token): raw for token, raw in report["pieces"].items()}
    cells = sorted(one["cells"], key=lambda cell: -cell["mass"])[:SHOWN]
    probs = np.array([cell["mass"] for cell in cells]) / sum(cell["mass"] for cell in one["cells"])
    low, high = cell_band(probs, one["n"], 1.0 - (1.0 - BAND) / len(probs)).tolist()
    names = tuple(label(cell["begins"], cell["whole"], pieces) for cell in cells)
    columns = (tuple(cell["whole"] for cell in cells), tuple(probs.tolist()), tuple(cell["count"] for cell in cells))
    return Filling(report["decoder"], names, *columns, tuple(low), tuple(high), one["n"])
