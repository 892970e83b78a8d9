"""Messages become the text that the model's own template makes of them, and that text encodes to what the template's ids are."""

from __future__ import annotations

import pytest

from specviz.errors import ModelError
from specviz.models.pairs.chat import templated
from specviz.models.pairs.loading import load_tokenizer

TEMPLATE = (
    "{{ bos_token }}{% for one in messages %}{% if one.role == 'system' and loop.index > 1 %}{{ raise_exception('system comes first') }}"
    "{% endif %}<{{ one.role }}> {{ one.content }}\n{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
)
ASKED = [{"role": "user", "content": "Who is the bear?"}]


@pytest.fixture
def tokenizer(pair_folders):
    """The tiny pair's, with a template, loaded anew: a template belongs to one test."""
    found = load_tokenizer(str(pair_folders[0]))
    found.chat_template = TEMPLATE
    return found


def test_the_text_ends_where_the_answer_begins_and_encodes_to_the_templates_ids(tokenizer):
    text = templated(tokenizer, [{"role": "system", "content": "Be brief."}, *ASKED])
    assert text.endswith("<system> Be brief.\n<user> Who is the bear?\n<assistant>")
    ids = tokenizer.apply_chat_template(ASKED, add_generation_prompt=True, tokenize=True, return_dict=False)
    assert tokenizer.encode(templated(tokenizer, ASKED)) == list(ids)


def test_a_start_token_that_the_tokenizer_adds_itself_is_not_there_twice(tokenizer, monkeypatch):
    plain = tokenizer.encode
    monkeypatch.setattr(tokenizer, "encode", lambda text: [tokenizer.bos_token_id, *plain(text)])
    text = templated(tokenizer, ASKED)
    assert not text.startswith(tokenizer.bos_token)
    assert tokenizer.encode(text).count(tokenizer.bos_token_id) == 1


def test_no_template_and_a_template_that_refuses_are_sentences(tokenizer):
    with pytest.raises(ModelError, match="refuses these messages: system comes first"):
        templated(tokenizer, [*ASKED, {"role": "system", "content": "Be brief."}])
    tokenizer.chat_template = None
    with pytest.raises(ModelError, match="has no chat template: write the prompt as plain text"):
        templated(tokenizer, ASKED)
