"""Heads read the hidden state left by the last pass. It equals that of a fresh pass after any accepted or rejected draft tokens."""

import random

import pytest
import torch

from specviz.models.cache.decoder import CachedModel
from specviz.randomness import Prefix
from specviz.settings import Settings
from tests.models.test_cache import V, build_network, continue_text, draw_block


@torch.inference_mode()
def compute_fresh_state(network_, ids) -> torch.Tensor:
    """Hidden state after the final norm, from which the last id was predicted."""
    return network_(input_ids=torch.tensor([ids[:-1]]), use_cache=False, output_hidden_states=True).hidden_states[-1][0, -1]


@pytest.mark.fast_cases(5)
@pytest.mark.parametrize("kind", ("Llama", "GPT2", "Gemma3Text", "OPT"))
@pytest.mark.parametrize(("shape", "rows"), (("chain", 1), ("tree", 1), ("tree", 3)))
def test_features_are_those_of_a_fresh_pass_after_random_histories(kind, shape, rows):
    network_, dice = build_network(kind), random.Random(f"{kind} {shape}")
    model = CachedModel(network_, Settings())
    texts = [tuple(dice.randrange(V) for _ in range(dice.randrange(2, 6))) for _ in range(rows)]
    for _ in range(25):
        texts = [text if len(text) > 1 else (*text, 5) for text in texts]
        prefixes = [Prefix(ids, 0, 9, draw) for draw, ids in enumerate(texts)]
        if dice.random() < 0.5:
            prefixes.reverse()
        states = model.compute_features(prefixes)
        for state, prefix in zip(states, prefixes, strict=True):
            wanted = compute_fresh_state(network_, prefix.ids)
            assert (state - wanted).abs().max() < 2e-5 * max(1.0, float(wanted.abs().max()))
        block = draw_block(dice, rows, shape)
        model.compute_logits(prefixes, block)
        for row, prefix in enumerate(prefixes):
            texts[prefix.draw] = continue_text(dice, prefix.ids, block, row)


def test_after_an_ordinary_round_features_cost_no_pass(monkeypatch):
    model, passes = CachedModel(build_network("Llama"), Settings()), []
    block = draw_block(random.Random(3), 1, "tree")
    model.compute_logits([Prefix((1, 2, 3), 0, 9)], block)
    inner = model.compute_logits
    monkeypatch.setattr(model, "compute_logits", lambda *given: passes.append(given) or inner(*given))
    for node in range(-1, len(block.tokens[0])):
        kept = []
        while node >= 0:
            kept.insert(0, block.tokens[0][node])
            node = block.parents[0][node]
        model.compute_features([Prefix((1, 2, 3, *kept, 7), 0, 9)])
    assert not passes
    model.compute_features([Prefix((4, 5, 6), 0, 9)])
    assert len(passes) == 1
