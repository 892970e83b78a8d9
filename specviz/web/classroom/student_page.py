"""The students' page as one HTML file: its script and style inside, and a policy that lets it speak to this server and nobody else."""

from __future__ import annotations

from functools import lru_cache
from html import escape

from specviz.figures.components import link_modules, read_styles
from specviz.static_site.document import ICON, build_policy, hash_for_policy


@lru_cache(maxsize=1)
def build_script() -> str:
    return link_modules("classroom/page.js")


def hash_script() -> str:
    """For the policy of the server's headers, which holds for this page too."""
    return hash_for_policy(build_script())


FONT = "../app/static/inter-latin.woff2"  # the app's; read after the page is drawn, in the system's own until then
FACE = f'@font-face {{ font-family: Inter; font-weight: 100 900; font-display: swap; src: url("{FONT}") format("woff2"); }}\n'


@lru_cache(maxsize=1)
def build_page() -> str:
    """The file. It is the same for every room and every student."""
    style = FACE + read_styles("theme", "classroom_student")
    for part in (build_script(), style):
        assert "</s" not in part.lower() and "<!--" not in part, "it would end the element that holds it"
    head = "\n".join(
        (
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{escape(build_policy(build_script(), style, connect="self"))}">',
            '<meta name="viewport" content="width=device-width">',
            '<meta name="color-scheme" content="light dark">',
            '<meta name="referrer" content="no-referrer">',
            f'<link rel="icon" href="{ICON}">',
            "<title>Classroom · specviz</title>",
            f"<style>{style}</style>",
        )
    )
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n{head}\n</head>\n<body class="room">\n'
        '<header><span>specviz</span><span id="who"></span></header>\n'
        '<main>\n<h1 id="title" tabindex="-1" aria-live="polite">One moment</h1>\n<p id="line" role="status"></p>\n<p id="notice" role="alert"></p>\n'
        '<noscript><p>This page needs JavaScript.</p></noscript>\n<div id="place"></div>\n<p id="class"></p>\n</main>\n'
        f'<script type="module">{build_script()}</script>\n</body>\n</html>\n'
    )
