"""Every proposer under every rule, on one prompt: does the output have the target's distribution?

Each cell of the matrix is a decoder: a proposer, a rule, and sampling settings. Its samples come from ``engine.step`` on remembered
distributions (models/memoized.py), so each distribution is computed once for thousands of samples. They are tested against the
target's exact distribution, with as many samples as the wanted distance needs. The false-alarm rate is that of the whole matrix. If
the target is certain of one text, as at temperature 0, every sample must be that text.

The expected result of a lossy rule is computed, not sampled: the target's mass of all texts that contain a token which the rule
never writes, whatever is proposed. This is a lower bound of the rule's total variation from the target. If it is not 0, the rule
must be rejected. If the target is certain of one text, the rule writes that text too, and the cell says "coincides".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from specviz.decoding.methods import build_rule
from specviz.errors import ModelError, SettingsError
from specviz.evidence.matrix.cell import CERTAIN, LENGTH, Cell, Column, make_cell
from specviz.evidence.partition import exact_partition
from specviz.evidence.tests import Plan
from specviz.jobs.tasks import Executor, PairRef, allow_paths
from specviz.models.base import LanguageModel
from specviz.models.memoized import MemoizedPair
from specviz.models.pairs.loading import LoadedPair
from specviz.models.pairs.mapped import MappedPair
from specviz.models.pairs.renumbered import renumber_draft
from specviz.models.paths import distributions_after
from specviz.progress import ProgressCallback, ignore_progress
from specviz.proposers.registry import PROPOSERS
from specviz.settings import Settings
from specviz.statistics.finding import ALPHA, POWER
from specviz.verification.registry import RULES
from specviz.verification.rule import Rule

COLUMNS: dict[str, dict[str, float]] = {"T = 0": {"temperature": 0.0}, "T = 1": {}, "top-p .9": {"top_p": 0.9}}
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
    cells: tuple[Cell, ...]

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
            "cells": [asdict(cell) for cell in self.cells],
        }


def lines() -> dict[str, dict[str, Any]]:
    """Name of each line -> its settings beside those of the matrix. Every registered proposer has a line."""
    made: dict[str, dict[str, Any]] = {}
    for proposer in PROPOSERS:
        made |= {name: {"proposer": proposer} | more for name, more in VARIANTS.get(proposer, {proposer: {}}).items()}
    return made


def chosen(only: Sequence[str]) -> tuple[list[str], list[str]]:
    """Lines and rules chosen by name. Each name is a line, a proposer or a rule; no name means all. Raises SettingsError."""
    known = lines()
    for name in only:
        if name not in {*known, *PROPOSERS, *RULES}:
            raise SettingsError("only", name, f"among {', '.join(dict.fromkeys((*known, *PROPOSERS, *RULES)))}")
    rules = [name for name in RULES if name in only] or list(RULES)
    wanted = [name for name, more in known.items() if name in only or more["proposer"] in only]
    return wanted or list(known), rules


def examine(
    pair: LoadedPair,
    settings: Settings,
    tv: float,
    only: Sequence[str] = (),
    on_progress: ProgressCallback = ignore_progress,
    executor: Executor | None = None,
) -> Matrix:
    """All cells, or the chosen ones. The samples do not depend on who draws them.

    settings   prompt and seed; for workers also the pair, which each of them loads by name
    tv         total variation that exact cells must detect
    only       names, as in ``chosen``
    on_progress  told the fraction of the work done, in [0, 1], and the last cell
    executor   workers that compute the cells; None: this process
    """
    names, rules = chosen(only)
    jobs = [MatrixCellKey(column, line, rule) for column in COLUMNS for line in names for rule in rules]
    if executor is None:
        worker = CellEvaluator(pair, settings, tv)
        cells: Iterable[tuple[MatrixCellKey, Cell]] = ((job, worker.cell(job)) for job in jobs)
    else:
        cells = executor.run_all(CellsTask(PairRef.from_pair(pair, settings), settings, tv), jobs)
    return Matrix(settings, tv, _watched(cells, jobs, on_progress))


def _watched(
    cells: Iterable[tuple[MatrixCellKey, Cell]], jobs: list[MatrixCellKey], on_progress: ProgressCallback
) -> tuple[Cell, ...]:
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

    def prepare(self) -> Callable[[MatrixCellKey, ProgressCallback], Cell]:
        allow_paths(self.settings)
        worker = CellEvaluator(self.pair.load(), self.settings, self.tv)
        return lambda job, on_progress: worker.cell(job)


class CellEvaluator:
    """Computes cells one after the other: a pair, a prompt, and what the cells of the current column share."""

    def __init__(self, pair: LoadedPair, settings: Settings, tv: float):
        self.pair, self.ids = pair, pair.encode(settings.prompt)
        self.settings = replace(settings, gamma=LENGTH, max_new_tokens=LENGTH + 1)
        n = Plan.of(1, LENGTH, tv, self.alpha).needed
        self.plan = Plan.of(n, LENGTH, tv, self.alpha)
        self.column: Column | None = None

    @cached_property
    def foreign(self) -> LoadedPair:
        """The pair with a draft of another tokenizer: its own if it has one, else its draft under other numbers.

        Raises ModelError as ``renumbered``.
        """
        return self.pair if isinstance(self.pair, MappedPair) else renumber_draft(self.pair)

    @property
    def alpha(self) -> float:
        """False-alarm rate of one cell: ALPHA divided by the number of cells of the whole matrix, whichever are asked for."""
        return ALPHA / (len(lines()) * len(RULES) * len(COLUMNS))

    def cell(self, job: MatrixCellKey) -> Cell:
        """A pure function of the job. In float32 a distribution depends a little on those of the same pass, so of earlier cells only
        those are remembered that each column reads first, in the same passes."""
        name, line, rule = job
        if self.column is None or self.column.name != name:
            self.column = self._column(name)
        remembering = self.column.remembering
        remembering.forget()
        if line == INTERSECTION:
            try:
                remembering = self._remembering(self.foreign)
            except ModelError as why:
                return Cell(line, rule, name, "blank", True, str(why))
        return make_cell(self.column, line, lines()[line], rule, remembering, self.ids)

    def _remembering(self, pair: LoadedPair) -> MemoizedPair:
        """No distribution after the second token affects a sample."""
        return MemoizedPair(pair, longest=len(self.ids) + LENGTH - 1)

    def _column(self, name: str) -> Column:
        """The target's distribution in cells, from separate passes: not those that the samples come from. Target and draft read the
        first tokens that are possible, as far as their memory allows: almost every sample of the column asks about them."""
        settings, eos_token_ids = replace(self.settings, **COLUMNS[name]), self.pair.eos_token_ids
        cells = exact_partition(self.pair.open(settings)[0], self.ids, LENGTH, self.plan.cells, 5.0 / self.plan.n, eos_token_ids)
        likely = int(cells.masses.argmax())
        sure = bool(cells.whole[likely]) and cells.masses[likely] > 1.0 - CERTAIN
        remembering, ids = self._remembering(self.pair), tuple(self.ids)
        target = remembering.open(settings)[0]
        probs = target.after([ids])[0]
        likely_first = probs.argsort(descending=True, stable=True)[: min(int(probs.count_nonzero()), target.capacity // 2)]
        remembering.forget()
        remembering.keep(settings, [ids, *((*ids, token) for token in likely_first.tolist())])
        lossy = [rule for name in RULES if not (rule := build_rule(replace(settings, rule=name))).exact]
        lost = {
            rule.name: 0.0 if sure else mass_never_written(remembering.open(settings)[0], ids, rule, eos_token_ids)
            for rule in lossy
        }
        return Column(name, settings, remembering, self.plan, cells, cells.names[likely] if sure else None, lost)


def mass_never_written(target: LanguageModel, ids: Sequence[int], rule: Rule, eos_token_ids: frozenset[int]) -> float:
    """The target's mass of all texts of LENGTH tokens with a token that the rule never writes at its place, in [0, 1]."""
    lost, open_ = 0.0, {(): 1.0}
    for place in range(LENGTH):
        if not open_:
            break
        paths = np.array(sorted(open_), dtype=np.int64).reshape(len(open_), place)
        grown = {}
        for where, distributions in distributions_after(target, ids, paths):
            for path, probs in zip(map(tuple, paths[where].tolist()), distributions, strict=True):
                never = rule.find_impossible_tokens(probs)
                lost += open_[path] * float(probs[never].sum())
                written = (probs * ~never).nonzero()[:, 0].tolist() if place < LENGTH - 1 else ()
                grown |= {(*path, token): open_[path] * float(probs[token]) for token in written if token not in eos_token_ids}
        open_ = grown
    return lost
