"""The rule that settings name, once it is known to hold for what the proposer of the same settings drafts."""

from __future__ import annotations

from specviz.proposers.registry import find_form
from specviz.settings import Settings
from specviz.verification.registry import RULES, refuse_unmet
from specviz.verification.rule import Rule


def build_rule(settings: Settings) -> Rule:
    """Build the acceptance rule.

    Raises SettingsError for an unknown proposer or rule, and for a rule that is not proved for what the proposer may draft. It
    does so before any model is read, not in the middle of a text where a tree first branches.
    """
    entry = RULES.find(settings.rule)
    refuse_unmet(settings.rule, find_form(settings))
    return entry.build(settings)
