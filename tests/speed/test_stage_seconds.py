"""How long work will take: a probe's rounds times the counted ones, corrected by what was done since."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from specviz.evidence.serving_setups import comparison
from specviz.evidence.serving_setups.comparison import SetupEffort
from specviz.evidence.serving_setups.comparison import estimate_stage_seconds as of_setups
from specviz.progress import estimate_seconds_left
from specviz.speed.benchmarks.drafting_methods import SAMPLING, TIMING, WARMING
from specviz.speed.benchmarks.drafting_methods import estimate_stage_seconds as of_methods
from specviz.speed.benchmarks.passage import estimate_stage_seconds as of_passage
from specviz.speed.measurement import timed_decoding as duration
from specviz.speed.measurement.timed_decoding import DecodingPace, measure_pace
from specviz.speed.prediction.plan_effort import PlanEffort
from specviz.speed.prediction.planning import COSTS, COUNTING, choose_sizes, fit_effort
from specviz.speed.prediction.planning import TIMING as PLAN_TIMING
from specviz.speed.prediction.planning import estimate_stage_seconds as of_plan
from specviz.speed.records.passage import SPECULATIVE, TARGET_ONLY, TimedRound


def build_round(count: int) -> SimpleNamespace:
    """A round that committed so many."""
    return SimpleNamespace(committed=(1,) * count)


def test_a_pace_is_the_first_round_apart_the_median_of_the_later_ones_and_the_tokens_of_all():
    pace = DecodingPace.from_rounds([1.0, 1.2, 1.4, 9.4], [build_round(n) for n in (1, 3, 2, 2)])
    assert (pace.first, pace.each, pace.tokens) == (1.0, pytest.approx(0.2), 2.0)
    assert pace.estimate_seconds(20) == pytest.approx(1.0 + 9 * 0.2) and pace.estimate_seconds(1) == 1.0
    assert DecodingPace.from_rounds([0.5], [build_round(1)]) == DecodingPace(0.5, 0.5, 1.0), "one round stands for the later ones"


def test_a_probe_makes_a_few_rounds_and_no_more(monkeypatch):
    times = iter([0.0, 5.0, 6.0, 7.0])
    monkeypatch.setattr(duration, "time", SimpleNamespace(perf_counter=lambda: next(times)))
    rounds = iter([build_round(2)] * 9)
    assert measure_pace(rounds, 3) == DecodingPace(5.0, 1.0, 2.0)
    assert len(list(rounds)) == 6


def test_the_time_left_begins_with_the_probe_and_ends_with_the_speed_so_far():
    assert estimate_seconds_left(40.0, 0.0, 0.0) == pytest.approx(40.0)
    assert estimate_seconds_left(40.0, 1.0, 90.0) == 0.0
    assert estimate_seconds_left(40.0, 0.25, 10.0) == pytest.approx(30.0), "work as slow as the probe said"
    loaded = estimate_seconds_left(40.0, 0.5, 60.0)
    assert 40.0 < loaded < 60.0, "three times as slow as the probe said: between 20 s by the probe and 60 s by the speed"


def test_work_that_stands_still_takes_ever_longer():
    left = [estimate_seconds_left(10.0, 0.1, spent) for spent in (1.0, 5.0, 25.0)]
    assert left == sorted(left) and left[-1] > 5 * left[0]


def test_a_machine_that_is_twice_as_slow_doubles_what_every_page_says():
    quick, slow = ([DecodingPace(0.3 * k, 0.1 * k), DecodingPace(0.5 * k, 0.2 * k, 2.0)] for k in (1, 2))
    effort, setups = PlanEffort(16, 32, 9), SetupEffort(24, 3, 24, 1, 96)
    places = [((1, 2), (3, 4, 5))] * 3

    def seconds(paces: list[DecodingPace], k: int) -> list[float]:
        rounds = [TimedRound(TARGET_ONLY, build_round(1), 0.3 * k), TimedRound(SPECULATIVE, build_round(2), 0.5 * k)]
        ways = {("fp32", comparison.TARGET_ONLY): paces[0], ("fp32", comparison.SPECULATIVE): paces[1]}
        return [
            sum(of_passage(rounds, 128)),
            sum(of_plan(*paces, 48, 16, range(1, 7), effort).values()),
            sum(of_methods(paces, 32, 3, 500).values()),
            sum(of_setups(ways, places, 2, setups).values()),
        ]

    assert seconds(slow, 2) == pytest.approx([2 * one for one in seconds(quick, 1)])


def test_methods_are_counted_by_their_texts_and_chunks_of_samples():
    found = of_methods([DecodingPace(1.0, 0.5), DecodingPace(2.0, 0.25, 2.0)], 5, 3, 150)
    texts = (1.0 + 4 * 0.5) + (2.0 + 1.5 * 0.25)
    assert found[TIMING] == pytest.approx(3 * texts) and found[WARMING] > texts
    assert found[SAMPLING] == pytest.approx(
        2 * of_methods([DecodingPace(1.0, 0.5), DecodingPace(2.0, 0.25, 2.0)], 5, 3, 100)[SAMPLING]
    )
    assert sum(of_methods([], 5, 3, 150).values()) > 0.0, "where no method runs there is still a whole to share"


def test_a_plan_without_the_clock_costs_no_probes_and_one_that_measures_counts_and_times():
    target, drafted = DecodingPace(0.3, 0.1), DecodingPace(0.5, 0.2, 2.0)
    without = of_plan(target, drafted, 48, 16, (1, 2), PlanEffort(16, 32, 0))
    assert without[COSTS] == 0.0 and sum(without.values()) > 0.0
    checked = of_plan(target, drafted, 48, 16, (1, 2), PlanEffort(16, 32, 9, check=True))
    assert COSTS not in checked and checked[COUNTING] > 0.0
    assert checked[PLAN_TIMING] > of_plan(target, drafted, 48, 16, (1, 2), PlanEffort(16, 32, 9))[COSTS]


def test_a_setup_that_cannot_be_served_costs_nothing_and_a_mistake_is_not_read():
    paces = {
        ("int8", comparison.TARGET_ONLY): DecodingPace(0.2, 0.1),
        ("int8-pass", comparison.SPECULATIVE): DecodingPace(0.4, 0.3, 2.0),
    }
    found = of_setups(paces, [((1,), (2, 3))], 2, SetupEffort(10, 3, 8, 1, 4))
    assert found[comparison.READING] == pytest.approx(2 * 0.1)
    assert found[comparison.CHECKING] == pytest.approx(10 * (0.3 + 3 * 0.1))
    assert found[comparison.GREEDY] == pytest.approx(0.2 + 3 * 0.1)


def test_a_plan_that_would_take_too_long_has_fewer_texts_and_probes_and_takes_about_its_seconds():
    target, drafted, gammas, sizes = DecodingPace(0.4, 0.07), DecodingPace(0.8, 0.5, 2.0), range(1, 9), choose_sizes(8)
    assert sizes == (0, 1, 4, 8)
    effort = PlanEffort(64, 64, 45, seconds=300)

    def weigh(texts: int, effort: PlanEffort) -> dict[str, float]:
        return of_plan(target, drafted, 96, texts, gammas, effort, 4.0, sizes, 1)

    assert sum(of_plan(target, drafted, 96, 64, gammas, effort, 4.0).values()) > 1000
    texts, tokens, probes = fit_effort(effort, 64, 96, weigh(64, effort), 1)
    assert 8 < texts < 64 and tokens == 96 and 2 < probes < 45
    assert sum(weigh(texts, replace(effort, probes=probes)).values()) - texts * 4.0 <= 0.8 * 300, "the user's texts are left out"
    quick = replace(effort, seconds=60)
    texts, tokens, _ = fit_effort(quick, 64, 96, weigh(64, effort), 1)
    assert texts == 8 and 16 < tokens < 96, "shorter continuations before fewer than eight"
    written = weigh(8, quick)
    assert (written["the target writes"] + written["one pass over its texts"]) * tokens / 96 <= 0.4 * 60 + 1.0
    least = fit_effort(replace(effort, seconds=10), 64, 96, weigh(64, effort), 1)
    assert least == (8, 16, 2), "the fewest that say how sure they are"
    assert fit_effort(replace(effort, seconds=10), 3, 8, weigh(3, effort), 1)[:2] == (3, 8)
    without = replace(effort, probes=0)
    assert fit_effort(without, 64, 96, weigh(64, without), 1)[2] == 0
