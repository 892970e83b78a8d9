"""Errors of settings, links and fields as a person would say them: every one is made here and read."""

from __future__ import annotations

import pickle
import re

import pytest

from specviz.errors import Described, SettingsError, TooLongError
from specviz.settings import PROMPT_MAX, SETTINGS, Settings
from specviz.web.common.controls import FIELDS, read_fields
from specviz.web.common.error_sentences import NOUNS, explain_error, explain_left_out, name_setting

BAD = ("", "abc", "-1", "1e9", "nan", "x" * (PROMPT_MAX + 1), "a\x07")


def list_sentences() -> list[str]:
    """What every setting says of every bad value, in a link and, where a page has a field for it, in that."""
    found = []
    for name in SETTINGS:
        for text in BAD:
            found += Settings.from_query({name: text})[1]
            if name in FIELDS:
                found += read_fields({name: text}, Settings())[1]
    return found


def test_no_error_sentence_has_a_field_name_or_quotes_around_nothing():
    """A hyphen is no field name where the page itself writes it: top-k, top-p and min-p."""
    said = list_sentences()
    assert len(said) > 60
    names = "|".join(name.replace("_", "[-_]") for name in SETTINGS if "_" in name and name not in ("top_k", "top_p", "min_p"))
    for sentence in said:
        around = re.sub(r"--[a-z-]+", "", sentence)  # an option that a sentence tells to use
        assert not re.search(rf"\b({names}|dtype)\b", around), sentence
        assert "''" not in sentence and '""' not in sentence and sentence[0].isupper() and sentence.endswith("."), sentence
        assert "  " not in sentence and not re.search(r"\d{5,}", re.sub(r"'[^']*'|to \d+|got \S+", "", sentence)), sentence


def test_a_text_that_is_too_long_is_said_as_a_person_would():
    error = TooLongError("prompt", 46_000, 20_000)
    assert str(error) == "The prompt is too long: 46,000 characters, at most 20,000."
    assert explain_error(error) == str(error) == str(pickle.loads(pickle.dumps(error)))
    assert explain_left_out(error) == "The link's prompt was left out: it is too long: 46,000 characters, at most 20,000."
    with pytest.raises(TooLongError):
        Settings(prompt="x" * (PROMPT_MAX + 1))


def test_a_setting_has_its_noun_and_a_described_value_no_quotes():
    error = SettingsError("max-new-tokens", Described("7 of them"), "at most 4")
    assert explain_error(error) == "The number of new tokens must be at most 4, got 7 of them."
    assert str(SettingsError("temperature", "", "a number")) == "temperature must be a number, got nothing."
    assert str(error).startswith("max-new-tokens must be"), "a command line names the option"
    assert name_setting("c") == NOUNS["c"] and name_setting("something else") == "something else"
