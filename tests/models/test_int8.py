"""A target in int8 is another target, and speculative decoding keeps its distribution: a token's result depends on no other token of
the pass.

With one scale for the whole pass it would depend on them, and the draft tokens would change the distribution that verifies them. The
analytic check must detect this.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from specviz.errors import UnsupportedModelError
from specviz.evidence.analytic.along_text import check_pair_along_text
from specviz.evidence.serving_setups.records import TOLERANCE
from specviz.evidence.serving_setups.targets import PassScaleLinear
from specviz.models.cache.decoder import CachedModel
from specviz.models.fast_llama.int8 import LARGEST, Int8Linear, quantize_model
from specviz.models.fast_llama.layers import is_covered
from specviz.models.fast_llama.passes import open_pass
from specviz.randomness import Prefix
from specviz.settings import Settings
from specviz.verification.draft_tree import DraftTree
from tests.helpers.tiny_pairs import build_tiny_model
from tests.models.test_cache import build_network

TEXT = tuple((7 * n * n + 3 * n) % 260 for n in range(60))


@pytest.fixture(scope="module")
def small_model() -> nn.Module:
    return quantize_model(build_tiny_model(260, seed=4))


def chain(*tokens: int) -> DraftTree:
    return DraftTree((tokens,), (tuple(range(-1, len(tokens) - 1)),), (None,), ((None,) * len(tokens),), "test")


def compute_fresh_probs(model, ids: tuple[int, ...]) -> torch.Tensor:
    """The library's own pass over one text, without a cache."""
    with torch.inference_mode():
        return model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1]


def test_products_are_sums_of_whole_numbers():
    """Compared with int64 arithmetic on the rounded numbers: only the two scales are floating point."""
    torch.manual_seed(0)
    linear, x = nn.Linear(48, 20), torch.randn(5, 48)
    small = Int8Linear(linear)
    scale = x.abs().amax(1, keepdim=True) / LARGEST
    sums = (x / scale).round().long() @ small.matrix.long().t()
    assert torch.allclose(small(x), sums * scale * small.scale + linear.bias, rtol=1e-6, atol=1e-7)
    assert small.matrix.dtype is torch.int8 and int(small.matrix.abs().max()) == LARGEST
    assert (small(x) - linear(x)).abs().max() < 0.05 * linear(x).abs().max()


def test_the_distribution_after_a_prefix_does_not_know_the_draft_tokens(small_model):
    """Equal to the last bit for the same prefix with other draft tokens of the same number. With one scale for a pass they differ."""
    mutant = quantize_model(build_tiny_model(260, seed=4), PassScaleLinear)
    apart = {}
    for name, model in (("token", small_model), ("pass", mutant)):
        distributions = [
            CachedModel(model, Settings()).compute_distributions([Prefix(TEXT[:20], 0, 9)], chain(*draft_tokens))[0, 0]
            for draft_tokens in ((3, 9), (200, 41))
        ]
        apart[name] = float((distributions[0] - distributions[1]).abs().sum() / 2)
    assert apart["token"] == 0.0 and apart["pass"] > 1e-3


def test_distributions_are_those_of_the_librarys_own_pass_and_not_the_float_weights(small_model):
    """Along a text, several tokens at a time and one by one. The float model's distributions are a hundred times as far away."""
    model, cached = build_tiny_model(260, seed=4), CachedModel(small_model, Settings())
    for length in range(10, 50, 4):
        distributions = cached.compute_distributions([Prefix(TEXT[:length], 0, 9)], chain(*TEXT[length : length + 3]))[0]
        for node in range(4):
            ids = TEXT[: length + node]
            own, other = (torch.softmax(compute_fresh_probs(one, ids).double(), -1) for one in (small_model, model))
            assert (distributions[node] - own).abs().sum() / 2 < 0.02 * (own - other).abs().sum()
    assert len(cached._pass.written) == 2, "the layers are written out, and their products are the int8 ones"


def test_an_int8_matrix_has_no_float_weights_to_be_served_by_mistake(small_model):
    for part in small_model.modules():
        assert not isinstance(part, Int8Linear) or not any(
            value.dtype.is_floating_point and value.ndim > 1 for value in part.buffers()
        )
        assert type(part) is not nn.Linear
    assert not hasattr(small_model.lm_head, "weight")
    assert type(small_model.lm_head) is Int8Linear and is_covered(small_model)


def test_matrices_in_a_form_that_is_not_known_are_left_to_their_own_code():
    """As after another library's quantization: a layer that doubles its output must be called, not replaced by its weights."""

    class Doubled(nn.Linear):
        def forward(self, x):
            return 2.0 * super().forward(x)

    model = build_tiny_model(260, seed=4)
    for owner in (model.model.layers[1].mlp, model):
        name = "lm_head" if owner is model else "down_proj"
        other = Doubled(getattr(owner, name).in_features, getattr(owner, name).out_features, bias=False)
        other.weight = getattr(owner, name).weight
        setattr(owner, name, other)
    assert not is_covered(model) and not open_pass(model).written
    cached = CachedModel(model.eval(), Settings())
    for length in (5, 12, 13):
        probs = cached.compute_distributions([Prefix(TEXT[:length], 0, 9)], chain(1, 2))[0, 0]
        assert (probs - torch.softmax(compute_fresh_probs(model, TEXT[:length]).double(), -1)).abs().max() < 2e-5


def test_quantizing_leaves_the_model_as_it_was_and_refuses_what_it_cannot():
    model = build_tiny_model(260, seed=4)
    before = compute_fresh_probs(model, TEXT[:9]).clone()
    quantize_model(model)
    assert torch.equal(compute_fresh_probs(model, TEXT[:9]), before)
    with pytest.raises(UnsupportedModelError, match="quantized here; this one is bfloat16 on cpu"):
        quantize_model(build_tiny_model(260).to(torch.bfloat16))
    with pytest.raises(UnsupportedModelError, match="gpt2"):
        quantize_model(build_network("GPT2"))


def test_speculation_keeps_the_distribution_of_a_quantized_target_and_one_scale_for_a_pass_is_caught(pair):
    """The decoder with its caches against fresh passes of the same int8 target: only float32 rounding at most places. (Sometimes a
    number close to a half is rounded the other way, in large models at many places.) The mistake changes most places by far more."""
    settings, found = Settings(gamma=3), {}
    for name, kind in (("token", Int8Linear), ("pass", PassScaleLinear)):
        other = replace(pair, target=quantize_model(pair.target, kind))
        found[name] = check_pair_along_text(other, settings, TEXT * 2, positions=24)
    assert found["token"].median <= TOLERANCE
    assert found["pass"].median > 0.01
