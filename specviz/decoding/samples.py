"""Samples: many continuations of one prompt, from any decoder. Evidence is computed from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import pairwise
from typing import Any

import numpy as np

from specviz.trace import Round

NONE = -1  # in place of a token after the end of a sample


@dataclass(frozen=True, slots=True)
class Coverage:
    """How often samples exercised each part of speculative decoding."""

    proposed: int = 0  # draft tokens
    accepted: int = 0  # draft tokens that the rule accepted
    rejected: int = 0  # that it rejected
    not_checked: int = 0  # that it did not reach
    residual: int = 0  # tokens drawn from the residual distribution
    bonus: int = 0  # bonus tokens after an accepted draft
    target_only: int = 0  # tokens of rounds without a draft token
    rollbacks: int | None = 0  # rounds after which caches dropped draft tokens; None where no cache takes part

    @classmethod
    def from_events(cls, events: np.ndarray) -> Coverage:
        """The sums of ``Samples.events``, (N, 8)."""
        sums: list[Any] = events.sum(0, dtype=np.int64).tolist()
        unknown = len(events) > 0 and bool((events[:, -1] == NONE).any())
        names = [one.name for one in fields(cls)]
        return cls(**dict(zip(names, [*sums[:-1], None if unknown else sums[-1]], strict=True)))

    @classmethod
    def from_rounds(cls, rounds: Sequence[Round]) -> Coverage:
        """The counts of one text."""
        last = len(rounds) - 1
        return cls.from_events(np.array([count_events(one, place < last) for place, one in enumerate(rounds)]).reshape(-1, 8))

    def __add__(self, other: Coverage) -> Coverage:
        mine, others = asdict(self), asdict(other)
        sums: dict[str, Any] = {
            name: None if mine[name] is None or others[name] is None else mine[name] + others[name] for name in mine
        }
        return Coverage(**sums)

    def to_record(self) -> dict[str, int | None]:
        return asdict(self)

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Coverage:
        """Raises ValueError for anything but counts."""
        names = [one.name for one in fields(cls)]
        if not isinstance(record, dict) or sorted(record) != sorted(names):
            raise ValueError(f"exercised must hold {', '.join(names)}")
        for name, value in record.items():
            if not (type(value) is int and value >= 0) and not (name == "rollbacks" and value is None):
                raise ValueError(f"exercised: {name} must be a whole number of 0 or more, got {str(value)[:60]!r}")
        return cls(**record)


COLUMNS = {one.name: column for column, one in enumerate(fields(Coverage))}  # of Samples.events


def count_events(round_: Round, goes_on: bool) -> tuple[int, ...]:
    """The fields of Coverage for one round. goes_on: whether another round of the same text follows."""
    verdicts = [one.accepted for one in round_.proposals]
    proposed, kind = len(verdicts), round_.ending.kind
    dropped = goes_on and len(round_.accepted_path) < proposed
    return (
        proposed,
        verdicts.count(True),
        verdicts.count(False),
        verdicts.count(None),
        int(kind == "residual"),
        int(kind == "bonus" and proposed > 0),
        int(kind == "bonus" and not proposed),
        int(dropped),
    )


@dataclass(frozen=True, slots=True)
class Samples:
    """N samples of at most L tokens, with the settings under which they were drawn."""

    tokens: np.ndarray  # (N, L) int32; after the end of a sample every entry is NONE
    settings: dict[str, Any]  # settings.Settings.to_record() of the run, or the description of a server in a file
    source: str  # the decoder: "speculative", "target", "assisted", a mutant's name, or a file
    first: int = 0  # number of the first sample; sample i of a seed is always the same
    # (N, 8) counts of each sample, a column for each field of Coverage, NONE for rollbacks without a cache; None: not counted
    events: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def lengths(self) -> np.ndarray:
        """Length of each sample in tokens, (N,) int64; an end-of-sequence token counts."""
        return (self.tokens != NONE).sum(1)

    @property
    def coverage(self) -> Coverage | None:
        """What the samples exercised; None: not counted."""
        return None if self.events is None else Coverage.from_events(self.events)

    def slice_samples(self, begin: int, end: int) -> Samples:
        """Samples ``begin`` to ``end - 1`` of these, counted from 0."""
        events = None if self.events is None else self.events[begin:end]
        return replace(self, tokens=self.tokens[begin:end], first=self.first + begin, events=events)


def find_distinct_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct rows of (N, L) ids, in lexicographic order, and the index of each row among them, (N,) int64."""
    distinct, order, bounds = group_rows(rows)
    group = np.empty(len(rows), dtype=np.int64)
    group[order] = np.repeat(np.arange(len(distinct)), np.diff(bounds))
    return distinct, group


def group_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The distinct rows of (N, L) ids in lexicographic order, (G, L), and where each occurs.

    Returns also the indices of all rows, (N,) int64, those of one distinct row together and ascending, and where each distinct
    row begins among them, (G + 1,).
    """
    if not len(rows):
        return rows, np.zeros(0, dtype=np.int64), np.zeros(1, dtype=np.int64)
    key, size = np.zeros(len(rows), dtype=np.int64), 1
    for column in rows.T.astype(np.int64) - NONE:  # few sorts of numbers: sorting rows takes ten times as long
        width = int(column.max()) + 1
        if size * width >= 2**63:  # the columns so far become one number each, from 0
            _, key = np.unique(key, return_inverse=True)
            size = int(key.max()) + 1
        key, size = key * width + column, size * width
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    bounds = np.concatenate([[0], np.flatnonzero(ordered[1:] != ordered[:-1]) + 1, [len(rows)]])
    return rows[order[bounds[:-1]]], order, bounds


def join_samples(shards: Iterable[Samples]) -> Samples:
    """Join neighboring shards of one run, given in any order. Raises ValueError for a gap, an overlap or different settings."""
    ordered = sorted(shards, key=lambda shard: shard.first)
    for before, after in pairwise(ordered):
        if after.first != before.first + len(before):
            raise ValueError(f"samples {before.first + len(before)} to {after.first - 1} are missing or present twice")
        if (before.settings, before.source) != (after.settings, after.source):
            raise ValueError("shards of different runs")
    head = ordered[0]
    counted = [shard.events for shard in ordered if shard.events is not None]
    events = np.concatenate(counted) if len(counted) == len(ordered) else None
    return replace(head, tokens=np.concatenate([shard.tokens for shard in ordered]), events=events)
