"""``--forks N``: this process imports and collects the tests once, and then forks N workers that take one file after the other.

A worker of pytest-xdist imports and collects everything by itself, which takes a processor eight seconds. Fork needs Linux; ``-n`` runs everywhere.
"""

from __future__ import annotations

import os
import signal
import struct
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from itertools import groupby
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, NoReturn

import pytest

PLACE = struct.Struct("i")  # of a file in their order


class Sender:
    """Hands the reports of a worker to the process that forked it."""

    def __init__(self, config: pytest.Config, connection: Connection) -> None:
        self.config, self.connection = config, connection

    def pytest_runtest_logstart(self, nodeid: str, location: Any) -> None:
        self.connection.send((nodeid, location))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.connection.send(self.config.hook.pytest_report_to_serializable(config=self.config, report=report))


def run_in_forks(session: pytest.Session, count: int, begin: Callable[[int], None], end: Callable[[], None]) -> None:
    """Run the collected tests in so many forks of this process, whole files in their order. begin, end: of each worker, with its number.

    The tests that a worker had left in its file when it ended by itself are not run, and the session fails.
    """
    assert threading.active_count() == 1, f"a thread would be lost: {threading.enumerate()}"
    files = [list(items) for _, items in groupby(session.items, key=lambda item: item.path)]
    queue, filled = os.pipe()
    assert len(files) * PLACE.size < 2**16, "as much as a pipe holds"
    os.write(filled, b"".join(PLACE.pack(place) for place in range(len(files))))
    os.close(filled)
    session.config._tmp_path_factory.getbasetemp()
    sys.stdout.flush()
    workers: dict[Connection, int] = {}
    running: dict[Connection, tuple[str, Any]] = {}
    lost: list[str] = []
    try:
        for number in range(count):
            receiving, sending = Pipe(duplex=False)
            pid = os.fork()
            if pid == 0:
                _work(session, files, queue, sending, number, begin, end)
            sending.close()
            workers[receiving] = pid
        while workers:
            for connection in wait(list(workers)):
                try:
                    message = connection.recv()
                except EOFError:
                    status = os.waitstatus_to_exitcode(os.waitpid(workers.pop(connection), 0)[1])
                    if status:
                        lost.append(f"a worker ended with {status} in {running.get(connection, ('no test',))[0]}")
                    continue
                if isinstance(message, tuple):
                    running[connection] = message
                    continue
                report = session.config.hook.pytest_report_from_serializable(config=session.config, data=message)
                session.config.hook.pytest_runtest_logreport(report=report)
                if report.when == "teardown":
                    session.config.hook.pytest_runtest_logfinish(nodeid=report.nodeid, location=report.location)
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)
        if lost:
            session.shouldfail = "; ".join(lost)
            raise session.Failed(session.shouldfail)
    finally:
        os.close(queue)
        for pid in workers.values():
            os.kill(pid, signal.SIGTERM)
            os.waitpid(pid, 0)


def _work(
    session: pytest.Session,
    files: list[list[pytest.Item]],
    queue: int,
    connection: Connection,
    number: int,
    begin: Callable[[int], None],
    end: Callable[[], None],
) -> NoReturn:
    status = 1
    try:
        config = session.config
        plugins = config.pluginmanager
        plugins.unregister(name="terminalreporter")
        plugins.register(Sender(config, connection))
        capture = plugins.getplugin("capturemanager")
        capture.stop_global_capturing()  # its files are those of all workers
        capture.start_global_capturing()
        capture.suspend_global_capture()
        config._tmp_path_factory._basetemp = config._tmp_path_factory.getbasetemp() / f"worker-{number}"
        config._tmp_path_factory._basetemp.mkdir()
        begin(number)
        for item, following in _pair_with_next(_take_items(files, queue)):
            config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        end()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _take_items(files: list[list[pytest.Item]], queue: int) -> Iterator[pytest.Item]:
    """The tests of the next file that no other worker has, and so on."""
    while place := os.read(queue, PLACE.size):
        yield from files[PLACE.unpack(place)[0]]


def _pair_with_next(items: Iterator[pytest.Item]) -> Iterator[tuple[pytest.Item, pytest.Item | None]]:
    """Each test with the one after it: its teardown keeps the fixtures that both use."""
    item = next(items, None)
    while item is not None:
        following = next(items, None)
        yield item, following
        item = following
