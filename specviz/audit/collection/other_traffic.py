"""Other traffic while samples are collected: faults of a batch show only beside requests that differ from the tested ones."""

from __future__ import annotations

import itertools
import json
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import wait
from contextlib import closing
from dataclasses import replace
from typing import Any

from specviz.audit.profiles.answers import merge_objects
from specviz.audit.profiles.base import ServerProfile
from specviz.audit.protocol.endpoint import Endpoint
from specviz.audit.protocol.sampling_request import SamplingRequest
from specviz.errors import EndpointError, SettingsError
from specviz.jobs.daemon_threads import DaemonThreadPool
from specviz.settings import PROMPT_MAX

DEFAULT = "default"  # in place of JSON: the set below
DEFAULT_REQUESTS: tuple[dict[str, Any], ...] = (
    {"temperature": 0.0},
    {"temperature": 1.5},
    {"seed": None},
    {"prompt": "The weather was fine, and the"},
    {"stream": True},
    {"stream": True, "abort": True},
)
ABORT = "abort"  # a field of ours: the connection is closed after the first event of the stream
PROMPT = "prompt"  # a text in place of the tested one, in whatever form the server reads it
MAX_REQUESTS = 32  # different requests
PAUSE = 0.2  # seconds after an error
JOIN_SECONDS = 2.0  # at the end, for the last answers


def read_beside(text: str) -> tuple[dict[str, Any], ...]:
    """The requests of ``--beside``: an object, a list of objects, or ``default``. Raises SettingsError."""
    if text.strip() == DEFAULT:
        return DEFAULT_REQUESTS
    allowed = f'{DEFAULT!r}, a JSON object such as {{"temperature": 0}}, or a list of 1 to {MAX_REQUESTS} of them'
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    found = [found] if isinstance(found, dict) else found
    if not isinstance(found, list) or not 1 <= len(found) <= MAX_REQUESTS or not all(isinstance(one, dict) for one in found):
        raise SettingsError("beside", text[:80], allowed)
    if any(one.get(ABORT) and not one.get("stream") for one in found):
        raise SettingsError("beside", text[:80], f'"stream": true beside "{ABORT}": a request is aborted after its first event')
    if any(PROMPT in one and not (isinstance(one[PROMPT], str) and 0 < len(one[PROMPT]) <= PROMPT_MAX) for one in found):
        raise SettingsError("beside", text[:80], f'"{PROMPT}" as a text of at most {PROMPT_MAX:,} characters')
    return tuple(found)


class BesideTraffic:
    """A context in which so many requests are always under way. Their answers are read and dropped; errors are counted.

    Each takes the body of the tested request, without a limit on its choices, and its own fields on top.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        profile: ServerProfile,
        sampling: SamplingRequest,
        requests: Sequence[Mapping[str, Any]],
        concurrency: int,
        first_seed: int,
    ):
        self.endpoint, self.profile, self.sampling = endpoint, profile, sampling
        self.counts: Counter[str] = Counter()
        self._requests = [dict(one) for one in requests]
        self._numbers, self._first_seed, self._lock = itertools.count(), first_seed, threading.Lock()
        self._stop = threading.Event()
        self.concurrency = concurrency

    def __enter__(self) -> BesideTraffic:
        self._pool = DaemonThreadPool(self.concurrency, "beside")
        self._calls = [self._pool.submit(self._run) for _ in range(self.concurrency)]
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self.endpoint.close()
        self._pool.close()
        wait(self._calls, JOIN_SECONDS)

    def to_record(self) -> dict[str, Any]:
        """The traffic that was sent, with a sentence."""
        sent, failed = self.counts["sent"], self.counts["failed"]
        ways = "; ".join(json.dumps(one) for one in self._requests)
        sentence = f"While the samples were collected, {sent:,} other requests were sent to the server ({ways})"
        sentence += f"; {failed:,} of them failed." if failed else "."
        return {
            "requests": self._requests,
            "concurrency": self.concurrency,
            "sent": sent,
            "failed": failed,
            "sentence": sentence,
        }

    def _run(self) -> None:
        while not self._stop.is_set():
            with self._lock:
                number = next(self._numbers)
            try:
                self._send(self._requests[number % len(self._requests)], self._first_seed + number)
            except (EndpointError, RuntimeError):  # a client that was closed raises RuntimeError
                if self._stop.is_set():
                    return
                self._add("failed")
                self._stop.wait(PAUSE)
            self._add("sent")

    def _send(self, fields: Mapping[str, Any], seed: int) -> None:
        own = {key: value for key, value in fields.items() if key not in (ABORT, PROMPT)}
        sampling = replace(self.sampling, prompt=fields[PROMPT], written="") if PROMPT in fields else self.sampling
        body = merge_objects(self.profile.build_body(sampling, seed), own)
        body = {key: value for key, value in body.items() if not (key in fields and value is None)}
        path = self.profile.select_path(self.sampling)
        if not fields.get("stream"):
            self.endpoint.send(path, body, max_tries=1)
            return
        with closing(self.endpoint.stream_events(path, body, max_tries=1)) as events:  # type: ignore[type-var]
            for _ in events:
                if fields.get(ABORT):
                    return

    def _add(self, counter: str) -> None:
        with self._lock:
            self.counts[counter] += 1
