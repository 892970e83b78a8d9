"""A visitor's run is the visitor's, links fall back per value, and nothing on screen is lost."""

from __future__ import annotations

import json
from dataclasses import replace
from urllib.parse import parse_qs, urlencode

import pytest

from specviz.decoding.run import record_run
from specviz.settings import Settings
from specviz.trace import Trace
from specviz.web.common.controls import fill_fields, read_fields
from specviz.web.one_round.state import LINK_ROUNDS, OneRoundState, list_rounds_before

SETTINGS = Settings(prompt="Once upon a time the old bear", seed=3, max_new_tokens=64)


@pytest.fixture(scope="module")
def recording(pair):
    return record_run(pair, SETTINGS, rounds=4)


@pytest.fixture
def state(recording):
    return OneRoundState(recording)


def finish_request(state: OneRoundState, pair) -> OneRoundState:
    """Work the request off as work.py would, without the queue."""
    while state.request:
        state.show_finished(record_run(pair, state.request.settings, state.request.rounds, state.request.earlier))
    return state


def have_same_decisions(one: Trace, other: Trace) -> bool:
    """Equal decisions in the rounds that both hold. Probabilities may differ in the last digits of float32: a run that goes
    on after known rounds reads its prefix in one piece."""
    pairs = list(zip(one.rounds, other.rounds, strict=False))
    for a, b in pairs:
        assert [(d.token, d.accepted, d.u) for d in a.proposals] == [(d.token, d.accepted, d.u) for d in b.proposals]
        assert a.ending == b.ending
        assert [d.p for d in a.proposals] == pytest.approx([d.p for d in b.proposals], abs=1e-5)
    return len(pairs) > 0


def open_state(recording, pair, query: dict) -> OneRoundState:
    """What another browser shows under this address."""
    state = OneRoundState(recording)
    state.open_link({key: values[0] for key, values in parse_qs(urlencode(query), keep_blank_values=True).items()})
    return finish_request(state, pair)


def test_a_visitor_meets_a_recorded_round_at_its_first_motion(state):
    assert (state.run.mode, state.request, state.notices) == ("recorded", None, [])
    assert state.run.cursor == {"round": 0, "step": 0}
    assert state.run.payload["rounds"][0]["steps"][0]["kind"] == "draft"


def test_the_plain_address_is_the_recorded_run(recording, pair, state):
    assert set(state.build_link()) == {"at"}
    assert open_state(recording, pair, {}).run.mode == "recorded"
    assert open_state(recording, pair, {"at": "2.3"}).run.cursor == {"round": 1, "step": 2}


def test_a_link_shows_the_same_round_at_the_same_motion(recording, pair, state):
    state.choose(replace(SETTINGS, prompt="the river & <b>", gamma=2, temperature=1.5, top_k=200, top_p=0.99, max_new_tokens=64))
    finish_request(state, pair)
    assert state.run.payload["more"]
    state.handle_event({"kind": "next", "at": {"round": 1, "step": 0}})
    finish_request(state, pair)
    assert state.run.cursor == {"round": 2, "step": 0}
    other = open_state(recording, pair, state.build_link())
    assert other.run.mode == "live"
    assert other.run.settings == state.run.settings
    assert other.run.cursor == state.run.cursor
    assert have_same_decisions(other.run.trace, state.run.trace)


def test_an_empty_prompt_has_a_link_of_its_own_and_is_said(recording, pair, state):
    state.choose(replace(Settings(), prompt=""))
    finish_request(state, pair)
    assert any("start token" in sentence for sentence in state.notices)
    assert state.build_link()["prompt"] == ""
    assert have_same_decisions(open_state(recording, pair, state.build_link()).run.trace, state.run.trace)


def edit_run(state, pair, u: float = 0.999):
    """Choose the first random number of the second round."""
    position = len(state.run.trace.rounds[0].committed)
    state.handle_event({"kind": "uniform", "position": position, "purpose": "accept", "u": u, "at": {"round": 1, "step": 6}})
    return position, finish_request(state, pair)


def test_a_chosen_random_number_keeps_the_rounds_before_it(recording, pair, state):
    position, _ = edit_run(state, pair)
    assert state.run.settings.uniforms == {(position, "accept"): 0.999}
    assert state.run.trace.rounds[0] is recording.rounds[0]
    assert state.run.trace.rounds[1].proposals[0].u == 0.999
    step = state.run.payload["rounds"][1]["steps"][state.run.cursor["step"]]
    assert (state.run.cursor["round"], step["kind"], step["node"]) == (1, "uniform", 0)
    assert have_same_decisions(record_run(pair, state.run.settings, len(state.run.trace.rounds)), state.run.trace)


def test_a_link_carries_chosen_random_numbers(recording, pair, state):
    edit_run(state, pair)
    other = open_state(recording, pair, state.build_link())
    assert (other.run.settings, other.run.cursor) == (state.run.settings, state.run.cursor)
    assert have_same_decisions(other.run.trace, state.run.trace)


def test_undo_restores_the_run_before_the_edit(recording, pair, state):
    edit_run(state, pair)
    state.handle_event({"kind": "undo", "at": {"round": 1, "step": 2}})
    assert (state.run.trace, state.run.mode, state.request) == (recording, "recorded", None)
    assert set(state.build_link()) == {"at"}


def test_undo_after_a_link_runs_without_chosen_random_numbers(recording, pair, state):
    state.choose(replace(SETTINGS, gamma=3))
    edit_run(finish_request(state, pair), pair)
    other = open_state(recording, pair, state.build_link())
    other.handle_event({"kind": "undo", "at": {"round": 1, "step": 2}})
    finish_request(other, pair)
    assert not other.run.settings.is_edited
    assert have_same_decisions(other.run.trace, record_run(pair, replace(SETTINGS, gamma=3), len(other.run.trace.rounds)))


def test_other_settings_drop_chosen_random_numbers(recording, pair, state):
    edit_run(state, pair)
    state.choose(replace(state.run.settings, gamma=2))
    finish_request(state, pair)
    assert not state.run.settings.is_edited
    assert any("random numbers were dropped" in sentence for sentence in state.notices)


def test_going_live_takes_a_new_seed_each_time_and_plays_no_step_of_a_link(recording, pair, state):
    seeds = [SETTINGS.seed]
    for _ in range(2):
        state.handle_event({"kind": "live", "at": {"round": 1, "step": 2}})
        finish_request(state, pair)
        seeds.append(state.run.settings.seed)
        assert replace(state.run.settings, seed=SETTINGS.seed) == SETTINGS
        assert state.run.cursor == {"round": 0, "step": 0}
    assert seeds[0] != seeds[1] != seeds[2] and all(0 <= seed < 10_000 for seed in seeds[1:])
    assert open_state(recording, pair, {}).opens_playing
    assert not open_state(recording, pair, {"at": "2.3"}).opens_playing


def test_next_goes_on_after_the_recording(recording, pair, state):
    state.handle_event({"kind": "next", "round": 4, "at": {"round": 3, "step": 1}})
    finish_request(state, pair)
    assert state.run.trace.rounds[:4] == recording.rounds
    assert (len(state.run.trace.rounds), state.run.mode, state.run.cursor) == (5, "live", {"round": 4, "step": 0})


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"gamma": "-1"}, "it must be a whole number from 0 to 16, got -1."),
        ({"gamma": "17"}, "got 17."),
        ({"temperature": "nan"}, "temperature was left out: it must be a number from 0 (greedy) to 5, got nan."),
        ({"top_k": "0"}, "leave it out to switch it off, got 0."),
        ({"top_p": "1.5"}, "got 1.5."),
        ({"uniforms": "0=1.0"}, "at least 0 and below 1"),
        (
            {"pair": "nobody/nothing"},
            "'nobody/nothing' is not in the catalog (known: storybook, storybook-plain)",
        ),
        ({"pair": "/etc|/etc"}, "is not in the catalog"),
        ({"at": "x"}, "'x' is not of the form ROUND.STEP"),
        ({"at": "99.1"}, "There is no round 99, step 1 here"),
        ({"seed": "$x$"}, "got '$x$'"),
    ],
)
def test_a_damaged_link_falls_back_and_says_so(recording, pair, query, said):
    state = open_state(recording, pair, query)
    assert any(said in sentence for sentence in state.notices), state.notices
    assert state.run.trace is recording


def test_good_values_of_a_damaged_link_count(recording, pair):
    state = open_state(recording, pair, {"gamma": "99", "temperature": "0.5", "prompt": "a bear"})
    assert (state.run.settings.gamma, state.run.settings.temperature, state.run.settings.prompt) == (4, 0.5, "a bear")
    assert len(state.notices) == 1


@pytest.mark.parametrize("name", ("rule", "proposer", "draft_length_policy", "source_text"))
def test_an_unknown_name_in_a_link_falls_back(name, recording):
    state = OneRoundState(recording)
    state.open_link({"prompt": "a bear", name: "lenient"})
    state.reject_request(f"{name} must be one of some, got 'lenient'.", name)
    assert state.request.settings == replace(Settings(), prompt="a bear")
    assert state.request.notes == [f"The link's {name} was left out: {name} must be one of some, got 'lenient'."]


def test_a_link_never_loads_a_pair_of_its_own(recording):
    state = OneRoundState(recording)
    state.open_link({"pair": "owner/target|owner/draft", "prompt": "a bear", "at": "3.1"}, own_pairs=True)
    assert state.request is None and state.pair == Settings().pair
    assert "Nothing was loaded" in state.notices[0]
    state.follow_pair("owner/target|owner/draft")
    assert (state.request.settings.prompt, state.request.rounds) == ("a bear", 3)


def test_a_link_to_a_draft_in_8_bits_offers_it_so_and_another_ending_names_no_pair(recording):
    for asked, rounds in (("owner/target|owner/draft", 2), ("owner/target|owner/draft|8bit", 3)):
        state = OneRoundState(recording)
        state.open_link({"pair": "owner/target|owner/draft|8bit", "prompt": "a bear", "at": "3.1"}, own_pairs=True)
        state.follow_pair(asked)
        assert (state.request.settings.pair, state.request.rounds) == (asked, rounds), "only the pair that the link offered"
    state = OneRoundState(recording)
    state.open_link({"pair": "owner/target|owner/draft|4bit", "prompt": "a bear"}, own_pairs=True)
    assert state.offered_request is None


def test_a_pair_that_could_not_be_loaded_is_not_asked_for_again(recording):
    """The session's pair comes to the page once; after the failure the page has the pair of the run that it shows."""
    state = OneRoundState(recording)
    state.follow_pair("owner/target|owner/draft")
    assert state.pair == "owner/target|owner/draft"
    state.reject_request("It is not there.")
    state.follow_pair("owner/target|owner/draft")
    assert state.request is None and state.pair == Settings().pair and state.notices == ["It is not there."]


def test_a_link_asks_for_a_bounded_number_of_rounds(recording):
    state = OneRoundState(recording)
    state.open_link({"prompt": "a bear", "max_new_tokens": "4096", "at": "900.1"})
    assert state.request.rounds == LINK_ROUNDS


def test_a_failed_run_leaves_what_is_shown(state, recording):
    link = state.build_link()
    state.choose(replace(SETTINGS, gamma=2))
    state.reject_request("The prompt is too long.")
    assert (state.run.trace, state.run.settings, state.build_link(), state.request) == (recording, SETTINGS, link, None)
    assert state.notices == ["The prompt is too long."]


@pytest.mark.parametrize(
    "event",
    [
        {"kind": "uniform", "position": 1, "purpose": "accept", "u": 1.0},
        {"kind": "uniform", "position": 1, "purpose": "accept", "u": "x"},
        {"kind": "uniform", "position": [1], "purpose": "accept", "u": 0.5},
        {"kind": "uniform", "position": 1, "purpose": {}, "u": 0.5},
        {"kind": "uniform", "position": -1, "purpose": "accept", "u": 0.5},
        {"kind": "uniform", "position": 1, "purpose": "wish", "u": 0.5, "at": {"round": "x"}},
    ],
)
def test_an_impossible_random_number_is_a_sentence(state, recording, event):
    state.handle_event(event)
    assert (state.run.trace, state.request) == (recording, None)
    assert "must be" in state.notices[0]


@pytest.mark.parametrize(
    "event", [{"kind": "x"}, {}, None, {"kind": ["live"]}, {"kind": "live", "at": {"round": 10**9, "step": True}}]
)
def test_events_that_no_stage_sends_do_no_harm(state, event):
    state.handle_event(event)
    assert state.request is None or state.request.rounds <= 4


def test_runs_of_two_visitors_do_not_meet(recording, pair):
    one, other = OneRoundState(recording), OneRoundState(recording)
    edit_run(one, pair)
    assert other.run.trace is recording
    assert json.dumps(other.run.payload) == json.dumps(OneRoundState(recording).run.payload)


def test_rounds_before_a_draft_random_number_do_not_depend_on_it(recording):
    first = recording.rounds[0]
    reach = len(first.proposals)
    assert list_rounds_before(recording.rounds, (reach - 1, "draft")) == ()
    assert list_rounds_before(recording.rounds, (len(first.committed), "accept"))[0] is first
    assert list_rounds_before(recording.rounds, (len(first.committed) - 1, "accept")) == ()


def test_fields_give_settings_back():
    settings = replace(SETTINGS, temperature=0.123456789, top_k=3, top_p=0.9, seed=2**62)
    assert read_fields(fill_fields(settings), settings) == (settings, [])


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("gamma", -1, "The number of draft tokens per round must be a whole number from 0 to 16, got -1."),
        ("gamma", 17, "got 17."),
        ("temperature", "-1", "got -1.0."),
        ("temperature", "NaN", "got nan."),
        ("temperature", "warm", "The temperature must be a number from 0 (greedy) to 5, got 'warm'."),
        ("top_k", "0", "or empty to switch it off, got 0."),
        ("top_k", "2.5", "got '2.5'."),
        ("top_p", "0", "got 0.0."),
        ("top_p", "1.5", "got 1.5."),
        ("seed", "-3", "got -3."),
        ("prompt", "a\x07b", "U+0007 at character 2"),
        ("prompt", "a" * 20_001, "The prompt is too long: 20,001 characters, at most 20,000."),
    ],
)
def test_a_field_that_cannot_be_used_says_value_and_range(name, text, said):
    settings, problems = read_fields(fill_fields(SETTINGS) | {name: text}, SETTINGS)
    assert settings == SETTINGS
    assert len(problems) == 1
    assert said in problems[0]


def test_an_empty_field_switches_off():
    settings, problems = read_fields(fill_fields(replace(SETTINGS, top_k=5, top_p=0.5)) | {"top_k": " ", "top_p": ""}, SETTINGS)
    assert (settings.top_k, settings.top_p, problems) == (None, None, [])
