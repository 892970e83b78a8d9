"""``decode`` and ``bench`` with ``--cluster``: the whole work is one job, and what comes back is printed as always."""

from __future__ import annotations

import json
from contextlib import closing, contextmanager

import pytest

from specviz.__main__ import main
from specviz.jobs import ray, remote
from specviz.jobs.workers import WorkerPool
from specviz.speed.measurement.timed_decoding import PROMPTS
from tests.jobs.fake_workers import FakeWorker, FaultPlan


@pytest.fixture
def plan(monkeypatch):
    """Fake workers instead of a cluster."""
    plan = FaultPlan()

    @contextmanager
    def open_fake_pool(where, device, processes=1):
        with closing(WorkerPool([FakeWorker(plan)])) as pool:
            yield pool if where == "auto" else None

    monkeypatch.setattr(remote, "open_pool", open_fake_pool)
    monkeypatch.setattr(ray, "check_cluster", lambda where: None)
    return plan


def test_a_text_decoded_there_is_the_text_decoded_here(pair_folders, plan, capsys):
    command = ["decode", "--target", str(pair_folders[0]), "--draft", str(pair_folders[1]), "--prompt", "Once upon"]
    assert main(command) == 0
    here = capsys.readouterr().out
    assert plan.done == [] and here.startswith("Once upon")
    assert main([*command, "--cluster", "auto"]) == 0
    assert capsys.readouterr().out == here and len(plan.done) == 1


def test_a_bench_is_one_job_and_its_record_names_the_machine(pair_folders, plan, capsys, monkeypatch):
    for name in [*PROMPTS][1:]:  # one prompt is enough
        monkeypatch.delitem(PROMPTS, name)
    command = ["bench", "--target", str(pair_folders[0]), "--draft", str(pair_folders[1]), "--runs", "1", "--max-new-tokens", "8"]
    assert main([*command, "--format", "json", "--cluster", "auto"]) in (0, 3)
    assert json.loads(capsys.readouterr().out)["machine"]["processor"] and len(plan.done) == 1
