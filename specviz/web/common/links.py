"""Reading links and writing addresses. No Streamlit session here.

A link that names a pair makes this machine look for folders and fetch models; one that names a device or a number type makes it load
the same weights again and drop others'. Both are allowed on a local server only (web/hosting/server_options.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import fields, replace
from typing import TypeVar

from specviz.errors import SettingsError
from specviz.settings import OLD_NAMES, SETTINGS, Settings
from specviz.web.common.error_sentences import explain_left_out, name_setting
from specviz.web.common.pairs import resolve_pair
from specviz.web.hosting.limits import check_text
from specviz.web.hosting.server_options import load_options

Question = TypeVar("Question")
SERVERS = tuple(name for name, one in SETTINGS.items() if one.setter == "host")  # settings that are the server's, not a link's
HOSTS = (*(name for name, one in SETTINGS.items() if one.setter != "anyone"), "pair")  # what makes a machine load, read or fetch
KEYS = {  # of links: a run's settings, and what single pages have besides
    *(field.name for field in fields(Settings)),
    *OLD_NAMES,
    *(
        "at",
        "preset",
        "from",
        "p",
        "q",
        "source",
        "mistake",
        "arm",
        "distribution",
        "row",
        "draft",
        "tab",
        "alpha",
        "c",
        "texts",
        "costs",
        "question",
        "present",
        "tour",
        "steer",
        "wall",
    ),
}
NAMED = 5  # unknown keys that a sentence names


def read_link(query: Mapping[str, str], own_pairs: bool | None = None) -> tuple[Settings, list[str]]:
    """Settings of a link, and a sentence for each value that was left out.

    Args:
        query: Parameters of the address.
        own_pairs: Whether visitors choose pair, device and number type; None: by the server's options.
    """
    own_pairs = load_options().own_pairs if own_pairs is None else own_pairs
    taken = {} if own_pairs else {name: query[name] for name in SERVERS if name in query}
    settings, said = Settings.from_query({name: value for name, value in query.items() if name not in taken})
    try:
        check_text("prompt", settings.prompt)
    except SettingsError as error:
        settings = replace(settings, prompt=Settings().prompt)
        said.append(explain_left_out(error))
    for name, asked in taken.items():
        if asked != (own := getattr(settings, name)):
            said.append(
                f"The link's {name_setting(name)} was left out: it asks for {asked[:60]!r}, and this server uses {own!r} for everyone."
            )
    return settings, said


def read_length(
    query: Mapping[str, str], lengths: Collection[int], default: int, allowed: str
) -> tuple[dict[str, str], list[str]]:
    """A link with a number of new tokens that a page offers, and a sentence if its own was left out.

    Args:
        query: Parameters of the address, under their present names.
        lengths: Numbers that the page offers.
        default: The one that it takes otherwise.
        allowed: ``lengths`` in words.
    """
    declared, length, said = SETTINGS["max_new_tokens"].with_changes(allowed=allowed), default, []
    if (text := query.get(declared.name)) is not None:
        try:
            if (found := declared.parse(text)) not in lengths:
                raise SettingsError(declared.label, found, allowed)
            length = found
        except SettingsError as error:
            said.append(explain_left_out(error))
    return {**query, declared.name: str(length)}, said


def list_host_settings(query: Mapping[str, str], shown_sentences: Iterable[str] = ()) -> list[str]:
    """A sentence for each value of a link that a hosted server does not take, except ``shown_sentences``, which the page shows already."""
    if load_options().own_pairs:
        return []
    found, mine = read_link({name: query[name] for name in HOSTS if name in query})
    mine += resolve_pair(found, Settings())[1]
    begun = tuple(sentence.partition(":")[0] for sentence in shown_sentences)
    return [sentence for sentence in mine if sentence.partition(":")[0] not in begun]


def list_unknown_keys(query: Iterable[str]) -> list[str]:
    """A sentence where an address has keys that no page knows: misspelled ones, and those of earlier versions."""
    names = [repr(key[:40]) for key in query if key not in KEYS]
    names[NAMED:] = [f"{more} more"] if (more := len(names) - NAMED) > 0 else []
    return [f"The link's {', '.join(names)} was left out: no page has a setting of this name."] if names else []


def build_prompt_query(settings: Settings) -> dict[str, str]:
    """Query parameters of a pair and a prompt; the default pair is left out."""
    pair = {key: value for key, value in settings.to_query().items() if key == "pair"}
    return pair | {"prompt": settings.prompt}


def read_prompt(query: Mapping[str, str], start: Settings, base: Settings) -> tuple[Settings, list[str]]:
    """Settings with a link's prompt and pair, and a sentence for each that was left out.

    Args:
        query: Parameters of the address.
        start: Settings that the page begins with.
        base: Settings of the page One round, whose pair is allowed as well.
    """
    mine = {key: query[key] for key in ("prompt", "pair") if key in query}
    found, said = read_link(mine)
    settings, unknown = resolve_pair(replace(start, **{key: getattr(found, key) for key in mine}), base)
    return settings, said + unknown


def read_values(
    query: Mapping[str, str], question: Question, put: Mapping[str, Callable[[Question, str], Question]]
) -> tuple[Question, list[str]]:
    """A question with a link's other values, and a sentence for each that was left out.

    Args:
        query: Parameters of the address.
        question: With its defaults.
        put: By parameter, a function that returns the question with a text as its value, or raises SettingsError.
    """
    said = []
    for name in filter(query.__contains__, put):
        try:
            question = put[name](question, query[name])
        except SettingsError as error:
            said.append(explain_left_out(error, name))
    return question, said
