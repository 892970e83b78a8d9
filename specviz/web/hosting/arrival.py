"""What browsers send has to arrive: so fast at least, and so much of it at a time. An upload that never ends is told so, and let go.

How large a file may be is Streamlit's to watch, by the option ``upload_mb``.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartParser

from specviz.web.hosting.options import Options

GRACE, LEAST = 30.0, 32_000  # seconds, and bytes that arrive in each second after them
MOST = 40  # bodies that are on their way at a time
LATE = "What was sent took too long to arrive. Please send it again over a faster connection."
MANY = "Many files are being sent to this server. Please try again in a minute."
CLOSE = {"Connection": "close"}  # what still comes of the body is not waited for


class Arrival:
    """ASGI middleware. ``coming``: bodies of requests that are on their way."""

    def __init__(self, app: Any, options: Options):
        self.app, self.coming = app, 0
        # A file that has arrived is held in memory. On its way there it needs no disk, which may be full or read-only.
        MultiPartParser.spool_max_size = (options.upload_mb + 1) << 20

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, size, comes = time.monotonic(), 0, False

        async def in_time() -> Any:
            """The next message; raises where it is late, or one too many, and the app then answers as it does for a bad request."""
            nonlocal size, comes
            if size < 0:  # the body was read: what is waited for now is that the browser leaves
                return await receive()
            if not comes and self.coming >= MOST:
                raise HTTPException(503, MANY, CLOSE)
            self.coming, comes = self.coming + (not comes), True
            try:
                async with asyncio.timeout(began + GRACE + size / LEAST - time.monotonic()):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, LATE, CLOSE) from None
            size = size + len(message.get("body", b"")) if message.get("more_body") else -1
            if size < 0:
                self.coming, comes = self.coming - 1, False
            return message

        try:
            await self.app(scope, in_time, send)
        finally:
            self.coming -= comes
