"""Remembering distributions changes neither distributions nor samples: they equal those of the cached model up to rounding, and in
float64 the engine writes the same texts with them, number by number.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch

from specviz.decoding.method_checks import build_rule
from specviz.decoding.sampler import Shard, sample_with_engine
from specviz.models.attachments.eagle import EAGLES
from specviz.models.cache.decoder import CachedModel
from specviz.models.memoized import MemoizedModel, MemoizedPair
from specviz.models.pairs.loading import load_pair
from specviz.proposers.request import open_proposer
from specviz.randomness import PhiloxRandomness, Prefix
from specviz.settings import Settings
from tests.models.test_cache import V, build_network, compute_fresh_logits, draw_block, find_path
from tests.proposers.test_eagle import save_random_head

WARPERS = ({}, {"temperature": 0.0}, {"temperature": 0.7, "top_p": 0.8}, {"top_k": 5, "min_p": 0.01})


@pytest.fixture(scope="module")
def pair64(pair_folders):
    return load_pair("|".join(map(str, pair_folders)), device="cpu", dtype="float64")


@pytest.fixture(scope="module")
def eagle(tmp_path_factory):
    return EAGLES.allow(save_random_head(tmp_path_factory.mktemp("eagle") / "head"))


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("shape", ("chain", "tree"))
def test_remembered_distributions_are_those_of_fresh_passes(shape):
    """Random draft trees over rows that return and grow: every distribution against the library's own pass, without a cache."""
    network_, dice = build_network("Llama"), random.Random(shape)
    model = MemoizedModel(CachedModel(network_, Settings()))
    for _ in range(12):
        rows = [Prefix((1, 2, *(dice.randrange(3) for _ in range(dice.randrange(3)))), 0, 9, n) for n in range(3)]
        block = draw_block(dice, 3, shape)
        distributions = model.compute_distributions(rows, block)
        for row, prefix in enumerate(rows):
            for node in range(-1, len(block.tokens[row])):
                ids = prefix.ids + tuple(block.tokens[row][i] for i in find_path(block.parents[row], node))
                assert (
                    distributions[row, node + 1] - torch.softmax(compute_fresh_logits(network_, ids).double(), -1)
                ).abs().max() < 2e-5


def test_each_distribution_is_asked_for_once(monkeypatch):
    source = CachedModel(build_network("Llama"), Settings())
    model, asked, inner = MemoizedModel(source), [], source.compute_distributions
    monkeypatch.setattr(
        source, "compute_distributions", lambda rows, block: asked.extend(row.ids for row in rows) or inner(rows, block)
    )
    dice = random.Random(1)
    for _ in range(10):
        model.compute_distributions([Prefix((1, 2), 0, 9, n) for n in range(4)], draw_block(dice, 4, "tree"))
    assert len(asked) == len(set(asked)) == len(model) > 20


def test_states_for_heads_are_those_of_the_cached_model():
    network_ = build_network("GPT2")
    remembered, cached = MemoizedModel(CachedModel(network_, Settings())), CachedModel(network_, Settings())
    rows = [Prefix((1, 2, n % 3), 0, 9, n) for n in range(6)]
    for _ in range(2):
        assert torch.allclose(remembered.compute_features(rows), cached.compute_features(rows), atol=1e-5)
        remembered.compute_distributions(rows, draw_block(random.Random(2), 6, "tree"))


METHODS = (
    ("draft", "token"),
    ("draft", "block"),
    ("tree", "token"),
    ("several", "k-seq"),
    ("early-exit", "token"),
    ("eagle", "token"),
)


@pytest.mark.fast_cases(4)
@pytest.mark.parametrize(
    ("proposer", "rule", "warper"),
    [
        pytest.param(*method, warper, marks=() if warper == {} or method == METHODS[0] else pytest.mark.slow)
        for method in METHODS
        for warper in WARPERS
    ],
)
def test_in_float64_samples_on_remembered_distributions_are_the_engines_own(pair64, eagle, proposer, rule, warper):
    settings = Settings(proposer=proposer, rule=rule, gamma=2, max_new_tokens=4, exit_layer=1, eagle=eagle, **warper)
    ids, texts = pair64.encode("Once upon"), []
    for some in (pair64, MemoizedPair(pair64)):
        target, made = open_proposer(some, settings)
        samples = sample_with_engine(
            Shard(target, made, build_rule(settings), PhiloxRandomness(7), settings, ids, some.eos_token_ids, count=60), batch=16
        )
        texts.append(samples.tokens.tolist())
    assert texts[0] == texts[1]
    assert len({tuple(text) for text in texts[0]}) > 20 or settings.temperature == 0.0


def test_memory_stays_within_its_bound_and_distributions_stay_right(monkeypatch):
    """Capacity for 20 distributions, 300 contexts: the memory is emptied again and again, and one call may hold more than 20."""
    network_ = build_network("Llama")
    model, dice = MemoizedModel(CachedModel(network_, Settings()), memory=20 * 8 * V), random.Random(5)
    for _ in range(40):
        rows = [Prefix((1, dice.randrange(300) % V, dice.randrange(3)), 0, 9, n) for n in range(3)]
        block = draw_block(dice, 3, "tree")
        distributions = model.compute_distributions(rows, block)
        assert len(model) <= 20 and len(model._table) <= 20
        assert (distributions[0, 0] - torch.softmax(compute_fresh_logits(network_, rows[0].ids).double(), -1)).abs().max() < 2e-5
    many = [Prefix((1, token), 0, 9, token) for token in range(50)]
    assert model.compute_distributions(many, draw_block(dice, 50, "chain")).shape[0] == 50 and len(model) >= 50


def test_contexts_beyond_the_longest_are_never_asked_about(monkeypatch):
    source = CachedModel(build_network("Llama"), Settings())
    model, asked, inner = MemoizedModel(source, longest=3), [], source.compute_distributions
    monkeypatch.setattr(
        source, "compute_distributions", lambda rows, block: asked.extend(row.ids for row in rows) or inner(rows, block)
    )
    block = draw_block(random.Random(7), 3, "chain")
    distributions = model.compute_distributions([Prefix((1, 2), 0, 9, n) for n in range(3)], block)
    assert max(map(len, asked)) == 3 and max(map(len, block.tokens)) > 1
    assert all(
        float(distributions[row, node].sum()) == pytest.approx(1)
        for row in range(3)
        for node in range(len(block.tokens[row]) + 1)
    )
    deep = [(row, node) for row in range(3) for node in range(2, len(block.tokens[row]) + 1)]
    assert deep and all(float(distributions[row, node, 0]) == 1 for row, node in deep)


def test_requests_of_equal_distributions_share_a_memory_and_others_do_not(pair):
    shared = MemoizedPair(pair)
    one, other = shared.open(Settings(proposer="tree", seed=3)), shared.open(Settings())
    assert one == other
    assert all(
        shared.open(Settings(**more))[0] is not one[0] for more in ({"temperature": 0.5}, {"top_p": 0.5}, {"prompt": "Once"})
    )
    assert shared.tokenizer is pair.tokenizer and shared.encode("Once") == pair.encode("Once")
    shared.forget()
    assert shared.open(replace(Settings(), seed=3))[0] is not one[0]


def test_states_of_many_texts_are_those_of_each_alone():
    network_ = build_network("Llama")
    model = MemoizedModel(CachedModel(network_, Settings()))
    texts = [
        (1, 2, 3),
        (1, 2, 4),
        (1, 5, 3),
        (1, 2, 6),
        (1, 7),
    ]  # two share all but the last token, which their states do not see
    rows = [Prefix(ids, 0, 9, number) for number, ids in enumerate(texts)]
    for some in (rows[:2], rows):
        alone = [CachedModel(network_, Settings()).compute_features([row])[0] for row in some]
        assert torch.allclose(model.compute_features(some), torch.stack(alone), atol=1e-5)


def test_what_comes_after_forgetting_does_not_depend_on_what_came_before(pair):
    """To the last bit, in float32: a cell of the matrix is a pure function of its job."""
    ids = tuple(pair.encode("the river and the"))
    kept, asked = [ids, *((*ids, token) for token in range(16))], [(*ids, token) for token in range(20, 37)]

    def build_memoized():
        made = MemoizedPair(pair, longest=len(ids) + 1)
        made.keep(Settings(), kept)
        return made

    def list_distributions(remembering):
        remembering.forget()
        return [model.compute_distributions_after([*kept, *asked]) for model in remembering.open(Settings())]

    used = build_memoized()
    for model in used.open(Settings()):
        model.compute_distributions_after([(*ids, token) for token in range(40, 45)])
        model.compute_distributions_after([ids[:2]])
    assert all(map(torch.equal, list_distributions(build_memoized()), list_distributions(used)))


def test_what_is_kept_is_not_asked_about_again_and_survives_forgetting(monkeypatch):
    """Capacity for 20, of which 8 are kept: the others come and go, and the kept ones stay the same to the last bit."""
    network_ = build_network("Llama")
    source = CachedModel(network_, Settings())
    model, asked, inner = MemoizedModel(source, memory=20 * 8 * V), [], source.compute_distributions
    kept = [(1, token) for token in range(8)]
    model.keep(kept)
    first = model.compute_distributions_after(kept)
    monkeypatch.setattr(
        source, "compute_distributions", lambda rows, block: asked.extend(row.ids for row in rows) or inner(rows, block)
    )
    for number in range(30):
        model.compute_distributions_after([(1, 2), (number % V, 5), (number % V, 6)])
        assert torch.equal(model.compute_distributions_after(kept), first) and len(model) <= 20
    assert asked and not {*asked} & {*kept}
    model.forget(source)
    assert len(model) == 8 and torch.equal(model.compute_distributions_after(kept), first)
    again = model.compute_distributions_after([(3, 5)])[0]
    assert (again - torch.softmax(compute_fresh_logits(network_, (3, 5)).double(), -1)).abs().max() < 2e-5
