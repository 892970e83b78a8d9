"""Exactness test, what its samples say: they add up over clicks, tests follow their plan, p-values of many seeds are uniform.

Samples are fixed by their seeds; a right decoder is rejected with probability 0.001 over seeds, and the seeds here are the first tried.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from specviz.errors import CancelledError
from specviz.evidence.decoder import ENGINE, SHARED, build_decoder
from specviz.evidence.sampling.sampling_plan import INTERIM, SCHEDULE
from specviz.evidence.testing.hypothesis_tests import TestReport, run_count_tests
from specviz.evidence.testing.partition import Partition
from specviz.evidence.testing.results import SIZES, CellShares, ExactnessResult, SeedPValues
from specviz.figures import cell_shares
from specviz.jobs.queue import FairQueue
from specviz.web.exactness import words, work
from tests.helpers.pages import FreeTicket
from tests.helpers.pages import build_exactness_state as exam


def evaluate_look(look: int, cells: Partition, counts: np.ndarray) -> TestReport:
    """Counts of a look's number of samples, tested as the pages do."""
    return run_count_tests(INTERIM.plan_look(look, cells.length), cells, counts, "")


def test_samples_add_up_over_clicks_to_those_of_one_shard(page_pair, pair):
    """30 and 70 samples through the engine and 900 on shared distributions fall into the cells that one shard of 1,000 does."""
    clicks = exam()
    for count in (30, 70, 900):
        work.draw_samples(clicks, FreeTicket(), count)
    question, bench = clicks.question, clicks.bench
    whole = build_decoder("speculative", pair, question.settings, bench.ids).sample(SHARED, 0, 1000)
    assert bench.session.sessions[0].shown.tolist() == bench.session.cells.shown.count_samples(whole).tolist()
    assert clicks.result.arms[0].counts == tuple(bench.session.sessions[0].shown.tolist())
    assert (clicks.result.n, clicks.result.engine) == (1000, 100)
    assert [found.n for (found,) in clicks.result.looks] == [100, 1000]
    first = build_decoder("speculative", pair, question.settings, bench.ids).sample(SHARED, 0, 100)
    assert clicks.result.looks[0][0].counts == tuple(bench.session.cells.tests[0].count_samples(first).tolist())
    other = build_decoder("target", pair, question.settings, bench.ids).sample_target(1000)
    assert bench.session.sessions[1].shown.tolist() == bench.session.cells.shown.count_samples(other).tolist()


def test_right_decoders_are_consistent_and_say_what_could_have_been_seen(page_pair):
    for source in ("speculative", "target"):
        one = exam(source=source)
        work.draw_samples(one, FreeTicket(), 10_000)
        said = words.build_verdict(one)
        assert (said.mark, one.result.n) == ("consistent", 10_000)
        noticed = round(1000 * one.result.looks[-1][0].detectable_tv)
        assert 10 <= noticed < 100
        assert (
            f"This tests only these tokens, after this one prompt. A bug that moves {noticed / 10:.1f}% of the samples between the {one.result.looks[-1][0].cells} groups of texts tested would be caught (power 99%)."
            in said.details
        )
        assert "several texts" in words.describe_limits(one) and "next test comes at 100,000" in words.describe_limits(one)


def test_assisted_generation_is_sampled_one_text_at_a_time(page_pair):
    one = exam(length=1, source="assisted")
    work.draw_samples(one, FreeTicket(), 100)
    assert (one.result.n, one.result.engine, len(one.result.looks), one.question.max_samples) == (100, 0, 1, 10_000)


def test_several_visitors_of_the_one_global_generator_do_not_block_each_other(page_pair):
    """They take turns of 20 ms at one machine; each gets the samples that it gets alone."""
    queue, alone = FairQueue(places=2, time_slice=0.02), exam(length=1, source="assisted")
    work.draw_samples(alone, FreeTicket(), 20)
    exams = [exam(length=1, source="assisted") for _ in range(3)]
    for one in exams:
        one.queue = queue
        one.request_samples(20, work.draw_samples)
    assert all(one.ticket.ended.wait(60) for one in exams)
    assert [one.result.arms[0].counts for one in exams] == [alone.result.arms[0].counts] * 3


@pytest.mark.parametrize("ticks", (3, 20, 40, 60))
def test_a_stop_keeps_whole_shards_and_the_next_click_goes_on(page_pair, ticks):
    one, straight = exam(), exam()
    try:
        work.draw_samples(one, FreeTicket(ticks), 5000)
    except CancelledError:
        assert one.result.n < 5000
    work.draw_samples(one, FreeTicket(), 5000 - one.result.n)
    work.draw_samples(straight, FreeTicket(), 5000)
    assert [arm.counts for arm in one.result.arms] == [arm.counts for arm in straight.result.arms]
    assert [found.tests for (found,) in one.result.looks] == [found.tests for (found,) in straight.result.looks]


def test_progress_rises_to_the_end(page_pair):
    ticket = FreeTicket()
    work.draw_samples(exam(), ticket, 2000)
    rising = ticket.shares[1:]  # the first belongs to the exact distribution
    assert rising == sorted(rising) and rising[-1] == 1.0


def test_a_proposer_without_shared_distributions_runs_through_the_engine_however_many_samples_are_asked_for(page_pair, pair):
    one = exam(length=3, proposer="tree", tree="2-1", seed=5)
    work.draw_samples(one, FreeTicket(), 100)
    work.run_many_seeds(one, FreeTicket(), seeds=2, samples=100)
    assert (one.result.n, one.result.engine, len(one.result.p_values.values)) == (100, 100, 2)
    assert one.result.notes[0] == "As the link asks: proposer tree, tree 2-1."
    assert "--proposer tree --tree 2-1" in words.build_command(one)
    ids = pair.encode("Once upon")
    samples = build_decoder("speculative", pair, one.question.settings, ids).sample(ENGINE, 0, 100)
    assert list(one.result.arms[0].counts) == one.bench.session.cells.shown.count_samples(samples).tolist()


def test_at_temperature_zero_the_test_is_equality_and_says_so(page_pair):
    one = exam(temperature=0.0)
    work.draw_samples(one, FreeTicket(), 100)
    assert "only one outcome" in one.result.notes[0]
    said = words.build_verdict(one)
    assert said.mark == "consistent" and "the test is equality. Every draw is that outcome." in said.details
    counts = np.array(one.result.looks[0][0].counts)
    heavy = counts.argmax()
    counts[heavy], counts[heavy - 1] = counts[heavy] - 1, counts[heavy - 1] + 1
    assert evaluate_look(0, one.bench.session.cells.tests[0], counts).verdict == "rejected", "one other text is enough"


def test_an_empty_prompt_says_where_it_begins(page_pair):
    one = exam(prompt="")
    work.prepare_session(one, FreeTicket())
    assert list(one.result.notes) == ["The prompt is empty, so the text begins with the start token."]


def test_samples_of_another_distribution_are_rejected_and_stay_rejected(page_pair, pair):
    """Temperature 0.7 in place of 1: far more than the 0.05 that the test at 10,000 samples detects."""
    one = exam()
    work.prepare_session(one, FreeTicket())
    cold = build_decoder("target", pair, replace(one.question.settings, temperature=0.7), one.bench.ids).sample(SHARED, 0, 10_000)
    cells = one.bench.session.cells.tests[2]
    found = evaluate_look(2, cells, cells.count_samples(cold))
    rejected = ((found.to_interim(),),)
    one.result = replace(one.result, arms=tuple(replace(arm, n=10_000) for arm in one.result.arms), looks=rejected)
    assert words.build_verdict(one).mark == "rejected"
    one.reset_findings()
    work.draw_samples(one, FreeTicket(), 1000)
    one.result = replace(one.result, looks=rejected + one.result.looks)
    assert words.build_verdict(one).words.startswith("Not exact: 10,000 samples")


def test_the_plan_ends_at_its_last_test():
    one = exam()
    arm = CellShares("a", ("x",), (True,), (1.0,), (1_000_000,), (0.0,), (1.0,), 1_000_000)
    one.result = ExactnessResult((arm, arm))
    one.request_samples(1, work.draw_samples)
    assert one.notes == ["The plan ends at 1,000,000 samples. Choose another seed to begin again."]


def test_the_tests_spend_one_false_alarm_rate_at_the_sizes_that_the_pages_name():
    plans = [INTERIM.plan_look(look, 2) for look in range(SCHEDULE.looks)]
    assert tuple(one.n for one in plans) == SIZES
    assert sum(one.level * SCHEDULE.tests for one in plans) == pytest.approx(0.001)
    assert [SCHEDULE.find_due_look(n) for n in (99, 100, 999, 10_000, 10_001, 10**7)] == [None, 0, 0, 2, 2, 4]
    assert [row["n"] for row in INTERIM.tabulate_looks()] == list(SIZES)


def test_what_a_test_says_it_could_detect_it_detects(page_pair):
    """The test at 1,000 samples, 40 times from a distribution at the stated distance: power 0.99, so 35 or fewer are rejected once in 20,000 times."""
    one = exam()
    cells = work.prepare_session(one, FreeTicket()).session.cells.tests[1]
    probs = cells.masses / cells.masses.sum()
    tv = evaluate_look(1, cells, np.random.default_rng(1).multinomial(1000, probs)).detectable_tv
    order, up = np.argsort(-probs), np.zeros(len(probs), dtype=bool)
    up[order[1:]] = True
    half = probs[up].sum()
    moved = np.where(up, probs * (1 + tv / half), probs * (1 - tv / (1 - half)))
    assert np.abs(moved - probs).sum() / 2 == pytest.approx(tv)
    found = [evaluate_look(1, cells, row).verdict for row in np.random.default_rng(2).multinomial(1000, moved, size=40)]
    assert found.count("rejected") >= 36


def test_a_distribution_too_flat_for_any_cell_cannot_be_tested(pair):
    cells = Partition(((),), np.array([1.0]), 2, np.array([False]))
    assert evaluate_look(0, cells, np.array([100])).verdict == "too few samples"


def test_p_values_of_many_seeds_are_uniform(page_pair):
    """60 runs; each bar leaves its band with probability 0.001."""
    one, ticket = exam(), FreeTicket()
    work.run_many_seeds(one, ticket, 60, 300)
    found = one.result.p_values
    assert (len(found.values), sum(found.counts), found.samples) == (60, 60, 300)
    assert found.is_uniform and "no bar leaves its box" in found.conclusion
    assert len(set(found.values)) > 50


def test_piled_up_p_values_are_not_called_uniform():
    one = SeedPValues((0.01,) * 60, 300, 0, 15)
    assert not one.is_uniform and "are not spread evenly" in one.conclusion
    figure = cell_shares.plot_p_values(one)
    assert list(figure.data[1].y) == [60] + [0] * 9
    assert (figure.layout.xaxis.title.text, figure.layout.yaxis.title.text) == ("p-value", "runs")
