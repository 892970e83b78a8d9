"""A browser's side of Streamlit's protocol without a browser: open a page, fill fields, press buttons, upload, download.

Elements that the server draws are noted as far as visitors and tests ask about them. A fragment is run again when the page asks for that, as a
browser does, and a message that was sent before comes as its hash.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import requests
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.Common_pb2 import FileUploaderState
from streamlit.proto.Element_pb2 import Element
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import connect

TIMEOUT = 200.0  # s
TRIGGERS = {"trigger_value", "json_trigger_value"}  # sent once
COMPONENT_EVENTS = "$$STREAMLIT_INTERNAL_KEY_{}__events"  # the widget that a component's events go through


class ClientTimeoutError(TimeoutError):
    """A visitor waited for longer than TIMEOUT seconds."""


@dataclass
class StreamlitClient:
    """One tab: what it opens, and what the server sends to it.

    Attributes:
        number: Tells visitors apart.
        runs: Runs of the script and of fragments that began or ended.
        modes: Modes of the stages that were drawn.
        lines: Lines shown while work waited.
        written: Texts drawn since the last action, and what components were given, as JSON.
        links: Links that lead away from the page.
        received: Messages since the last action.
    """

    number: int = 0
    link: str = ""
    page: str = "one_round"
    exceptions: int = 0
    runs: int = 0
    modes: list[str] = field(default_factory=list)
    lines: set[str] = field(default_factory=set)
    written: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    received: int = 0
    bytes: int = 0

    @asynccontextmanager
    async def open_tab(
        self, address: str, certificate: str | None = None, cookie: str = "", session: str = ""
    ) -> AsyncIterator[None]:
        """As long as the tab is open. Its session has a cookie of its own, as another browser would.

        certificate: file with the certificate of an https address that nobody else trusts, where no cookie is asked for; cookie:
        one more to send, as name=value; session: that this page had before its socket was cut, if any.
        """
        self.address, self.http = address, requests.Session()
        if certificate is None:
            await asyncio.to_thread(self.http.get, f"{address}/_stcore/health", timeout=TIMEOUT)
        cookies = "; ".join([*(f"{one.name}={one.value}" for one in self.http.cookies), *filter(None, [cookie])])
        token = self.http.cookies.get("_streamlit_xsrf", "none")
        async with connect(
            address.replace("http", "ws", 1) + "/_stcore/stream", max_size=None,
            subprotocols=["streamlit", *([token, session] if session else [])],
            ping_interval=None, compression=None, open_timeout=TIMEOUT, additional_headers={"Cookie": cookies} if cookies else {},
            ssl=ssl.create_default_context(cafile=certificate) if certificate else None,
        ) as self.socket:  # fmt: skip
            self.query, self.state, self.widgets, self.clocks, self.opened = self.link, {}, {}, [], ""
            self.shown, self.begun, self.finished, self.pages, self.cached, self.session = "", 0, 0, {}, {}, ""
            self.answers: dict[str, Any] = {}
            self.disabled: set[str] = set()
            self.kinds: deque[str] = deque(maxlen=12)
            self.changed = asyncio.Event()
            self.reading = asyncio.create_task(self._read())
            try:
                yield
            finally:
                self.reading.cancel()
                self._stop_clocks()
                self.http.close()

    async def run(self, fragment: str = "") -> None:
        """Ask for a run of the script, or of a fragment."""
        message = BackMsg()
        ask = message.rerun_script
        ask.query_string, ask.page_name = self.query, "" if self.opened else self.page
        ask.page_script_hash = self.opened  # as a browser does: by name at first, then as the server called it
        ask.fragment_id, ask.is_auto_rerun = fragment, bool(fragment)
        for widget, (kind, value) in self.state.items():
            state = ask.widget_states.widgets.add()
            state.id = widget
            if kind == "string_array_value":
                state.string_array_value.data.extend(value)
            elif kind == "file_uploader_state_value":
                state.file_uploader_state_value.CopyFrom(value)
            else:
                setattr(state, kind, value)
        self.state = {widget: one for widget, one in self.state.items() if one[0] not in TRIGGERS}
        await self.socket.send(message.SerializeToString())

    async def settle(self, action: Callable[[], None] = lambda: None) -> None:
        """Do something, and wait for the end of a whole run that began after it: one that the server had begun by itself may end first."""
        action()
        before, self.written, self.received = self.begun, [], 0
        await self.run()
        await self.run_until(lambda: self.finished > before)

    async def open_page(self, page: str, query: str = "") -> None:
        """Open another page of the app in the same tab."""
        self.opened, self.query, self.state, self.widgets = self.pages[page], query, {}, {}
        await self.settle()

    def put(self, key: str, value: Any, kind: str = "string_value") -> None:
        """Fill a field, by the key that the page gave it."""
        self.state[self.widgets[key]] = kind, value

    def can_press(self, key: str) -> bool:
        return key in self.widgets and key not in self.disabled

    def press(self, key: str) -> None:
        self.put(key, True, "trigger_value")

    def tell(self, component: str, event: str, value: Any) -> None:
        """What a component in the browser reports."""
        data = json.dumps([{"event": event, "value": value}])
        self.state[COMPONENT_EVENTS.format(self.widgets[component])] = "json_trigger_value", data

    async def upload(self, key: str, name: str, content: bytes) -> None:
        """Give a file to a field, and wait for the run that follows."""
        ask = BackMsg()
        ask.file_urls_request.request_id, ask.file_urls_request.session_id = secrets.token_hex(8), self.session
        ask.file_urls_request.file_names.append(name)
        answer = (await self._request(ask, ask.file_urls_request.request_id)).file_urls[0]
        token = self.http.cookies.get("_streamlit_xsrf", "")
        sent = await asyncio.to_thread(
            self.http.put, self.address + answer.upload_url, files={"file": (name, content)},
            headers={"X-Xsrftoken": token}, timeout=TIMEOUT,
        )  # fmt: skip
        sent.raise_for_status()
        info = self._build_file_info(answer, name, len(content))
        await self.settle(lambda: self.put(key, info, "file_uploader_state_value"))

    async def download(self, key: str) -> bytes:
        """What a download button gives."""
        ask = BackMsg()
        ask.backend_operation_request.request_id = secrets.token_hex(8)
        ask.backend_operation_request.session_id = self.session
        ask.backend_operation_request.deferred_file.file_id = self.deferred[key]
        answer = await self._request(ask, ask.backend_operation_request.request_id)
        if answer.error_msg:
            raise ConnectionError(f"the server could not make {key}: {answer.error_msg}")
        got = await asyncio.to_thread(self.http.get, self.address + answer.deferred_file.url, timeout=TIMEOUT)
        got.raise_for_status()
        return got.content

    async def run_until(self, condition: Callable[[], Any]) -> None:
        """Wait for what the server sends. Raises ClientTimeoutError after TIMEOUT seconds."""
        try:
            async with asyncio.timeout(TIMEOUT):
                while not condition():
                    if self.reading.done():
                        self.reading.result()
                        raise ConnectionError("the server closed the connection")
                    self.changed.clear()
                    await self.changed.wait()
        except TimeoutError:
            at = self.shown.find('"mode"')
            raise ClientTimeoutError(
                f"visitor {self.number} waits for {self.state}; {self._describe_messages()}; shown is {self.shown[at : at + 300]!r}, last {self.written[-3:]}"
            ) from None

    def _describe_messages(self) -> str:
        """Of the runs and messages so far, for a sentence about one that does not come."""
        return f"{self.begun} runs began, {self.finished} was the last to end, {len(self.clocks)} clocks; last came {', '.join(self.kinds)}"

    @property
    def stage(self) -> dict[str, Any]:
        """What the stage of One round shows; empty where there is none."""
        return json.loads(self.shown) if self.shown else {}

    async def _request(self, ask: BackMsg, request: str) -> Any:
        await self.socket.send(ask.SerializeToString())
        await self.run_until(lambda: request in self.answers)
        return self.answers.pop(request)

    async def _read(self) -> None:
        try:
            async for data in self.socket:
                self.received, self.bytes = self.received + 1, self.bytes + len(data)
                message = ForwardMsg.FromString(data)
                if message.WhichOneof("type") == "ref_hash":
                    whole = ForwardMsg()
                    whole.CopyFrom(self.cached[message.ref_hash])
                    whole.metadata.CopyFrom(message.metadata)
                    message = whole
                elif message.metadata.cacheable:
                    self.cached[message.hash] = message
                self._note(message)
                self.changed.set()
        finally:
            self.changed.set()

    def _note(self, message: ForwardMsg) -> None:
        kind = message.WhichOneof("type")
        self.kinds.append(kind)
        if kind == "new_session":
            self.runs += 1
            self.session = message.new_session.initialize.session_id or self.session
            if not message.metadata.run.fragment_ids:
                self.begun += 1
                self._stop_clocks()
                self.deferred: dict[str, str] = {}
        elif kind == "navigation":
            self.opened = message.navigation.page_script_hash
            self.pages = {one.url_pathname: one.page_script_hash for one in message.navigation.app_pages}
        elif kind == "page_info_changed":
            self.query = message.page_info_changed.query_string
        elif kind == "script_finished":
            self.runs += 1
            # the end of a fragment's run too: Streamlit does not tell the end of a whole run that one follows at once
            if message.script_finished in (ForwardMsg.FINISHED_SUCCESSFULLY, ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY):
                self.finished = self.begun
        elif kind == "auto_rerun":
            self.clocks.append(
                asyncio.create_task(self._rerun_regularly(message.auto_rerun.fragment_id, message.auto_rerun.interval))
            )
        elif kind == "file_urls_response":
            self.answers[message.file_urls_response.response_id] = message.file_urls_response
        elif kind == "backend_operation_response":
            self.answers[message.backend_operation_response.request_id] = message.backend_operation_response
        elif kind == "delta" and message.delta.HasField("new_element"):
            self._draw(message.delta.new_element)
        elif kind == "delta" and message.delta.add_block.WhichOneof("type") == "popover":
            self._note_widget(message.delta.add_block.popover.id)

    def _draw(self, element: Element) -> None:
        kind = element.WhichOneof("type")
        one = getattr(element, kind) if kind else None
        self._note_widget(getattr(one, "id", ""))
        if kind == "exception":
            self.exceptions += 1
        elif kind == "button":
            (self.disabled.add if one.disabled else self.disabled.discard)(parse_widget_key(one.id))
        elif kind == "progress":
            self.lines.add(one.text)
        elif kind in ("markdown", "text"):
            self.written.append(one.body)
        elif kind == "html":
            self.note(one.body)
        elif kind == "link_button":
            self.links.append(one.url)
        elif kind == "download_button" and one.deferred_file_id:
            self.deferred[parse_widget_key(one.id)] = one.deferred_file_id
        elif kind == "bidi_component":
            drawn = (one.mixed.json or one.json).replace('": ', '":')
            self.written.append(drawn)
            data = json.loads(drawn)
            if "mode" in data or not self.shown:
                self.shown = drawn
            self.modes.append(data.get("mode"))
            self.lines.add(data.get("busy") or "")

    def note(self, text: str) -> None:
        """A piece of HTML of the page was drawn."""

    def _note_widget(self, widget: str) -> None:
        if widget:
            self.widgets[parse_widget_key(widget)] = widget

    @staticmethod
    def _build_file_info(answer: Any, name: str, size: int) -> Any:
        state = FileUploaderState()
        info = state.uploaded_file_info.add()
        info.name, info.size, info.file_id = name, size, answer.file_id
        info.file_urls.CopyFrom(answer)
        return state

    async def _rerun_regularly(self, fragment: str, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            await asyncio.shield(asyncio.create_task(self.run(fragment)))  # a message that was begun is sent whole

    def _stop_clocks(self) -> None:
        for clock in self.clocks:
            clock.cancel()
        self.clocks = []


def parse_widget_key(widget: str) -> str:
    """The key that a page gave a widget: what follows the hash in its id."""
    return widget.split("-", 2)[-1]
