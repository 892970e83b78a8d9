"""What all pages share: forged widget values are answered, unopened exports build nothing, waiting runs no page.

All through app.py, as a visitor meets it.
"""

from __future__ import annotations

import ast
import json
import time
import tomllib
from html import escape
from pathlib import Path
from types import SimpleNamespace

import pytest
from streamlit import config
from streamlit.proto.WidgetStates_pb2 import WidgetState
from streamlit.runtime.pages_manager import PagesManager
from streamlit.testing.v1 import AppTest

from specviz.figures.pages_and_glossary import TOUR, define_term, find_next_page, find_previous_page
from specviz.jobs.queue import FairQueue
from specviz.models.pairs.catalog import PAIRS
from specviz.models.pairs.names import PairPlaces
from specviz.settings import Settings
from specviz.web.common import frame, links, page_head, session, widget_guard
from specviz.web.drafting_methods.state import MethodsQuestion, MethodsState
from specviz.web.hosting import warmup
from specviz.web.hosting.admission import unmask_cookie
from tests.web.one_round.test_page import skip_first_run

ROOT = Path(__file__).resolve().parents[3]
DRAFTING = MethodsQuestion(Settings(prompt="Once upon"))


@pytest.fixture(autouse=True)
def a_server_that_runs(monkeypatch):
    monkeypatch.setattr(PagesManager, "__init__", skip_first_run(PagesManager.__init__))
    yield
    warmup.start()
    assert warmup.wait(120)  # an interpreter that ends while torch is imported is aborted


def open_page(page: str = "one_round", **query: str) -> AppTest:
    """The app as a link opens it, at one page."""
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=120)
    for key, value in query.items():
        app.query_params[key] = value
    return app.switch_page(f"pages/{page}.py").run()


def send_value(app: AppTest, key: str, **value) -> AppTest:
    """Run the page as for a browser that sends this value for a widget."""
    states = app._tree.get_widget_states()
    (one,) = [state for state in states.widgets if key in state.id]
    forged = WidgetState(id=one.id, **value)
    kept = [state for state in states.widgets if state.id != one.id]
    del states.widgets[:]
    states.widgets.extend([*kept, forged])
    return app._run(states)


FORGED = [
    ("mistakes", "mistakes-seed-0", {"int_value": 3}),
    ("exactness", "exactness-source-0", {"string_value": "no such decoder"}),
    ("mistakes", "mistakes-prompt-0", {"double_value": 1.5}),
    ("mistakes", "mistakes-prompt-0", {"trigger_value": True}),
    ("exactness", "exactness-max_new_tokens-0", {"string_value": "99"}),
    ("exactness", "exactness-gamma-0", {"string_value": "many"}),
]


@pytest.mark.parametrize(("page", "key", "value"), FORGED, ids=[f"{key} {next(iter(value))}" for _, key, value in FORGED])
def test_a_value_that_no_honest_browser_sends_is_answered_with_the_default_and_a_sentence(page, key, value, caplog):
    app = open_page(page, **({"mistake": "R4"} if page == "mistakes" else {}))
    before = [one.value for one in (*app.selectbox, *app.text_area, *app.number_input)]
    send_value(app, key, **value)
    assert not app.exception and "Traceback" not in caplog.text
    assert widget_guard.SENTENCE in [one.value for one in app.text]
    assert [one.value for one in (*app.selectbox, *app.text_area, *app.number_input)] == before
    assert widget_guard.SENTENCE not in [one.value for one in app.run().text]


@pytest.mark.fast_cases(5)
@pytest.mark.parametrize("page", list(frame.PAGES))
def test_a_key_that_no_page_has_is_named_once_and_no_key_of_a_pages_own_link(page):
    app = AppTest.from_file(str(ROOT / "pages" / f"{page}.py"), default_timeout=120)
    app.query_params["coins"] = "0=0.5"
    app.run()
    components = [json.loads(one.proto.mixed.json or one.proto.json) for one in app.get("bidi_component")]
    said = [*(one.value for one in app.text), *(sentence for one in components for sentence in one.get("notices", ()))]
    assert not app.exception
    assert [one for one in said if "coins" in one] == ["The link's 'coins' was left out: no page has a setting of this name."]
    assert page in ("one_token", "questions", "summary") or not links.list_unknown_keys(app.session_state[page].build_link())


def test_a_whole_number_that_a_browser_sends_for_a_field_of_numbers_is_taken():
    """Streamlit's own page sends an integer, and its server waits for a floating-point number."""
    app = send_value(open_page("exactness"), "exactness-gamma-0", int_value=3)
    assert widget_guard.SENTENCE not in [one.value for one in app.text]
    assert app.session_state["exactness"].question.settings.gamma == 3


def test_an_option_is_taken_after_a_run_of_a_fragment_that_read_the_empty_field():
    """A fragment's run does not declare the fields outside it again, so nothing restores what Streamlit knows of them."""
    from streamlit.runtime.state.common import WidgetMetadata
    from streamlit.runtime.state.session_state import WStates

    widget_guard.install_widget_guard()
    states = WStates()
    states.set_widget_metadata(
        WidgetMetadata("field", lambda sent: sent, lambda value: value, "string_value", formatted_options=["a"])
    )
    read = []
    for value in ({}, {"string_value": "a"}, {"string_value": "b"}, {"int_value": 0}):
        states.set_widget_from_proto(WidgetState(id="field", **value))
        read.append(states["field"])
    assert read == [None, "a", None, None], "what is not in the list, and a number, stay refused"


def test_a_link_of_unknown_keys_alone_does_not_fill_the_page():
    (said,) = links.list_unknown_keys({f"key {n} {'x' * 500}": "1" for n in range(40)})
    assert "35 more" in said and len(said) < 400
    assert links.list_unknown_keys({"prompt": "a", "at": "1.1", "p": "1-2"}) == []


OWN = PairPlaces("owner/big", "owner/small").name


def test_a_change_of_another_field_does_not_load_a_pair_that_was_only_offered(monkeypatch):
    monkeypatch.setattr(session, "PROMPT", 0.0)
    app = open_page(pair=OWN, prompt="Once")
    state = app.session_state["one_round"]
    state.queue = FairQueue(places=0)
    app.text_input(key="fold-temperature-0").set_value("0.5").run()
    assert state.request.settings.temperature == 0.5 and state.request.settings.pair in PAIRS


@pytest.mark.fast_cases(5)
@pytest.mark.parametrize("page", list(frame.PAGES))
def test_nothing_of_an_export_is_built_before_its_fold_is_opened(page, monkeypatch):
    """Neither the package nor the manifest nor a table: whatever would build one raises here."""

    def refuse_export(*_, **__):
        raise AssertionError("an export was built unasked")

    for name in ("Package", "ExportOffer"):
        monkeypatch.setattr(f"specviz.export.package.{name}.__init__", refuse_export)
    monkeypatch.setattr("specviz.records.list_versions", refuse_export)
    app = open_page(page)
    assert not app.exception and not app.get("download_button")


def test_a_page_that_waits_runs_only_the_part_that_looks(monkeypatch):
    """As long as nothing changed the fragment draws its line and asks for nothing; then it asks for the page, once for each change."""
    queue, reruns, lines = FairQueue(places=1, time_slice=1e9, short=1e9), [], []
    held, end = queue.submit(tick_forever), MethodsState(DRAFTING, queue)
    end.submit(lambda state, ticket: ticket.tick())
    stub = SimpleNamespace(
        session_state={"drafting_methods": end},
        rerun=lambda: reruns.append(1),
        progress=lambda share, text: lines.append(text),
        button=lambda *_, **__: None,
    )
    monkeypatch.setattr(session, "st", stub)
    drawn = session._snapshot_progress(end, True)
    for _ in range(5):
        session._poll_ticket("drafting_methods", True, drawn, False)
    assert reruns == [] and lines == ["Waiting for one of 1 places, 0 ahead …"] * 5
    session._poll_ticket("drafting_methods", True, drawn, True)
    assert len(reruns) == 1, "it is not far back any more"
    end.store(end.ticket, results={})
    session._poll_ticket("drafting_methods", True, drawn, False)
    assert len(reruns) == 2
    held.cancel()
    assert end.ticket.ended.wait(30)
    session._poll_ticket("drafting_methods", True, session._snapshot_progress(end, True), False)
    assert len(reruns) == 3


def tick_forever(ticket) -> None:
    while True:
        ticket.tick()
        time.sleep(0.01)


def test_the_server_runs_with_the_collector_left_to_python():
    asked = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text())["runner"]["postScriptGC"]
    assert asked is False and "runner.postScriptGC" in config.get_config_options()


def test_every_page_has_state_work_and_view_and_only_views_know_streamlit():
    web = ROOT / "specviz" / "web"
    for path in web.glob("*/*.py"):
        if path.parent.name in frame.PAGES:
            source = path.read_text()
            nodes = ast.walk(ast.parse(source)) if "import streamlit" in source else ()
            names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
            assert ("streamlit" in names) == (path.stem == "view"), path
    assert len(list(web.glob("*/view.py"))) == len(frame.PAGES) + 1  # and the front page


def test_every_address_is_the_name_of_its_file():
    """Else a link that is the first thing a fresh server is asked for opens with 'Page not found'."""
    assert {path.stem for path in (ROOT / "pages").glob("*.py")} == {frame.FRONT, *frame.PAGES}


def test_the_navigation_has_every_page_once_in_three_groups_and_one_round_first():
    groups = frame.group_pages({path: path for path in (frame.FRONT, *frame.PAGES)})
    assert list(groups) == ["Learn", "Check", "Apply"]
    assert [path for paths in groups.values() for path in paths] == [frame.FRONT, *frame.PAGES], (
        "the order of reading is that of the menus"
    )
    assert [path for path, page in frame._build_pages.__wrapped__().items() if page.visibility == "hidden"] == [frame.FRONT]


@pytest.mark.parametrize("path", list(frame.PAGES))
def test_a_page_ends_with_the_one_that_follows_and_why(path):
    app, after = open_page(path), find_next_page(path)
    assert not app.exception
    onward = [(f"Next: {after.title}", after.reason)] if after in TOUR else [(frame.LAST, frame.REASON_LAST)]
    if path == "summary":  # everybody may go to the start, and whoever teaches to the page for them
        onward.append(("For a class: Classroom", after.reason))
    links = [one.proto.label for one in app.get("page_link")][2:]  # after those of the header
    assert links == [label for label, _ in onward]
    assert [one.value for one in app.markdown][-len(onward) :] == [reason for _, reason in onward]


@pytest.mark.parametrize("path", list(frame.PAGES))
def test_the_header_says_which_step_of_the_tour_it_is_between_the_pages_before_and_after(path):
    app, before, after = open_page(path), find_previous_page(path), find_next_page(path)
    labels = [one.proto.label for one in app.get("page_link")][:2]
    onward = "For a class: Classroom" if path == "summary" else after.title if after else frame.FIRST
    assert labels == [f"‹ {before.title if before else frame.FIRST}", f"{onward} ›"]
    (steps,) = [one.proto.body for one in app.get("html") if 'class="steps"' in one.proto.body]
    if path == "classroom":
        assert "For a class" in steps and " of " not in steps and steps.count('class="done"') == len(TOUR)
        return
    step = [page.path for page in TOUR].index(path) + 1
    assert f"<span>{step} of {len(TOUR)}</span>" in steps
    assert steps.count('class="done"') == step - 1 and steps.count('class="here"') == 1


def test_following_every_page_leads_through_all_of_them_and_ends_with_the_last():
    path, seen = next(iter(frame.PAGES)), []
    while path:
        seen.append(path)
        after = find_next_page(path)
        assert after is None or find_previous_page(after.path) is frame.PAGES[path]
        path = after and after.path
    assert seen == list(frame.PAGES) and TOUR[-1].path == "summary"


def test_the_first_place_of_a_term_is_explained_and_only_that():
    html = page_head.mark_terms(
        "A draft token is checked in one pass. A Draft token again; drafting and passages are other words."
    )
    assert html.count('class="term"') == 2 and html.count('role="tooltip"') == 2
    assert html.startswith("A <span") and ">draft token<span" in html and ">pass<span" in html
    assert html.endswith(". A Draft token again; drafting and passages are other words.")
    for number, term in ((1, "draft token"), (3, "target pass")):
        assert f'aria-describedby="tip-{number}"' in html and f'id="tip-{number}">{escape(define_term(term))}<' in html


def test_tabs_of_one_browser_are_one_visitor():
    """Two cookies of one browser, as two of its pages sent them; and one of another browser."""
    first, second = (
        "2|a67299a5|a41f99414835cbc721d6ce634180ba44|1795368615",
        "2|4cdd7efd|4eb07e19a29a2c9fcb79293bab2f5d1c|1795368615",
    )
    assert unmask_cookie(first) == unmask_cookie(second) != unmask_cookie("2|00000000|00112233445566778899aabbccddeeff|1")
    assert [unmask_cookie(bad) for bad in ("", "2||00|1", "2|xy|00|1", "a|b")] == [""] * 4
