"""Sample files on the page: tested as our own samples are, not accepted with a sentence, and nothing of what was found before is lost."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest

from specviz.decoding.samples import NONE
from specviz.evidence.decoder import SHARED, build_decoder
from specviz.evidence.testing.results import ROWS, CellShares
from specviz.jobs.queue import FairQueue
from specviz.settings import Settings
from specviz.statistics.total_variation import compute_cell_bands
from specviz.web.exactness import export, words
from specviz.web.exactness.state import FILE, ExactnessQuestion, ExactnessState, SampleUpload
from specviz.web.exactness.work import examine_files
from specviz.web.hosting import cache

PROMPT = "Once upon"
DRAWS = 300  # samples of a file
BASE = Settings(prompt="something else", max_new_tokens=2)


@pytest.fixture(scope="module")
def draws(pair):
    settings = replace(BASE, pair="tiny", prompt=PROMPT, seed=11)

    def draw(**changes) -> list[list[int]]:
        tokens = build_decoder("target", pair, replace(settings, **changes), pair.encode(PROMPT)).sample(SHARED, 0, DRAWS).tokens
        return [[token for token in row if token != NONE] for row in tokens.tolist()]

    return {"right": draw(), "again": draw(seed=12), "cooler": draw(temperature=0.2)}


def build_lines(rows, **more) -> bytes:
    return "".join(json.dumps({"prompt": PROMPT, "tokens": row, "stop": "length"} | more) + "\n" for row in rows).encode()


def build_upload(content: bytes, name: str = "draws.jsonl") -> SampleUpload:
    return SampleUpload(f"{name} {len(content)}", name, content)


def examine_uploads(exam: ExactnessState, *uploads: SampleUpload) -> ExactnessState:
    exam.test_uploads(uploads, examine_files)
    for _ in range(600):
        if not exam.is_busy:
            return exam
        time.sleep(0.05)
    raise AssertionError("the work did not end")


@pytest.fixture
def exam(page_pair):
    return ExactnessState(ExactnessQuestion(BASE, FILE), FairQueue())


REPORTS: dict[str, dict] = {}  # of the good file, tested once


@pytest.fixture
def visit_with_file(exam, draws):
    """A visit in which the good file was tested."""
    if REPORTS:
        exam.report = REPORTS["right"]
    else:
        REPORTS["right"] = examine_uploads(exam, build_upload(build_lines(draws["right"]))).report
    return exam


def test_a_file_is_tested_against_the_distribution_and_says_what_could_have_been_detected(visit_with_file):
    report = visit_with_file.report
    assert visit_with_file.notices == [] and report["verdict"] == "consistent" and report["n"] == DRAWS
    assert report["settings"]["prompt"] == PROMPT, "the prompt is the file's"
    assert "would have shown a total variation of" in report["sentence"]
    shown = CellShares.from_report(report)
    assert sum(shown.counts) <= DRAWS and shown.n == DRAWS
    assert words.describe_files(report) == "'draws.jsonl' (300 samples), after “Once upon”."
    assert len(words.build_report_tests_table(report)) == len(report["tests"])


def test_samples_of_another_distribution_are_rejected(exam, draws):
    assert examine_uploads(exam, build_upload(build_lines(draws["cooler"]))).report["verdict"] == "rejected"


def test_two_files_are_compared_without_weights(exam, draws, monkeypatch):
    monkeypatch.setattr(cache, "load_weights", lambda *key: pytest.fail("no weights are needed"))
    examine_uploads(exam, build_upload(build_lines(draws["right"])), build_upload(build_lines(draws["cooler"]), "off.jsonl"))
    assert exam.report["mode"] == "two files" and exam.report["verdict"] == "rejected"
    assert exam.report["answers"][0]["cells"] == []


def test_of_many_cells_the_heaviest_are_shown_with_bands_for_all():
    cells = [{"begins": [number], "whole": True, "mass": 0.025, "count": 25} for number in range(40)]
    shown = CellShares.from_report({"decoder": "a file", "pieces": {}, "answers": [{"n": 1000, "cells": cells}]})
    assert len(shown.rows.labels) == ROWS and shown.undrawn_mass == pytest.approx((40 - ROWS) * 0.025)
    low, high = compute_cell_bands([0.025] * 40, 1000, 1 - 0.01 / 40)
    assert (shown.low, shown.high, shown.outliers) == (tuple(low), tuple(high), ())


BAD = {
    "half a line": (lambda good: build_lines(good)[:-9], "perhaps it is cut off"),
    "other tokens": (lambda good: build_lines([*good, [10**6, 1]]), "outside the vocabulary"),
    "mixed settings": (
        lambda good: (
            build_lines(good[:150], settings={"temperature": 1.0}) + build_lines(good[150:], settings={"temperature": 0.5})
        ),
        "other settings than the first sample",
    ),
    "another temperature": (lambda good: build_lines(good, settings={"temperature": 0.5}), "temperature must be 0.5"),
    "an edited run": (lambda good: build_lines(good, settings={"uniforms": ["0=0.5"]}), "not a sample"),
    "one draw repeated": (lambda good: build_lines([good[0]] * DRAWS), "one draw repeated"),
    "text without ids": (lambda good: b'{"prompt": "Once upon", "text": "x"}\n' * 30, "without token ids"),
    "nothing": (lambda good: b"", "holds no samples"),
    "no text at all": (lambda good: bytes(range(256)), "not valid JSON"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_file_gets_a_sentence_and_what_was_found_before_stays(visit_with_file, draws, kind):
    exam, before = visit_with_file, visit_with_file.report
    make, sentence = BAD[kind]
    examine_uploads(exam, build_upload(make(draws["right"]), f"{kind}.jsonl"))
    assert len(exam.notices) == 1 and sentence in exam.notices[0]
    assert exam.report is before


def test_what_is_too_large_is_not_read(exam, serve):
    serve(upload_mb=1)
    examine_uploads(exam, build_upload(b"{}" + b" " * 2**20, "huge.jsonl"))
    assert "'huge.jsonl' is larger than 1 MB" in exam.notices[0] and exam.ticket is None


def test_three_files_are_one_too_many_and_none_is_none(visit_with_file, draws):
    exam, good = visit_with_file, build_lines(draws["right"])
    examine_uploads(exam, *(build_upload(good, name) for name in "abc"))
    assert "You gave 3" in exam.notices[0] and exam.report is REPORTS["right"]
    examine_uploads(exam)
    assert exam.report is None and exam.notices == []


def test_the_same_files_are_tested_once_and_other_visitors_see_nothing_of_it(exam, draws):
    other = ExactnessState(ExactnessQuestion(BASE, FILE), exam.queue)
    both = build_upload(build_lines(draws["right"])), build_upload(build_lines(draws["again"]), "off.jsonl")
    found = examine_uploads(exam, *both).report
    assert found is not None and examine_uploads(exam, *both).report is found
    assert other.report is None and other.notices == []


def test_what_was_found_about_a_file_can_be_exported(visit_with_file):
    offer = export.build_offer(visit_with_file)
    assert offer.stem == "evidence" and "report.json" in offer.names
    assert json.loads(offer.build().build_file("report.json")) == visit_with_file.report
