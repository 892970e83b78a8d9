"""Rooms in one SQLite file, so that a restart loses nothing. What is kept is said in docs/how-to/teaching.md.

Every change is one transaction, and each is safe to ask for again: a student who comes twice with one ticket is one student, the first
answer to a task stays, and samples are stored by the number of the first of them.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

from specviz.classroom import codes
from specviz.classroom.records import HOURS, SHOWN, Assignment, Room, draw_seed
from specviz.errors import BusyError, SettingsError, SpecvizError
from specviz.settings import Settings

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

ADDED = ("shown REAL NOT NULL DEFAULT 0", "shut INTEGER NOT NULL DEFAULT 0")  # to the rooms of version 1


class StoreError(SpecvizError):
    """The file cannot be read or written now. Nothing was changed, and the same may be asked again."""

    def __init__(self, why: object):
        super().__init__(f"Rooms cannot be kept on this server now ({why}). Nothing was lost; please try again.")


class StoredBlock(NamedTuple):
    """Samples of one student, in the order in which they came. cells: counts by kind of cells, as JSON says."""

    student: int
    first: int
    count: int
    cells: Mapping[str, Any]


class RoomStore:
    """The file. clock: seconds since 1970. Any thread may ask; one is answered at a time.

    Raises SettingsError where the folder cannot be written, or the file is none of this version.
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
                    for column in ADDED:
                        self._db.execute(f"ALTER TABLE rooms ADD COLUMN {column}")
                if found in (0, 1):
                    self._db.execute(f"PRAGMA user_version = {VERSION}")
        except (OSError, sqlite3.Error, StoreError) as error:
            allowed = f"a folder in which rooms can be kept ({getattr(error, 'strerror', None) or error})"
            raise SettingsError("rooms_folder", str(folder), allowed) from error
        if found not in (0, 1, VERSION):
            raise SettingsError("rooms_folder", str(folder), f"one whose {FILE} is of version {VERSION}, not {found}")
        self.sweep()

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

    def _rows(self, asked: str, *given: Any) -> list[tuple]:
        try:
            with self._lock, closing(self._db.execute(asked, given)) as found:
                return found.fetchall()
        except sqlite3.Error as error:
            raise StoreError(error) from error

    # Rooms -----------------------------------------------------------------------------------------------------------------

    def open(self, settings: Settings, prefix: str = "", most: int = 0) -> Room:
        """A new room. most: rooms that may be open at a time, 0 for no limit. Raises SpecvizError where there are as many."""
        self.sweep()
        room = Room(codes.make_link_code(prefix), codes.make_link_code(prefix), draw_seed(), settings, self.clock())
        with self:
            if most and self._db.execute("SELECT COUNT(*) FROM rooms").fetchone()[0] >= most:
                raise SpecvizError(
                    f"This server has {most} of {most} rooms open. Please try again later: a room ends after {HOURS} hours."
                )
            row = room.code, room.steer, room.seed, json.dumps(settings.to_record()), room.created
            self._db.execute("INSERT INTO rooms (code, steer, seed, settings, created) VALUES (?, ?, ?, ?, ?)", row)
        return room

    def room(self, code: str) -> Room | None:
        """The room of a link's code; None where there is none, or its time is over."""
        return self._room("code", code)

    def steered(self, steer: str) -> Room | None:
        """The room of a teacher's code."""
        return self._room("steer", steer)

    def shown(self, short: str) -> Room | None:
        """The room that shows a short code now."""
        room = self._room("short", short) if short else None
        return room if room and room.short else None

    def _room(self, column: str, value: str) -> Room | None:
        if len(value) > codes.LONGEST:
            return None
        rows = self._rows(
            "SELECT code, steer, seed, settings, created, ended, CASE WHEN shown > ? THEN short ELSE '' END, shut, version,"
            f" (SELECT COUNT(*) FROM students WHERE room = code) FROM rooms WHERE {column} = ? AND created > ?",
            self.clock() - 60.0 * SHOWN, value, self.clock() - 3600.0 * HOURS,
        )  # fmt: skip
        if not rows:
            return None
        code, steer, seed, settings, created, ended, short, shut, version, students = rows[0]
        under = Settings.from_record(json.loads(settings))
        return Room(code, steer, seed, under, created, bool(ended), short, bool(shut), students, version)

    def show(self, code: str, short: str) -> None:
        """Show a short code for SHOWN minutes, or with '' none. Raises SpecvizError where another room shows the same."""
        with self:
            if short and self._db.execute("SELECT 1 FROM rooms WHERE short = ? AND code <> ?", (short, code)).fetchone():
                raise SpecvizError("This short code is shown by another room. Please try again.")
            self._db.execute("UPDATE rooms SET short = ?, shown = ? WHERE code = ? AND NOT ended", (short, self.clock(), code))

    def shut(self, code: str, shut: bool) -> None:
        """Close the door, so that nobody new comes in, or open it. A closed one shows no short code."""
        with self:
            self._db.execute(
                "UPDATE rooms SET shut = ?, short = CASE WHEN ? THEN '' ELSE short END, version = version + 1 WHERE code = ?",
                (shut, shut, code),
            )

    def end(self, code: str) -> None:
        """No more students, answers or samples; what was found stays until the room is deleted."""
        with self:
            self._db.execute("UPDATE rooms SET ended = 1, short = '', version = version + 1 WHERE code = ?", (code,))

    def delete(self, code: str) -> None:
        """The room with everything in it, now."""
        with self:
            self._db.execute("DELETE FROM rooms WHERE code = ?", (code,))
        self._rows("PRAGMA wal_checkpoint(TRUNCATE)")

    def sweep(self) -> int:
        """Delete the rooms whose time is over. Returns how many."""
        with self:
            gone = self._db.execute("DELETE FROM rooms WHERE created <= ?", (self.clock() - 3600.0 * HOURS,)).rowcount
        if gone:
            self._rows("PRAGMA wal_checkpoint(TRUNCATE)")  # deleted rows are not in the log either
        return gone

    # Students --------------------------------------------------------------------------------------------------------------

    def student(self, room: Room, ticket: str) -> int | None:
        """The number of who has come in with this ticket; None for anybody else."""
        rows = self._rows("SELECT number FROM students WHERE room = ? AND ticket = ?", room.code, ticket)
        return rows[0][0] if rows else None

    def join(self, room: Room, ticket: str, most: int = 0, numbers: int = 0) -> int:
        """A student's number, from 1. ticket: what the browser made up for itself; the same one gives the same number.

        most     students of a room, 0 for no limit; numbers  that it may give out, which are more where some students have left

        Raises Busy where the room is full or its door is closed, SpecvizError where it has ended.
        """
        with self:
            found = self._db.execute("SELECT number FROM students WHERE room = ? AND ticket = ?", (room.code, ticket)).fetchone()
            if found:
                return found[0]
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

    def tasks(self, code: str) -> list[Assignment]:
        """All tasks of a room, in their order."""
        rows = self._rows("SELECT number, kind, phase, content FROM tasks WHERE room = ? ORDER BY number", code)
        return [Assignment(number, kind, phase, json.loads(content)) for number, kind, phase, content in rows]

    def task(self, code: str) -> Assignment | None:
        """The task that is on now; None before the first."""
        rows = self._rows("SELECT number, kind, phase, content FROM tasks WHERE room = ? ORDER BY number DESC LIMIT 1", code)
        return Assignment(*rows[0][:3], json.loads(rows[0][3])) if rows else None

    def begin(self, code: str, task: Assignment) -> None:
        """The next task. One that has begun meanwhile under its number stays, so that a second click changes nothing."""
        with self:
            row = code, task.number, task.kind, task.phase, json.dumps(task.content)
            done = self._db.execute(
                "INSERT OR IGNORE INTO tasks SELECT ?, ?, ?, ?, ? FROM rooms WHERE code = ? AND NOT ended", (*row, code)
            )
            if done.rowcount:
                self._db.execute("UPDATE rooms SET version = version + 1 WHERE code = ?", (code,))

    def turn(self, code: str, number: int, phase: str) -> None:
        """A task goes to another phase."""
        with self:
            self._db.execute("UPDATE tasks SET phase = ? WHERE room = ? AND number = ?", (phase, code, number))
            self._db.execute("UPDATE rooms SET version = version + 1 WHERE code = ?", (code,))

    # Answers and samples ----------------------------------------------------------------------------------------------------

    def answer(self, code: str, task: Assignment, student: int, sent: Mapping[str, Any]) -> dict[str, Any]:
        """Keep an answer, unless there is one of this student in this phase: that one stays. Returns what is kept."""
        with self:
            key = code, task.number, task.phase, student
            self._db.execute("INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?, ?)", (*key, json.dumps(sent)))
            where = "room = ? AND task = ? AND phase = ? AND student = ?"
            return json.loads(self._db.execute(f"SELECT sent FROM answers WHERE {where}", key).fetchone()[0])

    def answers(self, code: str, task: int) -> list[tuple[str, int, dict[str, Any]]]:
        """All answers to a task: phase in which it came, student, what was sent."""
        rows = self._rows("SELECT phase, student, sent FROM answers WHERE room = ? AND task = ? ORDER BY student", code, task)
        return [(phase, student, json.loads(sent)) for phase, student, sent in rows]

    def answers_of(self, code: str, task: int, student: int) -> dict[str, dict[str, Any]]:
        """One student's answers to a task, by phase."""
        rows = self._rows("SELECT phase, sent FROM answers WHERE room = ? AND task = ? AND student = ?", code, task, student)
        return {phase: json.loads(sent) for phase, sent in rows}

    def fill(self, code: str, task: int, phase: str, found: Mapping[int, Mapping[str, Any]]) -> None:
        """Put what the server found into answers that wait for it, by student."""
        with self:
            rows = [(json.dumps(one), code, task, phase, student) for student, one in found.items()]
            self._db.executemany("UPDATE answers SET sent = ? WHERE room = ? AND task = ? AND phase = ? AND student = ?", rows)

    def add(self, code: str, task: int, drawn: Sequence[StoredBlock], looks: Mapping[int, Mapping[str, Any]]) -> None:
        """Samples in the order in which they came, and the tests that fell due with them, all or nothing."""
        with self:
            rows = [(code, task, one.student, one.first, one.count, json.dumps(one.cells)) for one in drawn]
            self._db.executemany("INSERT INTO draws (room, task, student, first, count, cells) VALUES (?, ?, ?, ?, ?, ?)", rows)
            found = [(code, task, look, json.dumps(one)) for look, one in looks.items()]
            self._db.executemany("INSERT INTO looks VALUES (?, ?, ?, ?)", found)

    def draws(self, code: str, task: int) -> list[StoredBlock]:
        """All samples of a task, in the order in which they came."""
        asked = "SELECT student, first, count, cells FROM draws WHERE room = ? AND task = ? ORDER BY place"
        return [StoredBlock(*row[:3], json.loads(row[3])) for row in self._rows(asked, code, task)]

    def looks(self, code: str, task: int) -> list[dict[str, Any]]:
        """What the tests of a task found, in their order."""
        rows = self._rows("SELECT found FROM looks WHERE room = ? AND task = ? ORDER BY look", code, task)
        return [json.loads(found) for (found,) in rows]


def split_blocks(drawn: Iterable[StoredBlock], most: int) -> list[tuple[int, int, int]]:
    """The first ``most`` samples as they came: (student, first, count) each, the last one cut."""
    found: list[tuple[int, int, int]] = []
    for one in drawn:
        if most <= 0:
            break
        found.append((one.student, one.first, min(one.count, most)))
        most -= one.count
    return found
