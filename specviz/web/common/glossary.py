"""The words of the field and what each means, in one place: pages, tooltips and docs/glossary.md read it. No torch."""

from __future__ import annotations

import tomllib

from specviz.records import ASSETS


def _read() -> tuple[dict[str, str], dict[str, str]]:
    """(term -> definition, every way to write a term in lower case -> term) of assets/glossary.toml."""
    record = tomllib.loads((ASSETS / "glossary.toml").read_text(encoding="utf-8"))
    terms = {term: entry["means"] for term, entry in record.items()}
    names = {name.lower(): term for term, entry in record.items() for name in (term, *entry.get("also", ()))}
    return terms, names


GLOSSARY, _NAMES = _read()


def define(term: str) -> str:
    """What a term means, in one or two short sentences of plain text.

    Upper and lower case are the same, and so are the other ways to write a term that the glossary lists ("draft tokens").
    Raises KeyError for a word that is not in the glossary.
    """
    return GLOSSARY[_NAMES[term.lower()]]
