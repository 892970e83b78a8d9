"""Draws and exact distributions of mutants on their own toy distributions, put into cells that the distribution alone has fixed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from specviz.decoding.sampler import Shard, sample_with_engine, sample_with_shared_distributions
from specviz.decoding.samples import NONE
from specviz.evidence.analytic.enumeration import enumerate_output, enumerate_target
from specviz.evidence.mistakes.registry import open_tables
from specviz.randomness import PhiloxRandomness
from tests.helpers.cells import PooledCells, pool_cells
from tests.helpers.chance_bands import SEED

PROMPT = (0,)
DOCS = Path(__file__).parents[2] / "docs" / "reference" / "mistakes.md"


@dataclass(frozen=True, slots=True)
class Stated:
    """What docs/reference/mistakes.md says of a mutant: total variation of the first token and of the text, and on how many of forty tables it shows."""

    first: str
    text: str
    of_forty: int


def read_stated() -> dict[str, Stated]:
    """The table of mutants in docs/reference/mistakes.md, by id."""
    rows = DOCS.read_text().split("| mutant |")[1].split("\n\n")[0].splitlines()[2:]
    cells = ([cell.strip() for cell in row.strip("|").split("|")] for row in rows)
    return {name: Stated(one, text, int(count)) for name, _, one, text, count, _ in cells}


def matches_print(number: str, value: float) -> bool:
    """Whether a value, rounded to as many digits, is the number that stands there."""
    return f"{value:.{len(number.partition('.')[2])}f}" == number


def list_distributions(mutant, build=None, open_=None, settings=None) -> tuple[dict, dict]:
    """What it writes and what the target writes, exactly, under its own settings."""
    open_, settings = open_ or open_tables(*mutant.toy), settings or mutant.settings
    made = (build or mutant.build)(open_, settings)
    written = enumerate_output(made, PROMPT, settings.max_new_tokens)
    return written, enumerate_target(open_(settings)[0], PROMPT, settings.max_new_tokens)


def sum_first_tokens(probs: dict, tokens: int) -> dict:
    """Distribution of the first so many tokens."""
    result: dict = {}
    for text, mass in probs.items():
        result[text[:tokens]] = result.get(text[:tokens], 0.0) + mass
    return result


def build_pooled_cells(probs: dict, other: dict, n: int) -> tuple[PooledCells, dict, np.ndarray]:
    """Cells for n draws of a distribution, the cell of each text, and another distribution's masses in them."""
    texts = sorted(probs)
    cells = pool_cells([probs[text] for text in texts], n)
    where = dict(zip(texts, cells.cell.tolist(), strict=True))
    masses = np.zeros(len(cells.probs))
    for text, mass in other.items():
        masses[where.get(text, cells.unlisted)] += mass
    return cells, where, masses


def count_draws(mutant, build, probs: dict, n: int, first: int = 0) -> tuple[np.ndarray, PooledCells]:
    """Counts of n draws in the cells of a distribution, from draw number ``first`` on: on shared distributions where the mutant can be drawn so."""
    made = build(open_tables(*mutant.toy), mutant.settings)
    draw = sample_with_shared_distributions if mutant.on_shared_distributions else sample_with_engine
    randomness = made.randomness(PhiloxRandomness(SEED))
    samples = draw(Shard(made.target, made.proposer, made.rule, randomness, mutant.settings, PROMPT, first=first, count=n))
    cells, where, _ = build_pooled_cells(probs, {}, n)
    counts = np.zeros(len(cells.probs), dtype=np.int64)
    for row, times in zip(*np.unique(samples.tokens, axis=0, return_counts=True), strict=True):
        counts[where.get(tuple(token for token in row.tolist() if token != NONE), cells.unlisted)] += times
    return counts, cells
