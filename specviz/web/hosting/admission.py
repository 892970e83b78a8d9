"""Limits on open pages, counted by open sockets before any work is done.

A full server answers with a sentence and when to try again; open pages stay open. An unknown address gets the app, as Streamlit does,
with status 404.
"""

from __future__ import annotations

import html
import os
from collections import Counter
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any

from starlette.responses import PlainTextResponse

from specviz.figures.pages_and_glossary import PAGES
from specviz.web.hosting import metrics
from specviz.web.hosting.server_options import ServerOptions

COOKIE = "_streamlit_xsrf"  # Streamlit's cookie against forged requests; all tabs of a browser send the same
SOCKET = "/_stcore/stream"
FILES = ("app/static", "media", "component", "_stcore", "room")  # folders of the server that hold no page of Streamlit's
CLOSED = ("/_stcore/metrics", "/_stcore/script-health-check", "/_stcore/agent/")  # Streamlit's; /metrics asks who reads it
AGAIN = 60  # seconds after which to try again
PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>specviz</title>
<body style="font: 1.1rem/1.6 system-ui, sans-serif; max-width: 34rem; margin: 20vh auto; padding: 0 1rem; color-scheme: light dark">
<p>{}</p></body></html>
"""


class AdmissionMiddleware:
    """ASGI middleware. ``open``: sockets by visitor; those of browsers without the cookie count together, under ''."""

    def __init__(self, app: Any, options: ServerOptions):
        self.app, self.options = app, options
        self.open: Counter[str] = Counter()

    def explain_refusal(self, visitor: str) -> str:
        """Why this visitor cannot open one more page, in a sentence; empty where they can."""
        options = self.options
        if options.sessions and self.open.total() >= options.sessions:
            return f"This server is full ({options.sessions:,} of {options.sessions:,} pages open). Please try again in a minute."
        if options.sessions_per_visitor and visitor and self.open[visitor] >= options.sessions_per_visitor:
            return f"You have {options.sessions_per_visitor} pages open here, the most for one visitor. Close one, then load this page again."
        if options.memory_mb and measure_memory_mb() >= options.memory_mb:
            return "This server's memory is full for the moment. Please try again in a minute."
        return ""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket" and scope["path"].endswith(SOCKET):
            await self._admit_socket(scope, receive, send)
        elif scope["type"] == "http" and any(path in scope["path"] for path in CLOSED):
            await PlainTextResponse("Not Found", 404)(scope, receive, send)
        elif scope["type"] == "http" and _is_page(scope["path"]) and (sentence := self.explain_refusal(read_visitor(scope))):
            body = PAGE.format(html.escape(sentence)).encode()
            headers = [
                (b"content-type", b"text/html; charset=utf-8"),
                (b"retry-after", str(AGAIN).encode()),
                (b"cache-control", b"no-store"),
            ]
            await send({"type": "http.response.start", "status": 503, "headers": headers})
            await send({"type": "http.response.body", "body": body if scope["method"] != "HEAD" else b""})
        else:
            await self.app(
                scope, receive, _answer_not_found(send) if scope["type"] == "http" and not _is_known_path(scope["path"]) else send
            )

    async def _admit_socket(self, scope: Any, receive: Any, send: Any) -> None:
        visitor = read_visitor(scope)
        if self.explain_refusal(visitor):
            await receive()  # websocket.connect
            await send({"type": "websocket.close", "code": 1013})  # "try again later"; the browser's page does by itself
            return
        self.open[visitor] += 1
        metrics.VISITORS.inc()
        try:
            await self.app(scope, receive, send)
        finally:
            self.open[visitor] -= 1
            metrics.VISITORS.dec()
            if not self.open[visitor]:
                del self.open[visitor]


def read_visitor(scope: Any) -> str:
    """Id of the visitor from the browser's cookie; empty without one."""
    for name, value in scope["headers"]:
        if name == b"cookie":
            try:
                cookies = SimpleCookie(value.decode("latin-1"))
            except CookieError:
                return ""
            return unmask_cookie(cookies[COOKIE].value) if COOKIE in cookies else ""
    return ""


def unmask_cookie(cookie: str) -> str:
    """The part of the cookie version|mask|token xor mask|time that stays when it is masked anew for each page; empty for anything else."""
    try:
        _, mask, token, _ = cookie.split("|")
        key = bytes.fromhex(mask)
        return bytes(byte ^ key[i % len(key)] for i, byte in enumerate(bytes.fromhex(token))).hex()
    except (ValueError, ZeroDivisionError):
        return ""


def measure_memory_mb() -> float:
    """Resident memory of this process; 0 if it cannot be read."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _is_page(path: str) -> bool:
    return path.rstrip("/").rsplit("/", 1)[-1] in ("", *PAGES)


def _is_known_path(path: str) -> bool:
    """Whether the path is a page, or a file with its own 404."""
    return _is_page(path) or path.endswith("/index.html") or any(f"/{folder}/" in path for folder in FILES)


def _answer_not_found(send: Any) -> Any:
    """Turn a page that is sent into a 404."""

    async def send_not_found(message: Any) -> None:
        if message["type"] == "http.response.start" and message["status"] == 200:
            kind = dict(message.get("headers", ())).get(b"content-type", b"")
            message = message | {"status": 404} if kind.startswith(b"text/html") else message
        await send(message)

    return send_not_found
