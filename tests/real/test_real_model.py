"""A public model at a real vocabulary: Gemma 3 270M, 262,144 tokens, with its own first layers as drafts.

``make test-real`` runs these tests where SPECVIZ_REAL_MODEL names the folder that tools/fetch_real_model.py writes. Durations are
printed, never asserted.
"""

from __future__ import annotations

import os
import time

import pytest
import torch

from specviz.decoding.run import record_run
from specviz.evidence.analytic.along_text import check_pair_along_text
from specviz.evidence.decoder import ENGINE, SHARED, build_decoder, count_whole_samples
from specviz.evidence.sampling.sampling_plan import SamplingPlan
from specviz.evidence.sampling.session import Session
from specviz.models.pairs.loading import load_pair
from specviz.models.uncached import UncachedModel
from specviz.progress import ignore_progress
from specviz.randomness import Prefix
from specviz.settings import Settings
from specviz.verification.draft_tree import build_empty_tree, build_token_tree
from tests.evidence.analytic.test_analytic import is_within_rounding

FOLDER = os.environ.get("SPECVIZ_REAL_MODEL", "")
pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not FOLDER, reason="SPECVIZ_REAL_MODEL names no folder; tools/fetch_real_model.py makes one"),
]
PROMPT = "The capital of France is"
LENGTH = 24
TIE = 1e-3  # logits of passes of other shapes differ by up to 1e-4
METHODS = (
    {"proposer": "draft"},
    {"proposer": "draft", "rule": "block"},
    {"proposer": "several", "num_chains": 2, "gamma": 2},
    {"proposer": "tree", "tree": "2-2"},
    {"proposer": "ngram"},
    {"proposer": "lookahead"},
    {"proposer": "early-exit", "exit_layer": 12},
    {"proposer": "uniform"},
    {"proposer": "adversarial"},
)


@pytest.fixture(scope="module")
def real_pair():
    began = time.perf_counter()
    pair = load_pair(f"{FOLDER}/target|{FOLDER}/draft-12", device="cpu", dtype="float32")
    print(f"\nloaded in {time.perf_counter() - began:.1f} s")
    return pair


@pytest.fixture(scope="module")
def greedy(real_pair):
    """The text of ``generate()``, and by how much the target's first logit leads at each of its tokens."""
    ids = real_pair.encode(PROMPT)
    text = real_pair.target.generate(
        torch.tensor([ids]), do_sample=False, max_new_tokens=LENGTH, eos_token_id=None, pad_token_id=0
    )[0]
    with torch.inference_mode():
        first, second = real_pair.target(text[None, :-1]).logits[0, len(ids) - 1 :].topk(2).values.unbind(-1)
    return tuple(text[len(ids) :].tolist()), (first - second).tolist()


@pytest.mark.parametrize("method", METHODS, ids=lambda method: "-".join(map(str, method.values())))
def test_every_method_writes_the_text_of_generate(real_pair, greedy, method):
    settings = Settings(pair=real_pair.name, prompt=PROMPT, temperature=0.0, max_new_tokens=LENGTH, **method)
    began = time.perf_counter()
    ours = record_run(real_pair, settings, bars=0).output_ids
    print(f"\n{method}: {len(ours)} tokens in {time.perf_counter() - began:.1f} s")
    text, leads = greedy
    differing = next((place for place, (one, other) in enumerate(zip(ours, text, strict=False)) if one != other), None)
    assert len(ours) in (LENGTH, len(text)) or ours[-1] in real_pair.eos_token_ids
    assert differing is None or leads[differing] < TIE


def test_cached_rows_and_trees_agree_with_passes_of_one_row_without_a_cache(real_pair):
    settings = Settings(pair=real_pair.name, temperature=1.0)
    target, ids = real_pair.open(settings)[0], real_pair.encode(PROMPT)
    fresh = UncachedModel(real_pair.target, settings, real_pair.vocabulary)
    rows = [Prefix((*ids, 600 + number), 1, 9, number) for number in range(3)]
    chains, parents = [(1000, 1001), (1000, 1002), (900, 800)], [(-1, 0)] * 3
    found = target.compute_distributions(rows, build_token_tree(chains, parents))
    for row, chain, own in zip(rows, chains, found, strict=True):
        wanted = fresh.compute_distributions((*row.ids, *chain), 3)[0]
        assert float((own - wanted).abs().sum(-1).max()) / 2 < 1e-5
    after = [Prefix((*row.ids, *chain[:1]), 2, 8, row.draw) for row, chain in zip(rows, chains, strict=True)]
    again = target.compute_distributions(after, build_empty_tree(3))[:, 0]
    assert float((again - found[:, 1]).abs().sum(-1).max()) / 2 < 1e-5, "the second draft token was rolled back"


@pytest.mark.parametrize("method", ({}, {"proposer": "early-exit", "exit_layer": 12}), ids=("draft", "early exit"))
def test_the_decoder_has_the_targets_distribution_along_a_text(real_pair, method):
    settings = Settings(pair=real_pair.name, prompt=PROMPT, gamma=2, max_new_tokens=16, **method)
    text = real_pair.encode("The capital of France is Paris, a city on the Seine with many bridges.")
    began = time.perf_counter()
    result = check_pair_along_text(real_pair, settings, text, 12)
    print(f"\nanalytic check: {result.prefixes} prefixes in {time.perf_counter() - began:.1f} s")
    assert is_within_rounding(result, 1e-5)


def test_verify_is_consistent_on_shared_distributions_and_through_the_engine(real_pair):
    settings = Settings(pair=real_pair.name, prompt=PROMPT, max_new_tokens=3, gamma=2)
    samples = 4000
    session = Session(build_decoder("speculative", real_pair, settings), SamplingPlan("both", samples, 0.3, 20.0))
    began, last = time.perf_counter(), []

    def begin_stage(name):
        last.append((name, time.perf_counter() - began))
        return ignore_progress

    record = session.run(begin_stage)
    print("\n" + "\n".join(f"{name} at {seconds:.0f} s" for name, seconds in last))
    assert [one["mode"] for one in record["answers"]] == [SHARED, ENGINE]
    shared, engine = record["answers"]
    assert shared["verdict"] == "consistent" and engine["verdict"] != "rejected"
    assert shared["whole_samples"] == count_whole_samples(samples, real_pair.vocabulary) < samples
    for one in record["answers"]:
        assert all(one["exercised"][part] for part in ("proposed", "accepted", "rejected", "residual", "bonus"))
