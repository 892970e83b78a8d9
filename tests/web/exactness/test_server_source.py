"""A running server as the source of Exactness test: at home only, never by a link, in the queue, and with a sentence for what goes wrong."""

from __future__ import annotations

import time

import pytest

from specviz.errors import SettingsError
from specviz.jobs.queue import FairQueue
from specviz.settings import Settings
from specviz.web.exactness import words, work
from specviz.web.exactness.state import CHOICES, SERVER, ExactnessQuestion, ExactnessState, list_sources
from tests.audit.conftest import brief_confirmation, short_preflight, small_audits  # noqa: F401 fixtures
from tests.audit.of_pair import answer_from_pair
from tests.audit.server import run_server
from tests.audit.test_command import bend_probs
from tests.web.common.test_frame import a_server_that_runs, open_page, send_value  # noqa: F401 the first is a fixture

pytestmark = pytest.mark.usefixtures("short_preflight", "brief_confirmation")
BASE = Settings(prompt="Once upon", max_new_tokens=2)


@pytest.fixture
def exam(page_pair):
    return ExactnessState(ExactnessQuestion(BASE, SERVER), FairQueue())


def ask_server(exam: ExactnessState, url: str, samples: str = "100", stop_at: str = "") -> ExactnessState:
    """The exam after its work; stopped at the first word of what is being done."""
    exam.ask_server(url, "", samples, work.audit_server)
    for _ in range(2400):
        if stop_at and exam.ticket is not None and exam.ticket.doing.startswith(stop_at):
            exam.stop()
        if not exam.is_busy:
            return exam
        time.sleep(0.02)
    raise AssertionError("the work did not end")


def test_a_rejected_server_is_told_with_tables_and_a_script(exam, pair):
    with run_server(dialect="llama.cpp", **answer_from_pair(pair, bend_probs)) as server:
        ask_server(exam, server.url, "200")
    assert exam.notices == [] and exam.report["verdict"] == "rejected"
    said, rows = words.list_audit_sentences(exam.report), dict(words.build_audit_tables(exam.report))
    assert any(line.startswith("The samples part first at position 1") for line in said)
    tokens = rows["Tokens that come too often or too rarely"]
    assert {"token", "seen", "exact"} == set(tokens[0]) and "Known mistakes, the likeliest first" in rows
    assert f"{server.url.removesuffix('/v1')}/completion" in exam.report["audit"]["reproduction"]["script"]


def test_a_server_is_asked_and_work_that_is_stopped_keeps_its_samples_and_goes_on(exam, pair):
    with run_server(dialect="llama.cpp", slow=lambda number: 0.003, **answer_from_pair(pair)) as server:
        ask_server(exam, server.url, stop_at="Collecting")
        assert exam.report is None and exam.ticket.state == "stopped"
        folder = exam.server_collection[1].name
        ask_server(exam, server.url)
    assert exam.notices == [] and exam.report["n"] == 100 and exam.report["verdict"] in ("consistent", "too few samples")
    assert exam.server_notes[0].startswith("llama.cpp") and any("samples per second" in line for line in exam.server_notes)
    assert exam.report["audit"]["command"].startswith(f"specviz audit {server.url}")
    assert exam.server_collection[1].name == folder


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ({"html": True}, "a web page, not JSON"),
        ({"greedy": True}, "the server does not sample"),
        ({"fails": lambda number: 404}, "status 404"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_goes_wrong_is_a_sentence_and_no_report(exam, pair, fault, sentence):
    with run_server(**fault, **answer_from_pair(pair)) as server:
        ask_server(exam, server.url)
    assert sentence in exam.notices[0] and exam.report is None


@pytest.mark.parametrize(
    ("url", "samples", "sentence"),
    [("", "10", "The address of the server must be"), ("x" * 400, "10", "The address of the server must be"), ("http://a", "many", "number of samples must be"), ("http://a", "0", "number of samples must be"),
     ("http://a", "100001", "number of samples must be"), ("http://a", "²", "number of samples must be"), ("http://a", "", "number of samples must be")],
)  # fmt: skip
def test_fields_that_cannot_be_used_are_a_sentence(exam, url, samples, sentence):
    exam.ask_server(url, "", samples, work.audit_server)
    assert sentence in exam.notes[0] and exam.ticket is None


def test_an_address_that_is_none_is_the_sentence_of_the_command(exam):
    ask_server(exam, "localhost:8000")
    assert "URL must be an address such as http://HOST:PORT/v1" in exam.notices[0]


def test_a_hosted_server_has_no_such_source_and_asks_nobody(serve, page_pair):
    serve(mode="hosted")
    assert SERVER not in list_sources()
    with pytest.raises(SettingsError, match="source must be one of speculative, target, assisted, file, got 'server'"):
        ExactnessQuestion(BASE, SERVER)
    exam = ExactnessState(ExactnessQuestion(BASE), FairQueue())
    with run_server() as server:
        exam.ask_server(server.url, "", "10", work.audit_server)
        assert "asks no other one for a visitor" in exam.notes[0] and exam.ticket is None
        assert not server.seen.paths


def test_a_hosted_page_has_no_field_for_an_address_even_by_a_link(serve, page_pair):
    serve(mode="hosted")
    app = open_page("exactness", source="server")
    (source,) = [one for one in app.button_group if one.label == "What to test"]
    assert CHOICES["file"] in source.options and CHOICES[SERVER] not in source.options
    assert not [one for one in app.text_input if "Address" in one.label]
    assert any("The link's decoder to test was left out" in one.value for one in app.text)
    assert any("`specviz audit ADDRESS` in a terminal" in one.value for one in app.caption), "the page says where it works"


def test_a_link_opens_the_field_at_home_and_asks_nobody(serve, page_pair):
    """The address is in no link, and work begins with a click. The command stands beside the field."""
    serve(mode="local")
    with run_server() as server:
        app = open_page(
            "exactness", source="server", **{"server-url": server.url, "url": server.url, "exactness-server-url-0": server.url}
        )
        (field,) = [one for one in app.text_input if "Address" in one.label]
        assert not field.value and not server.seen.paths
        assert app.session_state["exactness"].ticket is None
        assert any(one.value.startswith("specviz audit http://localhost:8000/v1 --prompt") for one in app.code)
    assert "url" not in " ".join(app.session_state["exactness"].build_link())
