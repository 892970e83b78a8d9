"""One clock times everything: who runs when, what counts, and when the runs lie too far apart for a verdict.

Time is a counter that contestants move by hand; no test looks at how fast anything is.
"""

from __future__ import annotations

from functools import partial

import pytest

from specviz.speed.measurement import clock as module
from specviz.speed.measurement import costs
from specviz.speed.measurement.clock import Clock, Lap, alternate_streams, compute_time_ratio
from specviz.speed.records.estimate import Estimate, compute_relative_iqr, explain_interval, explain_spread, measure_spread


@pytest.fixture
def now(monkeypatch):
    """The time, as a list of one number."""
    time = [0.0]
    monkeypatch.setattr(module.time, "perf_counter", lambda: time[0])
    return time


def build_contestant(now: list[float], seconds, seen: list | None = None, name: str = ""):
    """A contestant that takes so long, in seconds or by run."""

    def work(lap: Lap) -> None:
        if seen is not None:
            seen.append((lap.run, lap.item, name))
        now[0] += seconds(lap) if callable(seconds) else seconds

    return work


def test_who_goes_first_moves_on_by_one_from_run_to_run_and_warm_ups_are_not_counted(now):
    seen = []
    clock = Clock({name: build_contestant(now, 1.0, seen, name) for name in "abc"}, warm_runs=1).run_until(2)
    assert [name for _, _, name in seen] == [*"abc", *"bca", *"cab"] and [run for run, _, _ in seen] == [0] * 3 + [1] * 3 + [
        2
    ] * 3
    assert clock.runs == 2 and all(clock.get_seconds(name) == (1.0, 1.0) for name in "abc")


def test_over_items_everybody_goes_first_equally_often_and_all_work_on_one_item_before_the_next(now):
    seen = []
    Clock(
        {name: build_contestant(now, 1.0, seen, name) for name in "abc"}, warm_runs=0, items=lambda run: ("x", "y", "z")
    ).run_until(3)
    threes = [seen[place : place + 3] for place in range(0, len(seen), 3)]
    assert all(len({item for _, item, _ in three}) == 1 for three in threes)
    first = [(three[0][1], three[0][2]) for three in threes]
    assert sorted(first) == sorted((item, name) for item in "xyz" for name in "abc"), "a Latin square of items and names"
    assert all(len({name for _, name in first[place : place + 3]}) == 3 for place in (0, 3, 6)), "in every run, too"


def test_a_run_is_the_sum_of_its_items_and_ratios_are_taken_run_by_run(now):
    """The machine is twice as slow in every other run: the ratio does not move."""
    slow = Clock(
        {
            "one": build_contestant(now, lambda lap: 1.0 + lap.run % 2),
            "two": build_contestant(now, lambda lap: 3.0 + 3.0 * (lap.run % 2)),
        },
        items=lambda run: (1, 2),
    ).run_until(6)
    assert slow.get_seconds("one") == (4.0, 2.0) * 3
    assert (
        slow.compute_ratio("two", "one")
        == compute_time_ratio(slow.get_seconds("two"), slow.get_seconds("one"))
        == Estimate(3.0, 3.0, 3.0, 6, "times")
    )
    assert slow.compute_rate("one", 8, "tokens/s") == Estimate(3.0, 2.0, 4.0, 6, "tokens/s")
    assert slow.compute_median("one", 2) == Estimate(1.5, 1.0, 2.0, 6, "s")


def test_a_contestant_names_parts_of_its_time_and_leaves_out_what_is_not_its_own(now):
    def work(lap: Lap) -> None:
        now[0] += 2.0
        lap.split("first")
        now[0] += 3.0
        lap.split("second")
        now[0] += 10.0
        lap.exclude(10.0)
        lap.keep(lap.run)

    clock = Clock({"one": work}, warm_runs=2).run_until(2)
    assert clock.get_seconds("one") == (5.0, 5.0)
    assert clock.get_splits("one", "first") == (2.0, 2.0) and clock.get_splits("one", "second") == (3.0, 3.0)
    assert clock.get_kept("one") == [1, 2], "what warm-ups make is not kept"


def test_what_lies_between_items_is_not_timed_and_the_watch_sees_shares_that_rise_to_one(now):
    shares, between = [], []

    def pause(share: float, run: int, item: object) -> None:
        between.append(share)
        now[0] += 100.0

    clock = Clock({name: build_contestant(now, 1.0) for name in "ab"}, items=lambda run: (1, 2))
    clock.run_until(2, lambda share, run, key: shares.append(share), pause)
    assert clock.get_seconds("a") == (2.0, 2.0)
    assert shares == sorted(shares) and shares[0] == 0.0 and len(shares) == 12
    assert between == pytest.approx([1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6, 1.0])
    clock.run_until(3)
    assert clock.runs == 3 and len(clock.get_seconds("a")) == 3, "it goes on where it stopped"


def test_a_device_is_waited_for_inside_the_time_of_its_work(now):
    waits = iter((0.0, 5.0) * 2)

    def settle() -> None:
        now[0] += next(waits)

    assert Clock({"one": build_contestant(now, 1.0)}, warm_runs=1, synchronize=settle).run_until(1).get_seconds("one") == (6.0,)


def test_a_pass_that_follows_its_like_in_the_decoder_is_timed_after_its_like(now, monkeypatch):
    """After other work it takes 9 s, after itself 2 s; the first call is not counted, and no other part is called twice."""
    called = []

    def part(name: str, after_others: float, after_itself: float) -> None:
        now[0] += after_itself if called[-1:] == [name] else after_others
        called.append(name)

    waits = []
    monkeypatch.setattr(costs, "synchronize_device", waits.append)
    parts = {"one": partial(part, "one", 9.0, 2.0), "many": partial(part, "many", 30.0, 30.0)}
    clock = costs.time_parts(parts, None, 2, warm_runs=1, rewarmed={"one"})
    assert (clock.get_seconds("one"), clock.get_seconds("many")) == ((2.0, 2.0), (30.0, 30.0))
    assert called.count("one") == 6 and called.count("many") == 3
    assert len(waits) == 2 * 6 + 3, "a device is waited for before, between and after"
    assert costs.time_parts(parts, None, 2, warm_runs=1).get_seconds("one") == (9.0, 2.0), (
        "only where it happens to follow itself"
    )


def test_streams_take_turns_by_the_time_they_have_had(now):
    def stream(seconds: float, count: int):
        for number in range(count):
            now[0] += seconds
            yield number

    made = [(key, at) for key, _, at in alternate_streams({"slow": stream(3.0, 2), "fast": stream(1.0, 5)})]
    assert made == [("slow", 3.0), ("fast", 1.0), ("fast", 2.0), ("fast", 3.0), ("slow", 6.0), ("fast", 4.0), ("fast", 5.0)]


def test_runs_that_another_program_disturbed_are_no_verdict():
    calm, torn = [1.0, 1.01, 1.02, 1.03, 1.04, 1.05], [1.0, 1.0, 1.5, 1.5, 2.0, 2.0]
    assert explain_spread(compute_relative_iqr(calm), "it") == "" and "spans 67% of their median; at most 25%" in explain_spread(
        compute_relative_iqr(torn), "it"
    )
    assert measure_spread([calm, [2.0 * one for one in calm]]) == pytest.approx(0.0), (
        "a machine that slows for a whole run disturbs no ratio"
    )
    assert measure_spread([calm, torn]) > 0.2


def test_a_comparison_of_few_runs_or_of_wide_ones_is_no_verdict():
    assert explain_interval(Estimate(1.5, 1.4, 1.6, 6), "it") == ""
    assert "fewer than 6" in explain_interval(Estimate(1.5, 1.4, 1.6, 5), "it")
    assert "spans 53% of it; at most 40%" in explain_interval(Estimate(1.5, 1.2, 2.0, 6), "it")
