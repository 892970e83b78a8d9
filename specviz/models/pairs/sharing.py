"""In words: what two tokenizers share, from the description of a pair in a record. No torch here: commands and pages use it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def draftable_in_words(described: Mapping[str, Any]) -> str:
    """A sentence on a pair whose tokenizers differ, from its description in a record; '' for any other pair."""
    tokens = described.get("draft", {}).get("tokens")
    if not tokens:
        return ""
    said = f"The tokenizers differ: {tokens['shared']:,} of the draft's {tokens['of_draft']:,} tokens are the target's too"
    share = tokens.get("draftable")
    return f"{said}, and {share:.1%} of the draft's probability could be proposed." if share is not None else f"{said}."
