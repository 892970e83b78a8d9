"""Prompts as a text with one to a line. No torch."""

from __future__ import annotations

from specviz.errors import SettingsError


def parse_prompts(text: str, most: int) -> tuple[str, ...]:
    """The prompts of a text; empty lines are left out. Raises SettingsError for fewer than two, and for more than ``most``."""
    found = tuple(line for line in text.splitlines() if line.strip())
    if not 2 <= len(found) <= most:
        raise SettingsError("prompts", f"{len(found):,} lines", f"2 to {most:,}, each on a line of its own")
    return found
