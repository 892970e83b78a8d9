"""The record of a run: JSON and back without loss, equality without timing, damaged files refused with a sentence."""

import json
from dataclasses import replace

import pytest

from specviz.errors import TraceError
from specviz.trace import SCHEMA, Decision, Distribution, Ending, Outcome, Round, Trace


def sample() -> Trace:
    """Two rounds: a rejection with its replacement, and a fully accepted draft with its bonus token; awkward floats throughout."""
    kept = Decision(3, -1, "draft", 0.1, 0.3, 0.7, 0.1 + 0.2, 1.0, True, 5, 0.25)
    refused = Decision(4, 0, "draft", 1 / 3, 5e-324, None, 1 - 2**-53, 1.5e-323, False, 2, 0.75)
    unseen = Decision(0, 1, "draft", 0.5, 0.5, 0.0, None, None, None)
    probs = Distribution(
        (3, 5), (0.3, 0.2), (0.1, 0.6), (0.1, 0.2), (0.2, 0.0), {"p": 0.5, "q": 0.3, "overlap": 0.3, "residual": 0.2}, 0.6
    )
    bonus = Distribution((2,), (1.0,), None, None, None, {"p": 0.0}, None)
    first = Round(4, (kept, refused, unseen), (0,), Ending("residual", 2, 0.75), (probs, probs, probs, bonus), {"draft": 0.01})
    second = Round(6, (kept,), (0,), Ending("bonus", 7, 0.5), (), {"draft": 0.02})
    last = Round(8, (kept,), (0,), Ending("eos", None, None))
    return Trace(
        {"gamma": 3, "uniforms": ["1=0.5"]},
        (9, 8, 7, 6),
        (first, second, last),
        "naïve 日本 \u2028",
        {3: "61", 2: "e9"},
        {"device": "cpu"},
    )


def test_a_trace_comes_back_from_json_as_it_was():
    trace = sample()
    for indent in (None, 2):
        again = Trace.from_json(trace.to_json(indent))
        assert again == trace
        assert [round_.timing for round_ in again.rounds] == [round_.timing for round_ in trace.rounds]
        assert again.models == trace.models
        assert again.to_json() == trace.to_json()


def test_the_record_has_the_fields_that_are_promised():
    record = json.loads(sample().to_json())
    assert record["schema"] == SCHEMA.tag
    assert record["output_ids"] == [3, 2, 3, 7, 3]
    first = record["rounds"][0]
    assert {"prefix_length", "proposals", "accepted_path", "ending"} <= set(first)
    assert {"token", "parent", "source", "q", "p", "u_draft", "u", "threshold", "accepted"} <= set(first["proposals"][0])
    assert set(first["ending"]) == {"kind", "token", "u"}
    assert "timing" not in first and len(record["timing"]) == 3


def test_what_is_committed_is_the_path_and_then_the_ending():
    rounds = sample().rounds
    assert [round_.committed for round_ in rounds] == [(3, 2), (3, 7), (3,)]
    assert Outcome(rounds[0].proposals, (0,), rounds[0].ending).committed == (3, 2)


def test_timing_and_machine_are_left_out_of_equality_and_digest():
    trace = sample()
    slower = replace(trace, rounds=tuple(replace(r, timing={"draft": 99.0}) for r in trace.rounds), models={"device": "cuda"})
    assert slower == trace and slower.compute_digest() == trace.compute_digest()


def test_the_digest_changes_with_every_thing_that_matters():
    trace = sample()
    first = trace.rounds[0]
    uniform = replace(first, proposals=(replace(first.proposals[0], u=0.30000000000000010), *first.proposals[1:]))
    others = (
        replace(trace, text="other"),
        replace(trace, settings={"gamma": 4}),
        replace(trace, prompt_ids=(9, 8, 7)),
        replace(trace, rounds=trace.rounds[:2]),
        replace(trace, rounds=(uniform, *trace.rounds[1:])),
        replace(trace, pieces={3: "62", 2: "e9"}),
    )
    assert len({one.compute_digest() for one in (trace, *others)}) == len(others) + 1


def damage_record(change) -> str:
    record = json.loads(sample().to_json())
    change(record)
    return json.dumps(record)


DAMAGE = {
    "another schema": lambda r: r.update(schema="specviz-trace-0"),
    "no schema": lambda r: r.pop("schema"),
    "no rounds": lambda r: r.pop("rounds"),
    "rounds are a number": lambda r: r.update(rounds=3),
    "a round is missing": lambda r: r["rounds"].pop(),
    "a round without proposals": lambda r: r["rounds"][0].pop("proposals"),
    "a proposal without its random number": lambda r: r["rounds"][0]["proposals"][0].pop("u"),
    "a proposal with a strange field": lambda r: r["rounds"][0]["proposals"][0].update(luck=1),
    "an unknown ending": lambda r: r["rounds"][0]["ending"].update(kind="boredom"),
    "another output": lambda r: r["output_ids"].append(1),
    "another token in a round": lambda r: r["rounds"][0]["proposals"][0].update(token=5),
    "no text": lambda r: r.pop("text"),
    "no settings": lambda r: r.pop("settings"),
    "pieces without ids": lambda r: r.update(pieces={"x": "61"}),
    "one timing too few": lambda r: r["timing"].pop(),
    "a distribution without sums": lambda r: r["rounds"][0]["distributions"][0].pop("rest"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_trace_is_refused_with_a_sentence(name):
    with pytest.raises(TraceError, match=r"The trace .*\."):
        Trace.from_json(damage_record(DAMAGE[name]))


@pytest.mark.parametrize("text", ("", "{", "null", "5", '"x"', "[]", "{}", "\x00", sample().to_json()[:-40]))
def test_what_is_no_trace_is_refused_with_a_sentence(text):
    with pytest.raises(TraceError, match=r"The trace .*\."):
        Trace.from_json(text)


@pytest.mark.parametrize("path", ([17], ["a"], [None]))
def test_a_path_to_a_node_that_is_not_there_is_refused_with_a_sentence(path):
    with pytest.raises(TraceError):
        Trace.from_json(damage_record(lambda r: r["rounds"][0].update(accepted_path=path)))


def test_deeply_nested_json_is_refused_with_a_sentence():
    with pytest.raises(TraceError):
        Trace.from_json("[" * 100_000)
