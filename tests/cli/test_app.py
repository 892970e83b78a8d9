"""``specviz app``: on POSIX the server takes the command's own process, so whoever ends one ends both."""

from __future__ import annotations

import os
import subprocess

import pytest

from specviz.__main__ import main


class ProcessReplacedError(BaseException):
    """This process is another program now."""


@pytest.mark.skipif(os.name != "posix", reason="elsewhere the server is a child of the command")
def test_the_server_takes_the_place_of_the_command(monkeypatch):
    def gone(path, command, environment):
        raise ProcessReplacedError(command, environment)

    monkeypatch.setattr(os, "chdir", lambda place: None)
    monkeypatch.setattr(os, "execve", gone)
    monkeypatch.setattr(subprocess, "run", lambda *given, **more: pytest.fail("a child of its own"))
    with pytest.raises(ProcessReplacedError) as raised:
        main(["app", "--port", "8999", "--mode", "local"])
    command, environment = raised.value.args
    assert command[1:4] == ["-m", "streamlit", "run"] and "--server.port=8999" in command
    assert environment["SPECVIZ_MODE"] == "local"
