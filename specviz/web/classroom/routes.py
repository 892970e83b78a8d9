"""The students' page and its JSON routes, and those with which a room is steered. Whatever is sent is checked, and answered with a sentence.

Every address has the room's code in its path, so that a proxy finds the server that the room lives on. A student says who it is by a
token in a header, which no other site's page can send. Every request may be sent again: it changes nothing a second time.
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

from specviz.classroom import codes
from specviz.classroom.records import KINDS, Assignment, Room, check_answer, read_sample_request, read_whole_number
from specviz.classroom.store import StoreError
from specviz.errors import BusyError, SettingsError, SpecvizError
from specviz.web.classroom import payload, student_page
from specviz.web.classroom.host import (
    NOT_ON,
    PAGE,
    ClassroomHost,
    RoomSession,
    SampleRequest,
    find_next_number,
    open_host,
    prepare_task,
)
from specviz.web.hosting.socket_filter import ActionRateLimiter
from specviz.web.jobs.server_queue import server_queue

FOLDER = "room"
LONGEST = 4_000  # bytes of a request
WAIT = 25.0  # seconds that samples are waited for; then the phone asks again
AGAIN, LATEST = 2, 15  # seconds after which it does; the most that any refusal asks for
TICKET = re.compile(r"[A-Za-z0-9_-]{16,64}", re.ASCII)
THREADS = ThreadPoolExecutor(4, "rooms")  # what reads and writes the store: not the loop that serves all pages


class RouteError(SpecvizError):
    """A request that is not answered, in a sentence. status: of HTTP; again: seconds after which to try again, 0 for never."""

    def __init__(self, sentence: str, status: int = 400, again: float = 0):
        self.status, self.again = status, again
        super().__init__(sentence)


Answer = Callable[[ClassroomHost, Request, dict[str, Any]], Any]  # the JSON, or a future of something and what makes JSON of it


def make_route(path: str, answer: Answer, method: str = "POST") -> Route:
    """An address that answers JSON. ``answer`` runs in a thread."""

    async def answered(request: Request) -> Response:
        try:
            sent = await _read_body(request) if method == "POST" else {}
            found = await asyncio.get_running_loop().run_in_executor(THREADS, partial(_run_answer, answer, request, sent))
            if isinstance(found, tuple):
                future, made = found
                await _await_future(future)
                found = await asyncio.get_running_loop().run_in_executor(THREADS, made)
            return _build_json(found)
        except RouteError as error:
            return _build_refusal(str(error), error.status, error.again)
        except (BusyError, StoreError) as error:
            return _build_refusal(str(error), 503, AGAIN)
        except SpecvizError as error:
            return _build_refusal(str(error), 400)
        except ClientDisconnect:
            return Response(status_code=400)

    return Route(f"/{FOLDER}/{path}", answered, methods=[method])


def _run_answer(answer: Answer, request: Request, sent: dict[str, Any]) -> Any:
    return answer(open_host(), request, sent)


async def _await_future(future: Future) -> None:
    """Until work has ended. Whoever leaves does not stop it: others wait for the same."""
    try:
        await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(future)), WAIT)
    except TimeoutError:
        raise RouteError("The server has much to do.", 503, AGAIN) from None


async def _read_body(request: Request) -> dict[str, Any]:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LONGEST:
            raise RouteError(f"A request must have at most {LONGEST:,} bytes.", 413)
    try:
        found = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        raise RouteError("The request is no JSON.") from None
    if not isinstance(found, dict):
        raise RouteError("The request must be an object.")
    return found


def _build_json(found: Any, status: int = 200, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse(found, status, {"Cache-Control": "no-store"} | (headers or {}))


def _build_refusal(sentence: str, status: int, again: float = 0) -> JSONResponse:
    again = min(again, LATEST)
    headers = {"Retry-After": f"{max(1, round(again))}"} if again else {}
    return _build_json({"error": sentence, "again": again}, status, headers)


# Who asks -------------------------------------------------------------------------------------------------------------------


def _find_room(rooms: ClassroomHost, request: Request) -> Room:
    room = rooms.store.room(request.path_params["code"])
    if room is None:
        raise RouteError("There is no such room, or its time is over.", 404)
    return room


def _read_bearer(request: Request) -> str:
    kind, _, given = request.headers.get("authorization", "").partition(" ")
    return given if kind.lower() == "bearer" else ""


def _find_student(rooms: ClassroomHost, request: Request) -> tuple[Room, RoomSession, int]:
    """Room and number of who asks, "number.token" in the header. Raises Refused for anybody else, and for who asks too often."""
    room = _find_room(rooms, request)
    number, _, token = _read_bearer(request).partition(".")
    if not (number.isascii() and number.isdecimal() and len(number) < 7) or not 1 <= int(number) <= room.students:
        raise RouteError("This browser is not in the room. Load the page again.", 401)
    if not codes.is_valid_token(token, room.steer, int(number)):
        raise RouteError("This browser is not in the room. Load the page again.", 401)
    hall = rooms.hall(room)
    _build_rate_error("That was too fast.", hall.pace_of(int(number)))
    hall.heard(int(number))
    return room, hall, int(number)


def _build_rate_error(sentence: str, *paces: ActionRateLimiter) -> None:
    """Count an action, where all of these allow it now. Raises Refused, and counts nothing, where one does not."""
    if seconds := max(pace.left for pace in paces):
        raise RouteError(sentence, 429, seconds)
    for pace in paces:
        pace.wait()


def _read_address(request: Request) -> str:
    return request.client.host if request.client else ""


def _find_task(hall: RoomSession, room: Room, sent: dict[str, Any]) -> Assignment:
    """The task that a student means, if it is on and still takes answers."""
    task = hall.store.task(room.code)
    if room.ended or task is None or sent.get("task") != task.number or not task.takes:
        raise RouteError(NOT_ON, 409)
    return task


# For students ----------------------------------------------------------------------------------------------------------------


def enter_room(rooms: ClassroomHost, request: Request, sent: dict[str, Any]) -> dict[str, Any]:
    """POST /room/SHORT/enter: the code of the room that shows a short code."""
    return {"code": rooms.enter(request.path_params["code"], _read_address(request)).code}


def join_room(rooms: ClassroomHost, request: Request, sent: dict[str, Any]) -> dict[str, Any]:
    """POST /room/CODE/join {ticket}: number and token. The same ticket gives the same ones."""
    room, ticket = _find_room(rooms, request), sent.get("ticket")
    if not isinstance(ticket, str) or not TICKET.fullmatch(ticket):
        raise RouteError("ticket must be 16 to 64 letters and digits.")
    hall, number = rooms.hall(room), rooms.store.student(room, ticket)
    if number is None:
        _build_rate_error("Many students are coming in.", hall.joins_of(_read_address(request)), hall.joins)
        number = hall.join(room, ticket)
    else:
        _build_rate_error("That was too fast.", hall.pace_of(number))
    return {"number": number, "token": codes.make_token(room.steer, number)}


def send_payload(rooms: ClassroomHost, request: Request, sent: dict[str, Any]) -> dict[str, Any]:
    """GET /room/CODE/now?mark=: what is on, or that nothing is new since this mark."""
    room, hall, number = _find_student(rooms, request)
    _ask_again(hall, hall.store.task(room.code), number)
    mark = payload.compute_version(hall, room)
    if request.query_params.get("mark") == mark:
        return {"mark": mark, "again": payload.compute_poll_interval(room), "same": True}
    return payload.build_payload(hall, room, number)


def _ask_again(hall: RoomSession, task: Assignment | None, number: int) -> None:
    """Have a race's text written whose first time came to nothing."""
    if task is None or task.kind != "race" or not task.takes:
        return
    sent = hall.store.answers_of(hall.code, task.number, number).get(task.phase)
    if sent is not None and "tokens" not in sent:
        with suppress(BusyError):
            hall.want(SampleRequest(task.number, number))


def take_answer(rooms: ClassroomHost, request: Request, sent: dict[str, Any]) -> Any:
    """POST /room/CODE/answer {task, phase, sent}: what is kept of a prediction, a vote or a choice."""
    room, hall, number = _find_student(rooms, request)
    task = _find_task(hall, room, sent)
    if sent.get("phase") != task.phase:
        raise RouteError(NOT_ON, 409)
    hall.store.answer(room.code, task, number, check_answer(task, sent.get("sent")))
    hall.changed()
    made = partial(_find_now, rooms, room.code, hall, number)
    return (hall.want(SampleRequest(task.number, number)), made) if task.kind == "race" else made()


def draw_samples(rooms: ClassroomHost, request: Request, sent: dict[str, Any]) -> Any:
    """POST /room/CODE/draw {task, first, count}: samples of one's own, drawn here. Those that are there already are not drawn again."""
    room, hall, number = _find_student(rooms, request)
    first, count = read_sample_request(sent)
    task = _find_task(hall, room, sent)
    if task.kind != "sample":
        raise RouteError(NOT_ON, 409)
    have, _ = hall.own(task.number, number)
    if first > have:
        raise RouteError(f"first must be at most {have}, the number of samples that you have.", 409)
    if first < have and count > 1:
        return _find_now(rooms, room.code, hall, number)
    future = hall.want(SampleRequest(task.number, number, first, count))

    def made() -> dict[str, Any]:
        return _find_now(rooms, room.code, hall, number) | {"walk": future.result()}

    return future, made


def _find_now(rooms: ClassroomHost, code: str, hall: RoomSession, number: int) -> dict[str, Any]:
    room = rooms.store.room(code)
    if room is None:
        raise RouteError("There is no such room, or its time is over.", 404)
    return payload.build_payload(hall, room, number)


# For the teacher -------------------------------------------------------------------------------------------------------------


def steer_room(rooms: ClassroomHost, request: Request, sent: dict[str, Any]) -> Any:
    """POST /room/CODE/steer {do}: show or hide the short code, close or open the door, begin a task, go to its next phase, end or delete the room.

    The teacher's code is the token. do: show | hide | close | open | begin (kind, task) | turn (task, phase) | end | delete
    """
    room = _find_room(rooms, request)
    if not codes.compare_codes(_read_bearer(request), room.steer):
        raise RouteError("This is not the teacher’s link of this room.", 401)
    hall, do = rooms.hall(room), sent.get("do")
    if do == "show":
        return {"short": rooms.show(room)}
    if do == "hide":
        rooms.store.show(room.code, "")
    elif do in ("close", "open"):
        rooms.shut(room, do == "close")
    elif do == "begin":
        kind = sent.get("kind")
        if kind not in KINDS:
            raise SettingsError("kind", kind, f"one of {', '.join(KINDS)}")
        number = read_whole_number("task", sent.get("task"), 1, 10_000)
        if number != find_next_number(hall):
            return {"task": find_next_number(hall) - 1}
        ticket = server_queue().submit(lambda ticket: prepare_task(ticket, hall, room, kind, number), ("room", room.code), PAGE)
        return _await_end(ticket), lambda: {"task": number}
    elif do == "turn":
        hall.turn(read_whole_number("task", sent.get("task"), 1, 10_000), sent.get("phase"))
    elif do == "end":
        rooms.store.end(room.code)
    elif do == "delete":
        rooms.store.delete(room.code)
    else:
        raise RouteError("do must be show, hide, close, open, begin, turn, end or delete.")
    hall.changed()
    return {"done": True}


def _await_end(ticket: Any) -> Future:
    """A future of a ticket's end. Raises what became of it."""
    future: Future = Future()

    def told() -> None:
        ticket.ended.wait()
        if ticket.state == "done":
            future.set_result(None)
        else:
            future.set_exception(RouteError(ticket.sentence or "This was stopped.", 503, AGAIN))

    WAITING.submit(told)
    return future


WAITING = ThreadPoolExecutor(4, "rooms begin")


# Pages -----------------------------------------------------------------------------------------------------------------------


async def send_page(request: Request) -> Response:
    """GET /room/ and /room/CODE: the same page for all; what is in the room comes by the routes above."""
    return HTMLResponse(student_page.build_page(), headers={"Cache-Control": "no-cache"})


async def redirect_to_wall(request: Request) -> Response:
    """GET /room/CODE/wall: the wall, on the server that the room lives on."""
    return RedirectResponse(f"../../classroom?wall={quote(request.path_params['code'], safe='')}", 303)


async def redirect_to_teacher(request: Request) -> Response:
    """GET /room/STEER/teach: the teacher's page, likewise."""
    return RedirectResponse(f"../../classroom?steer={quote(request.path_params['code'], safe='')}", 303)


def list_routes() -> list[Route]:
    """Beside Streamlit's own."""
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
