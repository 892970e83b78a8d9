"""Clients at once on a cold server, twenty in the slow tests: no exception. They speak the page's protocol, without a browser."""

from __future__ import annotations

import asyncio
import json
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.sync.client import connect

from tests.e2e.conftest import serving
from tests.e2e.crowd import crowd, said

CLIENTS = [4, pytest.param(20, marks=pytest.mark.slow)]
PATIENT = 240  # s; the first of them all waits for torch to be imported


def visit(address: str, query: str, together: Barrier) -> dict:
    """Open the page under a link and wait until it is drawn, live where the link asks for it: what was met on the way."""
    met = {"modes": [], "exceptions": 0, "lines": set()}
    wanted, stream = "live" if query else "recorded", address.replace("http", "ws") + "/_stcore/stream"
    with connect(stream, max_size=None, subprotocols=["streamlit"], ping_interval=None) as socket:
        together.wait(60)
        ask = BackMsg()
        ask.rerun_script.query_string = query
        socket.send(ask.SerializeToString())
        until, again, fragment = time.monotonic() + PATIENT, PATIENT, ""
        while time.monotonic() < until and wanted not in met["modes"]:
            try:
                message = ForwardMsg.FromString(socket.recv(timeout=again))
            except TimeoutError:  # a fragment that the page asked to be run again, as a browser does
                ask = BackMsg()
                ask.rerun_script.query_string = query
                ask.rerun_script.fragment_id, ask.rerun_script.is_auto_rerun = fragment, True
                socket.send(ask.SerializeToString())
                continue
            if message.WhichOneof("type") == "auto_rerun":
                fragment, again = message.auto_rerun.fragment_id, message.auto_rerun.interval
            note(met, message)
    return met


def note(met: dict, message: ForwardMsg) -> None:
    element = message.delta.new_element
    met["exceptions"] += element.HasField("exception")
    if element.HasField("bidi_component"):
        data = json.loads(element.bidi_component.mixed.json or element.bidi_component.json)
        met["modes"].append(data["mode"])
        met["lines"].add(data["busy"])


@pytest.mark.parametrize("clients", CLIENTS)
def test_clients_at_once_on_a_cold_server_meet_no_exception(opening, tmp_path, clients):
    """Half of them open a link that needs the pair, before torch is there."""
    log, together = tmp_path / "log.txt", Barrier(clients)
    with serving(opening, log) as address, ThreadPoolExecutor(clients) as pool:
        queries = ["" if i % 2 else f"prompt=a+bear&seed={i}" for i in range(clients)]
        every = list(pool.map(lambda query: visit(address, query, together), queries))
    assert sum(met["exceptions"] for met in every) == 0
    assert [met["modes"][-1] for met in every] == ["live", "recorded"] * (clients // 2)
    assert any("Loading torch" in (line or "") for met in every for line in met["lines"])
    written = log.read_text()
    assert "Traceback" not in written
    assert "partially initialized" not in written


@pytest.mark.slow
@pytest.mark.parametrize("visitors", [10, 50])
def test_many_visitors_step_through_live_rounds_and_all_are_answered(opening, tmp_path, visitors):
    """Each clicks three times with 0 to 3 s between: nobody meets an exception or waits longer than the crowd's patience."""
    log = tmp_path / "log.txt"
    with serving(opening, log) as address, ThreadPoolExecutor(1) as apart:  # the browser's loop is this thread's
        apart.submit(asyncio.run, crowd(address, 1, 2)).result()
        began = time.monotonic()
        everybody = apart.submit(asyncio.run, crowd(address, visitors)).result()
        print(said(everybody, time.monotonic() - began))
    assert sum(one.exceptions for one in everybody) == 0 and "Traceback" not in log.read_text()
    assert all(len(one.seconds) == 3 for one in everybody)
