"""The words of the field and what each means, in one place: pages, tooltips and docs/reference/glossary.md read it. No torch."""

from __future__ import annotations

from specviz.records import load_toml

_RECORD = load_toml("glossary")
GLOSSARY = {term: entry["means"] for term, entry in _RECORD.items()}
_NAMES = {name.lower(): term for term, entry in _RECORD.items() for name in (term, *entry.get("also", ()))}


def define(term: str) -> str:
    """What a term means, in one or two short sentences of plain text.

    Upper and lower case are the same, and so are the other ways to write a term that the glossary lists ("draft tokens").
    Raises KeyError for a word that is not in the glossary.
    """
    return GLOSSARY[_NAMES[term.lower()]]
