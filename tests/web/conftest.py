"""What tests of pages share: a server run with other options."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from specviz.web.hosting.server_options import ServerOptions, load_options
from tests.helpers.fresh_process import scan_packages_once

scan_packages_once()
_STATES = itertools.count()


@pytest.fixture(autouse=True)
def forget_recent_pairs(tmp_path_factory, monkeypatch):
    """No pair was used on this machine before."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / f"state-{next(_STATES)}"))


@pytest.fixture
def serve(monkeypatch) -> Iterator[Callable[..., ServerOptions]]:
    """serve(mode="hosted", sessions=3): from now on the server is run with these options. They end with the test."""

    def start(**given: object) -> ServerOptions:
        for name, value in given.items():
            monkeypatch.setenv(f"SPECVIZ_{name.upper()}", str(value))
        load_options.cache_clear()
        return load_options()

    yield start
    monkeypatch.undo()
    load_options.cache_clear()
