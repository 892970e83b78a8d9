"""Exact decoders of six kinds pass the audit's tests of samples, seed after seed.

An exact decoder is rejected once in 1,000 seeds. Two or more of 20 seeds are rejected with a probability of 2e-4, so a kind fails by chance once in
5,000 choices of its seeds. tests/evidence/sampling/test_whole_texts.py does the same for whole texts.
"""

from __future__ import annotations

from functools import partial

import pytest

from specviz.evidence.sampling.sample_files import report_against_weights
from specviz.evidence.testing.hypothesis_tests import TestPlan
from specviz.progress import ignore_progress
from tests.audit.served import build_sample_file, build_settings, draw_mistaken_samples
from tests.helpers.proposer_cases import CASES

KINDS = {
    "token by token": {},
    "block verification": {"rule": "block"},
    "several chains, k-sequential selection": CASES["several"] | {"rule": "k-seq"},
    "tree of distinct siblings": CASES["tree, distinct"],
    "tokens by frequency": CASES["unigram"],
    "adaptive draft length": CASES["gain"],  # the entropy policy never stops a chain on this pair
}
SAMPLES, COLD = 400, 0.3  # at this temperature samples share their prefixes


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_exact_decoders_pass_at_20_seeds(kind, pair):
    settings, verdicts = build_settings(pair, temperature=COLD), []
    for seed in range(20):
        samples = draw_mistaken_samples("speculative", pair, SAMPLES, temperature=COLD, seed=seed, **KINDS[kind])
        assert samples.coverage.accepted > 0, "something was drafted"
        plan = partial(TestPlan.for_distance, tv=0.3)
        report = report_against_weights(build_sample_file(samples), settings, plan, pair, ignore_progress)
        verdicts.append(report["verdict"])
    assert verdicts.count("rejected") <= 1 and "too few samples" not in verdicts


@pytest.mark.slow
def test_each_kind_draws_samples_of_its_own(pair):
    """Two kinds with the same random numbers and equal samples would be one decoder, tested twice. No chance: seed 0."""
    drawn = {
        draw_mistaken_samples("speculative", pair, SAMPLES, temperature=COLD, seed=0, **changes).tokens.tobytes()
        for changes in KINDS.values()
    }
    assert len(drawn) == len(KINDS)
