"""A link with a number of new tokens that a page does not offer: one sentence, with the page's noun and the link's own value."""

from __future__ import annotations

import pytest

from specviz.settings import Settings
from specviz.web.classroom.state import Lesson
from specviz.web.exactness.state import ExactnessQuestion
from specviz.web.mistakes.state import MistakeQuestion
from specviz.web.whole_text.state import FALLBACK, PassageRequest

PAGES = {
    "exactness": (ExactnessQuestion, "a whole number from 1 to 4 on this page", 2),
    "whole_text": (PassageRequest, "one of 64, 128, 192 on this page", 128),
    "classroom": (Lesson, "a whole number from 1 to 4 in a room", 2),
}


@pytest.mark.parametrize("name", ("max_new_tokens", "length"))
@pytest.mark.parametrize("text", ("0", "abc", "9", "32"))
@pytest.mark.parametrize("page", PAGES)
def test_a_refused_number_of_new_tokens_gives_one_sentence(page, text, name):
    question, allowed, default = PAGES[page]
    found, said = question.from_link({name: text}, Settings())
    shown = text if text.isdecimal() else repr(text)
    assert said == [f"The link's number of new tokens was left out: it must be {allowed}, got {shown}."]
    assert found.settings.max_new_tokens == default


@pytest.mark.parametrize("page", PAGES)
def test_a_number_of_new_tokens_that_the_page_offers_is_taken(page):
    question, _, default = PAGES[page]
    other = {2: 3, 128: 64}[default]
    for name in ("max_new_tokens", "length"):
        found, said = question.from_link({name: str(other)}, Settings())
        assert (found.settings.max_new_tokens, said) == (other, [])


@pytest.mark.parametrize("name", ("max_new_tokens", "length"))
def test_a_mistakes_page_names_what_it_left_out_as_other_pages_do(name):
    said = MistakeQuestion.from_link({name: "0"}, Settings())[1]
    assert said == ["The link's number of new tokens was left out: each mistake brings the settings that show it."]


def test_a_refused_draft_length_leaves_the_pages_own():
    found, said = PassageRequest.from_link({"gamma": "99"}, Settings())
    assert found.settings.gamma == FALLBACK.gamma
    assert len(said) == 1 and "number of draft tokens per round was left out" in said[0]
