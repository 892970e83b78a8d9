"""A cell counts the texts that begin with its name and with no longer name; several partitions of one prompt read it once."""

from __future__ import annotations

import numpy as np

from specviz.decoding.samples import NONE, Samples
from specviz.evidence.sampling.sampling_plan import INTERIM, make_cells
from specviz.evidence.testing.partition import Partition, build_partition
from specviz.settings import Settings


def test_a_text_falls_into_the_cell_of_its_longest_named_beginning():
    names = ((), (1,), (1, 2), (1, 2, 3), (2, 2), (3,))
    cells = Partition(names, np.ones(6) / 6, 3, np.zeros(6, dtype=bool))
    rng = np.random.default_rng(5)
    tokens = rng.integers(0, 5, (2000, 3)).astype(np.int32)
    tokens[np.arange(3) >= rng.integers(1, 4, (2000, 1))] = NONE
    wanted = dict.fromkeys(names, 0)
    for row in tokens.tolist():
        text = tuple(token for token in row if token != NONE)
        wanted[max((name for name in names if text[: len(name)] == name), key=len)] += 1
    found = cells.count_samples(Samples(tokens, {}, "x"))
    assert found.tolist() == list(wanted.values()) and found.dtype == np.int64 and min(found) > 0


def test_partitions_that_read_the_prompt_once_are_those_that_read_it_each(pair):
    settings, told = Settings(prompt="a", max_new_tokens=3), []
    cells = make_cells(pair, settings, 24, 0.002, told.append)
    target, ids, stops = pair.open(settings)[0], pair.encode("a"), pair.eos_token_ids
    alone = [build_partition(target, ids, 3, 24, 0.002, stops)]
    plans = [INTERIM.plan_look(look, 3) for look in range(5)]
    alone += [build_partition(target, ids, 3, plan.max_cells, plan.min_mass, stops) for plan in plans]
    for one, other in zip([cells.shown, *cells.tests], alone, strict=True):
        assert one.names == other.names and np.allclose(one.masses, other.masses, rtol=0, atol=1e-7)
    assert len(told) == 5
