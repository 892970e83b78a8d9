"""The app in hosted mode on this machine, as the load tools start and watch it: its processor time and its memory, from /proc."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from specviz.errors import SpecvizError
from specviz.web.hosting.server_options import is_loopback
from tools.processes import find_free_port, run_server

ROOT = Path(__file__).resolve().parents[2]
READY_TIMEOUT = 180.0  # s that a server may take until it answers
ENVIRONMENT = {"SPECVIZ_MODE": "hosted", "SPECVIZ_SESSIONS_PER_VISITOR": "0"}  # all visitors come from one machine
BUSY_COMMAND = [sys.executable, "-c", "while True: pass"]


@dataclass(frozen=True)
class ServerMemory:
    """In MB. rss: pages in memory, those that several processes share once for each; pss: the same, each page once."""

    rss: float
    pss: float


@dataclass(frozen=True)
class LoadServer:
    """A server that was started here. log: what it writes."""

    address: str
    pid: int
    log: Path

    def read_cpu_seconds(self) -> float:
        """Processor seconds that it and its workers have used so far, all threads together."""
        return sum(int(one[11]) + int(one[12]) for one in self._list_processes().values()) / os.sysconf("SC_CLK_TCK")

    def read_memory(self) -> ServerMemory:
        """Of it and its workers."""
        rss = pss = 0.0
        for pid in self._list_processes():
            with suppress(OSError, ProcessLookupError):  # a worker may end just now
                lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
                rss, pss = rss + int(lines["Rss"].split()[0]) / 1000, pss + int(lines["Pss"].split()[0]) / 1000
        return ServerMemory(rss, pss)

    def _list_processes(self) -> dict[int, list[str]]:
        """What /proc says after the name, of the server and of all processes that come from it."""
        every = {}
        for file in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError, ProcessLookupError):
                every[int(file.parent.name)] = file.read_text().rpartition(")")[2].split()
        found = {self.pid: every[self.pid]}
        while more := {pid: one for pid, one in every.items() if int(one[1]) in found and pid not in found}:
            found |= more
        return found

    def wait_for_workers(self) -> None:
        """Return when its workers are ready: until then they take processor time for their own start. Raises SpecvizError if they never are."""
        latest = time.monotonic() + READY_TIMEOUT
        while self.count_workers() == 0:
            if time.monotonic() > latest:
                raise SpecvizError(f"the server had no worker ready within {READY_TIMEOUT:g} s.")
            time.sleep(0.5)

    def count_workers(self) -> int:
        """How many are ready, as /metrics says."""
        with urllib.request.urlopen(f"{self.address}/metrics", timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        return next(int(float(line.split()[1])) for line in lines if line.startswith("specviz_workers "))

    def count_tracebacks(self) -> int:
        return self.log.read_text(errors="replace").count("Traceback")


def check_host(host: str) -> None:
    """Raises SpecvizError for an address that another machine could be at."""
    if not is_loopback(host):
        raise SpecvizError(
            f"host must be an address of this machine alone, such as 127.0.0.1, got {host!r}: load is not for others."
        )


@contextmanager
def start_server(log: Path, host: str = "127.0.0.1", **more: str) -> Iterator[LoadServer]:
    """The app on a free port, on the shipped pair; ended afterwards. more: of its environment."""
    check_host(host)
    address = f"http://{host}:{(port := find_free_port())}"
    command = [sys.executable, "-m", "streamlit", "run", "app.py", f"--server.port={port}", f"--server.address={host}"]
    with run_server(command, f"{address}/_stcore/health", log, READY_TIMEOUT, cwd=ROOT, env=ENVIRONMENT | more) as process:
        yield LoadServer(address, process.pid, log)


@contextmanager
def keep_cores_busy() -> Iterator[None]:
    """Foreign processes that want every core."""
    others = [subprocess.Popen(BUSY_COMMAND) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for one in others:
            one.kill()
            one.wait()
