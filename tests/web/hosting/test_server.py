"""What every answer of the server carries, what it says of itself, and how it ends."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from email.message import Message
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import quote

import pytest
import streamlit
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from specviz.errors import SpecvizError
from specviz.jobs.queue import FairQueue
from specviz.web.classroom.room.student_page import hash_script
from specviz.web.common.page_state import PageState
from specviz.web.hosting import health, metrics, server, shutdown
from specviz.web.hosting.headers import POLICY, SecurityHeadersMiddleware, hash_inline_scripts
from specviz.web.hosting.logs import JsonFormatter
from specviz.web.hosting.server_options import ServerOptions
from specviz.web.hosting.shutdown import SENTENCE

ROOT = Path(__file__).resolve().parents[3]
SECRET = "a prompt that nobody else may read"


# Headers -------------------------------------------------------------------------------------------------------------------


def open_client(**given) -> TestClient:
    async def answer_with_policy(request):
        return PlainTextResponse("x", headers={"Content-Security-Policy": "default-src *", "X-Other": "stays"})

    app = Starlette(
        routes=[Route("/own", answer_with_policy)],
        middleware=[Middleware(SecurityHeadersMiddleware, options=ServerOptions(**given))],
    )
    return TestClient(app)


def read_policy(answer) -> dict[str, list[str]]:
    return {name: sources for name, *sources in map(str.split, answer.headers["content-security-policy"].split(";"))}


@pytest.mark.parametrize("path", ["/own", "/nowhere"])
def test_every_answer_has_the_headers_once_and_only_these(path):
    answer = open_client().get(path)
    assert len(answer.headers.get_list("content-security-policy")) == 1
    assert set(read_policy(answer)) == {*POLICY, "frame-ancestors"}
    assert answer.headers["x-content-type-options"] == "nosniff" and "referrer-policy" in answer.headers
    assert answer.headers.get("x-other", "stays") == "stays"


def test_scripts_come_from_here_and_the_only_inline_ones_are_those_of_streamlits_page_and_the_students():
    sources = read_policy(open_client().get("/own"))["script-src"]
    assert sources == ["'self'", "blob:", *hash_inline_scripts(), hash_script()] and len(hash_inline_scripts()) >= 1
    assert not {"'unsafe-inline'", "'unsafe-eval'", "*", "data:", "https:"} & set(sources)
    assert [name for name, source in POLICY.items() if "unsafe" in source] == ["style-src"]


def test_the_operator_says_which_sites_may_frame_the_app():
    assert read_policy(open_client().get("/own"))["frame-ancestors"] == ["'self'"]
    answer = open_client(frame_ancestors="'self' https://course.example.org").get("/own")
    assert read_policy(answer)["frame-ancestors"] == ["'self'", "https://course.example.org"]


def test_the_headers_are_the_outermost_so_that_what_the_door_turns_away_has_them_too(serve):
    serve(mode="hosted")
    assert server.build_middleware()[0].cls is SecurityHeadersMiddleware


# What the server says of itself ----------------------------------------------------------------------------------------------


@pytest.fixture
def send_get(serve):
    app = Starlette(routes=server.build_routes())
    return lambda path, address="127.0.0.1", **headers: TestClient(app, client=(address, 5000)).get(path, headers=headers)


def test_it_is_ready_when_the_pair_is_there_and_the_queue_takes_work(send_get, monkeypatch):
    assert (send_get("/healthz").status_code, send_get("/healthz").text) == (200, "ok")
    queue = FairQueue(1)
    monkeypatch.setattr(health, "get_server_queue", lambda: queue)
    monkeypatch.setitem(health._state, "pair", "The pair of models is being loaded.")
    assert (
        send_get("/readyz").status_code == 503 and send_get("/readyz").json()["reason"] == "The pair of models is being loaded."
    )
    monkeypatch.setitem(health._state, "pair", "")
    assert (send_get("/readyz").status_code, send_get("/readyz").json()) == (200, {"ready": True, "reason": ""})
    queue.close(0.0, "")
    assert send_get("/readyz").status_code == 503 and send_get("/readyz").json()["reason"] == "The server is about to stop."


def test_a_pair_that_cannot_be_loaded_is_said_and_ends_nothing(monkeypatch):
    monkeypatch.setattr(health.cache, "load_weights", lambda *key: 1 / 0)
    monkeypatch.setattr(health.warmup, "wait", lambda seconds: True)
    monkeypatch.setattr(health.warmup, "start", lambda: None)
    monkeypatch.setitem(health._state, "pair", "The pair of models is being loaded.")
    health._load_pair()
    assert health.explain_not_ready() == "The pair of models could not be loaded (ZeroDivisionError)."


@pytest.mark.parametrize(
    ("who", "address", "headers", "status"),
    [
        ("loopback", "127.0.0.1", {}, 200),
        ("loopback", "::1", {}, 200),
        ("loopback", "10.0.0.7", {}, 404),
        ("loopback", "127.0.0.1", {"x-forwarded-for": "8.8.8.8"}, 404),
        ("everyone", "10.0.0.7", {}, 200),
        ("off", "127.0.0.1", {}, 404),
    ],
)
def test_metrics_are_for_whom_the_operator_says(send_get, serve, who, address, headers, status):
    serve(metrics=who)
    answer = send_get("/metrics", address, **headers)
    assert answer.status_code == status and ("specviz_queue_waiting" in answer.text) == (status == 200)


def test_work_is_counted_by_page_and_end_and_nothing_that_a_visitor_wrote_is_there(send_get):
    queue = FairQueue(1, on_end=metrics.count_ended_work)

    class Asked(PageState):
        page = "exactness"

    def value(end: str) -> float:
        return metrics.REGISTRY.get_sample_value("specviz_work_total", {"page": "exactness", "end": end}) or 0.0

    before = value("done"), value("failed")
    for work in (lambda state, ticket: SECRET, lambda state, ticket: (_ for _ in ()).throw(ValueError(SECRET))):
        state = Asked(SECRET, queue)
        state.visitor = SECRET
        state.submit(work)
        assert state.ticket.ended.wait(10.0)
    wait_for(lambda: (value("done"), value("failed")) == (before[0] + 1, before[1] + 1))
    assert SECRET not in send_get("/metrics").text


def test_the_page_of_work_is_the_name_of_its_folder():
    from specviz.figures.pages_and_glossary import PAGES
    from specviz.web.mistakes.state import MistakeState
    from specviz.web.one_round.state import OneRoundState

    assert MistakeState.page.fget(object.__new__(MistakeState)) == "mistakes"
    assert OneRoundState.page.fget(object.__new__(OneRoundState)) == "one_round" and {"mistakes", "one_round"} <= set(PAGES)


def test_a_log_line_is_one_json_object_also_with_a_traceback():
    try:
        raise ValueError("two\nlines")
    except ValueError:
        record = logging.LogRecord("specviz.x", logging.ERROR, "f.py", 1, 'said "%s"', ("a\nb",), sys.exc_info())
    line = JsonFormatter().format(record)
    found = json.loads(line)
    assert "\n" not in line and found["message"] == 'said "a\nb"' and found["level"] == "error"
    assert "ValueError: two" in found["traceback"] and found["time"].endswith("Z")


def test_every_logger_writes_json_also_one_that_streamlit_makes_later_and_none_the_letters_of_a_text():
    script = (
        "import logging; from streamlit import logger; early = logger.get_logger('streamlit.early');"
        "from specviz.web.hosting import logs; logs.log_as_json(); logger.update_formatter();"
        "logging.getLogger('fontTools.subset').info('the letters of a visitor');"
        "[one.warning('x') for one in (early, logger.get_logger('streamlit.late'), logging.getLogger('specviz.own'))]"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60)
    names = [json.loads(line)["logger"] for line in done.stderr.splitlines()]
    assert names == ["streamlit.early", "streamlit.late", "specviz.own"]


# The end -------------------------------------------------------------------------------------------------------------------


def wait_for(condition, seconds: float = 30.0) -> None:
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < seconds, "it never came to that"
        time.sleep(0.005)


def test_a_queue_that_closes_finishes_what_is_nearly_done_and_tells_the_others():
    queue, free = FairQueue(2), threading.Event()

    def finish_when_free(ticket):
        while not free.wait(0.005):
            ticket.tick(0.99)
        return "finished"

    def run_forever(ticket):
        while True:
            time.sleep(0.002)
            ticket.tick(0.0)

    short, long, waits = queue.submit(finish_when_free), queue.submit(run_forever), queue.submit(run_forever)
    wait_for(lambda: short.share > 0.9)
    threading.Timer(0.05, free.set).start()
    assert queue.close(0.5, "It stops.") == 2
    assert (short.state, short.result) == ("done", "finished")
    assert all(ticket.ended.wait(10.0) and (ticket.state, ticket.sentence) == ("failed", "It stops.") for ticket in (long, waits))
    with pytest.raises(Exception, match="about to stop"):
        queue.submit(finish_when_free)


@pytest.mark.parametrize(("works", "pauses"), [(True, [shutdown.LAST_LOOK]), (False, [])])
def test_pages_have_time_to_draw_what_came_of_their_work_before_their_sockets_are_closed(monkeypatch, works, pauses):
    queue, stops, found = FairQueue(1), SimpleNamespace(should_exit=False), []
    if works:
        queue.submit(lambda ticket: threading.Event().wait(0.1))
    monkeypatch.setattr(shutdown, "get_server_queue", lambda: queue)
    monkeypatch.setattr(shutdown, "time", SimpleNamespace(sleep=found.append))
    shutdown._drain_queue(stops)
    assert found == pauses and stops.should_exit and queue.is_closed


def test_all_that_a_real_server_sends_has_the_headers_and_told_to_stop_it_ends_by_itself_with_0(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    words = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.address", "127.0.0.1", "--server.port", port]
    with (tmp_path / "log.txt").open("w") as log:
        process = subprocess.Popen(
            words, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, env=os.environ | {"SPECVIZ_LOG": "json"}
        )
    try:

        def is_alive() -> bool:
            assert process.poll() is None
            try:
                return request_path(port, "/healthz")[0] == 200
            except OSError:
                return False

        wait_for(is_alive, 100.0)
        script = next((Path(streamlit.__file__).parent / "static" / "static" / "js").glob("*.js")).name
        font = next(path.name for path in (ROOT / "static").iterdir() if path.suffix in (".woff2", ".ttf"))
        answers = {
            f"/?prompt={quote(SECRET)}": 200,  # a page
            f"/static/js/{script}": 200,  # a file of Streamlit's
            f"/app/static/{font}": 200,  # a file of the app's
            "/media/none.zip": 404,  # where downloads lie
            "/app/static/none.woff2": 404,
        }
        for path, status in answers.items():
            found, headers = request_path(port, path)
            assert found == status, path
            assert headers.get_all("content-security-policy", []) == [headers["content-security-policy"]], path
            assert headers["x-content-type-options"] == "nosniff", path
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        written = (tmp_path / "log.txt").read_text()
        assert "Traceback" not in written and SECRET not in written and quote(SECRET) not in written
    finally:
        process.kill()


def request_path(port: str, path: str) -> tuple[int, Message]:
    """Status and headers of what a server sends, whether or not it is an error."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers


def test_what_the_server_says_at_its_end_is_a_sentence():
    assert SENTENCE.endswith(".") and "again" in SENTENCE


def test_a_cluster_that_cannot_be_joined_ends_the_server_with_a_sentence(serve, monkeypatch, capsys):
    """As the server starts: before anything is served, and without a traceback."""

    class EndedError(BaseException):
        pass

    @contextmanager
    def refuse_start():
        raise SpecvizError("Nothing answers at 10.0.0.5:6379.")
        yield

    def raise_ended(code):
        raise EndedError(code)

    async def start():
        async with server.lifespan(None):
            pytest.fail("it started")

    serve()
    monkeypatch.setattr(server.server_workers, "open_workers", refuse_start)
    monkeypatch.setattr(server.shutdown, "install_sigterm_handler", lambda: None)
    monkeypatch.setattr(server.os, "_exit", raise_ended)
    with pytest.raises(EndedError, match="2"):
        asyncio.run(start())
    assert capsys.readouterr().err == "Nothing answers at 10.0.0.5:6379.\n"
