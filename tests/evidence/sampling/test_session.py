"""One session for pages and commands: the same decoder, seed and number of samples give the same cells and the same statistics.

Nothing here is left to chance: samples are fixed by their seed, and the two sides are compared number by number.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

import pytest

from specviz.decoding.samples import Coverage, join_samples
from specviz.errors import SettingsError
from specviz.evidence.decoder import ENGINE, MEMOIZED, SHARED, build_decoder, with_mistake
from specviz.evidence.mistakes.registry import MISTAKES
from specviz.evidence.sampling import session
from specviz.evidence.sampling.sampling_plan import INTERIM, SCHEDULE, SamplingPlan
from specviz.evidence.sampling.session import SamplingSpec, Session, ShardRange, SideBySide, draw_shard, draw_together
from specviz.models.memoized import MemoizedPair
from specviz.models.pairs.loading import load_pair
from specviz.settings import Settings
from specviz.statistics.finding import ALPHA

SETTINGS = Settings(prompt="Once upon", max_new_tokens=3, gamma=2, seed=11)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", ["speculative", "R5"])
def test_page_and_command_give_the_same_cells_and_statistics(pair, name):
    """The page's samples come in three clicks and are tested at 100 and 1,000; the command tests 1,000 once."""
    command = Session(build_decoder(name, pair, SETTINGS), SamplingPlan("shared-distributions", 1000, reference=0))
    command.draw(SHARED)
    once = command.test(SHARED)

    page = Session(build_decoder(name, pair, SETTINGS), INTERIM)
    due = {}
    for first, count in ((0, 70), (70, 630), (700, 300)):
        due |= page.count(page.decoder.sample(SHARED, first, count)).due
    assert [report.plan.n for report in due.values()] == [100, 1000]
    look = due[1]

    assert (look.partition.names, look.partition.masses.tolist()) == (once.partition.names, once.partition.masses.tolist())
    assert look.counts.tolist() == once.counts.tolist() and look.coverage == once.coverage
    assert (look.tv, look.band) == (once.tv, once.band)
    for mine, other in zip(look.tests, once.tests, strict=False):
        assert (mine.name, mine.statistic, mine.p_value, mine.df) == (other.name, other.statistic, other.p_value, other.df)
    assert len(look.tests) == SCHEDULE.tests and look.plan.max_cells == once.plan.max_cells
    # what differs is the correction, and the plan states it: the look's part of the false-alarm rate, shared by its tests
    assert once.plan.alpha == ALPHA and look.plan.alpha == SCHEDULE.compute_alpha_at(1) == pytest.approx(ALPHA / 6)
    assert {test.alpha for test in look.tests} == {look.plan.level} == {SCHEDULE.compute_alpha_at(1) / SCHEDULE.tests}
    assert INTERIM.tabulate_looks(3)[1]["level"] == look.plan.level


@pytest.mark.parametrize("mode", [ENGINE, MEMOIZED])
def test_a_session_draws_only_the_tested_tokens_and_lets_every_second_sample_draft_one_less(pair, mode):
    """In float64, against the rounds of each text. Memoized samples run in another order than their numbers."""
    exact = load_pair(pair.name, "cpu", "float64")
    models = MemoizedPair(exact) if mode == MEMOIZED else exact
    plan = SamplingPlan("engine", 70, 0.9, seconds=1e6, reference=0, tested_tokens=2)
    drawn = Session(build_decoder("speculative", models, SETTINGS), plan)
    tokens, decoder = drawn.draw(mode).tokens, build_decoder("speculative", exact, SETTINGS)
    coverage, may_draft = Coverage(), {0: 0, 1: 0}
    for number, row in enumerate(tokens.tolist()):
        (rounds,) = decoder.decode_rounds([number], length=3 - number % 2)
        rounds = rounds[:1] if len(rounds[0].committed) >= 2 else rounds[:2]
        assert row == [token for round_ in rounds for token in round_.committed][:2]
        coverage += Coverage.from_rounds(rounds)
        may_draft[number % 2] = max(may_draft[number % 2], len(rounds[0].proposals))
    assert drawn.coverage[mode] == coverage and coverage.bonus > 0 and may_draft == {0: 2, 1: 1}
    spec = SamplingSpec("speculative", mode, SETTINGS, decoder.prompt, tested_tokens=2)
    assert draw_shard(models, spec, ShardRange(0, 70)).tokens.tolist() == tokens.tolist()


def test_a_certificate_of_a_look_has_the_cells_of_a_single_test_and_all_its_tests(pair):
    once = INTERIM.plan_single_test(1000, 3)
    certified = INTERIM.plan_certificate(1, 3)
    assert (certified.n, certified.length, certified.cells) == (once.n, once.length, once.cells)
    assert certified.alpha == SCHEDULE.compute_alpha_at(1)
    assert certified.alpha / certified.level == pytest.approx(once.alpha / once.level)
    assert type(once).for_distance(1000, 3, certified.tv, certified.alpha) == certified, "check plans it again from its distance"


@pytest.mark.parametrize("n", [10**k for k in range(2, 7)])
@pytest.mark.parametrize("length", [1, 4])
def test_every_look_has_a_plan_that_follows_from_its_distance(n, length):
    look = SCHEDULE.find_due_look(n)
    made = INTERIM.plan_certificate(look, length)
    assert type(made).for_distance(n, length, made.tv, made.alpha) == made and made.cells >= 16


@pytest.mark.parametrize(
    ("seconds_per_sample", "count"),
    [(0.01, 6_000), (0.03, 2_000), (0.04, 2_000), (0.06, 2_000), (0.08, 1_500), (10.0, 12)],
)
def test_a_slow_engine_may_take_twice_as_long_for_two_thousand_samples(seconds_per_sample, count):
    assert SamplingPlan(seconds=60.0).count_fitting(seconds_per_sample) == count
    assert SamplingPlan(seconds=60.0, least=0).count_fitting(seconds_per_sample) == int(60.0 / seconds_per_sample)


@pytest.mark.parametrize(
    ("steps", "seconds"),
    [([4.0], 4.0), ([9.0, 2.0, 2.0, 2.0], 8.0), ([9.0, 5.0, 3.0, 3.0, 3.0, 2.0, 1.0, 0.5], 17.5)],
    ids=["one step", "a slow start", "few rows at the end"],
)
def test_the_pilot_ignores_its_slow_start_and_counts_its_quick_end_once(steps, seconds):
    assert session._estimate_usual_seconds(list(accumulate(steps, initial=7.0))) == pytest.approx(seconds)


def test_sessions_side_by_side_draw_and_count_what_each_does_alone(pair):
    ids = tuple(pair.encode(SETTINGS.prompt))
    specs = [
        SamplingSpec(name, SHARED, SETTINGS, ids, label=label) for name, label in (("speculative", "one"), ("target", "two"))
    ]
    first = Session(specs[0].build(pair), INTERIM)
    both = SideBySide(pair, specs, first.cells, ("",) * len(first.cells.shown.names), 1)
    calls = []

    def call(function, given, on_progress):
        calls.append(given[1])
        return function(pair, *given, on_progress)

    parts = []
    for count in (40, 80):
        parts.append(both.draw(count, call=call))
        looks = both.test(parts[-1])
    assert [(one.first, one.count) for one in calls] == [(0, 40), (40, 80)] and both.n == 120
    ((found,),) = looks
    assert found.n == 100 and [one.name for one in both.report()] == ["one", "two"]
    for number, part_session in enumerate(both.sessions):
        whole = join_samples([part[number] for part in parts])
        assert (
            part_session.shown.tolist() == first.cells.shown.count_samples(whole).tolist()
            and part_session.counted == whole.coverage
        )
    assert draw_together(pair, specs, calls[0])[0].tokens.tolist() == parts[0][0].tokens.tolist()


def test_a_setting_that_a_published_mistake_replaces_is_refused():
    assert with_mistake("R5", Settings()).gamma == MISTAKES["R5"].settings.gamma
    for name, value in (("temperature", 0.3), ("gamma", 9), ("top_k", 3)):
        with pytest.raises(SettingsError, match=f"{name.replace('_', '-')} must be left out with the decoder R5, which needs"):
            with_mistake("R5", replace(Settings(), **{name: value}))
