"""The rooms of this server: one store, and for each room what the process knows of it beside.

A room's samples are drawn in batches: whoever asks while a batch is drawn is in the next one. The work stands in the same queue as that
of the pages, and is done where theirs is (web/jobs/server_workers).
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from specviz.classroom import codes, tally
from specviz.classroom.records import PHASES, Assignment, Room, derive_task_seed, list_sample_numbers
from specviz.classroom.store import RoomStore, StoredBlock, StoreError
from specviz.errors import BusyError, ClusterError, SettingsError, SpecvizError
from specviz.jobs.queue import Ticket
from specviz.progress import ProgressCallback, ignore_progress
from specviz.settings import Settings
from specviz.web.hosting import limits
from specviz.web.hosting.options import load_options
from specviz.web.hosting.socket_filter import ActionRateLimiter
from specviz.web.jobs import cache, model_loading, server_workers
from specviz.web.jobs.server_queue import server_queue

if TYPE_CHECKING:
    from specviz.evidence.results import CellShares
    from specviz.evidence.session import Tally
    from specviz.models.pairs.loading import LoadedPair

PAGE = "classroom"  # of which the work is, for what is counted
HALLS = 200  # rooms that the process knows more of than what is stored; the one used longest ago is forgotten first
OPENERS = 5000  # visitors whose open rooms are counted
PER_SECOND = 4  # requests a second of one student, after some at once
JOINS, OF_ADDRESS = 60, 10  # newcomers a second in one room, and from one address, which a school shares; after some at once
ADDRESSES = 2000  # of which a room knows how many came
HERE, FLED = (
    120.0,
    10,
)  # seconds after which a student who is not heard of leaves room for another; times a full room, the most numbers
FEW = 100  # samples of a batch that are drawn in less time than the way to a cluster takes
NOT_ON = "This task is not on any more."


class SampleRequest(NamedTuple):
    """What a student waits for: samples ``first`` to ``first + count - 1`` of a task, or with count 0 the text of their race."""

    task: int
    student: int
    first: int = 0
    count: int = 0


class ClassroomHost:
    """The rooms of one process. folder: where they are kept."""

    def __init__(self, folder: Path):
        self.store, self.tries = RoomStore(folder), codes.WrongCodeLimiter()
        self._lock = threading.Lock()
        self._halls: OrderedDict[str, RoomSession] = OrderedDict()
        self._opened: OrderedDict[object, list[str]] = OrderedDict()  # visitor -> codes of the rooms they opened

    def open(self, settings: Settings, visitor: object) -> Room:
        """A new room. Raises SpecvizError where the server, or this visitor, has as many as they may."""
        most = load_options().rooms_per_visitor
        with self._lock:
            mine = [code for code in self._opened.get(visitor, ()) if (room := self.store.room(code)) and not room.ended]
            if most and visitor and len(mine) >= most:
                raise SpecvizError(f"You have {most} rooms open here, the most for one visitor. End one of them first.")
            room = self.store.open(settings, load_options().replica, load_options().rooms)
            self._opened[visitor] = [*mine, room.code]
            while len(self._opened) > OPENERS:
                self._opened.popitem(last=False)
        return room

    def hall(self, room: Room) -> RoomSession:
        """What the process knows of a room."""
        with self._lock:
            hall = self._halls.get(room.code)
            if hall is None:
                hall = self._halls[room.code] = RoomSession(self.store, room)
            self._halls.move_to_end(room.code)
            while len(self._halls) > HALLS:
                self._halls.popitem(last=False)
        return hall

    def show(self, room: Room) -> str:
        """Show the room's short code: a new one each time."""
        for _ in range(5):
            short = codes.make_short_code(load_options().replica)
            if self.store.shown(short) is None:
                break
        self.store.show(room.code, short)
        return short

    def shut(self, room: Room, shut: bool) -> None:
        """Close the door of a room: nobody new comes in, and no short code is shown. Or open it, with a new one."""
        self.store.shut(room.code, shut)
        if not shut:
            self.show(room)

    def enter(self, typed: str, address: str) -> Room:
        """The room of a short code that somebody typed. Raises SpecvizError for a wrong one, and after too many of them."""
        self.tries.check(address)
        room = self.store.shown(codes.normalize_code(typed))
        if room is None:
            self.tries.wrong(address)
            raise SpecvizError("There is no room with this code now. Check it, or ask your teacher to show it again.")
        return room


@lru_cache(maxsize=1)
def open_host() -> ClassroomHost:
    """Of this server. Raises StoreError where rooms cannot be kept; the folder is named in the log alone."""
    try:
        return ClassroomHost(find_folder())
    except SettingsError as error:
        logging.getLogger(__name__).error("rooms cannot be kept: %s", error)
        raise StoreError("its folder cannot be written to") from error


def find_folder() -> Path:
    """Where rooms are kept: as the options say, else where the system keeps such things."""
    if load_options().rooms_folder:
        return Path(load_options().rooms_folder)
    base = os.environ.get("XDG_STATE_HOME", "")
    return (Path(base) if base else Path.home() / ".local" / "state") / "specviz"


def delete_expired_rooms() -> None:
    """Delete what is over, where this server has ever kept rooms."""
    if open_host.cache_info().currsize or (find_folder() / "rooms.sqlite").is_file():
        open_host().store.sweep()


class RoomSession:
    """One room in this process: who waits for samples, the counts of its tasks, how often students ask.

    stamp  grows with every answer and sample, for whoever remembers what the class has
    """

    def __init__(self, store: RoomStore, room: Room):
        self.store, self.code, self.seed, self.stamp = store, room.code, room.seed, 0
        self.lock = threading.RLock()
        self.joins = ActionRateLimiter(JOINS)
        self.joins_of = lru_cache(maxsize=ADDRESSES)(lambda address: ActionRateLimiter(OF_ADDRESS))
        self.pace_of = lru_cache(maxsize=2000)(lambda student: ActionRateLimiter(PER_SECOND))
        self._heard: dict[int, float] = {}  # student -> when they last asked
        self._waiting: dict[SampleRequest, Future] = {}
        self._ticket: Ticket | None = None
        self._tallies: dict[int, Tally] = {}
        self._standing: dict[int, tally.TaskTally] = {}
        self._found: dict[int, tuple[int, str, Any]] = {}
        self._predicted: tuple[int, tally.Calibration | None] | None = None
        self._voted_on: dict[int, CellShares] = {}

    # Who is in --------------------------------------------------------------------------------------------------------------

    def heard(self, student: int) -> None:
        """A student has asked for something."""
        self._heard[student] = time.monotonic()

    def join(self, room: Room, ticket: str) -> int:
        """The number of a student. Where the server has a limit, who has not been heard of for a while leaves room for another. Raises Busy."""
        most, early = load_options().students_per_room, time.monotonic() - HERE
        here = sum(when > early for when in list(self._heard.values()))
        fled = min(max(0, room.students - here), FLED * most)
        number = self.store.join(room, ticket, most, most + fled)
        self.heard(number)
        return number

    # What the class has -----------------------------------------------------------------------------------------------------

    def standing(self, task: int) -> tally.TaskTally:
        """The samples of a task. To be read under the lock, because it grows."""
        with self.lock:
            if task not in self._standing:
                self._standing[task] = tally.TaskTally(self.store.draws(self.code, task))
            return self._standing[task]

    def drawn(self, task: int) -> list[StoredBlock]:
        """Samples of a task in the order in which they came, as they are now."""
        with self.lock:
            return self.standing(task).drawn[:]

    def own(self, task: int, student: int) -> tuple[int, dict[str, int]]:
        """How many samples a student has, and their counts in the cells of the picture."""
        with self.lock:
            n, counts = self.standing(task).own.get(student, (0, {}))
            return n, dict(counts)

    def found(self, task: Assignment) -> Any:
        """What the class has for a task: ClassSamples, Calibration, Votes, or Choices. Remembered until something is added."""
        stamp, known = self.stamp, self._found.get(task.number)
        if known is not None and known[:2] == (stamp, task.phase):
            return known[2]
        if task.kind == "sample":
            with self.lock:
                found = tally.ClassSamples.of(task, self.standing(task.number), self.store.looks(self.code, task.number))
        else:
            answers = self.store.answers(self.code, task.number)
            if task.kind == "predict":
                found = tally.compute_calibration(self.seed, [(task, answers)])
            else:
                found = tally.count_votes(task, answers) if task.kind == "vote" else tally.rank_choices(answers)
        self._found[task.number] = stamp, task.phase, found
        return found

    def predictions(self) -> tally.Calibration | None:
        """The calibration of all predictions of the room whose truth is shown; None where there are none. Remembered as ``found`` is."""
        stamp, known = self.stamp, self._predicted
        if known is None or known[0] != stamp:
            tasks = [one for one in self.store.tasks(self.code) if one.kind == "predict" and not one.takes]
            answered = [(one, self.store.answers(self.code, one.number)) for one in tasks]
            known = self._predicted = stamp, tally.compute_calibration(self.seed, answered)
        return known[1]

    def samples_of(self, task: Assignment) -> CellShares:
        """The samples of the decoder that a class votes on; the same record each time."""
        if task.number not in self._voted_on:
            self._voted_on[task.number] = tally.build_shares(task, "the decoder", task.content["counts"], task.content["n"])
        return self._voted_on[task.number]

    def turn(self, number: int, phase: object) -> None:
        """A task goes to the phase that follows; one that is there already stays. Raises SpecvizError for any other."""
        task = self.store.task(self.code)
        if task is None or task.number != number or phase not in (task.phase, task.next_phase):
            raise SpecvizError(NOT_ON)
        if phase == task.next_phase:
            self.store.turn(self.code, number, str(phase))
            self.changed()

    def changed(self) -> None:
        with self.lock:
            self.stamp += 1

    # Work -------------------------------------------------------------------------------------------------------------------

    def want(self, wanted: SampleRequest) -> Future:
        """What a student asks for, once it is there; the same for who asks twice. Raises Busy where the queue is full."""
        with self.lock:
            future = self._waiting.get(wanted)
            if future is None:
                future = self._waiting[wanted] = Future()
            if self._ticket is None or not self._ticket.is_open:
                try:
                    self._ticket = server_queue().submit(self._work, ("room", self.code), PAGE, is_brief=True)
                except SpecvizError:
                    del self._waiting[wanted]
                    raise
        return future

    def _work(self, ticket: Ticket) -> None:
        """Batch after batch, until nobody waits."""
        while True:
            with self.lock:
                batch, self._waiting = self._waiting, {}
                if not batch:
                    self._ticket = None
                    return
            try:
                ticket.keep_alive()
                ticket.tick()
                found = self._answered(ticket, list(batch))
            except BaseException as error:
                with self.lock:
                    self._tallies.clear()  # what was counted may not have been stored
                    self._standing.clear()
                    late, self._waiting = self._waiting, {}
                    self._ticket = None
                for future in [*batch.values(), *late.values()]:
                    future.set_exception(
                        error
                        if isinstance(error, SpecvizError) and not isinstance(error, ClusterError)
                        else BusyError("The server could not do this now.")
                    )
                raise
            for wanted, future in batch.items():
                future.set_result(found[wanted])

    def _answered(self, ticket: Ticket, batch: Sequence[SampleRequest]) -> dict[SampleRequest, Any]:
        found: dict[SampleRequest, Any] = {}
        for number in sorted({one.task for one in batch}):
            task = next((one for one in self.store.tasks(self.code) if one.number == number), None)
            mine = [one for one in batch if one.task == number]
            if task is None:
                found |= {one: {} for one in mine}
            else:
                found |= (self._draw if task.kind == "sample" else self._race)(ticket, task, mine)
        return found

    def _draw(self, ticket: Ticket, task: Assignment, batch: Sequence[SampleRequest]) -> dict[SampleRequest, Any]:
        """Samples that are new are drawn and kept; the rounds of a single one are shown, however often it is asked for."""
        settings = read_settings(task)
        pair = load_pair(ticket, settings)
        from specviz.classroom import drawing
        from specviz.classroom.cells import count_students, restore_tally

        if task.number not in self._tallies:
            self._tallies[task.number] = restore_tally(task.content["cells"], self.drawn(task.number))
        have = Counter({one.student: self.own(task.number, one.student)[0] for one in batch})
        new: list[tuple[int, int, int]] = []
        for one in sorted(batch, key=lambda one: one.first):  # a phone that lost its answer may have asked for what follows
            if one.first == have[one.student] and task.takes:
                new.append((one.student, one.first, one.count))
                have[one.student] += one.count
        walks = sorted({one for one in batch if one.count == 1 and one.first < have[one.student]})
        asked = [list_sample_numbers(*one) for one in new], [list_sample_numbers(one.student, one.first, 1)[0] for one in walks]
        given = settings, tuple(task.content["ids"]), *asked
        few = sum(count for *_, count in new) <= FEW
        samples, shown = server_workers.run_in_worker(
            drawing.samples,
            pair,
            settings,
            given,
            lambda share, *_: ticket.tick(),
            "samples of a class",
            urgent=few or not load_options().cluster,
        )
        if new:
            counted = count_students(self._tallies[task.number], new, samples)
            self.store.add(self.code, task.number, counted.drawn, counted.looks)
            with self.lock:
                self.standing(task.number).add(counted.drawn)
                self.stamp += 1
        seen = dict(zip(walks, shown, strict=True))
        return {one: seen.get(one) for one in batch}

    def _race(self, ticket: Ticket, task: Assignment, batch: Sequence[SampleRequest]) -> dict[SampleRequest, Any]:
        """The texts of those whose choice has not run yet."""
        settings = read_settings(task)
        pair = load_pair(ticket, settings)
        from specviz.classroom import drawing

        sent = {student: one for _, student, one in self.store.answers(self.code, task.number)}
        asked = [
            (one.student, sent[one.student]["method"], sent[one.student]["gamma"])
            for one in batch
            if "tokens" not in sent.get(one.student, {"tokens": 0})
        ]

        def run(part: Sequence[tuple[int, str, int]], on_progress: ProgressCallback) -> dict[int, dict[str, Any]]:
            given = settings, tuple(task.content["ids"]), part
            return server_workers.run_in_worker(
                drawing.raced, pair, settings, given, on_progress, "a race", urgent=not load_options().cluster
            )

        ran: dict[int, dict[str, Any]] = {}
        if asked:
            own, *others = split_by_choice(asked, server_workers.count_ready_workers() or 1)
            with ThreadPoolExecutor(max(1, len(others))) as pool:
                found = [pool.submit(run, part, ignore_progress) for part in others]
                ran = run(own, lambda share, *_: ticket.tick())
                for future in found:
                    ran |= future.result()
        self.store.fill(self.code, task.number, PHASES["race"][0], {student: sent[student] | one for student, one in ran.items()})
        self.changed()
        return {one: (sent | {student: sent[student] | got for student, got in ran.items()}).get(one.student) for one in batch}


def split_by_choice(asked: Sequence[tuple[int, str, int]], parts: int) -> list[list[tuple[int, str, int]]]:
    """A race's choices in at most so many parts, for as many workers: (student, method, gamma) each, the same choice always in one part."""
    choices = sorted({tuple(choice) for _, *choice in asked})
    found = [[one for one in asked if choices.index(tuple(one[1:])) % parts == part] for part in range(parts)]
    return [part for part in found if part]


def load_pair(ticket: Ticket, settings: Settings) -> LoadedPair:
    return model_loading.wait_for_models(ticket, (settings.pair, settings.device, settings.dtype), cache.load_weights)


def read_settings(task: Assignment) -> Settings:
    """What a task decodes, with its own seed."""
    return Settings.from_record(task.content["settings"])


def prepare_task(ticket: Ticket, hall: RoomSession, room: Room, kind: str, number: int) -> None:
    """Open task ``number`` of a room: what its kind needs is computed, then students see it. kind: one of KINDS. Raises SpecvizError."""
    settings = replace(room.settings, seed=derive_task_seed(room.seed, number))
    ticket.tick(doing="Preparing the task")
    pair = load_pair(ticket, settings)
    content = MAKERS[kind](ticket, pair, settings, hall)
    content = {"settings": settings.to_record(), "ids": list(pair.encode(settings.prompt))} | content
    hall.store.begin(room.code, Assignment(number, kind, PHASES[kind][0], content))
    hall.changed()


def _prepare_prediction(ticket: Ticket, pair: LoadedPair, settings: Settings, hall: RoomSession) -> dict[str, Any]:
    from specviz.classroom import drawing

    number = sum(task.kind == "predict" for task in hall.store.tasks(hall.code))
    return server_workers.run_in_worker(
        drawing.situation, pair, settings, (settings, number), lambda share, *_: ticket.tick(), "a situation", urgent=True
    )


def _prepare_sampling(ticket: Ticket, pair: LoadedPair, settings: Settings, hall: RoomSession) -> dict[str, Any]:
    from specviz.web.sampling.work import compute_exact_cells

    exact = compute_exact_cells(pair, settings, ticket)
    return {"labels": list(exact.labels), "cells": exact.cells.to_record()}


def _prepare_vote(ticket: Ticket, pair: LoadedPair, settings: Settings, hall: RoomSession) -> dict[str, Any]:
    """A decoder that may make a mistake: what it writes, and what it may be. The choice is this server's, by no seed that anyone sees."""
    from specviz.classroom import drawing
    from specviz.evidence.bugs.published import PUBLISHED_BUGS
    from specviz.web.mistakes.state import GAME, HIDEABLE

    luck = secrets.SystemRandom()
    offered = sorted(luck.sample(HIDEABLE, 3))
    answer = luck.randrange(len(offered) + 1)
    mistake = offered[answer] if answer < len(offered) else None
    under = replace(settings, **GAME)
    from specviz.web.sampling.work import compute_exact_cells

    exact = compute_exact_cells(pair, under, ticket)
    given = under, mistake, exact.ids
    samples = server_workers.run_in_worker(
        drawing.voted_on, pair, under, given, lambda share, *_: ticket.tick(), "a decoder to vote on"
    )
    options_ = [{"name": PUBLISHED_BUGS[one].name, "wrong": PUBLISHED_BUGS[one].description} for one in offered]
    options_.append({"name": "no mistake", "wrong": "The decoder is exact."})
    return {
        "settings": under.to_record(), "labels": list(exact.labels), "options": options_, "answer": answer, "mistake": mistake,
        "cells": {"shown": {"whole": exact.cells.shown.whole.tolist(), "masses": exact.cells.shown.masses.tolist()}},
        "counts": exact.cells.shown.count_samples(samples).tolist(), "n": len(samples),
    }  # fmt: skip


def _prepare_race(ticket: Ticket, pair: LoadedPair, settings: Settings, hall: RoomSession) -> dict[str, Any]:
    return {}


MAKERS: dict[str, Callable[[Ticket, Any, Settings, RoomSession], dict[str, Any]]] = {
    "predict": _prepare_prediction, "sample": _prepare_sampling, "vote": _prepare_vote, "race": _prepare_race,
}  # fmt: skip


def find_next_number(hall: RoomSession) -> int:
    """Number of the task that comes next."""
    task = hall.store.task(hall.code)
    return 1 if task is None else task.number + 1


def check_prompt(settings: Settings) -> Settings:
    """Settings whose prompt this server takes. Raises SettingsError."""
    limits.check_text("prompt", settings.prompt)
    return settings
