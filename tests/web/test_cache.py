"""What visitors share is found out once, and the least used of it is forgotten."""

from __future__ import annotations

import pytest

from specviz.web.jobs.cache import Answers


def test_an_answer_is_found_once_for_all_who_ask_the_same():
    answers, asked = Answers(2), []
    for question in ("a", "a", "b", "a"):
        assert answers.of(question, lambda question=question: asked.append(question) or question.upper()) == question.upper()
    assert asked == ["a", "b"]


def test_the_answer_that_was_used_longest_ago_is_forgotten_first():
    answers, asked = Answers(2), []
    for question in ("a", "b", "a", "c", "a", "b"):
        answers.of(question, lambda question=question: asked.append(question))
    assert asked == ["a", "b", "c", "b"]


def test_work_that_was_stopped_leaves_no_answer():
    answers = Answers(2)
    with pytest.raises(KeyboardInterrupt):
        answers.of("a", lambda: (_ for _ in ()).throw(KeyboardInterrupt))
    assert answers.of("a", lambda: 1) == 1
