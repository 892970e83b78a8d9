"""The files of the static edition: whole or not at all, nothing from elsewhere in them, small enough for a phone."""

from __future__ import annotations

import gzip
import html
import json
import os
import re
import tomllib
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from specviz import __version__
from specviz.__main__ import main
from specviz.errors import SettingsError
from specviz.export.folder import MANIFEST
from specviz.figures.pages_and_glossary import GLOSSARY, find_next_page
from specviz.figures.pages_and_glossary import PAGES as APP
from specviz.figures.preview import FRONT, PICTURE, build_tab_title
from specviz.records import ASSETS
from specviz.static_site import build as building
from specviz.static_site import pages
from specviz.static_site.build import build_files, read_live_address, write_site
from specviz.static_site.document import (
    FONT,
    OF_THE_APP,
    PAGES,
    SHARED,
    SUMMARY,
    PageContent,
    build_document,
    build_policy,
    pack_json,
)
from tests.helpers.fresh_process import run_fresh

FIRST_LOAD = 400_000  # bytes, compressed
LIVE = "https://example.org/sv/"  # of the app
NAMES = [f"{name}.html" for name in PAGES]


build_once = cache(build_files)


@pytest.fixture
def files_built_once(monkeypatch):
    """The command writes files that were built before for another test; nothing but the address decides about them."""
    monkeypatch.setattr(building, "build_files", build_once)


@pytest.fixture
def site() -> dict[str, bytes]:
    return build_once(None)


class Links(HTMLParser):
    """Every address that a page names, and every attribute that would run a script or set a style."""

    def __init__(self, text: str):
        super().__init__()
        self.addresses: list[str] = []
        self.inline: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.addresses += [value for key, value in attrs if key in ("href", "src", "action")]
        self.inline += [key for key, _ in attrs if key.startswith("on") or key == "style"]


def test_a_site_has_its_pages_its_font_its_picture_and_a_manifest_and_opens_with_the_front_page(site):
    assert set(site) == {*NAMES, "index.html", FONT, PICTURE, "OFL.txt", MANIFEST}
    assert site["index.html"] == site["front.html"]
    assert set(json.loads(site[MANIFEST])["files"]) == set(site) - {MANIFEST}


def test_pages_that_the_app_has_too_have_its_names_and_addresses():
    for name in OF_THE_APP[1:]:
        assert PAGES[name] == APP[name].title


def test_a_page_that_the_app_has_too_ends_with_the_next_one_of_this_edition_and_why(site):
    for name, after in pairwise(OF_THE_APP[1:]):
        (said,) = re.findall(r'<p class="onward">(.*?)</p>', site[f"{name}.html"].decode())
        assert said == f'<a href="{after}.html">Next: {PAGES[after]}</a> {find_next_page(name, SHARED).reason}'
    last = site["drafting_methods.html"].decode()
    assert 'class="onward"' not in last and b'class="onward"' not in site["glossary.html"]
    for part in SUMMARY["part"]:
        assert f"<h3>{part['title']}</h3>" in last
    assert '<a href="https://arxiv.org/abs/2211.17192">' in last and __version__ in last
    assert "<pre>pip install &quot;.[audit]&quot;</pre>" in last
    assert "Accepted + replaced = <var>p</var>." in last and "{" not in "".join(re.findall(r"<li>(.*?)</li>", last))
    assert sum(b'class="ending"' in page for page in site.values()) == 1, "only the last page ends the reading"


def test_every_page_says_its_language_and_its_own_title(site):
    titles = [re.search(r'<html lang="en">.*<title>(.*?)</title>', site[name].decode(), re.S)[1] for name in NAMES]
    assert [html.unescape(title) for title in titles] == [
        build_tab_title(FRONT),
        *(f"{title} · specviz" for title in list(PAGES.values())[1:]),
    ]
    for name in NAMES:
        found = dict(re.findall(r'<meta (?:name|property)="([\w:]+)" content="([^"]*)">', site[name].decode()))
        assert found["description"] == found["og:description"] and found["og:image"] == PICTURE and found["og:title"]
    assert f'content="{LIVE}app/static/{PICTURE}"'.encode() in build_once(LIVE)["front.html"]


@pytest.mark.parametrize("name", NAMES)
def test_what_a_page_names_is_a_file_beside_it(site, name):
    """Relative addresses alone: so it works under any path. Papers and the licenses are links for people, not loaded."""
    page = Links(site[name].decode())
    assert page.inline == []
    near = [address for address in page.addresses if not address.startswith(("https://arxiv.org/", "data:"))]
    assert {re.split(r"[?#]", address)[0] for address in near} <= {*site, ""}
    assert len(near) > len(PAGES)


@pytest.mark.parametrize("name", NAMES)
def test_the_first_load_is_small(site, name):
    assert len(gzip.compress(site[name])) + len(site[FONT]) < FIRST_LOAD


@pytest.mark.parametrize("name", NAMES)
def test_a_page_allows_its_own_script_and_style_and_nothing_else(site, name):
    text = site[name].decode()
    style, script = (
        re.search(r"<style>(.*?)</style>", text, re.S)[1],
        re.search(r'<script type="module">(.*?)</script>', text, re.S)[1],
    )
    (allowed,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    assert html.unescape(allowed) == build_policy(script, style)
    assert "unsafe" not in allowed and "default-src &#x27;none&#x27;" in allowed
    assert len(re.findall(r"<script\b", text)) == (2 if 'id="data"' in text else 1)


def test_text_of_a_record_never_ends_the_element_that_holds_it():
    hostile = {"text": "</script><script>alert(1)</script><!-- \u2028"}
    assert "<" not in pack_json(hostile) and json.loads(pack_json(hostile)) == hostile


def test_every_term_and_every_paper_is_there(site):
    words, papers = site["glossary.html"].decode(), site["sources.html"].decode()
    known = tomllib.loads((ASSETS / "sources.toml").read_text(encoding="utf-8"))["source"]
    assert all(html.escape(said) in words for pair in GLOSSARY.items() for said in pair)
    assert (
        len(re.findall("<cite>", papers)) == len(re.findall(r'href="https://arxiv.org/abs/\d{4}\.\d{5}"', papers)) == len(known)
    )


def test_without_an_app_no_page_leads_to_one_and_with_one_each_leads_to_its_own_page(site):
    assert all(b'class="live"' not in site[name] for name in NAMES)
    live = build_once(LIVE)
    for name in PAGES:
        (address,) = re.findall(r'class="live" href="([^"]*)"', live[f"{name}.html"].decode())
        assert address == f"{LIVE}{name if name in OF_THE_APP[1:] else ''}"
    assert f'"href":"{LIVE}one_round?'.encode() in live["whole_text.html"] and b'"href"' not in site["whole_text.html"]


@pytest.mark.parametrize(
    ("text", "address"),
    (
        ("https://example.org", "https://example.org/"),
        ("http://localhost:8501/a/b", "http://localhost:8501/a/b/"),
        ("https://example.org/specviz/", "https://example.org/specviz/"),
    ),
)
def test_the_address_of_the_app_ends_with_a_slash(text, address):
    assert read_live_address(text) == address


@pytest.mark.parametrize(
    "text",
    (
        "javascript:alert(1)", "data:text/html,x", "ftp://example.org", "//example.org", "example.org", "https://", "", "https:example.org",
        "https://me:secret@example.org", "https://example.org/?a=1", "https://example.org/#a", "https://example.org:99999",
        "https://example.org/a b", "https://example.org/\n", "https://[::1", "https:\\\\example.org", "https://exämple.org",
    ),
)  # fmt: skip
def test_another_kind_of_address_is_refused(text):
    with pytest.raises(SettingsError, match="live must be an http:// or https:// address"):
        read_live_address(text)


def test_a_name_in_an_address_is_text_in_the_page():
    page = build_document(
        "sources", PageContent("about", "<p>body</p>"), read_live_address('https://example.org/"><script>alert(1)</script>/')
    )
    assert "<script>alert" not in page


@pytest.mark.usefixtures("files_built_once")
def test_a_later_site_replaces_an_earlier_one_whole(tmp_path, site, capsys):
    out = tmp_path / "out"
    assert main(["site", str(out)]) == 0
    assert {path.name: path.read_bytes() for path in out.iterdir()} == site
    assert all(name in capsys.readouterr().out for name in NAMES[:1])
    assert main(["site", str(out), "--live", LIVE]) == 0
    assert LIVE.encode() in (out / "glossary.html").read_bytes()


@pytest.mark.usefixtures("files_built_once")
def test_a_folder_with_anything_else_is_refused_and_left_as_it_is(tmp_path, capsys):
    (tmp_path / "mine.txt").write_text("mine")
    assert main(["site", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert "such as 'mine.txt'. Give a folder that is new, empty, or holds an earlier site." in error
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_record_that_is_missing_or_damaged_is_named_and_nothing_is_written(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(pages, "TRACES", tmp_path)
    assert main(["site", str(tmp_path / "out")]) == 2
    assert "The record passage.json cannot be read (No such file or directory)." in capsys.readouterr().err
    (tmp_path / "passage.json").write_text("{}")
    assert main(["site", str(tmp_path / "out")]) == 2
    assert not (tmp_path / "out").exists()


def test_a_site_is_written_without_models_and_without_the_app():
    """The process has read Streamlit and Plotly before; nothing of torch."""
    done = run_fresh(
        "import sys\nfrom specviz.static_site.build import build_files\nbuild_files()\n"
        "app = [name for name in sys.modules if name.startswith(('specviz.web.common', 'specviz.web.hosting'))]\n"
        "assert not app and not {'torch', 'transformers'} & set(sys.modules)"
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("files_built_once")
def test_an_export_is_no_earlier_site(tmp_path):
    (tmp_path / MANIFEST).write_text(json.dumps({"schema": "specviz-evidence-3", "files": []}))
    with pytest.raises(SettingsError, match="holds an earlier site"):
        write_site(tmp_path)


@pytest.mark.usefixtures("files_built_once")
def test_a_site_that_cannot_be_written_whole_leaves_the_earlier_one(tmp_path, site, monkeypatch):
    """The disk is full at the third file."""
    out, written = tmp_path / "out", []
    write_site(out)
    real = building.write_folder.__globals__["write_flushed"]

    def full(path, pieces):
        written.append(path.name)
        if len(written) == 3:
            raise OSError(28, os.strerror(28))
        real(path, pieces)

    monkeypatch.setitem(building.write_folder.__globals__, "write_flushed", full)
    with pytest.raises(SettingsError, match="No space left"):
        write_site(out, LIVE)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == site
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
