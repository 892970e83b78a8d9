"""What programs send to a real server in hosted mode: afterwards it lives, serves honest visitors, and its log has no traceback."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import re
import urllib.request
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.Common_pb2 import FileUploaderState
from streamlit.proto.WidgetStates_pb2 import WidgetState
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from specviz.web.common import widget_guard
from specviz.web.common.frame import FRONT, PAGES
from specviz.web.hosting.socket_filter import HELD
from specviz.web.hosting.uploads import MAX_LARGE_FILES
from tests.browser.conftest import run_server
from tests.helpers.web_pair import write_opening
from tests.web.hostile.protocol import (
    CLOSES,
    EVENTS,
    HEADERS,
    MESSAGES,
    METHODS,
    PATHS,
    QUERIES,
    UPLOADS,
    VALUES,
    build_form,
    dump_operation,
    dump_rerun,
)
from tools.load.client import COMPONENT_EVENTS, StreamlitClient

pytestmark = pytest.mark.slow
GROWTH = 1000.0  # MB that the server may have more after all of this than at its beginning
INSIDE = re.compile(rb"Traceback|site-packages|/specviz/web|File \"|\.py\", line")  # what no visitor is to read
OF_THE_HOST = {"git_info_changed"}  # a message with names of the host's files


@dataclass
class WatchedServer:
    """A server, and what it had written and held when it began."""

    address: str
    log: Path
    memory: float = 0.0
    read: int = 0

    @property
    def name(self) -> str:
        return urlsplit(self.address).netloc

    def get(self, path: str) -> bytes:
        with urllib.request.urlopen(self.address + path, timeout=30) as answer:
            return answer.read()

    def megabytes(self) -> float:
        return float(re.search(rb"^process_resident_memory_bytes (\S+)", self.get("/metrics"), re.MULTILINE)[1]) / 2**20

    async def bears_it(self) -> None:
        """It lives, serves somebody else, and has written no traceback."""
        assert await asyncio.to_thread(self.get, "/healthz") == b"ok"
        honest = StreamlitClient()
        async with honest.open_tab(self.address):
            await honest.run()
            await honest.run_until(lambda: honest.shown and honest.finished)
        assert honest.stage["mode"] == "recorded" and not honest.exceptions
        written = self.log.read_text(errors="replace")[self.read :]
        self.read += len(written)
        assert "Traceback" not in written, written[-3000:]
        assert await asyncio.to_thread(self.megabytes) < self.memory + GROWTH


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[WatchedServer]:
    folder = write_opening(tmp_path_factory.mktemp("opening"))
    log = tmp_path_factory.mktemp("server") / "log.txt"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECVIZ_MODE", "hosted")
        with run_server(folder, log) as address:
            found = WatchedServer(address, log)
            asyncio.run(run_first_round(found))
            yield found


async def run_first_round(server: WatchedServer) -> None:
    """A first live round: what libraries take once is there."""
    first = StreamlitClient(link="prompt=a")
    async with first.open_tab(server.address):
        await first.run()
        await first.run_until(lambda: first.stage.get("mode") == "live")
    server.memory = server.megabytes()


class Reader(StreamlitClient):
    """A client that keeps an eye on what no visitor is to read."""

    inside: bytes | bool | None = None

    def _note(self, message: Any) -> None:
        found = INSIDE.search(message.SerializeToString())
        self.inside = self.inside or (found and found[0]) or (message.WhichOneof("type") in OF_THE_HOST)
        super()._note(message)


def run_story(server: WatchedServer, story: Callable[[], Coroutine]) -> None:
    """The story, and that the server bears it."""

    async def run_and_check() -> None:
        async with asyncio.timeout(120):
            await story()
            await server.bears_it()

    asyncio.run(run_and_check())


# One message -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_that_no_browser_sends(server, name):
    sent, end = MESSAGES[name]

    async def story() -> None:
        client = Reader()
        async with client.open_tab(server.address):
            with contextlib.suppress(ConnectionClosed):  # the end can come while it is still being sent
                await client.socket.send(sent)
            if end is CLOSES:
                await asyncio.wait({client.reading})
                assert isinstance(client.socket.close_code, int) and client.socket.close_code != 1011
                return
            if is_rerun(sent):
                await client.run_until(lambda: client.finished)
            await client.settle()
            assert not client.exceptions and not client.inside

    run_story(server, story)


def is_rerun(data: bytes) -> bool:
    """Whether a message has the page drawn."""
    asked = BackMsg.FromString(data)
    return asked.HasField("rerun_script") and not asked.rerun_script.fragment_id


@pytest.mark.parametrize("page", PAGES)
def test_every_page_of_a_hostile_address(server, page):
    async def story() -> None:
        for name, query in QUERIES.items():
            client = Reader(link=query, page=page)
            async with client.open_tab(server.address):
                await client.run()
                await client.run_until(lambda client=client: client.finished)
                assert not client.exceptions and not client.inside, name

    run_story(server, story)


@pytest.mark.parametrize("page", [FRONT, *PAGES])
def test_fields_of_every_page_that_all_have_a_value_no_browser_sends(server, page):
    async def story() -> None:
        client = Reader(page="" if page == FRONT else page)
        for name, value in VALUES.items():
            async with client.open_tab(server.address):
                await client.run()
                await client.run_until(lambda: client.finished)
                message = BackMsg.FromString(dump_rerun(page_script_hash=client.opened))
                for widget in list(client.widgets.values()):
                    message.rerun_script.widget_states.widgets.append(WidgetState(id=widget, **value))
                before = client.begun
                await client.socket.send(message.SerializeToString())
                await client.run_until(lambda before=before: client.finished > before)
                assert not client.exceptions and not client.inside, name
                await client.settle()
                assert not client.exceptions, name

    run_story(server, story)


@pytest.mark.parametrize("page", [FRONT, "one_round", "one_token", "whole_text", "mistakes"])
def test_what_a_component_reports_that_it_never_would(server, page):
    async def story() -> None:
        client = Reader(page="" if page == FRONT else page)
        async with client.open_tab(server.address):
            await client.run()
            await client.run_until(lambda: client.finished)
            for name, report in EVENTS.items():
                for widget in client.widgets.values():
                    client.state[COMPONENT_EVENTS.format(widget)] = "json_trigger_value", report
                await client.settle()
                assert not client.exceptions and not client.inside, name

    run_story(server, story)


def open_socket(server: WatchedServer, cookies: str = "", *more: str, origin: str | None = None) -> connect:
    """A socket as a browser opens it. more: what follows the protocol's name: a token, and a session to go on with."""
    return connect(
        server.address.replace("http", "ws", 1) + "/_stcore/stream", subprotocols=["streamlit", *more], max_size=None,
        additional_headers={"Cookie": cookies} if cookies else {}, origin=origin,
    )  # fmt: skip


# Somebody else's page ----------------------------------------------------------------------------------------------------------

MARK = "a bear that only one visitor has"


def test_nobody_reaches_into_the_page_of_another(server):
    """Its file, its download, its fragment, and its address for uploads, all known to the other one."""

    async def story() -> None:
        victim, other = Reader(page="exactness", link="source=file"), Reader(page="exactness", link="source=file")
        async with victim.open_tab(server.address), other.open_tab(server.address):
            for one in (victim, other):
                await one.run()
                await one.run_until(lambda one=one: one.finished and any("file" in key for key in one.widgets))
            (key,) = [key for key in victim.widgets if key.startswith("exactness-file")]
            content = b'{"prompt": "%s", "tokens": ["x"]}\n' % MARK.encode()
            await victim.upload(key, f"{MARK}.jsonl", content)
            sent = victim.state[key] if key in victim.state else victim.state[victim.widgets[key]]
            file = sent[1].uploaded_file_info[0]
            # The file, by its id.
            stolen = FileUploaderState()
            stolen.CopyFrom(sent[1])
            await other.settle(lambda: other.put(key, stolen, "file_uploader_state_value"))
            assert not any(MARK in text for text in other.written) and not other.exceptions
            # A download and a fragment, by theirs.
            await other.socket.send(dump_operation("deferred_file", victim.session, "1"))
            await other.run_until(lambda: "1" in other.answers)
            assert other.answers.pop("1").error_msg and not other.inside
            await other.socket.send(dump_rerun(fragment_id="f" * 32, is_auto_rerun=True))
            # The file replaced and removed, with a token of the other one's.
            for method in ("put", "delete"):
                answer = await asyncio.to_thread(
                    getattr(other.http, method), server.address + file.file_urls.upload_url, timeout=30,
                    **({"files": {"file": ("x", b"forged")}} if method == "put" else {}),
                )  # fmt: skip
                assert answer.status_code == 403, "without a token"
            await victim.settle()
            assert not victim.exceptions and victim.finished

    run_story(server, story)


# Very many ---------------------------------------------------------------------------------------------------------------------


def test_thousands_of_runs_asked_for_at_once_end_the_socket_of_who_asks(server):
    async def story() -> None:
        client = Reader()
        async with client.open_tab(server.address):
            with contextlib.suppress(ConnectionClosed):
                for n in range(5000):
                    await client.socket.send(dump_rerun(query_string=f"seed={n}"))
            honest = StreamlitClient()
            async with honest.open_tab(server.address):
                await honest.run()
                await honest.run_until(lambda: honest.shown and honest.finished)
            await asyncio.wait({client.reading})
            assert client.socket.close_code == 1008 and client.begun < 10 * HELD

    run_story(server, story)


def test_one_visitor_opens_so_many_sockets_and_no_more(server):
    async def story() -> None:
        client = StreamlitClient()
        async with contextlib.AsyncExitStack() as open_ones:
            await open_ones.enter_async_context(client.open_tab(server.address))
            cookies = "; ".join(f"{one.name}={one.value}" for one in client.http.cookies)
            turned_away = 0
            for _ in range(60):
                try:
                    await open_ones.enter_async_context(open_socket(server, cookies))
                except InvalidStatus:
                    turned_away += 1
            assert turned_away == 60 - 19

    run_story(server, story)


def test_a_socket_of_another_site_is_refused(server):
    async def story() -> None:
        for origin in ("https://evil.example", "null", "file://", f"http://{server.name.partition(':')[0]}.evil.example"):
            with pytest.raises(InvalidStatus):
                async with open_socket(server, origin=origin):
                    pass

    run_story(server, story)


# Uploads -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", UPLOADS)
def test_an_upload_that_no_browser_sends(server, kind):
    body, headers, allowed = UPLOADS[kind]

    async def story() -> None:
        client = StreamlitClient()
        async with client.open_tab(server.address):
            await client.run()
            await client.run_until(lambda: client.finished)
            token = client.http.cookies["_streamlit_xsrf"]
            sent = {"Cookie": f"_streamlit_xsrf={token}", "X-Xsrftoken": token, "Content-Type": "multipart/form-data; boundary=x"}
            status, answer = await asyncio.to_thread(
                send_request, server, "PUT", f"/_stcore/upload_file/{client.session}/1", sent | headers, body
            )
            assert status in allowed and not INSIDE.search(answer)

    run_story(server, story)


def test_a_page_has_room_for_a_few_files_and_then_for_none(server):
    async def story() -> None:
        client = StreamlitClient()
        async with client.open_tab(server.address):
            await client.run()
            await client.run_until(lambda: client.finished)
            token = client.http.cookies["_streamlit_xsrf"]
            sent = {"Cookie": f"_streamlit_xsrf={token}", "X-Xsrftoken": token, "Content-Type": "multipart/form-data; boundary=x"}
            body = build_form("a", b"x" * (5 * 2**20 - 1000))
            answers = [
                (await asyncio.to_thread(send_request, server, "PUT", f"/_stcore/upload_file/{client.session}/{n}", sent, body))[
                    0
                ]
                for n in range(MAX_LARGE_FILES + 3)
            ]
            assert answers == [204] * MAX_LARGE_FILES + [413] * 3

    run_story(server, story)


def test_an_upload_to_a_page_that_is_not_open_is_refused(server):
    async def story() -> None:
        client = StreamlitClient()
        async with client.open_tab(server.address):
            token = client.http.cookies["_streamlit_xsrf"]
            sent = {"Cookie": f"_streamlit_xsrf={token}", "X-Xsrftoken": token, "Content-Type": "multipart/form-data; boundary=x"}
            for session in ("nobody", "..%2f..", "%00", "x" * 3000):
                status, answer = await asyncio.to_thread(
                    send_request, server, "PUT", f"/_stcore/upload_file/{session}/1", sent, build_form("a", b"x")
                )
                assert status in (400, 404) and not INSIDE.search(answer)

    run_story(server, story)


# Requests ----------------------------------------------------------------------------------------------------------------------


def send_request(server: WatchedServer, method: str, path: str, headers: dict[str, str], body: bytes = b"") -> tuple[int, bytes]:
    """Status and text of the answer; 0 where the server ends the connection without one."""
    connection = http.client.HTTPConnection(server.name, timeout=30)
    try:
        connection.putrequest(method, path, skip_host="Host" in headers)
        length = {"Content-Length": str(len(body))} if method != "GET" else {}
        for name, value in (length | headers).items():
            connection.putheader(name, value.encode("latin-1"))
        connection.endheaders()
        with contextlib.suppress(ConnectionError):  # refused before all of it is there
            connection.send(body)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (ConnectionError, http.client.BadStatusLine):
        return 0, b""
    finally:
        connection.close()


def test_no_path_leads_to_a_file_of_the_host(server):
    async def story() -> None:
        for path in PATHS:
            status, answer = await asyncio.to_thread(send_request, server, "GET", quote(path, safe="/%\\:.~"), {})
            assert status in (0, 200, 301, 307, 400, 404, 405, 414, 431), (path, status)
            assert status != 200 or b"<title>Streamlit</title>" in answer, path
            assert b"root:" not in answer and b"import" not in answer.partition(b"<script")[0] and not INSIDE.search(answer), path

    run_story(server, story)


def test_a_request_with_headers_that_no_browser_sends_is_answered(server):
    async def story() -> None:
        for name, headers in HEADERS.items():
            for path in ("/", "/exactness", "/healthz", "/_stcore/health"):
                status, answer = await asyncio.to_thread(send_request, server, "GET", path, headers)
                assert status in (0, 200, 206, 400, 413, 414, 416, 431), (name, status)
                assert not INSIDE.search(answer), name

    run_story(server, story)


def test_no_other_method_does_anything(server):
    async def story() -> None:
        for method in METHODS:
            for path in ("/", "/exactness", "/healthz", "/metrics", "/media/x", "/_stcore/agent/mcp"):
                status, answer = await asyncio.to_thread(send_request, server, method, path, {}, b'{"method": "tools/call"}')
                assert status in (0, 400, 404, 405), (method, path)
                assert not INSIDE.search(answer)

    run_story(server, story)


def test_what_is_counted_is_not_told_to_who_comes_through_a_proxy(server):
    async def story() -> None:
        for name, value in (("X-Forwarded-For", "127.0.0.1"), ("Forwarded", "for=127.0.0.1"), ("X-Forwarded-For", "")):
            for path in ("/metrics", "/metrics/", "//metrics", "/_stcore/metrics"):
                status, answer = await asyncio.to_thread(send_request, server, "GET", path, {name: value})
                assert b"specviz_open_pages" not in answer and b"_bytes" not in answer, (name, path)
                assert status in (301, 307, 400, 404), (name, path)

    run_story(server, story)


def test_no_refusal_names_a_page_that_was_hostile_in_its_fields(server):
    """The sentence about a field that was reset goes to whose field it was, and to nobody else."""

    async def story() -> None:
        hostile, honest = Reader(page="mistakes"), Reader(page="mistakes")
        async with hostile.open_tab(server.address), honest.open_tab(server.address):
            for one in (hostile, honest):
                await one.run()
                await one.run_until(lambda one=one: one.finished)
            (key,) = [key for key in hostile.widgets if key.startswith("mistakes-seed")]
            await hostile.settle(lambda: hostile.put(key, 3, "int_value"))
            await honest.settle()
            assert widget_guard.SENTENCE in hostile.written and widget_guard.SENTENCE not in honest.written

    run_story(server, story)
