"""The HTML of each page, which is Streamlit's with a title, a description and a preview picture: browsers and link previews run no script first.

It also has the styles of the pages, which the first element would otherwise be drawn without, and says where the server is, which is above the page's own address.
"""

from __future__ import annotations

from functools import lru_cache
from html import escape
from pathlib import Path

import streamlit
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from specviz.figures.components import COMPONENTS, read_styles
from specviz.figures.pages_and_glossary import PAGES
from specviz.figures.preview import FRONT, PICTURE, build_preview_tags, build_tab_title, describe_page
from specviz.web.hosting.redirects import ROUND, is_round_link

INDEX = Path(streamlit.__file__).parent / "static" / "index.html"
TITLE = "<title>Streamlit</title>"
ROOT = '<div id="root">'  # styles stand before it: of two rules of one weight the later counts; Streamlit's are in the head, a page's own in here
PAGE_STYLES = tuple(f"{path}/page" for path in (FRONT, *PAGES) if (COMPONENTS / path / "page.css").is_file())
STYLES = (
    "theme",
    "terms",
    "app",
    "drafting_methods/matrix",
    *PAGE_STYLES,
)  # of all pages: a link to another one loads no document
# Streamlit's script would look for its server below the page's own address first, and log a 404 for each try.
SERVER_SCRIPT = 'window.__streamlit = { BACKEND_BASE_URL: new URL("./", window.location.href).href };'
# On a narrow screen the menu is a drawer over the page; Streamlit closes it after a choice on phones alone.
DRAWER_SCRIPT = """document.addEventListener("click", ({ target }) => {
  if (window.innerWidth >= 768 || !target.closest('[data-testid="stSidebarNavLink"]')) return;
  setTimeout(() => document.querySelector('[data-testid="stSidebar"][data-collapsed="false"] [data-testid="stSidebarCollapseButton"] button')?.click(), 100);
});"""
LAZY = (
    "BidiComponent",
    "ButtonGroup",
    "Html",
)  # Streamlit's scripts of elements that open most pages; it asks for them only once such an element comes
PREVIEW = f"app/static/{PICTURE}"


def build_page_routes() -> list[Route]:
    """Routes of the front page and of every other page."""
    return [Route("/", answer_front, methods=["GET"]), *(Route(f"/{path}", answer_page, methods=["GET"]) for path in PAGES)]


async def answer_front(request: Request) -> Response:
    """The front page; a link to a round is redirected to *One round*."""
    if is_round_link(request.url.query):
        return RedirectResponse(f"{ROUND}?{request.url.query}", status_code=308)
    return _answer(FRONT, request)


async def answer_page(request: Request) -> Response:
    """Any other page."""
    return _answer(request.url.path.rsplit("/", 1)[-1], request)


def _answer(path: str, request: Request) -> HTMLResponse:
    html = build_page_html(path).replace(PREVIEW, escape(f"{request.base_url}{PREVIEW}"))
    return HTMLResponse(html, headers={"Cache-Control": "no-cache"})


@lru_cache(maxsize=16)
def build_page_html(path: str) -> str:
    """The document of a page, with the address of its preview picture relative to the app's root."""
    title = build_tab_title(path)
    index = INDEX.read_text(encoding="utf-8")
    assert index.count(TITLE) == index.count(ROOT) == 1, "Streamlit's page has another title or root"
    tags = build_preview_tags(title, describe_page(path), PREVIEW)
    head = f"<title>{escape(title)}</title>\n    <script>{SERVER_SCRIPT}</script>\n    <script>{DRAWER_SCRIPT}</script>\n    {tags}{build_preloads()}"
    return index.replace(TITLE, head).replace(ROOT, f"<style>\n{read_styles(*STYLES)}\n</style>\n{ROOT}")


def build_preloads() -> str:
    """Links that let the browser load Streamlit's scripts of common elements together with the first one, so that no heading stands above nothing."""
    found = [path for name in LAZY for path in (INDEX.parent / "static" / "js").glob(f"{name}.*.js")]
    return "".join(f'\n    <link rel="modulepreload" crossorigin href="./static/js/{path.name}">' for path in found)
