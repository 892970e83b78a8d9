"""A page whose socket was cut: within its time it goes on where it was, later it is back by its address and says so."""

from __future__ import annotations

import asyncio

import pytest

from specviz.web.common.frame import SESSION_GONE
from tests.faults.conftest import Faulty, Witness

pytestmark = pytest.mark.slow
LINK = "prompt=a+bear&seed=41"


async def sleep_and_return(server: Faulty) -> tuple[Witness, Witness, Witness]:
    """A page before its browser slept, the same one after it woke, and one that is new."""
    before, after, fresh = (Witness(number, LINK) for number in range(3))
    async with before.open_tab(server.address):
        await before.enter()
        await before.run_until(lambda: before.has_live_run(rounds=1))
        await before.request_round()
        cookie = f"_streamlit_xsrf={before.http.cookies['_streamlit_xsrf']}"
    after.link = before.query
    async with after.open_tab(server.address, cookie=cookie, session=before.session):
        await after.enter()
        await after.run_until(lambda: after.has_live_run(rounds=1))
    async with fresh.open_tab(server.address):
        await fresh.enter()
    return before, after, fresh


def test_a_page_that_slept_for_too_long_is_a_new_one_by_its_link_and_says_so_once(faulty):
    """As after an hour: nothing is kept, from the moment at which the socket is cut."""
    before, after, fresh = asyncio.run(sleep_and_return(faulty(SPECVIZ_AWAY_SECONDS="0")))
    assert after.session != before.session and after.toasts == [SESSION_GONE] and before.toasts == fresh.toasts == []
    assert after.stage["payload"]["status"] == before.stage["payload"]["status"]
    assert after.stage["payload"]["id"] != "" and after.exceptions == 0


def test_a_page_that_is_back_in_time_is_the_same_one_with_what_it_had(faulty):
    before, after, _ = asyncio.run(sleep_and_return(faulty(SPECVIZ_AWAY_SECONDS="600")))
    assert after.session == before.session and after.toasts == []
    assert after.stage["payload"] == before.stage["payload"]
