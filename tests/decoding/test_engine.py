"""Algorithm 1 as a loop: propose, score, verify, commit. 'In the worst case, the number of serial runs is as in decoding with
the target alone' (Leviathan et al. 2023, section 2.3), and a text ends where target-only sampling would have ended it."""

import random
from dataclasses import replace

import pytest

from specviz.decoding.engine import (
    TargetOnlyRandomness,
    advance_prefix,
    build_first_prefix,
    build_randomness,
    decode,
    sample_target_only,
    step,
    truncate_outcome,
)
from specviz.errors import SettingsError
from specviz.proposers.draft import DraftModel
from specviz.proposers.no_draft import NoDraft
from specviz.randomness import EditedRandomness, PhiloxRandomness, Prefix, Purpose
from specviz.settings import Settings
from specviz.trace import Decision, Ending, Outcome
from specviz.verification.draft_tree import DraftTree, build_empty_tree
from specviz.verification.token import TokenRule
from tests.helpers.toy_tables import FixedTree, RecordingRandomness, Siblings, join_trees, model, pair

V = 4
P, Q = pair("random", 0, V, 60)


def decode_rounds(gamma: int = 3, length: int = 12, seed: int = 0, p=P, q=Q, eos_token_ids=frozenset(), context=None, **more):
    settings = Settings(gamma=gamma, max_new_tokens=length, seed=seed)
    target, draft = model(p, V, context=context), model(q, V, context=context)
    proposer = DraftModel(draft, gamma) if gamma else NoDraft()
    randomness = more.pop("randomness", None) or PhiloxRandomness(seed)
    return list(decode(target, proposer, TokenRule(), randomness, settings, more.pop("prompt", (0,)), eos_token_ids, **more))


def join_text(rounds) -> tuple[int, ...]:
    return tuple(token for round_ in rounds for token in round_.committed)


def test_a_chain_a_two_level_tree_and_a_batch_of_two_rows_go_through_the_same_step():
    """The first test of the design: one function, whatever the shape of the block."""
    target, randomness = model(P, V), PhiloxRandomness(1)
    shapes = (DraftModel(model(Q, V), 3), Siblings(model(Q, V), (2, 2)), FixedTree(lambda ids, i: i, (3, 2), V), NoDraft())
    sizes = (3, 6, 9, 0)
    for proposer, size in zip(shapes, sizes, strict=True):
        rows = [Prefix((0,), 0, 9, 0), Prefix((1, 2, 3), 2, 9, 5)]
        rounds = step(rows, target, proposer, TokenRule(), randomness)
        assert rounds == [step([row], target, proposer, TokenRule(), randomness)[0] for row in rows]
        for row, round_ in zip(rows, rounds, strict=True):
            assert round_.prefix_length == len(row.ids)
            assert len(round_.proposals) == size
            assert round_.full.p.shape == (size + 1, V)
            assert 1 <= len(round_.committed) <= 4


def test_a_path_through_a_tree_goes_from_parent_to_child():
    target, proposer = model(P, V), Siblings(model(Q, V), (3, 2))
    for draw in range(200):
        (round_,) = step([Prefix((0,), 0, 9, draw)], target, proposer, TokenRule(), PhiloxRandomness(2))
        parents = [round_.proposals[node].parent for node in round_.accepted_path]
        assert parents == [-1, *round_.accepted_path][: len(parents)]
        assert [i for i, one in enumerate(round_.proposals) if one.accepted] == list(round_.accepted_path)
        for index, one in enumerate(round_.proposals):
            looked = one.parent in (-1, *round_.accepted_path) and not any(
                sibling.parent == one.parent and sibling.accepted for sibling in round_.proposals[:index]
            )
            assert (one.accepted is not None) == looked == (one.u is not None) == (one.threshold is not None)


@pytest.mark.parametrize("seed", range(5))
def test_gamma_zero_writes_the_very_tokens_of_target_only_sampling(seed):
    """Row R28: with the target-only random numbers in the place of its bonus random numbers, token by token and record by record."""
    settings = Settings(gamma=0, max_new_tokens=20, seed=seed)
    randomness = PhiloxRandomness(seed)
    alone = list(sample_target_only(model(P, V), randomness, settings, (0,)))
    assert decode_rounds(gamma=0, length=20, seed=seed, randomness=TargetOnlyRandomness(randomness)) == alone
    assert len(alone) == 20 and all(len(round_.committed) == 1 for round_ in alone)


def test_target_only_sampling_has_random_numbers_of_its_own():
    settings = Settings(max_new_tokens=10)
    randomness = RecordingRandomness(PhiloxRandomness(0))
    list(sample_target_only(model(P, V), randomness, settings, (0,)))
    assert {address[0] for address in randomness.addresses} == {Purpose.TARGET_ONLY}
    assert not randomness.reused


@pytest.mark.parametrize("length", range(1, 9))
@pytest.mark.parametrize("gamma", (0, 1, 4, 16))
def test_the_length_cap_is_met_exactly(gamma, length):
    """Row R28: never a token more, never one less, also where every draft token is accepted."""
    for q in (Q, P):
        rounds = decode_rounds(gamma, length, q=q)
        assert len(join_text(rounds)) == length
        assert all(len(round_.proposals) <= gamma for round_ in rounds)


@pytest.mark.parametrize("context", range(3, 9))
def test_a_text_may_fill_the_context_and_no_pass_goes_beyond_it(context):
    """The last token may be drawn after a full context: it need not be read. A prompt up to the limit is allowed."""
    for prompt in ((0,), (0, 1, 2)):
        rounds = decode_rounds(3, 50, prompt=prompt, context=context)
        assert len(prompt) + len(join_text(rounds)) == context + 1
        assert all(round_.prefix_length + len(round_.proposals) <= context for round_ in rounds)


def test_a_prompt_beyond_the_context_or_without_tokens_is_refused_with_a_sentence():
    with pytest.raises(SettingsError, match="The prompt is too long: 5 tokens, at most 4, the context of this pair"):
        decode_rounds(prompt=(0,) * 5, context=4)
    with pytest.raises(SettingsError, match="prompt must be at least one token long"):
        decode_rounds(prompt=())


def test_a_smaller_context_of_the_draft_costs_speed_only():
    """Beyond its context the draft model drafts nothing, and each target pass gives one token."""
    settings = Settings(gamma=3, max_new_tokens=12)
    proposer = DraftModel(model(Q, V, context=5), 3)
    rounds = list(decode(model(P, V), proposer, TokenRule(), PhiloxRandomness(0), settings, (0,)))
    assert len(join_text(rounds)) == 12
    assert all(round_.prefix_length + len(round_.proposals) <= 6 for round_ in rounds if round_.proposals)


class Fixed:
    """Proposes the given tokens, each for certain."""

    name = "fixed"

    def __init__(self, *tokens: int):
        self.tokens = tokens

    def propose(self, rows, randomness) -> DraftTree:
        return FixedTree(lambda ids, _: self.tokens[len(ids) - 1], (1,) * len(self.tokens), V).propose(rows, randomness)


@pytest.mark.parametrize(
    "eos_token_ids, kept", (({2}, (1, 3, 2)), ({3, 2}, (1, 3)), ({2, 3}, (1, 3)), ({1}, (1,)), ({0}, (1, 3, 2, 1)))
)
def test_the_first_of_several_eos_tokens_ends_the_text_inside_a_draft(eos_token_ids, kept):
    """Rows R12 and R13: whatever the order of the ids; nothing comes after it, and no bonus is added."""
    script = {(0,): 1, (0, 1): 3, (0, 1, 3): 2, (0, 1, 3, 2): 1}
    target = model(lambda ids: [float(i == script.get(ids, 0)) for i in range(V)], V)
    settings = Settings(max_new_tokens=4)
    rounds = list(decode(target, Fixed(1, 3, 2), TokenRule(), PhiloxRandomness(0), settings, (0,), frozenset(eos_token_ids)))
    assert join_text(rounds) == kept
    assert rounds[0].ending.kind == ("bonus" if eos_token_ids == {0} else "eos")


@pytest.mark.parametrize(
    ("remaining", "path", "kind"),
    [(1, (0,), "length"), (2, (0, 1), "length"), (3, (0, 1, 2), "eos"), (4, (0, 1, 2), "eos"), (5, (0, 1, 2), "eos")],
)
def test_an_eos_token_beyond_the_remaining_tokens_ends_nothing(remaining, path, kind):
    """Four accepted tokens, the third of them an eos token: it ends the round only if the remaining tokens reach it."""
    decisions = tuple(
        Decision(token, node - 1, "fixed", 1.0, 1.0, None, 0.5, 1.0, True) for node, token in enumerate((1, 3, 2, 1))
    )
    whole = Outcome(decisions, (0, 1, 2, 3), Ending("bonus", 0, 0.5))
    found = truncate_outcome(whole, Prefix((0,), 0, remaining), frozenset({2}))
    assert (found.accepted_path, found.ending) == (path, Ending(kind, None, None))
    assert len(found.committed) <= remaining


def test_an_eos_token_drawn_by_the_rule_itself_ends_the_text_too():
    rounds = [decode_rounds(2, 50, seed=seed, eos_token_ids=frozenset({1})) for seed in range(30)]
    for one in rounds:
        written = join_text(one)
        assert 1 not in written[:-1] and (written[-1] == 1 or len(written) == 50)
    endings = {one[-1].ending.kind for one in rounds if join_text(one)[-1] == 1}
    assert "eos" in endings and endings & {"residual", "bonus"}, "inside a block, and by the rule's own draw"


def test_equal_distributions_accept_every_draft_token():
    for seed in range(20):
        rounds = decode_rounds(4, 25, seed, q=P)
        assert all(round_.ending.kind in ("bonus", "length") for round_ in rounds)
        assert all(one.accepted and one.threshold == 1.0 for round_ in rounds for one in round_.proposals)
        assert len(rounds) == 5


def test_the_same_settings_give_the_same_records():
    """Row R25: a request's seed is honored; another seed or another draw is another text."""
    assert decode_rounds(seed=3) == decode_rounds(seed=3)
    assert len({join_text(decode_rounds(seed=seed, length=30)) for seed in range(6)}) == 6
    assert len({join_text(decode_rounds(draw=draw, length=30)) for draw in range(6)}) == 6


def test_each_row_of_a_batch_is_recorded_with_its_own_distributions():
    """Two prompts whose distributions differ: what a record holds and shows of a row is what the target says after that row's text."""
    target, proposer = model(P, V), DraftModel(model(Q, V), 2)
    rows = [Prefix((0,), 0, 5, 0), Prefix((0, 1, 2), 0, 5, 1)]
    rounds = step(rows, target, proposer, TokenRule(), PhiloxRandomness(0), bars=V)
    for row, round_ in zip(rows, rounds, strict=True):
        ids = row.ids
        for node, probs in enumerate(round_.distributions[: len(round_.proposals)]):
            wanted = model(P, V).compute_distributions([Prefix(ids, 0, 1)], build_empty_tree(1))[0, 0].tolist()
            assert round_.full.p[node].tolist() == wanted
            assert probs.p == tuple(wanted[token] for token in probs.tokens)
            ids = (*ids, round_.proposals[node].token)
    assert rounds[0].full.p[0].tolist() != rounds[1].full.p[0].tolist()


def test_a_rows_records_do_not_depend_on_its_neighbors():
    """Rows R25 and R26: by itself, in a batch, in another order, between rows that end earlier."""
    target, proposer, randomness = model(P, V), DraftModel(model(Q, V), 3), PhiloxRandomness(0)
    settings = Settings(gamma=3, max_new_tokens=15)
    alone = {draw: decode_rounds(draw=draw, length=15, prompt=(0,) * (1 + draw % 3)) for draw in range(5)}
    for order in ((0, 1, 2, 3, 4), (4, 2, 0, 3, 1)):
        rows = {draw: build_first_prefix((0,) * (1 + draw % 3), settings, None, draw) for draw in order}
        written: dict[int, list] = {draw: [] for draw in order}
        while live := [draw for draw in order if rows[draw].remaining]:
            for draw, round_ in zip(live, step([rows[d] for d in live], target, proposer, TokenRule(), randomness), strict=True):
                written[draw].append(round_)
                rows[draw] = advance_prefix(rows[draw], round_)
        assert written == alone


@pytest.mark.parametrize("eos_token_ids", (frozenset(), frozenset({1})))
def test_a_run_is_taken_up_after_any_of_its_rounds(eos_token_ids):
    """``earlier`` rounds, and then the identical rest."""
    whole = decode_rounds(length=20, eos_token_ids=eos_token_ids, seed=5)
    for count in range(len(whole) + 1):
        assert whole[:count] + decode_rounds(length=20, eos_token_ids=eos_token_ids, seed=5, earlier=whole[:count]) == whole


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("purpose", ("accept", "residual", "bonus"))
def test_an_edited_uniform_leaves_earlier_rounds_identical(purpose):
    """Whatever the position and the number: rounds that end before it are the same records."""
    dice = random.Random(purpose)
    plain = decode_rounds(length=20)
    for _ in range(40):
        position, u = dice.randrange(20), dice.random()
        settings = Settings(max_new_tokens=20, seed=0).with_uniform(position, purpose, u)
        edited = decode_rounds(length=20, randomness=build_randomness(settings))
        before = sum(1 for round_ in plain if round_.prefix_length - 1 + len(round_.committed) <= position)
        assert edited[:before] == plain[:before]


def test_an_edited_accept_uniform_is_the_uniform_that_is_met():
    plain = decode_rounds(length=20)
    node = plain[0].proposals[0]
    for u in (0.0, 1 - 2**-53):
        first = decode_rounds(length=20, randomness=EditedRandomness(PhiloxRandomness(0), {(0, Purpose.ACCEPT): u}))[0].proposals[
            0
        ]
        assert (first.token, first.p, first.q, first.u) == (node.token, node.p, node.q, u)
        assert first.accepted == (u * node.q < node.p)


def test_an_edited_draft_uniform_leaves_all_that_earlier_rounds_decided():
    """Only draft tokens that are not checked may change: when they are drawn, it is not known that they will not be checked."""
    plain = decode_rounds(length=20, gamma=8)
    for position in range(20):
        edited = decode_rounds(
            length=20,
            gamma=8,
            randomness=build_randomness(Settings(max_new_tokens=20, seed=0).with_uniform(position, "draft", 0.999)),
        )
        before = sum(1 for round_ in plain if round_.prefix_length - 1 + len(round_.committed) <= position)
        for one, other in zip(edited[:before], plain[:before], strict=True):
            assert (one.accepted_path, one.ending) == (other.accepted_path, other.ending)
            assert list_checked(one) == list_checked(other)


def list_checked(round_):
    return [decision for decision in round_.proposals if decision.accepted is not None]


def test_a_record_holds_what_each_uniform_met():
    """threshold = min(1, p/q) and accepted = (u q < p), for every node of 30 runs; the distributions are those of the tables."""
    for seed in range(30):
        for round_ in decode_rounds(seed=seed):
            for node, one in enumerate(round_.proposals):
                assert one.q == round_.full.q[node, one.token] > 0
                if one.accepted is not None:
                    assert one.p == round_.full.p[one.parent + 1, one.token]
                    assert one.threshold == min(1.0, one.p / one.q) and one.accepted == (one.u * one.q < one.p)


def test_bars_change_nothing_that_was_decided():
    """Views are drawn after the fact: with them, the same tokens, random numbers and verdicts."""
    for seed in range(5):
        for plain, seen in zip(decode_rounds(seed=seed), decode_rounds(seed=seed, bars=2), strict=True):
            same = tuple(replace(one, replacement_if_rejected=None, u_replacement_if_rejected=None) for one in seen.proposals)
            assert (same, seen.accepted_path, seen.ending) == (plain.proposals, plain.accepted_path, plain.ending)
            assert len(seen.distributions) == len(seen.proposals) + 1
            for probs, one in zip(seen.distributions, seen.proposals, strict=False):
                assert one.token in probs.tokens and (
                    one.replacement_if_rejected is None or one.replacement_if_rejected in probs.tokens
                )
                assert sum(probs.p) + probs.rest["p"] == pytest.approx(1, abs=1e-12)
                assert sum(probs.overlap) + probs.rest["overlap"] == pytest.approx(probs.beta, abs=1e-12)
                assert probs.beta + sum(probs.residual) + probs.rest["residual"] == pytest.approx(1, abs=1e-12)


def test_a_draft_deeper_than_the_remaining_tokens_is_cut():
    """A proposer that ignores the remaining tokens: the engine still keeps the cap."""
    greedy = Fixed(0, 0, 0, 0, 0)
    sure = model(lambda ids: (1.0, 0.0, 0.0, 0.0), V)
    block = join_trees([([0] * 5, [-1, 0, 1, 2, 3], [sure.compute_probs(())] * 5, [None] * 5)], "deep")
    greedy.propose = lambda rows, randomness: block
    (round_,) = step([Prefix((0,), 0, 3)], sure, greedy, TokenRule(), PhiloxRandomness(0))
    assert round_.committed == (0, 0, 0) and round_.ending.kind == "length"
