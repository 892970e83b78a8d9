"""One cell of the matrix: a decoder's draws on remembered distributions, and what they say.

An exact rule is tested with the number of draws that the wanted distance needs, a lossy one with those that half of its known
distance needs. Where the target is certain of one text every draw must be that text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from specviz.decoding.engine import advance, step
from specviz.decoding.samples import NONE, Samples
from specviz.errors import DamagedModel, ModelError, SettingsError
from specviz.evidence.experiment import Plan, answer
from specviz.evidence.partition import Partition, exact_partition
from specviz.models.base import LanguageModel
from specviz.models.remembered import RememberingPair
from specviz.proposers.base import Proposer
from specviz.proposers.registry import opened
from specviz.randomness import PhiloxRandomness, Prefix, Purpose
from specviz.settings import Settings
from specviz.verification.draft_tree import DraftTree
from specviz.verification.registry import rule_of
from specviz.verification.token_rule import Rule

LENGTH = 2  # tokens of a draw, and draft tokens one below the other: no distribution after the second token decides about either
BATCH = 64  # rows of one step
EQUAL = 64  # draws where all must be one text
LEAST = 500  # draws of a lossy rule, whose distance is seen with few
CERTAIN = 1e-9  # mass that rounding explains


@dataclass(frozen=True, slots=True)
class Cell:
    """One decoder and what was found.

    verdict  consistent (an exact distribution), rejected, coincides (a lossy rule where the target is certain), blank, or too few draws
    right    whether that is as it should be
    n        draws; seen  the least distance they would have shown; distance  of draws and distribution on the cells, in total variation
    p_value  smallest, corrected for all tests of the cell; None where nothing was tested
    lost     of a lossy rule: the target's mass of texts that it never writes, whatever is proposed
    said     what was found, in a sentence; of a blank cell why it makes no sense
    """

    line: str
    rule: str
    column: str
    verdict: str
    right: bool
    said: str
    n: int = 0
    seen: float | None = None
    distance: float | None = None
    p_value: float | None = None
    lost: float | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """What all cells of one warper share: the target's distribution, computed once.

    target     remembers; partition  cells of the target's distribution, for draws of an exact rule
    certain    the one text where there is only one; lost  by lossy rule, as in Cell
    """

    name: str
    settings: Settings
    target: LanguageModel
    plan: Plan
    partition: Partition
    certain: tuple[int, ...] | None
    lost: dict[str, float]


def cell_of(
    column: Column, line: str, more: Mapping[str, Any], rule_name: str, remembering: RememberingPair, ids: Sequence[int]
) -> Cell:
    """Draw and test one decoder, the settings of whose line are ``more``; blank where the proposer or the rule says that this makes no sense."""
    key = line, rule_name, column.name
    settings = replace(column.settings, rule=rule_name, seed=own_seed(column.settings.seed, *key), **more)
    try:
        rule = rule_of(settings)
        proposer = opened(remembering, settings)[1]
        first = proposer.propose(
            [Prefix(tuple(ids), 0, settings.length, draw) for draw in range(8)], PhiloxRandomness(settings.seed)
        )
        if why := senseless(rule, proposer, first):
            return Cell(*key, "blank", True, why)
        n = draws_wanted(column, rule)
        tokens = drawn(column.target, proposer, rule, settings, ids, remembering.eos_token_ids, n)
    except DamagedModel:
        raise
    except (ModelError, SettingsError) as why:  # no heads for this pair; a rule that cannot judge such proposals
        return Cell(*key, "blank", True, str(why))
    if column.certain is not None:
        return equality(key, rule, column.certain, tokens)
    return tested(key, column, rule, Samples(tokens, settings.to_record(), line), remembering, ids)


def own_seed(seed: int, *names: str) -> int:
    """A seed for each cell, the same whichever cells are asked for: no two cells share their luck."""
    return int.from_bytes(hashlib.sha256(repr((seed, *names)).encode()).digest()[:8]) >> 1


def senseless(rule: Rule, proposer: Proposer, block: DraftTree) -> str:
    """Why a cell would say nothing, or ''."""
    if not block.widest:
        return "" if rule.name == "token" else "nothing is drafted, so there is nothing to judge"
    if getattr(proposer, "remembers", False):
        return f"in {LENGTH} tokens there is no past to learn from: these are the draft tokens of draft"
    if rule.name == "k-seq" and block.is_chain:
        return "one draft token for each place: then k-seq is the token rule, number by number"
    return ""


def draws_wanted(column: Column, rule: Rule) -> int:
    """For an exact rule what the wanted distance needs; for a lossy one what half of its known distance needs, and no more."""
    if column.certain is not None:
        return EQUAL
    if rule.exact or not column.lost[rule.name]:
        return column.plan.n
    return min(column.plan.n, max(LEAST, replace(column.plan, tv=column.lost[rule.name] / 2).needed))


def drawn(
    target: LanguageModel,
    proposer: Proposer,
    rule: Rule,
    settings: Settings,
    ids: Sequence[int],
    eos_token_ids: frozenset[int],
    count: int,
) -> np.ndarray:
    """Draws 0 to count - 1 of the engine, round after round until LENGTH tokens stand: (count, LENGTH) int32.

    Even draws have room for LENGTH draft tokens and the token after them, odd ones for a draft token less: so the token after a block that
    was kept whole is among those that are tested.
    """
    tokens = np.full((count, LENGTH), NONE, dtype=np.int32)
    randomness, prompt = Slices(PhiloxRandomness(settings.seed), 0, count), tuple(ids)
    for first in range(0, count, BATCH):
        rows = [Prefix(prompt, 0, settings.length - draw % 2, draw) for draw in range(first, min(first + BATCH, count))]
        while rows:
            going = []
            for row, round_ in zip(rows, step(rows, target, proposer, rule, randomness, eos_token_ids), strict=True):
                written = round_.committed[: LENGTH - row.start]
                tokens[row.draw, row.start : row.start + len(written)] = written
                if row.start + len(written) < LENGTH and written[-1] not in eos_token_ids:
                    going.append(advance(row, round_))
            rows = going
    return tokens


@dataclass(slots=True)
class Slices:
    """The numbers of ``count`` draws from ``first`` on: each address is cut from its stream once, for all of them."""

    randomness: PhiloxRandomness
    first: int
    count: int
    cut: dict[tuple[int, ...], np.ndarray] = field(default_factory=dict)

    def take(self, purpose: Purpose, rows: Sequence[Prefix], node: int, depth: int) -> np.ndarray:
        streams = {start: self._stream(purpose, start, node) for start in {row.start for row in rows}}
        if len(rows) == 1:
            place = rows[0].draw - self.first
            return streams[rows[0].start][place : place + 1]
        return np.array([streams[row.start][row.draw - self.first] for row in rows])

    def _stream(self, *address: int) -> np.ndarray:
        if address not in self.cut:
            self.cut[address] = self.randomness.stream(*address, self.first, self.count)
        return self.cut[address]


def equality(key: tuple[str, str, str], rule: Rule, text: tuple[int, ...], tokens: np.ndarray) -> Cell:
    """Where the target is certain of one text every draw is that text, or the cell is wrong."""
    padded = np.array([*text, *[NONE] * (LENGTH - len(text))])
    other = int((tokens != padded).any(1).sum())
    if other:
        said = f"{other} of {len(tokens)} draws are not the one text that the target writes"
        return Cell(*key, "rejected", False, said, len(tokens))
    said = f"all {len(tokens)} draws are the one text that the target writes"
    if rule.exact:
        return Cell(*key, "consistent", True, said, len(tokens))
    return Cell(*key, "coincides", True, said, len(tokens), lost=0.0)


def tested(
    key: tuple[str, str, str], column: Column, rule: Rule, samples: Samples, remembering: RememberingPair, ids: Sequence[int]
) -> Cell:
    """The answer of all tests, beside what is expected of the rule."""
    plan, cells, eos_token_ids = column.plan, column.partition, remembering.eos_token_ids
    if len(samples) < plan.n:
        plan = Plan.fitting(len(samples), LENGTH, column.lost[rule.name] / 2, plan.alpha)
        cells = exact_partition(column.target, ids, LENGTH, plan.cells, 5.0 / plan.n, eos_token_ids)
    draft = remembering.open(column.settings)[1]
    found = answer(plan, column.target, draft, ids, samples, "engine", eos_token_ids, partition=cells)
    numbers = found.plan.n, found.detectable_tv, found.tv, min(found.adjusted)
    if rule.exact:
        return Cell(*key, found.verdict, found.verdict == "consistent", found.sentence, *numbers)
    lost = column.lost[rule.name]
    right = found.verdict == "rejected" or lost <= CERTAIN  # where nothing is lost for certain its distribution was not computed
    said = f"Texts that have {lost:.3f} of the target's distribution are never written. {found.sentence}"
    return Cell(*key, found.verdict, right, said, *numbers, lost)
