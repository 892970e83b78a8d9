"""A machine that fails under a command is one sentence and exit code 2: a full or read-only disk, no memory, a library that is missing."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from specviz import __main__
from specviz.__main__ import main
from specviz.cli import app, pairs
from tests.test_package import EXTRAS, PROJECT, name_of

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def run_failing(monkeypatch):
    """fails(error): what the command pairs raises. Gives its exit code."""

    def run(error: Exception) -> int:
        def raises(options):
            raise error

        monkeypatch.setattr(pairs, "run", raises)
        return main(["pairs"])

    return run


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "x/loss.jsonl"), "'x/loss.jsonl' could not be written or read (No space"),
        (OSError(errno.EROFS, "Read-only file system", "x"), "'x' could not be written or read (Read-only file system)."),
        (PermissionError(errno.EACCES, "Permission denied", "x"), "'x' could not be written or read (Permission denied)."),
        (OSError(errno.ENOSPC, "No space left on device"), "The output could not be written or read (No space left on device)."),
        (MemoryError(), "There was not enough memory."),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"), "There was not enough memory."),
        (ModuleNotFoundError("No module named 'torch'", name="torch"), 'torch is not installed. `pip install "."` in'),
        (ModuleNotFoundError("import of torch halted", name="torch.nn"), "torch is not installed."),
        (ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib"), 'matplotlib is not installed. `pip install ".[app]"` in'),
        (ModuleNotFoundError("No module named 'httpx2'", name="httpx2"), 'httpx2 is not installed. `pip install ".[audit]"` in'),
    ],
)  # fmt: skip
def test_what_the_machine_lacks_is_one_sentence(run_failing, capsys, error, said):
    assert run_failing(error) == 2
    written = capsys.readouterr()
    assert written.err.startswith(f"specviz pairs: {said}") and "Traceback" not in written.err and not written.out


def test_the_app_without_streamlit_is_one_sentence(monkeypatch, capsys):
    monkeypatch.setattr(app, "find_spec", lambda name: None)
    assert main(["app"]) == 2
    assert capsys.readouterr().err == (
        'specviz app: streamlit is not installed. `pip install ".[app]"` in the project\'s folder installs it.\n'
    )


@pytest.mark.parametrize(
    "error", [FileNotFoundError(errno.ENOENT, "x"), RuntimeError("x"), ModuleNotFoundError("x", name="specviz.x")]
)
def test_a_bug_is_still_a_bug(run_failing, capsys, error):
    assert run_failing(error) == 70 and "Traceback" in capsys.readouterr().err


def test_output_into_a_full_disk_is_a_sentence_and_no_success(monkeypatch, capsys):
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no file that is always full")
    full = open("/dev/full", "w")  # noqa: SIM115
    monkeypatch.setattr(sys, "stdout", full)
    assert main(["pairs"]) == 2
    with suppress(OSError):
        full.close()
    assert capsys.readouterr().err == "specviz pairs: The output could not be written or read (No space left on device).\n"


def test_a_library_that_is_named_in_a_sentence_comes_with_the_extra_that_it_names():
    for name, extra in __main__.LIBRARY_EXTRAS.items():
        declared = EXTRAS[extra.strip("[]")] if extra else PROJECT["dependencies"]
        assert name.replace("_", "-") in {name_of(one) for one in declared}, name
