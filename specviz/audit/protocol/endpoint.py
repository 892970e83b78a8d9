"""One HTTP server that speaks OpenAI's protocol: a question, an answer of bounded size, and a sentence for whatever goes wrong.

A question is asked again after a broken connection, after 429 and after an error of the server, with the same body and so with the
same seed. A port that is closed is tried for ``REFUSED_SECONDS`` only, since a server that has ended does not come back by itself. Only a whole answer is ever returned, and one for each question: what a broken connection lost is never counted.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx2

from specviz.audit.collection.size import RequestLimits
from specviz.errors import MAX_SHOWN, EndpointError, SettingsError
from specviz.records import refuse_constant

API_PREFIX = "/v1"  # where OpenAI's paths begin
MAX_ANSWER_BYTES = 8 * 2**20  # bytes of an answer
MAX_ERROR_BYTES = 2**16  # bytes that are read of an answer that is an error
CONNECT_TIMEOUT = 10.0  # seconds until a connection stands
KEEPALIVE_SECONDS = 2.0  # seconds that an unused connection is kept: servers were seen to drop theirs after 4
MAX_TRIES, FEW_TRIES = 20, 6  # tries of a request: for a sample, and for what the server may refuse
MAX_TIMEOUTS = 2  # answers that may be late in a row for one question
FIRST_BACKOFF, MAX_BACKOFF = 0.2, 10.0  # seconds before the second try, doubled with each; and at most
MAX_RETRY_AFTER = 120.0  # seconds of a Retry-After that are waited
# Seconds of waiting at a closed port. The first restart by a supervisor begins within them (systemd 0.1 s, Docker 0.1 s, supervisord 1 s,
# Kubernetes 10 s). A server that then loads a model for minutes is not waited for: the same command goes on when it is there.
REFUSED_SECONDS = 15.0
RETRIED_STATUSES = {408, 425, 429, 500, 502, 503, 504, 529}
JSON, EVENT_STREAM = "application/json", "text/event-stream"


def normalize_url(url: str) -> str:
    """The address of OpenAI's paths, ending in ``/v1``. Raises SettingsError for what is no address of a server.

    ``localhost:8000`` is no address: its scheme says whether the connection is encrypted, so it is not guessed.
    """
    shown = url[:MAX_SHOWN]
    allowed = "an address such as http://HOST:PORT/v1"
    if any(ord(letter) <= 32 or ord(letter) == 127 for letter in url):
        raise SettingsError("URL", shown, f"{allowed}, without spaces")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise SettingsError("URL", shown, f"{allowed}, with a port from 1 to 65535") from None
    if parts.scheme not in ("http", "https") or not host or port == 0:
        raise SettingsError("URL", shown, allowed)
    if parts.username is not None or parts.password is not None:
        raise SettingsError(
            "URL", f"{parts.scheme}://…@{host}", f"{allowed}, without a name or a password; a key comes from --api-key-variable"
        )
    if parts.query or parts.fragment:
        raise SettingsError("URL", shown, f"{allowed}, without ? and #")
    path = parts.path.rstrip("/")
    for end in ("/chat/completions", "/completions", "/models"):  # as copied from somewhere
        path = path.removesuffix(end)
    return f"{parts.scheme}://{parts.netloc}{path if path.endswith(API_PREFIX) else path + API_PREFIX}"


def read_key(variable: str) -> str:
    """The key that an environment variable holds; empty for no variable. Raises SettingsError, which never shows the key."""
    if not variable:
        return ""
    found = os.environ.get(variable, "").strip()
    if not found:
        raise SettingsError("api-key-variable", variable, "the name of an environment variable that holds the key")
    if not found.isascii() or not found.isprintable():
        raise SettingsError("api-key-variable", variable, "a variable whose value is one line of ASCII")
    return found


@dataclass(frozen=True, slots=True)
class HttpReply:
    """A whole answer. headers: names in lower case; seconds: from the question to its last byte."""

    status: int
    headers: Mapping[str, str]
    content: bytes = field(repr=False)
    seconds: float


@dataclass(slots=True)
class RequestCounts:
    """How often something went wrong on the way, of all requests. error_answers: with an error of the server or 429."""

    retries: int = 0
    error_answers: int = 0
    connection_errors: int = 0
    timeouts: int = 0


class Endpoint:
    """A server at one address. Several threads may ask at once.

    Attributes:
        url: As ``base`` takes it.
        key: Sent as a bearer token; never shown, never stored.
        timeout: Seconds that a whole answer may take.
        rate: Most questions with a body per second, None: as many as there are.
        stopped: Set by whoever wants nothing more: waiting ends, and ``RequestCancelledError`` is raised.
    """

    def __init__(
        self, url: str, key: str = "", concurrency: int = 8, timeout: float = RequestLimits().timeout, rate: float | None = None
    ):
        self.url, self.limits, self._next = normalize_url(url), RequestLimits(timeout, rate), 0.0
        self.root = self.url.removesuffix(API_PREFIX)
        self.stopped, self.counts, self._lock = threading.Event(), RequestCounts(), threading.Lock()
        headers = {"Accept": JSON, "Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {key}"} if key else {})
        self._client = httpx2.Client(
            headers=headers,
            verify=not self.url.startswith("http://"),  # plain HTTP has no certificates to load, and redirects are not followed
            limits=httpx2.Limits(
                max_connections=concurrency + 2, max_keepalive_connections=concurrency + 2, keepalive_expiry=KEEPALIVE_SECONDS
            ),
            follow_redirects=False,
            trust_env=False,
        )

    def close(self) -> None:
        self.stopped.set()
        self._client.close()

    def request_json(
        self, path: str, body: Mapping[str, Any] | None = None, max_tries: int = MAX_TRIES, timeout: float | None = None
    ) -> Any:
        """The JSON of an answer. path: after ``/v1``, or with ``root:`` after the server's own address; body: None for GET.

        timeout: seconds that the answer may take, in place of the endpoint's own.

        Raises EndpointError with a sentence; ``status`` is the last answer's, 0 without one.
        """
        reply = self.send(path, body, max_tries, timeout)
        where = self._format_address(path)
        if JSON not in reply.headers.get("content-type", JSON):
            kind = reply.headers["content-type"].partition(";")[0][:60]
            page = "a web page" if kind == "text/html" else f"{kind}"
            raise EndpointError(
                f"{where} answered with {page}, not JSON: is this the address of an OpenAI-compatible server?", reply.status
            )
        try:
            return json.loads(reply.content.decode("utf-8"), parse_constant=refuse_constant)
        except (ValueError, RecursionError) as error:
            raise EndpointError(
                f"{where} answered with something that is not JSON ({_sanitize(reply.content[:80])!r}).", reply.status
            ) from error

    def send(
        self, path: str, body: Mapping[str, Any] | None = None, max_tries: int = MAX_TRIES, timeout: float | None = None
    ) -> HttpReply:
        """An answer whose status is 200. Raises EndpointError as ``request_json``."""
        where, said, late, timeout = self._format_address(path), "", 0, min(self.limits.timeout, timeout or self.limits.timeout)
        grace = REFUSED_SECONDS
        for number in range(max_tries):
            wait = min(FIRST_BACKOFF * 2.0**number, MAX_BACKOFF)
            status = 0
            if body is not None:
                self._wait_turn()
            try:
                found = self._send_once(path, body, timeout)
            except httpx2.TimeoutException as error:
                late += 1
                self._count("timeouts")
                connected = not isinstance(error, httpx2.ConnectTimeout | httpx2.PoolTimeout)
                said = f"did not answer within {timeout if connected else min(CONNECT_TIMEOUT, timeout):g} s"
                if late >= MAX_TIMEOUTS:
                    raise EndpointError(f"{where} {said}, {late} times.") from error
            except httpx2.HTTPError as error:  # refused, reset, dropped while idle, or no HTTP at all
                self._count("connection_errors")
                said = f"could not be reached or broke the connection ({_sanitize(str(error)) or type(error).__name__})"
                if is_refused(error):
                    wait, grace = spend_grace(where, wait, grace)
                wait = (
                    0.0
                    if number == 0 and isinstance(error, httpx2.RemoteProtocolError | httpx2.WriteError | httpx2.ReadError)
                    else wait
                )
            except httpx2.InvalidURL as error:
                raise EndpointError(f"{where} is no address ({_sanitize(str(error))}).") from error
            else:
                status = found.status
                if status == 200:
                    return found
                said = f"answered with status {status}{_read_error_message(found)}"
                if status not in RETRIED_STATUSES:
                    raise EndpointError(f"{where} {_format_refusal(found, said)}.", status)
                self._count("error_answers")
                wait = min(max(wait, _read_retry_after(found)), MAX_RETRY_AFTER)
            if number + 1 < max_tries:
                self._count("retries")
                if self.stopped.wait(wait):
                    raise RequestCancelledError("The work was stopped.")
        times = f", {max_tries} times in a row" if max_tries > 1 else ""
        raise EndpointError(f"{where} {said}{times}.", status)

    def _wait_turn(self) -> None:
        """Keep to the rate: each question has a moment of its own."""
        if self.limits.rate is None:
            return
        with self._lock:
            now = time.monotonic()
            mine = max(now, self._next)
            self._next = mine + 1.0 / self.limits.rate
        if self.stopped.wait(max(0.0, mine - now)):
            raise RequestCancelledError("The work was stopped.")

    def _send_once(self, path: str, body: Mapping[str, Any] | None, timeout: float) -> HttpReply:
        if self.stopped.is_set():
            raise RequestCancelledError("The work was stopped.")
        began = time.monotonic()
        content = None if body is None else json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
        headers = {} if body is None else {"Content-Type": JSON}
        pieces, size = [], 0
        patience = httpx2.Timeout(timeout, connect=min(CONNECT_TIMEOUT, timeout))
        how = "GET" if body is None else "POST"
        with self._client.stream(how, self.build_address(path), content=content, headers=headers, timeout=patience) as answer:
            if answer.headers.get("content-encoding", "identity") != "identity":
                raise EndpointError(
                    f"{self._format_address(path)} compressed its answer although it was asked not to.", answer.status_code
                )
            for piece in answer.iter_raw():
                size += len(piece)
                if size > MAX_ANSWER_BYTES:
                    raise EndpointError(
                        f"{self._format_address(path)} answered with more than {MAX_ANSWER_BYTES >> 20} MB.", answer.status_code
                    )
                if time.monotonic() - began > timeout:  # each byte may be in time, and the whole without end
                    raise httpx2.ReadTimeout("the answer does not end")
                pieces.append(piece)
            headers = {name.lower(): value for name, value in answer.headers.items()}
            return HttpReply(answer.status_code, headers, b"".join(pieces), time.monotonic() - began)

    def stream_events(
        self, path: str, body: Mapping[str, Any], max_tries: int = FEW_TRIES
    ) -> Iterator[tuple[float, dict[str, Any]]]:
        """The server-sent events of a streamed answer, each with the time of its arrival by ``time.monotonic``.

        The request is sent again only before the first event. Events that arrive in one piece have one time.

        Raises EndpointError as ``send``, and where the answer is no stream of JSON objects.
        """
        where, grace = self._format_address(path), REFUSED_SECONDS
        for number in range(max_tries):
            try:
                yield from self._stream_once(path, body)
                return
            except _RetryError as retry:
                wait = min(max(min(FIRST_BACKOFF * 2.0**number, MAX_BACKOFF), retry.wait), MAX_RETRY_AFTER)
                if is_refused(retry):
                    wait, grace = spend_grace(where, wait, grace)
                self._count("retries")
                if number + 1 == max_tries:
                    raise EndpointError(f"{where} {retry}, {max_tries} times in a row.", retry.status) from retry
                if self.stopped.wait(wait):
                    raise RequestCancelledError("The work was stopped.") from None

    def _stream_once(self, path: str, body: Mapping[str, Any]) -> Iterator[tuple[float, dict[str, Any]]]:
        where, began, size, rest, found = self._format_address(path), time.monotonic(), 0, b"", False
        content = json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
        patience = httpx2.Timeout(self.limits.timeout, connect=min(CONNECT_TIMEOUT, self.limits.timeout))
        headers = {"Content-Type": JSON, "Accept": EVENT_STREAM}
        try:
            with self._client.stream(
                "POST", self.build_address(path), content=content, headers=headers, timeout=patience
            ) as answer:
                if answer.status_code != 200:
                    refusal = _read_start(answer)
                    headers = {name.lower(): value for name, value in answer.headers.items()}
                    reply = HttpReply(answer.status_code, headers, refusal, time.monotonic() - began)
                    said = f"answered with status {reply.status}{_read_error_message(reply)}"
                    if reply.status not in RETRIED_STATUSES:
                        raise EndpointError(f"{where} {_format_refusal(reply, said)}.", reply.status)
                    self._count("error_answers")
                    raise _RetryError(said, reply.status, _read_retry_after(reply))
                if not answer.headers.get("content-type", "").startswith(EVENT_STREAM):
                    raise EndpointError(f"{where} does not stream its answers, so nothing can be timed inside them.")
                for piece in answer.iter_raw():
                    now = time.monotonic()
                    size += len(piece)
                    if self.stopped.is_set():
                        raise RequestCancelledError("The work was stopped.")
                    if size > MAX_ANSWER_BYTES:
                        raise EndpointError(f"{where} answered with more than {MAX_ANSWER_BYTES >> 20} MB.")
                    if now - began > self.limits.timeout:
                        raise httpx2.ReadTimeout("the answer does not end")
                    *lines, rest = (rest + piece).split(b"\n")
                    for line in lines:
                        data = line.strip().removeprefix(b"data:").strip() if line.startswith(b"data:") else b""
                        if data == b"[DONE]":
                            return
                        if data:
                            found = True
                            yield now, _parse_event(data, where)
                if not found:
                    raise EndpointError(f"{where} closed its stream without an event.")
        except httpx2.TimeoutException as error:
            self._count("timeouts")
            raise EndpointError(f"{where} did not finish an answer within {self.limits.timeout:g} s.") from error
        except httpx2.HTTPError as error:
            self._count("connection_errors")
            said = f"broke the connection ({_sanitize(str(error)) or type(error).__name__})"
            if found:
                raise EndpointError(f"{where} {said} in the middle of an answer.") from error
            raise _RetryError(said, 0, 0.0) from error

    def build_address(self, path: str) -> str:
        """The whole address of a path, as ``request_json`` takes it."""
        return self.root + path.removeprefix("root:") if path.startswith("root:") else self.url + path

    def _format_address(self, path: str) -> str:
        return f"'{self.build_address(path)}'"

    def _count(self, counter: str) -> None:
        with self._lock:
            setattr(self.counts, counter, getattr(self.counts, counter) + 1)


class _RetryError(Exception):
    """A stream that did not begin and may be asked for again. wait: seconds, at least."""

    def __init__(self, message: str, status: int, wait: float):
        super().__init__(message)
        self.status, self.wait = status, wait


class RequestCancelledError(EndpointError):
    """The work was stopped while a question waited."""


def is_refused(error: BaseException | None) -> bool:
    """Whether nobody listens at the port: an exception, or one behind it, is a refused connection."""
    while error is not None:
        if isinstance(error, ConnectionRefusedError):
            return True
        error = error.__cause__ or error.__context__
    return False


def spend_grace(where: str, wait: float, grace: float) -> tuple[float, float]:
    """The wait before a closed port is tried again, and what is left of its grace after it. Raises EndpointError where nothing is left."""
    if grace <= 0.0:
        raise EndpointError(
            f"{where} could not be reached: its port was closed for {REFUSED_SECONDS:g} s, so no server runs there."
        )
    wait = min(wait, grace)
    return wait, grace - wait


def _read_retry_after(reply: HttpReply) -> float:
    """Seconds of a Retry-After header; 0 without one, or for a date."""
    try:
        return max(0.0, float(reply.headers.get("retry-after", 0.0)))
    except ValueError:
        return 0.0


def _format_refusal(reply: HttpReply, text: str) -> str:
    """A sentence's end for an answer that another try would not change."""
    if 300 <= reply.status < 400:
        target = _sanitize(reply.headers.get("location", "")) or "another address"
        return f"redirects to {target}; redirects are not followed, so give that address itself if you trust it"
    if reply.status in (401, 403):
        return f"{text}; name the environment variable that holds your key with --api-key-variable"
    return text


def _read_error_message(reply: HttpReply) -> str:
    """The message of a refusal, in the form of OpenAI's errors or FastAPI's; '' if there is none that can be shown."""
    try:
        found = json.loads(reply.content)
    except (ValueError, RecursionError):
        return ""
    said = found.get("error", found.get("detail", found.get("message"))) if isinstance(found, dict) else None
    said = said.get("message") if isinstance(said, dict) else said
    return f" ({_sanitize(said if isinstance(said, str) else json.dumps(said))})" if said else ""


def _sanitize(raw: str | bytes) -> str:
    """A server's words as part of a sentence: one line, bounded, and nothing that a terminal would obey."""
    text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text[: 4 * MAX_SHOWN]).split())
    return (line if len(line) <= MAX_SHOWN else line[:MAX_SHOWN] + " …").rstrip(".")


def _read_start(answer: httpx2.Response) -> bytes:
    """The first bytes of an answer that is an error: enough for its message."""
    found = b""
    for piece in answer.iter_raw():
        found += piece
        if len(found) > MAX_ERROR_BYTES:
            break
    return found[:MAX_ERROR_BYTES]


def _parse_event(data: bytes, where: str) -> dict[str, Any]:
    """The JSON object of a server-sent event. Raises EndpointError for anything else."""
    try:
        event = json.loads(data.decode("utf-8"), parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        event = None
    if not isinstance(event, dict):
        raise EndpointError(f"{where} streamed something that is no JSON object ({_sanitize(data[:80])!r}).")
    return event
