"""How much of its visitor's files one page may have here at a time. Streamlit limits each file, not how many there are."""

from __future__ import annotations

from collections import Counter
from typing import Any

from starlette.responses import PlainTextResponse
from streamlit.runtime import get_instance

from specviz.web.hosting.doors import memory_mb
from specviz.web.hosting.options import Options

ADDRESS = "/_stcore/upload_file/"  # then the page's session, then the file
FILES, MOST = 4, 40  # of the largest size, and of any, that one page has here at a time; the app compares two


class Uploads:
    """ASGI middleware. ``coming``: files on their way, by page."""

    def __init__(self, app: Any, options: Options):
        self.app, self.options = app, options
        self.coming: Counter[str] = Counter()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "PUT" or ADDRESS not in scope["path"]:
            await self.app(scope, receive, send)
            return
        session = scope["path"].partition(ADDRESS)[2].partition("/")[0]
        if sentence := self.full(session):
            await PlainTextResponse(sentence, 413)(scope, receive, send)
            return
        self.coming[session] += 1
        try:
            await self.app(scope, receive, send)
        finally:
            self.coming[session] -= 1
            if not self.coming[session]:
                del self.coming[session]

    def full(self, session: str) -> str:
        """Why a page cannot have one more file here, in a sentence; empty where it can."""
        held, largest = held_by(session), self.options.upload_mb << 20
        if len(held) >= MOST or sum(held) + (self.coming[session] + 1) * largest > FILES * largest:
            return (
                f"This page holds {len(held)} files here, and sends {self.coming[session]}. Remove some, or load the page again."
            )
        if self.options.memory_mb and memory_mb() >= self.options.memory_mb:
            return "This server's memory is full for the moment. Please try again in a minute."
        return ""


def held_by(session: str) -> list[int]:
    """Bytes of each file that a page has here."""
    return [len(one.data) for one in get_instance().uploaded_file_mgr.file_storage.get(session, {}).copy().values()]
