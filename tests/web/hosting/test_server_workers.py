"""Heavy work is done in this process, or by workers if the server has any, and gives the same."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace

import pytest

from specviz.errors import SettingsError, SpecvizError
from specviz.evidence.decoder import SHARED
from specviz.evidence.sampling.session import SamplingSpec, ShardRange, draw_shard, draw_together
from specviz.jobs.processes import ProcessWorker
from specviz.jobs.remote import RemoteCaller
from specviz.jobs.tasks import PairRef
from specviz.settings import Settings
from specviz.web.hosting import cache, server_workers
from tests.helpers.fresh_process import ROOT
from tests.jobs.fake_workers import list_pids

SETTINGS = Settings(prompt="a", max_new_tokens=2, gamma=2)


class FakeCaller:
    """As RemoteCaller, on workers that hold a pair of the same weights."""

    def __init__(self, pair, is_ready=True):
        self.pair, self.is_ready, self.calls = pair, is_ready, []

    def call(self, function, settings, arguments, on_progress, description, urgent):
        self.calls.append((function, settings, arguments, description, urgent))
        on_progress(0.5)
        return function(self.pair, *arguments, lambda share: None)


def arguments_for(pair) -> tuple:
    return SamplingSpec("speculative", SHARED, SETTINGS, tuple(pair.encode("a"))), ShardRange(30, 40)


def test_workers_do_the_same_and_say_how_far_they_are(monkeypatch, pair):
    shares: list[float] = []
    here = server_workers.run_in_worker(draw_shard, pair, SETTINGS, arguments_for(pair), shares.append, "samples")
    caller = FakeCaller(pair)
    monkeypatch.setattr(server_workers, "_caller", caller)
    shares.clear()
    there = server_workers.run_in_worker(draw_shard, pair, SETTINGS, arguments_for(pair), shares.append, "samples", urgent=True)
    assert caller.calls == [(draw_shard, SETTINGS, arguments_for(pair), "samples", True)]
    assert (here.tokens == there.tokens).all() and here.first == there.first == 30 and shares == [0.5]


def test_without_a_worker_that_is_ready_this_process_does_the_work(monkeypatch, pair):
    gone = FakeCaller(pair, is_ready=False)
    monkeypatch.setattr(server_workers, "_caller", gone)
    assert (
        len(server_workers.run_in_worker(draw_shard, pair, SETTINGS, arguments_for(pair), lambda share: None, "samples")) == 40
        and gone.calls == []
    )


def test_a_cluster_that_cannot_be_used_is_a_sentence_before_anything_is_served(serve):
    serve(cluster="127.0.0.1")
    with pytest.raises(SpecvizError, match=r"cluster must be auto, .*got '127\.0\.0\.1'"):
        server_workers.check_cluster()


def test_a_server_at_home_has_no_workers(serve, monkeypatch):
    serve()
    monkeypatch.setattr("specviz.jobs.ray.check_cluster", lambda where: pytest.fail("asked"))
    server_workers.check_cluster()
    with server_workers.open_workers():
        server_workers.start_workers(SETTINGS)
        assert server_workers._caller is None


def test_workers_that_cannot_start_are_logged_and_this_process_does_the_work(serve, monkeypatch, caplog, pair):
    """As where /dev/shm cannot be written."""
    serve(worker_processes=True)
    monkeypatch.setattr(cache, "load_weights", lambda *_: pair)
    monkeypatch.setattr(PairRef, "from_pair", lambda *_: None)

    def refuse_memory(worker):
        raise PermissionError(13, "Permission denied", "/dev/shm/pym")

    monkeypatch.setattr(ProcessWorker, "start", refuse_memory)
    with server_workers.open_workers():
        server_workers.start_workers(SETTINGS)
        assert server_workers.count_ready_workers() == 0
        assert (
            len(server_workers.run_in_worker(draw_shard, pair, SETTINGS, arguments_for(pair), lambda share: None, "samples"))
            == 40
        )
    assert "this process does their work" in caplog.text and "Permission denied" in caplog.text


def test_a_worker_is_ready_after_a_few_tokens_however_long_the_texts_are(serve, monkeypatch, pair):
    """The recorded run that settings come from may be long: whole texts of it would keep every core busy for a minute."""
    serve(worker_processes=True)
    monkeypatch.setattr(cache, "load_weights", lambda *_: pair)
    drawn: list[int] = []

    def draw(caller, function, settings, arguments):
        drawn.append(function(pair, *arguments).tokens.shape[1])

    monkeypatch.setattr(RemoteCaller, "warm_up", draw)
    with server_workers.open_workers():
        server_workers.start_workers(replace(SETTINGS, max_new_tokens=40))
        server_workers.start_workers(replace(SETTINGS, max_new_tokens=1))
    assert drawn == [2, 1]


@pytest.mark.slow
def test_worker_processes_start_do_the_same_and_end_with_the_server(serve, monkeypatch):
    """Real processes and the shipped pair, as a hosted server starts them. A worker that is killed has its job run again."""
    serve(worker_processes=True)
    pair = cache.load_weights("storybook", "auto", "auto")
    settings = Settings(prompt="Once upon a time", max_new_tokens=2, gamma=3)
    ids = pair.encode(settings.prompt)
    given = [SamplingSpec(name, SHARED, settings, ids) for name in ("speculative", "target")], ShardRange(0, 300)
    here = draw_together(pair, *given)
    with server_workers.open_workers():
        server_workers.start_workers(settings)
        pool = server_workers._caller.pool
        assert server_workers._caller.is_ready and len(set(list_pids(pool))) == pool.size
        there = server_workers.run_in_worker(draw_together, pair, settings, given, lambda share: None, "samples")
        assert all((one.tokens == other.tokens).all() for one, other in zip(here, there, strict=True))
        bad = (
            SamplingSpec("speculative", SHARED, Settings(prompt="Once", proposer="unigram", source_text="/etc/passwd"), (1,)),
            ShardRange(0, 4),
        )
        with pytest.raises(SettingsError, match="text must be one of"):
            server_workers.run_in_worker(draw_shard, pair, settings, bad, lambda share: None, "samples")
        for worker in pool.workers:
            worker.process.kill()
        again = server_workers.run_in_worker(draw_together, pair, settings, given, lambda share: None, "samples")
        assert all((one.tokens == other.tokens).all() for one, other in zip(here, again, strict=True))
        processes = [worker.process for worker in pool.workers]
    until = time.monotonic() + 20
    while any(process.is_alive() for process in processes) and time.monotonic() < until:
        time.sleep(0.1)
    assert not any(process.is_alive() for process in processes) and server_workers._caller is None


@pytest.mark.slow
def test_what_a_worker_reads_is_no_part_of_the_pages():
    """A worker that imported Streamlit would take a second and 60 MB more."""
    code = (
        "import sys, specviz.jobs.processes, specviz.evidence.sampling.session, specviz.evidence.sampling.sampling_plan, specviz.web.one_round.worker\n"
        "print(sorted({'streamlit', 'plotly', 'pandas', 'matplotlib'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout == "[]\n"
