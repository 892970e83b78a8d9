"""Models load beside whoever waits for them: a cancel frees the place, and the load is there for the next one."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from specviz.errors import ModelError
from specviz.jobs.queue import FairQueue
from specviz.settings import Settings
from specviz.web.hosting import cache, model_loading, warmup
from tests.jobs.test_queue import wait_for

SETTINGS = Settings(pair="a pair", device="cpu", dtype="float32")


@pytest.fixture(autouse=True)
def libraries_are_there(monkeypatch):
    monkeypatch.setattr(warmup, "wait", lambda seconds: True)
    monkeypatch.setattr(warmup, "describe_failure", lambda: None)


def test_a_cancel_while_models_load_frees_the_place_before_they_are_there(monkeypatch):
    queue, end, made = FairQueue(places=1), threading.Event(), []

    def make(*key):
        end.wait()
        made.append(key)
        return "the pair"

    monkeypatch.setattr(cache, "load_weights", make)

    first = queue.submit(lambda ticket: model_loading.wait_for_pair(ticket, SETTINGS))
    wait_for(lambda: model_loading._loads)
    first.cancel()
    wait_for(lambda: first.state == "stopped")
    assert not made
    second = queue.submit(lambda ticket: model_loading.wait_for_pair(ticket, SETTINGS))  # waits for the same load
    wait_for(lambda: second.state == "working")
    end.set()
    wait_for(second.ended.is_set)
    assert second.result == "the pair" and made == [("a pair", "cpu", "float32")]


def test_a_pair_that_cannot_be_had_is_a_sentence_and_is_tried_anew_the_next_time(monkeypatch):
    queue, tries = FairQueue(), []

    def make(*key):
        tries.append(key)
        raise ModelError("There is no such pair.")

    monkeypatch.setattr(cache, "load_weights", make)

    for count in (1, 2):
        ticket = queue.submit(lambda ticket: model_loading.wait_for_pair(ticket, SETTINGS))
        wait_for(ticket.ended.is_set)
        assert (ticket.state, ticket.sentence, len(tries)) == ("failed", "There is no such pair.", count)
        wait_for(lambda: not model_loading._loads)


def test_pairs_of_other_names_do_not_wait_for_each_other(monkeypatch):
    held = threading.Event()
    monkeypatch.setattr(cache, "load_weights", lambda pair, *_: held.wait(30) if pair == "slow" else pair)
    slow = model_loading.start_loading(replace(SETTINGS, pair="slow"))
    quick = model_loading.start_loading(replace(SETTINGS, pair="quick"))
    assert quick.result(10.0) == "quick" and not slow.done()
    held.set()
    assert slow.result(10.0)
