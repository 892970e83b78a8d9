"""The cache of an encoder-decoder only saves computation: its logits equal those of the library's own pass over prompt and text.

Random networks whose relative position bias is as large as their other scores: a token at a wrong distance is off by about 1.
In float32 other kernels agree to some 1e-5, in float64 to 1e-10.
"""

from __future__ import annotations

import copy
import random

import pytest
import torch

from specviz.decoding.engine import advance_prefix, build_first_prefix, step
from specviz.models.cache.encoder_decoder import ConditionedModel, ConditionedPass
from specviz.proposers.draft import DraftModel
from specviz.randomness import PhiloxRandomness, Prefix
from specviz.settings import Settings
from specviz.verification.draft_tree import DraftTree, build_empty_tree
from specviz.verification.token import TokenRule
from specviz.verification.warp import warp
from tests.decoding.test_attack_distributions import enumerate_texts, measure_distance
from tests.helpers.encoder_decoders import KINDS, MARKED_KINDS, NEAR, build_tiny_encoder_decoder
from tests.helpers.toy_tables import Siblings, World
from tests.models.test_cache import V, continue_text, draw_block, find_path
from tests.oracle.token_rule import target_distribution

PROMPT = (7, 8, 9, 10, 4, 1)
SHAPES = (("chain", 1), ("tree", 1), ("chain", 3), ("tree", 3))


@torch.inference_mode()
def compute_fresh_logits(network, ids, prompt=PROMPT) -> torch.Tensor:
    """Logits after the last of the decoder's ids, by the library's forward, without a cache."""
    read, text = torch.tensor([prompt]), torch.tensor([list(ids)])
    return network(input_ids=read, decoder_input_ids=text, use_cache=False).logits[0, -1]


def open_model(network, prompt=PROMPT) -> ConditionedModel:
    return ConditionedModel(network, Settings(), None, prompt)


def compare_histories(network, shape: str, rows: int, rounds: int) -> float:
    """Largest difference from fresh passes, over ``rounds`` random rounds of accepting, rejecting and going back."""
    dice, model, worst = random.Random(f"{shape} {rows}"), open_model(network), []
    held = [(0, *(dice.randrange(V) for _ in range(dice.randrange(1, 6)))) for _ in range(rows)]
    for number in range(rounds):
        block = draw_block(dice, rows, shape)
        logits = model.compute_logits([Prefix(ids, 0, 9) for ids in held], block)
        for row in range(rows):
            places = range(-1, len(block.tokens[row]))
            for node in places if number == rounds - 1 else [dice.choice(places)]:
                ids = held[row] + tuple(block.tokens[row][i] for i in find_path(block.parents[row], node))
                worst.append((compute_fresh_logits(network, ids) - logits[row, node + 1]).abs().max())
            held[row] = continue_text(dice, held[row], block, row)
    return float(torch.stack(worst).max())  # NaN stays NaN


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("rounds", [16, pytest.param(40, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", MARKED_KINDS)
def test_cached_logits_are_those_of_a_fresh_pass_after_random_histories(kind, rounds):
    """Four times as many rounds per family: chains and trees, one row and three ragged ones, far beyond the nearest distances.

    A fault in one round of 20 is found 96 times in 100 (64 rounds), in one of 50 with 160.
    """
    network = build_tiny_encoder_decoder(kind, V)
    spread = float(compute_fresh_logits(network, (0, 4, 5)).std())
    assert 0.3 < spread < 10, "a wrong row would be seen"
    for shape, rows in SHAPES:
        assert compare_histories(network, shape, rows, rounds) < 2e-5 * max(1.0, spread), (shape, rows)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("rounds", [8, pytest.param(15, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", MARKED_KINDS)
def test_in_float64_cached_and_fresh_logits_agree_to_1e_10(kind, rounds):
    """A fault in one round of ten is found 97 times in 100 (32 rounds of four shapes), 998 times in 1,000 with 60."""
    network = build_tiny_encoder_decoder(kind, V).double()
    for shape, rows in SHAPES:
        assert compare_histories(network, shape, rows, rounds) < 1e-10


@pytest.mark.parametrize(("shape", "rows"), (("tree", 1), ("chain", 3)))
def test_distances_counted_in_columns_are_seen(monkeypatch, shape, rows):
    """The library counts this way: correct for a single chain, another distribution for a tree or a ragged batch."""
    right = ConditionedPass.add_bias

    def by_column(self, seen, where, positions):
        columns = torch.arange(where.shape[1]).expand_as(where)
        return right(self, seen, columns, columns[:, -positions.shape[1] :].expand_as(positions))

    monkeypatch.setattr(ConditionedPass, "add_bias", by_column)
    network = build_tiny_encoder_decoder("t5", V)
    assert compare_histories(network, "chain", 1, 15) < 1e-4
    assert compare_histories(network, shape, rows, 15) > 1e-2


def test_a_prompt_counts_and_requests_with_other_prompts_do_not_meet():
    network = build_tiny_encoder_decoder("t5 v1.1", V)
    prompts = (PROMPT, (5, 1), (1,))
    models = [open_model(network, prompt) for prompt in prompts]
    for length in range(1, 5):
        ids = tuple(range(length))
        found = [model.compute_logits([Prefix(ids, 0, 9)], build_empty_tree(1))[0, 0] for model in models]
        for logits, prompt in zip(found, prompts, strict=True):
            assert (logits - compute_fresh_logits(network, ids, prompt)).abs().max() < 5e-5
        assert (found[0] - found[1]).abs().max() > 1e-2


def test_the_encoder_runs_once_and_its_keys_and_values_are_made_once():
    network, runs = build_tiny_encoder_decoder("t5", V), []
    network.encoder.register_forward_hook(lambda *_: runs.append("encoder"))
    network.decoder.block[1].layer[1].EncDecAttention.k.register_forward_hook(lambda *_: runs.append("keys"))
    model = open_model(network)
    for ids in ((0,), (0, 3, 4), (0, 3, 5, 6), (0,)):
        model.compute_logits([Prefix(ids, 0, 9)], build_empty_tree(1))
    assert runs == ["encoder", "keys"]


def test_an_ordinary_round_feeds_no_token_twice(monkeypatch):
    """After full acceptance only the missing token is fed, after a rejection only the replacement."""
    fed, go = [], ConditionedPass.__call__
    monkeypatch.setattr(ConditionedPass, "__call__", lambda self, ids, *rest: fed.append(ids.shape[1]) or go(self, ids, *rest))
    model = open_model(build_tiny_encoder_decoder("mt5", V))
    chain = DraftTree(((5, 6),), ((-1, 0),), (None,), ((None, None),), "x")
    for ids in ((0, 2, 3), (0, 2, 3, 5, 6, 7), (0, 2, 3, 5, 6, 7, 8)):
        model.compute_logits([Prefix(ids, 0, 9)], chain)
    assert fed == [3 + 2, 1 + 2, 1 + 2]


def test_the_state_that_heads_read_is_what_the_output_matrix_is_applied_to():
    for kind in KINDS:
        network = build_tiny_encoder_decoder(kind, V)
        model = open_model(network)
        state = model.compute_features([Prefix((0, 4, 5, 6), 0, 9)])
        assert (network.lm_head(state)[0] - compute_fresh_logits(network, (0, 4, 5))).abs().max() < 5e-5


def test_in_half_precision_rows_that_see_nothing_stay_finite():
    """Padding of a ragged batch attends to nothing. With the bias added, its mask must not overflow."""
    for dtype in (torch.bfloat16, torch.float16):
        model = open_model(build_tiny_encoder_decoder("t5", V).to(dtype))
        block = DraftTree(((5, 6, 7), ()), ((-1, -1, 0), ()), (None, None), ((None,) * 3, ()), "x")
        for texts_ in (((0, 2, 3, 4), (0,)), ((0, 2, 3, 4, 5, 7, 8), (0, 9))):
            logits = model.compute_logits([Prefix(ids, 0, 9) for ids in texts_], block)
            assert logits[0].isfinite().all() and logits[1, 0].isfinite().all()


@pytest.mark.gpu
def test_on_a_gpu_a_tree_and_a_ragged_batch_have_the_logits_of_fresh_passes():
    network = build_tiny_encoder_decoder("t5", V)
    model = open_model(copy.deepcopy(network).to("cuda"))
    block = DraftTree(((5, 6, 7), (8,)), ((-1, -1, 0), (-1,)), (None, None), ((None,) * 3, (None,)), "x")
    for held in (((0, 2, 3, 4), (0,)), ((0, 2, 3, 4, 5, 7, 9), (0, 9))):
        logits = model.compute_logits([Prefix(ids, 0, 9) for ids in held], block).cpu()
        assert (logits[0, 3] - compute_fresh_logits(network, (*held[0], 5, 7))).abs().max() < 1e-3
        assert (logits[1, 1] - compute_fresh_logits(network, (*held[1], 8))).abs().max() < 1e-3


# Whole texts ---------------------------------------------------------------------------------------------------------------


SMALL = 4


def build_world(kind: str, settings: Settings, gamma: int, eos_token_ids=frozenset()):
    """Target and draft with four tokens, and the target's next-token distribution from fresh passes."""
    prompt = (2, 3, 1)
    target, draft = (build_tiny_encoder_decoder(kind, SMALL, seed).double() for seed in (1, 2))
    models = [ConditionedModel(network, settings, SMALL, prompt) for network in (target, draft)]
    known: dict = {}

    def probs(ids):
        return (
            known[ids]
            if ids in known
            else known.setdefault(ids, warp(compute_fresh_logits(target, ids, prompt), settings).tolist())
        )

    return World(models[0], DraftModel(models[1], gamma), eos_token_ids=eos_token_ids), probs


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize("kind", MARKED_KINDS)
@pytest.mark.parametrize("warper", ({}, {"temperature": 0.7, "top_k": 3, "min_p": 0.2}, {"temperature": 0.0}), ids=str)
def test_whole_texts_of_a_cached_pair_have_the_distribution_of_fresh_passes(kind, warper):
    """Every outcome of the production round: gamma 2, three tokens, one stop token."""
    world, probs = build_world(kind, Settings(**warper), 2, frozenset({1}))
    assert (
        measure_distance(enumerate_texts(world, (0,), length=3), target_distribution(probs, 3, world.eos_token_ids, (0,))) < 1e-10
    )


def test_a_cached_tree_with_twin_siblings_keeps_the_distribution():
    world, probs = build_world("t5", Settings(temperature=0.5), 0)

    class Draft:
        def compute_probs(self, ids):
            return torch.tensor(probs(ids), dtype=torch.float64).flip(0)

    world = World(world.target, Siblings(Draft(), (2, 1)))
    assert measure_distance(enumerate_texts(world, (0, 2), length=2), target_distribution(probs, 2, prefix=(0, 2))) < 1e-10


def test_a_ragged_batch_with_rows_leaving_writes_what_each_row_writes_alone():
    """Different lengths, distant sample numbers; a row ends in nearly every round, and the prompt's keys follow the number of rows."""
    lengths = {9: 1, 0: NEAR, 2**40: 2 * NEAR, 4: 3, 2**62: 3 * NEAR}

    def written(draws):
        world, _ = build_world("t5 v1.1", Settings(), 3)
        rows = [build_first_prefix((0,), Settings(max_new_tokens=lengths[draw]), None, draw) for draw in draws]
        result = {draw: [] for draw in draws}
        while rows:
            rounds = step(rows, world.target, world.proposer, TokenRule(), PhiloxRandomness(1))
            for row, round_ in zip(rows, rounds, strict=True):
                result[row.draw] += round_.committed
            rows = [after for after in map(advance_prefix, rows, rounds) if after.remaining][::-1]
        return result

    alone = {draw: written([draw])[draw] for draw in lengths}
    assert written(list(lengths)) == alone
    assert {draw: len(text) for draw, text in alone.items()} == lengths
