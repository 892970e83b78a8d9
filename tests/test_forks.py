"""``--forks``: every test is run once and reported, and a worker that ends in the middle fails the run by the name of its test."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.test_without_app import ROOT

FILES = {
    "test_one.py": """
import os

import pytest


@pytest.fixture(scope="module")
def shared():
    return []


@pytest.mark.parametrize("n", range(3))
def test_they_share_a_fixture_and_a_process(shared, n, tmp_path):
    shared.append(os.getpid())
    assert len(shared) == n + 1 and len(set(shared)) == 1


def test_wrong():
    assert sum(map(int, "12")) == 4
""",
    "test_other.py": """
import os


def test_ends():
    os._exit(3)
""",
}


def test_every_test_is_reported_and_a_worker_that_ends_is_named(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.conftest",
        "-c",
        os.devnull,
        "--rootdir",
        str(tmp_path),
        "--forks",
        "2",
    ]
    done = subprocess.run([*command, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 1 and "assert 3 == 4" in done.stdout, done.stdout + done.stderr
    assert "test_wrong" in done.stdout and "a worker ended with 3 in test_other.py::test_ends" in done.stdout
