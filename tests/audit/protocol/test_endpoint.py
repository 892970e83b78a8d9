"""Every way in which a server can fail ends in one sentence, within a bounded time, and a retry never brings a second answer."""

from __future__ import annotations

import pickle
from contextlib import ExitStack

import pytest

from specviz.audit.protocol.endpoint import MAX_ANSWER_BYTES, MAX_TRIES, REFUSED_SECONDS, Endpoint, normalize_url, read_key
from specviz.errors import EndpointError, SettingsError
from tests.audit.server import Server, Switches, run_in_thread, run_server

ASKED = {"prompt": "Once upon", "max_tokens": 3, "seed": 5, "temperature": 1.0}


def ask_for_samples(server, tries: int = 3, timeout: float = 5.0, key: str = ""):
    endpoint = Endpoint(server.url, key, timeout=timeout)
    try:
        return endpoint.request_json("/completions", ASKED, tries)
    finally:
        endpoint.close()


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("http://localhost:8000", "http://localhost:8000/v1"),
        ("http://localhost:8000/", "http://localhost:8000/v1"),
        ("http://localhost:8000/v1/", "http://localhost:8000/v1"),
        ("https://host/api/v1", "https://host/api/v1"),
        ("https://host/api", "https://host/api/v1"),
        ("http://[::1]:8000/v1/chat/completions", "http://[::1]:8000/v1"),
    ],
)
def test_an_address_ends_in_v1_however_it_was_copied(given, found):
    assert normalize_url(given) == found


@pytest.mark.parametrize(
    "given",
    ["", "localhost:8000", "ftp://host/v1", "http://", "http://host:99999", "http://host:0", "http://ho st", "http://host/v1?a=1",
     "file:///etc/passwd", "http://host/\r\nX: y", "http://host:abc", "http://[::1"],
)  # fmt: skip
def test_what_is_no_address_is_refused_in_a_sentence(given):
    with pytest.raises(SettingsError, match=r"URL must be an address such as http://HOST:PORT/v1"):
        normalize_url(given)


def test_an_address_with_a_password_is_refused_and_the_password_not_shown():
    with pytest.raises(SettingsError) as error:
        normalize_url("http://me:hunter2@host/v1")
    assert "hunter2" not in str(error.value) and "--api-key-variable" in str(error.value)


def test_a_key_comes_from_the_environment_and_stands_in_no_sentence(monkeypatch):
    monkeypatch.setenv("MY_KEY", "hunter2")
    assert read_key("MY_KEY") == "hunter2" and read_key("") == ""
    monkeypatch.setenv("MY_KEY", "hunter2\nX-Header: 1")
    for variable in ("MY_KEY", "NO_SUCH_KEY"):
        with pytest.raises(SettingsError) as error:
            read_key(variable)
        assert "hunter2" not in str(error.value)


def test_a_key_is_sent_and_its_absence_is_explained():
    with run_server(key="hunter2") as server:
        assert ask_for_samples(server, key="hunter2")["choices"]
        with pytest.raises(EndpointError, match=r"status 401 \(Unauthorized\); name the environment variable"):
            ask_for_samples(server)


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ({"html": True}, "answered with a web page, not JSON"),
        ({"garbage": True}, r"answered with something that is not JSON \('{\"choices\""),
        ({"endless": True}, f"more than {MAX_ANSWER_BYTES >> 20} MB"),
        ({"hangs": 1.0}, "did not answer within 0.2 s, 2 times"),
        ({"drips": True}, "did not answer within 0.2 s, 2 times"),
        ({"fails": lambda number: 500}, r"status 500 \(it failed\), 3 times in a row"),
        ({"fails": lambda number: 404}, r"status 404 \(it failed\)\.$"),
        ({"redirects": "http://elsewhere/v1"}, "redirects to http://elsewhere/v1; redirects are not followed"),
        ({"cut": lambda number: True}, "could not be reached or broke the connection .*3 times in a row"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_every_fault_is_a_sentence_after_a_bounded_number_of_tries(fault, sentence):
    with run_server(**fault) as server, pytest.raises(EndpointError, match=sentence) as error:
        ask_for_samples(server, timeout=5.0 if "endless" in fault else 0.2)
    assert "\n" not in str(error.value)
    assert str(pickle.loads(pickle.dumps(error.value))) == str(error.value)


def test_a_port_where_nobody_listens_is_a_sentence():
    with run_server() as server:
        url = server.url
    endpoint = Endpoint(url)
    with pytest.raises(EndpointError, match="could not be reached"):
        endpoint.request_json("/models", max_tries=2)


def collect_waits(endpoint: Endpoint, monkeypatch, ask) -> list[float]:
    """Seconds between the tries of a question that fails: a clock that passes at once."""
    waits: list[float] = []
    monkeypatch.setattr(endpoint.stopped, "wait", lambda seconds: waits.append(seconds))
    with pytest.raises(EndpointError) as error:
        ask(endpoint)
    endpoint.close()
    assert ("port was closed for 15 s" in str(error.value)) is (error.value.status == 0)
    return waits


@pytest.mark.parametrize(
    "ask",
    (
        lambda endpoint: endpoint.request_json("/completions", ASKED),
        lambda endpoint: list(endpoint.stream_events("/completions", ASKED, MAX_TRIES)),
    ),
    ids=("answer", "stream"),
)
def test_a_closed_port_is_tried_for_a_restart_and_an_error_of_the_server_for_minutes(ask, monkeypatch):
    """Eight tries against twenty, by the waits between them."""
    with run_server(fails=lambda number: 503) as server:
        longer = collect_waits(Endpoint(server.url), monkeypatch, ask)
    refused = collect_waits(Endpoint(server.url), monkeypatch, ask)
    assert sum(refused) == pytest.approx(REFUSED_SECONDS) and len(refused) == 7
    assert len(longer) == MAX_TRIES - 1 and sum(longer) > 120.0


def test_a_server_that_comes_back_within_the_grace_is_asked_again(monkeypatch):
    """The port is closed for the first three tries; the fourth is answered, with the same seed."""
    with run_server() as server:
        url, port = server.url, server.server_address[1]
    endpoint, again, waits = Endpoint(url), ExitStack(), []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            again.enter_context(run_in_thread(Server(Switches(), port)))

    monkeypatch.setattr(endpoint.stopped, "wait", wait)
    with again:
        assert endpoint.request_json("/completions", ASKED)["choices"]
    assert len(waits) == 3 and endpoint.counts.connection_errors == 3
    endpoint.close()


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_server_that_fails_now_and_then_is_asked_again_with_the_same_seed(status):
    with run_server(fails=lambda number: status if number < 3 else 0) as server:
        assert len(ask_for_samples(server)["choices"]) == 1
        assert [body["seed"] for body in server.seen.bodies] == [5, 5, 5]


def test_an_answer_that_a_broken_connection_lost_is_asked_for_once_more_and_returned_once():
    """The server has drawn the sample twice, with one seed; one of the two answers arrives."""
    with run_server(cut=lambda number: number == 1) as server:
        assert len(ask_for_samples(server)["choices"]) == 1
        assert len(server.seen.bodies) == 2 and server.seen.bodies[0] == server.seen.bodies[1]


def test_connections_that_a_server_drops_after_each_answer_do_not_matter():
    with run_server(closes_after=1) as server:
        endpoint = Endpoint(server.url)
        assert all(endpoint.request_json("/completions", ASKED, 2)["choices"] for _ in range(20))
        assert len(server.seen.bodies) <= 40
        endpoint.close()


def test_what_a_server_writes_into_an_error_cannot_reach_the_terminal():
    with run_server(redirects="http://x/\x1b[31m") as server, pytest.raises(EndpointError) as error:
        ask_for_samples(server)
    assert "\x1b" not in str(error.value)


def test_a_rate_that_is_none_is_refused():
    with pytest.raises(SettingsError, match="rate must be above 0 and at most 1,000,000 requests per second"):
        Endpoint("http://127.0.0.1:1", rate=0.0)
