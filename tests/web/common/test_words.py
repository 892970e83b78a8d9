"""The words of the pages: none that the field does not use, numbers with their leading zero, and every term with its definition."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from streamlit.runtime.pages_manager import PagesManager

from specviz.figures.pages_and_glossary import GLOSSARY, define_term
from specviz.web.common import frame
from specviz.web.hosting import warmup
from tests.web.common.test_frame import open_page
from tests.web.one_round.test_page import skip_first_run

NOT_THESE = {  # word or sign of a number -> what to say instead
    r"laws?": "distribution",
    r"guess(es|ed|ing)?": "draft token",
    r"coins?(?! u\b)": "random number, or coin u on the stage",
    r"refus(es|ed|al)": "rejected; of input: not accepted, left out",
    r"luck|lucky": "randomness, sampling noise",
    r"(target|(big|large|small) model) alone": "target-only sampling",
    r"big (model|one|pass)": "target model, target pass",
    r"never looked at": "not checked",
    r"heaps?": "sample file",
    r"shelf|shelves": "kv cache",
    r"gallery": "comparison",
    r"surroundings|around the rule": "serving setup",
    r"lineup": "drafting methods",
    r"turns?": "run, round",
    r"tokens? (is|are|was|were) kept|keeps a draft token|kept (guess|draft token)(es|s)?": "accepted",
}
NUMBER = re.compile(r"(?<![\w.)\]…%])\.\d")  # such as .73
QUIZ = r"guess(es|ed|ing)?"  # on Break it a visitor really guesses which decoder is wrong
UNREAD = {
    "id",
    "jsContent",
    "cssContent",
    "htmlContent",
    "componentName",
    "config",
    "arrowData",
    "data",
    "elementId",
    "formId",
    "url",
    "html",
}
QUOTED = re.compile(r"“[^”]*”|<q>.*?</q>|<style>.*?</style>|`[^`]*`|https?://\S+|python -m specviz .*|<[^>]*>", re.DOTALL)


@pytest.fixture(scope="module", params=list(frame.PAGES))
def page_and_app(request) -> tuple[str, Any]:
    """A page's name and the page as it opens, which tests only read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PagesManager, "__init__", skip_first_run(PagesManager.__init__))
        yield request.param, open_page(request.param)
    warmup.start()
    assert warmup.wait(120)


def iterate_nodes(node: Any) -> Iterator[Any]:
    yield node
    for child in getattr(node, "children", {}).values():
        yield from iterate_nodes(child)


def iterate_strings(value: Any) -> Iterator[str]:
    """Every text inside a record, but for identities, code and encoded data."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, one in value.items():
            if key not in UNREAD:
                yield from iterate_strings(one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from iterate_strings(one)


def iterate_texts(app: Any) -> Iterator[tuple[str, str]]:
    """(kind of element, text) of all that a page shows: labels, sentences, hovers, tables, payloads of components, figures."""
    for node in iterate_nodes(app._tree):
        proto = getattr(node, "proto", None)
        if proto is None:
            continue
        record = MessageToDict(proto)
        kind = type(proto).__name__
        for key in ("spec", "json", "columns"):
            if isinstance(record.get(key), str) and record[key][:1] in "{[":
                record[key] = json.loads(record[key])
        if kind == "Dataframe":
            record["columns"] = [record.get("columns"), [str(name) for name in node.value.columns]]
            record["cells"] = [cell for name in node.value for cell in node.value[name] if isinstance(cell, str)]
        if kind in ("Html", "Code"):
            record["text"] = record.pop("body", "") or record.pop("html", "")
        sentences = kind in ("BidiComponent", "PlotlyChart")
        for text in iterate_strings(record):
            if not sentences or len(text.split()) > 2:
                yield kind, QUOTED.sub(" ", text)


def list_wrong_words(page: str, text: str) -> list[str]:
    found = [
        f"{hit.group()!r}, say {instead}: …{text[max(0, hit.start() - 60) : hit.end() + 40]}…"
        for word, instead in NOT_THESE.items()
        if not (page == "mistakes" and word == QUIZ)
        for hit in re.finditer(rf"\b({word})\b", text, re.IGNORECASE)
    ]
    return found + [f"no leading zero: …{text[max(0, hit.start() - 40) : hit.end() + 20]}…" for hit in NUMBER.finditer(text)]


def test_a_page_says_it_in_the_fields_words(page_and_app):
    page, app = page_and_app
    assert not app.exception
    texts = list(iterate_texts(app))
    assert len(texts) > 40
    wrong = [f"{kind}: {one}" for kind, text in texts for one in list_wrong_words(page, text)]
    assert not wrong, "\n".join(dict.fromkeys(wrong))


@pytest.mark.parametrize(
    "text",
    (
        "The target's law.",
        "Two guesses are made.",
        "a coin shows",
        "The coin",
        "it was refused",
        "by luck",
        "The target alone",
        "p = .73",
        "TV .44",
        "three turns",
        "(.5 to .6)",
    ),
)
def test_a_word_that_is_put_back_is_found(text):
    assert list_wrong_words("one_round", text)


@pytest.mark.parametrize("text", ("coin u = 0.73", "top-p 0.9", "draws.csv", "lawn and turnip", "… .", "v1.2.3"))
def test_what_is_right_is_not_called_wrong(text):
    assert not list_wrong_words("one_round", text)
    assert list_wrong_words("one_round", "Your guess") and not list_wrong_words("mistakes", "Your guess")


def test_every_page_explains_its_terms_from_the_one_glossary(page_and_app):
    page, app = page_and_app
    (panel,) = [
        node
        for node in iterate_nodes(app._tree)
        if getattr(node, "type", "") == "popover" and node.proto.popover.label == "Terms"
    ]
    (text,) = [one.proto.body for one in iterate_nodes(panel) if getattr(one, "type", "") == "html"]
    explained = {unescape(term): unescape(means) for term, means in re.findall("<dt>(.*?)</dt><dd>(.*?)</dd>", text)}
    assert list(explained) == list(frame.PAGES[page].terms) and len(explained) >= 8
    for term, means in explained.items():
        assert means == define_term(term) in GLOSSARY.values()
