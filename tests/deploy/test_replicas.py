"""Two replicas behind the proxy of deploy/: one is killed while visitors work, and every page comes back from the other."""

from __future__ import annotations

import asyncio
import http.client
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect, sync_playwright
from websockets.asyncio.client import connect

from tests.browser.chromium import CHROMIUM, FLAGS, need_browser
from tests.browser.conftest import wait_until_healthy
from tests.browser.crowd import Visitor
from tests.browser.test_app import fill, sentence, wait_live
from tests.helpers.web_pair import write_opening

ROOT = Path(__file__).resolve().parents[2]
NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
OWNER = "" if os.geteuid() else "user root;"  # pytest lets nobody else into its folders
PATIENT = 60_000  # ms, for a page that comes back while two cores are busy

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(NGINX is None, reason="nginx is not on the path; install nginx-light, or another of its packages"),
]


@dataclass(frozen=True)
class Hosted:
    """Two replicas by name, the proxy's address, and who trusts its certificate."""

    address: str
    replicas: dict[str, subprocess.Popen]
    logs: dict[str, Path]
    trust: ssl.SSLContext
    certificate: str

    def kill(self, name: str) -> None:
        self.replicas[name].send_signal(signal.SIGKILL)
        self.replicas[name].wait(10)


@pytest.fixture(scope="module")
def opening(tmp_path_factory) -> Path:
    return write_opening(tmp_path_factory.mktemp("opening"))


@pytest.fixture
def hosted(opening, tmp_path) -> Iterator[Hosted]:
    """Two servers on the tiny pair behind nginx with the configuration of deploy/, on loopback."""
    ports = dict(zip(("first", "second", "proxy"), free_ports(3), strict=True))
    place = tmp_path / "nginx"
    shutil.copytree(ROOT / "deploy" / "nginx", place)
    (place / "temp").mkdir()
    replicas = (place / "replicas.conf").read_text(encoding="utf-8")
    for name, port in (("first", "8501"), ("second", "8502")):
        replicas = replicas.replace(f"{name}:{port}", f"127.0.0.1:{ports[name]}").replace(f":{port}$", f":{ports[name]}$")
    (place / "replicas.conf").write_text(replicas, encoding="utf-8")
    (place / "listen.conf").write_text(f"listen 127.0.0.1:{ports['proxy']} ssl http2;\n", encoding="utf-8")
    certify(place / "tls")
    with (
        start_server("first", ports["first"], opening, tmp_path) as first,
        start_server("second", ports["second"], opening, tmp_path) as second,
        start_process(
            [NGINX, "-p", place, "-c", place / "nginx.conf", "-g", f"daemon off; {OWNER}"], tmp_path / "nginx.log"
        ) as proxy,
    ):
        for name, process in (("first", first), ("second", second)):
            wait_until_healthy(f"http://127.0.0.1:{ports[name]}", process)
        wait_until_listening(ports["proxy"], proxy)
        logs = {name: tmp_path / f"{name}.log" for name in ("first", "second")}
        trust = ssl.create_default_context(cafile=place / "tls" / "certificate.pem")
        yield Hosted(
            f"https://localhost:{ports['proxy']}",
            {"first": first, "second": second},
            logs,
            trust,
            str(place / "tls" / "certificate.pem"),
        )


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def certify(folder: Path) -> None:
    """A certificate for localhost that nobody else trusts."""
    folder.mkdir()
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
         "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", folder / "key.pem", "-out",
         folder / "certificate.pem"],
        check=True, capture_output=True,
    )  # fmt: skip


@contextmanager
def start_process(command: list, log: Path, **environment: str) -> Iterator[subprocess.Popen]:
    with log.open("w") as out:
        process = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT, env=os.environ | environment)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()


def start_server(name: str, port: int, opening: Path, logs: Path):
    command = [sys.executable, "-m", "tests.browser.serve", str(port), str(opening)]
    rooms = {"SPECVIZ_REPLICA": {"first": "A", "second": "B"}[name], "SPECVIZ_ROOMS_FOLDER": str(logs / f"rooms-{name}")}
    return start_process(command, logs / f"{name}.log", OMP_NUM_THREADS="1", SPECVIZ_MODE="hosted", **rooms)


def wait_until_listening(port: int, process: subprocess.Popen) -> None:
    for _ in range(200):
        assert process.poll() is None, "the proxy ended"
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError("the proxy did not listen within 10 s")


def read_replica(headers) -> str:
    """The replica that an answer's cookie names."""
    found = re.match(r"specviz_replica=(\w+);", headers.get("Set-Cookie", ""))
    return found[1] if found else ""


async def find_socket_server(hosted: Hosted, cookie: str) -> str:
    """Who answers a socket that comes with the cookie of a replica."""
    stream = hosted.address.replace("https", "wss") + "/_stcore/stream"
    headers = {"Cookie": f"specviz_replica={cookie}"} if cookie else {}
    async with connect(stream, ssl=hosted.trust, subprotocols=["streamlit"], additional_headers=headers) as opened:
        return read_replica(opened.response.headers)


class Mover(Visitor):
    """A visitor whose page connects again when its socket dies, with the same link, as a browser does."""

    where = ""  # the replica that holds the socket

    async def see(self, hosted: Hosted, everybody: asyncio.Barrier) -> float:
        """Look at a live run, lose the socket, and look at it again; the seconds that it was gone."""
        wanted = f"seed {self.number + 100}"
        async with self.open_tab(hosted.address, hosted.certificate):
            self.where = read_replica(self.socket.response.headers)
            await self.run()
            await self.run_until(lambda: wanted in self.shown and '"mode":"live"' in self.shown)
            before = self.shown
            await everybody.wait()  # all are there
            await everybody.wait()  # one replica is gone
            if self.where == "second":
                assert not self.reading.done()
                return 0.0
            await asyncio.wait_for(asyncio.wait([self.reading]), 20)
        began = time.monotonic()
        async with self.open_tab(hosted.address, hosted.certificate, "specviz_replica=first"):
            self.where = read_replica(self.socket.response.headers)
            await self.run()
            await self.run_until(lambda: wanted in self.shown and '"mode":"live"' in self.shown and '"busy":null' in self.shown)
            took = time.monotonic() - began
            assert read_stage(self.shown) == read_stage(before) != ()
            self.put("fold-seed-0", str(self.number + 500))
            await self.run()
            await self.run_until(lambda: f"seed {self.number + 500}" in self.shown and '"busy":null' in self.shown)
        return took


def read_stage(shown: str) -> tuple[str, ...]:
    """What a stage shows: its run and where it stands."""
    return tuple(re.findall(r'"(?:cursor|seed|id)":[^}\]]+', shown))


def test_a_socket_goes_where_the_cookie_says_and_stays_with_the_replica_that_took_it_over(hosted):
    async def ask_for_servers() -> list[str]:
        found = [await find_socket_server(hosted, name) for name in ("first", "second", "first", "nobody")]
        hosted.kill("first")
        return [*found, *[await find_socket_server(hosted, name) for name in ("first", "second", "")]]

    with ThreadPoolExecutor(1) as apart:
        *before, anyone, moved, stayed, fresh = apart.submit(asyncio.run, ask_for_servers()).result()
    assert before == ["first", "second", "first"] and anyone in ("first", "second")
    assert [moved, stayed, fresh] == ["second"] * 3


def request_replica(hosted: Hosted, path: str, cookie: str = "") -> tuple[int, str]:
    """(status, replica that the answer's cookie names) of a POST to a route of rooms, or of a GET of their pages."""
    connection = http.client.HTTPSConnection(hosted.address.partition("//")[2], context=hosted.trust, timeout=30)
    headers = {"Cookie": f"specviz_replica={cookie}"} if cookie else {}
    page = path.endswith(("wall", "teach"))
    connection.request("GET" if page else "POST", path, None if page else b'{"ticket": "0123456789abcdef"}', headers)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status, read_replica(answer.headers)


def test_a_classroom_is_asked_of_the_replica_that_its_code_names_and_of_no_other(hosted):
    for cookie in ("", "first", "second"):
        assert request_replica(hosted, "/room/aNoSuchRoom12345/wall", cookie) == (303, "first")
        assert request_replica(hosted, "/room/bNoSuchRoom12345/teach", cookie) == (303, "second")
        assert request_replica(hosted, "/room/BCDEF2/enter", cookie)[0] == 400
        assert request_replica(hosted, "/room/aNoSuchRoom12345/join", cookie)[0] == 404
    hosted.kill("first")
    assert request_replica(hosted, "/room/aNoSuchRoom12345/join")[0] == 502, (
        "phones ask again until it is back; the other one would say 404"
    )
    assert request_replica(hosted, "/room/bNoSuchRoom12345/join")[0] == 404


def test_twenty_visitors_get_their_pages_back_when_one_replica_is_killed(hosted):
    visitors = [Mover(number, f"prompt=a+bear&seed={number + 100}&at=1.1") for number in range(20)]

    async def everybody_at_once() -> list[float]:
        everybody = asyncio.Barrier(len(visitors) + 1)

        async def killing() -> float:
            await everybody.wait()
            hosted.kill("first")
            await everybody.wait()
            return 0.0

        return list(await asyncio.gather(killing(), *(one.see(hosted, everybody) for one in visitors)))

    with ThreadPoolExecutor(1) as apart:
        seconds = sorted(filter(None, apart.submit(asyncio.run, everybody_at_once()).result()))
    print(f"{len(seconds)} of 20 pages came back after {seconds[0]:.2f} to {seconds[-1]:.2f} s")
    assert seconds and {one.where for one in visitors} == {"second"}
    assert sum(one.exceptions for one in visitors) == 0
    assert "Traceback" not in hosted.logs["second"].read_text()


@pytest.fixture
def context() -> Iterator[BrowserContext]:
    """A browser's visitor, who takes the proxy's certificate as it is."""
    need_browser()
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium.new_context(ignore_https_errors=True, reduced_motion="reduce")
        chromium.close()


def read_cookie_replica(context: BrowserContext) -> str:
    return next(cookie["value"] for cookie in context.cookies() if cookie["name"] == "specviz_replica")


def expect_seed(page: Page, seed: int) -> None:
    expect(page.locator(".stage .status")).to_contain_text(f"seed {seed}", timeout=PATIENT)


def open_live(context: BrowserContext, hosted: Hosted) -> Page:
    page = context.new_page()
    page.goto(f"{hosted.address}/?prompt=a+bear&seed=41&at=1.2")
    expect_seed(page, 41)
    wait_live(page)
    return page


def test_a_browser_whose_replica_is_killed_stays_at_its_place_and_asks_the_other_for_live_work(hosted, context):
    page = open_live(context, hosted)
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    page.wait_for_url(re.compile(r"at=(?!1\.2)"))
    before, address, replica = sentence(page), page.url, read_cookie_replica(context)
    with page.expect_websocket(timeout=PATIENT):
        began = time.monotonic()
        hosted.kill(replica)
    print(f"the browser opened its next socket after {time.monotonic() - began:.2f} s")
    expect(page.get_by_test_id("stConnectionStatus")).to_have_count(0, timeout=PATIENT)
    fill(page, "Temperature", "0.8")
    expect(page.locator(".stage .status")).to_contain_text("temperature 0.8", timeout=PATIENT)
    expect_seed(page, 41)
    assert read_cookie_replica(context) != replica
    other = context.new_page()
    other.goto(address)
    wait_live(other)
    assert sentence(other) == before


def test_a_run_that_was_asked_for_when_the_replica_died_can_be_asked_for_again(hosted, context):
    """The page is back at its link, which does not name that run yet."""
    page = open_live(context, hosted)
    address, replica = page.url, read_cookie_replica(context)
    fill(page, "Seed", "12")
    with page.expect_websocket(timeout=PATIENT):
        hosted.kill(replica)
    wait_live(page)
    assert page.url == address
    fill(page, "Seed", "13")
    expect_seed(page, 13)
    assert read_cookie_replica(context) != replica
