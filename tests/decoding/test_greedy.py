"""At temperature 0 both distributions are one-hot, so the decoder must give, token by token, what target-only sampling gives.

In fp32 that is ``model.generate(do_sample=False)``. Prompts are random cuts of a text; none was chosen.
"""

from __future__ import annotations

import random

import pytest
import torch

from specviz.decoding.run import record_run
from specviz.models.pairs.catalog import PAIRS
from specviz.models.pairs.loading import load_pair
from specviz.settings import Settings
from tests.helpers.tiny_pairs import TEXT

WORDS = TEXT[0].split()


def draw_prompts(count: int) -> list[str]:
    draw = random.Random(count)
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, 12))) for _ in range(count)]


def find_differences(pair, count: int, length: int) -> list[tuple[str, float]]:
    """Prompts on which speculative greedy decoding and generate() part, and by how much there the target's first logit leads."""
    wrong = []
    for number, prompt in enumerate(draw_prompts(count)):
        settings = Settings(prompt=prompt, temperature=0.0, gamma=number % 6, max_new_tokens=length)
        ids = pair.encode(prompt)
        theirs = pair.target.generate(torch.tensor([ids]), do_sample=False, max_new_tokens=length, pad_token_id=0)[0].tolist()
        ours = [*ids, *record_run(pair, settings, bars=0).output_ids]
        if ours != theirs:
            wrong.append((prompt, measure_lead(pair.target, ours, theirs)))
    return wrong


def measure_lead(model, ours: list[int], theirs: list[int]) -> float:
    """The largest logit minus the second where two texts part."""
    shared = next(i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b)
    first, second = model(torch.tensor([theirs[:shared]])).logits[0, -1].topk(2).values.tolist()
    return first - second


@pytest.mark.parametrize("count", [12, pytest.param(80, marks=pytest.mark.slow)], ids="{} prompts".format)
def test_greedy_is_token_identical_to_generate(pair_folders, count):
    """In float64, where random weights of this size have no ties: identity without exception."""
    pair = load_pair("|".join(map(str, pair_folders)), device="cpu", dtype="float64")
    assert find_differences(pair, count, 20) == []


@pytest.mark.parametrize("count", [8, pytest.param(200, marks=pytest.mark.slow)], ids="{} prompts".format)
def test_greedy_in_fp32_parts_from_generate_only_where_the_first_two_logits_are_one_rounding_apart(pair, count):
    """A block's pass and a single pass may round differently in the last place; some processors show it, some do not."""
    ulp = 2.0**-21  # of the logits here, which lie between 4 and 8 at most
    assert [(prompt, by) for prompt, by in find_differences(pair, count, 20) if by > 2 * ulp] == []


@pytest.mark.slow
def test_greedy_on_the_shipped_pair_is_token_identical_to_generate_on_200_prompts():
    assert PAIRS["storybook"].is_shipped
    assert find_differences(load_pair("storybook", device="cpu", dtype="float32"), 200, 32) == []


@pytest.mark.gpu
def test_greedy_on_a_gpu_in_fp32_is_token_identical_to_generate():
    pair = load_pair("storybook", device="cuda", dtype="float32")
    for prompt in draw_prompts(50):
        ids = pair.encode(prompt)
        out = pair.target.generate(torch.tensor([ids], device="cuda"), do_sample=False, max_new_tokens=32, pad_token_id=0)
        trace = record_run(pair, Settings(prompt=prompt, temperature=0.0, max_new_tokens=32), bars=0)
        assert trace.output_ids == tuple(out[0, len(ids) :].tolist())
