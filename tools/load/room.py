"""How long a class waits: ``python -m tools.load.room --students 120 --out room.md``.

Starts the app in hosted mode on this machine, on the shipped pair. A teacher opens a room on the page Classroom, a wall watches it, and
students come in by the routes that their phones use: they look as often as those do, predict, draw 1, 10 and 100 samples, vote and race.
Times are those of the protocol: from a request to its whole answer, and from an answer that is sent to the wall's text that counts it.
"""

from __future__ import annotations

import argparse
import asyncio
import bisect
import json
import random
import re
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from specviz.errors import SpecvizError
from specviz.web.classroom.room.records import KINDS, RACE_METHODS, SAMPLE_SIZES
from tools.load import findings
from tools.load.client import StreamlitClient
from tools.load.findings import WaitingTimes
from tools.load.server import LoadServer, start_server

ARRIVE, THINK, WITHIN = (
    10.0,
    15.0,
    60.0,
)  # s in which a class comes in; that a student thinks at most; that the wall is waited for
WALL, PAINT = 2.0, 1.5  # s that the wall and the first paint may take at p95
ANSWERED = re.compile(r"students? in, ([\d,]+) ha(?:s|ve) answered")
SAMPLES = re.compile(r'aria-label="[^"]*?([\d,]+) samples?\b')
PAGE, PREDICT, DRAW, VOTE, RACE, LOOKED = "first paint of a phone", "prediction", "samples", "vote", "race", "look"


class StudentPhone:
    """A student's browser without a browser: one connection that stays open, opened again where the server closed it."""

    def __init__(self, address: str, code: str, number: int):
        where = urlsplit(address)
        self.host, self.port, self.code = where.hostname or "127.0.0.1", where.port or 80, code
        self.luck, self.ticket = random.Random(number), f"student-of-the-load-{number:05d}"
        self.token, self.said = "", {}
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.sent: list[tuple[str, float, int]] = []  # (kind of task, when it was sent, number that the wall must reach)
        self.refused = 0
        self._stream: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._one = asyncio.Lock()

    async def enter(self) -> None:
        """The page, then who one is, then what is on: what a phone does until it draws something."""
        began = time.perf_counter()
        await self.ask("GET", f"/room/{self.code}")
        _, said = await self.ask("POST", f"/room/{self.code}/join", {"ticket": self.ticket})
        self.token = f"{said['number']}.{said['token']}"
        await self.poll()
        self.seconds[PAGE].append(time.perf_counter() - began)

    async def poll(self) -> None:
        began = time.perf_counter()
        status, found = await self.ask("GET", f"/room/{self.code}/now?mark={self.said.get('mark', '')}")
        if status == 200:
            self.seconds[LOOKED].append(time.perf_counter() - began)
            self.said = self.said | found

    async def stay(self) -> None:
        """Look as often as a phone does."""
        while True:
            await asyncio.sleep(self.said.get("again", 2.0) * self.luck.uniform(0.85, 1.15))
            await self.poll()

    async def send(self, kind: str, what: str, reached: Callable[[dict[str, Any]], int], **sent: Any) -> None:
        """Send something, again as a phone does where the server says so; remember when, and what the wall must then show."""
        began, at = time.perf_counter(), time.monotonic()
        for _ in range(20):
            status, found = await self.ask("POST", f"/room/{self.code}/{what}", {"task": self.said["task"]["number"], **sent})
            if status == 200:
                break
            self.refused += 1
            if status not in (429, 503):
                raise SpecvizError(f"{what} was refused with {status}: {found.get('error')}")
            await asyncio.sleep(max(0.5, found.get("again", 1)) * self.luck.uniform(1.0, 1.5))
        else:
            raise SpecvizError(f"{what} was refused again and again: {found.get('error')}")
        self.seconds[kind].append(time.perf_counter() - began)
        self.said = self.said | found
        self.sent.append((kind, at, reached(found)))

    async def ask(self, method: str, path: str, sent: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """(status, JSON): an empty one where the answer is none."""
        body = b"" if sent is None else json.dumps(sent).encode()
        head = [f"{method} {path} HTTP/1.1", f"Host: {self.host}:{self.port}", f"Content-Length: {len(body)}"]
        head += [f"Authorization: Bearer {self.token}"] if self.token else []
        async with self._one:
            for attempt in (0, 1):
                try:
                    if self._stream is None:
                        self._stream = await asyncio.open_connection(self.host, self.port)
                    reader, writer = self._stream
                    writer.write("\r\n".join([*head, "", ""]).encode() + body)
                    status, kind, answer = await asyncio.wait_for(_read_response(reader), WITHIN)
                    return status, json.loads(answer) if "json" in kind else {}
                except (OSError, EOFError):  # kept open for too long
                    self.leave()
                    if attempt:
                        raise
        raise AssertionError

    def leave(self) -> None:
        if self._stream is not None:
            self._stream[1].close()
            self._stream = None


async def _read_response(reader: asyncio.StreamReader) -> tuple[int, str, bytes]:
    """Status, content type and body of an answer that says how long it is."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    length = re.search(r"content-length: (\d+)", head)
    kind = re.search(r"content-type: (\S+)", head)
    return int(head.split()[1]), kind[1] if kind else "", await reader.readexactly(int(length[1]) if length else 0)


@dataclass
class WallClient(StreamlitClient):
    """A wall that watches. seen: for each task and kind of number, (when, number that it counted), as both grow."""

    seen: dict[tuple[int, str], list[tuple[float, int]]] = field(default_factory=lambda: defaultdict(list))
    task: int = 0

    def note(self, text: str) -> None:
        """A text of the page was drawn."""
        if title := re.search(r"<h1>(\d+)\. ", text):
            self.task = int(title[1])
        found = ANSWERED.search(text) or SAMPLES.search(text)
        if found and self.task:
            kind = "answered" if found.re is ANSWERED else "samples"
            self.add_count(kind, int(found[1].replace(",", "")))

    def add_count(self, kind: str, number: int) -> None:
        rows = self.seen[self.task, kind]
        if not rows or number > rows[-1][1]:
            rows.append((time.monotonic(), number))


def compute_delay(rows: list[tuple[float, int]], at: float, number: int) -> float:
    """Seconds from ``at`` until a wall counted at least ``number``; infinite where it never did. rows: (when, number), growing."""
    place = bisect.bisect_left([counted for _, counted in rows], number)
    return max(0.0, rows[place][0] - at) if place < len(rows) else float("inf")


@dataclass
class TeacherClient:
    """Steers by the routes; the room was opened on the page."""

    phone: StudentPhone
    steer: str

    async def tell(self, **sent: Any) -> dict[str, Any]:
        self.phone.token = self.steer
        status, found = await self.phone.ask("POST", f"/room/{self.phone.code}/steer", sent)
        if status != 200:
            raise SpecvizError(f"steering was refused with {status}: {found.get('error')}")
        return found


async def open_room(address: str) -> tuple[str, str]:
    """A room, as a teacher opens it on the page: (code of its link, private code)."""
    client = StreamlitClient(page="classroom")
    async with client.open_tab(address):
        await client.settle()
        await client.settle(lambda: client.press("classroom-open"))
        await client.run_until(lambda: "steer=" in client.query and client.links)
        wall = next(url for url in client.links if url.endswith("/wall"))
        return wall.split("/")[-2], client.query.partition("steer=")[2].partition("&")[0]


async def run_task(phone: StudentPhone, kind: str, number: int) -> None:
    """What a student does for a task, after some thought: everything that it asks for."""
    while (phone.said.get("task") or {}).get("number") != number:
        await asyncio.sleep(0.2)  # their own look tells them
    await asyncio.sleep(phone.luck.uniform(0.0, THINK))
    if kind == "sample":
        have = 0
        for count in SAMPLE_SIZES:
            await phone.send(DRAW, "draw", lambda found: found["class"]["n"], first=have, count=count)
            have += count
            await asyncio.sleep(phone.luck.uniform(0.0, THINK / 3))
        return
    answers = {
        "predict": (PREDICT, {"accepted": phone.luck.random() < 0.5, "chance": round(phone.luck.random(), 2)}),
        "vote": (VOTE, {"choice": phone.luck.randrange(3)}),
        "race": (RACE, {"method": phone.luck.choice(list(RACE_METHODS)), "gamma": phone.luck.randint(1, 8)}),
    }
    name, sent = answers[kind]
    await phone.send(name, "answer", lambda found: found["class"]["answered"], phase=phone.said["task"]["phase"], sent=sent)


async def run_lesson(server: LoadServer, students: int) -> tuple[list[StudentPhone], dict[str, list[float]], float]:
    """A class goes through all tasks: (phones, seconds until the wall counted each answer by kind, processor seconds of the server)."""
    code, steer = await open_room(server.address)
    teacher = TeacherClient(StudentPhone(server.address, code, 10**6), steer)
    phones, wall = (
        [StudentPhone(server.address, code, number) for number in range(students)],
        WallClient(page="classroom", link=f"wall={code}"),
    )
    delays: dict[str, list[float]] = defaultdict(list)
    await asyncio.to_thread(server.wait_for_workers)
    before = server.read_cpu_seconds()
    async with wall.open_tab(server.address):
        await wall.settle()
        await asyncio.gather(*(_join_later(phone) for phone in phones))
        staying = [asyncio.create_task(phone.stay()) for phone in phones]
        for number, kind in enumerate(KINDS, start=1):
            await teacher.tell(do="begin", kind=kind, task=number)
            for phone in phones:
                phone.sent.clear()
            await asyncio.gather(*(run_task(phone, kind, number) for phone in phones))
            await asyncio.sleep(3.0)
            rows = wall.seen[number, "samples" if kind == "sample" else "answered"]
            for name, at, reached in (one for phone in phones for one in phone.sent):
                delays[name].append(compute_delay(rows, at, reached))
        for one in staying:
            one.cancel()
        for phone in [*phones, teacher.phone]:
            phone.leave()
    return phones, delays, server.read_cpu_seconds() - before


async def _join_later(phone: StudentPhone) -> None:
    await asyncio.sleep(phone.luck.uniform(0.0, ARRIVE))
    await phone.enter()


def format_report(phones: list[StudentPhone], delays: dict[str, list[float]], cpu: float, tracebacks: int) -> tuple[str, bool]:
    """As markdown, and whether what is promised held."""
    head = ("action", "seen", "median", "p95")
    seconds = {
        name: [took for phone in phones for took in phone.seconds[name]] for name in (PAGE, PREDICT, DRAW, VOTE, RACE, LOOKED)
    }
    paint = WaitingTimes.from_seconds(PAGE, seconds[PAGE])
    every = WaitingTimes.from_seconds("any answer, until the wall counts it", [took for rows in delays.values() for took in rows])
    lost = sum(took == float("inf") for rows in delays.values() for took in rows)
    held = paint.p95 <= PAINT and every.p95 <= WALL and not (lost or tracebacks)
    parts = [
        f"**{len(phones)} students in a room**, who come within {ARRIVE:g} s and think for up to {THINK:g} s; one wall:\n",
        findings.format_table(head, [WaitingTimes.from_seconds(name, took).format_row() for name, took in seconds.items()]),
        "\n**From an answer that is sent to the wall that counts it:**\n",
        findings.format_table(
            head, [every.format_row(), *(WaitingTimes.from_seconds(name, took).format_row() for name, took in delays.items())]
        ),
        f"\nProcessor time of the server: {cpu:.1f} s. Answers that the wall never counted: {lost}. "
        f"Requests that were sent again: {sum(phone.refused for phone in phones)}. Tracebacks in the log: {tracebacks}.",
        f"Promised at p95: first paint {PAINT:g} s, wall {WALL:g} s. {'Held.' if held else 'Not held.'}",
    ]
    return "\n".join(parts), held


LIMITS = {"students": (120, 300, "students in the room"), "minutes": (10, 60, "minutes after which it ends in any case")}


def main(words: list[str] | None = None) -> int:
    """Run the tool and return its exit code."""

    def measure(options: argparse.Namespace, machine: str) -> tuple[str, bool]:
        with (
            tempfile.TemporaryDirectory() as folder,
            start_server(Path(folder) / "log.txt", options.host, SPECVIZ_ROOMS_FOLDER=folder) as server,
        ):
            phones, delays, cpu = findings.run_bounded(run_lesson(server, options.students), options.minutes)
            report, held = format_report(phones, delays, cpu, server.count_tracebacks())
        return f"{machine}\n\n{report}", held

    return findings.run_tool("lesson", __doc__, LIMITS, measure, words, findings.add_host_option)


if __name__ == "__main__":
    sys.exit(main())
