"""A server as a child of this process: started on a free port, waited for, ended with everything that it has started."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from specviz.errors import SpecvizError

STOP_TIMEOUT = 20.0  # s that a server has to end by itself


def find_free_port() -> int:
    """A port of 127.0.0.1 that nobody uses now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@contextmanager
def run_server(
    command: Sequence[str], health: str, log: Path, patience: float, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen]:
    """The command, from when ``health`` (an address) answers with 200 until the block ends.

    log: file for what it prints; patience: seconds that it has to answer; env: variables beside those of this process.

    Raises SpecvizError with its last words if it ends or does not answer in time.
    """
    with log.open("w") as out:
        process = subprocess.Popen(
            command, cwd=cwd, stdout=out, stderr=subprocess.STDOUT, env=os.environ | dict(env or {}), start_new_session=True
        )
    try:
        _wait_for_health(health, process, log, patience)
        yield process
    finally:
        _stop_process(process)


def _wait_for_health(health: str, process: subprocess.Popen, log: Path, patience: float) -> None:
    end = time.monotonic() + patience
    while time.monotonic() < end:
        if process.poll() is not None:
            raise SpecvizError(
                f"The server ended with code {process.returncode}: {log.read_text(errors='replace')[-500:].strip()}"
            )
        with suppress(OSError), urllib.request.urlopen(health, timeout=2) as answer:
            if answer.status == 200:
                return
        time.sleep(0.1)
    raise SpecvizError(f"The server did not answer at {health} within {patience:.0f} s.")


def _stop_process(process: subprocess.Popen) -> None:
    """Ask the process to end, then end it and what it has started."""
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(STOP_TIMEOUT)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
