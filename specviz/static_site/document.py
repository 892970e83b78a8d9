"""One page as one HTML file with its script, its style, and a policy that allows nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

from specviz.figures.components import link_modules, read_styles
from specviz.figures.pages_and_glossary import ALL, find_next_page
from specviz.figures.preview import FRONT, NAME, PICTURE, build_preview_tags, build_tab_title
from specviz.records import HERE
from specviz.web.summary.words import SUMMARY, list_commands, set_variables

FONT = "inter-latin.woff2"
FONTS = next(
    folder for folder in (HERE / "served" / "static", HERE.parent / "static") if folder.is_dir()
)  # installed; in a checkout
SHARED = tuple(
    page for page in ALL if page.path in ("one_round", "one_token", "whole_text", "questions", "drafting_methods")
)  # with the app
PAGES = (
    {FRONT: NAME}
    | {page.path: page.title for page in SHARED}
    | {  # name of the file -> title
        "evidence": "Recorded evidence",
        "glossary": "Glossary",
        "sources": "Sources",
    }
)
OF_THE_APP = (FRONT, *(page.path for page in SHARED))  # under the same address in the app
ICON = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 100 100'%3E%3Ctext y='.9em' font-size='90'%3E🎲%3C/text%3E%3C/svg%3E"

PLAIN = '<p class="plain">Recorded runs of the specviz app. No model runs here, and nothing is sent anywhere.</p>'
FOOT = f"<footer>{PLAIN}</footer>"  # of a file of its own


@dataclass(frozen=True, slots=True)
class PageContent:
    """Content of one page.

    Attributes:
        about: One sentence for search engines and previews.
        body: Markup, with every text in it escaped.
        script: Name of its module in assets/components/static_site/.
        data: What that module reads.
    """

    about: str
    body: str
    script: str = "words"
    data: Mapping[str, Any] | None = None


def build_document(name: str, content: PageContent, live: str | None, is_single_page: bool = False) -> str:
    """The file of a page.

    Args:
        name: Of the page.
        content: Of the page.
        live: Address of the app, ending with a slash; None if there is none.
        is_single_page: Whether the file stands by itself, with its font in it and without links to the other pages.
    """
    style = read_styles("theme", "drafting_methods/matrix", "static_site/frame")
    if is_single_page:
        font = base64.b64encode((FONTS / FONT).read_bytes()).decode()
        style = style.replace(f'url("{FONT}")', f'url("data:font/woff2;base64,{font}")')
    data = "" if content.data is None else f'<script type="application/json" id="data">{pack_json(content.data)}</script>\n'
    body = (
        f'<body class="site">\n{_build_plain_header(name) if is_single_page else _build_header(name, live)}\n'
        f'<main>\n<noscript><p class="notice">The pictures on this page need JavaScript.</p></noscript>\n{content.body}\n</main>\n'
        f"{FOOT if is_single_page else _link_next_page(name) + _build_footer(name)}\n{data}"
    )
    title = build_tab_title(name) if name == FRONT else f"{PAGES[name]} · {NAME}"
    picture = PICTURE if live is None else f"{live}app/static/{PICTURE}"  # where this edition stands is not known
    preview = "" if is_single_page else build_preview_tags(title, content.about, picture)
    return build_html_file(title, link_modules(f"static_site/{content.script}.js"), style, body, preview)


def build_html_file(title: str, script: str, style: str, body: str, head: str = "", connect: str = "none") -> str:
    """A page as one file with its script and style inside.

    Args:
        title: Of the page.
        script: JavaScript module.
        style: CSS.
        body: From ``<body>`` on, without the end.
        head: More elements of the head.
        connect: As in ``build_policy``.
    """
    for part in (script, style):
        assert "</s" not in part.lower() and "<!--" not in part, "it would end the element that holds it"
    parts = (
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{escape(build_policy(script, style, connect))}">',
        '<meta name="viewport" content="width=device-width">',
        '<meta name="color-scheme" content="light dark">',
        '<meta name="referrer" content="no-referrer">',
        *([head] if head else []),
        f'<link rel="icon" href="{ICON}">',
        f"<title>{escape(title)}</title>",
        f"<style>{style}</style>",
    )
    lines = "\n".join(parts)
    return f'<!doctype html>\n<html lang="en">\n<head>\n{lines}\n</head>\n{body}<script type="module">{script}</script>\n</body>\n</html>\n'


def build_policy(script: str, style: str, connect: str = "none") -> str:
    """Content-Security-Policy of a page: this one script and the modules that it unpacks, this one style, the font.

    With connect "self" the script may also send requests to the page's own server; with "none" nothing is fetched.
    """
    return (
        f"default-src 'none'; script-src {hash_for_policy(script)} blob:; style-src {hash_for_policy(style)}; font-src 'self' data:; img-src data:; "
        f"connect-src '{connect}'; base-uri 'none'; form-action 'none'"
    )


def pack_json(data: Mapping[str, Any]) -> str:
    """JSON for a script element: no text in it is read as markup."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def hash_for_policy(text: str) -> str:
    """The hash of a script or style in a policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _build_header(name: str, live: str | None) -> str:
    links = "".join(
        f'<a href="{page}.html"{" aria-current=page" if page == name else ""}>{escape(title)}</a>'
        for page, title in PAGES.items()
        if page != FRONT
    )
    button = ""
    if live is not None:
        address = escape(live + (name if name in OF_THE_APP and name != FRONT else ""))
        carried = " data-carry" if name in OF_THE_APP else ""
        button = f'<a class="live" href="{address}"{carried} target="_blank" rel="noopener">Open the live app</a>'
    return f'<header class="top"><a class="brand" href="index.html">specviz</a><nav aria-label="Pages">{links}</nav>{button}</header>'


def _build_plain_header(name: str) -> str:
    return f'<header class="top"><span class="brand">specviz</span><nav aria-label="This page"><span>{escape(PAGES[name])}</span></nav></header>'


def _link_next_page(name: str) -> str:
    """The link to the next page and the reason to read it; after the last one of the app's pages, the ending."""
    if name == FRONT or name not in OF_THE_APP:
        return ""
    if name == SHARED[-1].path:
        return _build_ending()
    after = find_next_page(name, SHARED)
    assert after is not None
    return f'<p class="onward"><a href="{after.path}.html">Next: {escape(after.title)}</a> {escape(after.reason)}</p>\n'


def _build_ending() -> str:
    """Summary, papers, citation, and the way on: as on the app's page Summary."""
    parts = "".join(
        f"<section><h3>{escape(part['title'])}</h3>\n{render_text(part['text'])}"
        + "".join(f"{f'<p>{escape(says)}</p>' if says else ''}<pre>{escape(code)}</pre>" for says, _, code in list_commands(part))
        + "</section>\n"
        for part in SUMMARY["part"]
    )
    said = "".join(f"<li>{set_variables(one['short'])}. {set_variables(one['more'])}</li>" for one in SUMMARY["sentence"])
    return f'<div class="ending">\n<h2>{escape(SUMMARY["title"])}</h2>\n<ul>{said}</ul>\n<div class="parts">\n{parts}</div>\n</div>\n'


def render_text(text: str) -> str:
    """The HTML of a text of assets/texts/: paragraphs, items after "- ", links, and code between backticks."""
    inline = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text.strip()))
    inline = re.sub(r"\[([^\]]+)\]\((https://[^\s)]+)\)", r'<a href="\2">\1</a>', inline)
    lines = inline.splitlines()
    if all(line.startswith("- ") for line in lines):
        return f"<ul>{''.join(f'<li>{line[2:]}</li>' for line in lines)}</ul>\n"
    return "".join(f"<p>{line}</p>\n" for line in lines if line)


def _build_footer(name: str) -> str:
    return f'<footer>{PLAIN}<p class="framed"><a href="{name}.html" data-carry target="_blank" rel="noopener">specviz: open this page by itself</a></p></footer>'
