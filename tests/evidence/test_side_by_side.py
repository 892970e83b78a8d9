"""The two decoders of Break it: one call gives what the engine gives, text by text; several calls share what they read of the target."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from specviz.decoding.engine import decode
from specviz.decoding.samples import NONE
from specviz.evidence import decoders
from specviz.evidence.bugs.registry import MUTANTS
from specviz.evidence.bugs.side_by_side import Side, samples, written
from specviz.models import paths
from specviz.settings import Settings

SETTINGS = Settings(prompt="a", max_new_tokens=3, gamma=2, seed=7)


def quiet(share: float) -> None:
    pass


@pytest.mark.parametrize("makes", ["mistake", "nothing", "honest"])
def test_texts_and_samples_of_a_side_are_the_engines(pair, makes):
    side, ids = Side("it", MUTANTS["R5"].under(SETTINGS), "R5", makes), tuple(pair.encode("a"))
    made, randomness = side.decoder(pair)
    arguments = made.target, made.proposer, made.rule, randomness

    def texts(settings, draw):
        rounds = decode(*arguments, settings, ids, pair.eos_token_ids, draw=draw)
        return tuple(token for round_ in rounds for token in round_.committed)

    found = written(pair, side, ids, 5, 9, quiet)
    assert found.texts == tuple(texts(replace(side.settings, max_new_tokens=9), draw) for draw in range(5))
    assert found.tokens == sum(map(len, found.texts)) and 0 <= found.accepted <= found.checked and found.passes > 0
    for shared in (True, False):
        drawn = samples(pair, side, shared, ids, 2, 6, quiet)
        kept = [tuple(token for token in row if token != NONE) for row in drawn.tokens.tolist()]
        assert kept == [texts(side.settings, draw) for draw in range(2, 8)] and drawn.first == 2


def test_a_side_makes_its_mistake_and_no_other(pair):
    settings = MUTANTS["R5"].under(SETTINGS)
    rules = {makes: type(Side("it", settings, "R5", makes).decoder(pair)[0].rule) for makes in ("mistake", "nothing", "honest")}
    assert rules["mistake"] is not rules["nothing"] and rules["honest"] is type(
        Side("it", settings, None, "mistake").decoder(pair)[0].rule
    )


@pytest.mark.parametrize("kept", [1024, 3, 0])
def test_decoders_that_share_what_is_read_of_the_target_draw_what_each_draws_alone(pair, monkeypatch, kept):
    monkeypatch.setattr(paths, "KEPT", kept)
    other, told = replace(SETTINGS, seed=8), []
    asked, ids = (("speculative", SETTINGS), ("target", other)), pair.encode("a")
    together = decoders.draw_each(pair, asked, ids, 40, 300, told.append)
    for (name, settings), found in zip(asked, together, strict=True):
        alone = decoders.draw(name, decoders.SHARED, pair, settings, ids, 40, 300)
        assert np.array_equal(found.tokens, alone.tokens) and (found.first, found.source) == (40, name)
        assert found.settings == alone.settings
    assert told[-1] == 1.0 and told == sorted(told)
