"""The published mistakes in words, read from assets/texts/known_mistakes.toml: what goes wrong, who reported it, which evidence must catch it.

No torch, so that a page names them before anything heavy is imported. ``registry`` has what each does to the decoder, by the same ids.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

from specviz.records import load_toml
from specviz.settings import SAMPLING_FIELDS, Settings

COMPONENTS = ("distribution", "proposer", "randomness", "rule", "commit")
ONE_DRAFT_TOKEN: dict[str, Any] = {"gamma": 1, "max_new_tokens": 2}
_TABLES = load_toml("texts/known_mistakes")
_THREAD = re.compile(r"([\w.-]+/[\w.-]+?)(?:#(\d+))?")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PublishedMistake:
    """One mistake. The head of assets/texts/known_mistakes.toml explains the fields."""

    id: str
    name: str
    description: str
    thread: str
    component: str
    title: str = ""
    settings: Settings = field(default_factory=lambda: Settings(**ONE_DRAFT_TOKEN))
    tier: str = "sampled"
    on_shared_distributions: bool = True
    on_purpose: bool = False

    def apply_settings(self, settings: Settings) -> Settings:
        """A run's settings with the warper, gamma and length that this mistake needs."""
        names = (*SAMPLING_FIELDS, "gamma", "max_new_tokens")
        return replace(settings, **{name: getattr(self.settings, name) for name in names})

    @property
    def threads(self) -> tuple[tuple[str, str], ...]:
        """Who reported it, one by one: words, and the address where they name a GitHub repository or a thread there."""
        return tuple((words, _build_address(words)) for words in self.thread.split(", "))

    @property
    def is_reported(self) -> bool:
        """Whether a public report of it is known."""
        return self.thread != "derived"

    @property
    def can_be_sampled(self) -> bool:
        """Whether samples of real text can show it."""
        return self.tier not in UNSAMPLED_TIERS


def _build_address(words: str) -> str:
    match = _THREAD.fullmatch(words)
    if not match:
        return ""
    return f"https://github.com/{match[1]}" + (f"/issues/{match[2]}" if match[2] else "")


def _build_mistake(name: str, table: dict[str, Any]) -> PublishedMistake:
    settings = Settings(**ONE_DRAFT_TOKEN | table.get("settings", {}))
    return PublishedMistake(**table | {"id": name, "settings": settings})


PUBLISHED_MISTAKES = {name: _build_mistake(name, table) for name, table in _TABLES["mistakes"].items()}
REPORTED_EXACT = {name: _build_mistake(name, table) for name, table in _TABLES["exact"].items()}  # reported as mistakes, and none
REPORTED = PUBLISHED_MISTAKES | REPORTED_EXACT  # what Break it shows
# by tier: the verdict of a page, and what shows these mistakes instead
UNSAMPLED_TIERS: dict[str, dict[str, str]] = _TABLES["tiers"]
