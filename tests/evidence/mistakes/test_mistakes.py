"""Each published mistake, as an argument of ``decode``, is caught by the evidence it names and under the settings it names; the
decoder without the mistake passes the same check. Distances are enumerated, never typed in; those of docs/reference/mistakes.md are
read from there and compared with them.

Chance: each sampled check rejects a right decoder, and misses its mutant, once in 10,000 choices of the seed; n comes from the
enumerated distribution. Both kinds of check run 17 times, so that the file fails by chance once in 290 choices of its one seed.
"""

from itertools import count

import numpy as np
import pytest
import torch
from scipy import integrate

from specviz.decoding.engine import step
from specviz.evidence.analytic.enumeration import (
    Components,
    compute_text_tv,
    enumerate_output,
    enumerate_target,
)
from specviz.evidence.mistakes.components import address_by_position
from specviz.evidence.mistakes.published import COMPONENTS, UNSAMPLED_TIERS
from specviz.evidence.mistakes.registry import MISTAKES, TOY_P, TOY_Q, enumerate_tv, open_tables, with_rule
from specviz.proposers.draft import DraftModel
from specviz.randomness import Prefix, Purpose
from specviz.settings import Settings
from specviz.statistics.goodness import compute_chi_square
from specviz.statistics.power import compute_noncentrality
from specviz.verification.block import BlockRule
from specviz.verification.draft_tree import build_empty_tree
from specviz.verification.token import TokenRule
from tests.helpers import toy_tables
from tests.helpers.mutant_draws import (
    PROMPT,
    build_pooled_cells,
    count_draws,
    list_distributions,
    matches_print,
    read_stated,
    sum_first_tokens,
)
from tests.helpers.round_cases import compute_tokens_per_pass

RARELY = 1e-4
SEEN_BY_DRAWS = [mutant.id for mutant in MISTAKES.values() if mutant.tier == "sampled"]
MANY_DRAWS = ("penalty-twice", "one-hot-residual", "R20", "best-drawn", "first-unverified")  # the dearest in draws


# The records ---------------------------------------------------------------------------------------------------------------


def test_every_row_marked_as_a_mutant_is_there():
    rows = {f"R{n}" for n in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 16, 18, 20, 21, 35)}
    assert rows | {"gate", "pass-temperature", "kept-rest", "no-bonus", "best-drawn"} <= set(MISTAKES)


@pytest.mark.parametrize("mutant", MISTAKES.values(), ids=MISTAKES)
def test_each_record_says_what_is_wrong_where_it_is_from_and_what_must_catch_it(mutant):
    assert mutant.component in COMPONENTS and mutant.tier in ("sampled", *UNSAMPLED_TIERS) and mutant.thread
    assert mutant.description.endswith(".") and mutant.description.count(". ") == 0, "one sentence"
    wanted = mutant.apply_settings(Settings(seed=3, prompt="x"))
    assert (wanted.seed, wanted.prompt) == (3, "x")
    assert (wanted.gamma, wanted.max_new_tokens, wanted.top_k) == (
        mutant.settings.gamma,
        mutant.settings.max_new_tokens,
        mutant.settings.top_k,
    )


# Distances -----------------------------------------------------------------------------------------------------------------


def test_the_documented_distances_are_those_of_every_mutant():
    assert list(read_stated()) == list(MISTAKES)


@pytest.mark.fast_cases(10)  # the distance of the text is computed for all
@pytest.mark.parametrize("name", MISTAKES)
def test_the_distance_of_the_first_token_is_the_documented_one(name):
    written, exact = list_distributions(MISTAKES[name])
    assert matches_print(read_stated()[name].first, compute_text_tv(sum_first_tokens(written, 1), sum_first_tokens(exact, 1)))


@pytest.mark.parametrize("name", MISTAKES)
def test_the_distance_of_the_text_is_the_documented_one(name):
    assert matches_print(read_stated()[name].text, MISTAKES[name].toy_tv)


def test_r7_leaves_one_token_alone_and_bends_three_by_099():
    """.099 where two draft tokens of one token each meet the same random number; the mutant's own gamma of 2 makes it twice that."""
    written, exact = list_distributions(MISTAKES["R7"], settings=Settings(gamma=1, max_new_tokens=3))
    assert compute_text_tv(sum_first_tokens(written, 1), sum_first_tokens(exact, 1)) < 1e-12
    assert compute_text_tv(written, exact) == pytest.approx(0.0991, abs=5e-5)
    assert MISTAKES["R7"].toy_tv == pytest.approx(2 * 0.0991, abs=5e-5)


def test_r6_by_one_number_is_farther_off_than_by_a_race():
    """Reported: exponential noise of every token, E / q for the draft token and E / residual for its replacement, used twice. Given the
    least E / q = m, every other E is q m plus a fresh one. On the toy distributions only tokens 0 and 3 have residual: TV .0064. Our draws
    take one number each; the same number again gives .032."""
    left = [max(0.0, p - q) for p, q in zip(TOY_P, TOY_Q, strict=True)]
    refused = sum(left)
    zero, three = left[0] / refused, left[3] / refused
    lead = TOY_Q[3] / three - TOY_Q[0] / zero  # how much later token 3 starts, times m
    wins, _ = integrate.quad(lambda m: np.exp(-m) * three * np.exp(-zero * lead * m), 0, np.inf)
    assert refused * (three - wins) == pytest.approx(0.0064, abs=5e-5)
    assert MISTAKES["R6"].toy_tv == pytest.approx(0.0319, abs=5e-5)


def test_r16_is_off_by_less_than_a_thousandth_and_more_than_rounding():
    assert 1e-4 < MISTAKES["R16"].toy_tv < 1e-3


def test_r20_is_134_where_the_siblings_are_the_targets_own_first_three():
    mutant = MISTAKES["R20"]
    assert enumerate_tv(mutant.build, open_tables(TOY_P, TOY_P), mutant.settings) == pytest.approx(0.1344, abs=5e-5)
    assert mutant.toy_tv == pytest.approx(0.1080, abs=5e-5)  # the toy draft's first three stand in another order


def test_r35_bends_three_tokens_by_065_where_there_is_room_to_go_on():
    written, exact = list_distributions(MISTAKES["R35"])
    assert compute_text_tv(sum_first_tokens(written, 3), sum_first_tokens(exact, 3)) == pytest.approx(0.0648, abs=5e-5)
    assert compute_text_tv(sum_first_tokens(written, 1), sum_first_tokens(exact, 1)) < 1e-12


def test_r35_needs_a_rule_that_looks_ahead():
    """Under the token rule a random number behind a rejection has not been compared with anything: the distribution is kept, round after round."""
    for seed in range(3):
        made = with_rule(randomness=address_by_position)(open_tables(*toy_tables.pair("random", seed, 2, 12)), Settings(gamma=2))
        probs = enumerate_output(made, PROMPT, 3)
        assert compute_text_tv(probs, enumerate_target(made.target, PROMPT, 3)) < 1e-12


def test_the_block_rule_of_r35_keeps_the_distribution_and_more_draft_tokens_than_the_token_rule():
    """p=(1/3,2/3), q=(2/3,1/3), gamma 2: 11/9 accepted draft tokens in the mean, the token rule accepts 10/9 (Sun et al. 2024)."""
    open_ = open_tables(*MISTAKES["R35"].toy)
    target, draft = open_(Settings())
    proposer = DraftModel(draft, 2)
    assert compute_tokens_per_pass(Components(target, proposer, BlockRule()), PROMPT, 9) == pytest.approx(1 + 11 / 9, abs=1e-12)
    assert compute_tokens_per_pass(Components(target, proposer, TokenRule()), PROMPT, 9) == pytest.approx(1 + 10 / 9, abs=1e-12)
    for seed in range(3):
        p, q = (one for one in open_tables(*toy_tables.pair("random", seed, 3, 100))(Settings()))
        probs = enumerate_output(Components(p, DraftModel(q, 3), BlockRule()), PROMPT, 3)
        assert compute_text_tv(probs, enumerate_target(p, PROMPT, 3)) < 1e-12


@pytest.mark.parametrize("name", ("R8", "best-drawn"))
def test_what_was_drawn_is_dropped_without_harm_where_the_draft_draws_nothing(name):
    """At temperature 0 a draft token is certain, and a set of certain draft tokens may be cut as one likes: budgets re-rank only there."""
    for seed in range(3):
        open_ = open_tables(*toy_tables.pair("random", seed, 3, 12))
        assert enumerate_tv(MISTAKES[name].build, open_, Settings(temperature=0.0, gamma=1, max_new_tokens=2)) < 1e-12


def test_typical_acceptance_at_temperature_0_is_the_target():
    """So it must be looked for at another temperature."""
    assert (
        enumerate_tv(MISTAKES["R21"].build, open_tables(TOY_P, TOY_Q), Settings(temperature=0.0, gamma=1, max_new_tokens=2)) == 0
    )


@pytest.mark.parametrize("name", ("R2", "R9"))
def test_without_cuts_there_is_nothing_to_see_of_mistakes_about_cuts(name):
    assert enumerate_tv(MISTAKES[name].build, open_tables(TOY_P, TOY_Q), Settings(gamma=1, max_new_tokens=2)) < 1e-12


@pytest.mark.fast_cases(12)
@pytest.mark.parametrize("mutant", MISTAKES.values(), ids=MISTAKES)
def test_the_decoder_without_the_mistake_keeps_the_distribution(mutant):
    assert enumerate_tv(mutant.control, open_tables(*mutant.toy), mutant.settings) < 1e-12


# In its own tier -----------------------------------------------------------------------------------------------------------


def count_draws_needed(exact: dict, written: dict) -> int:
    """The least n = 200 * 2^k at which a chi-square of level RARELY misses the mutant with probability RARELY at most."""
    for n in (200 * 2**k for k in count()):
        cells, _, masses = build_pooled_cells(exact, written, n)
        impossible = masses[cells.probs == 0].sum()
        if n * impossible > 20 or len(cells.probs) == 2:
            return n
        inside = cells.probs > 0
        apart = n * float(((masses - cells.probs)[inside] ** 2 / cells.probs[inside]).sum())
        if apart > 1.2 * compute_noncentrality(max(1, inside.sum() - 1), RARELY, 1 - RARELY):
            return n


def compute_p_value(mutant, build, exact: dict, n: int) -> float:
    counts, cells = count_draws(mutant, build, exact, n)
    return compute_chi_square(counts, cells.probs).p_value


@pytest.mark.fast_cases(10)
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in MANY_DRAWS)) for name in SEEN_BY_DRAWS])
def test_draws_catch_the_mutant_and_pass_the_decoder_without_the_mistake(name):
    """Of those in MANY_DRAWS the enumerated distributions are compared, above and in test_by_hand.py, and their draws in test_samplers.py."""
    mutant = MISTAKES[name]
    written, exact = list_distributions(mutant)
    assert compute_text_tv(written, exact) > 0.005
    n = count_draws_needed(exact, written)
    assert n <= 30_000
    assert compute_p_value(mutant, mutant.build, exact, n) < RARELY < compute_p_value(mutant, mutant.control, exact, n)


@pytest.mark.parametrize("name", [mutant.id for mutant in MISTAKES.values() if mutant.tier == "enumerated"])
def test_enumeration_catches_the_mutant(name):
    assert (
        MISTAKES[name].toy_tv
        > 1e-9
        > enumerate_tv(MISTAKES[name].control, open_tables(*MISTAKES[name].toy), MISTAKES[name].settings)
    )


def test_r10_is_seen_by_a_uniform_of_0_and_by_nothing_else():
    """The token has p = 0. Enumerated, the mistake has no mass at all; with the random number put in by hand it is kept."""
    mutant = MISTAKES["R10"]
    assert mutant.toy_tv < 1e-12
    script = {(purpose, node): 0.0 for purpose in Purpose for node in range(3)}
    for build, written in ((mutant.build, (0, 1)), (mutant.control, (1,))):
        made = build(open_tables(*mutant.toy), mutant.settings)
        randomness = made.randomness(toy_tables.ScriptedRandomness([script]))
        (round_,) = step([Prefix(PROMPT, 0, 2)], made.target, made.proposer, made.rule, randomness)
        assert round_.committed == written


def enumerate_next_token(made, ids: tuple[int, ...]) -> torch.Tensor:
    """Distribution of the next token, (V,): every token that can be drawn, what the rule does about it, what it puts in its place."""
    rows, nothing = [Prefix(ids, 0, 9)], build_empty_tree(1)
    drawn, q, p = (
        source.compute_distributions(rows, nothing)[0, 0]
        for source in (made.proposer.draft, get_claimed_distribution(made), made.target)
    )
    result = torch.zeros_like(p)
    for token in drawn.nonzero().flatten().tolist():
        accepted = made.rule.compute_threshold(float(p[token]), float(q[token]))
        result[token] += drawn[token] * accepted
        if accepted < 1:
            result += drawn[token] * (1 - accepted) * made.rule.compute_replacement(p, q)
    return result


def get_claimed_distribution(made):
    return getattr(made.proposer, "claimed", made.proposer.draft)


@pytest.mark.parametrize("name", ("R1", "R2", "R4", "R5", "R16"))
def test_the_analytic_distribution_of_one_step_sees_the_mistake_and_not_the_decoder_without(name, pair):
    """On networks of a tiny pair, under the mutant's settings; 5e-6 is what rounding may do. R16 is named for this tier."""
    mutant, ids = MISTAKES[name], (1, 2, 3)
    settings = mutant.apply_settings(Settings())
    (p,) = pair.open(settings)[0].compute_distributions([Prefix(ids, 0, 9)], build_empty_tree(1))[:, 0]
    for build, seen in ((mutant.build, True), (mutant.control, False)):
        distance = float((enumerate_next_token(build(pair.open, settings), ids) - p).abs().sum() / 2)
        assert (distance > 5e-6) is seen, distance


def test_no_bonus_keeps_the_distribution_and_writes_less_per_pass():
    """gamma 2 on the toy distributions: the formula's (1 - beta^3) / (1 - beta) at beta = .73, and less by the chance of a whole block."""
    mutant = MISTAKES["no-bonus"]
    assert mutant.toy_tv < 1e-12
    found = []
    for build in (mutant.control, mutant.build):
        made = build(open_tables(*mutant.toy), mutant.settings)
        found.append(compute_tokens_per_pass(made, PROMPT, 9))
    assert found[0] == pytest.approx((1 - 0.73**3) / (1 - 0.73), abs=1e-12)
    assert found[1] == pytest.approx(found[0] - 0.73**2, abs=1e-12)
