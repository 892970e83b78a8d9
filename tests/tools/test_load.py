"""The load tools' own arithmetic: tails, growth, and traces that are somebody else's. No server is started here."""

from __future__ import annotations

import math

import pytest

from specviz.errors import SpecvizError
from tools.load import crowd, room, soak, walk
from tools.load.client import parse_widget_key
from tools.load.findings import ShownTrace, TraceContent, WaitingTimes, compute_growth, find_cross_talk, format_table, read_after
from tools.load.server import ServerMemory, check_host


def build_content(link: str, rounds: int) -> TraceContent:
    return TraceContent(f"digest of {link} {rounds}", f"tokens of {link} {rounds}")


def build_shown_trace(visitor: int, link: str, rounds: int = 2, run: TraceContent | None = None) -> ShownTrace:
    return ShownTrace(visitor, link, rounds, run or build_content(link, rounds))


def build_log(memory=((0.0, 900.0), (301.0, 1000.0), (1800.0, 1099.0)), **more) -> soak.SoakLog:
    return soak.SoakLog(memory=[(at, ServerMemory(value + 10, value)) for at, value in memory], visits=3, **more)


def test_p95_is_a_time_that_was_seen_and_that_19_of_20_do_not_exceed():
    times = WaitingTimes.from_seconds("x", [float(i) for i in range(1, 21)])
    assert (times.seen, times.median, times.p95) == (20, 11.0, 20.0)
    assert WaitingTimes.from_seconds("x", [float(i) for i in range(1, 22)]).p95 == 20.0
    assert WaitingTimes.from_seconds("x", [3.0]).format_row() == ("x", "1", "3.00 s", "3.00 s")


def test_an_action_that_nobody_did_has_no_time():
    times = WaitingTimes.from_seconds("x", [])
    assert times.seen == 0 and math.isnan(times.p95) and times.format_row() == ("x", "0", "not seen", "not seen")


def test_growth_is_the_part_that_was_added():
    assert compute_growth(1000.0, 1100.0) == pytest.approx(0.1) and compute_growth(1000.0, 900.0) == pytest.approx(-0.1)
    with pytest.raises(SpecvizError, match="got 0 MB"):
        compute_growth(0.0, 5.0)


def test_memory_is_first_read_when_the_server_is_warm_or_else_last():
    samples = [(0.0, 1.0), (299.0, 2.0), (301.0, 3.0), (400.0, 4.0)]
    assert read_after(300.0, samples) == 3.0 and read_after(900.0, samples) == 4.0


def test_a_probability_that_differs_in_its_last_digits_is_said_and_is_no_cross_talk():
    close = build_shown_trace(1, "seed=1", run=TraceContent("another digest", "tokens of seed=1 2"))
    assert find_cross_talk([close, build_shown_trace(2, "seed=2")], build_content) == (
        [],
        ["Visitor 1 asked for 'seed=1', 2 rounds: the same run up to last digits."],
    )
    said, held = soak.format_report(build_log(), 0, [], ["up to last digits"], 30)
    assert held and "- up to last digits" in said


def test_two_traces_that_were_mixed_up_are_both_found_and_their_owners_named():
    one, other = build_shown_trace(1, "seed=1"), build_shown_trace(2, "seed=2")
    assert find_cross_talk([one, other, build_shown_trace(3, "seed=1", 3)], build_content) == ([], [])
    mixed = [build_shown_trace(1, "seed=1", run=other.run), build_shown_trace(2, "seed=2", run=one.run)]
    assert find_cross_talk(mixed, build_content)[0] == [
        "Visitor 1 asked for 'seed=1', 2 rounds, and was shown the run of 'seed=2', 2 rounds.",
        "Visitor 2 asked for 'seed=2', 2 rounds, and was shown the run of 'seed=1', 2 rounds.",
    ]


def test_a_trace_of_nobody_is_found():
    assert find_cross_talk([build_shown_trace(1, "seed=1", run=TraceContent("else", "else"))], build_content)[0] == [
        "Visitor 1 asked for 'seed=1', 2 rounds, and was shown a run that nobody asked for."
    ]


def test_each_run_is_computed_once_however_many_saw_it():
    asked = []
    find_cross_talk([build_shown_trace(i, "seed=1") for i in range(5)], lambda *run: (asked.append(run), build_content(*run))[1])
    assert asked == [("seed=1", 2)]


def test_a_soak_in_which_nothing_happened_holds():
    said, held = soak.format_report(build_log(), 0, [], [], 30)
    assert held and "Everything held." in said and "1099 MB PSS (+9.9%)" in said


@pytest.mark.parametrize(
    ("seen", "tracebacks", "mixed", "sentence"),
    (
        ({"memory": ((0.0, 900.0), (301.0, 1000.0), (1800.0, 1101.0))}, 0, [], "grew by 10.1%"),
        ({"exceptions": 1}, 0, [], "1 exceptions stood"),
        ({}, 2, [], "2 tracebacks"),
        ({"lost": ["visitor 7: Impatient"]}, 0, [], "visitor 7"),
        ({}, 0, ["Visitor 1 was shown another's."], "Visitor 1"),
    ),
)
def test_a_soak_fails_for_each_thing_that_went_wrong(seen, tracebacks, mixed, sentence):
    said, held = soak.format_report(build_log(**seen), tracebacks, mixed, [], 30)
    assert not held and sentence in said


def test_growth_does_not_fail_a_soak_that_ends_while_pages_are_still_met_for_the_first_time():
    assert soak.format_report(build_log(memory=((0.0, 500.0), (60.0, 900.0))), 0, [], [], 1)[1]


@pytest.mark.parametrize("host", ("0.0.0.0", "192.168.1.5", "example.org", ""))
@pytest.mark.parametrize("tool", (crowd, soak))
def test_an_address_that_others_can_reach_is_refused_before_anything_starts(tool, host, capsys):
    assert tool.main(["--host", host]) == 2
    assert f"got {host!r}" in capsys.readouterr().err


def test_loopback_addresses_are_allowed():
    for host in ("127.0.0.1", "localhost", "::1"):
        check_host(host)


@pytest.mark.parametrize(
    ("tool", "option"),
    ((crowd, "--visitors"), (crowd, "--lookers"), (soak, "--visitors"), (soak, "--minutes"), (walk, "--times"), (walk, "--cold")),
)
def test_the_load_is_bounded(tool, option, capsys):
    assert tool.main([option, "100000"]) == 2
    assert "100000" in capsys.readouterr().err


def test_a_walk_s_rows_say_what_was_seen_and_what_is_wanted():
    seen = walk.Walk()
    seen.seconds[walk.STEP] += [0.010, 0.012, 0.030]
    seen.bytes[walk.ROUND] = 61_400
    assert walk.list_rows(seen) == [
        ("a key, until its step is drawn", "0.012 s", "0.030 s", "3", "below 0.02 s"),
        ("bytes of a round's payload", "61.4 kB", "", "1", "below 60 kB"),
    ]


@pytest.mark.parametrize(("delay", "ending"), [(0.5, "Held."), (3.0, "Not held."), (float("inf"), "Not held.")])
def test_a_class_is_held_if_the_wall_counts_every_answer_in_time(delay, ending):
    phone = room.StudentPhone("http://127.0.0.1:1", "code", 1)
    phone.seconds[room.PAGE].append(0.2)
    report, held = room.format_report([phone], {room.VOTE: [delay]}, 1.0, 0)
    assert held == (ending == "Held.") and report.endswith(f" {ending}")
    assert f"| any answer, until the wall counts it | 1 | {delay:.2f} s | {delay:.2f} s |" in report


def test_a_table_is_markdown():
    assert format_table(("a", "b"), [("1", "2")]) == "| a | b |\n| --- | --- |\n| 1 | 2 |"


def test_the_key_of_a_widget_is_what_the_page_called_it():
    assert parse_widget_key("$$ID-0a1b-exactness-draw-100") == "exactness-draw-100"
