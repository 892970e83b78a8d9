"""Every proposer under every rule, on one prompt: does the output have the target's distribution?

Each cell of the matrix is a decoder: a proposer, a rule, and sampling settings. Its samples come from ``engine.step`` on memoized
distributions (models/memoized.py), so each distribution is computed once for thousands of samples. They are tested against the
target's exact distribution; the false-alarm rate is that of the whole matrix. An exact rule gets as many samples as the planned
distance needs. If the target is certain of one text, as at temperature 0, every sample must be that text.

The expected result of a lossy rule is computed, not sampled: the target's mass of all texts that contain a token which the rule
never writes, whatever is proposed. This is a lower bound of the rule's total variation from the target. If it is not 0, the rule
must be rejected, with as many samples as half of it needs. If the target is certain of one text, the rule writes that text too,
and the cell says "coincides".
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
from torch import Tensor

from specviz.decoding.method_checks import build_rule
from specviz.decoding.samples import NONE, Coverage
from specviz.errors import DamagedModelError, ModelError, SettingsError
from specviz.evidence.analytic.enumeration import Components
from specviz.evidence.decoder import MEMOIZED, SPECULATIVE, TARGET, Decoder
from specviz.evidence.sampling.sampling_plan import SamplingPlan
from specviz.evidence.sampling.session import Session
from specviz.evidence.testing.hypothesis_tests import TestPlan, decide_verdict
from specviz.evidence.testing.partition import Partition, build_partition
from specviz.evidence.testing.results import NOTHING_TESTED, describe_unreached
from specviz.jobs.tasks import Executor, PairRef, allow_paths
from specviz.models.base import LanguageModel
from specviz.models.continuations import iterate_distributions_after
from specviz.models.memoized import MemoizedPair
from specviz.models.pairs.loading import LoadedPair
from specviz.models.pairs.mapped import MappedPair
from specviz.models.pairs.renumbered import renumber_draft
from specviz.progress import ProgressCallback, ignore_progress
from specviz.proposers.base import Proposer
from specviz.proposers.no_draft import NoDraft
from specviz.proposers.registry import PROPOSERS
from specviz.proposers.request import open_proposer
from specviz.randomness import PhiloxRandomness, Prefix
from specviz.records import record_key, to_json_fields
from specviz.settings import Settings
from specviz.statistics.finding import ALPHA, POWER
from specviz.verification.draft_tree import DraftTree
from specviz.verification.registry import RULES
from specviz.verification.rule import Rule

LENGTH = 2  # tokens of a sample, and depth of the drafts: no distribution after the second token affects either
EQUAL = 64  # samples where all must be one text
LEAST = 500  # samples of a lossy rule, whose distance needs few
CERTAIN = 1e-9  # probability that rounding explains


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """One decoder and its result.

    exercised what the samples exercised; None: not sampled
    """

    line: str
    rule: str
    column: str
    # consistent, rejected, coincides (a lossy rule where the target is certain of one text), blank, too few samples, or nothing
    # tested
    verdict: str
    right: bool  # whether the verdict is the expected one
    sentence: str = field(metadata=record_key("said"))  # the result; for a blank cell, why the combination makes no sense
    n: int = 0  # number of samples
    seen: float | None = None  # smallest total variation that they would have shown
    distance: float | None = None  # total variation between samples and distribution on the cells
    p_value: float | None = None  # smallest p-value, corrected for all tests of the cell; None: nothing was tested
    lost: float | None = None  # for a lossy rule, the target's mass of the texts that it never writes, whatever is proposed
    exercised: Coverage | None = None


@dataclass(frozen=True, slots=True)
class MatrixColumn:
    """What all cells of one sampling setting share: the target's distribution, computed once.

    remembering
               the pair; it keeps the distributions after the first tokens
    """

    name: str
    settings: Settings
    remembering: MemoizedPair
    plan: TestPlan
    partition: Partition  # cells of the target's distribution, for samples of an exact rule
    certain: tuple[int, ...] | None  # the only possible text, if there is only one
    lost: dict[str, float]  # as in Cell, for each lossy rule


def evaluate_cell(
    column: MatrixColumn,
    line: str,
    line_settings: Mapping[str, Any],
    rule_name: str,
    remembering: MemoizedPair,
    ids: Sequence[int],
) -> MatrixCell:
    """Sample and test one decoder. ``line_settings``: settings of its line. Blank if the proposer or the rule refuses the combination."""
    key = line, rule_name, column.name
    settings = replace(column.settings, rule=rule_name, seed=derive_seed(column.settings.seed, *key), **line_settings)
    try:
        rule = build_rule(settings)
        proposer = open_proposer(cast(LoadedPair, remembering), settings)[1]
        first = proposer.propose(
            [Prefix(tuple(ids), 0, settings.max_new_tokens, draw) for draw in range(8)], PhiloxRandomness(settings.seed)
        )
        if why := explain_blank(rule, proposer, first):
            return MatrixCell(*key, "blank", True, why)
        session = open_session(remembering, settings, ids, proposer, rule, count_samples_needed(column, rule))
        session.draw(MEMOIZED)
    except DamagedModelError:
        raise
    except (ModelError, SettingsError) as why:  # no heads for this pair; a rule that cannot judge such proposals
        return MatrixCell(*key, "blank", True, str(why))
    if column.certain is not None:
        return judge_equality(key, rule, column.certain, session)
    return judge_samples(key, column, rule, session)


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


def count_samples_needed(column: MatrixColumn, rule: Rule) -> int:
    """Number of samples: what the planned distance needs, or fewer if they detect half of a lossy rule's known distance."""
    if column.certain is not None:
        return EQUAL
    if rule.exact or not column.lost[rule.name]:
        return column.plan.n
    return min(column.plan.n, max(LEAST, replace(column.plan, tv=column.lost[rule.name] / 2).needed))


def open_session(
    pair: MemoizedPair, settings: Settings, ids: Sequence[int], proposer: Proposer, rule: Rule, samples: int
) -> Session:
    """The session of a cell, with target and draft of ``pair``.

    Samples with an even number may draft LENGTH tokens per round, those with an odd number one token less. So the bonus token
    after a fully accepted draft is among the tested tokens. The exact distribution is there, so no target-only samples are drawn.
    """
    target = pair.open(settings)[0]
    decoder = Decoder(
        TARGET if isinstance(proposer, NoDraft) else SPECULATIVE, cast(LoadedPair, pair), settings, tuple(ids), rule.name,
        lambda: Components(target, proposer, rule), engine_only="its samples share memoized distributions",
    )  # fmt: skip
    return Session(decoder, SamplingPlan("engine", samples, reference=0, tested_tokens=LENGTH))


def judge_equality(key: tuple[str, str, str], rule: Rule, text: tuple[int, ...], session: Session) -> MatrixCell:
    """The cell where the target is certain of one text: it is wrong unless every sample is that text."""
    samples, coverage, is_control = session.samples[MEMOIZED], session.coverage[MEMOIZED], session.decoder.is_control
    padded, n = np.array([*text, *[NONE] * (LENGTH - len(text))]), len(samples)
    other = int((samples.tokens != padded).any(1).sum())
    verdict = decide_verdict(other > 0, True, coverage, is_control)
    if other:
        said = f"{other} of {n} samples are not the only text that the target writes"
    else:
        said = f"all {n} samples are the only text that the target writes"
    if unreached := " ".join(describe_unreached(coverage, is_control)):
        said = f"{said}. {unreached}"
    if verdict == "consistent" and not rule.exact:
        return MatrixCell(*key, "coincides", True, said, n, lost=0.0, exercised=coverage)
    return MatrixCell(*key, verdict, verdict == "consistent", said, n, exercised=coverage)


def judge_samples(key: tuple[str, str, str], column: MatrixColumn, rule: Rule, session: Session) -> MatrixCell:
    """The result of all tests, compared with what is expected of the rule."""
    plan, n = column.plan, len(session.samples[MEMOIZED])
    cells = column.partition if n == plan.n else None
    if cells is None:
        plan = TestPlan.for_samples(n, LENGTH, column.lost[rule.name] / 2, plan.alpha)
    found, coverage = session.test(MEMOIZED, plan=plan, partition=cells), session.coverage[MEMOIZED]
    n, seen, distance, p_value = found.plan.n, found.detectable_tv, found.tv, min(found.adjusted)
    if rule.exact:
        is_right = found.verdict == "consistent"
        return MatrixCell(*key, found.verdict, is_right, found.sentence, n, seen, distance, p_value, exercised=coverage)
    lost = column.lost[rule.name]
    # with lost = 0 the rule's distance is not known
    is_right = found.verdict == "rejected" or (lost <= CERTAIN and found.verdict != NOTHING_TESTED)
    said = f"Texts with probability {lost:.3f} under the target are never written. {found.sentence}"
    return MatrixCell(*key, found.verdict, is_right, said, n, seen, distance, p_value, lost, coverage)


COLUMNS: dict[str, dict[str, Any]] = {"T = 0": {"temperature": 0.0}, "T = 1": {}, "top-p .9": {"top_p": 0.9}}
INTERSECTION = "draft-intersection"  # the line whose draft has another tokenizer
EFFORT = 20  # work of a cell with many samples, relative to one with few
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {  # proposers with several lines, each with its own settings
    "draft": {
        "draft": {},
        "draft-intersection": {},
        "draft-entropy": {"draft_length_policy": "entropy"},
        "draft-gain": {"draft_length_policy": "gain"},
    },
    "tree": {
        "tree-top": {"siblings": "top", "tree": "2-1"},
        "tree-independent": {"siblings": "independent", "tree": "2-2", "tree_budget": 5},  # one node of two gets a second sibling
        "tree-distinct": {"siblings": "distinct", "tree": "2-1"},
    },
    "medusa": {
        "medusa-chain": {"siblings": "independent", "tree": "1-1"},
        "medusa-tree": {"siblings": "distinct", "tree": "2-1"},
    },
    "eagle": {
        "eagle-chain": {},
        "eagle-tree": {"siblings": "distinct", "tree": "2-1"},
    },
    "lookahead": {"lookahead-chain": {"num_chains": 1}, "lookahead-tree": {"num_chains": 2}},
}


class MatrixCellKey(NamedTuple):
    """A cell to be computed."""

    column: str
    line: str
    rule: str

    def __str__(self) -> str:
        return f"cell {self.line}, {self.rule}, {self.column}"


@dataclass(frozen=True, slots=True)
class Matrix:
    """All cells. settings: pair, prompt and seed; tv: the total variation that exact cells must detect."""

    settings: Settings
    tv: float
    cells: tuple[MatrixCell, ...]

    @property
    def right(self) -> bool:
        """Whether every cell has the expected verdict."""
        return all(cell.right for cell in self.cells)

    def to_record(self) -> dict[str, Any]:
        """JSON-ready."""
        rules = {name: build_rule(replace(self.settings, rule=name)) for name in RULES}
        return {
            "schema": "specviz-matrix-2",
            "settings": self.settings.to_record(),
            "length": LENGTH,
            "tv": self.tv,
            "alpha": ALPHA,
            "power": POWER,
            "rules": {name: {"title": rule.title, "exact": rule.exact} for name, rule in rules.items()},
            "columns": COLUMNS,
            "right": self.right,
            "cells": [to_json_fields(cell) for cell in self.cells],
        }


def list_lines() -> dict[str, dict[str, Any]]:
    """Name of each line -> its settings beside those of the matrix. Every registered proposer has a line."""
    made: dict[str, dict[str, Any]] = {}
    for proposer in PROPOSERS:
        made |= {name: {"proposer": proposer} | more for name, more in VARIANTS.get(proposer, {proposer: {}}).items()}
    return made


def choose_lines_and_rules(only: Sequence[str]) -> tuple[list[str], list[str]]:
    """Lines and rules chosen by name. Each name is a line, a proposer or a rule; no name means all. Raises SettingsError."""
    known = list_lines()
    for name in only:
        if name not in {*known, *PROPOSERS, *RULES}:
            raise SettingsError("only", name, f"among {', '.join(dict.fromkeys((*known, *PROPOSERS, *RULES)))}")
    rules = [name for name in RULES if name in only] or list(RULES)
    wanted = [name for name, more in known.items() if name in only or more["proposer"] in only]
    return wanted or list(known), rules


def evaluate_matrix(
    pair: LoadedPair,
    settings: Settings,
    tv: float,
    only: Sequence[str] = (),
    on_progress: ProgressCallback = ignore_progress,
    executor: Executor | None = None,
) -> Matrix:
    """All cells, or the chosen ones. The samples do not depend on who draws them.

    ``settings``: prompt and seed; for workers also the pair, which each of them loads by name. ``tv``: total variation that exact
    cells must detect. ``only``: names, as in ``chosen``. ``on_progress``: called with the fraction of the work done, in [0, 1], and the
    last cell. ``executor``: workers that compute the cells; None: this process.
    """
    names, rules = choose_lines_and_rules(only)
    jobs = [MatrixCellKey(column, line, rule) for column in COLUMNS for line in names for rule in rules]
    if executor is None:
        worker = CellEvaluator(pair, settings, tv)
        cells: Iterable[tuple[MatrixCellKey, MatrixCell]] = ((job, worker.compute_cell(job)) for job in jobs)
    else:
        cells = executor.run_all(CellsTask(PairRef.from_pair(pair, settings), settings, tv), jobs)
    return Matrix(settings, tv, _collect_cells(cells, jobs, on_progress))


def _collect_cells(
    cells: Iterable[tuple[MatrixCellKey, MatrixCell]], jobs: list[MatrixCellKey], on_progress: ProgressCallback
) -> tuple[MatrixCell, ...]:
    """The cells in the order of their jobs, whatever the order in which they come."""
    efforts = {job: EFFORT if COLUMNS[job.column].get("temperature") != 0.0 and job.rule != "typical" else 1 for job in jobs}
    found, done = {}, 0
    for job, cell in cells:
        found[job] = cell
        done += efforts[job]
        on_progress(done / sum(efforts.values()), f"{cell.line}, {cell.rule}, {cell.column}")
    return tuple(found[job] for job in jobs)


@dataclass(frozen=True, slots=True)
class CellsTask:
    """The cells as items of a task."""

    pair: PairRef
    settings: Settings
    tv: float

    def prepare(self) -> Callable[[MatrixCellKey, ProgressCallback], MatrixCell]:
        allow_paths(self.settings)
        worker = CellEvaluator(self.pair.load(), self.settings, self.tv)
        return lambda job, on_progress: worker.compute_cell(job)


class CellEvaluator:
    """Computes cells one after the other: a pair, a prompt, and what the cells of the current column share."""

    def __init__(self, pair: LoadedPair, settings: Settings, tv: float):
        self.pair, self.ids = pair, pair.encode(settings.prompt)
        self.settings = replace(settings, gamma=LENGTH, max_new_tokens=LENGTH + 1)
        n = TestPlan.for_distance(1, LENGTH, tv, self.alpha).needed
        self.plan = TestPlan.for_distance(n, LENGTH, tv, self.alpha)
        self.column: MatrixColumn | None = None

    @cached_property
    def foreign(self) -> LoadedPair:
        """The pair with a draft of another tokenizer: its own if it has one, else its draft under other numbers.

        Raises ModelError as ``renumbered``.
        """
        return self.pair if isinstance(self.pair, MappedPair) else renumber_draft(self.pair)

    @property
    def alpha(self) -> float:
        """False-alarm rate of one cell: ALPHA divided by the number of cells of the whole matrix, whichever are asked for."""
        return ALPHA / (len(list_lines()) * len(RULES) * len(COLUMNS))

    def compute_cell(self, job: MatrixCellKey) -> MatrixCell:
        """Compute a cell: a pure function of the job.

        In float32 a distribution depends a little on the others of its pass, so of earlier cells only those distributions are kept
        that each column reads first, in the same passes.
        """
        name, line, rule = job
        if self.column is None or self.column.name != name:
            self.column = self._compute_column(name)
        remembering = self.column.remembering
        remembering.forget()
        if line == INTERSECTION:
            try:
                remembering = self._memoize_pair(self.foreign)
            except ModelError as why:
                return MatrixCell(line, rule, name, "blank", True, str(why))
        return evaluate_cell(self.column, line, list_lines()[line], rule, remembering, self.ids)

    def _memoize_pair(self, pair: LoadedPair) -> MemoizedPair:
        """No distribution after the second token affects a sample."""
        return MemoizedPair(pair, longest=len(self.ids) + LENGTH - 1)

    def _compute_column(self, name: str) -> MatrixColumn:
        """The target's distribution in cells, from other passes than those of the samples.

        Target and draft read the possible first tokens, as far as their memory allows: almost every sample needs them.
        """
        settings, eos_token_ids = replace(self.settings, **COLUMNS[name]), self.pair.eos_token_ids
        uncached, plan = self.pair.open(settings)[0], self.plan
        cells = build_partition(uncached, self.ids, LENGTH, plan.cells, plan.min_mass, eos_token_ids)
        likely = int(cells.masses.argmax())
        sure = bool(cells.is_whole_text[likely]) and cells.masses[likely] > 1.0 - CERTAIN
        remembering, ids = self._memoize_pair(self.pair), tuple(self.ids)
        target = remembering.open(settings)[0]
        probs = target.compute_distributions_after([ids])[0]
        likely_first = probs.argsort(descending=True, stable=True)[: min(int(probs.count_nonzero()), target.capacity // 2)]
        remembering.forget()
        remembering.keep(settings, [ids, *((*ids, token) for token in likely_first.tolist())])
        lossy = [cast(LossyRule, rule) for name in RULES if not (rule := build_rule(replace(settings, rule=name))).exact]
        lost = {
            rule.name: 0.0 if sure else compute_unwritten_mass(remembering.open(settings)[0], ids, rule, eos_token_ids)
            for rule in lossy
        }
        return MatrixColumn(name, settings, remembering, self.plan, cells, cells.names[likely] if sure else None, lost)


class LossyRule(Rule, Protocol):
    """A rule that is not exact; it knows which tokens it never writes."""

    def find_impossible_tokens(self, p: Tensor) -> Tensor: ...


def compute_unwritten_mass(target: LanguageModel, ids: Sequence[int], rule: LossyRule, eos_token_ids: frozenset[int]) -> float:
    """The target's mass of all texts of LENGTH tokens with a token that the rule never writes at its place, in [0, 1]."""
    lost = 0.0
    open_: dict[tuple[int, ...], float] = {(): 1.0}
    for place in range(LENGTH):
        if not open_:
            break
        paths = np.array(sorted(open_), dtype=np.int64).reshape(len(open_), place)
        grown: dict[tuple[int, ...], float] = {}
        for where, distributions in iterate_distributions_after(target, ids, paths):
            for path, probs in zip(map(tuple, paths[where].tolist()), distributions, strict=True):
                never = rule.find_impossible_tokens(probs)
                lost += open_[path] * float(probs[never].sum())
                written = (probs * ~never).nonzero()[:, 0].tolist() if place < LENGTH - 1 else ()
                grown |= {(*path, token): open_[path] * float(probs[token]) for token in written if token not in eos_token_ids}
        open_ = grown
    return lost
