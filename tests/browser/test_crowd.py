"""Clients at once on a cold server, twenty in the slow tests: no exception. They speak the page's protocol, without a browser."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.browser.conftest import Cold, cold, run_server
from tests.browser.crowd import crowd, describe_crowd


def meet_no_exception(server: Cold, clients: int) -> None:
    everybody, written = server.first.result()
    assert sum(one.exceptions for one in everybody) == 0
    assert [one.modes[-1] for one in everybody] == ["live", "recorded"] * (clients // 2)
    assert any("Loading torch" in line for one in everybody for line in one.lines)
    assert "Traceback" not in written
    assert "partially initialized" not in written


def test_two_clients_at_once_on_a_cold_server_meet_no_exception(cold_server):
    """They are the first who come to the server of all tests here, one of them by a link that needs the pair, before torch is there."""
    meet_no_exception(cold_server, 2)


@pytest.mark.slow
@pytest.mark.parametrize("clients", [4, 20])
def test_many_clients_at_once_on_a_cold_server_meet_no_exception(opening, tmp_path, clients):
    with cold(opening, tmp_path / "log.txt", clients) as server:
        meet_no_exception(server, clients)


@pytest.mark.slow
@pytest.mark.parametrize("visitors", [10, 50])
def test_many_visitors_step_through_live_rounds_and_all_are_answered(opening, tmp_path, visitors):
    """Each clicks three times with 0 to 3 s between: nobody meets an exception or waits longer than the crowd's patience."""
    log = tmp_path / "log.txt"
    with run_server(opening, log) as address, ThreadPoolExecutor(1) as apart:  # the browser's loop is this thread's
        apart.submit(asyncio.run, crowd(address, 1, 2)).result()
        began = time.monotonic()
        everybody = apart.submit(asyncio.run, crowd(address, visitors)).result()
        print(describe_crowd(everybody, time.monotonic() - began))
    assert sum(one.exceptions for one in everybody) == 0 and "Traceback" not in log.read_text()
    assert all(len(one.seconds) == 3 for one in everybody)
