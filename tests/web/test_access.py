"""Who may make a server look for folders, fetch models and load weights again: nobody but the people at the machine itself.

The Makefile passes the flag where only this machine can connect, the app refuses it elsewhere, and links choose no device.
"""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from streamlit import config

from specviz.settings import Settings
from specviz.web.common import access
from specviz.web.exactness.state import Question
from specviz.web.one_round.state import OneRoundState
from specviz.web.whole_text.state import PassageRequest

ROOT = Path(__file__).resolve().parents[2]
LINK = {"prompt": "Once upon", "device": "cpu", "dtype": "float64", "seed": "3"}


def started(*variables: str, env: dict[str, str] | None = None) -> list[str]:
    """The words with which ``make run`` starts the app."""
    done = subprocess.run(
        ["make", "--no-print-directory", "-n", "-C", str(ROOT), "run", *variables],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin:/usr/local/bin", **(env or {})},
    )
    assert done.returncode == 0, done.stderr
    (line,) = (line for line in done.stdout.splitlines() if "streamlit run" in line)
    return line.split()


@pytest.mark.skipif(not shutil.which("make"), reason="make is not on the path")
@pytest.mark.parametrize(
    ("variables", "flags"),
    [
        ((), [access.FLAG]),
        (("HOST=localhost",), [access.FLAG]),
        (("HOST=127.0.0.1",), [access.FLAG]),
        (("HOST=::1",), [access.FLAG]),
        (("HOST=0.0.0.0",), []),
        (("HOST=::",), []),
        (("HOST=192.168.1.7",), []),
        (("HOST=example.org",), []),
        (("HOST=localhost.example.org",), []),
        (("HOST=",), []),
        (("OWN_PAIRS=no",), []),
        (("OWN_PAIRS=yes",), [access.FLAG]),
        (("HOST=0.0.0.0", "OWN_PAIRS=yes"), [access.FLAG, access.NETWORK_FLAG]),
        (("HOST=0.0.0.0", "OWN_PAIRS=no"), []),
    ],
    ids=str,
)
def test_make_run_lets_only_this_machine_name_pairs(variables, flags):
    assert [word for word in started(*variables) if word.startswith("--allow")] == flags


@pytest.mark.skipif(not shutil.which("make"), reason="make is not on the path")
def test_a_host_from_the_environment_counts_as_well():
    assert not [word for word in started(env={"HOST": "0.0.0.0"}) if word.startswith("--allow")]


@pytest.fixture
def serve(monkeypatch):
    """The app as it was started: flags, and the address that Streamlit listens on."""

    def start(address: str | None, *flags: str) -> None:
        monkeypatch.setattr(sys, "argv", ["app.py", *flags])
        monkeypatch.setattr(config, "get_option", {"server.address": address}.__getitem__)

    return start


@pytest.mark.parametrize("address", ["localhost", "127.0.0.1", "127.8.0.1", "::1", "[::1]"])
def test_the_flag_is_enough_where_only_this_machine_can_connect(serve, address):
    serve(address, access.FLAG)
    assert access.own_pairs_allowed() and access.own_pairs_refused() == ""


@pytest.mark.parametrize("address", [None, "", "0.0.0.0", "::", "10.0.0.4", "example.org", "127.0.0.1.example.org", "localhost "])
def test_elsewhere_it_takes_a_second_flag(serve, address):
    serve(address, access.FLAG)
    assert not access.own_pairs_allowed()
    assert access.NETWORK_FLAG in access.own_pairs_refused() and (address or "every address") in access.own_pairs_refused()
    serve(address, access.FLAG, access.NETWORK_FLAG)
    assert access.own_pairs_allowed() and access.own_pairs_refused() == ""


@pytest.mark.parametrize("flags", [(), (access.NETWORK_FLAG,)])
def test_without_the_flag_nobody_is_allowed_and_nothing_is_said(serve, flags):
    serve("localhost", *flags)
    assert not access.own_pairs_allowed() and access.own_pairs_refused() == ""


def test_a_link_chooses_no_device_and_no_number_type(serve):
    serve("0.0.0.0")
    settings, said = access.linked(LINK)
    assert settings == Settings(prompt="Once upon", seed=3)
    assert said == [
        "The link's device was left out: it asks for 'cpu', and this server uses 'auto' for everyone.",
        "The link's dtype was left out: it asks for 'float64', and this server uses 'auto' for everyone.",
    ]


def test_a_link_that_asks_for_what_the_server_has_is_not_talked_about(serve):
    serve("0.0.0.0")
    assert access.linked({"device": "auto", "dtype": "auto"}) == (Settings(), [])


def test_at_ones_own_machine_a_link_chooses_both(serve):
    serve("localhost", access.FLAG)
    assert access.linked(LINK) == Settings.from_query(LINK)
    assert access.linked(LINK)[0].dtype == "float64"


def test_no_page_takes_them_from_its_address(serve):
    serve("0.0.0.0")
    state = OneRoundState(None)
    state.open_link(LINK)
    question, said = Question.of_link(LINK, Settings())
    asked, _ = PassageRequest.of_link(LINK | {"length": "64"}, Settings())
    for settings in (state.request.settings, question.settings, asked.settings):
        assert (settings.device, settings.dtype, settings.prompt) == ("auto", "auto", "Once upon")
    for sentences in (state.request.said, said):
        assert len([sentence for sentence in sentences if "for everyone" in sentence]) == 2


def test_every_page_reads_its_address_at_one_place():
    def reads(path: Path) -> bool:
        calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        return any(isinstance(call, ast.Attribute) and call.attr == "from_query" for call in calls)

    assert [path.stem for path in (ROOT / "specviz" / "web").rglob("*.py") if reads(path)] == ["access"]
