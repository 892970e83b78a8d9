"""Lookahead decoding: 'the output distribution is preserved' (Fu et al. 2024), here for n-grams with one-hot distributions under the
usual rule. Its texts are enumerated with those of every other proposer (test_proposers.py, test_registry.py). Here: what the window
reads, that it costs no pass, and that the state is a pure function of the text and its rounds.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from specviz.decoding.engine import advance_prefix, decode, step
from specviz.decoding.method_checks import build_rule
from specviz.errors import SettingsError
from specviz.models.pairs.loading import load_pair
from specviz.models.table import TableModel
from specviz.proposers import lookahead
from specviz.proposers.lookahead import POOL, Lookahead, LookaheadState, WindowedTarget, build_first_state
from specviz.proposers.request import open_proposer
from specviz.randomness import PhiloxRandomness, Prefix
from specviz.settings import Settings
from specviz.verification.draft_tree import build_empty_tree
from specviz.verification.token import TokenRule

SETTINGS = Settings(proposer="lookahead", gamma=3, num_chains=2, max_new_tokens=30)
PROMPT = "Once upon a time there was a"


@pytest.fixture(scope="module")
def double_pair(pair_folders):
    return load_pair("|".join(map(str, pair_folders)), "cpu", "float64")


@pytest.fixture
def window_of_four(monkeypatch):
    """A window of four positions."""
    monkeypatch.setattr(lookahead, "WINDOW", 4)


def alphabet() -> WindowedTarget:
    """A target that is certain: after each of nine letters the next, after the last the first."""
    return WindowedTarget(TableModel(lambda ids: [float(token == (ids[-1] + 1) % 9) for token in range(9)], 9))


# By hand ------------------------------------------------------------------------------------------------------------------


def test_the_first_predictions_are_the_end_of_the_text_and_the_first_ngrams_its_own(window_of_four):
    state = build_first_state((5, 0, 1, 2, 0, 1, 7), 2)
    assert state.window == ((2, 0, 1, 7), (0, 1, 7, 2))
    assert state.pool == {5: ((0, 1),), 0: ((1, 7), (1, 2)), 1: ((2, 0),), 2: ((0, 1),)}
    assert build_first_state((3,), 2) == LookaheadState(((3,) * 4, (3,) * 4), {})


def test_a_round_shifts_the_predictions_and_what_replaced_them_makes_ngrams(window_of_four):
    state = LookaheadState(((1, 2, 3, 4), (5, 6, 7, 8)), {1: ((0, 0),)})
    after = state.advance_round((2, 3, 4, 5), 1)
    assert after.window == ((5, 6, 7, 8), (2, 3, 4, 5))
    assert after.pool == {1: ((5, 2), (0, 0)), 2: ((6, 3),), 3: ((7, 4),), 4: ((8, 5),)}
    assert state.advance_round((2, 3, 4, 5), 3).window == ((7, 8, 5, 6), (4, 5, 2, 3)), "two more tokens were written"
    assert state.advance_round(None, 2) == LookaheadState(((2, 3, 4, 1), (6, 7, 8, 5)), state.pool)


def test_only_the_latest_ngrams_are_kept_each_once(window_of_four):
    state = LookaheadState(((1,) * 4, (0,) * 4), {})
    for number in range(20):
        state = state.advance_round((number,) * 4, 1)
        state = replace(state, window=((1,) * 4, (0,) * 4))
    assert state.pool[1] == tuple((0, number) for number in range(19, 19 - POOL, -1))


def test_once_the_predictions_have_converged_every_draft_token_is_accepted():
    """The target is certain, so its predictions are right one by one from the first on; then each pass gives gamma + 1 tokens."""
    target = alphabet()
    rounds = list(
        decode(target, Lookahead(target, 3, 2), TokenRule(), PhiloxRandomness(0), Settings(max_new_tokens=80), (4, 8, 8))
    )
    text = [token for round_ in rounds for token in round_.committed]
    assert text == [number % 9 for number in range(80)]
    assert [len(round_.committed) for round_ in rounds[-8:-1]] == [4] * 7 and len(rounds[0].committed) == 1


# On networks --------------------------------------------------------------------------------------------------------------


def test_a_prediction_is_replaced_by_the_targets_most_likely_token_after_the_predictions_before_it(double_pair):
    """Column j of the latest row: after the prefix, the oldest predictions up to j, and the later ones of column j."""
    target, proposer = open_proposer(double_pair, SETTINGS)
    row = Prefix(double_pair.encode(PROMPT), 0, 9)
    step([row], target, proposer, TokenRule(), PhiloxRandomness(0))
    window = proposer.find_state(row).window
    found = target.predict_replacements(row, window)
    for column, token in enumerate(found):
        ids = [*row.ids, *window[0][: column + 1], *(later[column] for later in window[1:])]
        with torch.inference_mode():
            assert int(double_pair.target(input_ids=torch.tensor([ids])).logits[0, -1].argmax()) == token


@pytest.mark.parametrize("temperature", (0.0, 1.0))
def test_every_round_is_one_pass_of_the_target(double_pair, temperature, monkeypatch):
    settings = replace(SETTINGS, temperature=temperature)
    target, proposer = open_proposer(double_pair, settings)
    passes, inner = [], target.source.compute_logits
    monkeypatch.setattr(target.source, "compute_logits", lambda *given: passes.append(given) or inner(*given))
    rounds = list(decode(target, proposer, TokenRule(), PhiloxRandomness(2), settings, double_pair.encode(PROMPT)))
    assert len(passes) == len(rounds)


def test_what_is_drafted_depends_on_the_text_and_its_rounds_only(double_pair):
    """A proposer that meets a text in the middle of its run drafts the same as the one that was there from the start."""
    target, proposer = open_proposer(double_pair, SETTINGS)
    row, drafted = Prefix(double_pair.encode(PROMPT), 0, 30), 0
    for _ in range(8):
        block = proposer.propose([row], PhiloxRandomness(1))
        later = open_proposer(double_pair, SETTINGS)[1].propose([row], PhiloxRandomness(7))
        assert (block.tokens, block.parents) == (later.tokens, later.parents)
        drafted += len(block.tokens[0])
        (round_,) = step([row], target, proposer, TokenRule(), PhiloxRandomness(1))
        row = advance_prefix(row, round_)
    assert drafted and row.past


def test_the_window_changes_no_distribution_and_is_left_out_at_the_end_of_the_context(double_pair):
    target, proposer = open_proposer(double_pair, SETTINGS)
    for ids in (double_pair.encode(PROMPT), tuple(range(5, 5 + target.context - 4))):
        row = Prefix(ids, 0, 9)
        proposer.propose([row], PhiloxRandomness(0))
        plain = double_pair.open(SETTINGS)[0].compute_distributions([row], build_empty_tree(1))
        assert float((target.compute_distributions([row], build_empty_tree(1)) - plain).abs().max()) < 1e-12
        fits = len(ids) < 100
        assert (target.predict_replacements(row, proposer.find_state(row).window) is not None) is fits


def test_rules_that_need_a_chain_or_one_distribution_refuse_several_ngrams():
    assert build_rule(replace(SETTINGS, num_chains=1, rule="block"))
    with pytest.raises(SettingsError, match="block judges chains"):
        build_rule(replace(SETTINGS, rule="block"))
    with pytest.raises(SettingsError, match="independent drafts from one distribution"):
        build_rule(replace(SETTINGS, rule="k-seq", siblings="independent"))
