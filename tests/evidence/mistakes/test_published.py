"""Mistakes that real implementations have made, one claim each (rows of docs/reference/mistakes.md; the docstring gives
row and source). Enumerated distributions: test_mistakes.py; caches: tests/models/test_cache.py; here each mistake has its own test,
and where it can be put in by hand through an argument of ``step`` or ``decode``, the same test sees it.
"""

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch

from specviz.decoding.engine import decode, sample_target_only, step
from specviz.models.cache.decoder import CachedModel
from specviz.proposers.draft import DraftModel
from specviz.randomness import PhiloxRandomness, Prefix, Purpose
from specviz.settings import Settings
from specviz.verification.draft_tree import DraftTree
from specviz.verification.draw import draw_tokens
from specviz.verification.token import EmptyResidualError, TokenRule, accepts, compute_residual
from specviz.verification.warp import warp
from tests.helpers.toy_tables import (
    ScriptedRandomness,
    World,
    build_grid,
    enumerate_leaves,
    enumerate_round,
    list_interval_branches,
    model,
    pair,
)
from tests.models.test_cache import build_network
from tests.oracle.token_rule import decoder_distribution, target_distribution

V = 4
P, Q = pair("random", 1, V, 100)
TOY_P, TOY_Q = (
    (0.40, 0.30, 0.20, 0.07, 0.03),
    (0.15, 0.45, 0.25, 0.05, 0.10),
)  # the toy distributions of docs/reference/mistakes.md
WARPERS = ({}, {"temperature": 0.7}, {"top_k": 2}, {"top_p": 0.7}, {"min_p": 0.4}, {"temperature": 1.4, "top_k": 3, "top_p": 0.8})


def build_toy_world(world_rule=None, proposer=None, target=None, **warper) -> World:
    settings = Settings(**warper)
    source, draft = model(lambda ids: TOY_P, 5, settings), model(lambda ids: TOY_Q, 5, settings)
    return World(target or source, proposer or DraftModel(draft, 1), world_rule or TokenRule())


def compute_first_token_tv(world: World, exact: torch.Tensor) -> float:
    """Total variation between the first emitted token and the target's distribution, by enumeration."""
    probs = decoder_distribution(lambda ids: enumerate_round(world, Prefix(ids, 0, 9), list_interval_branches), 1)
    return sum(abs(probs.get((token,), 0.0) - float(mass)) for token, mass in enumerate(exact)) / 2


def compute_joint_tv(world: World, length: int) -> float:
    probs = decoder_distribution(lambda ids: enumerate_round(world, Prefix(ids, 0, 9), list_interval_branches), length)
    exact = target_distribution(lambda ids: tuple(world.target.compute_probs(ids).tolist()), length)
    return sum(abs(probs.get(text, 0) - exact.get(text, 0)) for text in {*probs, *exact}) / 2


@pytest.mark.parametrize("warper", WARPERS, ids=str)
def test_r1_q_is_the_very_distribution_that_the_token_was_drawn_from(warper):
    """R1: token argmax, ratio softmax (huggingface/transformers#32867, jaymody/speculative-sampling#3). Drawing again from the
    recorded q with the recorded number gives the recorded token, in every node of every round."""
    settings = Settings(max_new_tokens=12, **warper)
    for seed in range(5):
        proposer = DraftModel(model(Q, V, settings), 3)
        for round_ in decode(model(P, V, settings), proposer, TokenRule(), PhiloxRandomness(seed), settings, (0,)):
            for node, one in enumerate(round_.proposals):
                assert int(draw_tokens(round_.full.q[node], torch.tensor(one.u_draft, dtype=torch.float64))) == one.token
                assert one.q == float(round_.full.q[node, one.token])


def test_r1_an_argmax_draft_judged_by_its_softmax_is_seen():
    """R1 put in by hand: total variation .367 on the toy distributions."""

    class Argmax:
        name = "argmax"

        def propose(self, rows, randomness):
            q = torch.tensor([TOY_Q], dtype=torch.float64)
            return DraftTree(((1,),) * len(rows), ((-1,),) * len(rows), (q,) * len(rows), ((None,),) * len(rows), "argmax")

    assert compute_first_token_tv(build_toy_world(proposer=Argmax()), TOY_P) == pytest.approx(0.367, abs=5e-4)
    assert compute_first_token_tv(build_toy_world(), TOY_P) < 1e-12


@pytest.mark.parametrize("warper", WARPERS[1:], ids=str)
def test_r2_and_r4_target_and_draft_are_warped_by_one_function(warper):
    """R2: raw q beside a draw from top-k q (transformers#47932). R4: target not warped at verification (vllm#9834).
    Under every warper the first token has the warped target's distribution to 1e-12."""
    world = build_toy_world(**warper)
    assert compute_first_token_tv(world, warp(torch.tensor(TOY_P, dtype=torch.float64).log(), Settings(**warper))) < 1e-12


def compute_sample_tv(world: World, n: int = 4000) -> float:
    """Total variation between n first tokens and the target's distribution there. For five tokens its mean is below .013 and, by
    McDiarmid, a right decoder passes .05 at n = 4,000 with a chance below 2e-5."""
    rows = [Prefix((), 0, 9, number) for number in range(n)]
    counts = Counter(round_.committed[0] for round_ in step(rows, world.target, world.proposer, world.rule, PhiloxRandomness(0)))
    return sum(abs(counts[token] / n - float(mass)) for token, mass in enumerate(world.target.compute_probs(()))) / 2


def test_r2_a_raw_q_beside_a_warped_draw_is_seen():
    """R2 put in by hand at top-k 2, where the draft is drawn from the warped distribution."""
    raw = torch.tensor([TOY_Q], dtype=torch.float64)

    class RawQ(TokenRule):
        def verify(self, rows, block, p, randomness):
            return super().verify(rows, replace(block, q=(raw,) * len(rows)), p, randomness)

    assert compute_sample_tv(build_toy_world(top_k=2)) < 0.05 < compute_sample_tv(build_toy_world(RawQ(), top_k=2))


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("seed", range(3))
def test_r3_greedy_writes_the_very_tokens_of_the_target(seed):
    """R3: argmax inside softmax accept/reject (romsto/Speculative-Decoding). At T = 0 both distributions are one-hot, every random number is
    irrelevant, and tables and networks alike write what the target alone writes."""
    settings = Settings(temperature=0.0, max_new_tokens=20, seed=seed)
    for target, draft in ((model(P, V, settings), model(Q, V, settings)), open_networks(settings)):
        randomness = PhiloxRandomness(seed)
        fast = list_tokens(decode(target, DraftModel(draft, 4), TokenRule(), randomness, settings, (1, 2)))
        assert fast == list_tokens(sample_target_only(build_with_cold_cache(target), randomness, settings, (1, 2)))


def open_networks(settings: Settings):
    return CachedModel(build_network("Llama"), settings), CachedModel(build_network("GPT2"), settings)


def build_with_cold_cache(source):
    return CachedModel(source.model, source.settings) if isinstance(source, CachedModel) else source


def list_tokens(rounds) -> tuple[int, ...]:
    return tuple(token for round_ in rounds for token in round_.committed)


def test_r5_the_replacement_comes_from_the_residual():
    """R5: replacement drawn from p. Every refused token has q > p, and what replaces it has p > q; drawn from p it would not:
    on the toy distributions tokens 1, 2 and 4 hold .53 of p, so that 300 replacements would all miss them by chance below 1e-98."""
    rows = [Prefix((), 0, 9, number) for number in range(2000)]
    world = build_toy_world()
    rounds = step(rows, world.target, world.proposer, world.rule, PhiloxRandomness(0))
    refused = [round_ for round_ in rounds if round_.ending.kind == "residual"]
    assert len(refused) > 300
    for round_ in refused:
        assert TOY_Q[round_.proposals[0].token] > TOY_P[round_.proposals[0].token]
        assert TOY_P[round_.ending.token] > TOY_Q[round_.ending.token]


def test_r8_a_drawn_token_is_never_dropped():
    """R8: a token dropped because its own q is low (pattern in vllm#43522). The number of draft tokens depends on the room alone."""
    for seed in range(10):
        written = 0
        for round_ in decode(
            model(P, V), DraftModel(model(Q, V), 4), TokenRule(), PhiloxRandomness(seed), Settings(max_new_tokens=30), (0,)
        ):
            assert len(round_.proposals) == min(4, 30 - written - 1)
            written += len(round_.committed)


def test_r9_the_residual_is_indexed_by_token_id():
    """R9: subtracted by place in a sorted list (llama.cpp examples/speculative), .30 on p=(.4,0,.3,.3), q=(.5,.2,.3,0)."""
    p, q = torch.tensor(((0.4, 0.0, 0.3, 0.3), (0.5, 0.2, 0.3, 0.0)), dtype=torch.float64)
    assert compute_residual(p, q).tolist() == [0, 0, 0, 1]
    world = World(model(lambda ids: p.tolist(), 4), DraftModel(model(lambda ids: q.tolist(), 4), 1))
    assert compute_first_token_tv(world, p) < 1e-12


def test_r10_an_impossible_token_is_refused_even_by_a_uniform_of_zero():
    """R10: `u <= p/q` (sgl-project/sglang#35771). u = 0 is put in by hand; the comparison is strict."""
    assert not accepts(0.0, 0.0, 0.5) and accepts(0.0, 5e-324, 0.5)
    assert accepts(1 - 2**-53, 0.5, 0.5) and not accepts(0.5, 0.25, 0.5)
    target, draft = model(lambda ids: (0.0, 1.0), 2), model(lambda ids: (1.0, 0.0), 2)
    script = {(purpose, node): 0.0 for purpose in Purpose for node in range(2)}
    (round_,) = step([Prefix((), 0, 9)], target, DraftModel(draft, 1), TokenRule(), ScriptedRandomness([script]))
    assert round_.proposals[0].accepted is False and round_.committed == (1,)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    "kind", ("Llama", "GPT2", pytest.param("Gemma3Text", marks=pytest.mark.slow))
)  # its cache: test_cache.py
def test_r11_r14_a_run_with_caches_is_the_run_without(kind):
    """R11: cache one row off (vllm#9730, #3951, romsto#4). R14: sliding windows not rolled back (vllm#39273,
    transformers#47447). Every distribution that the engine handed to the rule is that of a fresh pass, to 5e-6 in total variation."""
    settings = Settings(max_new_tokens=24, temperature=0.9, top_k=40)
    source, draft = build_network(kind), build_network("OPT")
    for seed in range(2):
        written = (5, 6, 7)
        run = decode(
            CachedModel(source, settings),
            DraftModel(CachedModel(draft, settings), 3),
            TokenRule(),
            PhiloxRandomness(seed),
            settings,
            written,
        )
        for round_ in run:
            path = [*(one.token for one in round_.proposals)]
            for count in range(len(path) + 1):
                ids = (*written, *path[:count])
                with torch.inference_mode():
                    logits = source(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1]
                assert (warp(logits, settings) - round_.full.p[count]).abs().sum() / 2 < 5e-6
            written += round_.committed
        assert len(written) == 27


@pytest.mark.parametrize("gamma", (1, 2, 3))
def test_r12_r13_texts_stop_when_the_target_would_have_stopped(gamma):
    """R12: EOS inside an accepted block missed (transformers#47931). R13: first id of the list, not the earliest position
    (romsto, LayerSkip). The joint distribution of text and stopping time, two stop ids, equals the target's to 1e-12."""
    eos_token_ids = frozenset({1, 3})
    world = World(model(P, V), DraftModel(model(Q, V), gamma), eos_token_ids=eos_token_ids)
    length, probs, open_ = 3, {}, {(): 1.0}
    while open_:
        ids, mass = open_.popitem()
        for text, share in enumerate_round(world, Prefix(ids, len(ids), length - len(ids)), list_interval_branches).items():
            whole = ids + text
            assert not eos_token_ids & set(text[:-1])
            home = probs if whole[-1] in eos_token_ids or len(whole) == length else open_
            home[whole] = home.get(whole, 0.0) + mass * share
    exact = target_distribution(P, length, eos_token_ids)
    assert max(abs(probs.get(text, 0) - exact.get(text, 0)) for text in {*probs, *exact}) < 1e-12


def test_r15_distributions_that_agree_up_to_rounding_never_give_nan():
    """R15: residual all zero (jaymody#5). 400 pairs that differ in the last bits, or came through half precision."""
    dice = torch.Generator().manual_seed(0)
    for number in range(400):
        q = torch.rand(9, dtype=torch.float64, generator=dice)
        q /= q.sum()
        p = (q * (1 + (number % 5) * 2.0**-53)).clone()
        if number % 2:
            p, q = torch.softmax(q.bfloat16().double(), -1), torch.softmax(q.bfloat16().float().double() + 0.0, -1)
        try:
            left = compute_residual(p, q)
        except EmptyResidualError:
            assert bool((p <= q).all())
            continue
        assert bool(left.isfinite().all()) and float(left.sum()) == pytest.approx(1)
        assert bool((left[q >= p] == 0).all())
    same = torch.tensor((0.25, 0.75)).double()
    with pytest.raises(EmptyResidualError):
        compute_residual(same, same)


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16))
def test_r16_half_precision_logits_give_one_float64_distribution_for_draw_and_ratio(dtype):
    """R16: draft drawn in bf16, ratio in fp32 (deepseek-ai/DeepSpec#31, gpt-fast). Whatever the logits' dtype: distributions, recorded
    probabilities and random numbers are float64, and the token is drawn from the distribution that the ratio uses."""
    settings = Settings(max_new_tokens=6)
    source = CachedModel(build_network("Llama", dtype), settings)
    draft = CachedModel(build_network("GPT2", dtype), settings)
    for round_ in decode(source, DraftModel(draft, 2), TokenRule(), PhiloxRandomness(0), settings, (1, 2)):
        assert round_.full.p.dtype == torch.float64
        for node, one in enumerate(round_.proposals):
            assert round_.full.q.dtype == torch.float64 and one.q == float(round_.full.q[node, one.token])
            assert int(draw_tokens(round_.full.q[node], torch.tensor(one.u_draft, dtype=torch.float64))) == one.token
    assert PhiloxRandomness(0).take(Purpose.ACCEPT, [Prefix((1,), 0, 9)], 0, 0).dtype == np.float64


def test_r17_the_token_rule_keeps_what_the_token_rule_keeps():
    """R17: block verification with the token rule's residual (vllm-ascend#7807). On p=(1/3,2/3), q=(2/3,1/3), gamma 2 the
    token rule keeps 10/9 draft tokens in the mean, the block rule would keep 11/9. Counted on a grid of sixths: exact fractions."""
    third = Fraction(1, 3)
    world = World(model(lambda ids: (third, 2 * third), 2), DraftModel(model(lambda ids: (2 * third, third), 2), 2))
    kept = sum(
        len(round_.accepted_path) * weight for round_, weight in enumerate_leaves(world, Prefix((), 0, 9), build_grid(3, 6))
    )
    assert kept == Fraction(10, 9)


def test_r28_length_is_met_exactly_and_rates_of_nothing_are_no_error():
    """R28: overshoot, drafts of length zero, 0/0. With room for one token no draft token is made, and the record says so."""
    for gamma in (1, 4, 16):
        (round_,) = decode(
            model(P, V), DraftModel(model(Q, V), gamma), TokenRule(), PhiloxRandomness(0), Settings(max_new_tokens=1), (0,)
        )
        assert round_.proposals == () and round_.accepted_path == () and len(round_.committed) == 1


def test_r29_token_zero_is_a_token():
    """R29: id 0 forbidden by accident (feifeibear). It is drafted, kept, drawn as replacement and as bonus."""
    roles = set()
    for seed in range(40):
        for round_ in decode(
            model(P, V), DraftModel(model(Q, V), 2), TokenRule(), PhiloxRandomness(seed), Settings(max_new_tokens=10), (0,)
        ):
            roles |= {"kept" if one.accepted else "refused" for one in round_.proposals if one.token == 0 and one.u is not None}
            roles |= {round_.ending.kind} if round_.ending.token == 0 else set()
    assert roles >= {"kept", "refused", "residual", "bonus"}


def test_a_gate_off_by_one_is_seen():
    """Derived row: the target's distribution one position on. The next token after 0 is then certain, where p itself is the toy distribution."""

    class OffByOne(TokenRule):
        def verify(self, rows, block, p, randomness):
            return super().verify(rows, block, p.roll(-1, 1), randomness)

    target = model(lambda ids: (0.0, 0.0, 0.0, 0.0, 1.0) if ids else TOY_P, 5)
    assert (
        compute_sample_tv(build_toy_world(target=target)) < 0.05 < compute_sample_tv(build_toy_world(OffByOne(), target=target))
    )
