"""One round by hand: two small tables, random digits, and the round that the production decoder makes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, pairwise

import numpy as np

from specviz.decoding.engine import step
from specviz.errors import SettingsError
from specviz.models.table import TableModel
from specviz.proposers.draft import DraftModel
from specviz.randomness import Prefix, Purpose
from specviz.trace import Round
from specviz.verification.token import TokenRule

WORDS = ("sun", "rain", "wind", "snow")  # a diary of the weather: any of them may follow any other
GAMMA = 3  # draft tokens of the round
SEEDS = 1_000_000
TRIES = 10_000  # sheets that a seed goes through; about one in nine has what a sheet needs
Table = tuple[tuple[int, ...], ...]  # tenths: row x is the distribution of the word after x


@dataclass(frozen=True, slots=True)
class Worksheet:
    """One sheet and its answer.

    Attributes:
        seed: Of this sheet, 0 to 999,999.
        p: (4, 4) tenths, each row sums to 10: the target's table.
        q: The draft's table, likewise.
        start: The word so far, as an index of WORDS.
        draft_digits: GAMMA pairs of random digits, 0 to 99, that draw the draft words.
        uniform_digits: GAMMA pairs that are the random numbers u.
        last_digits: The pair that draws the replacement, or the bonus word.
        round: The round of the production decoder with these numbers.
    """

    seed: int
    p: Table
    q: Table
    start: int
    draft_digits: tuple[int, ...]
    uniform_digits: tuple[int, ...]
    last_digits: int
    round: Round

    @property
    def contexts(self) -> tuple[int, ...]:
        """For each draft word, the word it follows."""
        return (self.start, *(one.token for one in self.round.proposals[:-1]))

    @property
    def rejected(self) -> int:
        """Number of the draft word that was rejected, from 0."""
        return next(place for place, one in enumerate(self.round.proposals) if one.accepted is False)

    @property
    def residual(self) -> tuple[int, ...]:
        """(4,) tenths: max(0, p - q) where the draft word was rejected, not yet rescaled."""
        return compute_residual(*(table[self.contexts[self.rejected]] for table in (self.p, self.q)))

    @property
    def bonus(self) -> int:
        """The word that the last digits would draw after the last draft word, had all been accepted."""
        return find_drawn_token(self.p[self.round.proposals[-1].token], self.last_digits)


def make_worksheet(seed: int) -> Worksheet:
    """The sheet of a seed, a whole number from 0 to 999,999; raises SettingsError for any other.

    It is the first of the seed's stream in which a word is accepted with p < q, a later one is rejected, and no digits fall so near an
    edge that a third would decide.
    """
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < SEEDS:
        raise SettingsError("seed", seed, f"a whole number from 0 to {SEEDS - 1:,}")
    generator = np.random.Generator(np.random.Philox(seed))
    return next(sheet for _ in range(TRIES) if (sheet := _try_sheet(seed, generator)) is not None)


def compute_residual(p: Sequence[int], q: Sequence[int]) -> tuple[int, ...]:
    """max(0, p - q) word by word, in tenths (Leviathan et al. 2023, Algorithm 1, before it is rescaled)."""
    return tuple(max(0, a - b) for a, b in zip(p, q, strict=True))


def compute_ranges(weights: Sequence[int]) -> tuple[range, ...]:
    """For each word the two-digit numbers that draw it: 0 to 99, dealt out in proportion to the weights, in the order of the words.

    Where a weight does not divide 100, a number belongs to the word in which it begins.
    """
    total = sum(weights)
    edges = [0, *(-(-100 * one // total) for one in accumulate(weights))]
    return tuple(range(a, b) for a, b in pairwise(edges))


def find_drawn_token(weights: Sequence[int], digits: int) -> int:
    """The word that two digits draw from weights, as its place."""
    return next(place for place, one in enumerate(compute_ranges(weights)) if digits in one)


def _try_sheet(seed: int, generator: np.random.Generator) -> Worksheet | None:
    """The next sheet of a stream, None where it would not do."""
    p = tuple(_draw_weights(generator) for _ in WORDS)
    q = tuple(_move_weights(row, generator) for row in p)
    start, *digits = (int(generator.integers(bound)) for bound in (len(WORDS), *[100] * (2 * GAMMA + 1)))
    drawing, testing, last = tuple(digits[:GAMMA]), tuple(digits[GAMMA:-1]), digits[-1]
    sheet = Worksheet(seed, p, q, start, drawing, testing, last, _run_round(p, q, start, drawing, testing, last))
    verdicts = [one.accepted for one in sheet.round.proposals]
    if False not in verdicts:
        return None
    accepted = [one for one in sheet.round.proposals if one.accepted]
    real = any(one.p < one.q for one in accepted)
    return sheet if real and not _is_near_edge(sheet) else None


def _draw_weights(generator: np.random.Generator) -> tuple[int, ...]:
    """Tenths of four words, each at least one."""
    cuts = sorted(generator.choice(np.arange(1, 10), len(WORDS) - 1, replace=False).tolist())
    return tuple(b - a for a, b in zip([0, *cuts], [*cuts, 10], strict=True))


def _move_weights(row: tuple[int, ...], generator: np.random.Generator) -> tuple[int, ...]:
    """The row with three tenths moved at random from one word to another; no word goes below nothing."""
    found = list(row)
    for _ in range(3):
        source, to = generator.choice(len(WORDS), 2, replace=False).tolist()
        if found[source]:
            found[source], found[to] = found[source] - 1, found[to] + 1
    return tuple(found)


def _is_near_edge(sheet: Worksheet) -> bool:
    """Whether one of the two-digit numbers that are used begins on one side of an edge and ends on the other."""
    for one, digits in zip(sheet.round.proposals, sheet.uniform_digits, strict=True):
        if one.accepted is None:
            continue
        edge = Fraction(round(10 * one.p), round(10 * one.q)) * 100
        if digits < edge < digits + 1:
            return True
    total = sum(sheet.residual)
    return any(sheet.last_digits < 100 * Fraction(edge, total) < sheet.last_digits + 1 for edge in accumulate(sheet.residual))


@dataclass(frozen=True, slots=True)
class _Digits:
    """Random numbers from two digits each: the middle of the hundredth that they name."""

    known: Mapping[tuple[Purpose, int], int]
    last: int

    def take(self, purpose: Purpose, rows: Sequence[Prefix], node: int, depth: int) -> np.ndarray:
        digits = self.known.get((purpose, node), self.last)
        return np.full(len(rows), (digits + 0.5) / 100)


def _run_round(p: Table, q: Table, start: int, drawing: Sequence[int], testing: Sequence[int], last: int) -> Round:
    """The round of the production engine under the token rule."""
    known = {(Purpose.DRAFT, node): digits for node, digits in enumerate(drawing)}
    known |= {(Purpose.ACCEPT, node): digits for node, digits in enumerate(testing)}
    rows = [Prefix((start,), 0, GAMMA + 1)]
    (found,) = step(rows, _build_model(p), DraftModel(_build_model(q), GAMMA), TokenRule(), _Digits(known, last), bars=len(WORDS))
    return found


@lru_cache(maxsize=64)
def _build_model(table: Table) -> TableModel:
    return TableModel(lambda ids: [one / 10 for one in table[ids[-1]]], len(WORDS))
