"""Hostile links: settings that can be used, or short sentences, on every page; the page works afterwards."""

from __future__ import annotations

import pytest

from specviz.export.package import table
from specviz.web.common import frame, links
from tests.web.hostile.corpus import LINKS, TEXTS
from tests.web.test_frame import a_server_that_runs, opened, sent  # noqa: F401 the first is a fixture

LONGEST = 1000  # characters of one sentence


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("name", TEXTS)
def test_a_hostile_value_of_any_key_gives_settings_that_can_be_used_and_short_sentences(own, name):
    for key in {key for key, _ in LINKS}:
        settings, said = links.linked({key: TEXTS[name]}, own)
        assert all(len(sentence) < LONGEST and sentence.encode() for sentence in said), key
        assert (settings.prompt + str(settings.to_query())).encode()


def test_where_visitors_may_not_choose_a_hostile_link_chooses_no_device_and_no_number_type():
    for text in TEXTS.values():
        settings, _ = links.linked({"device": text, "dtype": text}, own_pairs=False)
        assert (settings.device, settings.dtype) == (links.Settings().device, links.Settings().dtype)


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1+1"])
def test_no_field_of_a_table_is_a_formula_to_a_spreadsheet(text):
    (field,) = table(["a"], [[text]]).decode("utf-8-sig").split("\r\n", 1)[1:]
    assert field.startswith('"""')
    assert table(["a"], [[-1.5]]).endswith(b"-1.5\r\n")


def met(page: str, text: str, keys) -> None:
    """The page of a link whose keys all have this value: nothing raised, markup nowhere but as text; then the page runs again."""
    app = opened(page, **dict.fromkeys(keys, text))
    assert not app.exception
    assert all(len(one.value) < LONGEST for one in app.text if one.value != text)
    assert not [one for one in app.markdown if one.allow_html and "alert(1)" in one.value]
    app.query_params.clear()
    assert not app.run().exception


SHORT = ("a script", "a path upwards")
SENT = [name for name in TEXTS if name != "half a character"]  # an address is UTF-8 on its way


@pytest.mark.parametrize("name", SHORT)
def test_a_page_of_a_hostile_link_shows_no_exception_and_works_afterwards(name, caplog):
    met("one_token", TEXTS[name], sorted(links.KEYS))
    assert "Traceback" not in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("page", list(frame.PAGES))
@pytest.mark.parametrize("name", SENT)
def test_every_page_of_every_hostile_link_shows_no_exception_and_works_afterwards(page, name, caplog):
    met(page, TEXTS[name], sorted(links.KEYS - {"pair"}))
    assert "Traceback" not in caplog.text


FORGED = {
    "a text": {"string_value": "<script>alert(1)</script>"},
    "a long text": {"string_value": "x" * 10**6},
    "a large number": {"int_value": 2**62},
    "a negative number": {"int_value": -1},
    "not a number": {"double_value": float("nan")},
    "infinity": {"double_value": float("inf")},
    "yes": {"bool_value": True},
    "bytes": {"bytes_value": b"\xff" * 1000},
    "JSON": {"json_value": "[" * 10**5},
    "a click": {"trigger_value": True},
}


@pytest.mark.slow
@pytest.mark.parametrize("page", list(frame.PAGES))
@pytest.mark.parametrize("kind", FORGED)
def test_every_field_of_every_page_takes_or_refuses_a_forged_value(page, kind, caplog):
    app = opened(page)
    for field in [state.id for state in app._tree.get_widget_states().widgets]:
        if app.exception or field not in [state.id for state in app._tree.get_widget_states().widgets]:
            break  # an earlier value has changed which fields there are
        app = sent(app, field, **FORGED[kind])
    assert not app.exception and "Traceback" not in caplog.text
