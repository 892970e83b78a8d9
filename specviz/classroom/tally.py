"""What a class has so far, from what is kept of it: its histogram, the calibration of its predictions, its votes, its race. No torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from specviz.classroom.records import SPAN, Assignment, derive_task_seed
from specviz.classroom.store import StoredBlock
from specviz.evidence.results import CellShares
from specviz.randomness import PhiloxRandomness, Purpose

BINS = 10  # of predicted probabilities

Answers = Sequence[tuple[str, int, Mapping[str, Any]]]  # phase, student, what is kept


class TaskTally:
    """The samples of a task so far: all of them in the order in which they came, and counts that grow with each.

    drawn  as they are kept; n  samples; counts  cell of the picture -> samples; own  student -> (samples, their counts)
    """

    def __init__(self, drawn: Iterable[StoredBlock] = ()):
        self.drawn: list[StoredBlock] = []
        self.n, self.counts = 0, Counter[str]()
        self.own: dict[int, tuple[int, Counter[str]]] = {}
        self.add(drawn)

    def add(self, drawn: Iterable[StoredBlock]) -> None:
        for one in drawn:
            self.drawn.append(one)
            self.n += one.count
            have, counts = self.own.get(one.student, (0, Counter()))
            self.counts.update(one.cells["shown"])
            self.own[one.student] = have + one.count, counts + Counter(one.cells["shown"])


@dataclass(frozen=True, slots=True)
class ClassSamples:
    """The class's histogram. students: how many have drawn; looks: what the tests found, in their order."""

    shares: CellShares
    students: int
    looks: tuple[Mapping[str, Any], ...]

    @classmethod
    def of(cls, task: Assignment, standing: TaskTally, looks: Sequence[Mapping[str, Any]]) -> ClassSamples:
        counts = [standing.counts[str(cell)] for cell in range(len(task.content["labels"]))]
        return cls(build_shares(task, "the class", counts, standing.n), len(standing.own), tuple(looks))


def build_shares(task: Assignment, name: str, counts: Sequence[int], n: int) -> CellShares:
    """Counts beside the exact distribution of a task."""
    shown = task.content["cells"]["shown"]
    return CellShares.from_counts(name, task.content["labels"], shown["whole"], np.array(shown["masses"]), counts, n)


@dataclass(frozen=True, slots=True)
class PredictionOutcome:
    """What became of one student's draft token.

    u  their random number; accepted  u q < p; brier  (chance said - outcome)^2, 0 to 1
    expected  mean of that over all random numbers: (chance said - a)^2 + a (1 - a), a = min(1, p/q); best  for who says a itself
    """

    u: float
    accepted: bool
    brier: float
    expected: float
    best: float


def compute_outcome(room_seed: int, task: Assignment, student: int, sent: Mapping[str, Any]) -> PredictionOutcome:
    """Whether the draft token of a situation is accepted for this student. Each has a random number of their own."""
    numbers = PhiloxRandomness(derive_task_seed(room_seed, task.number))
    u = float(numbers.stream(Purpose.ACCEPT, 0, 0, student * SPAN, 1)[0])
    accepted = u * task.content["q"] < task.content["p"]
    chance, best = task.content["chance"], task.content["chance"] * (1.0 - task.content["chance"])
    return PredictionOutcome(u, accepted, (sent["chance"] - accepted) ** 2, (sent["chance"] - chance) ** 2 + best, best)


@dataclass(frozen=True, slots=True)
class Calibration:
    """How good the class's predictions are.

    n         predictions; said  their mean; truth  mean of min(1, p/q); right  share that said accepted or rejected as it came
    brier     mean of (said - outcome)^2, 0 to 1: 0 is perfect, 0.25 is what always saying one half gives
    expected  the mean that these predictions have over all random numbers
    best      the mean of someone who knows a = min(1, p/q): that of a (1 - a)
    bins      (middle, predictions, share that was accepted) of each tenth of what was said that has predictions
    points    (what was said, min(1, p/q)) of each prediction
    """

    n: int
    said: float
    truth: float
    right: float
    brier: float
    expected: float
    best: float
    bins: tuple[tuple[float, int, float], ...]
    points: tuple[tuple[float, float], ...]


def compute_calibration(room_seed: int, tasks: Sequence[tuple[Assignment, Answers]]) -> Calibration | None:
    """Of every prediction in a room, or in one task; None where there are none."""
    rows = []
    for task, answers in tasks:
        for _, student, sent in answers:
            found = compute_outcome(room_seed, task, student, sent)
            rows.append((sent["chance"], sent["accepted"], task.content["chance"], found))
    if not rows:
        return None
    said, truth = np.array([row[0] for row in rows]), np.array([row[2] for row in rows])
    came = np.array([row[3].accepted for row in rows])
    where = np.minimum((said * BINS).astype(int), BINS - 1)
    bins = tuple(
        ((place + 0.5) / BINS, int((where == place).sum()), float(came[where == place].mean()))
        for place in range(BINS)
        if (where == place).any()
    )
    return Calibration(
        len(rows), float(said.mean()), float(truth.mean()), float(np.mean([row[1] == row[3].accepted for row in rows])),
        float(np.mean([row[3].brier for row in rows])), float(np.mean([row[3].expected for row in rows])),
        float(np.mean([row[3].best for row in rows])), bins,
        tuple(zip(said.tolist(), truth.tolist(), strict=True)),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Votes:
    """Votes for each option before and after the discussion. moved: students who chose another one after it."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    moved: int


def count_votes(task: Assignment, answers: Answers) -> Votes:
    by_phase = {
        phase: {student: sent["choice"] for when, student, sent in answers if when == phase} for phase in ("before", "after")
    }
    counts = {phase: Counter(chosen.values()) for phase, chosen in by_phase.items()}
    options = range(len(task.content["options"]))
    both = by_phase["before"].keys() & by_phase["after"].keys()
    moved = sum(by_phase["before"][student] != by_phase["after"][student] for student in both)
    return Votes(*(tuple(counts[phase][one] for one in options) for phase in ("before", "after")), moved)


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
    """choices: those whose texts are written, with the most tokens per target pass first; sent: students who have chosen."""

    choices: tuple[RaceChoice, ...]
    sent: int


def rank_choices(answers: Answers) -> Race:
    """Of the choices that were made. One that has not run yet, or that this pair does not have, counts as sent and gives no text."""
    found: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for _, _, sent in answers:
        if sent.get("passes"):
            found.setdefault((sent["method"], sent["gamma"]), []).append(sent)
    names = ("tokens", "passes", "drafted", "accepted")
    rows = [RaceChoice(*key, len(sent), *(sum(one[name] for one in sent) for name in names)) for key, sent in found.items()]
    return Race(tuple(sorted(rows, key=lambda row: (-row.per_pass, row.method, row.gamma))), len(answers))
