"""Every page, loaded by its own address: the browser logs no error, and no request fails."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from specviz.figures.pages_and_glossary import PAGES
from tests.browser.chromium import at_rest
from tests.browser.test_app import PATIENT


@pytest.mark.parametrize("path", ["", *PAGES])
def test_a_direct_load_logs_no_error_and_no_request_fails(page, server, path):
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("response", lambda answer: problems.append(f"{answer.status} {answer.url}") if answer.status >= 400 else None)
    page.on("requestfailed", lambda request: problems.append(f"failed: {request.url}"))
    page.goto(f"{server}/{path}")
    expect(page.locator(".stApp")).to_be_visible(timeout=PATIENT)
    at_rest(page)
    assert problems == [] and page.mistakes == []
    assert "Streamlit" not in page.title()
