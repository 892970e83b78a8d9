"""Draws and exact laws of mutants on their own toy laws, put into cells that the law alone has fixed."""

from __future__ import annotations

import numpy as np

from specviz.decoding.sampler import decoded, shared_laws
from specviz.decoding.samples import NONE
from specviz.evidence.enumeration.enumerate import output_law, target_law
from specviz.evidence.mutants.record import on_tables
from specviz.randomness import PhiloxCoins
from specviz.statistics.cells import Cells
from tests.chance import SEED

PROMPT = (0,)


def laws(mutant, build=None, open_=None, settings=None) -> tuple[dict, dict]:
    """What it writes and what the target writes, exactly, under its own settings."""
    open_, settings = open_ or on_tables(*mutant.toy), settings or mutant.settings
    made = (build or mutant.build)(open_, settings)
    written = output_law(made.target, made.proposer, made.rule, PROMPT, settings.length, coins=made.coins)
    return written, target_law(open_(settings)[0], PROMPT, settings.length)


def first(law: dict, tokens: int) -> dict:
    """Law of the first so many tokens."""
    result: dict = {}
    for text, mass in law.items():
        result[text[:tokens]] = result.get(text[:tokens], 0.0) + mass
    return result


def pooled(law: dict, other: dict, n: int) -> tuple[Cells, dict, np.ndarray]:
    """Cells for n draws of a law, the cell of each text, and another law's masses in them."""
    texts = sorted(law)
    cells = Cells.of([law[text] for text in texts], n)
    where = dict(zip(texts, cells.cell.tolist(), strict=True))
    masses = np.zeros(len(cells.law))
    for text, mass in other.items():
        masses[where.get(text, cells.unlisted)] += mass
    return cells, where, masses


def counted(mutant, build, law: dict, n: int, first: int = 0) -> tuple[np.ndarray, Cells]:
    """Counts of n draws in the cells of a law, from draw number ``first`` on: on shared laws where the mutant can be drawn so."""
    made = build(on_tables(*mutant.toy), mutant.settings)
    draw = shared_laws if mutant.shared else decoded
    coins = made.coins(PhiloxCoins(SEED))
    samples = draw(made.target, made.proposer, made.rule, coins, mutant.settings, PROMPT, first=first, count=n)
    cells, where, _ = pooled(law, {}, n)
    counts = np.zeros(len(cells.law), dtype=np.int64)
    for row, times in zip(*samples.counts(), strict=True):
        counts[where.get(tuple(token for token in row.tolist() if token != NONE), cells.unlisted)] += times
    return counts, cells
