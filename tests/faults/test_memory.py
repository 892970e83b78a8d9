"""Memory and threads that are not there: work ends with a sentence, its place is free for the next, and nothing waits for ever."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch

from specviz.jobs.queue import MEMORY_FULL, FairQueue
from specviz.settings import Settings
from specviz.web.hosting import cache, model_loading, warmup

NONE = 1 << 46  # numbers: 512 TB


@pytest.mark.parametrize("wants", [lambda: np.ones(NONE), lambda: torch.ones(NONE), lambda: bytearray(1 << 60)])
def test_work_that_finds_no_memory_says_so_and_the_next_one_is_done(wants):
    queue = FairQueue(1)
    without, after = queue.submit(lambda ticket: wants()), queue.submit(lambda ticket: "done")
    assert without.ended.wait(30) and (without.state, without.sentence) == ("failed", MEMORY_FULL)
    assert after.ended.wait(30) and after.result == "done"


@pytest.fixture
def no_threads(monkeypatch):
    """A machine that starts no thread until it is asked to again."""

    def refuse(thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        yield patch.undo


def test_a_thread_that_cannot_be_started_costs_its_work_and_not_the_place(no_threads):
    queue = FairQueue(1)
    without = queue.submit(lambda ticket: "done")
    assert (without.state, without.sentence, without.ended.is_set()) == ("failed", MEMORY_FULL, True)
    assert (queue.working, queue.waiting) == (0, 0)
    no_threads()
    after = queue.submit(lambda ticket: "done")
    assert after.ended.wait(30) and after.result == "done"


def test_a_load_whose_thread_cannot_be_started_is_tried_anew(no_threads, monkeypatch):
    monkeypatch.setattr(cache, "load_weights", lambda *key: "a pair")
    settings = Settings(pair="a pair", device="cpu", dtype="float32")
    with pytest.raises(RuntimeError):
        model_loading.start_loading(settings)
    no_threads()
    assert model_loading.start_loading(settings).result(30) == "a pair"


def test_an_import_whose_thread_cannot_be_started_is_tried_anew(no_threads, monkeypatch):
    monkeypatch.setattr(warmup, "_thread", None)
    with pytest.raises(RuntimeError):
        warmup.start()
    assert warmup._thread is None
