"""Which statistic of two models predicts the acceptance rate, and how well: the cells of a study and the scores computed from them.

A statistic is measured on a given text, by one pass of both models. It predicts the acceptance rate of a speculative run on
continuations of that text. For each statistic a straight line is fitted to the cells of all kinds of text but one and tested on the
cells of that one, in turn. ``accepted draft tokens`` is counted on texts of the target alone and needs no fit; neither does
``overlap itself``, the mean of beta on the text. ``specviz.speed.prediction.study`` measures the cells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from specviz.records import Record, Schema, declare_decimal_places, load_toml
from specviz.speed.records.estimate import Estimate

SCHEMA = Schema("study", 2, "The study")
_TABLES = load_toml("texts/study")
KINDS: dict[str, str] = _TABLES["kinds"]  # name of a file -> in words
DRAFTS: dict[str, tuple[str, str]] = {
    name: tuple(draft) for name, draft in _TABLES["drafts"].items()
}  # name -> pair and proposer
STATISTICS: dict[str, str] = _TABLES["statistics"]  # key -> what it is
TEMPERATURES = (0.0, 0.3, 0.6, 1.0, 1.4)
TOP_PS = (0.95, 0.9, 0.8, 0.5)  # cuts of the distribution at temperature 1
NETWORK_DRAFTS = ("storybook", "storybook-plain")
RESAMPLES = 1000


@dataclass(frozen=True, slots=True)
class StudyCell:
    """One kind of text, distribution and draft.

    Attributes:
        statistics: On the text itself, over the places where something is drafted.
        predicted: Acceptance rate predicted from texts of the target.
        checked: Draft tokens checked in speculative runs, and how many of them were accepted.
        tokens: Written in ``rounds``.
        per_pass: Tokens per target pass predicted from texts of the target.
        reason: Why nothing was measured; empty if it was.
        top_p: The cut of both distributions, None where they are whole.
        bins: Per tenth of the draft's confidence: places of the text, the sum of the confidence there, and how often the draft's
            most likely token stood there.
    """

    kind: str
    temperature: float
    draft: str
    statistics: Mapping[str, float] = field(default_factory=dict, metadata=declare_decimal_places(6))
    predicted: float = 0.0
    checked: int = 0
    accepted: int = 0
    tokens: int = 0
    rounds: int = 0
    per_pass: float = 0.0
    reason: str = ""
    top_p: float | None = None
    bins: tuple[tuple[int, float, int], ...] = field(default=(), metadata=declare_decimal_places(4))

    @property
    def share(self) -> float:
        """Measured acceptance rate, which is to be predicted."""
        return self.accepted / self.checked

    @property
    def noise(self) -> float:
        """Standard error of the share if checks were independent."""
        return (max(self.share * (1.0 - self.share), 0.25 / self.checked) / self.checked) ** 0.5


@dataclass(frozen=True, slots=True)
class PredictorScore:
    """How well one predictor did on kinds of text it had not seen.

    Attributes:
        error: Mean absolute error of the predicted acceptance rate; interval over resampled kinds.
        explained: 1 - squared errors over squared deviations from the mean; below 0 where a constant predicts better.
        predicted: One number for each cell that was measured, in their order.
    """

    name: str
    error: Estimate
    explained: float
    predicted: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Study(Record):
    """All cells of one run. gamma: draft tokens of a round; openings, opening, length: continuations of each text, as in a plan."""

    schema, indent = SCHEMA, None
    cells: tuple[StudyCell, ...]
    gamma: int
    openings: int
    opening: int
    length: int
    seed: int
    models: Mapping[str, Any] = field(default_factory=dict)
    date: str = ""

    def list_measured(self, drafts: Sequence[str] = tuple(DRAFTS)) -> tuple[StudyCell, ...]:
        return tuple(cell for cell in self.cells if cell.draft in drafts and not cell.reason)

    def list_cells_by_temperature(self, draft: str) -> tuple[StudyCell, ...]:
        """Measured cells of a draft under whole distributions."""
        return tuple(cell for cell in self.list_measured((draft,)) if cell.top_p is None)

    def list_cells_by_top_p(self, draft: str) -> tuple[StudyCell, ...]:
        """Measured cells of a draft at temperature 1, whole and cut."""
        return tuple(cell for cell in self.list_measured((draft,)) if cell.temperature == 1.0)

    def score_predictors(self, drafts: Sequence[str] = tuple(DRAFTS), seed: int = 0) -> tuple[PredictorScore, ...]:
        """Every predictor, best first, over the cells of these drafts."""
        cells = self.list_measured(drafts)
        truth, kinds = np.array([cell.share for cell in cells]), np.array([cell.kind for cell in cells])
        predicted = {
            "accepted draft tokens": np.array([cell.predicted for cell in cells]),
            "overlap itself": np.array([cell.statistics["overlap"] for cell in cells]),
        }
        for key in STATISTICS:
            predicted[key] = predict_left_out(np.array([cell.statistics[key] for cell in cells]), truth, kinds)
        predicted["mean of the others"] = predict_left_out(np.zeros(len(cells)), truth, kinds)
        found = [_score_predictor(name, values, truth, kinds, seed) for name, values in predicted.items()]
        return tuple(sorted(found, key=lambda score: score.error.value))


def predict_left_out(x: np.ndarray, y: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Predictions of y from x, (n,), each by the straight line (least squares) through the points of all other groups, within [0, 1]."""
    result = np.empty_like(y)
    for group in np.unique(groups):
        here = groups == group
        design = np.stack([np.ones((~here).sum()), x[~here]], 1)
        line = np.linalg.lstsq(design, y[~here], rcond=None)[0]
        result[here] = line[0] + line[1] * x[here]
    return result.clip(0.0, 1.0)


def _score_predictor(name: str, predicted: np.ndarray, truth: np.ndarray, kinds: np.ndarray, seed: int) -> PredictorScore:
    errors = np.abs(predicted - truth)
    names = np.unique(kinds)
    sums, counts = (np.array([values[kinds == kind].sum() for kind in names]) for values in (errors, np.ones_like(errors)))
    picked = np.random.default_rng(seed).integers(0, len(names), (RESAMPLES, len(names)))
    error = Estimate.from_resamples(errors.mean(), sums[picked].sum(1) / counts[picked].sum(1), len(names))
    explained = 1.0 - float(((predicted - truth) ** 2).sum() / ((truth - truth.mean()) ** 2).sum())
    return PredictorScore(name, error, explained, tuple(predicted.tolist()))


@dataclass(frozen=True, slots=True)
class CalibrationPoint:
    """One bin of a draft's confidence: its mean, how often the draft was right, and places of the texts."""

    confidence: float
    right: Estimate
    places: int


def compute_calibration(
    predicted: Sequence[float], measured: Sequence[float], groups: int = 8
) -> tuple[tuple[float, float, int], ...]:
    """Points of a calibration plot: cells in groups of equal size by what was predicted; mean predicted, mean measured, cells."""
    order = np.argsort(predicted)
    parts = [part for part in np.array_split(order, groups) if len(part)]
    pairs = [(np.asarray(predicted)[part].mean(), np.asarray(measured)[part].mean(), len(part)) for part in parts]
    return tuple((float(a), float(b), n) for a, b, n in pairs)


def average_over_kinds(cells: Sequence[StudyCell]) -> Estimate:
    """Mean measured acceptance rate over different kinds of text; the interval is over resampled kinds."""
    return Estimate.from_mean([cell.share for cell in cells])


def compute_reliability(cells: Sequence[StudyCell], least: int = 30, seed: int = 0) -> tuple[CalibrationPoint, ...]:
    """How often a draft's most likely token stands in the text, against the probability that the draft gives it, over all cells.

    cells: of different kinds of text, with bins; least: places that a bin needs to be a point Intervals are over resampled kinds,
    because places of one text resemble each other.
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
            CalibrationPoint(float(sure / places), Estimate.from_resamples(right / places, shares, len(bins)), int(places))
        )
    return tuple(found)


def compute_calibration_error(cells: Sequence[StudyCell]) -> float:
    """Mean distance of the draft's confidence from how often it is right, over the bins of all cells together, weighted by places."""
    bins = np.array([cell.bins for cell in cells if cell.bins], dtype=float).sum(0)
    return float(np.abs(bins[:, 1] - bins[:, 2]).sum() / bins[:, 0].sum())
