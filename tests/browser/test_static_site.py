"""The static edition in a browser, from a plain file server under a path of its own, and from the disk."""

from __future__ import annotations

import functools
import re
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from specviz.static_site.build import write_site
from specviz.static_site.document import PAGES

LIVE = "https://live.example.org/sv/"
SHOWN = {  # what stands on a page once its script has run
    "front": ".race .token",
    "one_round": ".chip", "one_token": ".slot", "whole_text": ".lane .token", "questions": ".option", "drafting_methods": ".leaf", "evidence": ".matrix td",
    "glossary": "dt", "sources": "cite",
}  # fmt: skip
WIDTHS = (390, 768, 1366, 1920)


class Quiet(SimpleHTTPRequestHandler):
    """Python's own file server, without its log."""

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("files") / "deep" / "site"
    out.parent.mkdir()
    write_site(out, LIVE)
    return out


@pytest.fixture(scope="module")
def address(folder):
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder.parents[1]))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/deep/site/"
    server.shutdown()
    server.server_close()


def watch_origin(page: Page, origin: str, problems: list[str]) -> None:
    """Keep in ``problems`` what a page logs as an error or a warning, and what it asks of another origin."""
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text) if message.type in ("error", "warning") else None)
    page.on("request", lambda one: None if one.url.startswith((origin, "blob:", "data:")) else problems.append(one.url))


@pytest.fixture
def open_page(context):
    """Opens a page; the test fails if anything is logged as an error, or asked of another origin."""
    pages, problems = [], []

    def opener(where: str):
        page = context.new_page()
        pages.append(page)
        page.emulate_media(reduced_motion="reduce")
        watch_origin(page, where[: where.index("/", 8)], problems)
        page.goto(where)
        return page

    yield opener
    for page in pages:
        page.close()
    assert problems == []


PAPER = {"light": "rgb(255, 255, 255)", "dark": "rgb(15, 19, 24)"}


@pytest.mark.parametrize("name", PAGES)
def test_each_page_stands_and_fits_from_a_phone_to_a_wall(open_page, address, name):
    page = open_page(f"{address}{name}.html")
    expect(page.locator(SHOWN[name]).first).to_be_visible()
    for scheme, color in PAPER.items():
        page.emulate_media(color_scheme=scheme)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 844})
            page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == color
    assert page.evaluate("document.fonts.ready.then((fonts) => [...fonts].every((font) => font.status === 'loaded'))")


def test_stepping_works_without_a_server_once_the_page_is_there(open_page, context, address):
    page = open_page(f"{address}index.html?at=1.2")  # a link to a round from before there was a front page
    page.wait_for_url(f"{address}one_round.html?at=1.2")
    expect(page.locator(".sentence")).not_to_be_empty()
    before = page.locator(".sentence").inner_text()
    context.set_offline(True)
    try:
        page.get_by_role("button", name="Step →").click()
        expect(page.locator(".sentence")).not_to_have_text(before)
        page.keyboard.press("ArrowRight")
        expect(page).to_have_url(f"{address}one_round.html?at=1.4")
        expect(page.get_by_role("button", name="Run it now")).to_have_count(0)
    finally:
        context.set_offline(False)


def test_a_link_to_a_step_opens_there_and_the_live_app_is_led_to_with_it(open_page, address):
    page = open_page(f"{address}one_round.html?at=2.3")
    expect(page.locator("select[aria-label=round]")).to_have_value("1")
    assert page.locator(".transport input[type=range]").input_value() == "2"
    link = page.get_by_role("link", name="Open the live app")
    link.focus()
    expect(link).to_have_attribute("href", f"{LIVE}one_round?at=2.3")


def test_a_number_in_a_persons_hand_shows_its_fate_and_falls_back_where_no_model_can_go_on(open_page, address):
    page = open_page(f"{address}one_round.html?at=12.6")
    disc = page.locator(".grip")
    recorded = disc.get_attribute("aria-valuenow")
    disc.focus()
    page.keyboard.press("Shift+ArrowUp")
    expect(disc).not_to_have_attribute("aria-valuenow", recorded)
    assert "the models" not in page.locator(".sentence").inner_text()
    page.keyboard.press("Enter")
    expect(disc).to_have_attribute("aria-valuenow", recorded)


def test_dragged_bars_stand_in_the_address_and_come_back_from_it(open_page, address):
    page = open_page(f"{address}one_token.html?p=40-30-20-7-3&q=15-45-25-5-10")
    bar = page.get_by_role("slider", name="target p of “mat”", exact=True)
    assert float(bar.get_attribute("aria-valuenow")) == pytest.approx(0.4)
    bar.focus()
    page.keyboard.press("ArrowUp")
    page.wait_for_url(lambda url: "p=41-" in url)
    page.reload()
    assert float(
        page.get_by_role("slider", name="target p of “mat”", exact=True).get_attribute("aria-valuenow")
    ) == pytest.approx(0.41)


def test_a_link_that_cannot_be_met_says_so_as_text(open_page, address):
    page = open_page(f"{address}one_round.html?seed=7&at=99.1&x=%3Cimg%20src=x%3E")
    for said in ("'seed' was left out", "position was left out", "'x' was left out"):
        expect(page.locator("#notices")).to_contain_text(said)
    page = open_page(f"{address}one_token.html?preset=%3Cimg%20src=x%3E")
    expect(page.locator(".notices")).to_contain_text("'<img src=x>' is not one of")


def test_the_recorded_texts_are_chosen_by_link_and_replayed(open_page, address):
    page = open_page(f"{address}whole_text.html?temperature=0")
    expect(page.locator("nav.choices [aria-current]")).to_have_text("temperature 0")
    expect(page.locator("#conclusion")).to_contain_text("Both ways wrote the same text")
    page.get_by_role("button", name="Replay").click()  # it does not play by itself where nothing is to move
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    page.emulate_media(reduced_motion="no-preference")
    page.reload()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    assert page.locator("a.token").first.get_attribute("href").startswith(f"{LIVE}one_round?")


def test_a_method_leads_to_its_round(open_page, address):
    page = open_page(f"{address}drafting_methods.html?distribution=top-p+.9")
    expect(page.locator("nav.choices [aria-current]")).to_have_text("temperature 1, top-p 0.9")
    expect(page.locator("section[data-distribution]:visible")).to_have_count(1)
    picture = page.locator("#picture")
    picture.get_by_role("radio", name="Adversary").click()
    expect(picture.locator(".speed .machine")).to_have_count(2)
    expect(page.locator("#row-name")).to_have_text("Adversary: one round")
    page.get_by_role("button", name=re.compile("^Show (all|every)")).click()
    page.locator("#chart").get_by_role("button", name="Medusa heads").click()
    expect(picture.get_by_role("radio", checked=True)).to_have_text("Medusa heads")
    expect(page.locator("#row-name")).to_have_text("Medusa heads: one round")
    assert urlsplit(page.url).query == "distribution=top-p+.9&row=medusa"
    page.get_by_role("button", name="Step →").click()
    expect(page.locator(".count")).to_contain_text("2 of")


@pytest.mark.parametrize("sandbox", ("", ' sandbox="allow-scripts allow-popups"'))
def test_a_page_stands_in_a_frame_of_another_sites_page(context, folder, address, sandbox):
    """As docs/how-to/embedding.md writes it. The frame shows the picture and one link, and not the bar of pages. In a sandbox only the font stays away."""
    page, problems = context.new_page(), []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    frame = f'<iframe src="{address}one_round.html?at=1.4" title="x" width="100%" height="720"{sandbox}></iframe>'
    (folder.parents[1] / "blog.html").write_text(frame)
    page.goto(f"http://localhost:{urlsplit(address).port}/blog.html")  # another name is another origin
    inside = page.frame_locator("iframe")
    expect(inside.locator(".chip").first).to_be_visible()
    expect(inside.get_by_role("navigation", name="Pages")).to_be_hidden()
    inside.get_by_role("button", name="Step →").click()
    expect(inside.locator(".transport input[type=range]")).to_have_value("4")
    page.frames[1].wait_for_url(f"{address}one_round.html?at=1.5", wait_until="commit")
    alone = inside.get_by_role("link", name="open this page by itself")
    alone.focus()
    expect(alone).to_have_attribute("href", f"{address}one_round.html?at=1.5")
    page.close()
    missing = [one for one in problems if "woff2" in one or "net::ERR_FAILED" in one]
    assert problems == (missing if sandbox else [])
