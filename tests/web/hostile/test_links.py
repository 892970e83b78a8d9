"""Hostile links: settings that can be used, or short sentences, on every page; the page works afterwards."""

from __future__ import annotations

import json

import pytest

from specviz.export.package import dump_csv
from specviz.jobs.queue import FairQueue
from specviz.settings import SETTINGS
from specviz.web.common import frame, links, page_state, session
from specviz.web.hosting import cache
from tests.web.common.test_frame import a_server_that_runs, open_page, send_value  # noqa: F401 the first is a fixture
from tests.web.hostile.corpus import LINKS, TEXTS

LONGEST = 1000  # characters of one sentence


@pytest.mark.fast_cases(24)
@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("name", TEXTS)
def test_a_hostile_value_of_any_key_gives_settings_that_can_be_used_and_short_sentences(own, name):
    for key in {key for key, _ in LINKS}:
        settings, said = links.read_link({key: TEXTS[name]}, own)
        assert all(len(sentence) < LONGEST and sentence.encode() for sentence in said), key
        assert (settings.prompt + str(settings.to_query())).encode()


def test_where_visitors_may_not_choose_a_hostile_link_chooses_no_device_and_no_number_type():
    for text in TEXTS.values():
        settings, _ = links.read_link({"device": text, "dtype": text}, own_pairs=False)
        assert (settings.device, settings.dtype) == (links.Settings().device, links.Settings().dtype)


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1+1"])
def test_no_field_of_a_table_is_a_formula_to_a_spreadsheet(text):
    (field,) = dump_csv(["a"], [[text]]).decode("utf-8-sig").split("\r\n", 1)[1:]
    assert field.startswith('"""')
    assert dump_csv(["a"], [[-1.5]]).endswith(b"-1.5\r\n")


LONG = ("prompt", "uniforms", "tree", "p")  # keys whose readers go through every character; an address has a limit of its own
MANY = 100_000  # characters of each then


def build_link(name: str) -> dict[str, str]:
    """A link whose keys all have this value, as far as an address can carry it."""
    text = TEXTS[name]
    return dict.fromkeys(sorted(links.KEYS) if len(text) < 1000 else LONG, text[:MANY])


def check_hostile_link(page: str, name: str, caplog) -> None:
    """The page of such a link: nothing raised, markup nowhere but as text; then the page runs again."""
    app = open_page(page, **build_link(name))
    assert not app.exception
    assert all(len(one.value) < LONGEST for one in app.text if one.value != TEXTS[name])
    assert not [one for one in app.markdown if one.allow_html and "alert(1)" in one.value]
    app.query_params.clear()
    assert not app.run().exception
    assert "Traceback" not in caplog.text


SENT = [name for name in TEXTS if name != "half a character"]  # an address is UTF-8 on its way


@pytest.mark.parametrize("name", ["a script", "a path upwards", "many parts"])
def test_a_page_of_a_hostile_link_shows_no_exception_and_works_afterwards(serve, name, caplog):
    serve(mode="hosted")
    check_hostile_link("one_token", name, caplog)


@pytest.mark.slow
@pytest.mark.parametrize("page", list(frame.PAGES))
@pytest.mark.parametrize("name", SENT)
def test_every_page_of_every_hostile_link_shows_no_exception_and_works_afterwards(serve, page, name, caplog):
    serve(mode="hosted")
    check_hostile_link(page, name, caplog)


# What the host alone decides ---------------------------------------------------------------------------------------------------

HOSTS = {  # key -> values that would cost the host something, or show what it has
    "device": ("cuda", "cuda:7", "cpu", "mps", "meta", "/dev/sda"),
    "dtype": ("float64", "bfloat16", "int8"),
    "pair": ("owner/big|owner/small", "/etc|/root", "../../models|../../models", "https://example.com/a|b", "|", "a|b|c"),
    "heads": ("/etc", "owner/heads"),
    "early_exit": ("/etc", "owner/exit"),
}


@pytest.mark.fast_cases(5)
@pytest.mark.parametrize("page", list(frame.PAGES))
def test_a_link_to_a_hosted_page_chooses_nothing_that_costs_the_host_and_says_so(serve, page, monkeypatch):
    serve(mode="hosted")
    check_left_out(page, 0, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("page", list(frame.PAGES))
def test_a_link_to_a_hosted_page_chooses_no_device_number_type_folder_or_hub_name(serve, page, monkeypatch):
    serve(mode="hosted")
    for number in range(max(map(len, HOSTS.values()))):
        check_left_out(page, number, monkeypatch)


def check_left_out(page: str, number: int, monkeypatch) -> None:
    """Whatever would be loaded is not; each key that is left out has its sentence."""
    loaded: list[tuple] = []
    plain = cache.load_weights
    asked = {key: values[number % len(values)] for key, values in HOSTS.items()}
    with monkeypatch.context() as patch:
        patch.setattr(cache, "load_weights", lambda *key: loaded.append(key) or plain(*key))
        app = open_page(page, prompt="Once", **asked)
    assert not app.exception
    components = [json.loads(one.proto.mixed.json or one.proto.json) for one in app.get("bidi_component")]
    said = [*(one.value for one in app.text), *(sentence for one in components for sentence in one.get("notices") or ())]
    for key in HOSTS:
        assert any(f"The link's {SETTINGS[key].noun} was left out" in sentence for sentence in said), (key, asked[key], said)
    assert set(loaded) <= {("storybook", "auto", "auto")}


# Fields ------------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def no_work(monkeypatch):
    """Work that fields ask for stands in the queue and is not begun: only the page is tried here."""
    queue = FairQueue(places=0)
    monkeypatch.setattr(page_state, "get_server_queue", lambda: queue)
    monkeypatch.setattr(session, "PROMPT", 0.0)


def list_field_ids(app) -> list[str]:
    return [state.id for state in app._tree.get_widget_states().widgets]


def fill_fields(app, text: str):
    """The page after a browser has sent this text for each of its fields that take one."""
    states = app._tree.get_widget_states()
    for state in states.widgets:
        if state.WhichOneof("value") == "string_value":
            state.string_value = text
    return app._run(states)


@pytest.mark.parametrize("page", ["one_round", "exactness"])
def test_fields_with_a_hostile_text_are_sentences_or_settings(serve, no_work, page, caplog):
    serve(mode="hosted")
    check_texts(page, ("a script", "half a character"), caplog)


@pytest.mark.slow
@pytest.mark.parametrize("page", list(frame.PAGES))
def test_every_field_of_every_page_with_every_hostile_text_is_a_sentence_or_a_setting(serve, no_work, page, caplog):
    serve(mode="hosted")
    check_texts(page, SENT, caplog)


def check_texts(page: str, names, caplog) -> None:
    app = open_page(page)
    for name in names:
        if name == "half a character":  # a browser's message is UTF-8 as well
            continue
        app = fill_fields(app, TEXTS[name][:MANY])
        assert not app.exception and "Traceback" not in caplog.text, name
        assert all(len(one.value) < LONGEST for one in app.text if one.value not in TEXTS[name]), name


FORGED = {
    "a text": {"string_value": "<script>alert(1)</script>"},
    "a large number": {"int_value": 2**62},
    "a negative number": {"int_value": -1},
    "not a number": {"double_value": float("nan")},
    "infinity": {"double_value": float("inf")},
    "yes": {"bool_value": True},
    "bytes": {"bytes_value": b"\xff" * 1000},
    "JSON": {"json_value": "[" * 10**4},
    "a click": {"trigger_value": True},
    "a component's report": {"json_trigger_value": "[{}]"},
}


@pytest.mark.slow
@pytest.mark.parametrize("page", list(frame.PAGES))
@pytest.mark.parametrize("kind", FORGED)
def test_every_field_of_every_page_takes_or_refuses_a_forged_value(serve, no_work, page, kind, caplog):
    serve(mode="hosted")
    app = open_page(page)
    for field in list_field_ids(app):
        if field in list_field_ids(app):  # an earlier value can have changed which there are
            app = send_value(app, field, **FORGED[kind])
            assert not app.exception and "Traceback" not in caplog.text, field
