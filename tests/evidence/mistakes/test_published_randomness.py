"""Published mistakes with random numbers (rows R6, R7, R18, R25 and R35 of docs/reference/mistakes.md): a random number met twice, stuck, or shared between rows."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from specviz.decoding.engine import decode, step
from specviz.proposers.draft import DraftModel
from specviz.randomness import PhiloxRandomness, Prefix, Purpose
from specviz.settings import Settings
from specviz.trace import Round
from specviz.verification.token import TokenRule
from tests.evidence.mistakes.test_published import (
    TOY_P,
    P,
    Q,
    V,
    build_toy_world,
    compute_joint_tv,
    compute_sample_tv,
    open_networks,
)
from tests.helpers.toy_tables import RecordingRandomness, Siblings, World, model


def record_addresses(gamma: int, length: int, seed: int, proposer=None) -> RecordingRandomness:
    randomness = RecordingRandomness(PhiloxRandomness(seed))
    proposer = proposer or DraftModel(model(Q, V), gamma)
    list(decode(model(P, V), proposer, TokenRule(), randomness, Settings(max_new_tokens=length), (0,)))
    return randomness


@pytest.mark.parametrize("length", (1, 2, 5, 6, 20))
@pytest.mark.parametrize("gamma", (1, 2, 5, 16))
def test_r6_r7_r35_no_uniform_is_met_twice_in_a_run(gamma, length):
    """R6: draft noise used again for random number or residual (vllm#54282). R7: one random number at every position (feifeibear). R35: random numbers
    addressed by position alone. Every address (purpose, start, node, draw) of a run is asked for once, near the cap too."""
    for seed in range(5):
        assert not record_addresses(gamma, length, seed).reused


def test_r35_trees_meet_no_uniform_twice_either():
    for seed in range(5):
        assert not record_addresses(0, 12, seed, Siblings(model(Q, V), (2, 2))).reused


class ByPositionAlone(RecordingRandomness):
    """R35 by hand: the address is the output position; the round's start is forgotten."""

    def take(self, purpose, rows, node, depth):
        self.addresses += [(purpose, row.start + depth, row.draw) for row in rows]
        return self.randomness.take(purpose, [replace(row, start=row.start + depth) for row in rows], 0, depth)


class OneForAll(RecordingRandomness):
    """R7 by hand: the generator is seeded again for each token."""

    def take(self, purpose, rows, node, depth):
        self.addresses += [(Purpose.DRAFT, 0, 0, row.draw) for row in rows]
        return self.randomness.take(Purpose.DRAFT, [replace(row, start=0) for row in rows], 0, 0)


@pytest.mark.parametrize("mistake", (ByPositionAlone, OneForAll))
def test_r7_r35_a_uniform_that_is_met_twice_is_noticed(mistake):
    found = 0
    for seed in range(10):
        randomness = mistake(PhiloxRandomness(seed))
        list(decode(model(P, V), DraftModel(model(Q, V), 4), TokenRule(), randomness, Settings(max_new_tokens=20), (0,)))
        found += bool(randomness.reused)
    assert found == 10


def test_r6_the_numbers_of_one_round_are_independent():
    """R6: a stream shared by two purposes has correlation 1. n = 20,000 per pair, correlation below
    .04: five standard deviations and more, three pairs, false alarm below 1e-7."""
    randomness = PhiloxRandomness(5)
    streams = [randomness.stream(purpose, 0, 0, 0, 20_000) for purpose in (Purpose.DRAFT, Purpose.ACCEPT, Purpose.RESIDUAL)]
    for first, second in ((0, 1), (0, 2), (1, 2)):
        assert abs(np.corrcoef(streams[first], streams[second])[0, 1]) < 0.04


def test_r7_the_joint_distribution_of_three_tokens_is_the_targets():
    """R7 leaves each marginal intact and bends the joint distribution by .099: so the joint distribution is what is compared."""
    assert compute_joint_tv(World(model(P, V), DraftModel(model(Q, V), 1)), 3) < 1e-12


def test_r18_uniforms_stuck_at_zero_are_caught():
    """R18: everything accepted (vllm-ascend#13766). On the toy distributions the first token then has q's distribution, .27 away from p."""

    class Stuck:
        def take(self, purpose, rows, node, depth):
            real = PhiloxRandomness(0).take(purpose, rows, node, depth)
            return np.zeros(len(rows)) if purpose is Purpose.ACCEPT else real

    world, rows = build_toy_world(), [Prefix((), 0, 9, number) for number in range(4000)]
    counts = Counter(round_.committed[0] for round_ in step(rows, world.target, world.proposer, world.rule, Stuck()))
    assert compute_sample_tv(world) < 0.05 < 0.2 < sum(abs(counts[token] / 4000 - TOY_P[token]) for token in range(5)) / 2


def test_r25_the_same_settings_give_the_same_trace_and_neighbors_change_nothing():
    """R25: a request's seed ignored, or a stream shared (vllm#6038, #13196). Two networks with caches, alone and in a batch."""
    settings = Settings(max_new_tokens=10, seed=11)

    def decode_alone(draw: int) -> list[Round]:
        source, draft = open_networks(settings)
        return list(decode(source, DraftModel(draft, 3), TokenRule(), PhiloxRandomness(11), settings, (4, 5), draw=draw))

    assert decode_alone(0) == decode_alone(0) != decode_alone(1)
    source, draft = open_networks(settings)
    rows = [Prefix((4, 5), 0, 10, 0), Prefix((4, 5), 0, 10, 1), Prefix((6,), 0, 10, 2)]
    together = step(rows, source, DraftModel(draft, 3), TokenRule(), PhiloxRandomness(11))
    for number in (0, 1):
        assert together[number].committed == decode_alone(number)[0].committed
