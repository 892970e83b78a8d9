"""Tokens per pass from texts of the target alone are those of the decoder: 'given the text, a checked token was an accepted draft token with
probability min(1, q / p), independently of the others'.

On tables both sides are enumerated: every text of the target with its mass, and every outcome of the production step.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from specviz.errors import SettingsError
from specviz.evidence.analytic.enumeration import Components, Enumerator, enumerate_target
from specviz.proposers.draft import DraftModel
from specviz.randomness import Prefix
from specviz.settings import Settings
from specviz.speed.measurement.acceptance import (
    AcceptanceProbabilities,
    compute_expected_rounds,
    cut_openings,
    decode_texts,
    measure_acceptance,
    measure_token_acceptance,
    refuse_unplanned,
)
from specviz.theory import compute_expected_tokens
from specviz.verification.rule import Rule
from specviz.verification.token import TokenRule
from tests.evidence.analytic.test_enumerate import build_worlds
from tests.helpers.toy_tables import model
from tests.helpers.toy_tables import pair as tables

PROMPT, LENGTH = (0,), 4
TEXT = (
    "The cat sat on the mat and looked at the dog, who ran to the brook. Then the sun went down over the hill, and all slept. "
    * 4
)


def enumerate_rounds(target, draft, gamma: int, length: int, rule: Rule | None = None) -> float:
    """Of the production step with every random number enumerated: one round, and those after it."""
    walk = Enumerator(Components(target, DraftModel(draft, gamma), rule or TokenRule()))
    known = {}

    def ahead(row: Prefix) -> float:
        if row.ids not in known:
            after = walk.list_outcomes(row, {})
            known[row.ids] = 1.0 + sum(mass * ahead(next_) for next_, mass, _ in after if next_.remaining)
        return known[row.ids]

    return ahead(Prefix(PROMPT, 0, length))


def predict_rounds(target, draft, gamma: int, length: int) -> float:
    """From every text of the target, weighed with its mass."""
    probs = enumerate_target(target, PROMPT, length)
    found = measure_token_acceptance(target, draft, [(PROMPT, text) for text in probs])
    return float(
        np.array(list(probs.values())) @ compute_expected_rounds(AcceptanceProbabilities.from_chain(found, gamma), gamma).count
    )


@pytest.mark.fast_cases(4)
@pytest.mark.parametrize(
    ("gamma", "kind"),
    [
        pytest.param(gamma, kind, marks=() if gamma == 2 or kind == "random" else pytest.mark.slow)
        for gamma in (1, 2, 3)
        for kind in ("random", "uniform", "one-hot", "disjoint", "equal")
    ],
)
def test_rounds_counted_from_texts_alone_are_those_of_the_enumerated_engine(kind, gamma):
    p, q = tables(kind, 3, 3, 7)
    target, draft = model(p, 3), model(q, 3)
    assert predict_rounds(target, draft, gamma, LENGTH) == pytest.approx(
        enumerate_rounds(target, draft, gamma, LENGTH), abs=1e-12
    )


@pytest.mark.parametrize("warper", ({"temperature": 0.0}, {"temperature": 0.6, "top_p": 0.8}), ids=str)
def test_the_count_is_right_for_warped_distributions_too(warper):
    target, draft = build_worlds(4, warper)
    assert predict_rounds(target, draft, 2, LENGTH) == pytest.approx(enumerate_rounds(target, draft, 2, LENGTH), abs=1e-12)


def test_where_easy_places_come_in_runs_one_alpha_misses_what_the_count_finds():
    """After token 1 the draft is all but right and 1 goes on; after token 0 it is mostly wrong and 0 goes on."""
    p = {0: (0.8, 0.2), 1: (0.1, 0.9)}
    q = {0: (0.1, 0.9), 1: (0.1, 0.9)}
    target, draft = (model(lambda ids, probs=probs: probs[ids[-1]], 2) for probs in (p, q))
    length, gamma = 6, 3
    exact = enumerate_rounds(target, draft, gamma, length)
    assert predict_rounds(target, draft, gamma, length) == pytest.approx(exact, abs=1e-12)
    probs = enumerate_target(target, PROMPT, length)
    found = measure_token_acceptance(target, draft, [(PROMPT, text) for text in probs])
    alpha = float(np.array(list(probs.values())) @ found.mean(1))
    plain = [[alpha] * length]
    assert (
        abs(compute_expected_rounds(AcceptanceProbabilities.from_chain(np.array(plain), gamma), gamma).count[0] / exact - 1)
        > 0.05
    )


def test_by_hand_on_three_places():
    """gamma 1: a round from 0 accepts its draft token with 0.5 and ends at 2, else at 1; from 1 the draft token is certain, and 2 is the last token."""
    found = compute_expected_rounds(AcceptanceProbabilities.from_chain(np.array([[0.5, 1.0, 0.25]]), 1), 1)
    assert found.count[0] == pytest.approx(1 + 0.5 + 0.5)
    assert found.tested[0, 0] == pytest.approx(1 + 0.5) and found.accepted[0, 0] == pytest.approx(0.5 + 0.5)
    assert found.per_pass == pytest.approx(3 / 2) and found.by_size[0].tolist() == pytest.approx([0.5, 1.5])
    assert compute_expected_rounds(AcceptanceProbabilities.from_chain(np.array([[0.5, 1.0, 0.25]]), 1), 0).count[0] == 3


def test_a_constant_acceptance_rate_gives_the_papers_equation_on_a_long_text():
    """Up to the end of the text, where the last rounds draft less: 3 tokens of 4,000."""
    found = compute_expected_rounds(AcceptanceProbabilities.from_chain(np.full((1, 4000), 0.7), 4), 4)
    assert found.per_pass == pytest.approx(compute_expected_tokens(0.7, 4), rel=1e-3)
    assert found.hazards == pytest.approx([0.7] * 4)


@pytest.mark.parametrize("proposer", ("draft", "ngram", "unigram"))
def test_greedy_rounds_are_predicted_text_by_text(pair, proposer):
    """At temperature 0 nothing is random: the decoder makes exactly the rounds that were counted without it."""
    settings = Settings(temperature=0.0, max_new_tokens=24, proposer=proposer)
    prompts = [prompt for prompt, _ in cut_openings(pair, TEXT, 8, 24, 6)]
    tokens, _, _ = decode_texts(pair, settings, prompts)
    found = measure_acceptance(pair, settings, list(zip(prompts, tokens, strict=True)), 4)
    for gamma in (1, 4):
        again, count, checked = decode_texts(pair, replace(settings, gamma=gamma), prompts, is_speculative=True)
        predicted = compute_expected_rounds(found, gamma)
        assert (again == tokens).all(), "the target's own text, whoever drafts"
        assert predicted.count.tolist() == count.tolist()
        assert predicted.accepted.sum(1).tolist() == checked[:, 1].tolist()


def test_what_the_identity_does_not_cover_is_refused():
    for wrong in (
        {"proposer": "tree"},
        {"rule": "k-seq"},
        {"rule": "typical"},
        {"draft_length_policy": "gain"},
        {"proposer": "medusa"},
    ):
        with pytest.raises(SettingsError, match="plan"):
            refuse_unplanned(Settings(**wrong))
