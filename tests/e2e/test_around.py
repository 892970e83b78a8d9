"""Around the rule in a real browser: comparisons stand in the address, the laboratory is stopped, and run on a text of the visitor's."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.e2e.test_page import NASTY, PATIENT, query


def test_comparisons_stand_in_the_address_and_a_laboratory_is_stopped_and_run(page, server):
    page.goto(f"{server}/around")
    expect(page.locator(".js-plotly-plot")).to_have_count(3, timeout=PATIENT)
    expect(page.locator(".st-key-around-notes-from")).to_contain_text("Recorded on places of")
    page.get_by_role("radio", name="fp32 + guesses").click()
    page.wait_for_url(re.compile("arm=fp32-blocks"))
    expect(page.locator(".st-key-around-said-ties")).to_contain_text("alike, to the last token", timeout=PATIENT)
    field = page.get_by_label("Text to continue", exact=True)
    field.fill(NASTY[:30])
    field.press("Control+Enter")
    page.wait_for_url(re.compile("prompt="))
    assert query(page)["prompt"] == NASTY[:30]
    page.get_by_role("button", name="Run the laboratory").click()
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("button", name="Run the laboratory")).to_be_enabled(timeout=PATIENT)
    expect(page.locator(".st-key-around-notes-from")).to_contain_text("Recorded on places of")
    field.fill("Once")
    field.press("Control+Enter")
    page.wait_for_url(re.compile("prompt=Once"))
    page.get_by_role("button", name="Run the laboratory").click()
    expect(page.locator(".st-key-around-notes-from")).to_contain_text("Your run: the target went on", timeout=2 * PATIENT)
    expect(page.locator(".js-plotly-plot")).to_have_count(3, timeout=PATIENT)
    assert (page.dialogs, page.mistakes) == ([], [])
