"""The rule that settings name, checked against what their proposer drafts. Read by pages before torch is: no import of it here."""

from __future__ import annotations

from typing import TYPE_CHECKING

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


def find_unread(settings: Settings) -> dict[str, list[str]]:
    """The drafting settings that are not the default and have no effect: name -> the methods and rules that would read it."""
    read = {"proposer", "rule", *PROPOSERS.find(settings.proposer).reads, *RULES.find(settings.rule).reads}
    defaults = {name: (SETTINGS[name].default,) for name in DRAFTING_FIELDS} | {"gamma": (DEFAULTS.gamma, FASTEST_GAMMA)}
    unread = [name for name, values in defaults.items() if name not in read and getattr(settings, name) not in values]
    if not unread:
        return {}
    reads = {name: entry.reads for name, entry in PROPOSERS.load_all().items()}
    reads |= {name: entry.reads for name, entry in RULES.load_all().items()}
    return {name: [one for one, names in reads.items() if name in names] for name in unread}
