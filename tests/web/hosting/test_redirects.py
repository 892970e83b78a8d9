"""Earlier addresses, links to a round at the root, and the front page by its name lead to the page of today with the same query."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from specviz.figures.pages_and_glossary import PAGES
from specviz.web.hosting.redirects import FRONT, MOVED, ROUND, RoundLinkMiddleware, build_redirects

CLIENT = TestClient(Starlette(routes=build_redirects()), follow_redirects=False)


@pytest.mark.parametrize(("name", "page"), MOVED.items())
def test_an_earlier_address_leads_to_its_page(name, page):
    answer = CLIENT.get(f"/{name}?seed=7&p=1-2&prompt=a%20b%0d%0aX")
    assert page in PAGES and answer.status_code == 308
    assert answer.headers["location"] == f"{page}?seed=7&p=1-2&prompt=a%20b%0d%0aX"


def test_the_front_page_is_found_by_its_name_and_no_query_is_added():
    assert CLIENT.get(f"/{FRONT}").headers["location"] == "./"


def test_no_page_of_today_is_led_away():
    assert not set(MOVED) & set(PAGES)
    assert not {route.path for route in build_redirects()} & {f"/{page}" for page in PAGES}


ROOT = TestClient(
    RoundLinkMiddleware(Starlette(routes=[Route("/{rest:path}", lambda request: PlainTextResponse("page"))])),
    follow_redirects=False,
)


@pytest.mark.parametrize("query", ["at=1.11", "tour=1", "prompt=a%20b%0d%0aX&seed=7", "length=8", "prompt="])
def test_a_link_to_a_round_at_the_root_opens_the_round(query):
    answer = ROOT.get(f"/?{query}")
    assert answer.status_code == 308 and answer.headers["location"] == f"{ROUND}?{query}"


@pytest.mark.parametrize("address", ["/", "/?utm_source=x", "/?", "/one_token?p=1-2", "/speed?prompt=a"])
def test_any_other_address_stays(address):
    assert ROOT.get(address).text == "page"
