"""Who may make a server look for folders, fetch models and load weights again: nobody but the people at the machine itself.

A server is local or hosted, and one that others can reach says which. Links choose no device where it is hosted.
"""

from __future__ import annotations

import ast
import shutil
import subprocess
from pathlib import Path

import pytest

from specviz.errors import SpecvizError
from specviz.settings import Settings
from specviz.web.common import links
from specviz.web.exactness.state import ExactnessQuestion
from specviz.web.hosting.server_options import DEFAULTS, ServerOptions, explain_refused_address, load_options
from specviz.web.one_round.state import OneRoundState
from specviz.web.whole_text.state import PassageRequest

ROOT = Path(__file__).resolve().parents[3]
LINK = {"prompt": "Once upon", "device": "cpu", "dtype": "float64", "seed": "3"}
HERE = ("localhost", "127.0.0.1", "127.8.0.1", "::1", "[::1]")
ELSEWHERE = (None, "", "0.0.0.0", "::", "10.0.0.4", "example.org", "127.0.0.1.example.org", "localhost ")


# The mode ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", HERE)
def test_where_only_this_machine_can_connect_no_mode_need_be_said(serve, address):
    serve()
    assert explain_refused_address(address) == ""


@pytest.mark.parametrize("address", ELSEWHERE)
def test_elsewhere_the_mode_must_be_said(serve, address):
    serve()
    assert (address or "every address") in explain_refused_address(address) and "SPECVIZ_MODE=hosted" in explain_refused_address(
        address
    )
    for mode in ("local", "hosted"):
        serve(mode=mode)
        assert explain_refused_address(address) == ""


def test_the_mode_may_stand_in_a_file_and_the_environment_goes_before_it(serve, tmp_path):
    path = tmp_path / "specviz.toml"
    path.write_text('mode = "hosted"\nsessions = 7\n')
    found = serve(file=path)
    assert (found.mode, found.sessions, found.own_pairs, found.prompt_bytes) == ("hosted", 7, False, 8_000)
    assert explain_refused_address("0.0.0.0") == ""
    assert serve(file=path, sessions=9).sessions == 9


def test_every_option_has_a_default_in_each_mode_and_hosted_has_a_limit_for_each():
    for mode, defaults in DEFAULTS.items():
        found = ServerOptions(mode=mode)
        assert {name: getattr(found, name) for name in defaults} == defaults
    assert set(DEFAULTS["local"]) == set(DEFAULTS["hosted"])
    assert all(
        DEFAULTS["hosted"][name] > 0 for name in DEFAULTS["hosted"] if name.endswith(("bytes", "mb", "minute", "visitor", "ions"))
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"mode": "public"}, "mode: input should be 'local' or 'hosted', got 'public'."),
        ({"places": "0"}, "places: input should be greater than or equal to 1, got '0'."),
        ({"places": "two"}, "places: input should be a valid integer, unable to parse string as an integer, got 'two'."),
        ({"mode": "hosted", "own_pairs": "yes"}, "own_pairs must be false in hosted mode"),
        ({"frame_ancestors": "x; script-src *"}, "frame_ancestors: string should match pattern"),
    ],
    ids=str,
)
def test_an_option_that_cannot_be_is_a_sentence_with_the_value(serve, given, said):
    with pytest.raises(SpecvizError) as error:
        serve(**given)
    assert said in str(error.value)


@pytest.mark.parametrize(("text", "said"), [("sesions = 3", "There is no option 'sesions'"), ("mode = ", "cannot be read")])
def test_a_file_that_cannot_be_used_is_a_sentence(serve, tmp_path, text, said):
    path = tmp_path / "x.toml"
    path.write_text(text)
    with pytest.raises(SpecvizError, match=said):
        serve(file=path)
    with pytest.raises(SpecvizError, match="must name a file"):
        serve(file=tmp_path / "none.toml")


@pytest.mark.skipif(not shutil.which("make"), reason="make is not on the path")
def test_make_run_passes_the_mode_on_and_says_none_of_its_own():
    def run_make(*variables: str) -> str:
        words = ["make", "--no-print-directory", "-n", "-C", str(ROOT), "run", *variables]
        done = subprocess.run(words, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin:/usr/local/bin"}, check=True)
        (line,) = (line for line in done.stdout.splitlines() if "streamlit run" in line)
        return line

    assert "SPECVIZ_MODE" not in run_make() + run_make("HOST=0.0.0.0")
    assert run_make("HOST=0.0.0.0", "MODE=hosted").startswith("SPECVIZ_MODE=hosted ")


def test_a_server_that_others_could_reach_ends_with_a_sentence_before_it_serves(serve, monkeypatch):
    from specviz.web.hosting import server

    serve()
    monkeypatch.setattr("specviz.web.hosting.server.config.get_option", {"server.address": "0.0.0.0"}.__getitem__)
    with pytest.raises(SystemExit, match="SPECVIZ_MODE=hosted for visitors"):
        server.prepare_server()


def test_the_server_asks_nobody_outside_for_its_own_address(serve, monkeypatch):
    """Streamlit would, for each socket and file that a page of another site asks for."""
    from streamlit import net_util
    from streamlit.web.server.server_util import is_url_from_allowed_origins

    from specviz.web.hosting import server

    asked: list[str] = []
    serve()
    monkeypatch.setattr(net_util, "_make_blocking_http_get", lambda url, **_: asked.append(url))
    monkeypatch.setattr(net_util, "get_external_ip", net_util.get_external_ip)  # put back afterwards
    for name in (
        "config.set_option",
        "check_address",
        "streamlit_patches.keep_downloads",
        "streamlit_patches.cache_theme_messages",
        "process.configure_process",
    ):
        monkeypatch.setattr(f"specviz.web.hosting.server.{name}", lambda *_: None)
    server.prepare_server()
    assert not is_url_from_allowed_origins("https://evil.example") and asked == []


# What a link may choose ----------------------------------------------------------------------------------------------------


def test_where_it_is_hosted_a_link_chooses_no_device_and_no_number_type(serve):
    serve(mode="hosted")
    settings, said = links.read_link(LINK)
    assert settings == Settings(prompt="Once upon", seed=3)
    assert said == [
        "The link's device was left out: it asks for 'cpu', and this server uses 'auto' for everyone.",
        "The link's number type was left out: it asks for 'float64', and this server uses 'auto' for everyone.",
    ]


def test_a_link_that_asks_for_what_the_server_has_is_not_talked_about(serve):
    serve(mode="hosted")
    assert links.read_link({"device": "auto", "dtype": "auto"}) == (Settings(), [])


def test_at_ones_own_machine_a_link_chooses_both(serve):
    serve()
    assert links.read_link(LINK) == Settings.from_query(LINK)
    assert links.read_link(LINK)[0].dtype == "float64"


def test_no_page_takes_them_from_its_address(serve):
    serve(mode="hosted")
    state = OneRoundState(None)
    state.open_link(LINK)
    question, said = ExactnessQuestion.from_link(LINK, Settings())
    asked, _ = PassageRequest.from_link(LINK | {"max_new_tokens": "64"}, Settings())
    for settings in (state.request.settings, question.settings, asked.settings):
        assert (settings.device, settings.dtype, settings.prompt) == ("auto", "auto", "Once upon")
    for sentences in (state.request.notes, said):
        assert len([sentence for sentence in sentences if "for everyone" in sentence]) == 2


def test_every_page_reads_its_address_at_one_place():
    def reads_environment(path: Path) -> bool:
        source = path.read_text()
        if "from_query" not in source:
            return False
        calls = [node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
        return any(isinstance(call, ast.Attribute) and call.attr == "from_query" for call in calls)

    assert [path.stem for path in (ROOT / "specviz" / "web").rglob("*.py") if reads_environment(path)] == ["links"]


def test_the_options_are_read_once():
    assert load_options() is load_options()
