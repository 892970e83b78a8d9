"""What tests of pages share: a server run with other options."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from specviz.web.hosting.options import Options, options


@pytest.fixture
def serve(monkeypatch) -> Iterator[Callable[..., Options]]:
    """serve(mode="hosted", sessions=3): from now on the server is run with these options. They end with the test."""

    def start(**given: object) -> Options:
        for name, value in given.items():
            monkeypatch.setenv(f"SPECVIZ_{name.upper()}", str(value))
        options.cache_clear()
        return options()

    yield start
    monkeypatch.undo()
    options.cache_clear()
