"""How far to draft: 'a stop may look at the past and at q before the draw'. The distributions of texts under every policy are
enumerated in test_proposers.py; here, what each policy decides, by hand or against the formula it stands on.
"""

from dataclasses import replace

import pytest
import torch

from specviz.decoding.engine import advance_prefix, decode, step
from specviz.errors import SettingsError
from specviz.evidence.analytic.enumeration import Components, Enumerator, compute_text_tv, enumerate_output, enumerate_target
from specviz.proposers import adaptive as policies
from specviz.proposers.adaptive import (
    DRAFT_LENGTH_POLICIES,
    AdaptiveDraft,
    CeilingPolicy,
    EntropyPolicy,
    GainPolicy,
    HeuristicPolicy,
)
from specviz.proposers.draft import DraftModel
from specviz.proposers.trees.growth import TreeGrowth
from specviz.randomness import PhiloxRandomness, Prefix, Purpose
from specviz.settings import GAMMA_MAX, Settings
from specviz.theory import compute_wall_clock_factor
from specviz.verification.overlap import compute_overlap
from specviz.verification.token import TokenRule, compute_acceptance_probability
from tests.helpers.proposer_cases import build_case_world
from tests.helpers.toy_tables import FixedTree, RecordingRandomness, model, pair

PROMPT = (0,)
V = 4
P, Q = pair("random", 0, V, 60)


class Always:
    """Never stops before gamma."""

    remembers = False

    def __init__(self, gamma: int):
        self.gamma = gamma

    def count_max_tokens(self, row):
        return self.gamma

    def continues(self, chains, distributions):
        return [True] * len(chains)


def row(*past: tuple[int, int], remaining: int = 40) -> Prefix:
    return Prefix(PROMPT, 0, remaining, past=past)


def ask_policy(policy, probs, tokens: int = 1) -> bool:
    """Whether a policy draws from this distribution after so many draft tokens."""
    chain = TreeGrowth(row(), 9)
    for token in range(tokens):
        chain.add(token - 1, 0, torch.tensor(probs, dtype=torch.float64), 0.5)
    return policy.continues([chain], torch.tensor([probs], dtype=torch.float64))[0]


def test_a_policy_that_never_stops_is_the_draft_model_number_by_number():
    rows = [Prefix((0, 1, 2)[: 1 + draw % 3], draw % 2, 2 + draw % 6, draw) for draw in range(30)]
    draft = model(Q, V, context=6)
    one, other = (made.propose(rows, PhiloxRandomness(3)) for made in (AdaptiveDraft(draft, Always(4)), DraftModel(draft, 4)))
    assert (one.tokens, one.parents, one.u_draft) == (other.tokens, other.parents, other.u_draft)
    assert all((a is b is None) or torch.equal(a, b) for a, b in zip(one.q, other.q, strict=True))


def test_a_round_is_remembered_as_its_longest_path_and_its_accepted_draft_tokens():
    """Of a tree of three levels and nine nodes: three draft tokens one below the other."""
    settings, target = Settings(max_new_tokens=30), model(P, V)
    for proposer, levels in ((DraftModel(model(Q, V), 4), 4), (FixedTree(lambda ids, i: i, (3, 2, 1), V), 3)):
        at = row(remaining=30)
        for round_ in decode(target, proposer, TokenRule(), PhiloxRandomness(1), settings, PROMPT):
            at = advance_prefix(at, round_)
            assert at.past[-1] == (min(levels, at.remaining + len(round_.committed) - 1), len(round_.accepted_path))
        assert len(at.past) > 5


# The +2/-1 heuristic ---------------------------------------------------------------------------------------------------------


def test_two_more_after_a_fully_accepted_round_one_fewer_after_any_other():
    policy = HeuristicPolicy(4)
    assert policy.count_max_tokens(row()) == 4
    assert policy.count_max_tokens(row((4, 4))) == 6
    assert policy.count_max_tokens(row((4, 3))) == 3
    assert policy.count_max_tokens(row((4, 4), (6, 0), (5, 5))) == 7
    assert policy.count_max_tokens(row(*[(4, 0)] * 9)) == 1
    assert policy.count_max_tokens(row(*[(4, 4)] * 9)) == GAMMA_MAX
    assert policy.count_max_tokens(row((0, 0))) == 4, "a round without draft tokens says nothing"


# The entropy bound -----------------------------------------------------------------------------------------------------------


def test_drafting_stops_where_the_entropy_bound_falls_below_its_minimum():
    """1 - sqrt(0.2 H) < 0.3 where H > 2.45 nats: more than 11.6 equally likely tokens."""
    assert ask_policy(EntropyPolicy(4), [1 / 11] * 11) and not ask_policy(EntropyPolicy(4), [1 / 12] * 12)
    assert ask_policy(EntropyPolicy(4), [1.0, 0.0])


def test_the_first_distribution_of_a_round_is_always_drawn_from():
    assert ask_policy(EntropyPolicy(4), [1 / 1000] * 1000, tokens=0)


def test_at_temperature_0_the_entropy_is_that_of_the_distributions_before_they_were_made_certain():
    """Else every distribution is sure of itself and nothing ever stops."""
    flat, sure = (lambda ids: [1 / 20] * 20), (lambda ids: [0.95, *[0.05 / 19] * 19])
    settings = Settings(temperature=0.0)
    for table, draft_tokens in ((flat, 1), (sure, 4)):
        block = AdaptiveDraft(model(table, 20), EntropyPolicy(4), settings).propose([row()], PhiloxRandomness(0))
        assert block.tokens == ((0,) * draft_tokens,)
        assert all(probs[0] == 1.0 for probs in block.q[0]), "drawn from what the settings make of them"


# Expected gain ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", (0.05, 0.2, 0.4, 1.0))
def test_before_anything_is_seen_the_number_is_the_formulas_best_at_the_acceptance_believed(step):
    """(1 - a^(g+1)) / ((1 - a)(g c + 1)) at a = 0.8 (Leviathan et al. 2023, theorem 3.8)."""
    best = max(range(1, 11), key=lambda gamma: compute_wall_clock_factor(policies.BELIEF, gamma, step))
    assert GainPolicy(10, step).count_max_tokens(row()) == best


def test_hazards_are_acceptance_rates_at_each_position_shrunk_toward_the_overall_rate():
    """Three rounds by hand: position 1 was tested three times and accepted twice, 2 twice and once, 3 once and never."""
    past = ((3, 0), (3, 1), (3, 2))
    shared = (3 + 0.8 * 4) / (6 + 4)
    expected = [(2 + 4 * shared) / 7, (1 + 4 * shared) / 6, (0 + 4 * shared) / 5, shared]
    assert GainPolicy(4, 0.2).estimate_hazards(past) == pytest.approx(expected, abs=1e-15)


def test_positions_behind_a_short_draft_were_not_tested():
    assert GainPolicy(3, 0.2).estimate_hazards(((1, 1),) * 50)[1:] == pytest.approx([(50 + 3.2) / 54] * 2)


def test_after_many_rejections_one_token_is_drafted_and_after_many_accepted_drafts_all():
    assert GainPolicy(8, 0.2).count_max_tokens(row(*[(4, 0)] * 40)) == 1
    assert GainPolicy(8, 0.05).count_max_tokens(row(*[(8, 8)] * 200)) == 8


# The ceiling -----------------------------------------------------------------------------------------------------------------


def test_overlap_is_one_minus_the_distance_and_a_draft_token_is_accepted_with_p_over_q():
    p, q = torch.tensor([0.5, 0.5, 0.0]).double(), torch.tensor([0.25, 0.25, 0.5]).double()
    assert float(compute_overlap(p, q)) == 0.5 == 1 - float((p - q).abs().sum()) / 2
    assert [compute_acceptance_probability(float(p[token]), float(q[token])) for token in range(3)] == [1.0, 1.0, 0.0]
    assert compute_acceptance_probability(float(q[0]), float(p[0])) == 0.5


def test_the_ceiling_stops_where_the_probability_of_one_more_accepted_draft_token_falls_below_its_worth(monkeypatch):
    """Every draft token is accepted with probability 0.6: 0.6, 0.36, 0.216 along the chain. At 0.3 two are drawn, at 0.2 three."""
    draft, target = model(lambda ids: (1.0, 0.0), 2), model(lambda ids: (0.6, 0.4), 2)
    for worth, draft_tokens in ((0.3, 2), (0.2, 3)):
        monkeypatch.setattr(policies, "ACCEPTANCE_MIN", worth)
        (tokens,) = AdaptiveDraft(draft, CeilingPolicy(9, target)).propose([row()], PhiloxRandomness(0)).tokens
        assert len(tokens) == draft_tokens


def test_the_ceiling_looks_at_distributions_and_never_at_a_uniform():
    randomness = RecordingRandomness(PhiloxRandomness(0))
    AdaptiveDraft(model(Q, V), CeilingPolicy(6, model(P, V))).propose([row()], randomness)
    assert {address[0] for address in randomness.addresses} == {Purpose.DRAFT}


# All of them -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in DRAFT_LENGTH_POLICIES if name != "fixed"])
def test_each_policy_really_decides_and_what_it_drew_is_handed_over(name, monkeypatch):
    """Rounds of more than one length within a run, as many numbers asked for as draft tokens made."""
    monkeypatch.setattr(policies, "LEAST", 0.6)
    monkeypatch.setattr(policies, "ACCEPTANCE_MIN", 0.5)
    target, proposer = build_case_world("draft", 1, draft_length_policy=name, gamma=5)
    seen = set()
    for draw in range(5):
        at = replace(row(), draw=draw)
        while at.remaining > 6:
            randomness = RecordingRandomness(PhiloxRandomness(2))
            (round_,) = step([at], target, proposer, TokenRule(), randomness)
            drawn = [address for address in randomness.addresses if address[0] is Purpose.DRAFT]
            assert len(drawn) == len(round_.proposals)
            seen.add(len(round_.proposals))
            at = advance_prefix(at, round_)
    assert len(seen) > 1


def test_rows_of_one_text_that_remember_other_rounds_are_walked_apart():
    """Heuristic: after a fully accepted draft the next is longer. If they were one row, the second round would have one length."""
    target, draft = model(lambda ids: (0.5, 0.5), 2), model(lambda ids: (0.9, 0.1), 2)
    walk = Enumerator(Components(target, AdaptiveDraft(draft, HeuristicPolicy(1)), TokenRule()))
    first = walk.list_outcomes(Prefix(PROMPT, 0, 6), {})
    again = {after.past[0] for after, _, _ in first}
    assert again == {(1, 0), (1, 1)}
    draft_tokens = {past: set() for past in again}
    for after, _, _ in first:
        draft_tokens[after.past[0]] |= {later.past[1][0] for later, _, _ in walk.list_outcomes(after, {})}
    assert draft_tokens == {(1, 0): {1}, (1, 1): {3}}


class Foreseeing(DraftModel):
    """The mistake: drafts nothing where the draft token would be rejected, known from the random number that the rule will use."""

    def __init__(self, draft, target):
        super().__init__(draft, 1)
        self.target = target

    def propose(self, rows, randomness):
        block = super().propose(rows, randomness)
        p, u = self.target.compute_distributions(rows, block), randomness.take(Purpose.ACCEPT, rows, 0, 0)
        kept = [self._kept(block, index, p[index], u[index]) for index in range(len(rows))]
        parts = {
            name: tuple(part if keep else empty for part, keep in zip(getattr(block, name), kept, strict=True))
            for name, empty in (("tokens", ()), ("parents", ()), ("q", None), ("u_draft", ()))
        }
        return replace(block, **parts)

    def _kept(self, block, index, p, u) -> bool:
        return any(
            u * float(block.q[index][node, token]) < float(p[node, token]) for node, token in enumerate(block.tokens[index])
        )


def test_a_policy_that_knew_the_random_numbers_would_change_the_distribution():
    """So the enumeration of policies can fail."""
    target, proposer = build_case_world("draft", 1)
    written = enumerate_output(Components(target, Foreseeing(proposer.draft, target), TokenRule()), PROMPT, 2)
    assert compute_text_tv(written, enumerate_target(target, PROMPT, 2)) > 0.01


def test_an_unknown_policy_is_a_sentence():
    with pytest.raises(
        SettingsError, match="draft-length-policy must be one of fixed, heuristic, entropy, gain, ceiling, got 'oracle'"
    ):
        build_case_world("draft", 1, draft_length_policy="oracle")
