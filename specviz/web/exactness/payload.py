"""Payload of the histogram that fills: the first decoder's samples after growing numbers of them."""

from __future__ import annotations

from typing import Any

from specviz.evidence.results import ExactnessResult
from specviz.figures.cell_shares import compute_rows_end
from specviz.figures.charts import shorten_label

DIGITS = 5  # of a share that is only drawn


def build_histogram(result: ExactnessResult) -> dict[str, Any]:
    """The frames of the histogram, one for each number of samples.

    Returns:
        ``labels`` and ``exact`` of the rows, heaviest first; ``end`` of the axis; ``conclusion`` in words; ``frames``, each with n, and
        ``shares``, ``low`` and ``high`` of every row.
    """
    steps = result.filling
    last = steps[-1].rows
    frames = [
        {"n": one.n} | {name: [round(x, DIGITS) for x in getattr(one, name)] for name in ("shares", "low", "high")}
        for one in (step.rows for step in steps)
    ]
    return {
        "labels": [shorten_label(label) for label in last.labels],
        "exact": list(last.probs),
        "end": compute_rows_end(*(step for step in steps if step.n >= steps[-1].n / 100)),
        "conclusion": steps[-1].conclusion,
        "frames": frames,
    }
