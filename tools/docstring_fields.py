"""A griffe extension for the Python API page: the aligned lines of our docstrings become lists.

    rows     B prefixes, each with at least one remaining token
    returns  one Round per row

is read well in the source, and would be one run-on paragraph on the page.
"""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

FIELD = re.compile(r"(?P<name>[\w*\[\].]+(?:, [\w*\[\].]+)*) {2,}(?P<text>\S.*)")


def format_fields(text: str) -> str:
    """A docstring with every paragraph of aligned fields as a Markdown list; other paragraphs stay as they are."""
    return "\n\n".join(_format_paragraph(part) if FIELD.match(part.lstrip()) else part for part in text.split("\n\n"))


def _format_paragraph(paragraph: str) -> str:
    items: list[str] = []
    for line in paragraph.splitlines():
        if found := FIELD.fullmatch(line.strip()):
            items.append(f"- `{found['name']}`: {found['text']}")
        elif items:
            items[-1] += " " + line.strip()
        else:
            items.append(line)
    return "\n".join(items)


class DocstringFields(Extension):
    """Rewrites every docstring as it is read."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = format_fields(obj.docstring.value)
