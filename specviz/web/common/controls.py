"""Fields with a visitor's own text and settings. They hold what was typed; what cannot be used becomes a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import streamlit as st

from specviz.errors import SettingsError
from specviz.settings import SETTINGS, SWITCH_OFF, Settings
from specviz.web.common.error_sentences import explain_error
from specviz.web.hosting.limits import check_text

WIDE = 64  # characters that a field for a number takes
EMPTY = "empty: the text begins with a start token"
EMPTY_IS_OFF = ", or empty to switch it off"
FIELDS = ("prompt", "gamma", "temperature", "top_k", "top_p", "seed")  # settings that the fields of a page change


class Form:
    """The fields of one page.

    The values go in as the fields' own defaults, not through the session: a field that the browser draws again, untouched, would
    otherwise come back empty. New values therefore need new fields, told apart by the turn in their keys. Typed text stays
    while the visitor is on other pages.
    """

    def __init__(self, page: str, turn: int, start: Mapping[str, Any]):
        self.page, self.turn, self.start = page, turn, start
        self.raw: dict[str, Any] = {}

    def build_key(self, name: str) -> dict[str, Any]:
        return {"key": f"{self.page}-{name}-{self.turn}", "persist_state": "session"}

    def show_prompt(self, place: Any, label: str = "Text to continue", height: int = 68, hint: str = EMPTY) -> str:
        value = place.text_area(label, value=self.start["prompt"], height=height, placeholder=hint, **self.build_key("prompt"))
        self.raw["prompt"] = value
        self._show_problem(place, "prompt")
        return value

    def show_text(self, place: Any, name: str, label: str, **arguments: Any) -> None:
        self.raw[name] = place.text_input(label, value=self.start[name], max_chars=WIDE, **arguments, **self.build_key(name))
        self._show_problem(place, name)

    def _show_problem(self, place: Any, name: str) -> None:
        """Say below a field why its value cannot be used, if it cannot."""
        try:
            _read_field(name, self.raw[name])
        except SettingsError as error:
            place.container(key=f"{self.page}-notes-at-{name}").text(explain_error(error))

    def show_choice(
        self, place: Any, name: str, label: str, titles: Mapping[str, str], value: str, help: str | None = None
    ) -> str:
        """One key of ``titles``, all of them in sight."""
        field = place.segmented_control(
            label, list(titles), default=value, required=True, format_func=titles.__getitem__, help=help, **self.build_key(name)
        )
        return field or value

    def show_sampling(self) -> None:
        """gamma, temperature and the two cuts, in two lines."""
        left, right = st.columns(2)
        self.raw["gamma"] = left.number_input(
            "Draft tokens per round (gamma)",
            value=self.start["gamma"],
            step=1,
            help=f"{SETTINGS['gamma'].range}. 0 means target-only sampling.",
            **self.build_key("gamma"),
        )
        self._show_problem(left, "gamma")
        self.show_text(right, "temperature", "Temperature", help="0 to 5. 0 always takes the most likely token.")
        left, right = st.columns(2)
        self.show_text(left, "top_k", "top-k", placeholder="off")
        self.show_text(right, "top_p", "top-p", placeholder="off")


def fill_fields(settings: Settings) -> dict[str, str | int]:
    """Settings as the fold's fields hold them; an empty field means: off."""
    values = {name: getattr(settings, name) for name in FIELDS}
    shown = {name: _format_number(value) if isinstance(value, float) else str(value) for name, value in values.items()}
    return shown | {name: "" for name, value in values.items() if value is None} | {"gamma": settings.gamma}


def read_fields(raw: Mapping[str, str | int | None], base: Settings) -> tuple[Settings, list[str]]:
    """The fold's fields over what they leave alone, and a sentence for each field that cannot be used."""
    settings, problems = base, []
    for name in FIELDS:
        if name not in raw:
            continue
        try:
            settings = replace(settings, **{name: _read_field(name, raw[name])})
        except SettingsError as error:
            problems.append(explain_error(error))
    return settings, problems


def _format_number(number: float) -> str:
    """1.0 as 1, and every digit where there are more."""
    return f"{number:g}" if float(f"{number:g}") == number else repr(number)


def _read_field(name: str, raw: str | int | None) -> Any:
    """The value that a field holds. Raises SettingsError."""
    declared = SETTINGS[name]
    if name == "prompt":
        return check_text(name, str(raw or ""))
    text = "" if raw is None else str(raw).strip()
    if not text and declared.optional:
        return None
    try:
        return declared.parse(text)
    except SettingsError as error:
        raise SettingsError(error.name, error.value, error.allowed.replace(f"; {SWITCH_OFF}", EMPTY_IS_OFF)) from None
