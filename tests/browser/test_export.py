"""Exports in a real browser, opened as people would: an image viewer, a spreadsheet, a browser without a network; and uploads."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from xml.etree import ElementTree

import pytest
from PIL import Image
from playwright.sync_api import Download, Page, expect

from specviz.trace import Trace
from tests.browser.conftest import laptop
from tests.browser.test_app import PATIENT

PAGES = {
    "one-round": ("one_round", "decisions.csv"),
    "one-token": ("one_token?preset=sure", "token.csv"),
    "is-it-exact": ("exactness?prompt=Once+upon&length=1", "cells.csv"),
    "break-it": ("mistakes?prompt=Once+upon&mistake=R5", "speeds.csv"),
}


def open_fold(page: Page) -> None:
    page.get_by_role("button", name="Export", exact=True).click()
    expect(page.get_by_role("button", name="Everything, one zip")).to_be_enabled(timeout=PATIENT)


def zip_of(page: Page) -> dict[str, bytes]:
    """The zip's members by name, fetched by its button."""
    with page.expect_download(timeout=PATIENT) as download:
        page.get_by_role("button", name="Everything, one zip").click()
    with zipfile.ZipFile(download.value.path()) as archive:
        assert archive.testzip() is None
        return {name.split("/")[-1]: archive.read(name) for name in archive.namelist()}


@pytest.mark.slow  # web/test_export_tables.py and export/test_figures.py read every file without a browser
@pytest.mark.parametrize("stem", PAGES)
def test_the_zip_of_each_page_opens_in_viewer_spreadsheet_and_browser(page, browser, server, tmp_path, stem):
    path, table = PAGES[stem]
    page.goto(f"{server}/{path}")
    if stem in ("is-it-exact", "break-it"):
        expect(page.locator("[data-testid^=stBidi]").first).to_be_attached(timeout=PATIENT)
    open_fold(page)
    found = zip_of(page)
    pictures = [name for name in found if name.endswith(".png")]
    assert pictures
    for name in pictures:
        with Image.open(io.BytesIO(found[name])) as image:
            assert min(image.size) > 300 and len(image.convert("RGB").getcolors(10**7)) > 4, f"{name} is not empty"
        assert ElementTree.fromstring(found[name.replace(".png", ".svg")]).tag.endswith("svg")
        assert found[name.replace(".png", ".pdf")].startswith(b"%PDF")
    assert len(list(csv.DictReader(io.StringIO(found[table].decode("utf-8-sig"))))) > 1
    manifest = json.loads(found["manifest.json"])
    assert set(manifest["files"]) == set(found) - {"manifest.json"}
    if stem != "one-token":
        assert len(manifest["models"]["target_sha256"]) == len(manifest["models"]["tokenizer_sha256"]) == 64
    (tmp_path / "figures.html").write_bytes(found["figures.html"])
    alone = laptop(browser.new_context(offline=True))
    alone.goto((tmp_path / "figures.html").as_uri())
    expect(alone.locator(".js-plotly-plot .main-svg").first).to_be_visible(timeout=PATIENT)
    assert alone.mistakes == [] and [url for url in alone.asked if not url.startswith(("file:", "data:", "blob:"))] == []
    alone.context.close()


def download_file(page: Page, name: str) -> Download:
    """One file of the open fold."""
    page.get_by_label("Or one file").fill(name)  # of the long list only a part is drawn
    page.get_by_role("option", name=name, exact=True).click()
    with page.expect_download(timeout=PATIENT) as download:
        page.get_by_role("button", name=f"Download {name}").click()
    return download.value


def test_one_file_is_downloaded_by_its_name(page, server):
    page.goto(f"{server}/one_round")
    open_fold(page)
    found = download_file(page, "trace.json")
    assert found.suggested_filename == "one-round-trace.json"
    assert Trace.from_json(found.path().read_text(encoding="utf-8")).rounds


def test_the_round_as_one_file_steps_without_a_network(page, browser, server, tmp_path):
    page.goto(f"{server}/one_round")
    open_fold(page)
    file = tmp_path / "one-round.html"
    download_file(page, file.name).save_as(file)
    alone = laptop(browser.new_context(offline=True, reduced_motion="reduce"))
    alone.goto(file.as_uri())
    sentence = alone.locator(".stage .sentence")
    seen = set()
    for _ in range(6):
        seen.add(sentence.text_content())
        alone.keyboard.press("ArrowRight")
    assert len(seen) == 6
    alone.keyboard.press("f")
    expect(alone.locator(".stage.presenting")).to_be_visible()
    assert alone.mistakes == [] and [url for url in alone.asked if not url.startswith(("file:", "data:", "blob:"))] == []
    alone.context.close()


def test_bars_that_were_dragged_are_what_is_exported(page, server):
    page.goto(f"{server}/one_token")
    handle = page.get_by_role("slider").first
    handle.focus()
    for _ in range(3):
        page.keyboard.press("ArrowUp")
    open_fold(page)
    expect(page.get_by_text("Distributions dragged from", exact=False)).to_be_visible(timeout=PATIENT)
    found = list(csv.DictReader(download_file(page, "token.csv").path().open(encoding="utf-8-sig")))
    assert float(found[0]["p"]) == pytest.approx(0.43)
    assert sum(float(row["accepted"]) + float(row["replaced"]) for row in found) == pytest.approx(1.0)


def test_a_file_of_draws_is_tested_its_report_leaves_as_a_certificate_and_a_bad_one_gets_a_sentence(page, server):
    """60 draws of one token, bytes of a tiny vocabulary: too few to reject much, enough to be read and answered."""
    page.goto(f"{server}/exactness?source=file&length=1")
    rows = [{"prompt": "Once <b>$x$</b>", "tokens": [65 + k * 7 % 50], "stop": "length"} for k in range(61)]
    good = "".join(json.dumps(row) + "\n" for row in rows).encode()
    put(page, "draws <i>.jsonl", good)
    expect(page.locator(".filling h3")).to_contain_text("61 samples", timeout=PATIENT)
    expect(page.get_by_text("'draws <i>.jsonl' (61 samples), after “Once <b>$x$</b>”.")).to_be_visible()
    open_fold(page)
    from specviz.evidence.sampling.certificate import ALTERED, check_certificate

    report = json.loads(download_file(page, "report.json").path().read_text(encoding="utf-8"))
    assert report["files"][0]["draws"] == 61 and [line for line in check_certificate(report) if line.state == ALTERED] == []
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Remove").first.click()
    expect(page.locator(".filling")).to_have_count(0, timeout=PATIENT)
    put(page, "half.jsonl", good[:-9])
    expect(page.get_by_text("'half.jsonl', line 61 is not valid JSON; perhaps it is cut off", exact=False)).to_be_visible(
        timeout=PATIENT
    )
    assert (page.dialogs, page.mistakes) == ([], [])


def put(page: Page, name: str, content: bytes) -> None:
    page.locator("input[type=file]").set_input_files({"name": name, "mimeType": "application/json", "buffer": content})
