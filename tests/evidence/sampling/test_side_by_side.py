"""The two decoders of Break it: one call gives what the engine gives, text by text; several calls share what they read of the target."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from specviz.decoding.engine import decode
from specviz.decoding.samples import NONE
from specviz.evidence.decoder import ENGINE, SHARED, build_decoder
from specviz.evidence.mistakes.registry import MISTAKES
from specviz.evidence.sampling.session import SamplingSpec, ShardRange, draw_shard, draw_together, write_texts
from specviz.models import continuations
from specviz.randomness import PhiloxRandomness
from specviz.settings import Settings

SETTINGS = Settings(prompt="a", max_new_tokens=3, gamma=2, seed=7)


@pytest.mark.parametrize("without_mistake", [False, True])
def test_texts_and_samples_of_a_decoder_are_the_engines(pair, without_mistake):
    settings, ids = MISTAKES["R5"].apply_settings(SETTINGS), tuple(pair.encode("a"))
    spec = SamplingSpec("R5", ENGINE, settings, ids, without_mistake, "it")
    made = spec.build(pair).reopen()
    arguments = made.target, made.proposer, made.rule, made.randomness(PhiloxRandomness(settings.seed))

    def texts(settings, draw):
        rounds = decode(*arguments, settings, ids, pair.eos_token_ids, draw=draw)
        return tuple(token for round_ in rounds for token in round_.committed)

    written, counts = write_texts(pair, spec, 5, 9)
    assert written == tuple(texts(replace(settings, max_new_tokens=9), draw) for draw in range(5))
    assert counts.tokens == sum(map(len, written)) and 0 <= counts.accepted <= counts.checked and counts.passes > 0
    for mode in (SHARED, ENGINE):
        drawn = draw_shard(pair, replace(spec, mode=mode), ShardRange(2, 6))
        kept = [tuple(token for token in row if token != NONE) for row in drawn.tokens.tolist()]
        assert kept == [texts(settings, draw) for draw in range(2, 8)] and (drawn.first, drawn.source) == (2, "it")


def test_a_decoder_has_its_mistake_and_without_it_is_plain_speculative_decoding(pair):
    settings = MISTAKES["R5"].apply_settings(SETTINGS)
    mistake, control, plain = (
        build_decoder(name, pair, settings, without_mistake=without).reopen().rule
        for name, without in (("R5", False), ("R5", True), ("speculative", False))
    )
    assert type(mistake) is not type(control) and type(control) is type(plain)


@pytest.mark.parametrize("kept", [1024, 3, 0])
def test_decoders_that_share_what_is_read_of_the_target_draw_what_each_draws_alone(pair, monkeypatch, kept):
    monkeypatch.setattr(continuations, "KEPT", kept)
    other, told = replace(SETTINGS, seed=8), []
    asked, ids = (("speculative", SETTINGS), ("target", other)), pair.encode("a")
    specs = [SamplingSpec(name, SHARED, settings, ids) for name, settings in asked]
    together = draw_together(pair, specs, ShardRange(40, 300), told.append)
    for (name, settings), found in zip(asked, together, strict=True):
        alone = build_decoder(name, pair, settings, ids).sample(SHARED, 40, 300)
        assert np.array_equal(found.tokens, alone.tokens) and (found.first, found.source) == (40, name)
        assert found.settings == alone.settings
    assert told[-1] == 1.0 and told == sorted(told)
