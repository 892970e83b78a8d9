"""A pair is recorded for the gallery in one file: what is in it comes back, and damage is refused."""

from __future__ import annotations

import json

import pytest

from specviz.__main__ import main
from specviz.errors import TraceError
from specviz.speed.records.pair_record import PairRecord, format_gallery


@pytest.fixture(scope="module")
def records(pair_folders, tmp_path_factory):
    """The tiny pair, and methods on its target; without speeds. Lookahead and the tree are decoded."""
    folder, found = tmp_path_factory.mktemp("pairs"), {}
    models = ["--target", str(pair_folders[0]), "--draft", str(pair_folders[1])]
    for proposer in ("draft", "ngram", "lookahead", "tree"):
        out = folder / f"{proposer}.json"
        given = [
            "--proposer",
            proposer,
            "--continuations",
            "2",
            "--max-new-tokens",
            "10",
            "--license",
            "MIT | test",
            "--out",
            str(out),
        ]
        assert main(["record", "pair", *models, "--tokens-only", *given]) == 0
        found[proposer] = out.read_text(encoding="utf-8")
    return found


def test_a_record_holds_acceptance_divergences_a_sample_and_the_license(records):
    found = PairRecord.from_json(records["draft"])
    assert found.to_json() == records["draft"].rstrip()
    assert found.plan.positions and found.plan.machine["processor"] and "target_sha256" in found.plan.models
    assert 0.0 < found.divergences["beta"].value < 1.0 and found.divergences["kl_pq"].value > 0.0
    assert found.sample and found.plan.best is None
    assert found.plan.settings.pair == found.plan.models["pair"] == "target|draft"  # no path of the machine that made it
    row = format_gallery([found]).splitlines()[-1]
    assert row.count("|") == 10 and "MIT / test" in row and "not measured" in row and "| counted |" in row


def test_a_method_without_a_model_has_no_divergences_and_its_own_name(records):
    found = PairRecord.from_json(records["ngram"])
    assert found.divergences == {} and found.title.endswith(", ngram") and found.list_cells()["1 - TV"] == "no model drafts"


@pytest.mark.parametrize("proposer", ["lookahead", "tree"])
def test_a_method_that_no_plan_counts_is_decoded_and_says_so(records, proposer):
    found = PairRecord.from_json(records[proposer])
    assert found.to_json() == records[proposer].rstrip() and found.plan is None
    assert (
        found.decoded.settings.pair == "target|draft" and found.decoded.openings == 2 and found.decoded.target_only_rates is None
    )
    tokens = [row.tokens for row in found.decoded.rows]
    assert all(one.n == 2 and 1.0 <= one.low <= one.value <= one.high <= 10.0 for one in tokens)
    cells = found.list_cells()
    assert cells["how"] == "decoded" and cells["best speed-up"] == "not measured" and cells["rounds with a draft"].endswith("%")
    assert (found.divergences == {}) == (proposer == "lookahead")


def test_a_record_has_a_plan_or_decoded_rounds(records):
    both = json.loads(records["draft"]) | {"decoded": json.loads(records["lookahead"])["decoded"]}
    for record in (both, {name: value for name, value in both.items() if name not in ("plan", "decoded")}):
        with pytest.raises(TraceError, match="one of the two"):
            PairRecord.from_json(json.dumps(record))


def test_nothing_is_recorded_of_target_only_sampling(pair_folders, tmp_path, capsys):
    models = ["--target", str(pair_folders[0]), "--draft", str(pair_folders[1])]
    assert main(["record", "pair", *models, "--proposer", "none", "--out", str(tmp_path / "none.json")]) == 2
    assert "a drafting method" in capsys.readouterr().err


@pytest.mark.parametrize("change", [{"license": ""}, {"title": "a\x1b[2J"}, {"sample": "x" * 3000}, {"plan": {}}, {"more": 1}])
def test_a_damaged_record_is_refused_in_words(records, change):
    with pytest.raises(TraceError, match="The record of a pair is damaged"):
        PairRecord.from_json(json.dumps(json.loads(records["draft"]) | change))


def test_an_empty_gallery_says_so():
    assert format_gallery([]) == "No pair was recorded yet.\n"
