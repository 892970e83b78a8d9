"""The fold with a visitor's own text and settings. Fields hold what was typed; what cannot be used becomes a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import streamlit as st

from specviz.errors import SettingsError
from specviz.models.pairs.catalogue import PAIRS
from specviz.models.pairs.names import Places, places_of
from specviz.settings import Settings
from specviz.web.common import access
from specviz.web.one_round.state import Fields, Visit

EIGHT_BITS = "Another draft, with distributions of its own: faster for Llama-style drafts on a CPU. What is written keeps the target's distribution."
WIDE = 64  # characters that a field for a number takes


def fold(visit: Visit) -> None:
    """Draw the fold; a field that changed runs the pair, one that cannot be used says so and leaves what is shown."""
    if visit.fields is None:
        visit.fields = seeded(visit)
    with st.container(key="fold"), st.popover("Your own text", width="content"):
        top = st.container(key="problems")
        take(visit, _fields(visit))
        for sentence in visit.problems:
            top.text(sentence)  # the one sink of Streamlit that takes $x$ and :red[a] as the text they are
        if access.own_pairs_allowed():
            _own_pair(visit)
        elif refused := access.own_pairs_refused():
            st.text(refused)
        st.caption("Every change runs the real pair. The address of this page holds all of it: copy it to share.")


def beside(top: Any, sentences: list[str]) -> None:
    """The same sentences at the head of an open fold: on a phone it covers those of the page."""
    for sentence in sentences:
        top.text(sentence)


def take(visit: Visit, raw: dict[str, Any]) -> None:
    """Act on fields that changed. Nothing of Streamlit is called here: a click may end the script run at any such call."""
    if raw == visit.fields.seen:
        return
    visit.fields.seen = raw
    settings, visit.problems = from_fields(raw, visit.settings)
    visit.said = []
    if not visit.problems:
        visit.choose(settings)


def seeded(visit: Visit) -> Fields:
    """A run's settings as the fold's fields: at first, and when the address has changed under the page.

    The values go in as the fields' own defaults, not through the session: a field that the browser draws again, untouched,
    would otherwise come back empty. New values therefore need new fields, told apart by a number in their keys.
    """
    settings = visit.job.settings if visit.job else visit.settings
    shown = as_fields(visit.offer.settings if visit.offer else settings)
    return Fields(shown, shown)


def _fields(visit: Visit) -> dict[str, Any]:
    start, turn = visit.fields.start, visit.turn

    def field(name: str) -> dict[str, Any]:
        return {"value": start[name], "key": f"fold-{name}" + (f"-{turn}" if turn else "")}

    raw: dict[str, Any] = {}
    raw["prompt"] = st.text_area("Text to continue", height=96, placeholder="empty: a start token is used", **field("prompt"))
    if len(PAIRS) > 1:
        chosen = field("pair")
        names = list(PAIRS)
        where = names.index(chosen.pop("value")) if start["pair"] in names else 0
        raw["pair"] = st.selectbox("Pair", names, index=where, format_func=lambda name: PAIRS[name].title, **chosen)
    left, right = st.columns(2)
    hint = "0 to 16; 0: the target alone"
    raw["gamma"] = left.number_input("Draft tokens per round (gamma)", step=1, help=hint, **field("gamma"))
    hint = "0 to 5; 0: always the likeliest"
    raw["temperature"] = right.text_input("Temperature", max_chars=WIDE, help=hint, **field("temperature"))
    left, right = st.columns(2)
    raw["top_k"] = left.text_input("top-k", max_chars=WIDE, placeholder="off", **field("top_k"))
    raw["top_p"] = right.text_input("top-p", max_chars=WIDE, placeholder="off", **field("top_p"))
    left, _ = st.columns(2)
    raw["seed"] = left.text_input("Seed", max_chars=WIDE, **field("seed"))
    return raw


def _own_pair(visit: Visit) -> None:
    """Two fields, a choice and a button: nothing is looked for or fetched before it is pressed."""
    pair = (visit.offer or visit).settings.pair
    offered = places_of(pair) or Places("", "")
    target = st.text_input("Target: folder or hub name", value=offered.target, key="own-target", max_chars=500)
    draft = st.text_input("Draft: folder or hub name", value=offered.draft, key="own-draft", max_chars=500)
    rounded = st.checkbox("Round the draft to 8 bits", value=offered.rounded, key="own-rounded", help=EIGHT_BITS)
    if st.button("Load this pair", key="own-load"):
        visit.load_own(target, draft, rounded)


def as_fields(settings: Settings) -> dict[str, str | int]:
    """Settings as the fold's fields hold them; an empty field means: off."""
    shown = {f.name: getattr(settings, f.name) for f in fields(Settings)}
    texts = {name: "" if shown[name] is None else _plain(shown[name]) for name in ("temperature", "top_p")}
    top_k = "" if settings.top_k is None else str(settings.top_k)
    pair = {"pair": settings.pair} if len(PAIRS) > 1 else {}
    return {"prompt": settings.prompt, "gamma": settings.gamma, "top_k": top_k, "seed": str(settings.seed)} | texts | pair


def from_fields(raw: Mapping[str, str | int | None], base: Settings) -> tuple[Settings, list[str]]:
    """The fold's fields over what they leave alone, and a sentence for each field that cannot be used."""
    settings, problems = base, []
    for name, read in _READERS.items():
        if name not in raw:
            continue
        try:
            settings = replace(settings, **{name: read(raw[name])})
        except SettingsError as error:
            problems.append(str(error))
    return settings, problems


def _plain(number: float) -> str:
    """1.0 as 1, and every digit where there are more."""
    return f"{number:g}" if float(f"{number:g}") == number else repr(number)


def _reader(name: str, convert: type, allowed: str, empty: Any = ...) -> Any:
    def read(text: str | int | None) -> Any:
        text = "" if text is None else str(text).strip()
        if not text and empty is not ...:
            return empty
        try:
            return convert(text)
        except (ValueError, OverflowError):
            raise SettingsError(name, text, allowed) from None

    return read


_READERS = {
    "pair": lambda text: str(text),
    "prompt": lambda text: str(text or ""),
    "gamma": _reader("gamma", int, "a whole number from 0 to 16"),
    "temperature": _reader("temperature", float, "a number from 0 (greedy) to 5"),
    "top_k": _reader("top-k", int, "a whole number from 1, or empty to switch it off", None),
    "top_p": _reader("top-p", float, "above 0 and at most 1, or empty to switch it off", None),
    "seed": _reader("seed", int, "a whole number from 0 to 9223372036854775807"),
}
