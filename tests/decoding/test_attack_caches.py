"""Attacks on the whole decoder with its caches: every outcome of the production step on small networks, against fresh passes.

The walk puts all open outcomes into one batch whose rows differ in their draft tokens, leave and come back: ragged trees of
columns for target and draft alike. The distribution of whole texts must be that of uncached passes of the target, in float64.
"""

from functools import cache

import pytest
import torch
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig, MistralConfig

from specviz.decoding.engine import advance_prefix, build_first_prefix, build_randomness, decode, step
from specviz.models.cache.decoder import CachedModel
from specviz.proposers.draft import DraftModel
from specviz.randomness import PhiloxRandomness
from specviz.settings import Settings
from specviz.verification.token import TokenRule
from specviz.verification.warp import warp
from tests.decoding.test_attack_distributions import enumerate_texts, measure_distance
from tests.helpers.toy_tables import Siblings, World
from tests.oracle.token_rule import target_distribution

V, CONTEXT = 4, 6
SIZES = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1}


@cache
def build_network(kind: str, vocabulary: int, seed: int, context: int):
    """A random network in float64, made once; tests only read it."""
    torch.manual_seed(seed)
    more = {"vocab_size": vocabulary, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
    match kind:
        case "gpt2":
            config = GPT2Config(n_embd=16, n_layer=2, n_head=2, n_positions=context, **more)
        case "mistral":
            config = MistralConfig(sliding_window=2, max_position_embeddings=context, **SIZES, **more)
        case "llama":
            config = LlamaConfig(max_position_embeddings=context, **SIZES, **more)
    model = AutoModelForCausalLM.from_config(config).double().eval()
    for weight in model.parameters():
        if weight.ndim == 2:
            torch.nn.init.normal_(weight, std=0.4)
    return model


@torch.inference_mode()
def compute_fresh_distribution(model, ids, settings: Settings, vocabulary: int) -> list[float]:
    probs = warp(model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1], settings).tolist()
    return probs + [0.0] * (vocabulary - len(probs))


def build_world(kind, settings, gamma, sizes=(V, V), contexts=(64, 64), eos_token_ids=frozenset()):
    """Target and draft of the sizes and contexts given, and the distribution of the target's next token without any cache."""
    target, draft = (
        build_network(kind, size, seed, context) for seed, (size, context) in enumerate(zip(sizes, contexts, strict=True))
    )
    opened = [CachedModel(model, settings, max(sizes)) for model in (target, draft)]
    known: dict = {}

    def fresh(ids):
        return (
            known[ids] if ids in known else known.setdefault(ids, compute_fresh_distribution(target, ids, settings, max(sizes)))
        )

    return World(opened[0], DraftModel(opened[1], gamma), eos_token_ids=eos_token_ids), fresh


@pytest.mark.fast_cases(4)
@pytest.mark.parametrize("kind", ("gpt2", "llama", "mistral"))
@pytest.mark.parametrize("warper", ({}, {"temperature": 0.7, "top_k": 3, "min_p": 0.2}, {"temperature": 0.0}), ids=str)
def test_whole_texts_of_a_cached_pair_have_the_distribution_of_fresh_passes(kind, warper):
    """Gamma 2, three tokens, one eos token: drafts longer than the remaining tokens, and eos tokens inside them."""
    world, fresh = build_world(kind, Settings(**warper), 2, eos_token_ids=frozenset({1}))
    assert (
        measure_distance(
            enumerate_texts(world, (0, 2, 3), length=3), target_distribution(fresh, 3, world.eos_token_ids, (0, 2, 3))
        )
        < 1e-10
    )


@pytest.mark.parametrize("sizes", ((V, V + 2), (V + 2, V)), ids=("draft wider", "target wider"))
def test_padded_vocabularies_of_a_cached_pair_keep_the_distribution(sizes):
    world, fresh = build_world("llama", Settings(top_p=0.9), 2, sizes)
    assert measure_distance(enumerate_texts(world, (0, 2), length=2), target_distribution(fresh, 2, prefix=(0, 2))) < 1e-10


@pytest.mark.fast_cases(5)
@pytest.mark.parametrize("kind", ("gpt2", "llama"))
@pytest.mark.parametrize("draft_context", (3, CONTEXT, 64))
@pytest.mark.parametrize("prompt", ((0, 2, 3, 1), (0, 2, 3, 1, 0, 2)), ids=("near", "at"))
def test_the_end_of_the_context_keeps_the_distribution_and_no_position_beyond_it_is_asked_for(kind, draft_context, prompt):
    """GPT-2 has no position beyond its context and would raise; the draft may hold less than the prompt, or more than the target."""
    world, fresh = build_world(kind, Settings(), 4, contexts=(CONTEXT, draft_context))
    expected = target_distribution(fresh, CONTEXT + 1 - len(prompt), prefix=prompt)
    assert measure_distance(enumerate_texts(world, prompt, length=50, context=CONTEXT), expected) < 1e-10


def test_a_cached_tree_with_twin_siblings_keeps_the_distribution():
    """Two draws from one distribution are often the same token: twins in the tree, with columns of their own."""
    world, fresh = build_world("mistral", Settings(temperature=0.5), 0)

    class Draft:
        def compute_probs(self, ids):
            return torch.tensor(fresh(ids), dtype=torch.float64).flip(0)

    world = World(world.target, Siblings(Draft(), (2, 1)))
    assert measure_distance(enumerate_texts(world, (0, 2), length=2), target_distribution(fresh, 2, prefix=(0, 2))) < 1e-10


@pytest.mark.parametrize("kind", ("gpt2", "mistral"))
def test_a_ragged_batch_with_rows_leaving_writes_what_each_row_writes_by_itself(kind):
    """Other lengths, other prompts, draws far apart; one row ends in nearly every round. Random numbers settle every token alike."""
    settings = Settings(gamma=3, max_new_tokens=14)
    starts = {draw: (tuple(range(1, 2 + draw % 3)), 1 + 3 * place) for place, draw in enumerate((9, 0, 2**40, 4, 2**62))}

    def decode_alone(draw):
        prompt, length = starts[draw]
        world, _ = build_world(kind, settings, 3)
        rounds = decode(
            world.target, world.proposer, TokenRule(), PhiloxRandomness(1), Settings(max_new_tokens=length), prompt, draw=draw
        )
        return [token for round_ in rounds for token in round_.committed]

    world, _ = build_world(kind, settings, 3)
    rows = [build_first_prefix(prompt, Settings(max_new_tokens=length), None, draw) for draw, (prompt, length) in starts.items()]
    written = {draw: [] for draw in starts}
    while rows:
        rounds = step(rows, world.target, world.proposer, TokenRule(), PhiloxRandomness(1))
        for row, round_ in zip(rows, rounds, strict=True):
            written[row.draw] += round_.committed
        rows = [after for after in map(advance_prefix, rows, rounds) if after.remaining][::-1]
    assert written == {draw: decode_alone(draw) for draw in starts}


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("edited", (False, True))
def test_a_run_taken_up_with_cold_caches_goes_on_as_if_never_left(edited):
    """``earlier`` rounds with chosen random numbers: the pair is opened anew and has read nothing yet."""
    settings = Settings(gamma=3, max_new_tokens=16, uniforms={(5, "accept"): 0.999, (9, "draft"): 0.0} if edited else {})

    def rest(earlier):
        world, _ = build_world("mistral", settings, 3)
        return list(
            decode(world.target, world.proposer, TokenRule(), build_randomness(settings), settings, (0, 2), earlier=earlier)
        )

    whole = rest(())
    for count in range(1, len(whole)):
        again = rest(whole[:count])
        assert [(r.committed, r.ending.kind) for r in again] == [(r.committed, r.ending.kind) for r in whole[count:]]
