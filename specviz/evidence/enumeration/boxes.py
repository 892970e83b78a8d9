"""One round as a function of independent numbers: boxes of numbers in which nothing that a person could see changes.

The step itself is the only thing that is asked. Along each number in turn, in the order in which they are asked for, the
outcome is looked at where a cut is likely and at random points besides; between two points that differ the cut is bisected.
A finished box is looked at once more, at its ends, two corners and at random; where it is not constant after all (a rule
may look at several random numbers together), the walk starts again from the point that differs.
"""

from __future__ import annotations

import random
from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch

from specviz.decoding.engine import step
from specviz.models.base import LanguageModel
from specviz.proposers.base import Proposer
from specviz.randomness import Prefix, Purpose, Randomness
from specviz.trace import Round
from specviz.verification.token_rule import EmptyResidual, Rule, residual

Text = tuple[int, ...]
Address = tuple[Purpose, int, int]  # purpose, start of the round, node
Box = dict[Address, tuple[float, float]]  # what is known of each number: the interval it is uniform on
Point = dict[Address, float]
Wrapper = Callable[[Randomness], Randomness]  # a mutant's hand on the random numbers

EDGE = 1e-14  # a cut is known to half of this; narrower intervals are not looked into
LOOKS = 3  # random points along a number, and in a finished box
BATCH = 4096  # rows of one step
TRIES = 60  # starts of the walk in one box before it is given up


class Numbers:
    """Random numbers that are chosen: row ``draw`` finds its numbers in points[draw]; each time one is asked for is noted."""

    def __init__(self, points: Sequence[Point]):
        self.points = points
        self.asked: list[list[Address]] = [[] for _ in points]

    def take(self, purpose: Purpose, rows: Sequence[Prefix], node: int, depth: int) -> np.ndarray:
        found = []
        for row in rows:
            address = (purpose, row.start, node)
            self.asked[row.draw].append(address)
            found.append(self.points[row.draw].get(address, 0.5))
        return np.array(found)


@dataclass(frozen=True, slots=True)
class Seen:
    """What one step showed: the round, and the numbers it asked for, in order, with repeats."""

    round: Round
    asked: tuple[Address, ...]

    @property
    def outcome(self) -> tuple:
        draft_tokens = tuple((one.token, one.accepted) for one in self.round.proposals)
        return draft_tokens, self.round.committed, self.round.ending.kind, self.asked


@dataclass(frozen=True, slots=True)
class Part:
    """A box that is being cut, a point inside it, and how many of the numbers asked for there have been gone along."""

    box: Box
    centre: Point
    done: int = 0
    tries: int = 0


class Cutter:
    """Cuts the numbers of a round for one set of arguments of ``step``."""

    def __init__(self, target: LanguageModel, proposer: Proposer, rule: Rule, eos_token_ids: frozenset[int], randomness: Wrapper):
        self.target, self.proposer, self.rule, self.eos_token_ids, self.randomness = (
            target,
            proposer,
            rule,
            eos_token_ids,
            randomness,
        )
        self.dice = random.Random(0)  # where to look besides; the distribution does not depend on it

    def cut(self, row: Prefix, known: Box) -> list[tuple[Round, Box]]:
        """Round and box of every outcome; ``known`` holds the intervals of numbers met before."""
        middles = {address: (low + high) / 2 for address, (low, high) in known.items()}
        pending, finished = [Part({}, middles)], []
        while pending:
            seen = self._look(row, [part.centre for part in pending])
            whole = [(part, one) for part, one in zip(pending, seen, strict=True) if part.done == len(one.asked)]
            going = [(part, one) for part, one in zip(pending, seen, strict=True) if part.done < len(one.asked)]
            pending = self._grown(row, going, known)
            for (part, one), other in zip(whole, self._differing(row, whole), strict=True):
                if other is None:
                    finished.append((replace(one.round, full=None), part.box))
                    continue
                assert part.tries < TRIES, f"no boxes of constant outcome found after {row.ids}"
                pending.append(Part(part.box, other, 0, part.tries + 1))
        return finished

    def _look(self, row: Prefix, points: Sequence[Point]) -> list[Seen]:
        """The step at every point, as batches."""
        result = []
        for begin in range(0, len(points), BATCH):
            numbers = Numbers(points[begin : begin + BATCH])
            rows = [replace(row, draw=draw) for draw in range(len(numbers.points))]
            rounds = step(rows, self.target, self.proposer, self.rule, self.randomness(numbers), self.eos_token_ids)
            result += [Seen(*pair) for pair in zip(rounds, map(tuple, numbers.asked), strict=True)]
        return result

    def _grown(self, row: Prefix, parts: list[tuple[Part, Seen]], known: Box) -> list[Part]:
        """Each part cut along the next number that it asks for."""
        lines = [_Line(part, seen, known, self.dice) for part, seen in parts]
        while missing := [(line, u) for line in lines for u in line.wanted()]:
            for (line, u), seen in zip(missing, self._look(row, [line.at(u) for line, u in missing]), strict=True):
                insort(line.found, (u, seen.outcome), key=lambda pair: pair[0])
        return [part for line in lines for part in line.parts()]

    def _differing(self, row: Prefix, parts: list[tuple[Part, Seen]]) -> list[Point | None]:
        """For each finished box a point whose outcome is not its centre's, or None where all that are looked at agree."""
        looks = [_checks(part, self.dice) for part, _ in parts]
        seen = iter(self._look(row, [point for points in looks for point in points]))
        result: list[Point | None] = []
        for (_, centre), points in zip(parts, looks, strict=True):
            others = [point for point in points if next(seen).outcome != centre.outcome]
            result.append(others[0] if others else None)
        return result


class _Line:
    """One number of a part, gone along from end to end while all others stay at the centre."""

    def __init__(self, part: Part, seen: Seen, known: Box, dice: random.Random):
        self.part, self.address = part, seen.asked[part.done]
        self.low, self.high = part.box.get(self.address, known.get(self.address, (0.0, 1.0)))
        self.found: list[tuple[float, tuple]] = []  # numbers in order, each with its outcome
        self.outcome = seen.outcome
        ends = (self.low + EDGE / 2, self.high - EDGE / 2)
        likely = [u + side for u in _likely(self.address, seen.round) for side in (-EDGE / 3, EDGE / 3)]
        looks = [dice.uniform(self.low, self.high) for _ in range(LOOKS)]
        self.first = sorted({*ends, *(u for u in likely + looks if ends[0] < u < ends[1])}) if self.wide else []

    @property
    def wide(self) -> bool:
        return self.high - self.low > 4 * EDGE

    def at(self, u: float) -> Point:
        return self.part.centre | {self.address: u}

    def wanted(self) -> list[float]:
        """Where the outcome must be looked at next: at first the likely places, then between neighbours that differ."""
        if not self.found:
            return self.first
        return [(a + b) / 2 for (a, left), (b, right) in pairwise(self.found) if left != right and b - a > EDGE]

    def parts(self) -> list[Part]:
        cuts = [(a + b) / 2 for (a, left), (b, right) in pairwise(self.found) if left != right]
        return [self._part(low, high) for low, high in pairwise([self.low, *cuts, self.high])]

    def _part(self, low: float, high: float) -> Part:
        box = self.part.box | {self.address: (low, high)}
        return Part(box, self.at((low + high) / 2), self.part.done + 1, self.part.tries)


def _likely(address: Address, round_: Round) -> list[float]:
    """Where the record says that the outcome changes with a number. Only a hint: what it misses is found by bisection."""
    (purpose, _, node), full = address, round_.full
    if purpose is Purpose.ACCEPT and node < len(round_.proposals):
        edge = round_.proposals[node].threshold
        return [] if edge is None else [edge]
    if purpose is Purpose.DRAFT and node < len(round_.proposals):
        return _ends_of(full.q[node])
    if purpose is Purpose.RESIDUAL and node < len(round_.proposals):
        try:
            return _ends_of(residual(full.p[round_.proposals[node].parent + 1], full.q[node]))
        except EmptyResidual:
            return []
    return _ends_of(full.p[round_.accepted_path[-1] + 1 if round_.accepted_path else 0])


def _ends_of(probs: torch.Tensor) -> list[float]:
    cumulative = probs.cumsum(-1)
    return sorted(set((cumulative / cumulative[-1]).tolist()))


def _checks(part: Part, dice: random.Random) -> list[Point]:
    """Where a finished box is looked at again: both ends of every number, all low, all high, and anywhere.

    Away from the edges by more than a cut is uncertain. An outcome that only moves one way as numbers grow, as a rule's does
    whose random numbers are compared with thresholds, is constant where it is the same with all of them low and with all high.
    """
    spans = {a: (low + EDGE, high - EDGE) for a, (low, high) in part.box.items() if high - low > 4 * EDGE}
    alone = [{address: end} for address, span in spans.items() for end in span]
    corners = [{address: span[side] for address, span in spans.items()} for side in (0, 1)]
    anywhere = [{address: dice.uniform(*span) for address, span in spans.items()} for _ in range(LOOKS)]
    return [part.centre | moved for moved in (*alone, *corners, *anywhere)]
