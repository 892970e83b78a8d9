"""The pair in force: named on every page, checked, downloaded and used in one panel, kept across pages and reloads, and let go where it has gone."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest
from streamlit.runtime.pages_manager import PagesManager
from streamlit.testing.v1 import AppTest

from specviz.errors import CancelledError
from specviz.jobs.queue import FairQueue
from specviz.models.pairs.catalog import PAIRS
from specviz.models.pairs.names import PairPlaces
from specviz.settings import Settings
from specviz.speed.prediction.preflight import check_pair
from specviz.web.common import frame, pairs, session
from specviz.web.drafting_methods.state import MethodsQuestion
from specviz.web.exactness.state import ExactnessQuestion
from specviz.web.hosting import cache, model_loading, warmup
from specviz.web.mistakes.state import MistakeQuestion
from specviz.web.pair_picker import words, work
from specviz.web.pair_picker.state import PairPickerState, PairRequest
from specviz.web.serving_limits.state import SetupsQuestion
from specviz.web.speed.state import SpeedQuestion, SpeedState
from specviz.web.whole_text.state import PassageRequest
from tests.helpers.pages import FreeTicket, check_pair_in_panel, open_panel, settle
from tests.helpers.web_pair import write_opening
from tests.web.one_round.test_page import read_stage, skip_first_run

ROOT = Path(__file__).resolve().parents[3]
RECORDED = ("one_token", "questions", "summary")  # pages that ask nothing and draw a run that is there
COMPUTE = [name for name in frame.PAGES if name not in RECORDED]
STRANGER = PairPlaces("owner/big", "owner/small@v2").name


@pytest.fixture(scope="module")
def opening(tmp_path_factory):
    return write_opening(tmp_path_factory.mktemp("opening"))


@pytest.fixture
def tiny(opening, monkeypatch):
    """The app on the tiny pair; ``own`` is the same pair as one of the visitor's own."""
    places = {"target": str(opening / "target"), "draft": str(opening / "draft")}
    monkeypatch.setitem(PAIRS, "storybook", replace(PAIRS["storybook"], is_shipped=False, **places))
    monkeypatch.setattr(cache, "RECORDING", opening / "opening.json")
    monkeypatch.setattr(PagesManager, "__init__", skip_first_run(PagesManager.__init__))
    monkeypatch.setattr(session, "PROMPT", 60.0)
    cache.load_recording.cache_clear()
    warmup.start()
    assert warmup.wait(120)
    yield opening
    cache.load_recording.cache_clear()
    cache.load_weights.cache_clear()


@pytest.fixture
def own_pair(tiny, tmp_path):
    """A pair of one's own in a folder with a space in its name."""
    folder = tmp_path / "my models"
    shutil.copytree(tiny / "target", folder / "target")
    shutil.copytree(tiny / "draft", folder / "draft")
    return PairPlaces(str(folder / "target"), str(folder / "draft")).name


def open_app(**query: str) -> AppTest:
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=120)
    for key, value in query.items():
        app.query_params[key] = value
    return app.switch_page("pages/one_round.py").run()


def read_models_label(app: AppTest) -> str:
    """What the line says."""
    (found,) = [one.proto.popover.label for one in app.get("popover") if one.proto.popover.label.startswith("Models:")]
    return found.replace("\\", "")


def read_sentences(app: AppTest) -> str:
    notices = [
        sentence
        for one in app.get("bidi_component")
        for sentence in json.loads(one.proto.mixed.json or one.proto.json).get("notices", ())
    ]
    return "\n".join([*notices, *(one.value for one in app.text)])


def use_pair(app: AppTest, pair: str, page: str = "one_round") -> AppTest:
    """The app after the pair was checked and put in force in the panel."""
    target, draft = pair.split("|")
    check_pair_in_panel(app, target, draft, page=page)
    return app.button(key="models-use").click().run()


def test_every_page_names_the_pair_in_force(tiny):
    app = open_app()
    for page in frame.PAGES:
        assert read_models_label(app.switch_page(f"pages/{page}.py").run()) == "Models: Storybook"
        assert not app.exception


def test_a_pair_of_ones_own_is_checked_used_kept_across_pages_and_remembered(own_pair, monkeypatch):
    app = use_pair(open_app(), own_pair)
    assert read_models_label(app) == "Models: target with draft" and read_stage(app)["mode"] == "live"
    assert app.query_params["pair"] == own_pair and pairs.load_recent_pairs() == (own_pair,)
    assert app.session_state["models-fold-one_round"] is False, "the panel closes"
    for page in COMPUTE[1:]:
        monkeypatch.setattr("specviz.web.common.page_state.PageState.submit", lambda *_: None)  # nothing is computed for it here
        app.switch_page(f"pages/{page}.py").run()
        assert not app.exception and read_models_label(app) == "Models: target with draft"
        assert app.session_state[page].pair == own_pair
        settings = app.session_state[page].question.settings
        assert settings.pair == own_pair
        recorded = page not in ("exactness", "mistakes", "classroom", "speed")
        assert not recorded or "not of target with draft" in read_sentences(app), "what is recorded says whose it is"
        if page == "speed":
            assert any("these models were not timed" in one.value for one in app.caption)


def test_a_page_that_was_open_before_follows_and_its_address_says_so(own_pair, monkeypatch):
    app = open_app().switch_page("pages/whole_text.py").run()
    assert app.session_state["whole_text"].pair == "storybook"
    use_pair(app, own_pair, "whole_text")
    assert app.session_state["whole_text"].pair == own_pair and app.query_params["pair"] == own_pair
    app.switch_page("pages/serving_limits.py").run()
    assert app.session_state["serving_limits"].pair == own_pair


@pytest.mark.fast_cases(4)
@pytest.mark.parametrize("page", COMPUTE)
def test_a_reload_brings_a_pair_back_that_was_used_here_and_no_other(own_pair, page, monkeypatch):
    monkeypatch.setattr("specviz.web.common.page_state.PageState.submit", lambda *_: None)
    monkeypatch.setattr("specviz.web.one_round.state.OneRoundState.submit_request", lambda *_: None)
    app = AppTest.from_file(str(ROOT / "pages" / f"{page}.py"), default_timeout=120)
    app.query_params["pair"], app.query_params["prompt"] = own_pair, "Once upon"
    app.run()
    assert app.session_state[page].pair == "storybook" and "Nothing was loaded" in read_sentences(app)
    assert app.session_state["models"].start.name == own_pair, "the panel has it to look at"
    pairs.remember_pair(own_pair)
    again = AppTest.from_file(str(ROOT / "pages" / f"{page}.py"), default_timeout=120)
    again.query_params["pair"], again.query_params["prompt"] = own_pair, "Once upon"
    again.run()
    assert (
        not again.exception and again.session_state[page].pair == own_pair and "Nothing was loaded" not in read_sentences(again)
    )
    assert read_models_label(again) == "Models: target with draft"


@pytest.mark.fast_cases(4)
@pytest.mark.parametrize("page", COMPUTE)
def test_a_pair_that_has_gone_gives_a_sentence_and_the_default_pair_and_nothing_else_is_lost(own_pair, page, monkeypatch):
    monkeypatch.setattr("specviz.web.common.page_state.PageState.submit", lambda *_: None)
    monkeypatch.setattr("specviz.web.one_round.state.OneRoundState.submit_request", lambda *_: None)
    pairs.remember_pair(own_pair)
    shutil.rmtree(Path(own_pair.split("|")[0]))
    app = AppTest.from_file(str(ROOT / "pages" / f"{page}.py"), default_timeout=120)
    query = {"pair": own_pair, "text" if page == "speed" else "prompt": "A little rabbit"}
    for key, value in query.items():
        app.query_params[key] = value
    app.run()
    state = app.session_state[page]
    assert not app.exception and state.pair == "storybook" and read_models_label(app) == "Models: Storybook"
    assert "is not here any more: there is no folder" in read_sentences(app)
    asked = state.question.text if page == "speed" else (state.request if page == "one_round" else state.question).settings.prompt
    assert asked == "A little rabbit"


def test_a_folder_that_is_removed_in_the_middle_is_said_on_the_next_page(own_pair, monkeypatch):
    app = use_pair(open_app(), own_pair)
    shutil.rmtree(Path(own_pair.split("|")[1]))
    app.switch_page("pages/whole_text.py").run()
    assert "is not here any more" in read_sentences(app) and app.session_state["whole_text"].pair == "storybook"
    assert read_models_label(app) == "Models: Storybook" and not app.exception


def test_why_it_is_exact_says_whose_run_its_distributions_are(own_pair):
    app = open_app().switch_page("pages/one_token.py").run()
    assert "These numbers" not in read_sentences(app)
    app.session_state[session.PAIR] = own_pair
    app.run()
    assert "These numbers are those of Storybook, not of target with draft. Open One round to run it." in read_sentences(app)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("page", RECORDED)
def test_a_page_of_recorded_runs_keeps_the_pair_in_its_address_and_takes_one_that_was_used_here_from_it(own_pair, page):
    app = use_pair(open_app(), own_pair).switch_page(f"pages/{page}.py").run()
    assert app.query_params["pair"] == own_pair
    again = AppTest.from_file(str(ROOT / "pages" / f"{page}.py"), default_timeout=120)
    again.query_params["pair"] = own_pair
    assert read_models_label(again.run()) == "Models: target with draft" and "Nothing was loaded" not in read_sentences(again)
    other = AppTest.from_file(str(ROOT / "pages" / f"{page}.py"), default_timeout=120)
    other.query_params["pair"] = STRANGER
    assert read_models_label(other.run()) == "Models: Storybook" and "Nothing was loaded" in read_sentences(other)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("page", RECORDED)
def test_a_page_of_recorded_runs_lets_go_of_the_pair_in_its_address_with_the_pair(own_pair, page):
    app = use_pair(open_app(), own_pair).switch_page(f"pages/{page}.py").run()
    app.session_state[session.PAIR] = "storybook"  # chosen in the panel; the browser's address is a moment old
    assert read_models_label(app.run()) == "Models: Storybook" and "pair" not in app.query_params
    app.query_params["pair"] = own_pair
    assert read_models_label(app.run()) == "Models: Storybook", "an address that is late changes nothing"


def test_a_recent_pair_is_in_the_list_and_in_force_when_it_is_chosen(own_pair):
    pairs.remember_pair(own_pair)
    app = open_panel(open_app())
    field = app.selectbox(key=f"models-known-{app.session_state['models'].turn}")
    assert field.options == [*(one.title for one in PAIRS.values()), "target with draft"]
    field.select(own_pair).run()
    assert read_models_label(app) == "Models: target with draft" and read_stage(app)["mode"] == "live"


def test_a_recent_pair_that_has_gone_is_a_sentence_and_changes_nothing(own_pair):
    pairs.remember_pair(own_pair)
    shutil.rmtree(Path(own_pair.split("|")[0]))
    app = open_panel(open_app())
    app.selectbox(key=f"models-known-{app.session_state['models'].turn}").select(own_pair).run()
    assert "is not here any more" in read_sentences(app) and read_models_label(app) == "Models: Storybook"


def test_the_catalog_alone_is_offered_where_the_server_is_for_others(tiny, serve):
    pairs.remember_pair(STRANGER)
    serve(mode="hosted")
    app = open_panel(open_app(pair=STRANGER))
    assert "is not in the catalog" in read_sentences(app)
    assert [one.key for one in app.text_input if one.key.startswith("models")] == []
    field = app.selectbox(key=f"models-known-{app.session_state['models'].turn}")
    assert field.options == [one.title for one in PAIRS.values()]
    field.select("storybook-plain").run()
    assert read_models_label(app) == "Models: Storybook, plain draft" and app.query_params["pair"] == "storybook-plain"


def test_what_stands_in_a_pairs_way_is_a_sentence_and_no_button_uses_it(tiny):
    app = check_pair_in_panel(open_app(), tiny / "target", "nobody")
    assert "'nobody' is neither a folder on this machine nor a hub name" in read_sentences(app)
    assert "models-use" not in [one.key for one in app.button] and read_models_label(app) == "Models: Storybook"
    app.text_input(key=f"models-target-{app.session_state['models'].turn}").set_value("a|b").run()
    assert "without the sign |" in read_sentences(app)


def test_what_is_not_known_of_a_model_is_not_told_as_a_fact(pair_folders):
    found = check_pair(str(pair_folders[0]), "/nowhere/at/all", device="cpu", probe=False)
    lines = {line[""]: line for line in words.build_check_rows(found)}
    assert lines["context"]["target"] == f"{found.target.context:,} tokens" and found.target.context
    assert lines["context"]["draft"] == lines["parameters"]["draft"] == "not known"
    unlimited = replace(found, target=replace(found.target, context=None))
    assert {line[""]: line["target"] for line in words.build_check_rows(unlimited)}["context"] == "no limit named"


def test_what_was_checked_counts_until_a_field_changes(own_pair):
    target, draft = own_pair.split("|")
    app = check_pair_in_panel(open_app(), target, draft)
    assert "models-use" in [one.key for one in app.button]
    app.checkbox(key=f"models-rounded-{app.session_state['models'].turn}").check().run()
    assert "models-use" not in [one.key for one in app.button] and app.session_state["models"].check is None


def test_names_with_markup_stay_the_text_that_they_are(tiny):
    """In the line's label signs of markdown are escaped; the table escapes HTML; sentences are plain text."""
    app = check_pair_in_panel(open_app(), "<img src=x onerror=alert(1)>/$x$", ":red[a]")
    page = "".join(one.proto.body for one in app.get("html"))
    assert "models-table" in page and "<img" not in page
    assert "<img src=x onerror=alert(1)>/$x$" in read_sentences(app)


def test_how_fast_takes_the_pairs_draft_and_the_catalogs_drafts_are_pairs():
    start_ = SpeedQuestion("text")
    own = start_.with_pair(STRANGER)
    assert (own.choice.draft, own.settings.pair, own.settings.proposer) == ("draft", STRANGER, "draft")
    copied = replace(own, choice=replace(own.choice, draft="ngram"))
    assert (copied.settings.pair, copied.settings.proposer) == (STRANGER, "ngram")
    assert own.with_pair("storybook-plain") == start_.with_pair("storybook-plain")
    assert start_.with_pair("storybook-plain").choice.draft == "storybook-plain"
    chosen = replace(start_, choice=replace(start_.choice, draft="storybook-plain"))
    assert chosen.pair == "storybook-plain" == SpeedState(chosen, FairQueue()).pair


@pytest.mark.parametrize(
    "question",
    (
        PassageRequest(Settings(pair=STRANGER, prompt="a", max_new_tokens=64, gamma=2)),
        ExactnessQuestion(Settings(pair=STRANGER, prompt="a", max_new_tokens=2)),
        MistakeQuestion(Settings(pair=STRANGER, prompt="a")),
        SetupsQuestion(Settings(pair=STRANGER, prompt="a")),
        SpeedQuestion("a text").with_pair(STRANGER),
        SpeedQuestion("one\ntwo", lines=True).with_pair(STRANGER),
        MethodsQuestion(Settings(pair=STRANGER, prompt="a")),
    ),
    ids=lambda one: type(one).__name__,
)
def test_a_link_with_a_pair_that_was_used_here_leads_to_what_it_was_made_from(question):
    pairs.remember_pair(STRANGER)
    found, said = type(question).from_link(question.build_link(), Settings())
    assert said == [] and found.settings.pair == STRANGER and found.build_link() == question.build_link()


@pytest.mark.parametrize(
    "page", (PassageRequest, ExactnessQuestion, MistakeQuestion, SetupsQuestion, SpeedQuestion, MethodsQuestion)
)
def test_a_link_with_a_pair_alone_asks_that_pair_what_its_page_asks_by_itself(page):
    pairs.remember_pair(STRANGER)
    base = Settings(prompt="Once upon a time", seed=16)
    (found, said), (usual, _) = page.from_link({"pair": STRANGER}, base), page.from_link({}, base)
    assert said == [] and found.settings.pair == STRANGER
    mine = {"pair", "draft"}  # How fast? offers the drafts of its pair
    assert {k: v for k, v in found.build_link().items() if k not in mine} == {
        k: v for k, v in usual.build_link().items() if k not in mine
    }


def test_recent_pairs_are_few_the_latest_first_and_a_damaged_list_is_begun_anew(caplog):
    names = [PairPlaces(f"owner/t{n}", "owner/d").name for n in range(pairs.MOST + 3)]
    for name in names:
        pairs.remember_pair(name)
    pairs.remember_pair(names[-3])
    assert pairs.load_recent_pairs()[:3] == (names[-3], names[-1], names[-2]) and len(pairs.load_recent_pairs()) == pairs.MOST
    pairs.remember_pair("storybook")
    assert "storybook" not in pairs.load_recent_pairs(), "the catalog is there anyway"
    pairs.locate_recent_pairs().write_text('{"schema": "specviz-pairs-1", "pairs": [1]}')
    assert pairs.load_recent_pairs() == ()
    pairs.remember_pair(STRANGER)
    assert pairs.load_recent_pairs() == (STRANGER,)
    pairs.locate_recent_pairs().write_text("not ours")
    pairs.remember_pair(names[0])
    assert pairs.locate_recent_pairs().read_text() == "not ours", "another program's file stays as it is"


def test_a_pair_is_named_by_what_tells_its_models_apart():
    assert pairs.title_pair("/a/target|/b/draft|8bit") == "target with draft in 8 bits"
    assert pairs.title_pair("/big/model|/small/model") == "big/model with small/model"
    assert pairs.title_pair("Qwen/Qwen3-8B@main|Qwen/Qwen3-0.6B") == "Qwen/Qwen3-8B@main with Qwen/Qwen3-0.6B"
    assert pairs.title_pair("storybook") == PAIRS["storybook"].title and pairs.name_pair("storybook") == "Storybook"
    assert pairs.describe_missing_folder(STRANGER) == "" == pairs.describe_missing_folder("storybook"), (
        "a hub name is asked when it is loaded"
    )


@pytest.fixture
def checked_state(hub, pair_folders, monkeypatch):
    """The panel's state after the check of a pair of the hub, nothing of which is here."""
    monkeypatch.setattr(model_loading, "wait_for_libraries", lambda ticket: None)
    for folder in pair_folders:
        hub.add(f"owner/{folder.name}", folder)
    state = PairPickerState(PairRequest("owner/target@v1.0", "owner/draft", device="cpu"), FairQueue())
    work.check_pair(state, FreeTicket(), state.question)
    return state


def test_a_pair_of_the_hub_is_checked_then_downloaded_and_then_usable(checked_state, hub):
    assert (
        checked_state.check.ready
        and checked_state.check.download_bytes > 0
        and not checked_state.is_usable
        and hub.contents() == []
    )
    assert {line[""]: line["target"] for line in words.build_check_rows(checked_state.check)}["revision"].startswith("v1.0: ")
    ticket = FreeTicket()
    work.download_pair(checked_state, ticket, checked_state.question)
    assert checked_state.is_usable and checked_state.check.download_bytes == 0 and ticket.shares[-1] == 1.0
    assert {line[""]: line["draft"] for line in words.build_check_rows(checked_state.check)}["to download"].endswith("here")


def test_a_download_that_is_stopped_says_that_what_arrived_is_kept_and_goes_on_from_there(checked_state, hub):
    whole, ticket = checked_state.check.download_bytes, FreeTicket(1)
    hub.slow, hub.piece = 0.15, 1 << 14
    with pytest.raises(CancelledError):
        work.download_pair(checked_state, ticket, checked_state.question)
    assert (
        "The part that has arrived is kept" in checked_state.notes[0]
        and not checked_state.is_usable
        and checked_state.check.download_bytes < whole
    )
    hub.slow, ticket = 0.0, FreeTicket()
    work.download_pair(checked_state, ticket, checked_state.question)
    assert checked_state.is_usable


def test_a_check_that_is_stopped_leaves_the_panel_as_it_was(pair_folders, monkeypatch):
    monkeypatch.setattr(model_loading, "wait_for_libraries", lambda ticket: None)
    state, ticket = PairPickerState(PairRequest(*map(str, pair_folders), device="cpu"), FairQueue()), FreeTicket(1)
    with pytest.raises(CancelledError):
        work.check_pair(state, ticket, state.question)
    assert state.check is None


def test_progress_stands_below_the_line_while_the_panel_is_closed(tiny):
    app = open_app()
    state = app.session_state["models"]
    state.submit(lambda state, ticket: [(ticket.tick(0.4, "Downloading"), time.sleep(0.01)) for _ in range(5000)])
    app.run()
    assert "models-stop" in [one.key for one in app.button]
    state.stop()
    settle(app, "models")
    assert "models-stop" not in [one.key for one in app.button]
