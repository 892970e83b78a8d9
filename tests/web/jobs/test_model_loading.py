"""Models load beside whoever waits for them: a cancel frees the place within a second, and the load is there for the next one."""

from __future__ import annotations

import threading

import pytest

from specviz.errors import ModelError
from specviz.jobs.queue import FairQueue
from specviz.web.jobs import model_loading, warmup
from tests.jobs.test_queue import wait_for

KEY = ("a pair", "cpu", "float32")


@pytest.fixture(autouse=True)
def libraries_are_there(monkeypatch):
    monkeypatch.setattr(warmup, "wait", lambda seconds: True)
    monkeypatch.setattr(warmup, "describe_failure", lambda: None)


def test_a_cancel_while_models_load_frees_the_place_within_a_second():
    queue, end, made = FairQueue(places=1), threading.Event(), []

    def make(*key):
        end.wait(30)
        made.append(key)
        return "the pair"

    first = queue.submit(lambda ticket: model_loading.wait_for_models(ticket, KEY, make))
    wait_for(lambda: model_loading._loads)
    first.cancel()
    assert wait_for(lambda: first.state == "stopped") < 1.0
    second = queue.submit(lambda ticket: model_loading.wait_for_models(ticket, KEY, make))  # waits for the same load
    wait_for(lambda: second.state == "working")
    end.set()
    wait_for(second.ended.is_set)
    assert second.result == "the pair" and made == [KEY]


def test_a_pair_that_cannot_be_had_is_a_sentence_and_is_tried_anew_the_next_time():
    queue, tries = FairQueue(), []

    def make(*key):
        tries.append(key)
        raise ModelError("There is no such pair.")

    for count in (1, 2):
        ticket = queue.submit(lambda ticket: model_loading.wait_for_models(ticket, KEY, make))
        wait_for(ticket.ended.is_set)
        assert (ticket.state, ticket.sentence, len(tries)) == ("failed", "There is no such pair.", count)
        wait_for(lambda: not model_loading._loads)


def test_pairs_of_other_names_do_not_wait_for_each_other():
    held = threading.Event()
    slow = model_loading.start_loading(("slow", "cpu", "float32"), lambda *key: held.wait(30))
    quick = model_loading.start_loading(("quick", "cpu", "float32"), lambda *key: key)
    assert quick.result(10.0)[0] == "quick" and not slow.done()
    held.set()
    assert slow.result(10.0)
