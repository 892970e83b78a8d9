"""How close predicted rates are to what happened, in groups: the points of calibration plots. Numpy; no torch.

Two predictions are compared with what happened: a predictor's acceptance rate of each cell of a study, and the draft's confidence in its most
likely token at each place of a text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from specviz.measure.estimate import Estimate
from specviz.prediction.study import RESAMPLES, StudyCell


@dataclass(frozen=True, slots=True)
class CalibrationPoint:
    """One bin of a draft's confidence: its mean, how often the draft was right, and places of the texts."""

    sure: float
    right: Estimate
    places: int


def calibration(predicted: Sequence[float], measured: Sequence[float], groups: int = 8) -> tuple[tuple[float, float, int], ...]:
    """Points of a calibration plot: cells in groups of equal size by what was predicted; mean predicted, mean measured, cells."""
    order = np.argsort(predicted)
    parts = [part for part in np.array_split(order, groups) if len(part)]
    pairs = [(np.asarray(predicted)[part].mean(), np.asarray(measured)[part].mean(), len(part)) for part in parts]
    return tuple((float(a), float(b), n) for a, b, n in pairs)


def over_kinds(cells: Sequence[StudyCell]) -> Estimate:
    """Mean measured acceptance rate over different kinds of text; the interval is over resampled kinds."""
    return Estimate.of_mean([cell.share for cell in cells])


def reliability(cells: Sequence[StudyCell], least: int = 30, seed: int = 0) -> tuple[CalibrationPoint, ...]:
    """How often a draft's most likely token stands in the text, against the probability that the draft gives it, over all cells.

    cells  of different kinds of text, with bins; least  places that a bin needs to be a point
    Intervals are over resampled kinds, because places of one text resemble each other.
    """
    bins = np.array([cell.bins for cell in cells if cell.bins], dtype=float)  # (kinds, bins, 3)
    if not len(bins):
        return ()
    picked = np.random.default_rng(seed).integers(0, len(bins), (RESAMPLES, len(bins)))
    found = []
    for place in range(bins.shape[1]):
        places, sure, right = bins[:, place].sum(0)
        if places < least:
            continue
        many = bins[picked, place].sum(1)
        shares = many[many[:, 0] > 0, 2] / many[many[:, 0] > 0, 0]
        found.append(
            CalibrationPoint(float(sure / places), Estimate.of_resamples(right / places, shares, len(bins)), int(places))
        )
    return tuple(found)


def calibration_error(cells: Sequence[StudyCell]) -> float:
    """Mean distance of the draft's confidence from how often it is right, over the bins of all cells together, weighted by places."""
    bins = np.array([cell.bins for cell in cells if cell.bins], dtype=float).sum(0)
    return float(np.abs(bins[:, 1] - bins[:, 2]).sum() / bins[:, 0].sum())
