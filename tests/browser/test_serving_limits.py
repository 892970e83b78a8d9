"""Serving limits in a real browser: comparisons and a text stand in the address, a comparison is begun and stopped."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.test_app import NASTY, PATIENT, assert_harmless, query


def test_comparisons_stand_in_the_address_and_a_comparison_is_begun_and_stopped(page, server):
    page.goto(f"{server}/serving_limits")
    expect(page.locator(".setup-list details")).to_have_count(9, timeout=PATIENT)
    expect(page.locator(".lead-bars")).to_have_count(0)  # the answer follows the visitor's
    page.get_by_role("radio", name="The float32 text").click()
    expect(page.locator(".lead-bars")).to_be_visible()
    expect(page.locator(".answer-line").first).to_contain_text("Neither, in fact")
    page.get_by_role("tab", name="Filters and penalties").click()
    expect(page.locator(".fork")).to_be_hidden()
    page.locator(".setup-list summary", has_text="int8, one scale for a pass").click()
    expect(page.locator("details[open]", has_text="quantize_dynamic")).to_be_visible()
    expect(page.locator(".st-key-serving_limits-notes-from")).to_contain_text("recorded on passages of")
    page.get_by_role("tab", name="Near ties").click()
    expect(page.locator(".gaps .columns")).to_be_visible()
    page.get_by_role("radio", name="float32 without and with draft").click()
    page.wait_for_url(re.compile("arm=fp32-blocks"))
    expect(page.locator(".st-key-screen-serving_limits-margins .answer-line")).to_contain_text(
        "write the same tokens in", timeout=PATIENT
    )
    page.get_by_role("button", name="Settings").click()
    field = page.get_by_label("Text to continue", exact=True)
    field.fill(NASTY[:30])
    field.press("Control+Enter")
    page.wait_for_url(re.compile("prompt=%3Cimg"))
    assert query(page)["prompt"] == NASTY[:30]
    page.get_by_role("button", name="Measure every setup").click()
    expect(page.locator(".st-key-serving_limits-progress")).to_contain_text("…")
    page.locator(".st-key-serving_limits-stop button").click()  # the frame has a Stop of its own where a run takes long
    expect(page.locator(".st-key-serving_limits-stop")).to_have_count(0, timeout=PATIENT)
    measure = page.get_by_role("button", name="Measure every setup")
    if not measure.is_visible():  # a click outside of the settings closes them
        page.get_by_role("button", name="Settings").click()
    expect(measure).to_be_enabled(timeout=PATIENT)
    expect(page.locator(".st-key-serving_limits-notes-from")).to_contain_text(re.compile("recorded on passages of|Your run"))
    assert_harmless(page)
