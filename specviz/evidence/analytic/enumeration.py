"""The exact distribution of what a decoder writes, by enumerating every outcome of the production ``engine.step`` on small tables.

A round is a function of independent random numbers, each known by the address at which the seed is asked for it. A random number
acts on a round only by being compared, and the functions that compare report with what (verification/comparison_log.py). One
execution of the step therefore gives the whole box of numbers that answer all of its comparisons alike. The rest of the cube is cut
along the reported edges, and each piece is executed in turn, until nothing is left. A number that is used again, for another
purpose or by a later round, keeps the interval in which it is already known to lie, so reused random numbers are no special case.

All numbers of a batch are different float64 values, so a value identifies its number. A wrapper may hand on any number, under any
address and any number of times, or a constant of its own. A number that was computed from others (1 - u, u in single precision)
cannot be traced back, and EnumerationError is raised. Unreported comparisons are searched for as well: each box is executed again at
another point, and if it took numbers of which no comparison was reported, also with these near their ends, alone and together. If
another round results, EnumerationError is raised.

Intervals too thin for float64 are left out. If the mass that could hide there is above MISSED, EnumerationError is raised.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf, prod

import numpy as np
import torch
from torch import Tensor

from specviz.decoding.engine import advance_prefix, build_first_prefix, step
from specviz.errors import EvidenceError
from specviz.models.base import LanguageModel
from specviz.proposers.base import Proposer
from specviz.randomness import Prefix, Purpose, Randomness
from specviz.settings import Settings
from specviz.trace import Round
from specviz.verification.comparison_log import listen_to_comparisons
from specviz.verification.draft_tree import build_empty_tree
from specviz.verification.rule import Rule

Text = tuple[int, ...]
Address = tuple[Purpose, int, int]  # purpose, start of the round, node
Span = tuple[float, float]
Box = dict[Address, Span]  # what is known of each number: the interval it is uniform on
Wrapper = Callable[[Randomness], Randomness]  # what a mutant does to the random numbers


@dataclass(frozen=True, slots=True)
class Components:
    """What a decoder is made of: the arguments of ``engine.step``."""

    target: LanguageModel
    proposer: Proposer
    rule: Rule
    randomness: Wrapper = lambda randomness: randomness  # what is done to the seed's random numbers; a mistake changes them
    eos_token_ids: frozenset[int] = frozenset()  # tokens that end a text


ALL: Span = (0.0, 1.0)
THIN = 1e-14  # edges are float64 numbers near 1, rounded some times; a narrower interval is left out, its mass counts as missed
BATCH = 4096  # rows of one step
TRIES = 20  # other numbers are taken so often where one met an edge to the last bit, or another number of its batch


class EnumerationError(EvidenceError):
    """A distribution that cannot be enumerated: numbers are used otherwise than in comparisons that are reported, or in too thin ones."""


class EdgeHitError(Exception):
    """A number of this batch equals an edge to the last bit, or was handed out twice: try other numbers."""


class BoxRandomness:
    """Random numbers for a batch: those of row ``draw`` lie inside spaces[draw], or inside ``known_spans``. Records their comparisons.

    ``spans``: per row, the interval of each number that gives the same answers, inside its space. ``edges``: per row, all edges
    that each number was compared with. ``others``: values that were compared and had not been handed out here.
    """

    def __init__(self, spaces: Sequence[Box], known_spans: Box, dice: random.Random):
        self.spaces, self.known_spans, self.dice = spaces, known_spans, dice
        self.addresses: list[list[Address]] = [[] for _ in spaces]
        self.numbers: list[dict[Address, float]] = [{} for _ in spaces]
        self.spans: list[Box] = [{} for _ in spaces]
        self.edges: list[dict[Address, set[float]]] = [{} for _ in spaces]
        self.others: list[float] = []
        self._names: dict[float, tuple[int, Address]] = {}

    def take(self, purpose: Purpose, rows: Sequence[Prefix], node: int, depth: int) -> np.ndarray:
        return np.array([self._draw_number(row.draw, (purpose, row.start, node)) for row in rows])

    def _draw_number(self, row: int, address: Address) -> float:
        self.addresses[row].append(address)
        if address not in self.numbers[row]:
            low, high = self.spans[row][address] = self.spaces[row].get(address) or self.known_spans.get(address, ALL)
            margin = min(THIN, (high - low) / 4)
            for _ in range(TRIES):
                number = low + margin + (high - low - 2 * margin) * self.dice.random()
                if number not in self._names:
                    break
            else:
                raise EdgeHitError
            self.edges[row][address] = set()
            self._names[number] = row, address
            self.numbers[row][address] = number
        return self.numbers[row][address]

    def on_draw(self, u: Tensor, cumulative: Tensor, tokens: Tensor) -> None:
        size = cumulative.shape[-1]
        rows = (cumulative / cumulative[..., -1:]).reshape(-1, size).tolist()
        answers = zip(u.reshape(len(rows), -1).tolist(), tokens.reshape(len(rows), -1).tolist(), strict=True)
        for ends, (numbers, ids) in zip(rows, answers, strict=True):
            for number, token in zip(numbers, ids, strict=True):
                below = ends[token - 1] if token else -inf
                self._narrow(number, below, ends[token] if ends[token] < 1.0 else inf, ends)

    def on_comparison(self, u: float | Tensor, p: float | Tensor, q: float | Tensor, below: bool | Tensor) -> None:
        if isinstance(u, Tensor):
            flat = (torch.as_tensor(one, dtype=torch.float64).expand(u.shape).reshape(-1).tolist() for one in (u, p, q, below))
        else:
            flat = ([float(one)] for one in (u, p, q, below))
        for number, wanted, claimed, answer in zip(*flat, strict=True):
            if claimed > 0.0:  # else the answer is the same for every number
                edge = wanted / claimed
                low, high = (-inf, edge) if answer else (edge, inf)
                self._narrow(number, low, high, (edge,))

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
            raise EdgeHitError
        self.edges[row][address].update(edges)


@dataclass(frozen=True, slots=True)
class Execution:
    """One execution of the step: the round, the numbers it asked for in order with repeats, its box, and the edges in it."""

    round: Round
    addresses: tuple[Address, ...]
    box: Box
    edges: dict[Address, set[float]]

    @property
    def outcome(self) -> tuple:
        draft_tokens = tuple((one.token, one.accepted) for one in self.round.proposals)
        return draft_tokens, self.round.committed, self.round.ending.kind, self.addresses


class BoxCutter:
    """Cuts the random numbers of a round of one decoder into boxes. ``seed``: of the points that are executed; no result depends on it."""

    def __init__(self, decoder: Components, seed: int = 0):
        self.decoder, self.dice = decoder, random.Random(seed)

    def cut_round(self, row: Prefix, known_spans: Box) -> tuple[list[tuple[Round, Box]], float]:
        """Round and box of every outcome, and the share of the numbers that was left out, in [0, 1].

        ``known_spans``: the intervals of numbers met before. The boxes do not overlap; with what was missed they fill the cube.

        Raises EnumerationError where numbers are used in another way than by comparisons that are reported.
        """
        pending: list[Box] = [{}]
        finished, missed = [], 0.0
        while pending:
            pieces, pending = pending[-BATCH:], pending[:-BATCH]
            executions, others = self.execute_boxes(row, pieces, known_spans)
            again, others_again = self.execute_boxes(row, [one.box for one in executions], known_spans)
            if {*others} != {*others_again}:
                raise EnumerationError(
                    f"A round after {row.ids} compared a value that no random number had shown, and another one at another point of the same box:"
                    " a wrapper may hand on numbers or constants, not numbers computed from others."
                )
            _check_same_rounds(row, zip(executions, again, strict=True))
            ends = [(one, end) for one in executions for end in _iterate_end_boxes(one)]
            for first in range(0, len(ends), BATCH):
                whole, near = zip(*ends[first : first + BATCH], strict=True)
                _check_same_rounds(row, zip(whole, self.execute_boxes(row, near, known_spans)[0], strict=True))
            for piece, one in zip(pieces, executions, strict=True):
                for box in (one.box, *_iterate_rest(piece, one, known_spans)):
                    if min((high - low for low, high in box.values()), default=1.0) < THIN:
                        missed += compute_box_mass(box, known_spans)
                    elif box is one.box:
                        finished.append((replace(one.round, full=None), box))
                    else:
                        pending.append(box)
        return finished, missed

    def execute_boxes(self, row: Prefix, spaces: Sequence[Box], known_spans: Box) -> tuple[list[Execution], list[float]]:
        """One execution inside each space, all as one batch; and the compared values that no random number had shown."""
        made = self.decoder
        for _ in range(TRIES):
            numbers = BoxRandomness(spaces, known_spans, self.dice)
            rows = [replace(row, draw=draw) for draw in range(len(spaces))]
            try:
                with listen_to_comparisons(numbers):
                    rounds = step(
                        rows, made.target, made.proposer, made.rule, made.randomness(numbers), made.eos_token_ids,
                    )  # fmt: skip
            except EdgeHitError:
                if len(spaces) == 1:
                    continue
                middle = len(spaces) // 2  # a thin interval may have too few numbers for all
                (one, others), (more, other) = (
                    self.execute_boxes(row, half, known_spans) for half in (spaces[:middle], spaces[middle:])
                )
                return one + more, others + other
            boxes = [space | span for space, span in zip(spaces, numbers.spans, strict=True)]
            return list(map(Execution, rounds, map(tuple, numbers.addresses), boxes, numbers.edges)), numbers.others
        raise EnumerationError(f"Every number of a box after {row.ids} meets an edge to the last bit: {spaces[0]}.")


def _check_same_rounds(row: Prefix, pairs: Iterable[tuple[Execution, Execution]]) -> None:
    """Raises where one box, executed at two points, did not show the same."""
    for one, other in pairs:
        if one.outcome != other.outcome:
            raise EnumerationError(
                f"Two rounds after {row.ids} differ ({one.round.committed} and {other.round.committed}), though all comparisons of"
                " their numbers that were reported have the same answers: every use of a number must be reported."
            )


def _iterate_end_boxes(execution: Execution) -> Iterator[Box]:
    """The box with the numbers of which no comparison was reported near their ends: each alone, and all together."""
    unheard = [a for a, (low, high) in execution.box.items() if not execution.edges.get(a) and high - low > 1e5 * THIN]
    for side in (0, 1):
        near = {address: _narrow_to_end(execution.box[address], side) for address in unheard}
        alone = [{address: span} for address, span in near.items()]
        yield from (execution.box | part for part in (alone if len(alone) < 2 else [*alone, near]))


def _narrow_to_end(span: Span, side: int) -> Span:
    low, high = span
    width = (high - low) / 1024
    return (high - width, high) if side else (low, low + width)


def _iterate_rest(piece: Box, execution: Execution, known_spans: Box) -> Iterator[Box]:
    """What an execution's box leaves of its piece: boxes that do not overlap, cut at every known edge."""
    settled: Box = {}
    for address, (low, high) in execution.box.items():
        whole_low, whole_high = piece.get(address) or known_spans.get(address, ALL)
        inside = {edge for edge in execution.edges.get(address, ()) if whole_low < edge < whole_high}
        for one, other in pairwise(sorted({whole_low, low, high, whole_high} | inside)):
            if other <= low or one >= high:
                yield piece | settled | {address: (one, other)}
        settled[address] = low, high


def compute_box_mass(box: Box, known_spans: Box) -> float:
    """The mass of a box, given what was known of its numbers before."""
    spans = ((span, known_spans.get(address, ALL)) for address, span in box.items())
    return prod((high - low) / (above - below) for (low, high), (below, above) in spans)


MISSED = 1e-12  # most probability that may be left out


def enumerate_target(
    target: LanguageModel, prompt: Sequence[int], length: int, eos_token_ids: frozenset[int] = frozenset()
) -> dict[Text, float]:
    """Distribution of the texts that the target writes alone: ``length`` tokens, fewer where a stop token comes first."""
    result: dict[Text, float] = {}
    open_: dict[Text, float] = {(): 1.0}
    for place in range(length):
        rows = [Prefix((*prompt, *text), place, length - place) for text in open_]
        distributions = target.compute_distributions(rows, build_empty_tree(len(rows)))[:, 0].tolist()
        grown = {
            (*text, x): mass * m
            for (text, mass), probs in zip(open_.items(), distributions, strict=True)
            for x, m in enumerate(probs)
            if m
        }
        ended = {text for text in grown if len(text) == length or text[-1] in eos_token_ids}
        result |= {text: grown[text] for text in ended}
        open_ = {text: mass for text, mass in grown.items() if text not in ended}
        if not open_:
            break
    return result


def enumerate_output(decoder: Components, prompt: Sequence[int], length: int) -> dict[Text, float]:
    """Distribution of what ``engine.decode`` writes after ``prompt``: ``length`` tokens at most, fewer where a stop token comes first.

    Returns text -> probability; all of them together are wrong by 1e-12 at most. Cost grows with V to the power of length + gamma: V
    of 3 to 5, length to 4.
    """
    opening = build_first_prefix(prompt, Settings(max_new_tokens=length), decoder.target.context)
    return Enumerator(decoder).enumerate_texts(opening)


def compute_text_tv(probs: dict[Text, float], other_probs: dict[Text, float]) -> float:
    """Half the sum of the absolute differences of two distributions over texts."""
    return sum(abs(probs.get(text, 0.0) - other_probs.get(text, 0.0)) for text in {*probs, *other_probs}) / 2


class Enumerator(BoxCutter):
    """Every outcome of every round of one decoder. A round that occurs again is enumerated once."""

    def __init__(self, decoder: Components, seed: int = 0):
        super().__init__(decoder, seed)
        self.remembers = getattr(
            decoder.proposer, "remembers", False
        )  # else the past is dropped, and rounds after one text are one
        self._rounds: dict[tuple, tuple[list[tuple[Prefix, float, Box]], float]] = {}
        self._ahead: dict[tuple, frozenset[Address]] = {}
        self._texts: dict[tuple, tuple[dict[Text, float], float]] = {}

    def enumerate_texts(self, row: Prefix) -> dict[Text, float]:
        """Distribution of the rest of the text. Raises EnumerationError where more than MISSED of it was left out."""
        found, missed = self._enumerate_rest(row, {})
        return _check_complete(found, missed)

    def _enumerate_rest(self, row: Prefix, known_spans: Box) -> tuple[dict[Text, float], float]:
        """Distribution of the rest of the text and what was missed of it, given what is known of numbers that may be met again."""
        key = row.ids, row.past, tuple(sorted(known_spans.items()))
        if key not in self._texts:
            result: dict[Text, float] = defaultdict(float)
            missed = self._compute_outcomes(row, known_spans)[1]
            for after, mass, box in self._merge_outcomes(row, known_spans):
                committed = after.ids[len(row.ids) :]
                found, lost = ({(): 1.0}, 0.0) if self._has_ended(after) else self._enumerate_rest(after, box)
                missed += mass * lost
                for rest, more in found.items():
                    result[committed + rest] += mass * more
            self._texts[key] = dict(result), missed
        return self._texts[key]

    def enumerate_round(self, row: Prefix) -> dict[Text, float]:
        """Distribution of the tokens that one round commits. Raises as ``texts`` does."""
        result: dict[Text, float] = defaultdict(float)
        for after, mass, _ in self.list_outcomes(row, {}):
            result[after.ids[len(row.ids) :]] += mass
        return _check_complete(dict(result), self._compute_outcomes(row, {})[1])

    def list_outcomes(self, row: Prefix, known_spans: Box) -> list[tuple[Prefix, float, Box]]:
        """The outcomes of one round: the row after it, probability, and the box in which the numbers asked for then lie."""
        return self._compute_outcomes(row, known_spans)[0]

    def _compute_outcomes(self, row: Prefix, known_spans: Box) -> tuple[list[tuple[Prefix, float, Box]], float]:
        """The outcomes of one round, and how much of it was missed."""
        key = row.ids, row.past, tuple(sorted(known_spans.items()))
        if key not in self._rounds:
            found, missed = self.cut_round(row, known_spans)
            self._rounds[key] = [(self._advance(row, one), compute_box_mass(box, known_spans), box) for one, box in found], missed
        return self._rounds[key]

    def _merge_outcomes(self, row: Prefix, known_spans: Box) -> list[tuple[Prefix, float, Box]]:
        """The outcomes, put together where they differ in nothing that the rest of the text can depend on."""
        result: dict[tuple, float] = defaultdict(float)
        for after, mass, box in self.list_outcomes(row, known_spans):
            ahead = frozenset() if self._has_ended(after) else self._find_addresses_ahead(after)
            needed = {address: where for address, where in (known_spans | box).items() if address in ahead}
            result[after, tuple(sorted(needed.items()))] += mass
        return [(after, mass, dict(box)) for (after, box), mass in result.items()]

    def _find_addresses_ahead(self, row: Prefix) -> frozenset[Address]:
        """Every number that any continuation of a row can ask for."""
        key = row.ids, row.past
        if key not in self._ahead:
            found: set[Address] = set()
            for after, _, box in self.list_outcomes(row, {}):
                found |= {*box, *(() if self._has_ended(after) else self._find_addresses_ahead(after))}
            self._ahead[key] = frozenset(found)
        return self._ahead[key]

    def _advance(self, row: Prefix, round_: Round) -> Prefix:
        assert 1 <= len(round_.committed) <= row.remaining, "a round writes at least one token and at most the remaining ones"
        after = advance_prefix(row, round_)
        return after if self.remembers else replace(after, past=())

    def _has_ended(self, after: Prefix) -> bool:
        return after.ids[-1] in self.decoder.eos_token_ids or after.remaining == 0


def _check_complete(probs: dict[Text, float], missed_mass: float) -> dict[Text, float]:
    """The distribution, checked to miss at most MISSED."""
    if missed_mass > MISSED:
        raise EnumerationError(f"{missed_mass:.1e} of the probability lies where float64 cannot look; {MISSED:.0e} is allowed.")
    assert abs(sum(probs.values()) + missed_mass - 1.0) < MISSED, "boxes fill the cube and do not overlap"
    return probs
