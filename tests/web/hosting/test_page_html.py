"""What a browser, a search engine and a preview of a link read before any script runs; and links to a round at the root."""

from __future__ import annotations

import re
from html import unescape

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from specviz.figures.pages_and_glossary import PAGES
from specviz.figures.preview import FRONT, build_tab_title
from specviz.web.hosting.headers import hash_inline_scripts
from specviz.web.hosting.page_html import INDEX, LAZY, PREVIEW, ROUND, SERVER_SCRIPT, build_page_html, build_page_routes

CLIENT = TestClient(Starlette(routes=build_page_routes()), base_url="https://a.example", follow_redirects=False)


@pytest.mark.parametrize("path", [FRONT, *PAGES])
def test_every_page_says_its_name_and_what_it_is_about_before_a_script_runs(path):
    answer = CLIENT.get("/" if path == FRONT else f"/{path}?seed=7")
    html = answer.text
    assert answer.status_code == 200 and answer.headers["cache-control"] == "no-cache"
    assert re.findall("<title>(.*?)</title>", html) == [build_tab_title(path)] and "Streamlit</title>" not in html
    found = {name: unescape(text) for name, text in re.findall(r'<meta (?:name|property)="([\w:]+)" content="([^"]*)"', html)}
    assert found["og:title"] == build_tab_title(path) and 40 < len(found["description"]) < 160
    assert found["og:description"] == found["description"] and found["og:image"] == f"https://a.example/{PREVIEW}"


def test_no_two_pages_have_the_same_description():
    said = [re.search('name="description" content="(.*?)"', build_page_html(path))[1] for path in (FRONT, *PAGES)]
    assert len(set(said)) == len(said)


def test_the_styles_are_there_before_anything_is_drawn_and_after_those_of_streamlit_but_before_those_of_a_page():
    html = build_page_html("speed")
    (style,) = re.findall(r'<style>\n(.*?)</style>\n<div id="root">', html, re.DOTALL)
    assert "--target:" in style and ".st-key-speed-sandbox" in style and html.index(style) > html.index("</head>")


def test_scripts_of_common_elements_load_with_the_first_one_and_are_files_of_streamlit():
    html = build_page_html("speed")
    for name in LAZY:
        (path,) = re.findall(rf'<link rel="modulepreload" crossorigin href="\./(static/js/{name}\.[^"]+)">', html)
        assert (INDEX.parent / path).is_file()


def test_a_host_that_is_markup_stays_text():
    html = CLIENT.get("/speed", headers={"host": 'a"><script>x</script>'}).text
    assert "<script>x" not in html


def test_the_scripts_are_those_that_the_policy_allows():
    scripts = [tuple(re.findall(r"<script>(.*?)</script>", build_page_html(path), re.DOTALL)) for path in (FRONT, *PAGES)]
    assert len(set(scripts)) == 1 and SERVER_SCRIPT in scripts[0] and len(scripts[0]) == len(hash_inline_scripts())


@pytest.mark.parametrize("query", ["at=1.11", "tour=1", "prompt=a%20b%0d%0aX&seed=7", "length=8", "prompt="])
def test_a_link_to_a_round_at_the_root_opens_the_round(query):
    answer = CLIENT.get(f"/?{query}")
    assert answer.status_code == 308 and answer.headers["location"] == f"{ROUND}?{query}"


@pytest.mark.parametrize("query", ["", "utm_source=x", "fbclid=1&ref=a"])
def test_any_other_link_to_the_root_opens_the_front_page(query):
    assert CLIENT.get(f"/?{query}").status_code == 200
