"""A body that does not come is not waited for, and too many at a time are turned away; whoever sends at a fair speed notices nothing."""

from __future__ import annotations

import asyncio
import selectors
from types import SimpleNamespace

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from specviz.web.hosting import uploads
from specviz.web.hosting.server_options import ServerOptions
from specviz.web.hosting.uploads import LATE, MANY, SlowUploadMiddleware


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop that waits for nothing: its clock goes on to the next moment at which something is due."""

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        return self.now


class _JumpingSelector(selectors.SelectSelector):
    def __init__(self, loop: VirtualTimeLoop):
        super().__init__()
        self.loop = loop

    def select(self, timeout: float | None = None) -> list:
        self.loop.now += timeout or 0.0
        return super().select(0)


@pytest.fixture
def run(monkeypatch):
    """``asyncio.run`` in virtual time, which is the time of the middleware too."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        monkeypatch.setattr(uploads, "time", SimpleNamespace(monotonic=runner.get_loop().time))
        yield runner.run


HEAD = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'


def build_middleware() -> SlowUploadMiddleware:
    async def put(request):
        form = await request.form()
        return PlainTextResponse(str(len(await form["file"].read())))

    return SlowUploadMiddleware(Starlette(routes=[Route("/", put, methods=["PUT"])]), ServerOptions())


async def upload(app: SlowUploadMiddleware, *pieces: bytes, pause: float = 0.0, ends: bool = True) -> tuple[int, str]:
    """Status and text of the answer to a body that comes in these pieces, and then ends or not."""
    coming, answer = list(pieces), []

    async def receive():
        await asyncio.sleep(pause)
        if not coming:
            await asyncio.Event().wait()
        piece = coming.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(coming) or not ends}

    async def send(message):
        answer.append(message)

    headers = [(b"content-type", b"multipart/form-data; boundary=x")]
    scope = {"type": "http", "method": "PUT", "path": "/", "headers": headers, "query_string": b""}
    await app(scope, receive, send)
    assert answer[0]["status"] == 200 or (b"connection", b"close") in answer[0]["headers"]
    return answer[0]["status"], b"".join(one.get("body", b"") for one in answer[1:]).decode()


@pytest.mark.parametrize("pieces", [(b"",), (HEAD,), (HEAD, b"a", b"b")])
def test_an_upload_that_never_ends_is_told_so_and_is_not_counted_any_more(run, monkeypatch, pieces):
    monkeypatch.setattr(uploads, "GRACE", 0.01)
    app = build_middleware()
    assert run(upload(app, *pieces, ends=False)) == (408, LATE)
    assert app.coming == 0


def test_an_upload_that_comes_drop_by_drop_is_late_however_often_something_comes(run, monkeypatch):
    monkeypatch.setattr(uploads, "GRACE", 0.02)
    assert run(upload(build_middleware(), HEAD, *[b"x"] * 100_000, pause=0.001))[0] == 408


def test_whoever_sends_fast_enough_may_take_longer_than_the_grace(run, monkeypatch):
    monkeypatch.setattr(uploads, "GRACE", 0.01)
    monkeypatch.setattr(uploads, "MIN_RATE", 1)
    pieces = [HEAD, *[b"x" * 100] * 30, b"\r\n--x--\r\n"]
    assert run(upload(build_middleware(), *pieces, pause=0.001)) == (200, "3000")


def test_one_upload_too_many_at_a_time_is_turned_away_and_has_its_turn_later(run, monkeypatch):
    monkeypatch.setattr(uploads, "MAX_BODIES", 2)
    monkeypatch.setattr(uploads, "GRACE", 0.2)
    app = build_middleware()

    async def upload_three() -> list[tuple[int, str]]:
        return await asyncio.gather(*(upload(app, HEAD, ends=False) for _ in range(3)))

    assert sorted(run(upload_three())) == [(408, LATE), (408, LATE), (503, MANY)]
    assert run(upload(app, HEAD, b"abc", b"\r\n--x--\r\n")) == (200, "3")


def test_a_file_on_its_way_needs_no_disk(run, monkeypatch):
    import tempfile

    monkeypatch.setattr(tempfile, "TemporaryFile", lambda *_, **__: pytest.fail("a file was written"))
    size = ServerOptions().upload_mb << 20
    assert run(upload(build_middleware(), HEAD, b"x" * size, b"\r\n--x--\r\n")) == (200, str(size))
