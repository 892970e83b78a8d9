"""Block verification accepts more draft tokens than the token rule (Sun et al. 2024, theorem 2), by an amount that is computed and then measured.

On tables both sides are enumerated: every text of the target with its mass, and every outcome of the production step. Runs of the
engine then agree within their standard errors.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from specviz.__main__ import main
from specviz.decoding.engine import step
from specviz.evidence.analytic.enumeration import enumerate_target
from specviz.models.pairs.loading import load_pair
from specviz.proposers.draft import DraftModel
from specviz.proposers.source_texts import TEXTS
from specviz.randomness import PhiloxRandomness, Prefix
from specviz.settings import Settings
from specviz.speed.measurement.acceptance import (
    AcceptanceProbabilities,
    compute_expected_rounds,
    measure_log_ratios,
    measure_token_acceptance,
)
from specviz.speed.prediction.plan_effort import PlanEffort
from specviz.speed.prediction.planning import make_plan
from specviz.speed.records.plan import SpeedPlan
from specviz.verification.block import BlockRule
from specviz.verification.token import TokenRule
from specviz.web.drafting_methods import block_gain as words
from specviz.web.drafting_methods import state as web
from tests.evidence.analytic.test_enumerate import build_worlds
from tests.helpers.chance_bands import SEED
from tests.helpers.toy_tables import DRAFTS, model
from tests.helpers.toy_tables import pair as tables
from tests.oracle import token_rule
from tests.oracle.other_rules import BlockVerification, constant
from tests.speed.measurement.test_acceptance import LENGTH, PROMPT, enumerate_rounds
from tests.speed.prediction.test_planning import command_options  # noqa: F401
from tests.verification.test_block_rule import THIRDS, build_algorithm1

FIVE = 5.0  # standard errors: sampling noise exceeds them once in 1.7 million


def count_rounds(target, draft, gamma: int) -> dict[str, float]:
    """Expected rounds under both rules from every text of the target, weighed with its mass."""
    probs = enumerate_target(target, PROMPT, LENGTH)
    texts = [(PROMPT, text) for text in probs]
    found = {
        "token": AcceptanceProbabilities.from_chain(measure_token_acceptance(target, draft, texts), gamma),
        "block": AcceptanceProbabilities.from_block_rule(measure_log_ratios(target, draft, texts), gamma),
    }
    masses = np.array(list(probs.values()))
    return {rule: float(masses @ compute_expected_rounds(one, gamma).count) for rule, one in found.items()}


@pytest.mark.fast_cases(4)
@pytest.mark.parametrize(("kind", "gamma"), [(kind, 2) for kind in DRAFTS] + [("random", 1), ("random", 3)])
def test_rounds_counted_from_texts_alone_are_those_of_the_enumerated_engine(kind, gamma):
    """The same for the token rule is in test_acceptance.py."""
    target, draft = (model(table, 3) for table in tables(kind, 3, 3, 7))
    found = count_rounds(target, draft, gamma)
    assert found["block"] == pytest.approx(enumerate_rounds(target, draft, gamma, LENGTH, BlockRule()), abs=1e-12)
    assert found["block"] <= found["token"] + 1e-12
    if gamma == 1:
        assert found["block"] == pytest.approx(found["token"], abs=1e-12)
    if (kind, gamma) == ("random", 3):
        assert found["block"] < found["token"] - 0.01


def test_the_count_is_right_for_warped_distributions_too():
    target, draft = build_worlds(4, {"temperature": 0.6, "top_p": 0.8})
    assert count_rounds(target, draft, 2)["block"] == pytest.approx(
        enumerate_rounds(target, draft, 2, LENGTH, BlockRule()), abs=1e-12
    )


def test_given_any_text_no_beginning_of_a_round_is_accepted_less_often():
    """The minimum of the products is never below the product of the minima: 4,000 places with ratios q / p on either side of 1."""
    ratios = np.random.default_rng(SEED).normal(scale=0.7, size=(40, 100))
    token = AcceptanceProbabilities.from_chain(np.minimum(1.0, np.exp(ratios)), 6).accepted.cumprod(2)
    block = AcceptanceProbabilities.from_block_rule(ratios, 6).accepted.cumprod(2)
    assert (block >= token * (1.0 - 1e-12)).all() and (block > token + 0.01).mean() > 0.3
    assert AcceptanceProbabilities.from_block_rule(np.array([[0.0, -np.inf, 1.0]]), 3).accepted[0, 0].tolist() == [1.0, 0.0, 0.0]


def test_by_hand_a_draft_token_that_is_too_frequent_is_balanced_by_one_that_is_too_rare():
    """q / p is 1/2 and then 4: both rules accept the first with probability 1/2, and then the second with 1. With 2 and then 1/4 the
    block rule accepts both with probability 1/2, the token rule with 1/4."""
    kept = AcceptanceProbabilities.from_block_rule(np.log([[0.5, 4.0, 1.0], [2.0, 0.25, 1.0]]), 2).accepted[:, 0]
    assert kept.cumprod(1).tolist() == [pytest.approx([0.5, 0.5]), pytest.approx([1.0, 0.5])]


def test_runs_of_the_engine_gain_what_the_fractions_say():
    """p = (1/3, 2/3), q = (2/3, 1/3), six draft tokens: the paper's algorithm on fractions gains 603/729 of a token. 1,000 rounds of each rule
    on the same draft tokens: the standard error of their mean difference is below 0.1, so a gain of 0 lies eight errors away."""
    p, q = map(constant, THIRDS)
    rules = BlockVerification(p, q, 6), build_algorithm1(p, q, 6)
    block, token = (token_rule.tokens_per_round(rule.round(PROMPT)) for rule in rules)
    assert block - token == Fraction(603, 729)
    rows, randomness = [Prefix(PROMPT, 0, 9, draw) for draw in range(1_000)], PhiloxRandomness(SEED)
    made = [step(rows, model(p, 2), DraftModel(model(q, 2), 6), rule, randomness) for rule in (BlockRule(), TokenRule())]
    more = np.array([len(one.committed) - len(other.committed) for one, other in zip(*made, strict=True)])
    error = more.std() / len(rows) ** 0.5
    assert error < 0.1 and abs(more.mean() - float(block - token)) < FIVE * error


def test_plan_says_what_the_block_rule_gains_and_what_it_was_measured_to_gain(command_options, capsys):  # noqa: F811
    assert main([*command_options[0], "--rule", "block", "--tokens-only", "--check", "--format", "json"]) == 0
    plan = SpeedPlan.from_json(capsys.readouterr().out)
    assert plan.settings.rule == "block" and SpeedPlan.from_json(plan.to_json()) == plan
    for row, seen in zip(plan.rows, plan.checked, strict=True):
        assert -1e-12 <= row.gain.low <= row.gain.value <= row.gain.high
        assert seen.gain.low <= seen.gain.value <= seen.gain.high
    assert plan.rows[0].gain.value == pytest.approx(0.0, abs=1e-9) == plan.checked[0].gain.value, "one draft token: one rule"
    assert main([*command_options[0], "--rule", "block", "--tokens-only"]) == 0
    said = capsys.readouterr().out
    assert "rule block" in said and said.count("above the token rule") == 1


def test_a_plan_under_the_token_rule_has_no_gain(command_options, capsys):  # noqa: F811
    assert main([*command_options[0], "--tokens-only", "--check", "--format", "json"]) == 0
    plan = SpeedPlan.from_json(capsys.readouterr().out)
    assert all(row.gain is None for row in (*plan.rows, *plan.checked))


def test_the_page_has_a_recorded_gain_that_the_measurement_holds_at_every_length():
    """Of four intervals of 95% one or two may miss; beyond five standard errors none does."""
    plan = web.load_block_gain()
    assert plan.settings.rule == "block" and [row.gamma for row in plan.rows] == [1, 2, 3, 4]
    for row, seen in zip(plan.rows[1:], plan.checked[1:], strict=True):
        error = np.hypot(row.gain.high - row.gain.low, seen.gain.high - seen.gain.low) / 3.92
        assert row.gain.low > 0.0 and abs(row.gain.value - seen.gain.value) < FIVE * error
    said, rows = words.describe_gain(plan), words.build_gain_rows(plan)
    assert (
        f"gives {words.format_gain(plan.rows[3].gain)} more tokens per target pass than the token rule at 4 draft tokens" in said
        and words.format_gain(plan.checked[3].gain) in said
    )
    assert "which agrees with the prediction" in said
    assert [row["draft tokens"] for row in rows] == [1, 2, 3, 4] and all(row["measured"] for row in rows)
    assert words.describe_gain(replace(plan, rows=(replace(plan.rows[0], gain=None),))) == ""


@pytest.mark.slow
def test_on_the_shipped_pair_the_measured_gain_is_the_counted_one():
    """128 texts of 64 tokens each way, gamma 4: the middle 95% of resamples is 3.92 errors wide, and the two differ by at most five, below 0.25."""
    settings = Settings(gamma=4, max_new_tokens=64, rule="block")
    plan = make_plan(
        load_pair("storybook"), settings, TEXTS["dorothy"].read_text(), (4,), PlanEffort(continuations=128, probes=0, check=True)
    )
    told, seen = plan.rows[0].gain, plan.checked[0].gain
    error = np.hypot(told.high - told.low, seen.high - seen.low) / 3.92
    assert told.low > 0.0 and abs(told.value - seen.value) < FIVE * error < 0.25
    assert replace(plan, checked=()).verdict == "no verdict"
