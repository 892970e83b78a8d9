"""The gain of speculation when many texts are decoded side by side. ``specviz.speed.prediction.batches`` measures passes and rounds.

With one text the processor waits while weights are read from memory, and more tokens in a pass cost little. Many texts use that idle
time themselves: a pass over gamma + 1 tokens of each then costs up to gamma + 1 passes over one token of each. Tokens per pass do not
depend on the number of texts, because rows do not interact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from specviz.records import Record, Schema, declare_decimal_places, record_key
from specviz.settings import Settings
from specviz.speed.records.estimate import MIN_RUNS, Estimate, compute_relative_iqr, explain_spread

SCHEMA = Schema("batches", 2, "The record of batches")
RESAMPLES = 400
PER_PASS, TIMES = "tokens/pass", "times"  # units
Runs = tuple[tuple[tuple[float, ...], ...], ...]


@dataclass(frozen=True)
class BatchSpeeds(Record):
    """Seconds in one process, by one interleaved clock, and rounds of texts that were decoded speculatively.

    Attributes:
        rows: Numbers of texts side by side.
        gammas: Draft tokens of a round.
        passes: [rows][0 and then each gamma][run]: the target's pass over gamma + 1 tokens of every text, over one token at 0.
        drafting: [rows][gamma][run]: all gamma steps of the draft.
        rule: [rows][gamma][run]: verification.
        rounds: By "draft temperature", as plans are named: [gamma][text], rounds that a text of ``length`` tokens took.
        cached_tokens: Tokens in the caches where passes were timed.
    """

    schema, indent = SCHEMA, None
    settings: Settings
    rows: tuple[int, ...]
    gammas: tuple[int, ...]
    passes: Runs = field(metadata=declare_decimal_places(7))
    drafting: Runs = field(metadata=declare_decimal_places(7))
    rule: Runs = field(metadata=declare_decimal_places(7))
    rounds: Mapping[str, tuple[tuple[int, ...], ...]]
    length: int
    cached_tokens: int = field(metadata=record_key("held"))
    machine: Mapping[str, Any] = field(default_factory=dict)
    models: Mapping[str, Any] = field(default_factory=dict)
    date: str = ""

    @cached_property
    def seconds(self) -> np.ndarray:
        """(rows, 1 + gammas, runs): one token of every text by the target alone, then a round with each gamma."""
        rounds = np.array(self.passes)
        rounds[:, 1:] += np.array(self.drafting) + np.array(self.rule)
        return rounds

    @property
    def c(self) -> float:
        """Draft step over target pass on the fewest rows, both over one token: medians at the largest gamma."""
        return float(np.median(self.drafting[0][-1]) / self.gammas[-1] / np.median(self.passes[0][0]))

    def estimate_cost(self, rows: int, gamma: int) -> Estimate:
        """A pass over gamma + 1 tokens of every text, in passes over one of each."""
        if (rows, gamma) not in self._costs:
            own = np.array(self.passes)[self.rows.index(rows)]
            ratios = _compute_median_ratio(own[1 + self.gammas.index(gamma)], own[0], self._run_resamples)
            self._costs[rows, gamma] = Estimate.from_resamples(*ratios, self.runs)
        return self._costs[rows, gamma]

    @cached_property
    def _costs(self) -> dict[tuple[int, int], Estimate]:
        """Results so far: a figure, its table and the models of a round need the same numbers."""
        return {}

    def interpolate_pass_cost(self, rows: int, gamma: int) -> float:
        """The median cost of the same pass at any gamma: linear between the timed ones, and beyond the last two."""
        gammas, costs = [0, *self.gammas], [1.0, *(self.estimate_cost(rows, one).value for one in self.gammas)]
        if gamma > gammas[-1]:
            slope = (costs[-1] - costs[-2]) / (gammas[-1] - gammas[-2])
            return costs[-1] + slope * (gamma - gammas[-1])
        return float(np.interp(gamma, gammas, costs))

    def list_part(self, part: str) -> dict[int, float]:
        """Drafting or the rule of a round with the fewest texts, by gamma, in passes over one token: medians."""
        return dict(
            zip(
                self.gammas,
                (np.median(np.array(getattr(self, part)[0]), -1) / np.median(self.passes[0][0])).tolist(),
                strict=True,
            )
        )

    def compare_texts(self, part: str, rows: int, gamma: int) -> float:
        """A part of a round over that part with the fewest texts, each in passes over one token of as many texts; linear between timed gammas.

        part: passes, drafting or rule
        """
        costs = self._medians[part]
        few, many = (np.interp(gamma, self.gammas, costs[at][-len(self.gammas) :]) for at in (0, self.rows.index(rows)))
        return float(many / few)

    @cached_property
    def _medians(self) -> dict[str, np.ndarray]:
        """By part, (rows, gammas): medians over runs, in passes over one token of as many texts. A page reads them hundreds of times."""
        one = np.median(np.array(self.passes)[:, 0], -1)
        return {part: np.median(np.array(getattr(self, part)), -1) / one[:, None] for part in ("passes", "drafting", "rule")}

    def estimate_tokens(self, key: str, gamma: int) -> Estimate:
        """Tokens per target pass of each text; the interval by resampling texts."""
        counts = np.array(self.rounds[key][self.gammas.index(gamma)])
        many = self.length * len(counts) / (self._draw_texts(len(counts)) @ counts)
        return Estimate.from_resamples(self.length * len(counts) / counts.sum(), many, len(counts), PER_PASS)

    def estimate_factor(self, key: str, rows: int, gamma: int) -> Estimate:
        """Tokens per second over those of the target alone on as many rows; the interval by resampling texts and runs."""
        if (key, rows, gamma) not in self._factors:
            self._factors[key, rows, gamma] = self._estimate_factor(key, rows, gamma)
        return self._factors[key, rows, gamma]

    @cached_property
    def _factors(self) -> dict[tuple[str, int, int], Estimate]:
        """Results so far: a figure and its sentence need the same numbers."""
        return {}

    def _estimate_factor(self, key: str, rows: int, gamma: int) -> Estimate:
        counts, own = np.array(self.rounds[key][self.gammas.index(gamma)]), self.seconds[self.rows.index(rows)]
        cost, costs = _compute_median_ratio(own[0], own[1 + self.gammas.index(gamma)], self._run_resamples)
        tokens, texts = self.length * len(counts), self._draw_texts(len(counts))
        return Estimate.from_resamples(tokens / counts.sum() * cost, tokens / (texts @ counts) * costs, len(counts), TIMES)

    def find_best(self, key: str, rows: int) -> tuple[int, Estimate]:
        """The gamma that is fastest on so many rows, and its factor."""
        found = {gamma: self.estimate_factor(key, rows, gamma) for gamma in self.gammas}
        chosen = max(found, key=lambda gamma: found[gamma].value)
        return chosen, found[chosen]

    @property
    def runs(self) -> int:
        return len(self.passes[0][0])

    @property
    def spread(self) -> float:
        """The widest middle half of the runs of any round, as a share of its median."""
        return max(compute_relative_iqr(runs) for rows in self.seconds for runs in rows)

    @property
    def steady(self) -> bool:
        """Whether there are enough runs for a verdict, and they lie close enough together."""
        return not self._unsteadiness

    @property
    def _unsteadiness(self) -> str:
        if self.runs < MIN_RUNS:
            return f"each pass was timed {self.runs} times; fewer than {MIN_RUNS} do not show how far runs lie apart."
        return explain_spread(self.spread, "one round’s runs")

    def describe(self, key: str) -> str:
        """The speed-up of one text, between which values that of several lies, and why it rises on the way where it does."""
        if why := self._unsteadiness:
            return f"No verdict: {why}"
        (first, (_, one)), *others = ((rows, self.find_best(key, rows)) for rows in self.rows)
        said = f"With {_count_in_words(first)} the speed-up is {one.format()}."
        if not others:
            return said
        found = {rows: best for rows, (_, best) in others}
        low, high = (pick(found, key=lambda rows: found[rows].value) for pick in (min, max))
        where = f"{others[0][0]} to {others[-1][0]} texts" if len(others) > 1 else _count_in_words(others[0][0])
        only = " only" if found[high].high < one.low else ""
        span = f"{_format_estimate(found, low)} to {_format_estimate(found, high)}" if low != high else found[low].format()
        said += f" With {where} at once it is{only} {span}, each with its fastest draft length."
        slower = [rows for rows in self.rows if self.find_best(key, rows)[1].high < 1.0]
        said += f" Below 1, as with {_count_in_words(slower[0])}, drafting costs time." if slower else ""
        return said + self._explain_rise(key)

    def _explain_rise(self, key: str) -> str:
        """A sentence where more texts gain more than fewer, beyond both intervals, and the cost of the passes says why; else nothing."""
        for before, after in pairwise(self.rows):
            gamma, best = self.find_best(key, after)
            cheap, dear = self.estimate_cost(after, gamma), self.estimate_cost(before, gamma)
            if best.low > self.find_best(key, before)[1].high and cheap.high < dear.low:
                return (
                    f" It rises from {before} to {after} texts: on this machine, a pass over {gamma + 1} tokens of each costs {cheap.value:.2f} "
                    f"one-token passes with {after} texts, and {dear.value:.2f} with {before}."
                )
        return ""

    @cached_property
    def _run_resamples(self) -> np.ndarray:
        """The runs of each resample, (RESAMPLES, runs)."""
        return np.random.default_rng(0).integers(0, self.runs, (RESAMPLES, self.runs))

    def _draw_texts(self, texts: int) -> np.ndarray:
        """How often each text is drawn in each resample, (RESAMPLES, texts)."""
        return np.random.default_rng(1).multinomial(texts, np.full(texts, 1.0 / texts), RESAMPLES)

    def __post_init__(self) -> None:
        """Raises ValueError where the measured tables do not have the shape that rows, gammas and runs give."""
        shapes = {"passes": (len(self.rows), len(self.gammas) + 1), "drafting": (len(self.rows), len(self.gammas))}
        shapes["rule"] = shapes["drafting"]
        for name, shape in shapes.items():
            table = np.array(getattr(self, name), dtype=float)
            if table.shape[:2] != shape or table.shape[2:] != (len(self.passes[0][0]),):
                raise ValueError(f"{name} must have the shape {shape} by runs")


def _compute_median_ratio(above: np.ndarray, below: np.ndarray, picked: np.ndarray) -> tuple[float, np.ndarray]:
    """Median over median of two kinds of work in the same runs (T,), and the same in each resample of the runs (RESAMPLES, T)."""
    return float(np.median(above) / np.median(below)), np.median(above[picked], 1) / np.median(below[picked], 1)


def _count_in_words(rows: int) -> str:
    return "one text" if rows == 1 else f"{rows} texts"


def _format_estimate(estimates: Mapping[int, Estimate], rows: int) -> str:
    """An estimate with its number of texts: 0.96 (64 texts). Its interval is drawn."""
    return f"{estimates[rows].value:.2f} ({_count_in_words(rows)})"
