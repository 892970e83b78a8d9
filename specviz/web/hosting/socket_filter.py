"""Filter and rate limit of the messages that a browser sends through its page's socket.

Streamlit also answers messages that no page of this app sends: one empties the caches of all visitors, one lists the changed files of
the host's working copy, one writes a file there. They are dropped. A message that cannot be decoded ends its socket.
"""

from __future__ import annotations

import asyncio
import logging
from functools import lru_cache
from typing import Any

from google.protobuf.message import DecodeError
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState

from specviz.web.hosting.admission import SOCKET, read_visitor
from specviz.web.hosting.limits import ActionRateLimiter
from specviz.web.hosting.server_options import ServerOptions

KINDS = {"rerun_script", "stop_script", "app_heartbeat", "file_urls_request", "backend_operation_request"}
LONGEST = 2 * 10**6  # bytes of one message: a book pasted into a field is still answered with a sentence
FIELDS = 500  # of one message
FILES = 20  # asked addresses for, at once
FRAGMENT, DOWNLOAD = 0.25, 10.0  # actions that a look at what is under way counts as, and a file that is to be made
HELD = 100  # messages that had to wait, after which the socket ends: nobody clicks like that
MENDS = 0.1  # of such a message is forgotten for each one that need not wait
REMEMBERED = 5000  # visitors whose pace is known; the one seen longest ago is forgotten first
TEXT, BROKEN, TOO_MUCH, REFUSED = 1003, 1002, 1009, 1008  # codes that a socket ends with
MADE_HERE = ("$$ID-", "$$STREAMLIT_INTERNAL_KEY_")  # what ids of fields begin with; Streamlit's own code raises over others


class SocketFilterMiddleware:
    """ASGI middleware. A visitor's tabs share a limiter; without a cookie each socket has its own."""

    def __init__(self, app: Any, options: ServerOptions):
        self.app = app
        self.new_pace = lambda: ActionRateLimiter(options.actions_per_second)
        self.pace_of = lru_cache(maxsize=REMEMBERED)(lambda visitor: self.new_pace())

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "websocket" or not scope["path"].endswith(SOCKET):
            await self.app(scope, receive, send)
            return
        visitor = read_visitor(scope)
        pace = self.pace_of(visitor) if visitor else self.new_pace()
        ended, held = False, 0.0

        async def receive_checked() -> Any:
            """Return the next message for Streamlit. Waiting here delays this sender only."""
            nonlocal ended, held
            while True:
                message = await receive()
                if message["type"] != "websocket.receive":
                    return message
                code, actions = classify_message(message.get("bytes"))
                seconds = 0.0 if actions == 0.0 else pace.wait(1.0 if actions is None else actions)
                held = held + 1.0 if seconds else max(0.0, held - MENDS)
                if code := code or (REFUSED if held > HELD else 0):
                    ended = True
                    logging.getLogger(__name__).info("a socket was ended: it sent what no page sends (%d)", code)
                    await send({"type": "websocket.close", "code": code})
                    return {"type": "websocket.disconnect", "code": code}
                await asyncio.sleep(seconds)
                if actions is not None:
                    return message
                logging.getLogger(__name__).info("a message was left out: no page sends its kind")

        async def send_while_open(message: Any) -> None:
            if not ended:
                await send(message)

        await self.app(scope, receive_checked, send_while_open)


def classify_message(data: bytes | None) -> tuple[int, float | None]:
    """A code that ends the socket, or 0, and how many actions the message counts as; None: it is dropped."""
    if data is None:
        return TEXT, None
    if len(data) > LONGEST:
        return TOO_MUCH, None
    try:
        message = BackMsg.FromString(data)
    except DecodeError:
        return BROKEN, None
    kind = message.WhichOneof("type")
    if kind not in KINDS:
        return 0, None
    if kind == "rerun_script":
        return _classify_rerun(message.rerun_script)
    if kind == "file_urls_request":
        return 0, 1.0 if len(message.file_urls_request.file_names) <= FILES else None
    if kind == "backend_operation_request":
        return 0, DOWNLOAD if message.backend_operation_request.WhichOneof("payload") == "deferred_file" else None
    return 0, 0.0


def _classify_rerun(client_state: ClientState) -> tuple[int, float | None]:
    fields = client_state.widget_states.widgets
    if len(fields) > FIELDS:
        return TOO_MUCH, None
    if not all(field.id.startswith(MADE_HERE) for field in fields):
        return REFUSED, None
    return 0, FRAGMENT if client_state.fragment_id else 1.0
