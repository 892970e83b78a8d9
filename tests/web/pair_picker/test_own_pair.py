"""A pair of one's own whose tokenizers differ, on every page that computes: the work ends, and the page says which share of the draft's
probability can be proposed. Random networks of two layers and one."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from specviz.models.pairs.names import PairPlaces
from specviz.web.common import pairs, session
from specviz.web.drafting_methods import state as methods_state
from specviz.web.drafting_methods import work as methods_work
from specviz.web.hosting import cache, warmup
from specviz.web.mistakes import work as mistakes_work
from specviz.web.serving_limits import work as setups_work
from specviz.web.speed import work as speed_work
from specviz.web.whole_text import work as text_work
from tests.helpers.foreign_pairs import write_foreign_pair
from tests.helpers.pages import settle
from tests.helpers.tiny_pairs import TEXT
from tests.web.pair_picker.test_panel import read_sentences

ROOT = Path(__file__).resolve().parents[3]
SHARE = "The tokenizers differ: 269 of the draft's 300 tokens are the target's too, and "
BUTTONS = {
    "one_round": None,
    "whole_text": "whole_text-write",
    "exactness": "exactness-draw-100",
    "mistakes": "mistakes-draw",
    "serving_limits": "serving_limits-run",
    "speed": "speed-run",
    "drafting_methods": "drafting_methods-run",
}


@pytest.fixture(scope="module")
def foreign(tmp_path_factory) -> str:
    return PairPlaces(*map(str, write_foreign_pair(tmp_path_factory.mktemp("foreign")))).name


@pytest.fixture(autouse=True)
def short_work(monkeypatch):
    """Work of a second or two instead of many."""
    sizes = {
        speed_work: {"TEXTS": 3, "OPENING": 8, "LENGTH": 12, "PROBES": 2, "GAMMAS": (1, 2, 3)},
        text_work: {"RUNS": 1},
        mistakes_work: {"TEXTS": 4},
        methods_work: {"RUNS": 1, "SAMPLES": 20},
        methods_state: {"LENGTH": 12},
        setups_work: {"TEXTS": 1, "LENGTH": 6, "POSITIONS": 4, "RUNS": 1, "TOKENS": 6, "GREEDY": 8},
    }
    for module, values in sizes.items():
        for name, value in values.items():
            monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(session, "PROMPT", 60.0)
    warmup.start()
    assert warmup.wait(120)
    yield
    cache.load_weights.cache_clear()


LONG = ("drafting_methods", "serving_limits")  # a dozen methods, a dozen setups: their own tests compute them on a tiny pair


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize("page", [pytest.param(page, marks=pytest.mark.slow) if page in LONG else page for page in BUTTONS])
def test_every_page_computes_with_it_and_says_what_the_draft_can_propose(page, foreign):
    pairs.remember_pair(foreign)
    app = AppTest.from_file(str(ROOT / "pages" / f"{page}.py"), default_timeout=120)
    app.query_params["pair"] = foreign
    app.query_params["text" if page == "speed" else "prompt"] = " ".join(TEXT) if page == "speed" else "the river"
    if page == "speed":
        app.query_params["tab"] = "text"  # there the button and what follows from it stand
    settle(app.run(), page)
    if BUTTONS[page]:
        app.button(key=BUTTONS[page]).click().run()
        settle(app, page)
    state, shown = app.session_state[page], read_sentences(app) + "\n".join(one.value for one in app.caption)
    assert not app.exception and state.pair == foreign and (state.ticket is None or state.ticket.state == "done"), state.notices
    assert SHARE in shown and "of the draft's probability could be proposed" in shown


@pytest.fixture
def prompts_page(foreign):
    """How fast? on the pair, reading its field as prompts."""
    pairs.remember_pair(foreign)
    app = AppTest.from_file(str(ROOT / "pages" / "speed.py"), default_timeout=120)
    for key, value in {"pair": foreign, "lines": "1", "text": "the river\nthe boat", "tab": "acceptance"}.items():
        app.query_params[key] = value
    return settle(app.run(), "speed")


def send_prompts(app: AppTest, content: bytes) -> AppTest:
    (field,) = [one for one in app.file_uploader if one.label == "or a file of them"]
    return field.set_value(("mine.txt", content, "text/plain")).run()


def test_a_file_of_prompts_is_planned_and_its_acceptance_shown_by_position(prompts_page):
    prompts = "the river\nthe children ran\na summer day"
    app = send_prompts(prompts_page, prompts.encode())
    state = app.session_state["speed"]
    assert state.question.text == prompts and state.question.lines
    app.button(key="speed-run").click().run()
    plan = settle(app, "speed").session_state["speed"].shown_result
    assert state.has_own_result and plan.of_prompts and plan.openings == 3, state.notices
    assert len(plan.positions) == 3 and all(0.0 <= one.low <= one.value <= one.high <= 1.0 for one in plan.positions)
    assert any(one.value == "### By position in a round of 3" for one in app.markdown)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    ("content", "sentence"),
    (
        (b"\xff\xfe\x00", "The file is not UTF-8 text"),
        (b"x" * 30_000, "The text is too long: 30,000 characters, at most 20,000."),
    ),
)
def test_a_file_of_prompts_that_cannot_be_used_is_a_sentence_and_the_field_stays(content, sentence, prompts_page):
    app = send_prompts(prompts_page, content)
    assert sentence in read_sentences(app) and app.session_state["speed"].question.text == "the river\nthe boat"
