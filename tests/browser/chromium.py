"""The browser that the tests drive: the one CHROMIUM names, else chromium-headless-shell on the path, else chromium."""

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
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium-headless-shell") or shutil.which("chromium") or ""


AT_REST = """() => document.querySelector(".stApp[data-test-script-state=notRunning]")"""
FITS = """(width) => innerWidth === width && [...document.querySelectorAll(".js-plotly-plot")].every((plot) => {
    const drawn = plot.querySelector(".main-svg");
    return !plot.clientWidth || (drawn && Math.abs(drawn.getBoundingClientRect().width - plot.clientWidth) < 2);
})"""

TWO_FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())))"


def at_rest(page) -> None:
    """Wait until no script of the page runs on the server: what the browser sent before has been answered."""
    page.wait_for_function(AT_REST)


def resize(page, width: int, height: int = 844) -> None:
    """Make the window as wide as that, and wait until every Plotly figure and whatever else watches its size has followed."""
    page.set_viewport_size({"width": width, "height": height})
    page.wait_for_function(FITS, arg=width)
    page.evaluate(TWO_FRAMES)


def need_browser() -> None:
    """Skip with a sentence where there is no browser; fail instead where SPECVIZ_REQUIRE_BROWSER is set, as the gate does."""
    if CHROMIUM:
        return
    sentence = "neither chromium-headless-shell nor chromium is on the path; install one, or name one in CHROMIUM"
    if os.environ.get("SPECVIZ_REQUIRE_BROWSER"):
        pytest.fail(sentence)
    pytest.skip(sentence)
