"""Servers that something happens to, and visitors who meet it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from streamlit.proto.Element_pb2 import Element

from tests.browser.serve import ROOT
from tests.helpers.web_pair import write_opening
from tools.load.visits import Visitor

PATIENT = 180.0  # s


@dataclass(frozen=True)
class Faulty:
    """A server of its own on the tiny pair. folder: of the pair's files; lines: what it wrote so far."""

    address: str
    process: subprocess.Popen
    folder: Path
    lines: list[str] = field(default_factory=list)

    @property
    def written(self) -> str:
        return "".join(self.lines)

    def process_file(self, name: str) -> str:
        return Path(f"/proc/{self.process.pid}/{name}").read_text()

    def ready(self) -> dict[str, Any]:
        """What /readyz says."""
        try:
            with urllib.request.urlopen(f"{self.address}/readyz", timeout=20) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return json.load(error)

    def run_until(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENT
        while not condition():
            assert self.process.poll() is None, f"the server ended: {self.written[-2000:]}"
            assert time.monotonic() < end, f"it never came to that: {self.written[-2000:]}"
            time.sleep(0.05)


@pytest.fixture(scope="session")
def opening(tmp_path_factory) -> Path:
    """Folder of the tiny pair and the run recorded from it."""
    return write_opening(tmp_path_factory.mktemp("opening"))


@pytest.fixture
def faulty(opening, tmp_path) -> Iterator[Callable[..., Faulty]]:
    """faulty("clock", SPECVIZ_MODE="hosted"): a server with these faults and this environment, once it is ready.

    before: what happens to the folder of the pair before the start
    """
    with ExitStack() as ends:

        def start(*faults: str, ready: bool = True, before: Callable[[Path], None] | None = None, **environment: str) -> Faulty:
            folder = shutil.copytree(opening, tmp_path / "pair")
            if before is not None:
                before(folder)
            return ends.enter_context(open_faulty_server(folder, faults, environment, ready))

        yield start


@contextmanager
def open_faulty_server(folder: Path, faults: tuple[str, ...], environment: dict[str, str], ready: bool) -> Iterator[Faulty]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "tests.faults.faulty", str(port), str(folder), *faults]
    process = subprocess.Popen(
        command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env=os.environ | {"OMP_NUM_THREADS": "1"} | environment,
    )  # fmt: skip
    server = Faulty(f"http://127.0.0.1:{port}", process, folder)
    reading = threading.Thread(target=lambda: server.lines.extend(process.stdout), daemon=True)
    reading.start()
    try:
        server.run_until(lambda: is_healthy(server))
        if ready:
            server.run_until(lambda: server.ready()["ready"])
        yield server
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        reading.join(10)


def is_healthy(server: Faulty) -> bool:
    try:
        with urllib.request.urlopen(f"{server.address}/healthz", timeout=20) as answer:
            return answer.status == 200
    except OSError:
        return False


@dataclass
class Witness(Visitor):
    """A guest who also notes toasts."""

    toasts: list[str] = field(default_factory=list)

    def _draw(self, element: Element) -> None:
        super()._draw(element)
        if element.WhichOneof("type") == "toast":
            self.toasts.append(element.toast.body)

    def reads(self, part: str) -> bool:
        """Whether the page has said this since the last action, or the stage says it."""
        return any(part in one for one in self.written) or any(part in one for one in self.stage.get("notices", ()))
