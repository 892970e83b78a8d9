"""The first paint needs neither torch nor weights; going live and bad input, through the page itself."""

from __future__ import annotations

import json
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from streamlit.runtime.pages_manager import PagesManager
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.runtime.scriptrunner.script_runner import ScriptRunner
from streamlit.runtime.scriptrunner_utils.script_requests import RerunData
from streamlit.testing.v1 import AppTest

from specviz.jobs.queue import FairQueue
from specviz.models.pairs.catalog import PAIRS
from specviz.web.common import page_head, session
from specviz.web.hosting import cache, warmup
from specviz.web.one_round.state import OneRoundState
from tests.helpers.fresh_process import REFUSE_TORCH, run_fresh
from tests.helpers.pages import check_pair_in_panel, open_panel
from tests.helpers.web_pair import write_opening

ROOT = Path(__file__).resolve().parents[3]
NO_TORCH = """
import json, sys, time
from pathlib import Path
from streamlit.testing.v1 import AppTest
from specviz.web.hosting import cache

cache.RECORDING = Path(sys.argv[1]) / "opening.json"
app = AppTest.from_file("app.py", default_timeout=60).run()
front = json.loads(app.get("bidi_component")[0].proto.mixed.json or app.get("bidi_component")[0].proto.json)
app.switch_page("pages/one_round.py").run()
shown = json.loads(app.get("bidi_component")[0].proto.mixed.json or app.get("bidi_component")[0].proto.json)
heavy = [name for name in ("torch", "transformers") if name in sys.modules]
print(json.dumps({"errors": len(app.exception), "mode": shown["mode"], "rounds": len(shown["payload"]["rounds"]), "front": sorted(front),
                  "cursor": shown["cursor"], "steps": len(shown["payload"]["rounds"][0]["steps"]), "heavy": heavy}))
"""


@pytest.fixture(scope="module")
def opening(tmp_path_factory):
    return write_opening(tmp_path_factory.mktemp("opening"))


@pytest.fixture
def app(opening, monkeypatch):
    """The page on the tiny pair, drawn once. Leaving the fixture leaves no shared state behind."""
    places = {"target": str(opening / "target"), "draft": str(opening / "draft")}
    monkeypatch.setitem(PAIRS, "storybook", replace(PAIRS["storybook"], is_shipped=False, **places))
    monkeypatch.setattr(cache, "RECORDING", opening / "opening.json")
    monkeypatch.setattr(PagesManager, "__init__", skip_first_run(PagesManager.__init__))
    cache.load_recording.cache_clear()
    monkeypatch.setattr(session, "PROMPT", 60.0)  # every run ends before its page is drawn
    warmup.start()
    assert warmup.wait(120)
    yield AppTest.from_file(str(ROOT / "app.py"), default_timeout=120).switch_page("pages/one_round.py").run()
    cache.load_recording.cache_clear()
    cache.load_weights.cache_clear()


def skip_first_run(begin):
    """AppTest begins every run as a fresh server's first, in which a page starts over and a click is lost; a server does so once."""

    def begin_without_pages(manager, *args, **kwargs):
        begin(manager, *args, **kwargs)
        PagesManager.uses_pages_directory = False

    return begin_without_pages


def read_stage(app: AppTest) -> dict:
    """What the stage was given."""
    (component,) = app.get("bidi_component")
    return json.loads(component.proto.mixed.json or component.proto.json)


def read_sentences(app: AppTest) -> str:
    return "\n".join([*read_stage(app)["notices"], *(text.value for text in app.text)])


def test_the_first_paint_needs_neither_torch_nor_weights(opening):
    done = run_fresh(REFUSE_TORCH + NO_TORCH, str(opening))
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen.pop("steps") > 1
    assert seen == {
        "errors": 0,
        "mode": "recorded",
        "rounds": 4,
        "cursor": {"round": 0, "step": 0},
        "heavy": [],
        "front": ["cost", "doors", "games", "large", "live", "meanings", "race", "texts"],
    }


def test_heavy_libraries_are_imported_once_in_one_thread(app):
    first = warmup._thread
    app.run()
    assert warmup._thread is first
    assert warmup.wait(120)
    assert warmup.describe_failure() is None
    assert {"torch", "transformers", "specviz.decoding.run"} <= set(sys.modules)


def test_a_change_of_a_control_runs_the_real_pair(app):
    app.number_input(key="fold-gamma-0").set_value(2).run()
    data = read_stage(app)
    assert (data["mode"], data["busy"], len(data["payload"]["rounds"])) == ("live", None, 2)
    assert len(data["payload"]["rounds"][0]["chips"]) == 2
    assert app.query_params["gamma"] == "2"
    assert any("cpu float32" in part for part in data["payload"]["status"])
    (times,) = data["payload"]["rounds"][0]["times"]
    assert times.startswith("drafting 2 tokens ") and "target pass " in times


def test_temperature_zero_and_gamma_zero_run(app):
    app.text_input(key="fold-temperature-0").set_value("0").run()
    app.number_input(key="fold-gamma-0").set_value(0).run()
    data = read_stage(app)
    assert data["mode"] == "live"
    assert data["payload"]["rounds"][0]["chips"] == []


def test_an_empty_prompt_starts_with_the_start_token_and_says_so(app):
    app.text_area(key="fold-prompt-0").set_value("").run()
    assert read_stage(app)["mode"] == "live"
    assert "The prompt is empty, so the text begins with the start token" in read_sentences(app)


BAD = [
    ("number_input", "gamma", -1, "The number of draft tokens per round must be a whole number from 0 to 16, got -1."),
    ("number_input", "gamma", 17, "got 17."),
    ("text_input", "temperature", "-1", "got -1.0."),
    ("text_input", "temperature", "nan", "got nan."),
    ("text_input", "top_k", "0", "or empty to switch it off, got 0."),
    ("text_input", "top_p", "0", "got 0.0."),
    ("text_input", "top_p", "1.5", "got 1.5."),
    ("text_area", "prompt", "a\x07", "U+0007 at character 2"),
    ("text_area", "prompt", "a" * 20_001, "The prompt is too long: 20,001 characters, at most 20,000."),
    ("text_area", "prompt", "wolf " * 2000, "tokens"),
]


@pytest.mark.parametrize(("kind", "name", "value", "sentence"), BAD, ids=[f"{name}={value!s:.12}" for _, name, value, _ in BAD])
def test_bad_input_is_a_sentence_and_nothing_is_lost(app, kind, name, value, sentence):
    before = read_stage(app)
    getattr(app, kind)(key=f"fold-{name}-0").set_value(value).run()
    after = read_stage(app)
    assert sentence in read_sentences(app)
    assert not app.exception
    assert (after["payload"], after["mode"], after["busy"]) == (before["payload"], before["mode"], None)
    assert getattr(app, kind)(key=f"fold-{name}-0").value == value


def test_after_bad_input_a_good_value_goes_on(app):
    app.number_input(key="fold-gamma-0").set_value(99).run()
    assert all("got 99." in " ".join(place) for place in (read_stage(app)["notices"], [one.value for one in app.text])), (
        "above and in the fold"
    )
    app.number_input(key="fold-gamma-0").set_value(1).run()
    assert read_stage(app)["mode"] == "live"
    assert "gamma" not in read_sentences(app)


def test_a_link_opens_live_and_shows_its_settings_in_the_fields(app):
    other = AppTest.from_file(str(ROOT / "app.py"), default_timeout=120).switch_page("pages/one_round.py")
    link = {
        "prompt": "a bear",
        "gamma": "3",
        "top_k": "50",
        "at": "2.2",
        "seed": "5",
        "temperature": "nan",
        "uniforms": "0=0.999",
    }
    for key, value in link.items():
        other.query_params[key] = value
    other.run()
    data = read_stage(other)
    assert (data["mode"], data["cursor"]) == ("live", {"round": 1, "step": 1})
    assert (other.text_area(key="fold-prompt-0").value, other.text_input(key="fold-top_k-0").value) == ("a bear", "50")
    assert data["payload"]["rounds"][0]["chips"][0]["u"] == 0.999 and len(data["payload"]["edits"]) == 1
    assert "got nan" in read_sentences(other)


def test_a_link_that_a_cold_server_meets_first_begins_the_import_itself(app, monkeypatch):
    assert warmup.wait(120)
    monkeypatch.setattr(warmup, "_thread", None)
    monkeypatch.setattr(warmup, "_done", threading.Event())
    other = AppTest.from_file(str(ROOT / "app.py"), default_timeout=30).switch_page("pages/one_round.py")
    other.query_params["prompt"] = "a bear"
    other.run()
    assert (
        "Loading torch" in read_stage(other)["busy"]
        or "In line" in read_stage(other)["busy"]
        or "Starting" in read_stage(other)["busy"]
    )
    assert other.session_state["one_round"].ticket.ended.wait(60)
    assert read_stage(other.run())["mode"] == "live"


def test_own_pairs_are_offered_on_ones_own_machine_and_not_where_it_is_hosted(app, serve, opening):
    serve(mode="hosted")
    open_panel(app)
    assert not [field for field in app.text_input if field.key.startswith("models")]
    assert app.selectbox(key="models-known-1").options == [one.title for one in PAIRS.values()]
    serve(mode="local")
    check_pair_in_panel(app, opening / "nowhere", opening / "draft")
    assert "is neither a folder on this machine nor a hub name" in read_sentences(app)
    assert read_stage(app)["mode"] == "recorded" and "models-use" not in [one.key for one in app.button]
    check_pair_in_panel(app, opening / "target", opening / "draft", rounded=True)
    app.button(key="models-use").click().run()
    assert read_stage(app)["mode"] == "live"
    assert "draft draft in 8 bits" in read_stage(app)["payload"]["pair"]


def test_a_library_that_cannot_be_imported_is_a_sentence(app, monkeypatch):
    monkeypatch.setattr(warmup, "_failure", "The models cannot run on this machine: no torch.")
    app.number_input(key="fold-gamma-0").set_value(2).run()
    assert "The models cannot run on this machine" in read_sentences(app)
    assert read_stage(app)["mode"] == "recorded"


def test_whatever_a_run_throws_is_a_sentence(app, monkeypatch):
    assert warmup.wait(120)
    monkeypatch.setattr("specviz.web.one_round.worker.record_run", lambda *_, **__: 1 / 0)
    app.number_input(key="fold-gamma-0").set_value(2).run()
    assert "The run failed (ZeroDivisionError). The run before is still shown." in read_sentences(app)
    assert read_stage(app)["mode"] == "recorded"


def test_without_a_recording_the_page_goes_live(app, monkeypatch, tmp_path):
    monkeypatch.setattr(cache, "RECORDING", tmp_path / "missing.json")
    cache.load_recording.cache_clear()
    other = AppTest.from_file(str(ROOT / "app.py"), default_timeout=120).switch_page("pages/one_round.py").run()
    assert not other.exception
    assert read_stage(other)["mode"] == "live"


def test_equal_models_accept_every_draft_token(app, opening):
    open_panel(app)
    check_pair_in_panel(app, opening / "target", opening / "target")
    app.button(key="models-use").click().run()
    (first, *_) = read_stage(app)["payload"]["rounds"]
    assert {chip["status"] for chip in first["chips"]} <= {"accepted", "behind"}
    assert min(chip["threshold"] for chip in first["chips"]) > 0.9999  # one pass over a block and four over a token, in float32
    assert not app.exception


def test_a_run_waits_for_its_place_and_says_so_and_the_page_looks_again_by_itself(app, monkeypatch):
    queue = FairQueue(places=1, time_slice=1e9, short=1e9, overdue=1e9)
    held = queue.submit(lambda ticket: [(time.sleep(0.01), ticket.tick()) for _ in range(100_000)], is_brief=True)
    app.session_state["one_round"].queue = queue
    monkeypatch.setattr(session, "PROMPT", 0.05)
    held._worked = 0.0
    app.number_input(key="fold-gamma-0").set_value(2).run()
    assert read_stage(app)["busy"] == "Waiting for one of 1 places, 0 ahead …" and read_stage(app)["mode"] == "recorded"
    held.cancel()
    assert app.session_state["one_round"].ticket.ended.wait(60)
    app.run()
    assert (read_stage(app)["mode"], read_stage(app)["busy"]) == ("live", None)


def test_a_page_whose_work_ends_while_it_is_drawn_is_drawn_again_with_what_was_found(app, monkeypatch):
    queue, row = FairQueue(places=1, time_slice=1e9, short=1e9), page_head.show_head_row
    held = queue.submit(lambda ticket: [(time.sleep(0.01), ticket.tick()) for _ in range(100_000)], is_brief=True)
    state = app.session_state["one_round"]
    state.queue = queue
    monkeypatch.setattr(session, "PROMPT", 0.05)

    def draw_row_later(*given):
        held.cancel()
        assert state.ticket.ended.wait(60)
        row(*given)

    monkeypatch.setattr(page_head, "show_head_row", draw_row_later)
    app.number_input(key="fold-gamma-0").set_value(2).run()
    assert (read_stage(app)["mode"], read_stage(app)["busy"]) == ("live", None)


def test_work_for_a_run_that_is_no_longer_asked_for_writes_nothing(app):
    """A click while a round is worked out asks for another run; the first one's work, which ends later, finds its request gone."""
    state = OneRoundState(cache.load_recording(), FairQueue())
    state.choose(replace(state.run.settings, gamma=2))
    begun, go_on, ended = threading.Event(), threading.Event(), []

    def finish_late(state, ticket, request):
        begun.set()
        go_on.wait(30)
        state.show_finished(state.recording, request)
        state.reject_request("late", "pair", request)
        ended.append(request)

    state.submit_request(finish_late)
    assert begun.wait(30)
    state.choose(state.run.settings)  # back to what is shown: nothing is asked any more
    before = state.run
    state.submit_request(finish_late)
    go_on.set()
    for _ in range(3000):
        if ended:
            break
        time.sleep(0.01)
    assert ended and state.run is before and state.request is None and state.notes == []


def test_a_script_run_that_was_overtaken_changes_nothing(app):
    state = OneRoundState(cache.load_recording(), FairQueue())
    state.begin_script_run()
    younger = threading.Thread(target=state.begin_script_run)
    younger.start(), younger.join()
    state.applied_fields = {"gamma": 1}
    state.apply_fields({"gamma": 9}, lambda raw, base: pytest.fail("overtaken"))
    state.handle_event({"kind": "live", "at": {"round": 0, "step": 0}})
    assert state.request is None and state.applied_fields == {"gamma": 1}


class Interruption:
    """Another request of the same visitor, which ends the script run at its next look at the requests: once, when ``when`` says.

    sent  the addresses that left for the browser
    """

    def __init__(self, monkeypatch, when):
        self.when, self.states, self.looks, self.sent = when, None, 0, []
        look, send = ScriptRunner._maybe_handle_execution_control_request, ScriptRunner._enqueue_forward_msg

        def looking(runner):
            if runner._execing:
                self.looks += 1
                self._press(runner, None)
            look(runner)

        def sending(runner, message):
            self._press(runner, message)
            send(runner, message)  # looks at the requests first
            if message.WhichOneof("type") == "page_info_changed":
                self.sent.append(message.page_info_changed.query_string)

        monkeypatch.setattr(ScriptRunner, "_maybe_handle_execution_control_request", looking)
        monkeypatch.setattr(ScriptRunner, "_enqueue_forward_msg", sending)

    def _press(self, runner, message):
        if self.when and self.when(self, message):
            self.when = None
            page = get_script_run_ctx().page_script_hash  # as a browser names the page that it shows
            runner._requests.request_rerun(RerunData(widget_states=self.states, query_string="", page_script_hash=page))


def test_a_click_while_the_address_is_on_its_way_does_not_lose_it(app, monkeypatch):
    click = Interruption(
        monkeypatch, lambda _, message: message is not None and message.WhichOneof("type") == "page_info_changed"
    )
    app.text_input(key="fold-temperature-0").set_value("0.8")
    click.states = app._tree.get_widget_states()
    app.run()
    assert click.when is None, "nothing was interrupted"
    assert "temperature 0.8" in read_stage(app)["payload"]["status"]
    assert click.sent and "temperature=0.8" in click.sent[-1]


@pytest.mark.fast_cases(5)
@pytest.mark.parametrize("looks", range(1, 26, 2))
def test_a_click_at_any_moment_of_the_first_paint_leaves_a_whole_page(app, monkeypatch, looks):
    click = Interruption(monkeypatch, lambda click, _: click.looks == looks)
    other = AppTest.from_file(str(ROOT / "app.py"), default_timeout=120).switch_page("pages/one_round.py").run()
    assert click.when is None, "nothing was interrupted"
    assert not other.exception
    assert (read_stage(other)["mode"], other.text_input(key="fold-temperature-0").value) == ("recorded", "1")
