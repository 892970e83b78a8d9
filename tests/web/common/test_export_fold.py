"""A file is built as work in the queue, when it is asked for and not before."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from specviz.errors import SpecvizError
from specviz.jobs.queue import FairQueue
from specviz.web.common import export_fold


@pytest.fixture
def queue(monkeypatch):
    queue = FairQueue(places=1)
    monkeypatch.setattr(export_fold, "get_server_queue", lambda: queue)
    return queue


def test_a_file_waits_for_a_place_and_is_handed_over_whole(queue):
    free, began = threading.Event(), threading.Event()
    queue.submit(lambda ticket: free.wait(30), "another")
    with ThreadPoolExecutor(1) as browser:
        asked = browser.submit(export_fold.build_in_queue, lambda ticket: began.set() or b"file", "visitor", "one_round")
        while not queue.waiting:
            pass
        assert not began.is_set()
        free.set()
        assert asked.result(30) == b"file"


def test_a_file_that_cannot_be_built_says_why(queue):
    def fails(ticket) -> bytes:
        raise SpecvizError("There is nothing to draw.")

    with pytest.raises(SpecvizError, match=r"There is nothing to draw\."):
        export_fold.build_in_queue(fails, "visitor", "one_round")
