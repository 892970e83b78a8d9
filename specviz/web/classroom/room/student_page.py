"""The students' page as one HTML file: its script and style inside, and a policy that allows requests to this server alone."""

from __future__ import annotations

from functools import lru_cache

from specviz.figures.components import link_modules, read_styles
from specviz.static_site.document import build_html_file, hash_for_policy

FONT = "../app/static/inter-latin.woff2"  # the app's; read after the page is drawn, in the system's own until then
FONT_FACE = (
    f'@font-face {{ font-family: Inter; font-weight: 100 900; font-display: swap; src: url("{FONT}") format("woff2"); }}\n'
)
BODY = (
    '<body class="room">\n<header><span>specviz</span><span id="who"></span></header>\n'
    '<main>\n<h1 id="title" tabindex="-1" aria-live="polite">One moment</h1>\n<p id="line" role="status"></p>\n<p id="notice" role="alert"></p>\n'
    '<noscript><p>This page needs JavaScript.</p></noscript>\n<div id="place"></div>\n<p id="class"></p>\n</main>\n'
)


@lru_cache(maxsize=1)
def build_script() -> str:
    """The page's module with all that it imports."""
    return link_modules("classroom/page.js")


def hash_script() -> str:
    """For the policy of the server's headers, which holds for this page too."""
    return hash_for_policy(build_script())


@lru_cache(maxsize=1)
def build_page() -> str:
    """The file. It is the same for every room and every student."""
    style = FONT_FACE + read_styles("theme", "classroom/student")
    return build_html_file("Classroom · specviz", build_script(), style, BODY, connect="self")
