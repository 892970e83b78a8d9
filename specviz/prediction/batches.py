"""What speculation gains when many texts are written side by side: a record of measured passes and rounds. No torch; batches_run.py fills it.

Alone, a text leaves the machine idle while weights are read from memory, and more tokens in a pass cost little. Many texts at once use
that room themselves: a pass over gamma + 1 tokens of each then costs more and more passes over one token of each, up to gamma + 1.
Tokens per pass do not depend on how many texts there are: rows do not see each other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from specviz.prediction.plan import UNSTEADY, Interval
from specviz.records import from_record
from specviz.settings import Settings

SCHEMA = "specviz-batches-2"
RESAMPLES = 400
LEAST = 6  # turns under which their middle half says nothing
MIDDLE = (2.5, 97.5)  # percentiles
Turns = tuple[tuple[tuple[float, ...], ...], ...]


@dataclass(frozen=True)
class Batches:
    """Seconds in one process, taken in turns, and rounds of texts that were decoded speculatively.

    rows      how many texts side by side; gammas  draft tokens of a round
    passes    [rows][0 and then each gamma][turn]: the target's pass over gamma + 1 tokens of every text, over one at 0
    drafting  [rows][gamma][turn]: all gamma steps of the draft;  rule  [rows][gamma][turn]: judging them
    rounds    by "draft temperature", as plans are named: [gamma][text], rounds that a text of ``length`` tokens took
    held      tokens in the caches where passes were timed
    """

    settings: Settings
    rows: tuple[int, ...]
    gammas: tuple[int, ...]
    passes: Turns
    drafting: Turns
    rule: Turns
    rounds: Mapping[str, tuple[tuple[int, ...], ...]]
    length: int
    held: int
    machine: Mapping[str, Any] = field(default_factory=dict)
    models: Mapping[str, Any] = field(default_factory=dict)
    date: str = ""

    @cached_property
    def seconds(self) -> np.ndarray:
        """(rows, 1 + gammas, turns): one token of every text by the target alone, then a round with each gamma."""
        rounds = np.array(self.passes)
        rounds[:, 1:] += np.array(self.drafting) + np.array(self.rule)
        return rounds

    @property
    def c(self) -> float:
        """A draft step over a pass of the target on the fewest rows, both over one token: medians, at the most draft tokens."""
        return float(np.median(self.drafting[0][-1]) / self.gammas[-1] / np.median(self.passes[0][0]))

    def cost(self, rows: int, gamma: int) -> Interval:
        """A pass over gamma + 1 tokens of every text, in passes over one of each."""
        own = np.array(self.passes)[self.rows.index(rows)]
        return _interval(*_ratio(own[1 + self.gammas.index(gamma)], own[0], self._turns))

    def tokens(self, key: str, gamma: int) -> Interval:
        """Tokens per pass of each text; the interval from texts drawn again."""
        counts = np.array(self.rounds[key][self.gammas.index(gamma)])
        many = self.length * len(counts) / (self._texts(len(counts)) @ counts)
        return _interval(self.length * len(counts) / counts.sum(), many)

    def factor(self, key: str, rows: int, gamma: int) -> Interval:
        """Tokens per second over those of the target alone on as many rows; the interval from texts and turns drawn again."""
        if (key, rows, gamma) not in self._factors:
            self._factors[key, rows, gamma] = self._factor(key, rows, gamma)
        return self._factors[key, rows, gamma]

    @cached_property
    def _factors(self) -> dict[tuple[str, int, int], Interval]:
        """What was asked for already: a picture and its sentence ask for the same numbers."""
        return {}

    def _factor(self, key: str, rows: int, gamma: int) -> Interval:
        counts, own = np.array(self.rounds[key][self.gammas.index(gamma)]), self.seconds[self.rows.index(rows)]
        cost, costs = _ratio(own[0], own[1 + self.gammas.index(gamma)], self._turns)
        tokens, texts = self.length * len(counts), self._texts(len(counts))
        return _interval(tokens / counts.sum() * cost, tokens / (texts @ counts) * costs)

    def best(self, key: str, rows: int) -> tuple[int, Interval]:
        """The gamma that is fastest on so many rows, and its factor."""
        found = {gamma: self.factor(key, rows, gamma) for gamma in self.gammas}
        chosen = max(found, key=lambda gamma: found[gamma].value)
        return chosen, found[chosen]

    def paying(self, key: str) -> dict[int, bool]:
        """Number of rows -> whether some gamma is faster there than the target alone, by more than chance."""
        return {rows: self.best(key, rows)[1].low > 1.0 for rows in self.rows}

    def edge(self, key: str) -> tuple[int | None, int | None]:
        """Counted upwards from one row: the last number that pays, and the first that does not; None: there is none."""
        first = next((rows for rows, pays in self.paying(key).items() if not pays), None)
        before = [rows for rows in self.rows if first is None or rows < first]
        return (before[-1] if before else None), first

    @property
    def spread(self) -> float:
        """The widest middle half of the turns of any round, as a share of its median."""
        low, middle, high = np.percentile(self.seconds, (25, 50, 75), axis=-1)
        return float(((high - low) / middle).max())

    @property
    def steady(self) -> bool:
        """Whether there are turns enough for a verdict, and they lie close enough together."""
        return self._turn_count >= LEAST and self.spread <= UNSTEADY

    def in_words(self, key: str) -> str:
        """Where speculation stops paying, as a sentence."""
        if self._turn_count < LEAST:
            return f"No verdict: each pass was timed {self._turn_count} times; fewer than {LEAST} do not show how far turns lie apart."
        if not self.steady:
            return (
                f"No verdict: the middle half of the turns of one round spans {self.spread:.0%} of their median; at most {UNSTEADY:.0%} is "
                "allowed. Another program may have kept this machine busy."
            )
        last, after = self.edge(key)
        if last is None:
            return "Speculation does not pay on this machine, not even for one text."
        gamma, factor = self.best(key, last)
        gain = f"with gamma {gamma} {factor.value:.2f} ({factor.low:.2f} to {factor.high:.2f}) times as fast as the target alone"
        many = "one text" if last == 1 else f"{last} texts"
        if after is None:
            return f"Speculation pays on all numbers of texts that were tried: on {many} it is still {gain}."
        at_best = self.best(key, after)[1]
        said = f"on {after} at best {at_best.value:.2f} ({at_best.low:.2f} to {at_best.high:.2f}) times"
        again = {rows: self.best(key, rows)[1].value for rows, pays in self.paying(key).items() if pays and rows > after}
        more = f" It gains again on {', '.join(map(str, again))}, {max(again.values()):.2f} times at most." if again else ""
        return f"Speculation stops paying between {last} and {after} texts side by side: on {many} it is {gain}, {said}.{more}"

    @property
    def _turn_count(self) -> int:
        return len(self.passes[0][0])

    @cached_property
    def _turns(self) -> np.ndarray:
        return np.random.default_rng(0).integers(0, self._turn_count, (RESAMPLES, self._turn_count))

    def _texts(self, texts: int) -> np.ndarray:
        """How often each text is drawn in each resample, (RESAMPLES, texts)."""
        return np.random.default_rng(1).multinomial(texts, np.full(texts, 1.0 / texts), RESAMPLES)

    def to_json(self) -> str:
        record = asdict(self) | {"settings": self.settings.to_record(), "schema": SCHEMA}
        for name in ("passes", "drafting", "rule"):
            record[name] = [[[round(x, 7) for x in turns] for turns in row] for row in getattr(self, name)]
        return json.dumps(record, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Batches:
        """Back from to_json. Raises TraceError for anything that is no such record."""

        def made(record: dict) -> Batches:
            tables = {name: _tuples(record[name]) for name in ("rows", "gammas", "passes", "drafting", "rule")}
            tables["rounds"] = {key: _tuples(rounds) for key, rounds in record["rounds"].items()}
            one = cls(**record | tables | {"settings": Settings.from_record(record["settings"])})
            one._check()
            return one

        return from_record(text, SCHEMA, "The record of batches", made)

    def _check(self) -> None:
        """Raises ValueError where the measured tables do not have the shape that rows, gammas and turns give."""
        rows, gammas, turns = len(self.rows), len(self.gammas), self._turn_count
        shapes = {"passes": (rows, gammas + 1, turns), "drafting": (rows, gammas, turns), "rule": (rows, gammas, turns)}
        for name, shape in shapes.items():
            if np.array(getattr(self, name), dtype=float).shape != shape:
                raise ValueError(f"{name} must have the shape {shape}")


def _ratio(above: np.ndarray, below: np.ndarray, picked: np.ndarray) -> tuple[float, np.ndarray]:
    """Median over median of two kinds of work in the same turns (T,), and the same in each resample of the turns (RESAMPLES, T)."""
    return float(np.median(above) / np.median(below)), np.median(above[picked], 1) / np.median(below[picked], 1)


def _interval(value: float, many: np.ndarray) -> Interval:
    low, high = np.percentile(many, MIDDLE).tolist()
    return Interval(float(value), low, high)


def _tuples(values: Any) -> Any:
    return tuple(map(_tuples, values)) if isinstance(values, list) else values
