"""Logits -> distribution, once for p, q and the baseline. 'we can treat argmax, top-k, nucleus and temperature as sampling from
an adjusted distribution' (Leviathan et al. 2023, section 2.2): what ``warp`` returns is that distribution."""

import math
import random

import pytest
import torch
from transformers.generation.logits_process import (
    LogitsProcessorList,
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from specviz.errors import ModelError
from specviz.settings import Settings
from specviz.verification.warp import warp

INF = math.inf


def warp_logits(logits, **warper) -> list[float]:
    return warp(torch.tensor(logits, dtype=torch.float64), Settings(**warper)).tolist()


def warp_masses(masses, **warper) -> list[float]:
    return warp_logits([math.log(mass) if mass else -INF for mass in masses], **warper)


def test_no_warper_is_the_softmax_in_float64():
    logits = torch.randn(3, 50, generator=torch.Generator().manual_seed(0))
    got = warp(logits, Settings())
    assert got.dtype == torch.float64
    assert torch.equal(got, torch.softmax(logits.double() - logits.double().amax(-1, keepdim=True), -1))


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16, torch.float32, torch.float64))
def test_every_input_dtype_gives_a_float64_distribution_that_sums_to_one(dtype):
    logits = torch.randn(2, 3, 40, generator=torch.Generator().manual_seed(1)).to(dtype)
    for warper in ({}, {"temperature": 0.0}, {"temperature": 0.7, "top_k": 5, "top_p": 0.9, "min_p": 0.05}):
        got = warp(logits, Settings(**warper))
        assert got.dtype == torch.float64 and got.shape == logits.shape
        assert (got.sum(-1) - 1).abs().max() < 1e-14
        assert torch.equal(got, warp(logits.double(), Settings(**warper))), "half precision is only widened"


def test_greedy_is_certain_of_the_smallest_id_among_ties():
    assert warp_logits([1.0, 3.0, 3.0, 2.0, 3.0], temperature=0.0) == [0, 1, 0, 0, 0]
    assert warp_logits([[5.0, 5.0], [1.0, 2.0], [-INF, 0.0]], temperature=0.0) == [[1, 0], [0, 1], [0, 1]]


def test_greedy_ties_of_half_precision_are_settled_alike():
    """bf16 makes ties: 8 bits. Each row's first largest entry, also where other rows have no tie."""
    logits = torch.randn(200, 500, generator=torch.Generator().manual_seed(2)).to(torch.bfloat16)
    got = warp(logits, Settings(temperature=0.0)).argmax(-1).tolist()
    rows = logits.tolist()
    assert got == [row.index(max(row)) for row in rows]


@pytest.mark.parametrize("temperature", (1e-300, 5e-324, 1e-12))
def test_a_tiny_temperature_neither_overflows_nor_divides_by_zero(temperature):
    assert warp_logits([1.0, 3.0, 2.0, -INF], temperature=temperature) == [0, 1, 0, 0]
    assert warp_logits([3.0, 1.0, 3.0], temperature=temperature) == [0.5, 0, 0.5], "a true tie stays a random number toss"
    assert warp_logits([-1e30, 1e30], temperature=temperature) == [0, 1]


def test_temperature_is_the_power_of_the_distribution():
    masses = [0.5, 0.3, 0.2]
    powered = [mass ** (1 / 0.7) for mass in masses]
    assert warp_masses(masses, temperature=0.7) == pytest.approx([mass / sum(powered) for mass in powered], abs=1e-15)


def test_impossible_tokens_stay_impossible_through_every_warper():
    logits = [0.0, -INF, 1.0, -INF, 0.5]
    for warper in ({}, {"temperature": 0.0}, {"temperature": 5.0}, {"top_k": 4}, {"top_p": 0.999}, {"min_p": 1e-9}):
        got = warp_logits(logits, **warper)
        assert got[1] == got[3] == 0 and sum(got) == pytest.approx(1, abs=1e-15)


@pytest.mark.parametrize("warper", ({}, {"temperature": 0.0}, {"temperature": 0.5, "top_k": 3, "top_p": 0.1, "min_p": 1.0}))
def test_a_single_possible_token_is_certain(warper):
    assert warp_logits([-INF, -INF, -7.0, -INF], **warper) == [0, 0, 1, 0]
    assert warp_logits([3.0], **warper) == [1]


@pytest.mark.parametrize("k", range(1, 8))
def test_top_k_keeps_exactly_k_and_smaller_ids_first_among_ties(k):
    """Row R32: one cut for p and q, ties settled once."""
    logits = [1.0, 2.0, 2.0, 0.0, 2.0, 1.0, 1.0]
    order = [1, 2, 4, 0, 5, 6, 3]
    got = warp_logits(logits, top_k=k)
    assert sorted(i for i, mass in enumerate(got) if mass) == sorted(order[:k])


def test_top_k_beyond_the_vocabulary_changes_nothing():
    assert warp_logits([1.0, 2.0, 3.0], top_k=100) == warp_logits([1.0, 2.0, 3.0], top_k=3) == warp_logits([1.0, 2.0, 3.0])


def test_top_p_stops_at_the_token_that_reaches_the_mass():
    """Masses are powers of two, so sums are exact: 0.5 + 0.25 reaches 0.75 exactly, and no third token remains."""
    masses = [0.125, 0.5, 0.25, 0.125]
    assert warp_masses(masses, top_p=0.75) == pytest.approx([0, 2 / 3, 1 / 3, 0], abs=1e-15)
    assert warp_masses(masses, top_p=0.7500001)[0] > 0 == warp_masses(masses, top_p=0.7500001)[3]
    assert warp_masses(masses, top_p=0.5) == [0, 1, 0, 0]
    assert warp_masses(masses, top_p=1e-300) == [0, 1, 0, 0], "never empty"
    assert warp_masses(masses, top_p=1.0) == warp_masses(masses)


def test_top_p_ties_keep_smaller_ids_first():
    assert warp_masses([0.25] * 4, top_p=0.5) == [0.5, 0.5, 0, 0]


def test_min_p_keeps_tokens_that_reach_the_fraction_of_the_largest():
    masses = [0.5, 0.25, 0.125, 0.125]
    assert warp_masses(masses, min_p=0.5) == pytest.approx([2 / 3, 1 / 3, 0, 0], abs=1e-15)
    assert warp_masses(masses, min_p=0.51) == [1, 0, 0, 0]
    assert warp_masses(masses, min_p=0.25) == pytest.approx(masses, abs=1e-15)
    assert warp_masses([0.5, 0.5], min_p=1.0) == [0.5, 0.5]


def test_cuts_are_made_in_order_each_on_the_survivors_of_the_last():
    """top-k 2 of (0.4, 0.3, 0.2, 0.1) leaves (4/7, 3/7); top-p 0.55 then leaves one. Top-p first would have left two."""
    masses = [0.4, 0.3, 0.2, 0.1]
    assert warp_masses(masses, top_k=2, top_p=0.55) == [1, 0, 0, 0]
    assert [mass > 0 for mass in warp_masses(masses, top_p=0.55)] == [True, True, False, False]
    hot = warp_masses(masses, temperature=5.0, min_p=0.5)
    assert all(hot), "the temperature comes before min-p: .1 is a quarter of .4, but its fifth root is not"


def draw_combinations():
    dice = random.Random(0)
    for _ in range(40):
        yield {
            name: value
            for name, value in (
                ("temperature", dice.choice((0.3, 0.7, 1.0, 1.7))),
                ("top_k", dice.choice((None, 1, 3, 10, 49))),
                ("top_p", dice.choice((None, 0.1, 0.5, 0.9, 0.999))),
                ("min_p", dice.choice((None, 0.01, 0.2, 0.9))),
            )
            if value is not None
        }


def test_distributions_are_those_of_transformers_own_processors():
    """Away from ties the definitions agree: temperature, top-k, top-p, min-p, in this order; 40 combinations, 20 distributions each."""
    logits = 2 * torch.randn(20, 50, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    for warper in draw_combinations():
        steps = LogitsProcessorList([TemperatureLogitsWarper(warper["temperature"])])
        steps += [TopKLogitsWarper(warper["top_k"])] if "top_k" in warper else []
        steps += [TopPLogitsWarper(warper["top_p"])] if "top_p" in warper else []
        steps += [MinPLogitsWarper(warper["min_p"])] if "min_p" in warper else []
        theirs = torch.softmax(steps(None, logits.clone()), -1)
        assert (warp(logits, Settings(**warper)) - theirs).abs().max() < 1e-13, warper


def test_a_vocabulary_of_152064_is_warped_like_any_other():
    logits = torch.randn(2, 152_064, generator=torch.Generator().manual_seed(4))
    got = warp(logits, Settings(temperature=0.7, top_k=50, top_p=0.95, min_p=0.01))
    assert (got.sum(-1) - 1).abs().max() < 1e-14
    assert 1 <= int((got > 0).sum(-1).max()) <= 50
    assert torch.equal(got.argmax(-1), logits.argmax(-1))


def test_the_logits_are_only_read():
    logits = torch.randn(4, 30, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    before = logits.clone()
    for warper in ({}, {"temperature": 0.0}, {"temperature": 0.5, "top_k": 3, "top_p": 0.4, "min_p": 0.3}):
        warp(logits, Settings(**warper))
        assert torch.equal(logits, before)


@pytest.mark.parametrize("bad", ([0.0, math.nan], [0.0, INF], [-INF, -INF]))
@pytest.mark.parametrize("temperature", (0.0, 0.7, 1.0))
def test_logits_that_are_no_distribution_are_refused_with_a_sentence(bad, temperature):
    """Half precision overflows to NaN; every comparison with NaN is false, so a rule would accept every draft token."""
    with pytest.raises(ModelError, match="not finite"):
        warp_logits([[0.0, 1.0], bad], temperature=temperature)


@pytest.mark.parametrize("temperature", (0.0, 0.7, 1.0))
def test_one_such_number_is_found_wherever_it_stands(temperature):
    for width in (3, 17, 4097):
        for place in (0, 1, width // 2, width - 1):
            for bad in (math.nan, INF):
                logits = torch.randn(3, width, generator=torch.Generator().manual_seed(7))
                warp(logits, Settings(temperature=temperature))
                logits[1, place] = bad
                with pytest.raises(ModelError, match="not finite"):
                    warp(logits, Settings(temperature=temperature))


def test_rows_of_a_batch_do_not_influence_each_other():
    """Ties in one row must not change how another is cut."""
    logits = torch.randn(6, 30, generator=torch.Generator().manual_seed(6))
    logits[2] = 1.0
    for warper in ({"temperature": 0.0}, {"top_k": 4}, {"top_p": 0.5}, {"min_p": 0.3}):
        together = warp(logits, Settings(**warper))
        assert all(torch.equal(together[row], warp(logits[row], Settings(**warper))) for row in range(6))
