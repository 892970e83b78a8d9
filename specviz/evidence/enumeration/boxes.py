"""One round as a function of independent random numbers: boxes of numbers for which the round has one and the same outcome.

A random number acts on a round only by being compared (verification/comparisons.py). The functions that compare report with what,
and the answer. So one execution of the production step gives the whole box of numbers that answer all of its comparisons alike.
What is left of the cube is cut along the reported edges, and each piece is executed in turn, until nothing is left. Which point of
a piece is executed does not matter, so nothing about the step has to be known beforehand.

How a comparison finds its number: all numbers of a batch are different float64 values, so a value names its number. A wrapper may
therefore hand on any number, under any address and any number of times, or a constant of its own. A number that was computed from
others (1 - u, u in single precision) has no name, and its edges cannot be traced back: NotEnumerated is raised.

Unreported comparisons are searched for as well. Each box is executed again at another point, and if it asked for numbers of which
no comparison was reported, also with these near their ends, alone and together. If another round results, something was compared
without a report, and NotEnumerated is raised.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf, prod

import numpy as np
import torch
from torch import Tensor

from specviz.decoding.engine import step
from specviz.errors import EvidenceError
from specviz.models.base import LanguageModel
from specviz.proposers.base import Proposer
from specviz.randomness import Prefix, Purpose, Randomness
from specviz.trace import Round
from specviz.verification.comparison_log import listen_to_comparisons
from specviz.verification.rule import Rule

Text = tuple[int, ...]
Address = tuple[Purpose, int, int]  # purpose, start of the round, node
Span = tuple[float, float]
Box = dict[Address, Span]  # what is known of each number: the interval it is uniform on
Wrapper = Callable[[Randomness], Randomness]  # what a mutant does to the random numbers

ALL: Span = (0.0, 1.0)
THIN = 1e-14  # edges are float64 numbers near 1, rounded some times; a narrower interval is not looked into, its mass counts as missed
BATCH = 4096  # rows of one step
TRIES = 20  # other numbers are taken so often where one met an edge to the last bit, or another number of its batch


class NotEnumerated(EvidenceError):
    """A distribution that cannot be enumerated: numbers are used otherwise than in comparisons that are reported, or in too thin ones."""


class EdgeHit(Exception):
    """A number of this batch equals an edge to the last bit, or was handed out twice: try other numbers."""


class BoxRandomness:
    """Random numbers for a batch: those of row ``draw`` lie inside spaces[draw], or inside ``known``. Records their comparisons.

    spans   per row, the interval of each number that gives the same answers, inside its space
    edges   per row, all edges that each number was compared with
    others  values that were compared and had not been handed out here
    """

    def __init__(self, spaces: Sequence[Box], known: Box, dice: random.Random):
        self.spaces, self.known, self.dice = spaces, known, dice
        self.asked: list[list[Address]] = [[] for _ in spaces]
        self.given: list[dict[Address, float]] = [{} for _ in spaces]
        self.spans: list[Box] = [{} for _ in spaces]
        self.edges: list[dict[Address, set[float]]] = [{} for _ in spaces]
        self.others: list[float] = []
        self._names: dict[float, tuple[int, Address]] = {}

    def take(self, purpose: Purpose, rows: Sequence[Prefix], node: int, depth: int) -> np.ndarray:
        return np.array([self._number(row.draw, (purpose, row.start, node)) for row in rows])

    def _number(self, row: int, address: Address) -> float:
        self.asked[row].append(address)
        if address not in self.given[row]:
            low, high = self.spans[row][address] = self.spaces[row].get(address) or self.known.get(address, ALL)
            margin = min(THIN, (high - low) / 4)
            for _ in range(TRIES):
                number = low + margin + (high - low - 2 * margin) * self.dice.random()
                if number not in self._names:
                    break
            else:
                raise EdgeHit
            self.edges[row][address] = set()
            self._names[number] = row, address
            self.given[row][address] = number
        return self.given[row][address]

    def on_draw(self, u: Tensor, cumulative: Tensor, found: Tensor) -> None:
        size = cumulative.shape[-1]
        rows = (cumulative / cumulative[..., -1:]).reshape(-1, size).tolist()
        answers = zip(u.reshape(len(rows), -1).tolist(), found.reshape(len(rows), -1).tolist(), strict=True)
        for ends, (numbers, tokens) in zip(rows, answers, strict=True):
            for number, token in zip(numbers, tokens, strict=True):
                below = ends[token - 1] if token else -inf
                self._narrow(number, below, ends[token] if ends[token] < 1.0 else inf, ends)

    def on_comparison(self, u: float | Tensor, p: float | Tensor, q: float | Tensor, below: bool | Tensor) -> None:
        flat = (
            torch.as_tensor(one, dtype=torch.float64).expand(torch.as_tensor(u).shape).reshape(-1) for one in (u, p, q, below)
        )
        for number, wanted, claimed, answer in zip(*(one.tolist() for one in flat), strict=True):
            if claimed > 0.0:  # else the answer is the same for every number
                edge = wanted / claimed
                self._narrow(number, *((-inf, edge) if answer else (edge, inf)), (edge,))

    def _narrow(self, number: float, low: float, high: float, edges: Sequence[float]) -> None:
        """A number was found to lie between ``low`` and ``high``, after it was compared with ``edges``."""
        if number not in self._names:
            self.others.append(number)
            return
        assert low - THIN < number < high + THIN, f"{number} was reported to lie between {low} and {high}"
        row, address = self._names[number]
        before, after = self.spans[row][address]
        low, high = self.spans[row][address] = max(before, low), min(after, high)
        if not low < high:
            raise EdgeHit
        self.edges[row][address].update(edges)


@dataclass(frozen=True, slots=True)
class Execution:
    """One execution of the step: the round, the numbers it asked for in order with repeats, its box, and the edges in it."""

    round: Round
    asked: tuple[Address, ...]
    box: Box
    edges: dict[Address, set[float]]

    @property
    def outcome(self) -> tuple:
        draft_tokens = tuple((one.token, one.accepted) for one in self.round.proposals)
        return draft_tokens, self.round.committed, self.round.ending.kind, self.asked


class BoxCutter:
    """Cuts the random numbers of a round into boxes, for one decoder: the arguments of ``step``.

    randomness  what is done to the seed's random numbers; the identity for a decoder without a mistake
    seed        of the points that are executed; no result depends on it
    """

    def __init__(
        self,
        target: LanguageModel,
        proposer: Proposer,
        rule: Rule,
        eos_token_ids: frozenset[int] = frozenset(),
        randomness: Wrapper = lambda randomness: randomness,
        seed: int = 0,
    ):
        self.target, self.proposer, self.rule = target, proposer, rule
        self.eos_token_ids, self.randomness = eos_token_ids, randomness
        self.dice = random.Random(seed)

    def cut(self, row: Prefix, known: Box) -> tuple[list[tuple[Round, Box]], float]:
        """Round and box of every outcome, and the share of the numbers that was not looked into, in [0, 1].

        known  the intervals of numbers met before. The boxes do not overlap; with what was missed they fill the cube.

        Raises NotEnumerated where numbers are used in another way than by comparisons that are reported.
        """
        pending: list[Box] = [{}]
        finished, missed = [], 0.0
        while pending:
            pieces, pending = pending[-BATCH:], pending[:-BATCH]
            seen, others = self.executed(row, pieces, known)
            again, others_again = self.executed(row, [one.box for one in seen], known)
            if {*others} != {*others_again}:
                raise NotEnumerated(
                    f"A round after {row.ids} compared a value that no random number had shown, and another one at another point of the same box:"
                    " a wrapper may hand on numbers or constants, not numbers computed from others."
                )
            _same(row, zip(seen, again, strict=True))
            ends = [(one, end) for one in seen for end in _ends(one)]
            for first in range(0, len(ends), BATCH):
                whole, near = zip(*ends[first : first + BATCH], strict=True)
                _same(row, zip(whole, self.executed(row, near, known)[0], strict=True))
            for piece, one in zip(pieces, seen, strict=True):
                for box in (one.box, *_rest(piece, one, known)):
                    if min((high - low for low, high in box.values()), default=1.0) < THIN:
                        missed += share(box, known)
                    elif box is one.box:
                        finished.append((replace(one.round, full=None), box))
                    else:
                        pending.append(box)
        return finished, missed

    def executed(self, row: Prefix, spaces: Sequence[Box], known: Box) -> tuple[list[Execution], list[float]]:
        """One execution inside each space, all as one batch; and the compared values that no random number had shown."""
        for _ in range(TRIES):
            numbers = BoxRandomness(spaces, known, self.dice)
            rows = [replace(row, draw=draw) for draw in range(len(spaces))]
            try:
                with listen_to_comparisons(numbers):
                    rounds = step(rows, self.target, self.proposer, self.rule, self.randomness(numbers), self.eos_token_ids)
            except EdgeHit:
                if len(spaces) == 1:
                    continue
                middle = len(spaces) // 2  # a thin interval may have too few numbers for all
                (one, others), (more, other) = (self.executed(row, half, known) for half in (spaces[:middle], spaces[middle:]))
                return one + more, others + other
            boxes = [space | span for space, span in zip(spaces, numbers.spans, strict=True)]
            return list(map(Execution, rounds, map(tuple, numbers.asked), boxes, numbers.edges)), numbers.others
        raise NotEnumerated(f"Every number of a box after {row.ids} meets an edge to the last bit: {spaces[0]}.")


def _same(row: Prefix, pairs: Iterable[tuple[Execution, Execution]]) -> None:
    """Raises where one box, executed at two points, did not show the same."""
    for one, other in pairs:
        if one.outcome != other.outcome:
            raise NotEnumerated(
                f"Two rounds after {row.ids} differ ({one.round.committed} and {other.round.committed}), though all comparisons of"
                " their numbers that were reported have the same answers: every use of a number must be reported."
            )


def _ends(seen: Execution) -> Iterator[Box]:
    """The box with the numbers of which no comparison was reported near their ends: each alone, and all together."""
    unheard = [a for a, (low, high) in seen.box.items() if not seen.edges.get(a) and high - low > 1e5 * THIN]
    for side in (0, 1):
        near = {address: _near(seen.box[address], side) for address in unheard}
        alone = [{address: span} for address, span in near.items()]
        yield from (seen.box | part for part in (alone if len(alone) < 2 else [*alone, near]))


def _near(span: Span, side: int) -> Span:
    low, high = span
    width = (high - low) / 1024
    return (high - width, high) if side else (low, low + width)


def _rest(piece: Box, seen: Execution, known: Box) -> Iterator[Box]:
    """What an execution's box leaves of its piece: boxes that do not overlap, cut at every known edge."""
    settled: Box = {}
    for address, (low, high) in seen.box.items():
        whole_low, whole_high = piece.get(address) or known.get(address, ALL)
        inside = {edge for edge in seen.edges.get(address, ()) if whole_low < edge < whole_high}
        for one, other in pairwise(sorted({whole_low, low, high, whole_high} | inside)):
            if other <= low or one >= high:
                yield piece | settled | {address: (one, other)}
        settled[address] = low, high


def share(box: Box, known: Box) -> float:
    """The mass of a box, given what was known of its numbers before."""
    spans = ((span, known.get(address, ALL)) for address, span in box.items())
    return prod((high - low) / (above - below) for (low, high), (below, above) in spans)
