"""Fields with a visitor's own text and settings. They hold what was typed; what cannot be used becomes a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import streamlit as st

from specviz.errors import SettingsError
from specviz.settings import Settings
from specviz.web.hosting.limits import check_text

WIDE = 64  # characters that a field for a number takes
EMPTY = "empty: the text begins with a start token"


class Form:
    """The fields of one page.

    The values go in as the fields' own defaults, not through the session: a field that the browser draws again, untouched, would
    otherwise come back empty. New values therefore need new fields, told apart by the turn in their keys. What was typed stays
    while the visitor is on other pages.
    """

    def __init__(self, page: str, turn: int, start: Mapping[str, Any]):
        self.page, self.turn, self.start = page, turn, start
        self.raw: dict[str, Any] = {}

    def key(self, name: str) -> dict[str, Any]:
        return {"key": f"{self.page}-{name}-{self.turn}", "persist_state": "session"}

    def prompt(self, place: Any, label: str = "Text to continue", height: int = 68, hint: str = EMPTY) -> str:
        value = place.text_area(label, value=self.start["prompt"], height=height, placeholder=hint, **self.key("prompt"))
        self.raw["prompt"] = value
        return value

    def text(self, place: Any, name: str, label: str, **more: Any) -> None:
        self.raw[name] = place.text_input(label, value=self.start[name], max_chars=WIDE, **more, **self.key(name))

    def choice(self, place: Any, name: str, label: str, titles: Mapping[str, str], value: str) -> str:
        """One key of ``titles``, all of them in sight."""
        field = place.segmented_control(
            label, list(titles), default=value, required=True, format_func=titles.__getitem__, **self.key(name)
        )
        return field or value

    def sampling(self) -> None:
        """gamma, temperature and the two cuts, in two lines."""
        left, right = st.columns(2)
        self.raw["gamma"] = left.number_input(
            "Draft tokens per round (gamma)",
            value=self.start["gamma"],
            step=1,
            help="0 to 16. 0 means target-only sampling.",
            **self.key("gamma"),
        )
        self.text(right, "temperature", "Temperature", help="0 to 5. 0 always takes the most likely token.")
        left, right = st.columns(2)
        self.text(left, "top_k", "top-k", placeholder="off")
        self.text(right, "top_p", "top-p", placeholder="off")


def as_fields(settings: Settings) -> dict[str, str | int]:
    """Settings as the fold's fields hold them; an empty field means: off."""
    shown = {f.name: getattr(settings, f.name) for f in fields(Settings)}
    texts = {name: "" if shown[name] is None else _plain(shown[name]) for name in ("temperature", "top_p")}
    top_k = "" if settings.top_k is None else str(settings.top_k)
    return {"prompt": settings.prompt, "gamma": settings.gamma, "top_k": top_k, "seed": str(settings.seed)} | texts


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
    "prompt": lambda text: check_text("prompt", str(text or "")),
    "gamma": _reader("gamma", int, "a whole number from 0 to 16"),
    "temperature": _reader("temperature", float, "a number from 0 (greedy) to 5"),
    "top_k": _reader("top-k", int, "a whole number from 1, or empty to switch it off", None),
    "top_p": _reader("top-p", float, "above 0 and at most 1, or empty to switch it off", None),
    "seed": _reader("seed", int, "a whole number from 0 to 9223372036854775807"),
}
