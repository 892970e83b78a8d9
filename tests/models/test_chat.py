"""The text of a chat is the one whose tokens a server's chat endpoint gives the model, the start token once."""

from __future__ import annotations

import pytest

from specviz.errors import ModelError, SettingsError
from specviz.models.pairs.chat import apply_template, find_template, parse_messages
from specviz.models.pairs.loading import load_tokenizer

MESSAGES = [{"role": "user", "content": "Once upon"}]
TEMPLATE = "{{ bos_token }}{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"


@pytest.fixture
def tokenizer(pair_folders):
    """Of the tiny pair: it puts nothing before a text."""
    return load_tokenizer(str(pair_folders[0]))


def add_start_token(tokenizer):
    """The same tokenizer, putting its start token before every text, as those of Llama do."""
    from tokenizers.processors import TemplateProcessing

    bos = tokenizer.bos_token
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"{bos} $A", special_tokens=[(bos, tokenizer.bos_token_id)]
    )
    return tokenizer


@pytest.mark.parametrize("adds", [False, True])
def test_the_tokens_of_the_text_are_the_tokens_of_the_chat(tokenizer, adds):
    tokenizer.chat_template = TEMPLATE
    tokenizer = add_start_token(tokenizer) if adds else tokenizer
    chat = tokenizer.apply_chat_template(MESSAGES, add_generation_prompt=True, tokenize=True, return_dict=False)
    text = apply_template(tokenizer, MESSAGES)
    assert list(tokenizer.encode(text)) == list(chat) and list(chat).count(tokenizer.bos_token_id) == 1
    assert text.startswith(tokenizer.bos_token) is not adds


def test_a_tokenizer_without_a_template_is_a_sentence(tokenizer):
    tokenizer.chat_template = None
    with pytest.raises(ModelError, match="no chat template"):
        apply_template(tokenizer, MESSAGES)


def test_a_template_that_refuses_the_messages_says_why(tokenizer):
    tokenizer.chat_template = "{{ raise_exception('roles must alternate') }}"
    with pytest.raises(ModelError, match="refuses these messages: roles must alternate"):
        apply_template(tokenizer, MESSAGES)


def test_a_chat_that_no_text_stands_for_is_refused(tokenizer):
    """The tokenizer adds its start token, and the template has none."""
    tokenizer.chat_template = TEMPLATE.removeprefix("{{ bos_token }}")
    with pytest.raises(ModelError, match="no text stands for the chat's tokens"):
        apply_template(add_start_token(tokenizer), MESSAGES)


@pytest.mark.parametrize(
    ("text", "found"),
    (
        (" Who is there? ", [("user", "Who is there?")]),
        ("The user: asked", [("user", "The user: asked")]),
        ("user: a\n\nassistant: b\nc\nuser:\nd", [("user", "a"), ("assistant", "b\nc"), ("user", "d")]),
        ("system: be brief\nuser: hello", [("system", "be brief"), ("user", "hello")]),
    ),
)
def test_a_chat_is_read_as_people_type_one(text, found):
    assert [(one["role"], one["content"]) for one in parse_messages(text)] == found


@pytest.mark.parametrize(
    ("text", "said"),
    (
        ("hello\nuser: a", "each begin with system:, user:, assistant:"),
        ("user: a\nassistant: b", "ends with a message of the user"),
    ),
)
def test_a_chat_that_begins_or_ends_with_something_else_is_a_sentence(text, said):
    with pytest.raises(SettingsError, match=said):
        parse_messages(text)


def test_of_several_templates_the_one_for_chats_is_taken(tokenizer):
    tokenizer.chat_template = {"default": TEMPLATE, "tool_use": "{{ tools }}"}
    assert find_template(tokenizer) == TEMPLATE and apply_template(tokenizer, MESSAGES).endswith("<user>Once upon<assistant>")
    tokenizer.chat_template = {"tool_use": "{{ tools }}"}
    assert find_template(tokenizer) == ""
