"""The pages in the order of reading (assets/pages.toml) and the glossary (assets/glossary.toml)."""

from __future__ import annotations

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


def read_pages() -> tuple[Page, ...]:
    """Read the declaration of every page. Raises TypeError for a field that is missing or unknown."""
    tables = load_toml("pages")
    return tuple(Page(path, **table | {"terms": tuple(table["terms"])}) for path, table in tables.items())


ALL = read_pages()
PAGES = {page.path: page for page in ALL}


def find_next_page(path: str, among: tuple[Page, ...] = ALL) -> Page:
    """Return the page after that of ``path`` among these; after the last one the first. Raises ValueError for an unknown path."""
    paths = [page.path for page in among]
    return among[(paths.index(path) + 1) % len(among)]


_ENTRIES = load_toml("glossary")
GLOSSARY = {term: entry["means"] for term, entry in _ENTRIES.items()}
_TERMS = {name.lower(): term for term, entry in _ENTRIES.items() for name in (term, *entry.get("also", ()))}


def define_term(term: str) -> str:
    """Return the definition of a term, in any case and any spelling that the glossary lists. Raises KeyError for an unknown one."""
    return GLOSSARY[_TERMS[term.lower()]]
