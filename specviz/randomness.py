"""Random numbers with addresses: every random number u of a run, uniform in [0, 1), has an address, and no address is used twice.

There is one counter-based stream (Philox 4x64, Salmon et al. 2011) for each seed, purpose, output position at which the round
starts, and node within the round. Sample (or batch row) number i uses the i-th number of that stream, so a sampler can take a
slice, and a decoder of one text takes the same numbers one by one. The round's start is part of the address: if a number were
addressed by its output position only, a round would reuse numbers that the round before has already used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol

import numpy as np

from specviz.errors import SettingsError


class Purpose(IntEnum):
    """What a random number is for; part of its address."""

    DRAFT = 0  # draws a draft token from q
    ACCEPT = 1  # is compared with a threshold
    RESIDUAL = 2  # draws the replacement after a rejection
    BONUS = 3  # draws the token after a fully accepted path
    TARGET_ONLY = 4  # draws a token in target-only sampling


@dataclass(frozen=True, slots=True)
class Prefix:
    """One row of a batch: the text so far, and how far its run has come.

    Attributes:
        ids: Every token so far, prompt included.
        start: How many of them were generated: the output position at which the next round starts.
        remaining: How many tokens may still be generated, at least 1.
        draw: Number of the row's sample; its random numbers are the draw-th of each stream.
        past: For each earlier round (draft tokens on the longest path, accepted draft tokens): what a proposer may learn from.
    """

    ids: tuple[int, ...]
    start: int
    remaining: int
    draw: int = 0
    past: tuple[tuple[int, int], ...] = ()

    def with_draft_tokens(self, tokens: tuple[int, ...]) -> Prefix:
        """The row with draft tokens appended, as it is while more are drafted."""
        return Prefix(self.ids + tokens, self.start, self.remaining, self.draw, self.past)


_WORD = (1 << 64) - 1


def generate_philox_words(key: tuple[int, int], counter: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    """Philox 4x64 with ten rounds: four 64-bit words of one counter value (Salmon et al. 2011, with the paper's constants)."""
    (k0, k1), (a, b, c, d) = key, counter
    for _ in range(10):
        low, high = 0xD2E7470EE14C6C93 * a, 0xCA5A826395121157 * c
        a, b, c, d = (high >> 64) ^ b ^ k0, high & _WORD, (low >> 64) ^ d ^ k1, low & _WORD
        k0, k1 = (k0 + 0x9E3779B97F4A7C15) & _WORD, (k1 + 0xBB67AE8584CAA73B) & _WORD
    return a, b, c, d


class Randomness(Protocol):
    """A source of the random numbers of a round."""

    def take(self, purpose: Purpose, rows: Sequence[Prefix], node: int, depth: int) -> np.ndarray:
        """One random number in [0, 1) for each row, (B,) float64.

        ``node``: index of the node within the round, from 0; part of the address. ``depth``: output position of that node minus
        the row's start; names the random number for a person, not part of the address.
        """
        ...


class StreamRandomness(Randomness, Protocol):
    """Random numbers that are also available as slices: many samples at one address."""

    def stream(self, purpose: Purpose, start: int, node: int, first: int, count: int) -> np.ndarray:
        """The numbers of samples ``first`` to ``first + count - 1`` at one address, (count,) float64 in [0, 1)."""
        ...


@dataclass(frozen=True, slots=True)
class PhiloxRandomness:
    """The random numbers of a seed: a pure function of (seed, purpose, start, node, draw)."""

    seed: int

    def stream(self, purpose: Purpose, start: int, node: int, first: int, count: int) -> np.ndarray:
        """The numbers of samples ``first`` to ``first + count - 1`` at one address, (count,) float64 in [0, 1)."""
        block, skip = divmod(first, 4)  # one counter value gives four numbers
        bits = np.random.Philox(key=[self.seed, int(purpose)], counter=[block, start, node, 0])
        return np.random.Generator(bits).random(skip + count)[skip:]

    def take(self, purpose: Purpose, rows: Sequence[Prefix], node: int, depth: int) -> np.ndarray:
        return np.array([self._compute_number(purpose, row.start, node, row.draw) for row in rows])

    def _compute_number(self, purpose: Purpose, start: int, node: int, draw: int) -> float:
        """One number of a stream, without a generator object: the same number in a tenth of the time."""
        block, skip = divmod(draw, 4)
        words = generate_philox_words((self.seed, int(purpose)), (block + 1, start, node, 0))
        return (words[skip] >> 11) * 2.0**-53


@dataclass(frozen=True, slots=True)
class GatheredRandomness:
    """Slices of a source as one: sample i is the i-th sample of the blocks (first, count), one block after the other."""

    randomness: StreamRandomness
    blocks: tuple[tuple[int, int], ...]

    def stream(self, purpose: Purpose, start: int, node: int, first: int, count: int) -> np.ndarray:
        """The numbers of samples ``first`` to ``first + count - 1`` of the blocks at one address, (count,) float64 in [0, 1)."""
        parts, before = [np.zeros(0)], 0
        for begin, size in self.blocks:
            low, high = max(first - before, 0), min(first + count - before, size)
            if low < high:
                parts.append(self.randomness.stream(purpose, start, node, begin + low, high - low))
            before += size
        return np.concatenate(parts)

    def take(self, purpose: Purpose, rows: Sequence[Prefix], node: int, depth: int) -> np.ndarray:
        return np.array([self.stream(purpose, row.start, node, row.draw, 1)[0] for row in rows])


@dataclass(slots=True)
class CachedRandomness:
    """The random numbers of samples ``first`` to ``first + count - 1``. Each stream is generated once for all of them."""

    randomness: StreamRandomness
    first: int
    count: int
    streams: dict[tuple[Purpose, int, int], np.ndarray] = field(default_factory=dict)

    def take(self, purpose: Purpose, rows: Sequence[Prefix], node: int, depth: int) -> np.ndarray:
        streams = {start: self.get_stream(purpose, start, node) for start in {row.start for row in rows}}
        if len(rows) == 1:
            place = rows[0].draw - self.first
            return streams[rows[0].start][place : place + 1]
        return np.array([streams[row.start][row.draw - self.first] for row in rows])

    def get_stream(self, purpose: Purpose, start: int, node: int) -> np.ndarray:
        """The numbers of all samples at one address, (count,) float64 in [0, 1)."""
        address = purpose, start, node
        if address not in self.streams:
            self.streams[address] = self.randomness.stream(*address, self.first, self.count)
        return self.streams[address]


@dataclass(frozen=True, slots=True)
class EditedRandomness:
    """Random numbers of which a person has chosen some.

    Attributes:
        edits: (output position, purpose) -> u in [0, 1). Position 0 is the first generated token. Every random number of that
            purpose at that position is replaced; under the token rule at most one accept number per position is ever used.

    Raises SettingsError for a position below 0 or u outside [0, 1).
    """

    randomness: Randomness
    edits: Mapping[tuple[int, Purpose], float]

    def __post_init__(self) -> None:
        for (position, _), u in self.edits.items():
            if position < 0:
                raise SettingsError("random number position", position, "0 (the first generated token) or more")
            if not 0.0 <= u < 1.0:
                raise SettingsError("random number", u, "at least 0 and below 1")

    def take(self, purpose: Purpose, rows: Sequence[Prefix], node: int, depth: int) -> np.ndarray:
        drawn = self.randomness.take(purpose, rows, node, depth)
        chosen = [self.edits.get((row.start + depth, purpose)) for row in rows]
        return np.array([u if edit is None else edit for u, edit in zip(drawn, chosen, strict=True)])
