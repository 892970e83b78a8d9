"""Every proposer under every rule, on one prompt: does the output have the target's distribution?

Each cell of the matrix is a decoder: a proposer, a rule, and sampling settings. Its samples come from ``engine.step`` on remembered
distributions (models/remembered.py), so each distribution is computed once for thousands of samples. They are tested against the
target's exact distribution, with as many samples as the wanted distance needs. The false-alarm rate is that of the whole matrix. If
the target is certain of one text, as at temperature 0, every sample must be that text.

The expected result of a lossy rule is computed, not sampled: the target's mass of all texts that contain a token which the rule
never writes, whatever is proposed. This is a lower bound of the rule's total variation from the target. If it is not 0, the rule
must be rejected. If the target is certain of one text, the rule writes that text too, and the cell says "coincides".
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context, parent_process
from multiprocessing.process import BaseProcess
from typing import Any

import numpy as np
import torch

from specviz.errors import SettingsError
from specviz.evidence.experiment import Plan
from specviz.evidence.matrix.cell import CERTAIN, LENGTH, Cell, Column, cell_of
from specviz.evidence.partition import exact_partition
from specviz.models.attachments.kinds import admit
from specviz.models.base import LanguageModel
from specviz.models.pairs.loading import Pair, load_pair
from specviz.models.paths import distributions_after
from specviz.models.remembered import RememberingPair
from specviz.proposers.registry import PROPOSERS
from specviz.settings import Settings
from specviz.statistics.finding import ALPHA, POWER
from specviz.verification.registry import RULES, rule_of
from specviz.verification.token_rule import Rule

COLUMNS: dict[str, dict[str, float]] = {"T = 0": {"temperature": 0.0}, "T = 1": {}, "top-p .9": {"top_p": 0.9}}
EFFORT = 20  # work of a cell with many samples, relative to one with few
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {  # proposers with several lines, each with its own settings
    "draft": {"draft": {}, "draft-entropy": {"lengths": "entropy"}, "draft-gain": {"lengths": "gain"}},
    "tree": {
        "tree-top": {"siblings": "top", "tree": "2-1"},
        "tree-independent": {"siblings": "independent", "tree": "2-2", "nodes": 5},  # one node of two gets a second sibling
        "tree-distinct": {"siblings": "distinct", "tree": "2-1"},
    },
    "medusa": {
        "medusa-chain": {"siblings": "independent", "tree": "1-1"},
        "medusa-tree": {"siblings": "distinct", "tree": "2-1"},
    },
}

Job = tuple[str, str, str]  # column, line, rule


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
        rules = {name: rule_of(replace(self.settings, rule=name)) for name in RULES}
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
            raise SettingsError("only", name, f"among {', '.join({**known, **PROPOSERS, **RULES})}")
    rules = [name for name in RULES if name in only] or list(RULES)
    wanted = [name for name, more in known.items() if name in only or more["proposer"] in only]
    return wanted or list(known), rules


def examine(
    pair: Pair,
    settings: Settings,
    tv: float,
    only: Sequence[str] = (),
    watch: Callable[[float, str], None] = lambda share, name: None,
    workers: int = 1,
) -> Matrix:
    """All cells, or the chosen ones. The samples do not depend on the number of worker processes.

    settings  prompt and seed; with several workers also the pair, which each of them loads by name
    tv        total variation that exact cells must detect
    only      names, as in ``chosen``
    watch     told the fraction of the work done, in [0, 1], and the last cell
    """
    names, rules = chosen(only)
    jobs = [(column, line, rule) for column in COLUMNS for line in names for rule in rules]
    if workers == 1:
        return Matrix(settings, tv, _watched(map(Worker(pair, settings, tv).cell, jobs), jobs, watch))
    with ProcessPoolExecutor(workers, get_context("spawn"), _start_worker, (settings, tv)) as pool:
        try:
            return Matrix(settings, tv, _watched(pool.map(_worker_cell, jobs), jobs, watch))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _watched(cells: Iterable[Cell], jobs: list[Job], watch: Callable[[float, str], None]) -> tuple[Cell, ...]:
    efforts = [EFFORT if COLUMNS[column].get("temperature") != 0.0 and rule != "typical" else 1 for column, _, rule in jobs]
    found, done = [], 0
    for cell, effort in zip(cells, efforts, strict=True):
        found.append(cell)
        done += effort
        watch(done / sum(efforts), f"{cell.line}, {cell.rule}, {cell.column}")
    return tuple(found)


class Worker:
    """Computes cells one after the other: a pair, a prompt, and what the cells of the current column share."""

    def __init__(self, pair: Pair, settings: Settings, tv: float):
        self.pair, self.ids = pair, pair.encode(settings.prompt)
        self.settings = replace(settings, gamma=LENGTH, length=LENGTH + 1)
        n = Plan.of(1, LENGTH, tv, self.alpha).needed
        self.plan = Plan.of(n, LENGTH, tv, self.alpha)
        self.remembering = RememberingPair(pair, longest=len(self.ids) + LENGTH - 1)
        self.column: Column | None = None

    @property
    def alpha(self) -> float:
        """False-alarm rate of one cell: ALPHA divided by the number of cells of the whole matrix, whichever are asked for."""
        return ALPHA / (len(lines()) * len(RULES) * len(COLUMNS))

    def cell(self, job: Job) -> Cell:
        name, line, rule = job
        if self.column is None or self.column.name != name:
            self.remembering.forget()
            self.column = self._column(name)
        return cell_of(self.column, line, lines()[line], rule, self.remembering, self.ids)

    def _column(self, name: str) -> Column:
        """The target's distribution in cells, from separate passes: not those that the samples come from."""
        settings, eos_token_ids = replace(self.settings, **COLUMNS[name]), self.pair.eos_token_ids
        cells = exact_partition(self.pair.open(settings)[0], self.ids, LENGTH, self.plan.cells, 5.0 / self.plan.n, eos_token_ids)
        likely = int(cells.masses.argmax())
        sure = bool(cells.whole[likely]) and cells.masses[likely] > 1.0 - CERTAIN
        target = self.remembering.open(settings)[0]
        lossy = [rule for name in RULES if not (rule := rule_of(replace(settings, rule=name))).exact]
        lost = {rule.name: 0.0 if sure else mass_never_written(target, self.ids, rule, eos_token_ids) for rule in lossy}
        return Column(name, settings, target, self.plan, cells, cells.names[likely] if sure else None, lost)


_worker: Worker | None = None  # of a worker process


def _start_worker(settings: Settings, tv: float) -> None:
    global _worker
    if parent := parent_process():
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    torch.set_num_threads(1)
    admit(settings)
    _worker = Worker(load_pair(settings.pair, settings.device, settings.dtype), settings, tv)
    gc.freeze()  # the loaded objects stay alive, so the collector need not scan them again and again


def _end_with(parent: BaseProcess) -> None:
    """End this worker process when its parent is gone, even if it was killed."""
    parent.join()
    os._exit(1)


def _worker_cell(job: Job) -> Cell:
    return _worker.cell(job)


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
                never = rule.never(probs)
                lost += open_[path] * float(probs[never].sum())
                written = (probs * ~never).nonzero()[:, 0].tolist() if place < LENGTH - 1 else ()
                grown |= {(*path, token): open_[path] * float(probs[token]) for token in written if token not in eos_token_ids}
        open_ = grown
    return lost
