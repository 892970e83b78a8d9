"""A server of the tests' own that streams answers in rounds, with a switch for every fault. A round takes a few milliseconds."""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.audit.server import run_in_thread

ROUND = (3, 1, 2, 3, 1)  # tokens of the rounds of a text, again and again; mean 2


@dataclass
class Switches:
    """rounds: tokens of each round; seconds: of a round; one_piece: whether a round is one event.

    fails: status by the number of the request (from 1), 0: none; cut_after: events after which the connection breaks; counts: whether it
    sends usage; drafts: whether llama.cpp's timings tell of draft tokens; model: that it lists, any other is refused.
    """

    rounds: tuple[int, ...] = (1,)
    seconds: float = 0.002
    length: int = 40
    one_piece: bool = False
    counts: bool = True
    drafts: bool = False
    model: str = ""
    streams: bool = True
    fails: Any = lambda number: 0
    cut_after: int = 10**9
    error_after: int = 10**9
    garbage: bool = False
    empty: bool = False
    off_by_field: str = ""
    text: Any = lambda number, place: f" {number}.{place}"


@dataclass
class ReceivedRequests:
    bodies: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    active: int = 0
    most: int = 0
    broken: int = 0


@contextmanager
def run_stream_server(**switches: Any):
    """A running server: ``url``, ``seen``."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads, server.switches, server.seen = True, Switches(**switches), ReceivedRequests()
    server.url, server.lock = f"http://127.0.0.1:{server.server_address[1]}/v1", threading.Lock()
    with run_in_thread(server):
        yield server


class Handler(BaseHTTPRequestHandler):
    protocol_version, disable_nagle_algorithm, wbufsize = "HTTP/1.1", True, 0

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        if self.server.switches.drafts and self.path == "/props":
            return self.answer(200, "application/json", b'{"default_generation_settings": {}, "build_info": "b1"}')
        if self.server.switches.model and self.path == "/v1/models":
            return self.answer(200, "application/json", json.dumps({"data": [{"id": self.server.switches.model}]}).encode())
        return self.answer(404, "application/json", b"{}")

    def answer(self, status: int, kind: str, content: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(content)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self) -> None:
        seen, body = self.server.seen, json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            seen.bodies.append(body)
            seen.paths.append(self.path)
            seen.keys.append(self.headers.get("Authorization", ""))
            number = len(seen.bodies)
            seen.active += 1
            seen.most = max(seen.most, seen.active)
        try:
            self.stream(number, body)
        except (BrokenPipeError, ConnectionResetError):
            seen.broken += 1
            self.close_connection = True
        finally:
            with self.server.lock:
                seen.active -= 1

    def stream(self, number: int, body: dict[str, Any]) -> None:
        s = self.server.switches
        if status := s.fails(number):
            return self.answer(status, "application/json", b'{"error": {"message": "busy"}}', Retry_After="0.01")
        if s.model and body.get("model") != s.model:
            return self.answer(404, "application/json", b'{"error": {"message": "no such model"}}')
        if not s.streams:
            return self.answer(200, "application/json", b'{"choices": [{"text": "all at once"}]}')
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        rounds = (1,) if s.off_by_field and body.get(s.off_by_field) == 0 else s.rounds
        events = place = turn = 0
        length = 0 if s.empty else min(s.length, body["max_tokens"])
        while place < length:
            time.sleep(s.seconds)
            size = min(1 if place == 0 else rounds[turn % len(rounds)], length - place)
            turn += place > 0
            tokens = [s.text(number, place + one) for one in range(size)]
            for piece in ["".join(tokens)] if s.one_piece else tokens:
                events += 1
                if events > s.cut_after:
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return None
                if events > s.error_after:
                    self.event({"error": {"message": "out of memory"}})
                    return None
                if s.garbage:
                    self.wfile.write(b"data: {not json\n\n")
                    return None
                self.event({"choices": [self.choice(piece, body)]})
            place += size
        end: dict[str, Any] = {"choices": [self.choice("", body) | {"finish_reason": "length"}]}
        self.event(end)
        usage = {"usage": {"completion_tokens": place}} if s.counts else {}
        timings = {"timings": {"draft_n": 2 * turn, "draft_n_accepted": place - 1 - turn}} if s.drafts else {}
        self.event({"choices": []} | usage | timings)
        self.wfile.write(b"data: [DONE]\n\n")
        return None

    def choice(self, text: str, body: dict[str, Any]) -> dict[str, Any]:
        return {"index": 0, "delta": {"content": text}} if "messages" in body else {"index": 0, "text": text}

    def event(self, found: dict[str, Any]) -> None:
        self.wfile.write(b"data: " + json.dumps(found).encode() + b"\n\n")
