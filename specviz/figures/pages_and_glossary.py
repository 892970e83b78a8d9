"""The pages in the order of reading (assets/pages.toml) and the glossary (assets/glossary.toml)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from specviz.records import load_toml


@dataclass(frozen=True, slots=True)
class Page:
    """One page; the fields are those of assets/pages.toml, which says what each means. ``path`` is the name of its table."""

    path: str
    title: str
    about: str
    group: str
    reason: str
    terms: tuple[str, ...]
    ask: str = ""
    instead: str = ""
    presented_by_component: bool = False
    keeps_no_state: bool = False
    in_tour: bool = True


def read_pages() -> tuple[Page, ...]:
    """Read the declaration of every page. Raises TypeError for a field that is missing or unknown."""
    tables = load_toml("pages")
    return tuple(Page(path, **table | {"terms": tuple(table["terms"])}) for path, table in tables.items())


ALL = read_pages()
PAGES = {page.path: page for page in ALL}
TOUR = tuple(page for page in ALL if page.in_tour)  # its steps are numbered


def find_next_page(path: str, among: tuple[Page, ...] = ALL) -> Page | None:
    """Return the page after that of ``path`` among these, None after the last one. Raises ValueError for an unknown path."""
    place = [page.path for page in among].index(path) + 1
    return among[place] if place < len(among) else None


def find_previous_page(path: str, among: tuple[Page, ...] = ALL) -> Page | None:
    """Return the page before that of ``path`` among these, None before the first one. Raises ValueError for an unknown path."""
    return find_next_page(path, among[::-1])


_ENTRIES = load_toml("glossary")
GLOSSARY = {term: entry["means"] for term, entry in _ENTRIES.items()}
_TERMS = {name.lower(): term for term, entry in _ENTRIES.items() for name in (term, *entry.get("also", ()))}


MARKED_TERMS = {  # any spelling in lower case -> definition, of the terms that are explained in a page's first sentences
    name.lower(): entry["means"]
    for term, entry in _ENTRIES.items()
    if entry.get("marked")
    for name in (term, *entry.get("also", ()))
}
_MARKED = re.compile(rf"\b({'|'.join(sorted(map(re.escape, MARKED_TERMS), key=len, reverse=True))})\b", re.IGNORECASE)


def split_at_terms(text: str) -> list[tuple[str, str]]:
    """Split a text at the first place of each term of ``MARKED_TERMS``: (words, definition), the definition empty between terms."""
    parts, end, known = [], 0, set()
    for hit in _MARKED.finditer(text):
        means = MARKED_TERMS[hit[0].lower()]
        if means not in known:
            known.add(means)
            parts += [(text[end : hit.start()], ""), (hit[0], means)]
            end = hit.end()
    return [part for part in (*parts, (text[end:], "")) if part[0]]


def define_term(term: str) -> str:
    """Return the definition of a term, in any case and any spelling that the glossary lists. Raises KeyError for an unknown one."""
    return GLOSSARY[_TERMS[term.lower()]]
