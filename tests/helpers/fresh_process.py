"""Code in a process of its own that has imported nothing of specviz and no torch, forked from one that has imported what pages need besides.

A new interpreter spends three seconds on importing that. A server pays them once and then forks. A worker of a whole lane imports
all that itself, so it forks its server before it imports torch; any other process of pytest starts one where it is needed.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from contextlib import redirect_stderr
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, NoReturn

ROOT = Path(__file__).resolve().parents[2]
READ = ("streamlit.testing.v1", "plotly.graph_objects", "pandas", "pydantic_settings", "prometheus_client", "httpx2")
REFUSE_TORCH = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "transformers", "safetensors", "tokenizers"):
            raise ImportError(f"{name} is not wanted here")
sys.meta_path.insert(0, Refuse())
"""
SECONDS = 120  # for one piece of code; the alarm then ends it, and the exit code is below 0


@dataclass(frozen=True, slots=True)
class Done:
    """How it ended: exit code, and all that was written."""

    returncode: int
    stdout: str
    stderr: str


def scan_packages_once() -> None:
    """Let Streamlit look for components among the installed packages once per process, and not before every run of a page.

    It opens the metadata of all of them, which took a third of the time of these tests.
    """
    from streamlit.components.v2 import manifest_scanner

    if not hasattr(manifest_scanner.scan_component_manifests, "cache_info"):
        manifest_scanner.scan_component_manifests = cache(manifest_scanner.scan_component_manifests)


def run_fresh(code: str, *arguments: str) -> Done:
    """Run Python code with these ``sys.argv[1:]`` in the top folder."""
    asking, answering = _servers[0] if _servers else _start_server()
    asking.write(json.dumps([code, arguments]) + "\n")
    asking.flush()
    return Done(*json.loads(answering.readline()))


_servers: list[
    tuple[IO[str], IO[str]]
] = []  # of this process: where it is asked and where it answers; it ends when the former does


def _start_server() -> tuple[IO[str], IO[str]]:
    server = subprocess.Popen(
        [sys.executable, "-m", __name__], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    _servers.append((server.stdin, server.stdout))
    return _servers[0]


def fork_server() -> None:
    """Import what pages need, and fork the server of this process."""
    assert not _servers and "torch" not in sys.modules
    with redirect_stderr(sys.__stderr__):  # loggers keep it: pytest's own is closed in the server
        _import_all()
    (reading, asking), (answering, writing) = os.pipe(), os.pipe()
    if os.fork() == 0:
        os.dup2(reading, 0)
        os.dup2(writing, 1)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # those of the worker stay the worker's alone
        for name in [name for name in sys.modules if name.partition(".")[0] in ("specviz", "tests")]:
            del sys.modules[name]
        sys.meta_path[:] = [finder for finder in sys.meta_path if not type(finder).__module__.startswith("_pytest")]
        sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
        try:
            _serve()
        finally:
            os._exit(0)
    os.close(reading)
    os.close(writing)
    _servers.append((os.fdopen(asking, "w"), os.fdopen(answering)))


def _import_all() -> None:
    for name in READ:
        importlib.import_module(name)
    scan_packages_once()
    sys.modules["streamlit.components.v2.manifest_scanner"].scan_component_manifests()


def _serve() -> None:
    for line in sys.stdin:
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            child = os.fork()
            if child == 0:
                _run(*json.loads(line), out.fileno(), err.fileno())
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            said = [(file.seek(0), file.read().decode())[1] for file in (out, err)]
        print(json.dumps([status, *said]), flush=True)


def _run(code: str, arguments: list[str], out: int, err: int) -> NoReturn:
    """What the forked process does: the code, and then an end without the server's own."""
    os.dup2(out, 1)
    os.dup2(err, 2)
    sys.stderr = os.fdopen(2, "w", closefd=False)
    signal.alarm(SECONDS)
    sys.argv, status = ["-c", *arguments], 0
    try:
        exec(compile(code, "<fresh>", "exec"), {"__name__": "__main__"})
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    _import_all()
    _serve()
