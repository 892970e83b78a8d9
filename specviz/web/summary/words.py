"""The sentences of the page Summary, which are also the end of the static edition."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from typing import Any

from specviz import __version__
from specviz.records import load_toml

SUMMARY = load_toml("texts/summary")


def list_commands(part: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """List the lines to copy of a part, each after what it does and what it prints; empty where a part has none."""
    return [
        (one["says"], one.get("gets", ""), one["code"].strip().replace("VERSION", __version__))
        for one in part.get("commands", [])
    ]


def set_variables(text: str) -> str:
    """Our own text as HTML, in which _p_ is a variable."""
    return re.sub(r"_(\w)_", r"<var>\1</var>", escape(text))
