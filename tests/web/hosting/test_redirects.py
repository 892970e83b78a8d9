"""Earlier addresses, and the front page by its name lead to the page of today with the same query."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from specviz.figures.pages_and_glossary import PAGES
from specviz.web.hosting.redirects import FRONT, MOVED, build_redirects

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
