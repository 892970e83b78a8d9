"""Links of the pages that measure a prompt: what they write into the address, and what they read from it. No Streamlit session here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from specviz.errors import SettingsError
from specviz.settings import Settings
from specviz.web.common.access import linked
from specviz.web.common.page import known_pair

Question = TypeVar("Question")


def of_prompt(settings: Settings) -> dict[str, str]:
    """Query parameters of a pair and a prompt; the default pair is left out."""
    pair = {key: value for key, value in settings.to_query().items() if key == "pair"}
    return pair | {"prompt": settings.prompt}


def prompt_of(query: Mapping[str, str], start: Settings, base: Settings) -> tuple[Settings, list[str]]:
    """Settings with a link's prompt and pair, and a sentence for each that was left out.

    start  what the page begins with; base  settings of the page One round, whose pair is allowed as well
    """
    mine = {key: query[key] for key in ("prompt", "pair") if key in query}
    found, said = linked(mine)
    settings, unknown = known_pair(replace(start, **{key: getattr(found, key) for key in mine}), base)
    return settings, said + unknown


def values_of(
    query: Mapping[str, str], question: Question, put: Mapping[str, Callable[[Question, str], Question]]
) -> tuple[Question, list[str]]:
    """A question with a link's other values, and a sentence for each that was left out.

    put  parameter -> the question with its text as a value; raises SettingsError for a text that cannot be used
    """
    said = []
    for name in filter(query.__contains__, put):
        try:
            question = put[name](question, query[name])
        except SettingsError as error:
            said.append(f"The link's {name} was left out: {error}")
    return question, said
