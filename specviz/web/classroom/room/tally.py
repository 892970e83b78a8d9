"""Results of a class, computed from what is stored: its histogram, the calibration of its predictions, its votes, its race. No torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from specviz.evidence.testing.results import CellShares
from specviz.randomness import PhiloxRandomness, Purpose
from specviz.web.classroom.room.records import SAMPLES_PER_STUDENT, Assignment, derive_task_seed
from specviz.web.classroom.room.store import SampleBlock

BINS = 10  # of predicted probabilities

Answers = Sequence[tuple[str, int, Mapping[str, Any]]]  # phase, student, answer


class TaskTally:
    """The samples of a task so far, and counts that grow with each.

    Attributes:
        blocks: All samples in the order in which they came.
        n: Number of samples.
        counts: Cell of the histogram -> samples.
        by_student: Student -> (samples, their counts).
    """

    def __init__(self, blocks: Iterable[SampleBlock] = ()):
        self.blocks: list[SampleBlock] = []
        self.n, self.counts = 0, Counter[str]()
        self.by_student: dict[int, tuple[int, Counter[str]]] = {}
        self.add(blocks)

    def add(self, blocks: Iterable[SampleBlock]) -> None:
        """Count more samples."""
        for block in blocks:
            self.blocks.append(block)
            self.n += block.count
            n, counts = self.by_student.get(block.student, (0, Counter()))
            self.counts.update(block.cells["shown"])
            self.by_student[block.student] = n + block.count, counts + Counter(block.cells["shown"])

    def build_class_samples(self, task: Assignment, tests: Sequence[Mapping[str, Any]]) -> ClassSamples:
        """The class's histogram as it is now. tests: their results."""
        counts = [self.counts[str(cell)] for cell in range(len(task.content["labels"]))]
        return ClassSamples(build_shares(task, "the class", counts, self.n), len(self.by_student), tuple(tests))


@dataclass(frozen=True, slots=True)
class ClassSamples:
    """The class's histogram. students: how many have drawn; tests: their results, in their order."""

    shares: CellShares
    students: int
    tests: tuple[Mapping[str, Any], ...]


def build_shares(task: Assignment, name: str, counts: Sequence[int], n: int) -> CellShares:
    """Counts beside the exact distribution of a task."""
    cells = task.content["cells"]["shown"]
    return CellShares.from_counts(name, task.content["labels"], cells["whole"], np.array(cells["masses"]), counts, n)


@dataclass(frozen=True, slots=True)
class PredictionOutcome:
    """One student's prediction of a draft token, scored.

    Attributes:
        u: The student's random number in [0, 1).
        accepted: Whether u q < p.
        brier: (predicted chance - outcome)^2, 0 to 1.
        expected: Mean of that over all random numbers: (predicted chance - a)^2 + a (1 - a), a = min(1, p/q).
        best: The same for a prediction of a itself.
    """

    u: float
    accepted: bool
    brier: float
    expected: float
    best: float


def compute_outcome(room_seed: int, task: Assignment, student: int, answer: Mapping[str, Any]) -> PredictionOutcome:
    """Whether the draft token of a situation is accepted for this student. Each has a random number of their own."""
    numbers = PhiloxRandomness(derive_task_seed(room_seed, task.number))
    u = float(numbers.stream(Purpose.ACCEPT, 0, 0, student * SAMPLES_PER_STUDENT, 1)[0])
    accepted = u * task.content["q"] < task.content["p"]
    chance, best = task.content["chance"], task.content["chance"] * (1.0 - task.content["chance"])
    return PredictionOutcome(u, accepted, (answer["chance"] - accepted) ** 2, (answer["chance"] - chance) ** 2 + best, best)


@dataclass(frozen=True, slots=True)
class Calibration:
    """How good the class's predictions are.

    Attributes:
        n: Number of predictions.
        predicted: Mean of the predicted chances.
        truth: Mean of min(1, p/q).
        right: Share that predicted accepted or rejected correctly.
        brier: Mean of (predicted - outcome)^2, 0 to 1: 0 is perfect, always predicting one half gives 0.25.
        expected: Mean of that over all random numbers.
        best: The same for predictions of a = min(1, p/q): the mean of a (1 - a).
        bins: (middle, predictions, share that was accepted) of each tenth of predicted chances that has predictions.
        points: (predicted chance, min(1, p/q)) of each prediction.
    """

    n: int
    predicted: float
    truth: float
    right: float
    brier: float
    expected: float
    best: float
    bins: tuple[tuple[float, int, float], ...]
    points: tuple[tuple[float, float], ...]


def compute_calibration(room_seed: int, tasks: Sequence[tuple[Assignment, Answers]]) -> Calibration | None:
    """Of every prediction in a room, or in one task; None where there are none."""
    answered = [(task, student, answer) for task, answers in tasks for _, student, answer in answers]
    if not answered:
        return None
    outcomes = [compute_outcome(room_seed, *one) for one in answered]
    predicted = np.array([answer["chance"] for *_, answer in answered])
    truth = np.array([task.content["chance"] for task, *_ in answered])
    accepted = np.array([one.accepted for one in outcomes])
    right = np.array([answer["accepted"] for *_, answer in answered]) == accepted
    brier, expected, best = np.array([(one.brier, one.expected, one.best) for one in outcomes]).mean(axis=0).tolist()
    bin_of = np.minimum((predicted * BINS).astype(int), BINS - 1)
    bins = tuple(
        ((number + 0.5) / BINS, int((bin_of == number).sum()), float(accepted[bin_of == number].mean()))
        for number in sorted(set(bin_of.tolist()))
    )
    points = tuple(zip(predicted.tolist(), truth.tolist(), strict=True))
    means = float(predicted.mean()), float(truth.mean()), float(right.mean())
    return Calibration(len(answered), *means, brier, expected, best, bins, points)


@dataclass(frozen=True, slots=True)
class Votes:
    """Votes for each option before and after the discussion. moved: students who chose another one after it."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    moved: int


def count_votes(task: Assignment, answers: Answers) -> Votes:
    """The votes of a task by option."""
    before, after = (
        {student: answer["choice"] for phase, student, answer in answers if phase == name} for name in ("before", "after")
    )
    options = range(len(task.content["options"]))
    first, second = (tuple(list(chosen.values()).count(option) for option in options) for chosen in (before, after))
    return Votes(first, second, sum(before[student] != after[student] for student in before.keys() & after.keys()))


@dataclass(frozen=True, slots=True)
class RaceChoice:
    """What one choice gave in a race. students: who made it; tokens, passes, drafted, accepted: of all their texts together."""

    method: str
    gamma: int
    students: int
    tokens: int
    passes: int
    drafted: int
    accepted: int

    @property
    def per_pass(self) -> float:
        """Tokens per target pass."""
        return self.tokens / self.passes if self.passes else 0.0

    @property
    def wasted(self) -> float:
        """Draft tokens of each pass that were not accepted."""
        return (self.drafted - self.accepted) / self.passes if self.passes else 0.0


@dataclass(frozen=True, slots=True)
class Race:
    """choices: those whose texts are written, with the most tokens per target pass first; students: how many have chosen."""

    choices: tuple[RaceChoice, ...]
    students: int


def rank_choices(answers: Answers) -> Race:
    """Choices by their tokens per target pass. Answers without passes, not run yet or not possible, only count as students."""
    by_choice: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for *_, answer in answers:
        if answer.get("passes"):
            by_choice.setdefault((answer["method"], answer["gamma"]), []).append(answer)
    names = ("tokens", "passes", "drafted", "accepted")
    rows = [
        RaceChoice(*key, len(found), *(sum(one[name] for one in found) for name in names)) for key, found in by_choice.items()
    ]
    return Race(tuple(sorted(rows, key=lambda row: (-row.per_pass, row.method, row.gamma))), len(answers))
