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
from specviz.decoding.methods import build_rule
from specviz.decoding.sampler import iterate_rounds
from specviz.decoding.samples import NONE, Coverage, Samples, count_events
from specviz.errors import DamagedModelError, ModelError, SettingsError
from specviz.evidence.partition import Partition, exact_partition
from specviz.evidence.results import NOTHING_TESTED, describe_unreached
from specviz.evidence.tests import Plan, decide_verdict, run_tests
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

    verdict   consistent, rejected, coincides (a lossy rule where the target is certain of one text), blank, too few samples, or nothing tested
    right     whether the verdict is the expected one
    said      the result in a sentence; for a blank cell, why the combination makes no sense
    n         number of samples
    seen      smallest total variation that they would have shown
    distance  total variation between samples and distribution on the cells
    p_value   smallest p-value, corrected for all tests of the cell; None: nothing was tested
    lost      for a lossy rule, the target's mass of the texts that it never writes, whatever is proposed
    exercised what the samples exercised; None: not sampled
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
    exercised: Coverage | None = None


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


def make_cell(
    column: Column, line: str, more: Mapping[str, Any], rule_name: str, remembering: MemoizedPair, ids: Sequence[int]
) -> Cell:
    """Sample and test one decoder. ``more``: settings of its line. Blank if the proposer or the rule refuses the combination."""
    key, is_control = (line, rule_name, column.name), more["proposer"] == "none"
    settings = replace(column.settings, rule=rule_name, seed=derive_seed(column.settings.seed, *key), **more)
    try:
        rule = build_rule(settings)
        proposer = open_proposer(remembering, settings)[1]
        first = proposer.propose(
            [Prefix(tuple(ids), 0, settings.max_new_tokens, draw) for draw in range(8)], PhiloxRandomness(settings.seed)
        )
        if why := explain_blank(rule, proposer, first):
            return Cell(*key, "blank", True, why)
        n = count_needed(column, rule)
        target = remembering.open(column.settings)[0]
        samples = draw_samples(target, proposer, rule, settings, ids, remembering.eos_token_ids, n)
    except DamagedModelError:
        raise
    except (ModelError, SettingsError) as why:  # no heads for this pair; a rule that cannot judge such proposals
        return Cell(*key, "blank", True, str(why))
    if column.certain is not None:
        return judge_equality(key, rule, column.certain, samples, is_control)
    return judge_samples(key, column, rule, samples, remembering, ids, is_control)


def derive_seed(seed: int, *names: str) -> int:
    """A seed for each cell, independent of which cells are asked for. No two cells share random numbers."""
    return int.from_bytes(hashlib.sha256(repr((seed, *names)).encode()).digest()[:8]) >> 1


def explain_blank(rule: Rule, proposer: Proposer, tree: DraftTree) -> str:
    """Why a cell would show nothing, or ''."""
    if not tree.widest:
        return "" if rule.name == "token" else "nothing is drafted, so there is nothing to verify"
    if getattr(proposer, "remembers", False):
        return f"{LENGTH} tokens leave no past to adapt to: it drafts the same tokens as draft"
    if rule.name == "k-seq" and tree.is_chain:
        return "with one draft token at each position k-seq is the token rule, number by number"
    return ""


def count_needed(column: Column, rule: Rule) -> int:
    """Number of samples: for an exact rule what the wanted distance needs, for a lossy rule at most that, and enough for half of
    its known distance."""
    if column.certain is not None:
        return EQUAL
    if rule.exact or not column.lost[rule.name]:
        return column.plan.n
    return min(column.plan.n, max(LEAST, replace(column.plan, tv=column.lost[rule.name] / 2).needed))


def draw_samples(
    target: LanguageModel,
    proposer: Proposer,
    rule: Rule,
    settings: Settings,
    ids: Sequence[int],
    eos_token_ids: frozenset[int],
    count: int,
) -> Samples:
    """Samples 0 to count - 1 of the decoder, round after round until each has LENGTH tokens: as many tokens each.

    Samples with an even number may draft LENGTH tokens per round, those with an odd number one token less. So the bonus token
    after a fully accepted draft is among the tested tokens. Samples that probably draft the same token, and later those of the same
    text, run together: then a batch asks about fewer texts.
    """
    tokens, events = np.full((count, LENGTH), NONE, dtype=np.int32), np.zeros((count, 8), dtype=np.int32)
    randomness, prompt = Slices(PhiloxRandomness(settings.seed), 0, count), tuple(ids)
    arguments = (target, proposer, rule, randomness, eos_token_ids)
    choice = choose_engine(settings.engine, *arguments, rows=min(count, BATCH), columns=len(prompt) + settings.max_new_tokens)
    drafted = randomness.stream(Purpose.DRAFT, 0, 0)
    rows = (Prefix(prompt, 0, settings.max_new_tokens - draw % 2, draw) for draw in np.argsort(drafted, kind="stable").tolist())
    for results in iterate_rounds(rows, choice.steps, eos_token_ids, BATCH, LENGTH, lambda row: row.ids):
        for row, round_, after in results:
            written = round_.committed[: LENGTH - row.start]
            tokens[row.draw, row.start : row.start + len(written)] = written
            events[row.draw] += count_events(round_, after is not None)
    return Samples(tokens, settings.to_record(), rule.name, 0, events)


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


def judge_equality(
    key: tuple[str, str, str], rule: Rule, text: tuple[int, ...], samples: Samples, is_control: bool = False
) -> Cell:
    """The cell where the target is certain of one text: it is wrong unless every sample is that text."""
    padded, n = np.array([*text, *[NONE] * (LENGTH - len(text))]), len(samples)
    coverage, other = samples.coverage, int((samples.tokens != padded).any(1).sum())
    verdict = decide_verdict(other > 0, True, coverage, is_control)
    if other:
        said = f"{other} of {n} samples are not the only text that the target writes"
    else:
        said = f"all {n} samples are the only text that the target writes"
    if unreached := " ".join(describe_unreached(coverage, is_control)):
        said = f"{said}. {unreached}"
    if verdict == "consistent" and not rule.exact:
        return Cell(*key, "coincides", True, said, n, lost=0.0, exercised=coverage)
    return Cell(*key, verdict, verdict == "consistent", said, n, exercised=coverage)


def judge_samples(
    key: tuple[str, str, str],
    column: Column,
    rule: Rule,
    samples: Samples,
    remembering: MemoizedPair,
    ids: Sequence[int],
    is_control: bool = False,
) -> Cell:
    """The result of all tests, compared with what is expected of the rule."""
    plan, cells, eos_token_ids = column.plan, column.partition, remembering.eos_token_ids
    target, draft = remembering.open(column.settings)
    if len(samples) < plan.n:
        plan = Plan.fitting(len(samples), LENGTH, column.lost[rule.name] / 2, plan.alpha)
        cells = exact_partition(target, ids, LENGTH, plan.cells, 5.0 / plan.n, eos_token_ids)
    found = run_tests(plan, target, draft, ids, samples, "engine", eos_token_ids, partition=cells, is_control=is_control)
    numbers = found.plan.n, found.detectable_tv, found.tv, min(found.adjusted)
    if rule.exact:
        is_right = found.verdict == "consistent"
        return Cell(*key, found.verdict, is_right, found.sentence, *numbers, exercised=samples.coverage)
    lost = column.lost[rule.name]
    # with lost = 0 the rule's distance is not known
    is_right = found.verdict == "rejected" or (lost <= CERTAIN and found.verdict != NOTHING_TESTED)
    said = f"Texts with probability {lost:.3f} under the target are never written. {found.sentence}"
    return Cell(*key, found.verdict, is_right, said, *numbers, lost, samples.coverage)
