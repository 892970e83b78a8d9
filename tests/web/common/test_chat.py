"""A chat message on One round and Whole text: written with the pair's own template into the prompt, which shows what the model reads."""

from __future__ import annotations

import json
import shutil

import pytest

from specviz.models.pairs.names import PairPlaces
from specviz.web.common import pairs
from specviz.web.hosting import cache
from tests.models.test_chat import TEMPLATE
from tests.web.pair_picker.test_panel import open_app, opening, read_sentences, tiny  # noqa: F401

WRITTEN = "<user>Who is <b>$x$</b>?<assistant>"


@pytest.fixture
def chat_pair(tiny, tmp_path):  # noqa: F811
    """A pair of one's own with a chat template, used here before."""
    for name in ("target", "draft"):
        folder = shutil.copytree(tiny / name, tmp_path / name)
        path = folder / "tokenizer_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"chat_template": TEMPLATE}))
    pair = PairPlaces(str(tmp_path / "target"), str(tmp_path / "draft")).name
    pairs.remember_pair(pair)
    return pair


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(("page", "prompt"), (("one_round", "fold-prompt"), ("whole_text", "whole_text-prompt")))
def test_a_message_becomes_the_prompt_as_the_template_writes_it(chat_pair, page, prompt):
    cache.load_weights(chat_pair, "auto", "auto")
    app = open_app(pair=chat_pair, prompt="Once upon", **({"max_new_tokens": "64"} if page == "whole_text" else {}))
    if page == "whole_text":
        app.switch_page("pages/whole_text.py").run()
    turn = app.session_state[page].turn
    app.text_area(key=f"{page}-chat-{turn}").set_value("Who is <b>$x$</b>?").run()
    app.button(key=f"{page}-chat-go").click().run()
    state = app.session_state[page]
    shown = app.text_area(key=f"{prompt}-{state.turn}").value
    assert not app.exception and shown.endswith(WRITTEN)
    assert (
        (state.request or state.run).settings.prompt == shown if page == "one_round" else state.question.settings.prompt == shown
    )
    assert app.query_params["prompt"] == shown, "a link holds the text"


def test_a_chat_of_several_messages_and_the_template_itself(chat_pair):
    cache.load_weights(chat_pair, "auto", "auto")
    app = open_app(pair=chat_pair, prompt="Once upon")
    field = app.text_area(key=f"one_round-chat-{app.session_state['one_round'].turn}")
    assert [one.value for one in app.code if one.value == TEMPLATE] == [TEMPLATE]
    field.set_value("assistant: a").run()
    app.button(key="one_round-chat-go").click().run()
    assert "ends with a message of the user" in read_sentences(app) and app.session_state["one_round"].turn == 0
    field.set_value("user: a\nassistant: b\nuser: c").run()
    app.button(key="one_round-chat-go").click().run()
    state = app.session_state["one_round"]
    assert not app.exception
    assert (state.request or state.run).settings.prompt.endswith("<user>a<assistant>b<user>c<assistant>")


def test_a_pair_without_a_template_offers_no_message(tiny):  # noqa: F811
    cache.load_weights("storybook", "auto", "auto")
    app = open_app(prompt="Once upon")
    assert not [one for one in app.text_area if "chat" in one.key]
