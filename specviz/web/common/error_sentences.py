"""Errors as sentences for a visitor: what a page calls a setting, not what its field is called."""

from __future__ import annotations

from specviz.errors import SettingsError
from specviz.records import load_toml
from specviz.settings import SETTINGS

NOUNS: dict[str, str] = load_toml("texts/errors")["nouns"]


def name_setting(name: str) -> str:
    """What a sentence calls a setting, by its field or label."""
    declared = SETTINGS.get(name.replace("-", "_"))
    return NOUNS.get(name) or (declared.noun if declared else name)


def explain_error(error: Exception) -> str:
    """The sentence of an error: of a setting with its noun, of any other as it is."""
    return error.explain(f"The {name_setting(error.name)}") if isinstance(error, SettingsError) else str(error)


def explain_left_out(error: SettingsError, name: str = "") -> str:
    """That a value of a link was left out, and why. name: of the link's parameter, where it is not the setting's."""
    return f"The link's {name_setting(name or error.name)} was left out: {error.explain('it')}"
