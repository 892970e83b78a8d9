"""Calls in daemon threads: their results and errors are in futures, and no thread keeps the program from ending."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import wait

import pytest

from specviz.jobs.daemon_threads import DaemonThreadPool, run_in_thread
from tests.helpers.fresh_process import ROOT


def test_results_and_errors_are_in_the_futures_of_their_calls():
    pool = DaemonThreadPool(2, "test")
    futures = [pool.submit(divmod, 7, by) for by in (2, 0, 3)]
    assert wait(futures, 10).not_done == set()
    assert futures[0].result() == (3, 1) and futures[2].result() == (2, 1)
    with pytest.raises(ZeroDivisionError):
        futures[1].result()
    pool.close()
    assert run_in_thread(divmod, 9, 2, name="test").result(10) == (4, 1)


def test_a_closed_pool_starts_no_further_call():
    pool, held, started = DaemonThreadPool(1, "test"), threading.Event(), threading.Event()
    first = pool.submit(lambda: (started.set(), held.wait(30)))
    second = pool.submit(lambda: 1)
    assert started.wait(10)
    pool.close()
    held.set()
    assert first.result(10) and not wait([second], 0.2).done


def test_a_call_that_hangs_does_not_keep_the_program_from_ending():
    code = (
        "import threading\nfrom specviz.jobs.daemon_threads import DaemonThreadPool\n"
        "DaemonThreadPool(1, 'test').submit(threading.Event().wait)\nprint('end')"
    )
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout == "end\n"
