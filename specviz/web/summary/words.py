"""The sentences of the page Summary, which are also the end of the static edition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specviz import __version__
from specviz.records import load_toml
from specviz.web.one_round.words import describe_pass_cost

SUMMARY = load_toml("texts/summary")
DRAFTED = 4  # draft tokens of the round whose pass is priced, as in the recorded one of One round


def list_sentences() -> list[dict[str, str]]:
    """List what was shown: ``short`` and ``text`` of each point, and the ``page`` that shows it."""
    values = {"drafted": DRAFTED, "cost": describe_pass_cost(DRAFTED + 1)}
    return [{**one, "text": one["text"].format(**values)} for one in SUMMARY["sentence"]]


def list_commands(part: Mapping[str, Any]) -> list[tuple[str, str]]:
    """List the lines to copy of a part, each after what it does; empty where a part has none."""
    return [(one["says"], one["code"].strip().replace("VERSION", __version__)) for one in part.get("commands", [])]
