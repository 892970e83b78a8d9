"""Every rule by name. A new one is one file beside this one, and one line here."""

from __future__ import annotations

from collections.abc import Callable

from specviz.errors import SettingsError
from specviz.settings import Settings
from specviz.verification.joint import BlockRule
from specviz.verification.rules import Rule, TokenRule
from specviz.verification.sequential import SequentialRule
from specviz.verification.typical import TypicalRule

RULES: dict[str, Callable[[Settings], Rule]] = {
    "token": lambda settings: TokenRule(),
    "block": lambda settings: BlockRule(),
    "k-seq": lambda settings: SequentialRule(),
    "typical": lambda settings: TypicalRule(settings.typical),
}


def rule_of(settings: Settings) -> Rule:
    """The rule that settings name. Raises SettingsError listing the names there are."""
    if settings.rule not in RULES:
        raise SettingsError("rule", settings.rule, f"one of {', '.join(RULES)}")
    return RULES[settings.rule](settings)
