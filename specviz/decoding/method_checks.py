"""Settings that do not go together, which the commands and ``specviz.Pair`` refuse. Read by pages before torch is: no import of it here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specviz.errors import SettingsError
from specviz.proposers.registry import PROPOSERS, find_form
from specviz.settings import DEFAULTS, DRAFTING_FIELDS, FASTEST_GAMMA, SETTINGS, Settings
from specviz.verification.registry import RULES, refuse_unmet

if TYPE_CHECKING:
    from specviz.verification.rule import Rule


def build_rule(settings: Settings) -> Rule:
    """Build the acceptance rule, before any model is read.

    Raises SettingsError for an unknown proposer or rule, and for a rule that is not proved for what the proposer may draft.
    """
    entry = RULES.find(settings.rule)
    refuse_unmet(settings.rule, find_form(settings))
    return entry.build(settings)


def _find_readers(name: str) -> tuple[str, ...]:
    return PROPOSERS.find_names_with("reads", name) + RULES.find_names_with("reads", name)


def list_readers(name: str) -> tuple[str, ...]:
    """Drafting methods and rules that read a drafting setting, those of other packages too. Empty for any other setting: all do."""
    return _find_readers(name) if name in DRAFTING_FIELDS else ()


def find_unread(settings: Settings) -> dict[str, list[str]]:
    """The drafting settings that are not the default and have no effect: name -> the methods and rules that would read it."""
    read = {"proposer", "rule", *PROPOSERS.find(settings.proposer).reads, *RULES.find(settings.rule).reads}
    defaults = {name: (SETTINGS[name].default,) for name in DRAFTING_FIELDS} | {"gamma": (DEFAULTS.gamma, FASTEST_GAMMA)}
    unread = [name for name, values in defaults.items() if name not in read and getattr(settings, name) not in values]
    return {name: [*_find_readers(name)] for name in unread}


def check_methods(settings: Settings) -> None:
    """Look up the names of drafting method, policy, warpers and rule before any weights are read.

    Raises SettingsError for an unknown name, for a rule that is not proved for this drafting method, and for an option that has no
    effect because neither of them reads it.
    """
    from specviz.proposers.adaptive import find_policy
    from specviz.verification.warpers import find_warpers

    PROPOSERS.find(settings.proposer)
    find_policy(settings.draft_length_policy)
    find_warpers(settings.warpers)
    build_rule(settings)
    for name, readers in find_unread(settings).items():
        chosen = "rule" if set(readers) <= set(RULES) else "proposer"
        allowed = f"left out with {chosen} {getattr(settings, chosen)}, which does not read it ({', '.join(readers)} read{'s' * (len(readers) == 1)} it)"
        raise SettingsError(SETTINGS[name].label, getattr(settings, name), allowed)


def refuse_unread_cuts(settings: Settings) -> None:
    """Raise SettingsError for a cut of the distribution at temperature 0."""
    for name, value in settings.unread_cuts.items():
        raise SettingsError(
            SETTINGS[name].label, value, "left out at temperature 0, where the most probable token is kept anyway"
        )


def refuse_drafting(settings: Settings, chosen: str) -> None:
    """Raise SettingsError if a drafting method, a rule or what they read is chosen for something that brings its own."""
    for name in DRAFTING_FIELDS:
        if (value := getattr(settings, name)) != SETTINGS[name].default:
            raise SettingsError(SETTINGS[name].label, value, f"left out with {chosen}, which brings its own")
