"""What browsers and previews of links say of a page: its title, a description and a picture. In the app and in the static edition."""

from __future__ import annotations

from html import escape

from specviz.figures.pages_and_glossary import PAGES
from specviz.records import load_toml

NAME = "specviz"
FRONT = "front"  # the page at the root, which is no entry of the navigation
FRONT_TEXTS = load_toml("texts/front")
PICTURE = "preview.png"  # in static/; tools/front_pictures.py draws it
SIZE = (1200, 630)  # pixels of the picture


def build_tab_title(path: str) -> str:
    """Build the title of a page of the app in the browser's tab."""
    return f"{NAME}: {FRONT_TEXTS['title']}" if path == FRONT else f"{PAGES[path].title} · {NAME}"


def describe_page(path: str) -> str:
    """What a page of the app is about, in a sentence."""
    return FRONT_TEXTS["about"] if path == FRONT else PAGES[path].about


def build_preview_tags(title: str, about: str, picture: str) -> str:
    """Meta elements for search engines and previews of links. picture: its address."""
    found = {"og:type": "website", "og:site_name": NAME, "og:title": title, "og:description": about, "og:image": picture,
             "og:image:width": str(SIZE[0]), "og:image:height": str(SIZE[1])}  # fmt: skip
    tags = [f'<meta name="description" content="{escape(about)}">', '<meta name="twitter:card" content="summary_large_image">']
    return "\n".join([*tags, *(f'<meta property="{name}" content="{escape(text)}">' for name, text in found.items())])
