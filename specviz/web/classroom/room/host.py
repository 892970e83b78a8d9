"""The rooms of this server: one store, and a session with what the process knows of each room besides.

A room's samples are drawn in batches: requests that come while a batch is drawn are in the next one. The work waits in the queue of
the pages and runs where theirs does (web/hosting/server_workers).
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specviz.errors import BusyError, CancelledError, ClusterError, SettingsError, SpecvizError
from specviz.jobs.daemon_threads import run_in_thread
from specviz.jobs.queue import Ticket
from specviz.process import SharedInstance
from specviz.progress import ProgressCallback
from specviz.settings import Settings
from specviz.web.classroom.room import codes, tally
from specviz.web.classroom.room.records import PHASES, Assignment, Room, list_sample_numbers
from specviz.web.classroom.room.results import ClassSamplesResult, PredictionResult, RaceResult, TaskResult, VoteResult
from specviz.web.classroom.room.store import RoomStore, SampleBlock, StoreError
from specviz.web.hosting import model_loading, server_workers
from specviz.web.hosting.limits import ActionRateLimiter
from specviz.web.hosting.server_options import load_options
from specviz.web.hosting.server_queue import get_server_queue

if TYPE_CHECKING:
    from specviz.evidence.sampling.session import Session
    from specviz.models.pairs.loading import LoadedPair

PAGE = "classroom"  # of which the work is, for what is counted
MAX_SESSIONS = 200  # rooms with a session; the one used longest ago is dropped first
MAX_VISITORS = 5000  # visitors whose open rooms are counted
REQUESTS_PER_SECOND = 4  # of one student, after some at once
JOINS_PER_SECOND, JOINS_PER_ADDRESS = (
    60,
    10,
)  # newcomers in one room, and from one address, which a school shares; after some at once
MAX_ADDRESSES = 2000  # whose newcomers a room counts
ABSENT_AFTER = 120.0  # seconds without a request after which a student leaves room for another
MAX_REFILLS = 10  # numbers given out at most, as a multiple of a full room
LOCAL_SAMPLES = 100  # of a batch that are drawn in less time than the way to a cluster takes
NO_TASK = "This task is not on any more."


@dataclass(frozen=True, slots=True, order=True)
class SampleRequest:
    """Samples ``first`` to ``first + count - 1`` of a student in a task; with count 0 the text of their race."""

    task: int
    student: int
    first: int = 0
    count: int = 0


class ClassroomHost:
    """The rooms of one process. folder: where they are stored."""

    def __init__(self, folder: Path):
        self.store, self.tries = RoomStore(folder), codes.WrongCodeLimiter()
        self._lock = threading.Lock()
        self._sessions: OrderedDict[str, RoomSession] = OrderedDict()
        self._opened: OrderedDict[object, list[str]] = OrderedDict()  # visitor -> codes of the rooms they opened

    def open_room(self, settings: Settings, visitor: object) -> Room:
        """A new room. Raises SpecvizError where the server, or this visitor, has as many as they may."""
        most = load_options().rooms_per_visitor
        with self._lock:
            own = [code for code in self._opened.get(visitor, ()) if (room := self.store.find_room(code)) and not room.has_ended]
            if most and visitor and len(own) >= most:
                raise SpecvizError(f"You have {most} rooms open here, the most for one visitor. End one of them first.")
            room = self.store.open_room(settings, load_options().replica, load_options().rooms)
            self._opened[visitor] = [*own, room.code]
            while len(self._opened) > MAX_VISITORS:
                self._opened.popitem(last=False)
        return room

    def find_session(self, room: Room) -> RoomSession:
        """The session of a room, made at its first use."""
        with self._lock:
            session = self._sessions.get(room.code)
            if session is None:
                session = self._sessions[room.code] = RoomSession(self.store, room)
            self._sessions.move_to_end(room.code)
            while len(self._sessions) > MAX_SESSIONS:
                self._sessions.popitem(last=False)
        return session

    def show_short_code(self, room: Room) -> str:
        """Show the room's short code: a new one each time."""
        for _ in range(5):
            short_code = codes.make_short_code(load_options().replica)
            if self.store.find_by_short_code(short_code) is None:
                break
        self.store.show_short_code(room.code, short_code)
        return short_code

    def set_closed(self, room: Room, is_closed: bool) -> None:
        """Close a room to newcomers and hide its short code, or open it with a new one."""
        self.store.set_closed(room.code, is_closed)
        if not is_closed:
            self.show_short_code(room)

    def find_typed_room(self, typed: str, address: str) -> Room:
        """The room of a short code as it was typed. Raises SpecvizError for a wrong one, and after too many of them."""
        self.tries.check(address)
        room = self.store.find_by_short_code(codes.normalize_code(typed))
        if room is None:
            self.tries.add_wrong_code(address)
            raise SpecvizError("There is no room with this code now. Check it, or ask your teacher to show it again.")
        return room


@SharedInstance
def open_host() -> ClassroomHost:
    """The host of this server. Raises StoreError where rooms cannot be stored; only the log names the folder."""
    try:
        return ClassroomHost(find_folder())
    except SettingsError as error:
        logging.getLogger(__name__).error("rooms cannot be kept: %s", error)
        raise StoreError("its folder cannot be written to") from error


def find_folder() -> Path:
    """Where rooms are stored: as the options say, else in the user's state folder."""
    if load_options().rooms_folder:
        return Path(load_options().rooms_folder)
    base = os.environ.get("XDG_STATE_HOME", "")
    return (Path(base) if base else Path.home() / ".local" / "state") / "specviz"


def delete_expired_rooms() -> None:
    """Delete rooms whose time is over, where this server has ever stored any."""
    if open_host.is_made or (find_folder() / "rooms.sqlite").is_file():
        open_host().store.delete_expired()


class RoomSession:
    """One room in this process: pending requests for samples, the counts of its tasks, how often students send requests.

    Attributes:
        store: Of the server.
        code: Of the room.
        seed: Of the room.
        revision: Grows with every answer and sample, from a random number on; results are computed once for each. A phone compares
            it with the one that it got last, maybe from a server that has been restarted since.
    """

    def __init__(self, store: RoomStore, room: Room):
        self.store, self.code, self.seed, self.revision = store, room.code, room.seed, secrets.randbits(40)
        self.lock = threading.RLock()
        self.join_limiter = ActionRateLimiter(JOINS_PER_SECOND)
        self.find_address_limiter = lru_cache(maxsize=MAX_ADDRESSES)(lambda address: ActionRateLimiter(JOINS_PER_ADDRESS))
        self.find_student_limiter = lru_cache(maxsize=2000)(lambda student: ActionRateLimiter(REQUESTS_PER_SECOND))
        self._last_contact: dict[int, float] = {}  # student -> time of their last request
        self._pending: dict[SampleRequest, Future] = {}
        self._ticket: Ticket | None = None
        self._sampling_sessions: dict[int, Session] = {}
        self._tallies: dict[int, tally.TaskTally] = {}
        self._results: dict[int, tuple[int, str, TaskResult]] = {}  # task -> revision, phase, result

    # Students ---------------------------------------------------------------------------------------------------------------

    def note_contact(self, student: int) -> None:
        """A student has sent a request."""
        self._last_contact[student] = time.monotonic()

    def add_student(self, room: Room, ticket: str) -> int:
        """The number of a student. Where the server has a limit, absent students leave room for others. Raises BusyError."""
        most, early = load_options().students_per_room, time.monotonic() - ABSENT_AFTER
        present = sum(when > early for when in list(self._last_contact.values()))
        absent = min(max(0, room.students - present), MAX_REFILLS * most)
        number = self.store.add_student(room, ticket, most, most + absent)
        self.note_contact(number)
        return number

    # Results ----------------------------------------------------------------------------------------------------------------

    def find_tally(self, task: int) -> tally.TaskTally:
        """The samples of a task. To be read under the lock, because it grows."""
        with self.lock:
            if task not in self._tallies:
                self._tallies[task] = tally.TaskTally(self.store.list_samples(self.code, task))
            return self._tallies[task]

    def list_samples(self, task: int) -> list[SampleBlock]:
        """Samples of a task in the order in which they came, as they are now."""
        with self.lock:
            return self.find_tally(task).blocks[:]

    def count_own_samples(self, task: int, student: int) -> tuple[int, dict[str, int]]:
        """How many samples a student has, and their counts in the cells of the histogram."""
        with self.lock:
            n, counts = self.find_tally(task).by_student.get(student, (0, {}))
            return n, dict(counts)

    def find_result(self, task: Assignment) -> TaskResult:
        """The class's result for a task, computed once for each revision and phase."""
        revision, known = self.revision, self._results.get(task.number)
        if known is None or known[:2] != (revision, task.phase):
            known = self._results[task.number] = revision, task.phase, self._build_result(task)
        return known[2]

    def list_results(self) -> list[TaskResult]:
        """The class's results for all tasks."""
        return [self.find_result(task) for task in self.store.list_tasks(self.code)]

    def _build_result(self, task: Assignment) -> TaskResult:
        if task.kind == "sample":
            with self.lock:
                tests = self.store.list_test_results(self.code, task.number)
                return ClassSamplesResult(task, self.find_tally(task.number).build_class_samples(task, tests))
        answers = self.store.list_answers(self.code, task.number)
        if task.kind == "predict":
            own = tally.compute_calibration(self.seed, [(task, answers)])
            return PredictionResult(task, own, self._compute_room_calibration() if task.phase == "shown" else None)
        if task.kind == "vote":
            decoder = tally.build_shares(task, "the decoder", task.content["counts"], task.content["n"])
            return VoteResult(task, tally.count_votes(task, answers), decoder)
        return RaceResult(task, tally.rank_choices(answers))

    def _compute_room_calibration(self) -> tally.Calibration | None:
        """Of all predictions of the room whose truth is shown; None where there are none."""
        tasks = [one for one in self.store.list_tasks(self.code) if one.kind == "predict" and not one.accepts_answers]
        return tally.compute_calibration(self.seed, [(one, self.store.list_answers(self.code, one.number)) for one in tasks])

    def set_phase(self, number: int, phase: object) -> None:
        """Move a task to its next phase; one that is there already stays. Raises SpecvizError for any other."""
        task = self.store.find_current_task(self.code)
        if task is None or task.number != number or phase not in (task.phase, task.next_phase):
            raise SpecvizError(NO_TASK)
        if phase == task.next_phase:
            self.store.set_phase(self.code, number, str(phase))
            self.note_change()

    def find_next_number(self) -> int:
        """Number of the task that comes next."""
        task = self.store.find_current_task(self.code)
        return 1 if task is None else task.number + 1

    def note_change(self) -> None:
        """Something was stored: results are computed anew."""
        with self.lock:
            self.revision += 1

    # Work -------------------------------------------------------------------------------------------------------------------

    def request_work(self, request: SampleRequest) -> Future:
        """The future of a student's samples or race; the same for repeated requests. Raises BusyError where the queue is full."""
        with self.lock:
            future = self._pending.setdefault(request, Future())
            if self._ticket is None or not self._ticket.is_open:
                try:
                    self._ticket = get_server_queue().submit(self._run_batches, ("room", self.code), PAGE, is_brief=True)
                except SpecvizError:
                    del self._pending[request]
                    raise
        return future

    def _run_batches(self, ticket: Ticket) -> None:
        """Batch after batch, until no request is pending."""
        while True:
            with self.lock:
                batch, self._pending = self._pending, {}
                if not batch:
                    self._ticket = None
                    return
            try:
                ticket.keep_alive()
                ticket.tick()
                results = self._run_batch(ticket, list(batch))
            except BaseException as error:
                with self.lock:
                    self._sampling_sessions.clear()  # what was counted may not have been stored
                    self._tallies.clear()
                    late, self._pending = self._pending, {}
                    self._ticket = None
                is_explained = isinstance(error, SpecvizError) and not isinstance(error, ClusterError)
                for future in [*batch.values(), *late.values()]:
                    future.set_exception(error if is_explained else BusyError("The server could not do this now."))
                raise
            for request, future in batch.items():
                future.set_result(results[request])

    def _run_batch(self, ticket: Ticket, batch: Sequence[SampleRequest]) -> dict[SampleRequest, Any]:
        tasks = {task.number: task for task in self.store.list_tasks(self.code)}
        results: dict[SampleRequest, Any] = {}
        for number in sorted({request.task for request in batch}):
            requests = [request for request in batch if request.task == number]
            if number not in tasks:
                results |= {request: {} for request in requests}
            else:
                run = self._draw_samples if tasks[number].kind == "sample" else self._run_race
                results |= run(ticket, tasks[number], requests)
        return results

    def _draw_samples(self, ticket: Ticket, task: Assignment, batch: Sequence[SampleRequest]) -> dict[SampleRequest, Any]:
        """Draw and store new samples; show the rounds of single ones, however often they are requested."""
        settings = task.settings
        pair = load_pair(ticket, settings)
        from specviz.web.classroom.room import drawing
        from specviz.web.classroom.room.class_evidence import count_blocks, restore_session

        if task.number not in self._sampling_sessions:
            self._sampling_sessions[task.number] = restore_session(
                pair, settings, task.content["cells"], self.list_samples(task.number)
            )
        have = Counter({one.student: self.count_own_samples(task.number, one.student)[0] for one in batch})
        new: list[tuple[int, int, int]] = []
        for one in sorted(batch, key=lambda one: one.first):  # a phone that lost its answer may have requested what follows
            if one.first == have[one.student] and task.accepts_answers:
                new.append((one.student, one.first, one.count))
                have[one.student] += one.count
        single = sorted({one for one in batch if one.count == 1 and one.first < have[one.student]})
        blocks = [list_sample_numbers(*one) for one in new]
        walks = [list_sample_numbers(one.student, one.first, 1)[0] for one in single]
        is_local = sum(count for *_, count in new) <= LOCAL_SAMPLES or not load_options().cluster
        arguments = settings, tuple(task.content["ids"]), blocks, walks
        samples, rounds = run_in_worker(ticket, drawing.draw_samples, pair, settings, arguments, "samples of a class", is_local)
        if new:
            stored, tests = count_blocks(self._sampling_sessions[task.number], new, samples)
            self.store.add_samples(self.code, task.number, stored, tests)
            with self.lock:
                self.find_tally(task.number).add(stored)
                self.revision += 1
        return dict.fromkeys(batch) | dict(zip(single, rounds, strict=True))

    def _run_race(self, ticket: Ticket, task: Assignment, batch: Sequence[SampleRequest]) -> dict[SampleRequest, Any]:
        """Decode the texts of those whose choice has not run yet."""
        settings = task.settings
        pair = load_pair(ticket, settings)
        from specviz.web.classroom.room import drawing

        answers = {student: answer for _, student, answer in self.store.list_answers(self.code, task.number)}
        new = [one.student for one in batch if one.student in answers and "tokens" not in answers[one.student]]
        entries = [(student, answers[student]["method"], answers[student]["gamma"]) for student in new]

        def run(part: Sequence[tuple[int, str, int]], on_progress: ProgressCallback) -> dict[int, dict[str, Any]]:
            arguments, is_local = (settings, tuple(task.content["ids"]), part), not load_options().cluster
            return server_workers.run_in_worker(
                drawing.run_race, pair, settings, arguments, on_progress, "a race", urgent=is_local
            )

        def cancel_with_ticket(share: float, doing: str = "", /) -> None:
            if ticket.is_unwanted:
                raise CancelledError

        found: dict[int, dict[str, Any]] = {}
        if entries:
            own, *others = split_by_choice(entries, server_workers.count_ready_workers() or 1)
            futures = [run_in_thread(run, part, cancel_with_ticket, name="race") for part in others]
            found = run(own, lambda share, *_: ticket.tick())
            for future in futures:
                found |= future.result()
        complete = {student: answers[student] | counts for student, counts in found.items()}
        self.store.replace_answers(self.code, task.number, PHASES["race"][0], complete)
        self.note_change()
        return {request: (answers | complete).get(request.student) for request in batch}


def split_by_choice(entries: Sequence[tuple[int, str, int]], parts: int) -> list[list[tuple[int, str, int]]]:
    """A race's entries (student, method, gamma) in at most so many parts, one for each worker; equal choices stay together."""
    choices = sorted({tuple(choice) for _, *choice in entries})
    split = [[one for one in entries if choices.index(tuple(one[1:])) % parts == part] for part in range(parts)]
    return [part for part in split if part]


def load_pair(ticket: Ticket, settings: Settings) -> LoadedPair:
    """The models of a room, from memory or loaded while the ticket waits."""
    return model_loading.wait_for_pair(ticket, settings)


def run_in_worker(
    ticket: Ticket,
    function: Any,
    pair: LoadedPair,
    settings: Settings,
    arguments: tuple,
    description: str,
    is_local: bool = False,
) -> Any:
    """Run ``function(pair, *arguments, on_progress)`` where the server's heavy work runs; in its own process if ``is_local``."""
    on_progress = lambda share, *_: ticket.tick()  # noqa: E731
    return server_workers.run_in_worker(function, pair, settings, arguments, on_progress, description, urgent=is_local)
