"""What leaves the app: the same report gives the same bytes, print and screen show the same numbers, and nothing is left half written."""

from __future__ import annotations

import csv
import errno
import hashlib
import io
import json
import math
import os
import shlex
import zipfile
from urllib.parse import parse_qsl

import numpy as np
import pytest

from specviz.__main__ import main
from specviz.errors import SettingsError
from specviz.evidence.testing.hypothesis_tests import TestPlan, TestReport, run_joint_tests
from specviz.evidence.testing.partition import Partition
from specviz.evidence.testing.report import build_answer, seal
from specviz.export import package
from specviz.export import report as bundle
from specviz.export.folder import write_folder
from specviz.export.matplotlib_adapter import make_printable
from specviz.export.package import PRINTS
from specviz.figures import verification_report as figures
from specviz.settings import Settings
from specviz.statistics.total_variation import compute_cell_bands

PIECES = {"1": b" the".hex(), "2": b"=1+1".hex(), "3": b"$x$ <b>".hex(), "4": "猫".encode().hex(), "5": b"\xe2".hex()}


def build_report(counts=(500, 1480, 0, 1020, 1000, 1000), mode="shared distributions", prompt="Once") -> dict:
    """A report of five thousand draws in six cells, by hand."""
    partition = Partition(
        ((), (1,), (2,), (3,), (4,), (4, 5)),
        np.array([0.1, 0.298, 0.002, 0.2, 0.2, 0.2]),
        2,
        np.array([False, False, False, False, False, True]),
    )
    plan, counts = TestPlan.for_distance(sum(counts), 2, 0.2), np.array(counts)
    one = build_answer(TestReport(mode, plan, run_joint_tests(plan, partition, counts), partition, counts))
    settings = Settings(prompt=prompt, max_new_tokens=2, temperature=0.8, top_k=50)
    return seal(
        {"schema": "specviz-verify-2", "decoder": "speculative"}
        | {name: value for name, value in one.items() if name != "cells"}
        | {"note": "", "analytic_tv": None, "seed": 7, "settings": settings.to_record(), "answers": [one], "pieces": PIECES}
        | {"models": {"pair": "storybook", "device": "cpu", "dtype": "float32", "target_sha256": "a" * 64}}
        | {"versions": {"specviz": "0.1.0", "numpy": np.__version__}}
    )


@pytest.fixture(scope="module")
def record():
    return build_report()


@pytest.fixture(scope="module")
def built_package(record):
    """With figures as wide as a page; test_matplotlib_adapter.py saves the other forms."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(package, "PRINTS", [ending for ending in PRINTS if ending.startswith(".")])
        return bundle.build_report_package(record).build_files()


def test_the_same_report_gives_the_same_bytes(record, built_package):
    """Of one figure in one form and each kind; test_matplotlib_adapter.py has every form, drawn at the same time."""
    again = bundle.build_report_package(json.loads(json.dumps(record)))
    other_forms = {name for name in again.names if name.rpartition(".")[0].endswith(("-column", "-slide"))}
    assert [name for name in (*again.names, "manifest.json", "evidence.zip") if name not in other_forms] == list(built_package)
    pictures = {f"histogram-1-shared-distributions.{kind}" for kind in ("svg", "pdf", "png")}
    names = [name for name in again.names if name in pictures or not name.endswith((".svg", ".pdf", ".png"))]
    assert len([name for name in again.names if name.startswith("histogram-1-shared")]) == len(PRINTS) and pictures < {*names}
    assert [name for name in names if built_package[name] != again.build_file(name)] == []


@pytest.mark.slow
def test_the_same_report_gives_the_same_zip(record):
    first, again = (bundle.build_report_package(one).build_files() for one in (record, json.loads(json.dumps(record))))
    assert first == again


def test_every_kind_of_file_is_there_and_is_what_its_name_says(built_package):
    for name in ("histogram-1-shared-distributions", "tests-1-shared-distributions"):
        assert built_package[f"{name}.svg"].startswith(b"<?xml") and b"<svg" in built_package[f"{name}.svg"]
        assert built_package[f"{name}.png"].startswith(b"\x89PNG")
        assert built_package[f"{name}.pdf"].startswith(b"%PDF")
        assert f'id="{name}"'.encode() in built_package["figures.html"]
    assert (
        built_package["figures.html"].startswith(b"<!doctype html>")
        and b"https://cdn" not in built_package["figures.html"][-50_000:]
    )


def test_no_file_holds_a_date(built_package):
    for name, content in built_package.items():
        if name.endswith((".svg", ".pdf")):
            assert b"<dc:date>" not in content and b"CreationDate" not in content, name
    with zipfile.ZipFile(io.BytesIO(built_package["evidence.zip"])) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert archive.testzip() is None
        assert {entry.filename.removeprefix("evidence/") for entry in archive.infolist()} == set(built_package) - {"evidence.zip"}


def test_a_rejected_test_is_drawn_as_one_and_a_p_value_too_small_for_the_axis_at_its_edge():
    drawn = figures.plot_tests(build_report((500, 1990, 10, 1000, 1000, 500))["answers"][0])
    named = {trace.name: trace for trace in drawn.data}
    assert list(named["rejected"].x) == [figures.LEAST_P] * 2 and "not rejected" not in named


def test_a_cell_without_a_draw_stands_on_the_edge_and_the_axis_says_so(record):
    drawn = figures.plot_histogram(record["answers"][0], {int(token): raw for token, raw in PIECES.items()})
    probs, shares = drawn.data
    edge = shares.x[list(shares.customdata).index(0.0)]
    assert edge == min(shares.x) < min(probs.x)
    assert "no sample" in drawn.layout.xaxis.title.text and drawn.layout.xaxis.range[0] == math.log10(edge)


def test_the_band_of_a_cell_holds_its_share_as_often_as_it_says():
    """Exactly: the binomial mass within the band is .99 or more, and would be less with one draw fewer on either side."""
    from scipy import stats

    probs, n = np.array([0.5, 0.3, 0.19, 0.01]), 400
    low, high = np.rint(compute_cell_bands(probs, n, 0.99) * n)
    inside = stats.binom.cdf(high, n, probs) - stats.binom.cdf(low - 1, n, probs)
    assert (inside >= 0.99).all()
    assert (stats.binom.cdf(low - 1, n, probs) <= 0.005).all() and (stats.binom.sf(high, n, probs) <= 0.005).all()


def read_rows(built_package, name) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(built_package[name].decode("utf-8-sig"))))


def test_tables_hold_the_reports_numbers_to_the_last_digit(record, built_package):
    one = record["answers"][0]
    assert [int(row["count"]) for row in read_rows(built_package, "cells.csv")] == [cell["count"] for cell in one["cells"]]
    total = sum(cell["mass"] for cell in one["cells"])
    assert [float(row["mass"]) for row in read_rows(built_package, "cells.csv")] == [
        cell["mass"] / total for cell in one["cells"]
    ]
    assert [float(row["p_value"]) for row in read_rows(built_package, "tests.csv")] == [test["p_value"] for test in one["tests"]]


def test_no_text_in_a_table_is_taken_for_a_formula(built_package):
    assert all(row["text"].startswith('"') or row["text"] == "" for row in read_rows(built_package, "cells.csv"))
    assert any("=1+1" in row["text"] for row in read_rows(built_package, "cells.csv"))


def test_labels_with_markup_foreign_letters_and_half_characters_are_shown_as_they_are(record):
    shown = figures.plot_histogram(record["answers"][0], {int(token): raw for token, raw in PIECES.items()}).layout.yaxis.ticktext
    assert {"&#36;x&#36;·&lt;b&gt; …", "猫‹E2›", "any other text", "·the …"} <= set(shown)
    assert make_printable("猫 é") in ("猫 é", "‹U+732B› é")


def test_the_manifest_says_all_that_is_needed_to_make_it_again(record, built_package):
    manifest = json.loads(built_package["manifest.json"])
    assert manifest["files"] == {
        name: hashlib.sha256(content).hexdigest()
        for name, content in built_package.items()
        if name not in ("manifest.json", "evidence.zip")
    }
    assert manifest["digest"] == record["digest"] and manifest["models"]["target_sha256"] == "a" * 64
    settings, notices = Settings.from_query(dict(parse_qsl(manifest["permalink"].removeprefix("exactness?"))))
    assert settings == Settings.from_record(record["settings"]) and notices == []
    assert manifest["answers"][0]["n"] == 5000 and manifest["answers"][0]["tests"] == ["chi-square", "G"]


@pytest.mark.parametrize(
    ("decoder", "changed", "link"),
    [
        ("speculative", {}, "exactness?prompt=a%26b&max_new_tokens=2"),
        ("target", {}, "exactness?prompt=a%26b&max_new_tokens=2&source=target"),
        ("R5", {}, "mistakes?mistake=R5&prompt=a%26b&seed=7"),
        ("speculative", {"proposer": "ngram"}, ""),
        ("speculative", {"temperature": 9.0}, ""),
    ],
)
def test_the_link_opens_the_page_that_asks_the_same_of_the_same_decoder(decoder, changed, link):
    settings = Settings(prompt="a&b", max_new_tokens=2).to_record() | changed
    assert bundle.build_permalink({"decoder": decoder, "settings": settings, "files": []}) == link


def test_the_command_in_the_manifest_asks_for_the_same_draws(record):
    import argparse

    from specviz.cli import verify

    parser = argparse.ArgumentParser()
    verify.add_arguments(parser)
    for prompt in ("Once", 'it\'s -- "so"\n$HOME', "-x", ""):
        words = shlex.split(bundle.build_commands(build_report(prompt=prompt))[0])
        assert words[:4] == ["python", "-m", "specviz", "verify"]
        options = parser.parse_args(words[4:])
        asked = verify.read_verify_settings(options)
        stored = Settings.from_record(record["settings"] | {"prompt": prompt, "device": "cpu", "dtype": "float32"})
        assert asked == stored and options.samples == 5000 and options.mode == "shared-distributions"


def test_the_caption_says_n_test_detectable_distance_pair_and_settings(built_package):
    caption = built_package["caption.txt"].decode()
    for words in (
        "5,000 samples",
        "chi-square p = ",
        "total variation of 0.",
        "storybook",
        "temperature 0.8",
        "top-k 50",
        "seed 7",
    ):
        assert words in caption


def test_an_export_replaces_an_earlier_one_and_nothing_else(tmp_path, built_package):
    folder = tmp_path / "evidence"
    write_folder(folder, built_package)
    assert {path.name for path in folder.iterdir()} == set(built_package)
    write_folder(folder, built_package)
    assert {path.name for path in tmp_path.iterdir()} == {"evidence"}
    (folder / "thesis.tex").write_text("years of work")
    with pytest.raises(SettingsError, match=r"holds other files, such as 'thesis\.tex'"):
        write_folder(folder, built_package)
    assert (folder / "thesis.tex").read_text() == "years of work"


@pytest.mark.parametrize("earlier", [False, True])
def test_a_full_disk_leaves_nothing_half_written(tmp_path, built_package, monkeypatch, earlier):
    folder, real, written = tmp_path / "evidence", os.fsync, []
    if earlier:
        write_folder(folder, built_package)
    before = {path.name: path.read_bytes() for path in folder.iterdir()} if earlier else None

    def full(handle):
        written.append(handle)
        if len(written) == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(handle)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SettingsError, match="No space left on device"):
        write_folder(folder, built_package)
    assert [path.name for path in tmp_path.iterdir()] == (["evidence"] if earlier else [])
    if earlier:
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_what_cannot_be_written_is_said_before_anything_is_drawn(tmp_path, capsys):
    taken = tmp_path / "file"
    taken.write_text("mine")
    for out in (taken, "/proc/nowhere/deep", tmp_path / "no" / "parent"):
        assert main(["verify", "--pair", "nobody", "--out", str(out)]) == 2
        error = capsys.readouterr().err
        assert str(out) in error and "folder" in error and error.count("\n") == 1
    assert taken.read_text() == "mine"


def test_a_report_without_cells_has_tests_and_no_histogram():
    record = build_report()
    record["answers"][0] |= {"cells": [], "detectable_tv": None}
    built_package = bundle.build_report_package(record)
    assert list(built_package.pictures) == ["tests-1-shared-distributions"]
    assert read_rows({"cells.csv": built_package.build_file("cells.csv")}, "cells.csv") == []
