"""A visitor's run is the visitor's, links fall back per value, and nothing on screen is lost."""

from __future__ import annotations

import json
from dataclasses import replace
from urllib.parse import parse_qs, urlencode

import pytest

from specviz.decoding.run import run
from specviz.settings import Settings
from specviz.trace import Trace
from specviz.web.common.controls import as_fields, from_fields
from specviz.web.one_round.state import LINK_ROUNDS, Visit, rounds_before

SETTINGS = Settings(prompt="Once upon a time the old bear", seed=3, length=64)


@pytest.fixture(scope="module")
def recording(pair):
    return run(pair, SETTINGS, rounds=4)


@pytest.fixture
def visit(recording):
    return Visit(recording)


def finish(visit: Visit, pair) -> Visit:
    """Work the job off as work.py would, without the queue."""
    while visit.job:
        visit.advance(run(pair, visit.job.settings, visit.job.rounds, visit.job.earlier))
    return visit


def same(one: Trace, other: Trace) -> bool:
    """Equal decisions in the rounds that both hold. Probabilities may differ in the last digits of float32: a run that goes
    on after known rounds reads its prefix in one piece."""
    pairs = list(zip(one.rounds, other.rounds, strict=False))
    for a, b in pairs:
        assert [(d.token, d.accepted, d.u) for d in a.proposals] == [(d.token, d.accepted, d.u) for d in b.proposals]
        assert a.ending == b.ending
        assert [d.p for d in a.proposals] == pytest.approx([d.p for d in b.proposals], abs=1e-5)
    return len(pairs) > 0


def opened(recording, pair, query: dict) -> Visit:
    """What another browser shows under this address."""
    visit = Visit(recording)
    visit.open_link({key: values[0] for key, values in parse_qs(urlencode(query), keep_blank_values=True).items()})
    return finish(visit, pair)


def test_a_visitor_meets_a_finished_recorded_round(visit):
    assert (visit.mode, visit.job, visit.notices) == ("recorded", None, [])
    motions = visit.payload["rounds"][0]["motions"]
    assert visit.cursor == {"round": 0, "motion": len(motions) - 1}
    assert motions[-1]["kind"] == "tally"


def test_the_plain_address_is_the_recorded_run(recording, pair, visit):
    assert set(visit.link()) == {"at"}
    assert opened(recording, pair, {}).mode == "recorded"
    assert opened(recording, pair, {"at": "2.3"}).cursor == {"round": 1, "motion": 2}


def test_a_link_shows_the_same_round_at_the_same_motion(recording, pair, visit):
    visit.choose(replace(SETTINGS, prompt="the river & <b>", gamma=2, temperature=1.5, top_k=200, top_p=0.99, length=64))
    finish(visit, pair)
    assert visit.payload["more"]
    visit.hear({"kind": "next", "at": {"round": 1, "motion": 0}})
    finish(visit, pair)
    assert visit.cursor == {"round": 2, "motion": 0}
    other = opened(recording, pair, visit.link())
    assert other.mode == "live"
    assert other.settings == visit.settings
    assert other.cursor == visit.cursor
    assert same(other.trace, visit.trace)


def test_an_empty_prompt_has_a_link_of_its_own_and_is_said(recording, pair, visit):
    visit.choose(replace(Settings(), prompt=""))
    finish(visit, pair)
    assert any("start token" in sentence for sentence in visit.notices)
    assert visit.link()["prompt"] == ""
    assert same(opened(recording, pair, visit.link()).trace, visit.trace)


def edited(visit, pair, u: float = 0.999):
    """Choose the second round's first coin."""
    position = len(visit.trace.rounds[0].committed)
    visit.hear({"kind": "coin", "position": position, "purpose": "accept", "u": u, "at": {"round": 1, "motion": 6}})
    return position, finish(visit, pair)


def test_a_chosen_coin_keeps_the_rounds_before_it(recording, pair, visit):
    position, _ = edited(visit, pair)
    assert visit.settings.uniforms == {(position, "accept"): 0.999}
    assert visit.trace.rounds[0] is recording.rounds[0]
    assert visit.trace.rounds[1].proposals[0].u == 0.999
    motion = visit.payload["rounds"][1]["motions"][visit.cursor["motion"]]
    assert (visit.cursor["round"], motion["kind"], motion["node"]) == (1, "coin", 0)
    assert same(run(pair, visit.settings, len(visit.trace.rounds)), visit.trace)


def test_a_link_carries_chosen_coins(recording, pair, visit):
    edited(visit, pair)
    other = opened(recording, pair, visit.link())
    assert (other.settings, other.cursor) == (visit.settings, visit.cursor)
    assert same(other.trace, visit.trace)


def test_undo_restores_the_run_before_the_luck(recording, pair, visit):
    edited(visit, pair)
    visit.hear({"kind": "undo", "at": {"round": 1, "motion": 2}})
    assert (visit.trace, visit.mode, visit.job) == (recording, "recorded", None)
    assert set(visit.link()) == {"at"}


def test_undo_after_a_link_runs_without_the_luck(recording, pair, visit):
    visit.choose(replace(SETTINGS, gamma=3))
    edited(finish(visit, pair), pair)
    other = opened(recording, pair, visit.link())
    other.hear({"kind": "undo", "at": {"round": 1, "motion": 2}})
    finish(other, pair)
    assert not other.settings.edited
    assert same(other.trace, run(pair, replace(SETTINGS, gamma=3), len(other.trace.rounds)))


def test_other_settings_give_chosen_coins_back(recording, pair, visit):
    edited(visit, pair)
    visit.choose(replace(visit.settings, gamma=2))
    finish(visit, pair)
    assert not visit.settings.edited
    assert any("random numbers were dropped" in sentence for sentence in visit.notices)


def test_next_goes_on_after_the_recording(recording, pair, visit):
    visit.hear({"kind": "next", "round": 4, "at": {"round": 3, "motion": 1}})
    finish(visit, pair)
    assert visit.trace.rounds[:4] == recording.rounds
    assert (len(visit.trace.rounds), visit.mode, visit.cursor) == (5, "live", {"round": 4, "motion": 0})


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"gamma": "-1"}, "gamma must be a whole number from 0 to 16, got -1."),
        ({"gamma": "17"}, "got 17."),
        ({"temperature": "nan"}, "temperature must be a number from 0 (greedy) to 5, got nan."),
        ({"top_k": "0"}, "leave it out to switch it off, got 0."),
        ({"top_p": "1.5"}, "got 1.5."),
        ({"uniforms": "0=1.0"}, "at least 0 and below 1"),
        (
            {"pair": "nobody/nothing"},
            "'nobody/nothing' is not in the catalogue (known: storybook, storybook-distilled, storybook-8bit)",
        ),
        ({"pair": "/etc|/etc"}, "is not in the catalogue"),
        ({"at": "x"}, "'x' is not of the form ROUND.MOTION"),
        ({"at": "99.1"}, "There is no round 99, motion 1 here"),
        ({"seed": "$x$"}, "'$x$' cannot be read"),
    ],
)
def test_a_damaged_link_falls_back_and_says_so(recording, pair, query, said):
    visit = opened(recording, pair, query)
    assert any(said in sentence for sentence in visit.notices), visit.notices
    assert visit.trace is recording


def test_good_values_of_a_damaged_link_count(recording, pair):
    visit = opened(recording, pair, {"gamma": "99", "temperature": "0.5", "prompt": "a bear"})
    assert (visit.settings.gamma, visit.settings.temperature, visit.settings.prompt) == (4, 0.5, "a bear")
    assert len(visit.notices) == 1


@pytest.mark.parametrize("name", ("rule", "proposer", "lengths", "text"))
def test_an_unknown_name_in_a_link_falls_back(name, recording):
    visit = Visit(recording)
    visit.open_link({"prompt": "a bear", name: "lenient"})
    visit.fail(f"{name} must be one of some, got 'lenient'.", name)
    assert visit.job.settings == replace(Settings(), prompt="a bear")
    assert visit.job.said == [f"The link's {name} was left out: {name} must be one of some, got 'lenient'."]


def test_a_link_never_loads_a_pair_of_its_own(recording):
    visit = Visit(recording)
    visit.open_link({"pair": "owner/target|owner/draft", "prompt": "a bear", "at": "3.1"}, own_pairs=True)
    assert visit.job is None
    assert "Nothing was loaded" in visit.notices[0]
    visit.load_own("owner/target", "owner/draft")
    assert (visit.job.settings.prompt, visit.job.rounds) == ("a bear", 3)


def test_a_link_to_a_draft_in_8_bits_offers_it_so_and_another_ending_names_no_pair(recording):
    visit = Visit(recording)
    visit.open_link({"pair": "owner/target|owner/draft|8bit", "prompt": "a bear", "at": "3.1"}, own_pairs=True)
    visit.load_own("owner/target", "owner/draft")
    assert visit.job.settings.pair == "owner/target|owner/draft" and visit.job.rounds != 3, "not what the link offered"
    visit = Visit(recording)
    visit.open_link({"pair": "owner/target|owner/draft|8bit", "prompt": "a bear", "at": "3.1"}, own_pairs=True)
    visit.load_own("owner/target", "owner/draft", rounded=True)
    assert (visit.job.settings.pair, visit.job.rounds) == ("owner/target|owner/draft|8bit", 3)
    visit = Visit(recording)
    visit.open_link({"pair": "owner/target|owner/draft|4bit", "prompt": "a bear"}, own_pairs=True)
    assert visit.offer is None


def test_a_link_asks_for_a_bounded_number_of_rounds(recording):
    visit = Visit(recording)
    visit.open_link({"prompt": "a bear", "length": "4096", "at": "900.1"})
    assert visit.job.rounds == LINK_ROUNDS


def test_a_failed_run_leaves_what_is_shown(visit, recording):
    link = visit.link()
    visit.choose(replace(SETTINGS, gamma=2))
    visit.fail("The prompt is too long.")
    assert (visit.trace, visit.settings, visit.link(), visit.job) == (recording, SETTINGS, link, None)
    assert visit.notices == ["The prompt is too long."]


@pytest.mark.parametrize(
    "event",
    [
        {"kind": "coin", "position": 1, "purpose": "accept", "u": 1.0},
        {"kind": "coin", "position": 1, "purpose": "accept", "u": "x"},
        {"kind": "coin", "position": [1], "purpose": "accept", "u": 0.5},
        {"kind": "coin", "position": 1, "purpose": {}, "u": 0.5},
        {"kind": "coin", "position": -1, "purpose": "accept", "u": 0.5},
        {"kind": "coin", "position": 1, "purpose": "wish", "u": 0.5, "at": {"round": "x"}},
    ],
)
def test_an_impossible_coin_is_a_sentence(visit, recording, event):
    visit.hear(event)
    assert (visit.trace, visit.job) == (recording, None)
    assert "must be" in visit.notices[0]


@pytest.mark.parametrize(
    "event", [{"kind": "x"}, {}, None, {"kind": ["live"]}, {"kind": "live", "at": {"round": 10**9, "motion": True}}]
)
def test_events_that_no_stage_sends_do_no_harm(visit, event):
    visit.hear(event)
    assert visit.job is None or visit.job.rounds <= 4


def test_runs_of_two_visitors_do_not_meet(recording, pair):
    one, other = Visit(recording), Visit(recording)
    edited(one, pair)
    assert other.trace is recording
    assert json.dumps(other.payload) == json.dumps(Visit(recording).payload)


def test_rounds_before_a_draft_coin_have_not_seen_it(recording):
    first = recording.rounds[0]
    reach = len(first.proposals)
    assert rounds_before(recording.rounds, reach - 1, "draft") == ()
    assert rounds_before(recording.rounds, len(first.committed), "accept")[0] is first
    assert rounds_before(recording.rounds, len(first.committed) - 1, "accept") == ()


def test_fields_give_settings_back():
    settings = replace(SETTINGS, temperature=0.123456789, top_k=3, top_p=0.9, seed=2**62)
    assert from_fields(as_fields(settings), settings) == (settings, [])


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("gamma", -1, "gamma must be a whole number from 0 to 16, got -1."),
        ("gamma", 17, "got 17."),
        ("temperature", "-1", "got -1.0."),
        ("temperature", "NaN", "got nan."),
        ("temperature", "warm", "temperature must be a number from 0 (greedy) to 5, got 'warm'."),
        ("top_k", "0", "leave it out to switch it off, got 0."),
        ("top_k", "2.5", "got '2.5'."),
        ("top_p", "0", "got 0.0."),
        ("top_p", "1.5", "got 1.5."),
        ("seed", "-3", "got -3."),
        ("prompt", "a\x07b", "U+0007 at character 2"),
        ("prompt", "a" * 20_001, "20001 characters"),
    ],
)
def test_a_field_that_cannot_be_used_says_value_and_range(name, text, said):
    settings, problems = from_fields(as_fields(SETTINGS) | {name: text}, SETTINGS)
    assert settings == SETTINGS
    assert len(problems) == 1
    assert said in problems[0]


def test_an_empty_field_switches_off():
    settings, problems = from_fields(as_fields(replace(SETTINGS, top_k=5, top_p=0.5)) | {"top_k": " ", "top_p": ""}, SETTINGS)
    assert (settings.top_k, settings.top_p, problems) == (None, None, [])
