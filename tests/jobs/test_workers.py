"""'A lost job runs again': whatever workers lose or reorder, the samples are those of this process, each once."""

from __future__ import annotations

import threading
from contextlib import closing

import numpy as np
import pytest

from specviz.errors import ClusterError, SettingsError
from specviz.evidence.decoder import ENGINE, SHARED, build_decoder
from specviz.evidence.matrix import evaluate_matrix
from specviz.evidence.sampling import saved_samples as file
from specviz.evidence.sampling import session
from specviz.evidence.sampling.sampling_plan import SamplingPlan
from specviz.evidence.sampling.saved_samples import SavedSamples
from specviz.evidence.sampling.session import SamplingSpec, SamplingTask, Session, ShardRange, draw_shard
from specviz.jobs import tasks, workers
from specviz.jobs.remote import RemoteCaller
from specviz.jobs.workers import MAX_FAILED_STARTS, MAX_RETRIES, WorkerPool
from specviz.settings import Settings
from specviz.speed.prediction.study import StudySize, run_study
from tests.jobs.fake_workers import FakeWorker, FaultPlan

SETTINGS = Settings(prompt="Once upon", max_new_tokens=3, gamma=2, top_k=40)
SAMPLES = 200


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(workers, "WORKER_POLL", 0.01)


@pytest.fixture
def small_shards(pair, monkeypatch):
    monkeypatch.setattr(session, "SHARD_SIZES", {ENGINE: 24, SHARED: 30})
    monkeypatch.setattr(session, "PILOT", 8)
    monkeypatch.setattr(file, "EVERY", 0.0)
    monkeypatch.setattr(file, "REST", 0.0)
    monkeypatch.setattr(tasks, "load_pair", lambda *_: pair)
    tasks._load.cache_clear()
    yield
    tasks._load.cache_clear()


@pytest.fixture
def open_pool():
    """Opens pools of fake workers, which are closed after the test."""
    made = []

    def make(plan: FaultPlan, workers: int = 2) -> WorkerPool:
        made.append(WorkerPool([FakeWorker(plan) for _ in range(workers)]))
        return made[-1]

    yield make
    for pool in made:
        pool.close()
        assert all(worker.kills for worker in pool.workers[: len(pool.threads)]), "every worker that was started is ended"


def draw_tokens(pair, mode, executor=None, path=None, on_progress=lambda share: None):
    saved = SavedSamples.open(path, {"mode": mode})
    plan = SamplingPlan(samples=SAMPLES, seconds=1e6)
    return Session(build_decoder("speculative", pair, SETTINGS), plan, saved, executor).draw(mode, on_progress).tokens


def name_shard(first: int, size: int) -> str:
    return str(ShardRange(first, min(size, SAMPLES - first)))


@pytest.mark.fast_cases(1)
@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize("mode", [ENGINE, SHARED])
def test_lost_and_reordered_shards_change_no_bit(pair, mode, open_pool):
    first, size = (8, 24) if mode == ENGINE else (0, 30)  # the pilot is drawn here
    plan = FaultPlan(
        {name_shard(first, size): 3, name_shard(first + 2 * size, size): 1, name_shard(first + 4 * size, size): MAX_RETRIES}
    )
    assert np.array_equal(draw_tokens(pair, mode, open_pool(plan)), draw_tokens(pair, mode))
    assert len(set(plan.done)) == len(plan.done) > 5, "each result was used once"
    assert set(plan.deaths.values()) == {0}, "all of them were lost as planned"


@pytest.mark.usefixtures("small_shards")
def test_a_run_stopped_on_the_cluster_resumes_on_it_or_here_from_the_same_file(pair, tmp_path, open_pool):
    whole, path = draw_tokens(pair, ENGINE), tmp_path / "draws"

    def stop(share):
        if share > 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        draw_tokens(pair, ENGINE, open_pool(FaultPlan(), workers=1), path, stop)
    kept = SavedSamples.open(path, {"mode": ENGINE}).parts[ENGINE]
    assert 8 < len(kept.tokens) < SAMPLES and np.array_equal(kept.tokens, whole[: len(kept.tokens)])
    copy = tmp_path / "copy"
    copy.write_bytes(path.read_bytes())
    plan = FaultPlan()
    assert np.array_equal(draw_tokens(pair, ENGINE, open_pool(plan), path), whole)
    left = range(len(kept.tokens), SAMPLES, 24)
    assert sorted(plan.done) == sorted(name_shard(first, 24) for first in left), "what was saved is not drawn again"
    assert np.array_equal(draw_tokens(pair, ENGINE, None, copy), whole)


@pytest.mark.usefixtures("small_shards")
def test_a_single_shard_is_drawn_here(pair, monkeypatch, open_pool):
    monkeypatch.setattr(session, "SHARD_SIZES", {SHARED: SAMPLES})
    plan = FaultPlan()
    assert len(draw_tokens(pair, SHARED, open_pool(plan))) == SAMPLES and plan.done == []


@pytest.mark.usefixtures("small_shards")
def test_progress_grows_to_one(pair, open_pool):
    told: list[float] = []
    draw_tokens(pair, ENGINE, open_pool(FaultPlan()), on_progress=told.append)
    assert told == sorted(told) and told[-1] == 1.0 and len(told) > 4


@pytest.mark.usefixtures("small_shards")
def test_a_shard_that_is_always_lost_ends_the_run_with_its_numbers(pair, open_pool):
    with pytest.raises(ClusterError, match=rf"Samples 30 to 59: lost {MAX_RETRIES + 1} times"):
        draw_tokens(pair, SHARED, open_pool(FaultPlan({name_shard(30, 30): 10**6})))


@pytest.mark.usefixtures("small_shards")
def test_a_worker_with_another_pair_is_refused_with_what_differs(pair, open_pool, monkeypatch):
    here = tasks.describe_models(pair)
    monkeypatch.setattr(tasks, "describe_models", lambda pair: here | {"versions": here["versions"] | {"torch": "0.1"}})
    there = tasks.PairRef.from_pair(pair, SETTINGS)
    monkeypatch.setattr(tasks, "describe_models", lambda pair: here)
    with pytest.raises(ClusterError, match=r"torch was 0\.1"):
        open_pool(FaultPlan()).run(SamplingTask(there, SamplingSpec("speculative", SHARED, SETTINGS, (0,))), ShardRange(0, 4))


@pytest.mark.usefixtures("small_shards")
def test_cells_of_a_matrix_and_of_a_study_are_those_of_this_process_in_their_order(pair, open_pool):
    settings, only = Settings(pair=pair.name, prompt="Once upon a time. Once upon"), ("draft", "token")
    plan = FaultPlan({"cell draft, token, T = 1": 2})
    assert evaluate_matrix(pair, settings, 0.6, only, executor=open_pool(plan)) == evaluate_matrix(pair, settings, 0.6, only)
    assert set(plan.deaths.values()) == {0}

    size, plan = StudySize(openings=2, opening=8, length=4, gamma=2), FaultPlan({"cell code, ngram, temperature 1, top-p 0.5": 2})
    arguments = (size, 7, ("bedtime", "code"), (0.0, 1.0), (0.5,), ("storybook", "ngram"), lambda name: pair)
    shares: list[float] = []
    assert run_study(*arguments, on_progress=shares.append, executor=open_pool(plan)).cells == run_study(*arguments).cells
    assert set(plan.deaths.values()) == {0} and shares == sorted(shares) and shares[-1] == 1.0 and len(shares) == 12


class Adding:
    """A task without models: it adds 1 to each item."""

    def prepare(self):
        return lambda item, on_progress: item + 1


def test_what_a_job_raises_is_raised_by_run_and_other_jobs_go_on(open_pool):
    pool = open_pool(FaultPlan())
    with pytest.raises(TypeError):
        pool.run(Adding(), "text")
    assert dict(pool.run_all(Adding(), [1, 2, 3])) == {1: 2, 2: 3, 3: 4}


def test_workers_that_die_while_they_start_end_the_run_after_a_number_of_starts(open_pool):
    assert dict(open_pool(FaultPlan(failed_starts=MAX_FAILED_STARTS)).run_all(Adding(), [1, 2])) == {1: 2, 2: 3}
    with pytest.raises(ClusterError, match=f"More than {MAX_FAILED_STARTS} workers died while they started"):
        list(open_pool(FaultPlan(failed_starts=10**6)).run_all(Adding(), [1, 2]))


def test_without_a_ready_worker_the_run_ends_with_a_sentence(open_pool, monkeypatch):
    monkeypatch.setattr(workers, "NO_WORKER_TIMEOUT", 0.0)
    monkeypatch.setattr(FakeWorker, "wait", lambda worker, seconds: False)
    with pytest.raises(ClusterError, match="No worker was ready within 0 s"):
        open_pool(FaultPlan()).run(Adding(), 1)


def test_the_check_at_a_start_comes_before_the_first_job():
    def refuse():
        raise ClusterError("It listens where others reach it.")

    plan = FaultPlan()
    with closing(WorkerPool([FakeWorker(plan)], refuse)) as pool, pytest.raises(ClusterError, match="It listens"):
        pool.run(Adding(), 1)
    assert plan.prepared == []


def test_no_more_workers_start_than_there_are_jobs(open_pool):
    pool = open_pool(FaultPlan(), workers=8)
    assert list(pool.run_all(Adding(), [1, 2, 3])) and len(pool.threads) <= 3


def test_a_job_whose_progress_callback_raises_is_cancelled_and_its_worker_takes_the_next(open_pool):
    plan = FaultPlan(held={"1"})
    pool, shares = open_pool(plan, workers=1), []

    def on_progress(share):
        shares.append(share)
        if share:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pool.run(Adding(), 1, on_progress)
    assert shares[-1] == 0.5 and pool.run(Adding(), 2) == 3 and pool.workers[0].cancels


def test_jobs_of_a_closed_iterator_do_not_run(open_pool):
    plan = FaultPlan(held={"1"})
    pool = open_pool(plan, workers=1)
    found = pool.run_all(Adding(), range(1000))
    assert next(found) == (0, 1)
    found.close()
    assert pool.run(Adding(), -1) == 0
    assert set(plan.done) <= {"0", "1", "-1"} and pool.workers[0].cancels


def test_threads_that_run_jobs_at_once_get_their_own_results(open_pool):
    pool, found = open_pool(FaultPlan({"3": 2, "8": 1}), workers=3), {}
    threads = [threading.Thread(target=lambda n=n: found.update({n: pool.run(Adding(), n)})) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert found == {n: n + 1 for n in range(20)}


@pytest.mark.usefixtures("small_shards")
def test_remote_calls_from_several_threads_return_what_this_process_returns(pair, open_pool):
    ids = tuple(pair.encode(SETTINGS.prompt))
    works = [SamplingSpec(name, SHARED, SETTINGS, ids) for name in ("speculative", "target", "R5")]
    caller, found = RemoteCaller(open_pool(FaultPlan({str(ShardRange(50, 50)): 2})), lambda settings: pair), {}

    def draw(work):
        cuts = ShardRange(0, 50), ShardRange(50, 50)
        found[work.name] = [caller.call(draw_shard, SETTINGS, (work, cut), description=str(cut)).tokens for cut in cuts]

    threads = [threading.Thread(target=draw, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for work in works:
        alone = [build_decoder(work.name, pair, SETTINGS, ids).sample(work.mode, first, 50).tokens for first in (0, 50)]
        assert all(map(np.array_equal, found[work.name], alone)), work.name


@pytest.mark.usefixtures("small_shards")
def test_a_remote_call_reads_no_file_that_settings_name_and_raises_its_error_unchanged(pair, open_pool, tmp_path):
    (tmp_path / "secret.txt").write_text("Once upon a time. " * 40)
    settings = Settings(prompt="Once", proposer="unigram", source_text=str(tmp_path / "secret.txt"), max_new_tokens=3)
    work = SamplingSpec("speculative", ENGINE, settings, tuple(pair.encode("Once")))
    with pytest.raises(SettingsError, match="text must be one of") as caught:
        RemoteCaller(open_pool(FaultPlan()), lambda settings: pair).call(draw_shard, settings, (work, ShardRange(0, 4)))
    assert caught.value.name == "source-text"


def test_a_worn_out_worker_is_replaced_and_no_job_is_lost(open_pool):
    plan = FaultPlan(max_jobs=3)
    pool = open_pool(plan, workers=1)
    assert dict(pool.run_all(Adding(), list(range(10)))) == {n: n + 1 for n in range(10)}
    assert next(plan.numbers) >= 4, "three workers at least have started for the ten jobs"
    assert plan.done == [str(n) for n in range(10)]


def test_an_urgent_job_runs_before_one_that_waited_longer(open_pool):
    plan = FaultPlan(held={"0"})
    pool = open_pool(plan, workers=1)
    others = [threading.Thread(target=pool.run, args=(Adding(), item), kwargs={"urgent": item == 2}) for item in (1, 2)]

    def leave_when_both_wait(share):
        if share and not others[0].ident:
            for other in others:
                other.start()
        if pool.jobs.qsize() == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pool.run(Adding(), 0, leave_when_both_wait)
    for other in others:
        other.join(30)
    assert plan.done == ["0", "2", "1"]
