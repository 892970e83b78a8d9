"""The students' page, its JSON routes, and those that steer a room. Every request is checked and answered with a sentence.

Every address has the room's code in its path, so that a proxy finds the server that the room lives on. A student is identified by a
token in a header, which no other site's page can send. Every request may be repeated: it changes nothing a second time.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import quote

from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from specviz.errors import BusyError, SettingsError, SpecvizError
from specviz.jobs.queue import Ticket
from specviz.web.classroom.room import codes, payload, student_page
from specviz.web.classroom.room.host import NO_TASK, PAGE, ClassroomHost, RoomSession, SampleRequest, open_host
from specviz.web.classroom.room.preparation import prepare_task
from specviz.web.classroom.room.records import KINDS, Assignment, Room, check_answer, read_sample_request, read_whole_number
from specviz.web.classroom.room.store import StoreError
from specviz.web.common.error_sentences import explain_error
from specviz.web.hosting.limits import ActionRateLimiter
from specviz.web.hosting.server_queue import get_server_queue

FOLDER = "room"
MAX_BYTES = 4_000  # of a request
MAX_WAIT = 25.0  # seconds that a request waits for samples; then the phone sends it again
RETRY_AFTER, MAX_RETRY_AFTER = 2, 15  # seconds after which a refused phone does; the most of any refusal
TICKET = re.compile(r"[A-Za-z0-9_-]{16,64}", re.ASCII)
STORE_THREADS = ThreadPoolExecutor(4, "rooms")  # read and write the store: not the loop that serves all pages

NO_ROOM = "There is no such room, or its time is over."
NOT_IN_ROOM = "This browser is not in the room. Load the page again."


class RouteError(SpecvizError):
    """A request that is refused, with a sentence. status: of HTTP; retry_after: seconds, 0 for never."""

    def __init__(self, sentence: str, status: int = 400, retry_after: float = 0):
        self.status, self.retry_after = status, retry_after
        super().__init__(sentence)


Answer = Callable[
    [ClassroomHost, Request, dict[str, Any]], Any
]  # the JSON, or a future and a function that makes the JSON after it


def make_route(path: str, answer: Answer, method: str = "POST") -> Route:
    """An address that answers JSON. ``answer`` runs in a thread."""

    async def respond(request: Request) -> Response:
        loop = asyncio.get_running_loop()
        try:
            body = await _read_body(request) if method == "POST" else {}
            result = await loop.run_in_executor(STORE_THREADS, lambda: answer(open_host(), request, body))
            if isinstance(result, tuple):
                future, build = result
                await _await_future(future)
                result = await loop.run_in_executor(STORE_THREADS, build)
            return _build_json(result)
        except RouteError as error:
            return _build_refusal(str(error), error.status, error.retry_after)
        except (BusyError, StoreError) as error:
            return _build_refusal(str(error), 503, RETRY_AFTER)
        except SpecvizError as error:
            return _build_refusal(explain_error(error), 400)
        except ClientDisconnect:
            return Response(status_code=400)

    return Route(f"/{FOLDER}/{path}", respond, methods=[method])


async def _await_future(future: Future) -> None:
    """Wait for the end of work. A client that leaves does not stop it: others wait for the same."""
    try:
        await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(future)), MAX_WAIT)
    except TimeoutError:
        raise RouteError("The server has much to do.", 503, RETRY_AFTER) from None


async def _read_body(request: Request) -> dict[str, Any]:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MAX_BYTES:
            raise RouteError(f"A request must have at most {MAX_BYTES:,} bytes.", 413)
    try:
        content = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        raise RouteError("The request is no JSON.") from None
    if not isinstance(content, dict):
        raise RouteError("The request must be an object.")
    return content


def _build_json(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse(content, status, {"Cache-Control": "no-store"} | (headers or {}))


def _build_refusal(sentence: str, status: int, retry_after: float = 0) -> JSONResponse:
    again = min(retry_after, MAX_RETRY_AFTER)
    headers = {"Retry-After": f"{max(1, round(again))}"} if again else {}
    return _build_json({"error": sentence, "again": again}, status, headers)


# Identity -------------------------------------------------------------------------------------------------------------------


def _find_room(host: ClassroomHost, code: str) -> Room:
    room = host.store.find_room(code)
    if room is None:
        raise RouteError(NO_ROOM, 404)
    return room


def _read_bearer(request: Request) -> str:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return token if kind.lower() == "bearer" else ""


def _find_student(host: ClassroomHost, request: Request) -> tuple[Room, RoomSession, int]:
    """Room and number of a student, "number.token" in the header. Raises RouteError for anybody else, and for too many requests."""
    room = _find_room(host, request.path_params["code"])
    number, _, token = _read_bearer(request).partition(".")
    if not (number.isascii() and number.isdecimal() and len(number) < 7) or not 1 <= int(number) <= room.students:
        raise RouteError(NOT_IN_ROOM, 401)
    if not codes.is_valid_token(token, room.teacher_code, int(number)):
        raise RouteError(NOT_IN_ROOM, 401)
    session = host.find_session(room)
    _limit_rate("That was too fast.", session.find_student_limiter(int(number)))
    session.note_contact(int(number))
    return room, session, int(number)


def _limit_rate(sentence: str, *limiters: ActionRateLimiter) -> None:
    """Count an action, where all of these allow it now. Raises RouteError, and counts nothing, where one does not."""
    if seconds := max(limiter.left for limiter in limiters):
        raise RouteError(sentence, 429, seconds)
    for limiter in limiters:
        limiter.wait()


def _read_address(request: Request) -> str:
    return request.client.host if request.client else ""


def _find_task(session: RoomSession, room: Room, body: dict[str, Any]) -> Assignment:
    """The task of a request, if it is the current one and still accepts answers."""
    task = session.store.find_current_task(room.code)
    if room.has_ended or task is None or body.get("task") != task.number or not task.accepts_answers:
        raise RouteError(NO_TASK, 409)
    return task


# For students ----------------------------------------------------------------------------------------------------------------


def enter_room(host: ClassroomHost, request: Request, body: dict[str, Any]) -> dict[str, Any]:
    """POST /room/SHORT/enter: the code of the room that shows a short code."""
    return {"code": host.find_typed_room(request.path_params["code"], _read_address(request)).code}


def join_room(host: ClassroomHost, request: Request, body: dict[str, Any]) -> dict[str, Any]:
    """POST /room/CODE/join {ticket}: number and token. The same ticket gives the same ones."""
    room, ticket = _find_room(host, request.path_params["code"]), body.get("ticket")
    if not isinstance(ticket, str) or not TICKET.fullmatch(ticket):
        raise RouteError("ticket must be 16 to 64 letters and digits.")
    session, number = host.find_session(room), host.store.find_student(room, ticket)
    if number is None:
        limiters = session.find_address_limiter(_read_address(request)), session.join_limiter
        _limit_rate("Many students are coming in.", *limiters)
        number = session.add_student(room, ticket)
    else:
        _limit_rate("That was too fast.", session.find_student_limiter(number))
    return {"number": number, "token": codes.make_token(room.teacher_code, number)}


def send_payload(host: ClassroomHost, request: Request, body: dict[str, Any]) -> dict[str, Any]:
    """GET /room/CODE/now?mark=: the current state, or that nothing is new since this mark."""
    room, session, number = _find_student(host, request)
    _retry_race(session, session.store.find_current_task(room.code), number)
    mark = payload.compute_version(session, room)
    if request.query_params.get("mark") == mark:
        return {"mark": mark, "again": payload.compute_poll_interval(room), "same": True}
    return payload.build_payload(session, room, number)


def _retry_race(session: RoomSession, task: Assignment | None, number: int) -> None:
    """Request a race's text again whose first run failed."""
    if task is None or task.kind != "race" or not task.accepts_answers:
        return
    answer = session.store.find_answers(session.code, task.number, number).get(task.phase)
    if answer is not None and "tokens" not in answer:
        with suppress(BusyError):
            session.request_work(SampleRequest(task.number, number))


def take_answer(host: ClassroomHost, request: Request, body: dict[str, Any]) -> Any:
    """POST /room/CODE/answer {task, phase, sent}: store a prediction, a vote or a choice."""
    room, session, number = _find_student(host, request)
    task = _find_task(session, room, body)
    if body.get("phase") != task.phase:
        raise RouteError(NO_TASK, 409)
    session.store.keep_answer(room.code, task, number, check_answer(task, body.get("sent")))
    session.note_change()
    build = partial(_build_current_payload, host, room.code, session, number)
    return (session.request_work(SampleRequest(task.number, number)), build) if task.kind == "race" else build()


def draw_samples(host: ClassroomHost, request: Request, body: dict[str, Any]) -> Any:
    """POST /room/CODE/draw {task, first, count}: samples of one's own, drawn here. Samples that exist are not drawn again."""
    room, session, number = _find_student(host, request)
    first, count = read_sample_request(body)
    task = _find_task(session, room, body)
    if task.kind != "sample":
        raise RouteError(NO_TASK, 409)
    have, _ = session.count_own_samples(task.number, number)
    if first > have:
        raise RouteError(f"first must be at most {have}, the number of samples that you have.", 409)
    if first < have and count > 1:
        return _build_current_payload(host, room.code, session, number)
    future = session.request_work(SampleRequest(task.number, number, first, count))
    return future, lambda: _build_current_payload(host, room.code, session, number) | {"walk": future.result()}


def _build_current_payload(host: ClassroomHost, code: str, session: RoomSession, number: int) -> dict[str, Any]:
    return payload.build_payload(session, _find_room(host, code), number)


# For the teacher -------------------------------------------------------------------------------------------------------------


def steer_room(host: ClassroomHost, request: Request, body: dict[str, Any]) -> Any:
    """POST /room/CODE/steer {do}: steer a room. The teacher's code is the token.

    do: show | hide (the short code) | close | open (the door) | begin (kind, task) | turn (task, phase) | end | delete (the room)
    """
    room = _find_room(host, request.path_params["code"])
    if not codes.are_equal_codes(_read_bearer(request), room.teacher_code):
        raise RouteError("This is not the teacher’s link of this room.", 401)
    session, do = host.find_session(room), body.get("do")
    if do == "show":
        return {"short": host.show_short_code(room)}
    if do == "hide":
        host.store.show_short_code(room.code, "")
    elif do in ("close", "open"):
        host.set_closed(room, do == "close")
    elif do == "begin":
        kind = body.get("kind")
        if kind not in KINDS:
            raise SettingsError("kind", kind, f"one of {', '.join(KINDS)}")
        number = read_whole_number("task", body.get("task"), 1, 10_000)
        if number != session.find_next_number():
            return {"task": session.find_next_number() - 1}
        ticket = get_server_queue().submit(
            lambda ticket: prepare_task(ticket, session, room, kind, number), ("room", room.code), PAGE
        )
        return ticket.end, lambda: _build_begun(ticket, number)
    elif do == "turn":
        session.set_phase(read_whole_number("task", body.get("task"), 1, 10_000), body.get("phase"))
    elif do == "end":
        host.store.end_room(room.code)
    elif do == "delete":
        host.store.delete_room(room.code)
    else:
        raise RouteError("do must be show, hide, close, open, begin, turn, end or delete.")
    session.note_change()
    return {"done": True}


def _build_begun(ticket: Ticket, number: int) -> dict[str, Any]:
    """The answer about a task whose preparation has ended. Raises RouteError where it failed or was stopped."""
    if ticket.state != "done":
        raise RouteError(ticket.sentence or "This was stopped.", 503, RETRY_AFTER)
    return {"task": number}


# Pages -----------------------------------------------------------------------------------------------------------------------


async def send_page(request: Request) -> Response:
    """GET /room/ and /room/CODE: the same page for all; its content comes by the routes above."""
    return HTMLResponse(student_page.build_page(), headers={"Cache-Control": "no-cache"})


async def redirect_to_wall(request: Request) -> Response:
    """GET /room/CODE/wall: the wall, on the server that the room lives on."""
    return RedirectResponse(f"../../classroom?wall={quote(request.path_params['code'], safe='')}", 303)


async def redirect_to_teacher(request: Request) -> Response:
    """GET /room/STEER/teach: the teacher's page, likewise."""
    return RedirectResponse(f"../../classroom?steer={quote(request.path_params['code'], safe='')}", 303)


def list_routes() -> list[Route]:
    """All routes of rooms, beside Streamlit's own."""
    return [
        make_route("{code}/enter", enter_room),
        make_route("{code}/join", join_room),
        make_route("{code}/now", send_payload, "GET"),
        make_route("{code}/answer", take_answer),
        make_route("{code}/draw", draw_samples),
        make_route("{code}/steer", steer_room),
        Route(f"/{FOLDER}/{{code}}/wall", redirect_to_wall, methods=["GET"]),
        Route(f"/{FOLDER}/{{code}}/teach", redirect_to_teacher, methods=["GET"]),
        Route(f"/{FOLDER}/", send_page, methods=["GET"]),
        Route(f"/{FOLDER}/{{code}}", send_page, methods=["GET"]),
    ]
