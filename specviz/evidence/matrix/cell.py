"""One cell of the matrix: sample a decoder on remembered distributions, and test the samples.

An exact rule is tested with the number of samples that the wanted distance needs. A lossy rule is tested with the number that half
of its known distance needs. If the target gives one text probability 1, every sample must be that text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from specviz.decoding.device.choice import choose_engine
from specviz.decoding.engine import advance_prefix
from specviz.decoding.methods import build_rule
from specviz.decoding.samples import NONE, Samples
from specviz.errors import DamagedModelError, ModelError, SettingsError
from specviz.evidence.partition import Partition, exact_partition
from specviz.evidence.tests import Plan, answer
from specviz.models.base import LanguageModel
from specviz.models.memoized import MemoizedPair
from specviz.proposers.base import Proposer
from specviz.proposers.request import open_proposer
from specviz.randomness import PhiloxRandomness, Prefix, Purpose
from specviz.settings import Settings
from specviz.verification.draft_tree import DraftTree
from specviz.verification.rule import Rule

LENGTH = 2  # tokens of a sample, and depth of the drafts: no distribution after the second token affects either
BATCH = 64  # rows of one step
EQUAL = 64  # samples where all must be one text
LEAST = 500  # samples of a lossy rule, whose distance needs few
CERTAIN = 1e-9  # probability that rounding explains


@dataclass(frozen=True, slots=True)
class Cell:
    """One decoder and its result.

    verdict   consistent, rejected, coincides (a lossy rule where the target is certain of one text), blank, or too few samples
    right     whether the verdict is the expected one
    said      the result in a sentence; for a blank cell, why the combination makes no sense
    n         number of samples
    seen      smallest total variation that they would have shown
    distance  total variation between samples and distribution on the cells
    p_value   smallest p-value, corrected for all tests of the cell; None: nothing was tested
    lost      for a lossy rule, the target's mass of the texts that it never writes, whatever is proposed
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
    """What all cells of one sampling setting share: the target's distribution, computed once.

    remembering
               the pair; it keeps the distributions after the first tokens
    partition  cells of the target's distribution, for samples of an exact rule
    certain    the only possible text, if there is only one
    lost       as in Cell, for each lossy rule
    """

    name: str
    settings: Settings
    remembering: MemoizedPair
    plan: Plan
    partition: Partition
    certain: tuple[int, ...] | None
    lost: dict[str, float]


def cell_of(
    column: Column, line: str, more: Mapping[str, Any], rule_name: str, remembering: MemoizedPair, ids: Sequence[int]
) -> Cell:
    """Sample and test one decoder. ``more``: settings of its line. Blank if the proposer or the rule refuses the combination."""
    key = line, rule_name, column.name
    settings = replace(column.settings, rule=rule_name, seed=own_seed(column.settings.seed, *key), **more)
    try:
        rule = build_rule(settings)
        proposer = open_proposer(remembering, settings)[1]
        first = proposer.propose(
            [Prefix(tuple(ids), 0, settings.max_new_tokens, draw) for draw in range(8)], PhiloxRandomness(settings.seed)
        )
        if why := senseless(rule, proposer, first):
            return Cell(*key, "blank", True, why)
        n = samples_needed(column, rule)
        target = remembering.open(column.settings)[0]
        tokens = draw_tokens(target, proposer, rule, settings, ids, remembering.eos_token_ids, n)
    except DamagedModelError:
        raise
    except (ModelError, SettingsError) as why:  # no heads for this pair; a rule that cannot judge such proposals
        return Cell(*key, "blank", True, str(why))
    if column.certain is not None:
        return equality(key, rule, column.certain, tokens)
    return tested(key, column, rule, Samples(tokens, settings.to_record(), line), remembering, ids)


def own_seed(seed: int, *names: str) -> int:
    """A seed for each cell, independent of which cells are asked for. No two cells share random numbers."""
    return int.from_bytes(hashlib.sha256(repr((seed, *names)).encode()).digest()[:8]) >> 1


def senseless(rule: Rule, proposer: Proposer, tree: DraftTree) -> str:
    """Why a cell would show nothing, or ''."""
    if not tree.widest:
        return "" if rule.name == "token" else "nothing is drafted, so there is nothing to verify"
    if getattr(proposer, "remembers", False):
        return f"{LENGTH} tokens leave no past to adapt to: it drafts the same tokens as draft"
    if rule.name == "k-seq" and tree.is_chain:
        return "with one draft token at each position k-seq is the token rule, number by number"
    return ""


def samples_needed(column: Column, rule: Rule) -> int:
    """Number of samples: for an exact rule what the wanted distance needs, for a lossy rule at most that, and enough for half of
    its known distance."""
    if column.certain is not None:
        return EQUAL
    if rule.exact or not column.lost[rule.name]:
        return column.plan.n
    return min(column.plan.n, max(LEAST, replace(column.plan, tv=column.lost[rule.name] / 2).needed))


def draw_tokens(
    target: LanguageModel,
    proposer: Proposer,
    rule: Rule,
    settings: Settings,
    ids: Sequence[int],
    eos_token_ids: frozenset[int],
    count: int,
) -> np.ndarray:
    """Samples 0 to count - 1 of the decoder, round after round until each has LENGTH tokens: (count, LENGTH) int32.

    Samples with an even number may draft LENGTH tokens per round, those with an odd number one token less. So the bonus token
    after a fully accepted draft is among the tested tokens. Samples that probably draft the same token, and later those of the same
    text, run together: then a batch asks about fewer texts.
    """
    tokens = np.full((count, LENGTH), NONE, dtype=np.int32)
    randomness, prompt = Slices(PhiloxRandomness(settings.seed), 0, count), tuple(ids)
    arguments = (target, proposer, rule, randomness, eos_token_ids)
    _, steps = choose_engine(settings.engine, *arguments, rows=min(count, BATCH), columns=len(prompt) + settings.max_new_tokens)
    drafted = randomness.stream(Purpose.DRAFT, 0, 0)
    rows = [Prefix(prompt, 0, settings.max_new_tokens - draw % 2, draw) for draw in np.argsort(drafted, kind="stable").tolist()]
    while rows:
        going = []
        for first in range(0, len(rows), BATCH):
            some = rows[first : first + BATCH]
            for row, round_ in zip(some, steps(some), strict=True):
                written = round_.committed[: LENGTH - row.start]
                tokens[row.draw, row.start : row.start + len(written)] = written
                if row.start + len(written) < LENGTH and written[-1] not in eos_token_ids:
                    going.append(advance_prefix(row, round_))
        rows = sorted(going, key=lambda row: row.ids)
    return tokens


@dataclass(slots=True)
class Slices:
    """Random numbers of ``count`` samples from ``first`` on. Each stream is generated once for all of them."""

    randomness: PhiloxRandomness
    first: int
    count: int
    cut: dict[tuple[int, ...], np.ndarray] = field(default_factory=dict)

    def take(self, purpose: Purpose, rows: Sequence[Prefix], node: int, depth: int) -> np.ndarray:
        streams = {start: self.stream(purpose, start, node) for start in {row.start for row in rows}}
        if len(rows) == 1:
            place = rows[0].draw - self.first
            return streams[rows[0].start][place : place + 1]
        return np.array([streams[row.start][row.draw - self.first] for row in rows])

    def stream(self, *address: int) -> np.ndarray:
        if address not in self.cut:
            self.cut[address] = self.randomness.stream(*address, self.first, self.count)
        return self.cut[address]


def equality(key: tuple[str, str, str], rule: Rule, text: tuple[int, ...], tokens: np.ndarray) -> Cell:
    """The cell where the target is certain of one text: it is wrong unless every sample is that text."""
    padded = np.array([*text, *[NONE] * (LENGTH - len(text))])
    other = int((tokens != padded).any(1).sum())
    if other:
        said = f"{other} of {len(tokens)} samples are not the only text that the target writes"
        return Cell(*key, "rejected", False, said, len(tokens))
    said = f"all {len(tokens)} samples are the only text that the target writes"
    if rule.exact:
        return Cell(*key, "consistent", True, said, len(tokens))
    return Cell(*key, "coincides", True, said, len(tokens), lost=0.0)


def tested(
    key: tuple[str, str, str], column: Column, rule: Rule, samples: Samples, remembering: MemoizedPair, ids: Sequence[int]
) -> Cell:
    """The answer of all tests, compared with what is expected of the rule."""
    plan, cells, eos_token_ids = column.plan, column.partition, remembering.eos_token_ids
    target, draft = remembering.open(column.settings)
    if len(samples) < plan.n:
        plan = Plan.fitting(len(samples), LENGTH, column.lost[rule.name] / 2, plan.alpha)
        cells = exact_partition(target, ids, LENGTH, plan.cells, 5.0 / plan.n, eos_token_ids)
    found = answer(plan, target, draft, ids, samples, "engine", eos_token_ids, partition=cells)
    numbers = found.plan.n, found.detectable_tv, found.tv, min(found.adjusted)
    if rule.exact:
        return Cell(*key, found.verdict, found.verdict == "consistent", found.sentence, *numbers)
    lost = column.lost[rule.name]
    right = found.verdict == "rejected" or lost <= CERTAIN  # with lost = 0 the rule's distance is not known
    said = f"Texts with probability {lost:.3f} under the target are never written. {found.sentence}"
    return Cell(*key, found.verdict, right, said, *numbers, lost)
