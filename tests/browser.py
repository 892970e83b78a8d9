"""The browser that the tests drive: the one CHROMIUM names, else the chromium on the path."""

from __future__ import annotations

import os
import shutil

import pytest

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or ""


def need_browser() -> None:
    """Skip with a sentence where there is no browser; fail instead where SPECVIZ_REQUIRE_BROWSER is set, as the gate does."""
    if CHROMIUM:
        return
    sentence = "no chromium on the path; install it, or name one in CHROMIUM"
    if os.environ.get("SPECVIZ_REQUIRE_BROWSER"):
        pytest.fail(sentence)
    pytest.skip(sentence)
