"""Weights are read in the fastest way for a few tokens. Every way gives the same product, and a model keeps the same weights. A draft
in 8 bits is another draft with its own distributions; the target and the distribution of the text do not change.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from specviz.evidence.analytic.along_text import check_pair_along_text
from specviz.models.cache.columns import SPARE_COLUMNS, append_columns
from specviz.models.cache.decoder import CachedModel
from specviz.models.fast_llama import layers as written
from specviz.models.fast_llama import products
from specviz.models.fast_llama.draft_8bit import is_rounded, round_weights
from specviz.models.fast_llama.products import HalfWeights, Weights, multiply
from specviz.models.pairs.catalog import PAIRS
from specviz.models.pairs.loading import load_pair
from specviz.models.pairs.names import PairPlaces
from specviz.randomness import Prefix
from specviz.settings import Settings
from specviz.verification.draft_tree import build_empty_tree
from tests.evidence.analytic.test_analytic import HELD_OUT, is_within_rounding
from tests.helpers.tiny_pairs import build_tiny_model

MATRICES = ("all", "out", "entering", "down")  # of a layer
COUNTS = (1, 2, 3, 4, 5, 8, 9, 17, 40)


def build_layers(*heights: int, width: int = 320) -> list[nn.Linear]:
    torch.manual_seed(1)
    return [nn.Linear(width, height, bias=False).requires_grad_(False) for height in heights]


@pytest.mark.parametrize("stored", (torch.float32, torch.bfloat16, torch.float16), ids=str)
@pytest.mark.parametrize("packs", (False, True))
@pytest.mark.parametrize("heights", ((16,), (512,), (256, 128, 128)), ids=str)
def test_every_way_is_the_product(packs, heights, stored):
    parts = [part.to(stored).float() for part in build_layers(*heights)]
    whole = torch.cat([part.weight for part in parts]).double()
    weights = Weights.join_layers(*parts, packs=packs)
    for count in COUNTS:
        for x in (torch.randn(1, count, 320), torch.randn(count, 2, 320)):
            found = multiply(x, weights)
            assert found.shape == (*x.shape[:2], sum(heights)) and torch.allclose(found.double(), x.double() @ whole.T, atol=1e-5)


@pytest.mark.parametrize(
    ("weights", "are"),
    [
        (torch.randn(40, 64).half().float(), True),
        (torch.randn(40, 64).bfloat16().float(), True),
        (torch.randn(40, 64).bfloat16().float() * 1e-3, False),  # too many are too small for float16
        (torch.zeros(40, 64), True),
        (torch.randn(40, 64), False),
        (torch.full((40, 64), 2.0**17), False),
        (torch.full((40, 64), torch.nan), False),
    ],
    ids=("float16", "bfloat16", "small bfloat16", "zeros", "float32", "too large", "not a number"),
)
def test_weights_are_read_as_float16_numbers_only_if_they_are_such_numbers(weights, are):
    assert (HalfWeights.convert_matrix(weights) is not None) is are


def test_float16_numbers_are_for_a_cpu_that_has_the_product_in_float32_where_copies_may_be_stored(monkeypatch):
    weights = torch.ones(8, 8)
    assert Weights(weights).halves is None and Weights(weights.double(), packs=True).halves is None
    assert Weights(weights, packs=True).halves or not products._FBGEMM
    monkeypatch.setattr(products, "_FBGEMM", False)
    assert Weights(weights, packs=True).halves is None


@pytest.mark.skipif(not products._FBGEMM, reason="this processor has no such product")
def test_every_matrix_of_the_shipped_pair_is_read_as_float16_numbers():
    pair = load_pair("storybook")
    for model in (pair.target, pair.draft):
        own = written.find_fast_weights(model)
        assert all(one.halves for one in (own.head, *(getattr(layer, name) for layer in own.layers for name in MATRICES)))


@pytest.mark.skipif(not products._FBGEMM, reason="this processor has no such product")
@pytest.mark.parametrize("width", (1, 511, 512, 513, 704, 1031, 4096))
def test_a_long_row_is_summed_in_groups_so_that_its_rounding_does_not_grow(width):
    """In one group, 4,096 numbers are 1.2e-6 from the sum in float64, relative to it."""
    torch.manual_seed(width)
    weights, tokens = torch.randn(64, width).half().float(), torch.randn(8, width)
    exact = tokens.double() @ weights.double().T
    assert (HalfWeights.convert_matrix(weights).multiply(tokens) - exact).norm() < 7e-7 * exact.norm()


@pytest.mark.parametrize("dtype", (torch.float64, torch.bfloat16))
def test_other_types_have_the_product_of_their_type(dtype):
    (part,) = build_layers(64)
    weights = Weights.join_layers(part.to(dtype), packs=True)
    for count in COUNTS:
        x = torch.randn(1, count, 320, dtype=dtype)
        assert torch.allclose(multiply(x, weights), x @ part.weight.T, atol=1e-12 if dtype is torch.float64 else 0.05)


def test_joined_layers_go_on_with_views_of_one_matrix():
    parts = build_layers(8, 4)
    before = [part.weight.clone() for part in parts]
    weights = Weights.join_layers(*parts)
    assert all(torch.equal(part.weight, old) for part, old in zip(parts, before, strict=True))
    assert {part.weight.untyped_storage().data_ptr() for part in parts} == {weights.plain.untyped_storage().data_ptr()}


def test_a_model_is_joined_and_packed_once_for_all_requests_and_a_large_one_is_not_copied(monkeypatch):
    model = build_tiny_model(50)
    assert (
        written.find_fast_weights(model) is written.find_fast_weights(model)
        and written.find_fast_weights(model).head.packs == products._ONEDNN
    )
    monkeypatch.setattr(written, "PACKED_MAX", 1000)
    assert not written.find_fast_weights(build_tiny_model(50)).head.packs


# Columns ------------------------------------------------------------------------------------------------------------------------


def test_columns_are_those_of_joining_whatever_was_dropped_or_picked_before():
    make = torch.Generator().manual_seed(2)
    held = SimpleNamespace(keys=torch.randn(2, 3, 5, 4, generator=make), values=torch.randn(2, 3, 5, 4, generator=make))
    joined = [held.keys.clone(), held.values.clone()]
    for step in range(60):
        fresh = [torch.randn(2, 3, 1 + step % 7, 4, generator=make) for _ in range(2)]
        append_columns(held, *fresh)
        joined = [torch.cat(pair, 2) for pair in zip(joined, fresh, strict=True)]
        if step % 3 == 1:  # cropped: a view of the same memory
            held.keys, held.values = held.keys[:, :, :-2], held.values[:, :, :-2]
            joined = [old[:, :, :-2] for old in joined]
        if step % 5 == 2:  # rows picked: other memory
            picked = torch.tensor([1, 1])
            held.keys, held.values = held.keys[picked], held.values[picked]
            joined = [old[picked] for old in joined]
        assert torch.equal(held.keys, joined[0]) and torch.equal(held.values, joined[1])
    assert held.keys.shape[2] > SPARE_COLUMNS


# A draft in 8 bits --------------------------------------------------------------------------------------------------------------


def test_eight_bits_say_nearly_what_the_weights_said_and_the_library_computes_with_the_same_values():
    model, exact = build_tiny_model(50), build_tiny_model(50)
    assert not is_rounded(model) and is_rounded(round_weights(model))
    for part, old in zip(model.modules(), exact.modules(), strict=True):
        if isinstance(part, nn.Linear):
            step = old.weight.abs().amax(1, keepdim=True) / 127
            assert ((part.weight - old.weight).abs() <= 0.51 * step + old.weight.abs() * 2**-8).all()
            numbers, scales = part.weight.rounded
            assert numbers.dtype is torch.int8 and torch.equal(part.weight, numbers * scales[:, None].float())
    row = Prefix(tuple(range(3, 30)), 0, 9)
    source = CachedModel(model, Settings())
    source.compute_distributions([Prefix(row.ids[:20], 0, 9)], build_empty_tree(1))
    ours, library = (
        source.compute_distributions([row], build_empty_tree(1))[0, 0],
        torch.softmax(model(torch.tensor([row.ids])).logits[0, -1].detach().double(), -1),
    )
    assert 1e-6 < (ours - library).abs().sum() / 2 < 0.1  # inputs of bfloat16; weights as small as these make steep distributions


@pytest.fixture(scope="module")
def rounded_pair():
    """The shipped pair with its draft rounded."""
    entry = PAIRS["storybook"]
    return load_pair(PairPlaces(entry.target, entry.draft, True).name)


@pytest.mark.parametrize(("columns", "eight"), [(20, False), (32, True), (40, False), (48, True)])
def test_a_matrix_whose_rows_the_product_in_8_bits_would_read_past_is_multiplied_as_it_is(columns, eight):
    """torch's product reads 16 numbers at a time. For rows of 20 it reads past the matrix, which can end the process."""
    layer = nn.Linear(columns, 24, bias=False)
    round_weights(nn.Sequential(layer))
    known = Weights.join_layers(layer)
    assert (known.rounded is not None) is eight
    x = torch.randn(1, 3, columns, generator=torch.Generator().manual_seed(1))
    assert torch.allclose(multiply(x, known), nn.functional.linear(x, layer.weight), atol=0.05)


def test_the_shipped_draft_in_8_bits_has_the_same_acceptance_rate_and_the_target_is_the_same(rounded_pair, monkeypatch):
    full = load_pair("storybook")
    assert (
        rounded_pair.is_coarse
        and not full.is_coarse
        and rounded_pair.describe()["draft"]["bits"] == 8
        and "bits" not in full.describe()["draft"]
    )
    assert all(torch.equal(a, b) for a, b in zip(rounded_pair.target.parameters(), full.target.parameters(), strict=True))
    ids = torch.tensor(full.encode(HELD_OUT)[:256]).view(-1, 64)
    with torch.inference_mode():
        p, q, rounded = (torch.softmax(m(ids).logits.double(), -1) for m in (full.target, full.draft, rounded_pair.draft))
    rate, rounded_rate = (torch.minimum(p, probs).sum(-1).mean() for probs in (q, rounded))
    assert 0 < (q - rounded).abs().sum(-1).mean() / 2 < 0.02 and abs(rate - rounded_rate) < 0.005


@pytest.mark.parametrize("positions", [8, pytest.param(40, marks=pytest.mark.slow)], ids="{} positions".format)
@pytest.mark.parametrize("warper", ({}, pytest.param({"temperature": 0.7, "top_p": 0.8}, marks=pytest.mark.slow)), ids=str)
def test_with_a_draft_in_8_bits_the_decoder_has_the_targets_distribution(rounded_pair, warper, positions):
    """A fault at a share of 0.18 of the prefixes is found 95 times in 100, from 0.07 on with 40."""
    found = check_pair_along_text(
        rounded_pair, Settings(pair=rounded_pair.name, gamma=3, **warper), rounded_pair.encode(HELD_OUT), positions
    )
    assert is_within_rounding(found) and found.prefixes >= positions and len({*found.accepted}) > 2
