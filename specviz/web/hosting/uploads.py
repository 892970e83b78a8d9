"""Limits on uploads: how many files a page holds here, and how fast a request's body must arrive. A slow upload gets a 408.

How large one file may be is Streamlit's to check, by the option ``upload_mb``.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any

from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartParser
from starlette.responses import PlainTextResponse
from streamlit.runtime import get_instance

from specviz.web.hosting.admission import measure_memory_mb
from specviz.web.hosting.server_options import ServerOptions

ADDRESS = "/_stcore/upload_file/"  # then the page's session, then the file
MAX_LARGE_FILES, MAX_FILES = 4, 40  # of the largest size, and of any, that one page has here at a time; the app compares two
GRACE, MIN_RATE = 30.0, 32_000  # seconds, and bytes that must arrive in each second after them
MAX_BODIES = 40  # bodies that are on their way at a time
LATE = "What was sent took too long to arrive. Please send it again over a faster connection."
MANY = "Many files are being sent to this server. Please try again in a minute."
CLOSE = {"Connection": "close"}  # what still comes of the body is not waited for


class UploadLimitMiddleware:
    """ASGI middleware that limits the files of one page. ``coming``: files on their way, by page."""

    def __init__(self, app: Any, options: ServerOptions):
        self.app, self.options = app, options
        self.coming: Counter[str] = Counter()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "PUT" or ADDRESS not in scope["path"]:
            await self.app(scope, receive, send)
            return
        session = scope["path"].partition(ADDRESS)[2].partition("/")[0]
        if sentence := self.explain_refusal(session):
            await PlainTextResponse(sentence, 413)(scope, receive, send)
            return
        self.coming[session] += 1
        try:
            await self.app(scope, receive, send)
        finally:
            self.coming[session] -= 1
            if not self.coming[session]:
                del self.coming[session]

    def explain_refusal(self, session: str) -> str:
        """Say why a page cannot have one more file here; empty where it can."""
        held, largest = list_held_sizes(session), self.options.upload_mb << 20
        if len(held) >= MAX_FILES or sum(held) + (self.coming[session] + 1) * largest > MAX_LARGE_FILES * largest:
            return (
                f"This page holds {len(held)} files here, and sends {self.coming[session]}. Remove some, or load the page again."
            )
        if self.options.memory_mb and measure_memory_mb() >= self.options.memory_mb:
            return "This server's memory is full for the moment. Please try again in a minute."
        return ""


def list_held_sizes(session: str) -> list[int]:
    """List the size in bytes of each file that a page has here."""
    held: Any = get_instance().uploaded_file_mgr  # Streamlit's manager in memory
    return [len(one.data) for one in held.file_storage.get(session, {}).copy().values()]


class SlowUploadMiddleware:
    """ASGI middleware that enforces a minimum rate on the body of every request. ``coming``: bodies on their way."""

    def __init__(self, app: Any, options: ServerOptions):
        self.app, self.coming = app, 0
        # A file that has arrived is held in memory. On its way there it needs no disk, which may be full or read-only.
        MultiPartParser.spool_max_size = (options.upload_mb + 1) << 20

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, size, comes = time.monotonic(), 0, False

        async def receive_in_time() -> Any:
            """Return the next message. Raise HTTPException where it is late, or where too many bodies are on their way."""
            nonlocal size, comes
            if size < 0:  # the body was read: what follows is the browser's disconnect
                return await receive()
            if not comes and self.coming >= MAX_BODIES:
                raise HTTPException(503, MANY, CLOSE)
            self.coming, comes = self.coming + (not comes), True
            try:
                async with asyncio.timeout(began + GRACE + size / MIN_RATE - time.monotonic()):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, LATE, CLOSE) from None
            size = size + len(message.get("body", b"")) if message.get("more_body") else -1
            if size < 0:
                self.coming, comes = self.coming - 1, False
            return message

        try:
            await self.app(scope, receive_in_time, send)
        finally:
            self.coming -= comes
