"""A server on a free port and a browser: once per process of pytest each. Pages are opened fresh for each test."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser import CHROMIUM, FLAGS, need_browser
from tests.stage_harness import SIZES, page_html
from tests.web_pair import write_opening

ROOT = Path(__file__).resolve().parents[2]


expect.set_options(timeout=60_000)  # ms; two cores can be busy with other things


@pytest.fixture(scope="session")
def opening(tmp_path_factory) -> Path:
    """Folder of the tiny pair and the run recorded from it."""
    return write_opening(tmp_path_factory.mktemp("opening"))


@contextmanager
def serving(opening: Path, log: Path, *flags: str):
    """A server of its own; gives its address, and ends it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "tests.e2e.serve", str(port), str(opening), *flags]
    with log.open("w") as out:
        server = subprocess.Popen(
            command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT, env=os.environ | {"OMP_NUM_THREADS": "1"}
        )
    try:
        wait_until_healthy(f"http://127.0.0.1:{port}", server)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()


def wait_until_healthy(address: str, server: subprocess.Popen) -> None:
    """Until the server answers; at most 180 s."""
    for _ in range(900):
        assert server.poll() is None, "the server ended"
        try:
            with urllib.request.urlopen(f"{address}/_stcore/health", timeout=2) as answer:
                if answer.read() == b"ok":
                    return
        except OSError:
            pass
        time.sleep(0.2)
    raise AssertionError("the server did not answer within 180 s")


@pytest.fixture(scope="session")
def server_log(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("server") / "log.txt"


@pytest.fixture(scope="package")
def server(opening, server_log):
    """Address of the app as a host would serve it."""
    with serving(opening, server_log) as address:
        yield address


@pytest.fixture(scope="package")
def browser():
    """One for all files here, ended with the last: while Playwright's synchronous interface is open, its thread runs no other loop."""
    need_browser()
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(autouse=True)
def nothing_left_open(request):
    """A page that a failed test left open would go on asking the server."""
    yield
    if "browser" in request.fixturenames:
        for context in request.getfixturevalue("browser").contexts:
            context.close()


@pytest.fixture
def page(browser: Browser):
    """A laptop's page that remembers dialogs and errors of scripts."""
    page = browser.new_page(viewport={"width": 1366, "height": 768}, reduced_motion="reduce")
    page.set_default_timeout(90_000)
    watch(page)
    yield page
    page.close()


def watch(page: Page) -> None:
    page.dialogs, page.mistakes = [], []
    page.on("dialog", lambda dialog: (page.dialogs.append(dialog.message), dialog.dismiss()))
    page.on("pageerror", lambda error: page.mistakes.append(str(error)))


@pytest.fixture
def open_stage(browser):
    """Opens a page with this payload; the test fails if the page logs an error."""
    pages, problems = [], []

    def opener(payload, size="1366", reduced=True, address="http://stage.test/?seed=7&prompt=a%20b", **options):
        width, height = SIZES[size]
        motion = "reduce" if reduced else "no-preference"
        page = browser.new_page(viewport={"width": width, "height": height}, reduced_motion=motion)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.on("dialog", lambda dialog: (problems.append("a script ran"), dialog.dismiss()))
        html = page_html(payload, **options)
        page.route("**/*", lambda route: route.fulfill(body=html, content_type="text/html"))
        page.goto(address)
        page.wait_for_function("window.ready")
        pages.append(page)
        return page

    yield opener
    for page in pages:
        page.close()
    assert problems == []
