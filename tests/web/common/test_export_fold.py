"""A file is built as work in the queue, when it is asked for and not before."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from specviz.errors import SpecvizError
from specviz.export.package import Package
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
    def raise_nothing_to_draw(ticket) -> bytes:
        raise SpecvizError("There is nothing to draw.")

    with pytest.raises(SpecvizError, match=r"There is nothing to draw\."):
        export_fold.build_in_queue(raise_nothing_to_draw, "visitor", "one_round")


def test_the_share_of_a_zip_that_is_made_is_reported_and_its_job_can_be_found(queue):
    shares: list[tuple[float, str]] = []
    package = Package("one", "One", {f"{name}.json": name for name in "abcd"}, {}, {}, (), {})
    building: dict = {}

    def make(ticket) -> bytes:
        assert building["one_round"] is ticket
        return package.build_file(
            "one.zip", on_progress=lambda share, doing: (ticket.tick(share, doing), shares.append((ticket.share, ticket.doing)))
        )

    began = threading.Event()
    queue.submit(lambda ticket: began.wait(30), "another")  # so that the job is known before it begins
    with ThreadPoolExecutor(1) as browser:
        asked = browser.submit(export_fold.build_in_queue, make, "visitor", "one_round", building)
        while "one_round" not in building:
            pass
        began.set()
        assert asked.result(30)[:2] == b"PK"
    files = ("a.json", "b.json", "c.json", "d.json", "caption.txt")
    assert shares == list(zip((0.0, 0.2, 0.4, 0.6, 0.8), files, strict=True))
