"""Who comes to a full server reads a sentence and when to try again; who is in stays in."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from specviz.web.hosting import admission
from specviz.web.hosting.admission import AGAIN, AdmissionMiddleware
from specviz.web.hosting.server_options import ServerOptions

COOKIE = "_streamlit_xsrf=2|00000000|00112233445566778899aabbccddee{:02x}|1"


class HeldApp:
    """The app behind the door: answers pages, and holds sockets until they are let go."""

    def __init__(self):
        self.let_go = asyncio.Event()
        self.inside = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            self.inside += 1
            await self.let_go.wait()
            self.inside -= 1
        else:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"page"})


def build_scope(path: str, visitor: int | None = None, kind: str = "http", method: str = "GET") -> dict[str, Any]:
    cookie = [] if visitor is None else [(b"cookie", COOKIE.format(visitor).encode())]
    return {"type": kind, "path": path, "headers": cookie, "method": method}


async def call_middleware(door: AdmissionMiddleware, scope: dict[str, Any]) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    await door(scope, receive, send)
    return sent


async def open_sockets(door: AdmissionMiddleware, visitors: list[int | None]) -> list[asyncio.Task]:
    tasks = [
        asyncio.create_task(call_middleware(door, build_scope("/_stcore/stream", visitor, "websocket"))) for visitor in visitors
    ]
    await asyncio.sleep(0)
    return tasks


def test_a_full_server_answers_a_new_page_with_a_sentence_and_turns_its_socket_away():
    async def story() -> None:
        inside = HeldApp()
        door = AdmissionMiddleware(inside, ServerOptions(mode="hosted", sessions=2))
        tasks = await open_sockets(door, [1, None])
        assert door.open.total() == inside.inside == 2
        for path in ("/", "/exactness", "/under/a/path/exactness/"):
            start, body = await call_middleware(door, build_scope(path, 3))
            assert start["status"] == 503 and dict(start["headers"])[b"retry-after"] == str(AGAIN).encode()
            assert b"This server is full (2 of 2 pages open)." in body["body"]
        assert await call_middleware(door, build_scope("/_stcore/stream", 3, "websocket")) == [
            {"type": "websocket.close", "code": 1013}
        ]
        for path in ("/healthz", "/_stcore/health", "/static/js/index.js"):
            assert (await call_middleware(door, build_scope(path)))[0]["status"] == 200
        assert inside.inside == 2, "who is in stays in"
        inside.let_go.set()
        await asyncio.gather(*tasks)
        assert not door.open and (await call_middleware(door, build_scope("/")))[0]["status"] == 200

    asyncio.run(story())


def test_one_visitor_with_many_pages_does_not_close_the_door_for_others():
    async def story() -> None:
        inside = HeldApp()
        door = AdmissionMiddleware(inside, ServerOptions(mode="hosted", sessions_per_visitor=2))
        tasks = await open_sockets(door, [1, 1])
        (start, body), (other, _) = (
            await call_middleware(door, build_scope("/", 1)),
            await call_middleware(door, build_scope("/", 2)),
        )
        assert start["status"] == 503 and b"You have 2 pages open here" in body["body"] and other["status"] == 200
        assert (await call_middleware(door, build_scope("/")))[0]["status"] == 200, "a browser without the cookie is new"
        inside.let_go.set()
        await asyncio.gather(*tasks)

    asyncio.run(story())


def test_a_socket_that_fails_is_counted_out():
    async def story() -> None:
        async def break_connection(scope: Any, receive: Any, send: Any) -> None:
            raise ConnectionResetError

        door = AdmissionMiddleware(break_connection, ServerOptions(mode="hosted"))
        with pytest.raises(ConnectionResetError):
            await call_middleware(door, build_scope("/_stcore/stream", 1, "websocket"))
        assert not door.open

    asyncio.run(story())


def test_a_server_whose_memory_is_full_opens_no_new_page(monkeypatch):
    door = AdmissionMiddleware(None, ServerOptions(mode="hosted", memory_mb=100))
    monkeypatch.setattr(admission, "measure_memory_mb", lambda: 99.0)
    assert door.explain_refusal("a") == ""
    monkeypatch.setattr(admission, "measure_memory_mb", lambda: 100.0)
    assert door.explain_refusal("a") == "This server's memory is full for the moment. Please try again in a minute."


def test_memory_is_that_of_this_process():
    assert 10.0 < admission.measure_memory_mb() < 100_000.0


def test_on_ones_own_machine_the_door_is_open():
    door = AdmissionMiddleware(None, ServerOptions(mode="local"))
    door.open.update({str(visitor): 100 for visitor in range(100)})
    assert door.explain_refusal("1") == ""


@pytest.mark.parametrize(
    "cookie", [b"", b"a=b", b"_streamlit_xsrf=", b"_streamlit_xsrf=2|xy|00|1", b"\xff\xfe=;;;=", b"a=" + b"b" * 10**5]
)
def test_a_cookie_that_no_browser_sends_is_no_visitor(cookie):
    assert admission.read_visitor({"headers": [(b"cookie", cookie)]}) == ""


# Addresses -----------------------------------------------------------------------------------------------------------------


def read_status(path: str, kind: bytes = b"text/html; charset=utf-8") -> int:
    """Of an answer that Streamlit gives with 200."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
        await send({"type": "http.response.body", "body": b"page"})

    return asyncio.run(call_middleware(AdmissionMiddleware(app, ServerOptions()), build_scope(path)))[0]["status"]


@pytest.mark.parametrize("path", ["/", "/exactness", "/exactness/", "/under/a/proxy/speed", "/index.html", "/one_round"])
def test_addresses_of_pages_are_found_under_any_path_of_a_proxy(path):
    assert read_status(path) == 200


@pytest.mark.parametrize(
    "path", ["/nowhere", "/exactness/nowhere", "/wp-login.php", "/.env", "/exactness.html", "/static/js/none.js"]
)
def test_an_address_that_no_page_has_is_answered_by_the_app_as_not_found(path):
    assert read_status(path) == 404


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/media/abc.html", b"text/html"),
        ("/app/static/a.html", b"text/html"),
        ("/healthz", b"text/plain; charset=utf-8"),
        ("/favicon.svg", b"image/svg+xml"),
    ],
)
def test_files_and_what_the_server_says_of_itself_are_as_they_were(path, kind):
    assert read_status(path, kind) == 200


@pytest.mark.parametrize(
    "path", ["/_stcore/metrics", "/under/a/path/_stcore/metrics", "/_stcore/agent/mcp", "/_stcore/script-health-check"]
)
def test_what_streamlit_would_say_of_the_server_and_do_for_programs_is_closed(path):
    start, body = asyncio.run(call_middleware(AdmissionMiddleware(None, ServerOptions(mode="local")), build_scope(path)))
    assert (start["status"], body["body"]) == (404, b"Not Found")
