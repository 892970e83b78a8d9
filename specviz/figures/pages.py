"""The pages in the order in which a reader meets them, as assets/pages.toml declares them. App, static edition and tests read it."""

from __future__ import annotations

from dataclasses import dataclass

from specviz.records import load_toml


@dataclass(frozen=True, slots=True)
class Page:
    """One page; the fields are those of assets/pages.toml, which says what each means. ``path`` is the name of its table."""

    path: str
    title: str
    group: str
    why: str
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


def next_page(path: str, among: tuple[Page, ...] = ALL) -> Page:
    """Return the page after that of ``path`` among these; after the last one the first. Raises ValueError for an unknown path."""
    paths = [page.path for page in among]
    return among[(paths.index(path) + 1) % len(among)]
