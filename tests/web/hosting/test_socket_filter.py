"""The socket filter drops messages that no page sends, and delays only the visitor who sends too often."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg

from specviz.web.hosting import socket_filter
from specviz.web.hosting.server_options import ServerOptions
from specviz.web.hosting.socket_filter import (
    BROKEN,
    DOWNLOAD,
    FRAGMENT,
    HELD,
    LONGEST,
    REFUSED,
    TEXT,
    TOO_MUCH,
    SocketFilterMiddleware,
    classify_message,
)
from tests.web.hosting.test_admission import COOKIE


def dump_message(**fields: Any) -> bytes:
    return BackMsg(**fields).SerializeToString()


def dump_rerun(fields: int = 1, fragment: str = "", start: str = "$$ID-") -> bytes:
    message = BackMsg()
    message.rerun_script.fragment_id, message.rerun_script.query_string = fragment, "prompt=Once"
    for number in range(fields):
        message.rerun_script.widget_states.widgets.add(id=f"{start}{number}", string_value="x")
    return message.SerializeToString()


def dump_file_names(count: int) -> bytes:
    message = BackMsg()
    message.file_urls_request.file_names.extend(["a.jsonl"] * count)
    return message.SerializeToString()


def dump_operation(kind: str) -> bytes:
    message = BackMsg()
    getattr(message.backend_operation_request, kind).SetInParent()
    return message.SerializeToString()


@pytest.mark.parametrize(
    ("data", "actions"),
    [
        (dump_rerun(), 1),
        (dump_rerun(socket_filter.FIELDS), 1),
        (dump_rerun(fragment="a"), FRAGMENT),
        (dump_file_names(socket_filter.FILES), 1),
        (dump_operation("deferred_file"), DOWNLOAD),
        (dump_message(app_heartbeat=True), 0),
        (dump_message(stop_script=True), 0),
    ],
    ids=["a run", "many fields", "a fragment", "files", "a download", "a sign of life", "a stop"],
)
def test_what_pages_send_goes_on(data, actions):
    assert classify_message(data) == (0, actions)


LEFT_OUT = {
    **{kind: dump_message(**{kind: True}) for kind in ("clear_cache", "load_git_info", "set_run_on_save")},
    **{kind: dump_message(**{kind: True}) for kind in ("debug_disconnect_websocket", "debug_shutdown_runtime")},
    **{kind: dump_operation(kind) for kind in ("install_skills", "dismiss_skills_nudge", "dataframe_chunk")},
    "no kind": b"",
    "too many files": dump_file_names(socket_filter.FILES + 1),
}


@pytest.mark.parametrize("kind", LEFT_OUT)
def test_what_no_page_sends_is_left_out(kind):
    assert classify_message(LEFT_OUT[kind]) == (0, None)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (None, TEXT),
        (b"\xff" * 20, BROKEN),
        (dump_rerun()[:-1], BROKEN),
        (b"x" * (LONGEST + 1), TOO_MUCH),
        (dump_rerun(socket_filter.FIELDS + 1), TOO_MUCH),
        (dump_rerun(start="one_round"), REFUSED),
        (dump_rerun(start=""), REFUSED),
    ],
    ids=["text", "no protobuf", "a part of one", "too long", "too many fields", "a field that is none", "a number as field"],
)
def test_what_is_no_message_ends_the_socket(data, code):
    assert classify_message(data)[0] == code


def test_streamlit_names_its_fields_as_the_door_expects():
    from streamlit.runtime.state.common import GENERATED_ELEMENT_ID_PREFIX
    from streamlit.runtime.state.session_state import STREAMLIT_INTERNAL_KEY_PREFIX

    assert (f"{GENERATED_ELEMENT_ID_PREFIX}-", f"{STREAMLIT_INTERNAL_KEY_PREFIX}_") == socket_filter.MADE_HERE


def test_a_kind_that_a_later_release_adds_is_left_out_until_somebody_has_read_it():
    kinds = {one.name for one in BackMsg.DESCRIPTOR.oneofs_by_name["type"].fields}
    assert kinds > socket_filter.KINDS and kinds - socket_filter.KINDS == set(LEFT_OUT) & kinds


def filter_messages(door: SocketFilterMiddleware, sent: list[Any], cookie: bytes = b"") -> tuple[list[Any], list[Any]]:
    """What Streamlit reads of these messages, and the answers of the socket, up to the socket's end."""
    read: list[Any] = []
    told: list[Any] = []
    coming = iter([*sent, {"type": "websocket.disconnect", "code": 1000}])

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (message := await receive())["type"] != "websocket.disconnect":
            read.append(message)
        await send({"type": "websocket.send", "bytes": b"late"})

    async def receive() -> Any:
        return next(coming)

    async def send(message: Any) -> None:
        told.append(message)

    door.app = app
    headers = [(b"cookie", cookie)] if cookie else []
    asyncio.run(door({"type": "websocket", "path": "/_stcore/stream", "headers": headers}, receive, send))
    return read, told


def build_frame(data: bytes | None) -> dict[str, Any]:
    return {"type": "websocket.receive", "bytes": data} if data is not None else {"type": "websocket.receive", "text": "x"}


def test_streamlit_reads_neither_what_is_left_out_nor_what_follows_an_end():
    door = SocketFilterMiddleware(None, ServerOptions(mode="hosted"))
    read, told = filter_messages(
        door,
        [
            build_frame(dump_rerun()),
            *map(build_frame, LEFT_OUT.values()),
            build_frame(dump_rerun(2)),
            build_frame(None),
            build_frame(dump_rerun(3)),
        ],
    )
    assert read == [build_frame(dump_rerun()), build_frame(dump_rerun(2))]
    assert told == [{"type": "websocket.close", "code": TEXT}], "and nothing is sent through a socket that has ended"


@pytest.fixture
def waited_seconds(monkeypatch) -> list[float]:
    """Seconds that would have been waited."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(socket_filter.asyncio, "sleep", sleep)
    return slept


def test_who_sends_too_often_for_long_is_ended(waited_seconds):
    door = SocketFilterMiddleware(None, ServerOptions(mode="hosted"))
    read, told = filter_messages(door, [build_frame(dump_rerun())] * 2000)
    assert told == [{"type": "websocket.close", "code": REFUSED}]
    assert HELD < len(read) <= HELD + 70 and max(waited_seconds) > 5.0


def test_tabs_of_one_visitor_share_a_pace_and_others_have_their_own(waited_seconds):
    door = SocketFilterMiddleware(None, ServerOptions(mode="hosted"))
    for visitor, waits in ((1, False), (1, True), (2, False)):
        waited_seconds.clear()
        filter_messages(door, [build_frame(dump_rerun())] * 50, COOKIE.format(visitor).encode())
        assert any(waited_seconds) == waits
    waited_seconds.clear()
    for _ in range(2):
        filter_messages(door, [build_frame(dump_rerun())] * 50)
    assert not any(waited_seconds), "whoever sends no cookie is not one visitor"


def test_who_serves_themselves_does_not_wait(waited_seconds):
    read, _ = filter_messages(SocketFilterMiddleware(None, ServerOptions(mode="local")), [build_frame(dump_rerun())] * 2000)
    assert len(read) == 2000 and not any(waited_seconds)
