"""The baseline of every speed-up is the fastest way without speculation that was measured. No test looks at who was faster here."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from specviz.settings import Settings
from specviz.speed.benchmarks import passage as passage_module
from specviz.speed.benchmarks import target_only as module
from specviz.speed.benchmarks.passage import write_passage
from specviz.speed.benchmarks.target_only import COMPILED_GENERATE, GENERATE, LOOP, find_baseline
from specviz.speed.prediction import planning as plan_module
from specviz.speed.prediction.planning import PlanEffort, make_plan
from specviz.speed.records.baseline import Baseline
from specviz.speed.records.passage import dump_passages, load_passages
from specviz.speed.records.plan import RoundCostCurve, SpeedPlan
from specviz.web.whole_text import words
from tests.speed.prediction.test_planning import TEXT, build_plan, curve

TWICE = Baseline(GENERATE.title, 2.0)
SETTINGS = Settings(prompt="Once upon", max_new_tokens=6, gamma=2)


@pytest.fixture
def set_times(monkeypatch, pair):
    """timed({way: times as fast as the loop}): what a clock of the ways finds; returns the ways of each clock that was made."""
    clocks: list[list[str]] = []

    def set_factors(factors: dict[str, float]) -> list[list[str]]:
        class FakeClock:
            def __init__(self, contestants, synchronize):
                self.contestants = contestants
                clocks.append(list(contestants))

            def run_until(self, runs: int) -> FakeClock:
                return self

            def compute_ratio(self, slow: str, fast: str) -> SimpleNamespace:
                return SimpleNamespace(value=factors[fast])

        monkeypatch.setattr(module, "Clock", FakeClock)
        return clocks

    module._kept.pop(pair.target, None)
    yield set_factors
    module._kept.pop(pair.target, None)


def test_the_fastest_way_is_the_baseline_and_the_loop_needs_no_word(set_times, pair):
    ids = pair.encode("Once upon")
    clocks = set_times({GENERATE.title: 1.5})
    assert find_baseline(pair, SETTINGS, ids) == Baseline(GENERATE.title, 1.5) == find_baseline(pair, SETTINGS, ids)
    assert clocks == [[LOOP.title, GENERATE.title]], "once for a target and a distribution"
    set_times({GENERATE.title: 0.4})
    assert find_baseline(pair, replace(SETTINGS, temperature=0.0), ids) is None
    assert "generate() of transformers, measured 1.50 times as fast as" in Baseline(GENERATE.title, 1.5).in_words
    with pytest.raises(ValueError, match="is faster than"):
        Baseline(GENERATE.title, 1.0)


def test_a_way_that_cannot_write_the_text_is_left_out(set_times, pair, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("no such processor")

    monkeypatch.setattr(module, "TARGET_ONLY_DECODERS", (LOOP, replace(GENERATE, write_text=refuse)))
    clocks = set_times({})
    assert find_baseline(pair, SETTINGS, pair.encode("Once upon")) is None and clocks == [[LOOP.title]]


def test_on_cuda_the_compiled_static_cache_takes_part_only_where_compiling_was_asked_for(monkeypatch):
    decoders = tuple(replace(decoder, write_text=lambda *_, **__: None) for decoder in module.TARGET_ONLY_DECODERS)
    monkeypatch.setattr(module, "TARGET_ONLY_DECODERS", decoders)
    gpu = SimpleNamespace(target=SimpleNamespace(device=SimpleNamespace(type="cuda")))
    for engine, expected in (("auto", [LOOP, GENERATE]), ("compiled", [LOOP, GENERATE, COMPILED_GENERATE])):
        usable = module._list_usable(gpu, replace(SETTINGS, engine=engine), ())
        assert [decoder.name for decoder in usable] == [decoder.name for decoder in expected]


def test_a_plans_speeds_are_over_the_faster_way():
    plain, faster = curve(0.5), curve(0.5).with_baseline(TWICE)
    assert faster.target_only == tuple(seconds / 2 for seconds in plain.target_only) and faster.rounds == plain.rounds
    assert [run[1:] for run in faster.first] == [run[1:] for run in plain.first] and faster.first[0][0] == plain.first[0][0] / 2
    assert plain.with_baseline(None) is plain
    told = replace(build_plan(0.5), baseline=TWICE)
    assert SpeedPlan.from_json(told.to_json()) == told and "baseline" not in build_plan(0.5).to_record()


def test_a_plan_that_is_made_takes_the_faster_way(pair, monkeypatch):
    monkeypatch.setattr(plan_module, "find_baseline", lambda *_: TWICE)
    before = []
    divide = RoundCostCurve.with_baseline
    monkeypatch.setattr(RoundCostCurve, "with_baseline", lambda self, one: before.append((self, one)) or divide(self, one))
    plan = make_plan(pair, replace(SETTINGS, max_new_tokens=8), TEXT, (1, 2), PlanEffort(2, 8, probes=2))
    ((measured, baseline),) = before
    assert (
        plan.baseline == baseline == TWICE
        and plan.costs == divide(measured, TWICE)
        and plan.costs.target_only[0] == measured.target_only[0] / 2
    )


def test_a_passage_shows_the_times_of_the_faster_way(pair, monkeypatch):
    seen = []

    def stream(*asked: object):
        for one in original(*asked):
            seen.append(one)
            yield one

    original = passage_module.stream_rounds
    monkeypatch.setattr(passage_module, "stream_rounds", stream)
    monkeypatch.setattr(passage_module, "find_baseline", lambda *_: TWICE)
    passage = write_passage(pair, SETTINGS, runs=1)
    written = {lane: [one.at for one in seen if one.lane == lane] for lane in ("target", "speculative")}
    assert passage.target.clock == pytest.approx([at / 2 for at in written["target"][-len(passage.target.clock) :]])
    assert passage.speculative.clock == pytest.approx(written["speculative"][-len(passage.speculative.clock) :])
    assert passage.gain.value == pytest.approx(passage.speculative.rates[0] / passage.target.rates[0])
    assert passage.target.rates[0] == pytest.approx(len(passage.target.trace.output_ids) / passage.target.clock[-1])
    assert TWICE.in_words in words.describe_measurement(passage)
    again = load_passages(dump_passages({"x": passage}))["x"]
    assert again.target == passage.target and again.baseline == TWICE
    assert '"baseline"' not in dump_passages({"x": replace(passage, baseline=None)})
