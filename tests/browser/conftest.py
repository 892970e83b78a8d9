"""A server on a free port and a browser with one context: once per process of pytest each. A test opens pages of its own; what only reads may share one."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from specviz.static_site.build import write_site
from tests.browser.chromium import CHROMIUM, FLAGS, need_browser
from tests.browser.component_pages import SIZES, page_html
from tests.browser.crowd import Visitor, open_at_once
from tests.helpers.web_pair import write_opening
from tools.processes import find_free_port

ROOT = Path(__file__).resolve().parents[2]


expect.set_options(timeout=60_000)  # ms; two cores can be busy with other things


@pytest.fixture(scope="session")
def opening(tmp_path_factory) -> Path:
    """Folder of the tiny pair and the run recorded from it."""
    return write_opening(tmp_path_factory.mktemp("opening"))


@contextmanager
def run_server(opening: Path, log: Path, *flags: str, port: int = 0):
    """A server of its own; gives its address, and ends it. port: that of a server before; 0 for a free one."""
    port = port or find_free_port()
    command = [sys.executable, "-m", "tests.browser.serve", str(port), str(opening), *flags]
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


@dataclass(frozen=True)
class Cold:
    """A server that nobody asked before, and the first who come, all at once: every other one by a link that needs the pair."""

    address: str
    first: Future[tuple[list[Visitor], str]]  # and what the server had written when the last of them had their page


@contextmanager
def cold(opening: Path, log: Path, clients: int):
    """The app as a host would serve it, met by so many clients at the same moment. Who asks it next need not wait for them."""
    links = [f"prompt=a+bear&seed={i}" if i % 2 == 0 else "" for i in range(clients)]
    with run_server(opening, log) as address, ThreadPoolExecutor(1) as apart:  # the browser's loop is this thread's

        def met() -> tuple[list[Visitor], str]:
            everybody = [Visitor(i, link) for i, link in enumerate(links)]
            return asyncio.run(open_at_once(everybody, address, stage_stands)), log.read_text()

        yield Cold(address, apart.submit(met))


def stage_stands(visitor: Visitor) -> bool:
    return ("live" if visitor.link else "recorded") in visitor.modes


@pytest.fixture(scope="package")
def cold_server(opening, tmp_path_factory):
    with cold(opening, tmp_path_factory.mktemp("server") / "log.txt", clients=2) as found:
        yield found


@pytest.fixture(scope="package")
def server(cold_server) -> str:
    """Address of the app."""
    return cold_server.address


@pytest.fixture(scope="package")
def browser():
    """One for all files here, ended with the last: while Playwright's synchronous interface is open, its thread runs no other loop."""
    need_browser()
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="package")
def context(browser) -> BrowserContext:
    """One visitor's laptop: what its first page has fetched, its next ones have."""
    return browser.new_context(viewport={"width": 1366, "height": 768}, reduced_motion="reduce")


VIOLATIONS: list[str] = []  # of the server's policy, on any page that a test opened


@pytest.fixture(autouse=True)
def nothing_left_open(request):
    """A page that a failed test left open would go on asking the server. Pages that a file's tests share stay.

    And whatever a test did in the app, the browser has had nothing to refuse.
    """
    if "browser" not in request.fixturenames:
        yield
        return
    browser = request.getfixturevalue("browser")
    shared = list_pages(browser)
    yield
    for page in list_pages(browser):
        if page not in shared:
            page.close()
    found = VIOLATIONS[:]
    VIOLATIONS.clear()
    assert not found


def list_pages(browser: Browser) -> list[Page]:
    return [page for context in browser.contexts for page in context.pages]


@pytest.fixture
def page(context):
    page = laptop(context)
    yield page
    page.close()


def laptop(where: Browser | BrowserContext) -> Page:
    """A new page there, which remembers requests, and dialogs and errors of scripts."""
    page = where.new_page()
    page.set_default_timeout(90_000)
    page.dialogs, page.mistakes, page.asked = [], [], []
    page.on("dialog", lambda dialog: (page.dialogs.append(dialog.message), dialog.dismiss()))
    page.on("pageerror", lambda error: page.mistakes.append(str(error)))
    page.on("request", lambda request: page.asked.append(request.url))
    page.on("console", lambda message: VIOLATIONS.append(message.text) if "Content Security Policy" in message.text else None)
    return page


@pytest.fixture(scope="package")
def site(tmp_path_factory) -> Path:
    """Folder of the static edition."""
    folder = tmp_path_factory.mktemp("edition") / "site"
    write_site(folder)
    return folder


@pytest.fixture(scope="package")
def component_tab(context) -> Page:
    """A tab in which one component's page after the other is opened: a new tab takes longer than most of these tests."""
    return context.new_page()


@pytest.fixture
def open_html(component_tab):
    """Opens a component's page without a server, in a browser that has kept nothing of the test before; the test fails if the page logs an error.

    ``where``: a context in which it has a tab of its own.
    """
    pages, problems = [], []

    def hear_console(message) -> None:
        if message.type == "error":
            problems.append(message.text)

    def hear_dialog(dialog) -> None:
        problems.append("a script ran")
        dialog.dismiss()

    ears = {"pageerror": lambda error: problems.append(str(error)), "console": hear_console, "dialog": hear_dialog}

    def opener(html: str, address: str, size="1366", reduced=True, where: BrowserContext | None = None) -> Page:
        page = where.new_page() if where else component_tab
        if page in pages:
            page.unroute_all()
        else:
            pages.append(page)
            for event, hear in ears.items():
                page.on(event, hear)
        width, height = SIZES[size]
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(media="screen", color_scheme="light", reduced_motion="reduce" if reduced else "no-preference")
        page.route("**/*", lambda route: route.fulfill(body=html, content_type="text/html"))
        page.goto(address)
        page.wait_for_function("window.ready")
        return page

    yield opener
    for page in pages:
        if page is not component_tab:
            page.close()
    if component_tab in pages:
        component_tab.mouse.move(0, 0)
        component_tab.evaluate("() => { localStorage.clear(); sessionStorage.clear(); }")
        component_tab.unroute_all()
        for event, hear in ears.items():
            component_tab.remove_listener(event, hear)
    assert problems == []


@pytest.fixture
def open_stage(open_html):
    """Opens a page with this payload."""

    def opener(payload, size="1366", reduced=True, address="http://stage.test/?seed=7&prompt=a%20b", where=None, **options):
        return open_html(page_html(payload, **options), address, size, reduced, where)

    return opener
