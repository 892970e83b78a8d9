"""``record WHAT``: every name records the file that its page opens with, and too little is refused before any weights are read."""

from __future__ import annotations

import pytest

from specviz.__main__ import main
from specviz.cli.common import progress
from specviz.cli.record import COST_MODEL, RECORDINGS
from specviz.models.pairs import loading
from specviz.records import ASSETS, Schema, read_json
from specviz.trace import SCHEMA, Trace


def test_without_a_name_the_opening_run_is_recorded_with_the_fingerprints_of_its_models(pair_folders, tmp_path):
    target, draft = map(str, pair_folders)
    out = tmp_path / "opening.json"
    asked = ["--target", target, "--draft", draft, "--device", "cpu", "--prompt", "Once", "--max-new-tokens", "20"]
    assert main(["record", *asked, "--rounds", "2", "--out", str(out)]) == 0
    trace = Trace.from_json(out.read_text())
    assert len(trace.rounds) == 2 and {"target_sha256", "draft_sha256"} <= trace.models.keys()


@pytest.mark.parametrize("name", sorted(set(RECORDINGS) - {"pair"}))  # a pair's record is the gallery's, one file a pair
def test_the_recorded_file_has_the_name_and_the_schema_of_its_recording(name):
    schema = SCHEMA if name == "opening" else Schema(name, 0, "The record")
    path = COST_MODEL.with_name("two-cpu-cores.json") if name == "costs" else ASSETS / "traces" / f"{name}.json"
    assert path.is_file() and read_json(path, "it")["schema"].startswith(f"specviz-{schema.name}-")


@pytest.mark.parametrize(
    ("asked", "said"),
    (
        (["opening", "--rounds", "0"], "rounds must be 1 or more, got 0."),
        (["methods", "--samples", "0"], "samples must be 1 or more, got 0."),
        (["methods", "--proposer", "ngram"], "proposer must be left out with record methods, which brings its own, got 'ngram'."),
        (["plans", "--runs", "1"], "runs must be 2 or more, got 1."),
        (["setups", "--positions", "0"], "positions must be 1 or more, got 0."),
        (["gallery"], "what must be one of opening, methods"),
    ),
)
def test_bad_input_is_one_sentence_before_anything_is_loaded(asked, said, monkeypatch, capsys):
    monkeypatch.setattr(loading, "load_pair", lambda *_: pytest.fail("weights were read"))
    assert main(["record", *asked]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_progress_says_what_is_done_of_all_parts_and_how_long_the_rest_takes(monkeypatch, capsys):
    """Half of the second of four parts after 30 seconds: 38%, and 50 seconds for the other 62%."""
    now = iter((0.0, 30.0, 31.0))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(now))
    part = progress.Progress("plans").make_part(1, 4)
    part(0.5, "passes")
    part(0.6, "passes")
    assert capsys.readouterr().err == "plans, passes: 38%, about 50 s left\n", "a second later is too soon for another line"
