"""Speed-ups, loads and rounds are recovered from what a client sees of a server whose costs and acceptance are known."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from specviz.audit.pays.estimate import (
    estimate_levels,
    estimate_rounds,
    estimate_token_seconds,
    explain_no_forecast,
    find_break_even,
    find_burst_gap,
    forecast_gammas,
)
from specviz.audit.pays.load import OFF, ON, Block, LoadPlan
from specviz.audit.pays.streams import StreamedAnswer
from specviz.audit.profiles.base import DraftCounters
from specviz.speed.records.estimate import Estimate
from tests.audit.pays.simulation import SimulatedServer

RUNS = 100
PLAN = LoadPlan((1, 4))


def test_intervals_cover_the_true_speedup_in_95_of_100_runs():
    """Nominal coverage is 0.979 with ten turns (order statistics 2 and 9); with it, 95 or more of 100 are seen at
    both levels with probability 0.958."""
    server = SimulatedServer(round_growth=0.0015, token_growth=0.0004, prompt_seconds=0.1)
    covered, truth = {1: 0, 4: 0}, {users: server.measure_speedup(users) for users in (1, 4)}
    for run in range(RUNS):
        for level in estimate_levels(server.simulate(PLAN, run)):
            assert level.speedup is not None
            covered[level.users] += level.speedup.low <= truth[level.users] <= level.speedup.high
    assert min(covered.values()) >= 0.95 * RUNS, covered


def test_a_slow_server_is_not_said_to_pay_and_the_load_that_hurts_is_found():
    """True speed-ups: 1.95 for one user, 0.93 for eight; 1 is crossed between four and eight users."""
    server = SimulatedServer(round_growth=0.0020, token_growth=0.0)
    levels = estimate_levels(server.simulate(LoadPlan((1, 2, 4, 8, 16)), 5))
    assert [level.verdict for level in levels] == ["pays", "pays", "pays", "hurts", "hurts"]
    truth = 1 + (server.tokens_per_round * server.token_seconds - server.round_seconds(1)) / server.round_growth
    break_even = find_break_even(levels)
    assert break_even is not None and abs(math.log(break_even / truth)) < 0.1
    slow = estimate_levels(SimulatedServer(acceptance=0.05, draft_seconds=0.004).simulate(PLAN, 5))
    assert slow[0].verdict == "hurts" and find_break_even(slow) == 1.0
    assert find_break_even(estimate_levels(SimulatedServer().simulate(PLAN, 5))) is None


def test_a_rate_is_that_of_all_users_from_request_to_last_piece():
    """Two users: answers of 20 tokens in 2 s and of 10 tokens in 4 s are 2 x 30 tokens in 6 s."""
    quick = StreamedAnswer(0.0, (1.0, 2.0), 80, 20)
    slow = StreamedAnswer(0.5, (1.0, 4.5), 40, 10)
    block = Block(ON, 2, 0, 0.0, (quick, slow))
    assert block.compute_rate(in_tokens=True) == pytest.approx(10.0)
    assert block.compute_rate(in_tokens=False) == pytest.approx(40.0)


def test_two_rounds_that_are_read_as_one_make_no_longer_draft():
    """400 rounds of one token or two, of which the client has read two without a gap between them."""
    moments, now = [0.0], 0.0
    for number in range(400):
        now += 1e-5 if number == 200 else 0.010
        moments += [now + 1e-5 * place for place in range(1 + number % 2)]
    block = Block(ON, 1, 0, 0.0, (StreamedAnswer(0.0, tuple(moments), 4 * len(moments), len(moments)),))
    (found,) = estimate_rounds([block])
    assert found.accepted_by_position == pytest.approx((0.5,), abs=0.01)


def test_characters_take_the_place_of_tokens_that_are_not_counted():
    counted, uncounted = (estimate_levels(SimulatedServer(counts_tokens=counts).simulate(PLAN, 3)) for counts in (True, False))
    assert (counted[0].on_rate.unit, uncounted[0].on_rate.unit) == ("tokens/s", "characters/s")
    assert [one.speedup for one in uncounted] == [one.speedup for one in counted]  # four characters a token here


@pytest.mark.parametrize("noise", (0.02, 0.3))
@pytest.mark.parametrize("acceptance", (0.2, 0.7, 0.95))
def test_rounds_are_read_from_bursts(acceptance, noise):
    """2,000 rounds and more: standard errors of a share are below 0.012, so 0.05 is four of them."""
    server = SimulatedServer(acceptance=acceptance, noise=noise, drift=0.0)
    blocks = server.simulate(LoadPlan((1,), turns=20), 11, length=200)
    (found,) = estimate_rounds(blocks)
    assert found.source == "bursts"
    assert found.tokens_per_round.value == pytest.approx(server.tokens_per_round, abs=0.08)
    assert found.seconds_per_round.value == pytest.approx(server.round_seconds(1), rel=0.03)
    assert found.accepted_by_position == pytest.approx([acceptance**place for place in (1, 2, 3)], abs=0.05)
    assert estimate_token_seconds(blocks).value == pytest.approx(server.token_seconds, rel=0.03)


def test_no_rounds_are_seen_where_there_are_none():
    """A server without speculation, however uneven its tokens are, has one kind of gap."""
    for noise in (0.0, 0.05, 0.3):
        blocks = SimulatedServer(noise=noise).simulate(PLAN, 2)
        plain = [Block(ON, one.users, one.turn, 0.0, one.answers) for one in blocks if one.arm == OFF]
        assert estimate_rounds(plain) == []
    assert find_burst_gap([]) is None


def test_bursts_of_both_arms_are_not_taken_for_rounds():
    """As where a proxy holds tokens back, or the client is busy."""
    blocks = SimulatedServer().simulate(LoadPlan((1,)), 2)
    assert [one.source for one in estimate_rounds(blocks)] == ["bursts"]
    bursty = [one for one in blocks if one.arm == ON]
    both = bursty + [Block(OFF, one.users, one.turn, 0.0, one.answers) for one in bursty]
    assert estimate_rounds(both) == []


def test_counters_and_pieces_of_several_tokens_tell_of_rounds_too():
    counters = DraftCounters(300.0, 150.0, 100.0, (80.0, 50.0, 20.0))
    answers = tuple(StreamedAnswer(0.0, tuple(0.1 * n for n in range(41)), 400, 101) for _ in range(4))
    by_counters, by_pieces = estimate_rounds([Block(ON, 1, 0, 0.0, answers, (), counters)])
    assert (by_counters.source, by_counters.tokens_per_round.value) == ("counters", 2.5)
    assert by_counters.accepted_by_position == (0.8, 0.5, 0.2)
    assert (by_pieces.source, by_pieces.tokens_per_round.value) == ("pieces", 2.5)
    assert by_pieces.seconds_per_round.value == pytest.approx(0.1)
    timings = tuple(StreamedAnswer(0.0, (0.1, 0.2), 40, 101, "length", 90, 60) for _ in range(4))
    assert estimate_rounds([Block(ON, 1, 0, 0.0, timings)])[0].tokens_per_round.value == 2.5


def test_counters_without_rounds_tell_of_them_where_one_client_is_alone():
    """101 tokens in 41 events, four times: 400 tokens after the first ones, of which the server counted 240 as accepted."""
    answers = tuple(StreamedAnswer(0.0, tuple(0.1 * n for n in range(41)), 400, 101) for _ in range(4))

    def list_sources(users=1, errors=(), drafted=320.0):
        block = Block(ON, users, 0, 0.0, answers, errors, DraftCounters(drafted, 240.0, 0.0))
        return {one.source: one.tokens_per_round.value for one in estimate_rounds([block])}

    assert list_sources() == {"counters": 2.5, "pieces": 2.5}
    for other in ({"users": 2}, {"errors": ("no answer",)}, {"drafted": 0.0}):  # others' tokens are among the accepted ones
        assert list_sources(**other) == {"pieces": 2.5}


def test_a_reason_is_given_where_no_draft_length_is_computed():
    pieces = [Block(ON, 1, 0, 0.0, tuple(StreamedAnswer(0.0, tuple(0.1 * n for n in range(41)), 400, 101) for _ in range(4)))]
    (rounds,), seconds = estimate_rounds(pieces), Estimate.from_mean([0.01], "s")
    timed = replace(rounds, accepted_by_position=(0.5,))
    for found, token_seconds, is_compared, lacking in (
        ([rounds], seconds, False, "a second server (--without)"),
        ([], seconds, True, "rounds, and neither counters nor streams"),
        ([rounds], seconds, True, "it sends the tokens of a round in one piece and does not count them by position"),
        ([timed], None, True, "the time of a token without speculation, and the streams"),
        ([replace(timed, seconds_per_round=None)], seconds, True, "the time of a round, and the streams"),
    ):
        assert not forecast_gammas(found, token_seconds if is_compared else None)
        said = explain_no_forecast(found, token_seconds, is_compared)
        assert said.startswith("No draft length is computed. That needs ") and lacking in said
    assert forecast_gammas([timed], seconds)


def test_forecast_of_draft_lengths_agrees_with_the_servers_that_have_them():
    """From a server with gamma 4 the speed-up of every shorter one is computed, and that of 8 within a tenth."""
    server = SimulatedServer(gamma=4, drift=0.0)
    blocks = server.simulate(LoadPlan((1,), turns=20), 4, length=200)
    found = {one.gamma: one for one in forecast_gammas(estimate_rounds(blocks), estimate_token_seconds(blocks))}
    assert list(found) == list(range(1, 9)) and [one.is_extrapolated for one in found.values()] == [False] * 4 + [True] * 4
    for gamma, one in found.items():
        assert one.speedup == pytest.approx(SimulatedServer(gamma=gamma).true_speedup(1), rel=0.04 if gamma <= 4 else 0.1)
    assert forecast_gammas([], estimate_token_seconds(blocks)) == []


def test_both_arms_of_a_turn_get_the_same_prompts_and_alternate():
    plan = LoadPlan((2,), turns=3, prompts_per_user=2)
    prompts = [f"prompt {number}" for number in range(7)]
    assert plan.pick_prompts(prompts, 2, 1) == ["prompt 4", "prompt 5", "prompt 6", "prompt 0"]
    assert np.unique([len(plan.pick_prompts(prompts, 2, turn)) for turn in range(3)]).tolist() == [4]
