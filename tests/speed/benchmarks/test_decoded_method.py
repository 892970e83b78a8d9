"""A method that no plan can count is measured by decoding: counts are those of the decoder's rounds, speeds are beside target-only sampling."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specviz.settings import Settings
from specviz.speed.benchmarks import decoded_method
from specviz.speed.benchmarks.decoded_method import choose_gammas, measure_method
from specviz.speed.measurement.acceptance import cut_openings
from specviz.speed.measurement.timed_decoding import decode_speculatively
from tests.helpers.tiny_pairs import TEXT

LENGTH, OPENING, TEXTS = 12, 8, 4
LOOKAHEAD = Settings(proposer="lookahead", max_new_tokens=LENGTH, num_chains=1)


@pytest.fixture
def text():
    return TEXT[0] * 20


def test_counts_are_those_of_the_rounds_that_the_decoder_makes(pair, text):
    """Each text has a seed of its own, and all lengths of draft write it."""
    found = measure_method(pair, LOOKAHEAD, text, TEXTS, OPENING, 2, is_timed=False)
    prompts = [prompt for prompt, _ in cut_openings(pair, text, OPENING, LENGTH, TEXTS)]
    for row, gamma in zip(found.rows, decoded_method.GAMMAS, strict=True):
        own = [replace(LOOKAHEAD, gamma=gamma, seed=LOOKAHEAD.seed + 1 + number) for number in range(TEXTS)]
        texts = [list(decode_speculatively(pair, one, prompt)) for one, prompt in zip(own, prompts, strict=True)]
        assert row.gamma == gamma and row.tokens.value == pytest.approx(TEXTS * LENGTH / sum(map(len, texts)))
    rounds = [one for each in texts for one in each]
    assert found.drafted.value == pytest.approx(sum(bool(one.proposals) for one in rounds) / len(rounds))
    first = [one.proposals[0].accepted for one in rounds if one.proposals]
    assert found.positions[0].value == pytest.approx(sum(map(bool, first)) / len(first))
    assert all(row.factor is None for row in found.rows) and "without speed" in found.in_words


def test_speeds_are_beside_target_only_sampling_of_as_many_texts(pair, text, monkeypatch):
    monkeypatch.setattr(decoded_method, "find_baseline", lambda *_: None)
    found = measure_method(pair, LOOKAHEAD, text, TEXTS, OPENING, 2)
    for row in found.rows:
        ratios = [fast / alone for fast, alone in zip(row.rate, found.target_only_rates, strict=True)]
        assert row.factor.n == 2 and row.factor.value == pytest.approx(sum(ratios) / 2)  # the median of two runs
    assert found.in_words.startswith("No verdict: a measured speed was measured in 2 runs")


def test_a_tree_of_a_shape_has_one_row_under_the_length_of_its_longest_path(pair, text):
    tree = Settings(proposer="tree", tree="2-1-1", max_new_tokens=LENGTH)
    assert choose_gammas(tree) == (tree.gamma,) and choose_gammas(LOOKAHEAD) == decoded_method.GAMMAS
    found = measure_method(pair, tree, text, 2, OPENING, 1, is_timed=False)
    (row,) = found.rows
    assert row.gamma == 3 and len(found.positions) <= 3 and found.drafted.value > 0.5
