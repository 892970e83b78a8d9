"""The first screen of a page is for its picture: what stands above it is short."""

from __future__ import annotations

import pytest

from specviz.figures.pages_and_glossary import PAGES
from specviz.records import ASSETS, load_toml

MOST = 32  # words of a page's first sentences


@pytest.mark.parametrize("page", [name for name in PAGES if (ASSETS / "texts" / f"{name}.toml").is_file()])
def test_what_a_page_asks_is_said_in_few_words(page):
    assert len(load_toml(f"texts/{page}").get("lede", "").split()) <= MOST
