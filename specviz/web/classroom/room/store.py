"""Rooms in one SQLite file, so that a restart loses nothing. docs/how-to/teaching.md lists what is stored.

Every change is one transaction and safe to repeat: a student who comes twice with one ticket is one student, the first answer to a
task stays, and samples are stored by the number of the first of them.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specviz.errors import BusyError, SettingsError, SpecvizError
from specviz.settings import Settings
from specviz.web.classroom.room import codes
from specviz.web.classroom.room.records import CODE_MINUTES, ROOM_HOURS, Assignment, Room, draw_seed

FILE, VERSION = "rooms.sqlite", 2
TABLES = """
CREATE TABLE rooms (code TEXT PRIMARY KEY, steer TEXT UNIQUE NOT NULL, seed INTEGER NOT NULL, settings TEXT NOT NULL, created REAL NOT NULL,
                    ended INTEGER NOT NULL DEFAULT 0, short TEXT NOT NULL DEFAULT '', version INTEGER NOT NULL DEFAULT 0,
                    shown REAL NOT NULL DEFAULT 0, shut INTEGER NOT NULL DEFAULT 0);
CREATE TABLE students (room TEXT NOT NULL REFERENCES rooms ON DELETE CASCADE, number INTEGER NOT NULL, ticket TEXT NOT NULL,
                       PRIMARY KEY (room, number), UNIQUE (room, ticket));
CREATE TABLE tasks (room TEXT NOT NULL REFERENCES rooms ON DELETE CASCADE, number INTEGER NOT NULL, kind TEXT NOT NULL, phase TEXT NOT NULL,
                    content TEXT NOT NULL, PRIMARY KEY (room, number));
CREATE TABLE answers (room TEXT NOT NULL REFERENCES rooms ON DELETE CASCADE, task INTEGER NOT NULL, phase TEXT NOT NULL, student INTEGER NOT NULL,
                      sent TEXT NOT NULL, PRIMARY KEY (room, task, phase, student));
CREATE TABLE draws (place INTEGER PRIMARY KEY, room TEXT NOT NULL REFERENCES rooms ON DELETE CASCADE, task INTEGER NOT NULL,
                    student INTEGER NOT NULL, first INTEGER NOT NULL, count INTEGER NOT NULL, cells TEXT NOT NULL,
                    UNIQUE (room, task, student, first));
CREATE TABLE looks (room TEXT NOT NULL REFERENCES rooms ON DELETE CASCADE, task INTEGER NOT NULL, look INTEGER NOT NULL, found TEXT NOT NULL,
                    PRIMARY KEY (room, task, look));
"""

ADDED_COLUMNS = ("shown REAL NOT NULL DEFAULT 0", "shut INTEGER NOT NULL DEFAULT 0")  # to the rooms of version 1


class StoreError(SpecvizError):
    """The file cannot be read or written now. Nothing was changed, and the call may be repeated."""

    def __init__(self, reason: object):
        super().__init__(f"Rooms cannot be kept on this server now ({reason}). Nothing was lost; please try again.")


@dataclass(frozen=True, slots=True)
class SampleBlock:
    """Samples of one student. cells: counts by kind of cells, JSON-ready."""

    student: int
    first: int
    count: int
    cells: Mapping[str, Any]


class RoomStore:
    """Rooms, students, tasks, answers and samples in one file; safe to call from any thread.

    Args:
        folder: Where the file is; made if it is missing.
        clock: Seconds since 1970.

    Raises:
        SettingsError: The folder cannot be written, or the file is of another version.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time):
        self.clock, self.path = clock, folder / FILE
        self._lock = threading.RLock()
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._db = sqlite3.connect(self.path, check_same_thread=False, isolation_level=None, timeout=5.0)
            self.path.chmod(0o600)
            for line in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", "secure_delete = ON"):
                self._db.execute(f"PRAGMA {line}")
            with self:
                (found,) = self._db.execute("PRAGMA user_version").fetchone()
                if found == 0:
                    for line in filter(str.strip, TABLES.split(";")):
                        self._db.execute(line)
                if found == 1:
                    for column in ADDED_COLUMNS:
                        self._db.execute(f"ALTER TABLE rooms ADD COLUMN {column}")
                if found in (0, 1):
                    self._db.execute(f"PRAGMA user_version = {VERSION}")
        except (OSError, sqlite3.Error, StoreError) as error:
            allowed = f"a folder in which rooms can be kept ({getattr(error, 'strerror', None) or error})"
            raise SettingsError("rooms_folder", str(folder), allowed) from error
        if found not in (0, 1, VERSION):
            raise SettingsError("rooms_folder", str(folder), f"one whose {FILE} is of version {VERSION}, not {found}")
        self.delete_expired()

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def __enter__(self) -> RoomStore:
        """One change, from here to the end of the block, or none."""
        self._lock.acquire()
        try:
            self._db.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            self._lock.release()
            raise StoreError(error) from error
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            if kind is None:
                self._db.execute("COMMIT")
            elif self._db.in_transaction:  # a full disk has ended it already
                self._db.execute("ROLLBACK")
        except sqlite3.Error as late:
            with suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
            raise StoreError(late) from late
        finally:
            self._lock.release()
        if isinstance(error, sqlite3.Error):
            raise StoreError(error) from error

    def _fetch_rows(self, query: str, *values: Any) -> list[tuple]:
        try:
            with self._lock, closing(self._db.execute(query, values)) as cursor:
                return cursor.fetchall()
        except sqlite3.Error as error:
            raise StoreError(error) from error

    def _change(self, statement: str, *values: Any) -> int:
        """Run one statement as a change of its own. Returns the number of rows."""
        with self:
            return self._db.execute(statement, values).rowcount

    # Rooms -----------------------------------------------------------------------------------------------------------------

    def open_room(self, settings: Settings, prefix: str = "", most: int = 0) -> Room:
        """A new room. most: open rooms at a time, 0 for no limit. Raises SpecvizError where there are as many."""
        self.delete_expired()
        room = Room(codes.make_link_code(prefix), codes.make_link_code(prefix), draw_seed(), settings, self.clock())
        with self:
            if most and self._db.execute("SELECT COUNT(*) FROM rooms").fetchone()[0] >= most:
                raise SpecvizError(
                    f"This server has {most} of {most} rooms open. Please try again later: a room ends after {ROOM_HOURS} hours."
                )
            row = room.code, room.teacher_code, room.seed, json.dumps(settings.to_record()), room.created
            self._db.execute("INSERT INTO rooms (code, steer, seed, settings, created) VALUES (?, ?, ?, ?, ?)", row)
        return room

    def find_room(self, code: str) -> Room | None:
        """The room of a link's code; None where there is none, or its time is over."""
        return self._find_room("code", code)

    def find_by_teacher_code(self, code: str) -> Room | None:
        """The room of a teacher's code."""
        return self._find_room("steer", code)

    def find_by_short_code(self, code: str) -> Room | None:
        """The room that shows a short code now."""
        room = self._find_room("short", code) if code else None
        return room if room and room.short_code else None

    def _find_room(self, column: str, value: str) -> Room | None:
        if len(value) > codes.MAX_LENGTH:
            return None
        rows = self._fetch_rows(
            "SELECT code, steer, seed, settings, created, ended, CASE WHEN shown > ? THEN short ELSE '' END, shut,"
            f" (SELECT COUNT(*) FROM students WHERE room = code), version FROM rooms WHERE {column} = ? AND created > ?",
            self.clock() - 60.0 * CODE_MINUTES, value, self.clock() - 3600.0 * ROOM_HOURS,
        )  # fmt: skip
        if not rows:
            return None
        code, teacher_code, seed, settings, created, has_ended, short_code, is_closed, students, version = rows[0]
        decoded = Settings.from_record(json.loads(settings))
        return Room(code, teacher_code, seed, decoded, created, bool(has_ended), short_code, bool(is_closed), students, version)

    def show_short_code(self, code: str, short_code: str) -> None:
        """Show a short code for CODE_MINUTES, or with '' none. Raises SpecvizError where another room shows the same."""
        with self:
            others = self._db.execute("SELECT 1 FROM rooms WHERE short = ? AND code <> ?", (short_code, code))
            if short_code and others.fetchone():
                raise SpecvizError("This short code is shown by another room. Please try again.")
            values = short_code, self.clock(), code
            self._db.execute("UPDATE rooms SET short = ?, shown = ? WHERE code = ? AND NOT ended", values)

    def set_closed(self, code: str, is_closed: bool) -> None:
        """Close the room to newcomers and hide its short code, or open it."""
        hidden = "CASE WHEN ? THEN '' ELSE short END"
        statement = f"UPDATE rooms SET shut = ?, short = {hidden}, version = version + 1 WHERE code = ?"
        self._change(statement, is_closed, is_closed, code)

    def end_room(self, code: str) -> None:
        """Accept no more students, answers or samples. Results stay until the room is deleted."""
        self._change("UPDATE rooms SET ended = 1, short = '', version = version + 1 WHERE code = ?", code)

    def delete_room(self, code: str) -> None:
        """Delete the room with everything in it, now."""
        self._change("DELETE FROM rooms WHERE code = ?", code)
        self._fetch_rows("PRAGMA wal_checkpoint(TRUNCATE)")

    def delete_expired(self) -> int:
        """Delete the rooms whose time is over. Returns how many."""
        deleted = self._change("DELETE FROM rooms WHERE created <= ?", self.clock() - 3600.0 * ROOM_HOURS)
        if deleted:
            self._fetch_rows("PRAGMA wal_checkpoint(TRUNCATE)")  # deleted rows are not in the log either
        return deleted

    # Students --------------------------------------------------------------------------------------------------------------

    def find_student(self, room: Room, ticket: str) -> int | None:
        """The number of the student with this ticket; None for a newcomer."""
        rows = self._fetch_rows("SELECT number FROM students WHERE room = ? AND ticket = ?", room.code, ticket)
        return rows[0][0] if rows else None

    def add_student(self, room: Room, ticket: str, most: int = 0, numbers: int = 0) -> int:
        """A student's number, from 1; the same ticket gives the same number.

        Args:
            room: Where the student comes in.
            ticket: What the browser made up for itself.
            most: Students of a room, 0 for no limit.
            numbers: Numbers that may be given out, more than ``most`` where some students have left.

        Raises:
            BusyError: The room is full or closed.
            SpecvizError: The room has ended.
        """
        with self:
            if (known := self.find_student(room, ticket)) is not None:
                return known
            ended, shut = self._db.execute("SELECT ended, shut FROM rooms WHERE code = ?", (room.code,)).fetchone() or (1, 0)
            if ended:
                raise SpecvizError("This room has ended.")
            if shut:
                raise BusyError("The door of this room is closed. Ask your teacher to open it.")
            (number,) = self._db.execute("SELECT COUNT(*) + 1 FROM students WHERE room = ?", (room.code,)).fetchone()
            if most and number > max(most, numbers):
                raise BusyError(f"This room is full: {most} of {most} students are in.")
            self._db.execute("INSERT INTO students VALUES (?, ?, ?)", (room.code, number, ticket))
        return number

    # Tasks -----------------------------------------------------------------------------------------------------------------

    def list_tasks(self, code: str) -> list[Assignment]:
        """All tasks of a room, in their order."""
        rows = self._fetch_rows("SELECT number, kind, phase, content FROM tasks WHERE room = ? ORDER BY number", code)
        return [_read_task(row) for row in rows]

    def find_current_task(self, code: str) -> Assignment | None:
        """The latest task; None before the first."""
        rows = self._fetch_rows(
            "SELECT number, kind, phase, content FROM tasks WHERE room = ? ORDER BY number DESC LIMIT 1", code
        )
        return _read_task(rows[0]) if rows else None

    def begin_task(self, code: str, task: Assignment) -> None:
        """Store the next task. One that has begun meanwhile under its number stays, so that a second click changes nothing."""
        with self:
            row = code, task.number, task.kind, task.phase, json.dumps(task.content)
            statement = "INSERT OR IGNORE INTO tasks SELECT ?, ?, ?, ?, ? FROM rooms WHERE code = ? AND NOT ended"
            if self._db.execute(statement, (*row, code)).rowcount:
                self._db.execute("UPDATE rooms SET version = version + 1 WHERE code = ?", (code,))

    def set_phase(self, code: str, number: int, phase: str) -> None:
        """Move a task to another phase."""
        with self:
            self._db.execute("UPDATE tasks SET phase = ? WHERE room = ? AND number = ?", (phase, code, number))
            self._db.execute("UPDATE rooms SET version = version + 1 WHERE code = ?", (code,))

    # Answers and samples ----------------------------------------------------------------------------------------------------

    def keep_answer(self, code: str, task: Assignment, student: int, answer: Mapping[str, Any]) -> dict[str, Any]:
        """Store an answer, unless there is one of this student in this phase. Returns the stored one."""
        row = code, task.number, task.phase, student, json.dumps(answer)
        self._change("INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?, ?)", *row)
        return self.find_answers(code, task.number, student)[task.phase]

    def list_answers(self, code: str, task: int) -> list[tuple[str, int, dict[str, Any]]]:
        """All answers to a task: (phase in which it came, student, answer)."""
        rows = self._fetch_rows(
            "SELECT phase, student, sent FROM answers WHERE room = ? AND task = ? ORDER BY student", code, task
        )
        return [(phase, student, json.loads(answer)) for phase, student, answer in rows]

    def find_answers(self, code: str, task: int, student: int) -> dict[str, dict[str, Any]]:
        """One student's answers to a task, by phase."""
        rows = self._fetch_rows(
            "SELECT phase, sent FROM answers WHERE room = ? AND task = ? AND student = ?", code, task, student
        )
        return {phase: json.loads(answer) for phase, answer in rows}

    def replace_answers(self, code: str, task: int, phase: str, answers: Mapping[int, Mapping[str, Any]]) -> None:
        """Replace answers by the same with what the server computed for them, by student."""
        with self:
            rows = [(json.dumps(answer), code, task, phase, student) for student, answer in answers.items()]
            self._db.executemany("UPDATE answers SET sent = ? WHERE room = ? AND task = ? AND phase = ? AND student = ?", rows)

    def add_samples(self, code: str, task: int, blocks: Sequence[SampleBlock], results: Mapping[int, Mapping[str, Any]]) -> None:
        """Store samples in their order and the results of the tests that fell due with them, all or nothing."""
        with self:
            rows = [(code, task, one.student, one.first, one.count, json.dumps(one.cells)) for one in blocks]
            self._db.executemany("INSERT INTO draws (room, task, student, first, count, cells) VALUES (?, ?, ?, ?, ?, ?)", rows)
            dumped = [(code, task, number, json.dumps(result)) for number, result in results.items()]
            self._db.executemany("INSERT INTO looks VALUES (?, ?, ?, ?)", dumped)

    def list_samples(self, code: str, task: int) -> list[SampleBlock]:
        """All samples of a task, in the order in which they came."""
        query = "SELECT student, first, count, cells FROM draws WHERE room = ? AND task = ? ORDER BY place"
        rows = self._fetch_rows(query, code, task)
        return [SampleBlock(student, first, count, json.loads(cells)) for student, first, count, cells in rows]

    def list_test_results(self, code: str, task: int) -> list[dict[str, Any]]:
        """Results of the tests of a task, in their order."""
        rows = self._fetch_rows("SELECT found FROM looks WHERE room = ? AND task = ? ORDER BY look", code, task)
        return [json.loads(result) for (result,) in rows]


def _read_task(row: tuple[int, str, str, str]) -> Assignment:
    number, kind, phase, content = row
    return Assignment(number, kind, phase, json.loads(content))


def take_first_samples(blocks: Iterable[SampleBlock], most: int) -> list[tuple[int, int, int]]:
    """The first ``most`` samples as they came: (student, first, count) each, the last block shortened."""
    taken: list[tuple[int, int, int]] = []
    for block in blocks:
        if most <= 0:
            break
        taken.append((block.student, block.first, min(block.count, most)))
        most -= block.count
    return taken
