"""A pair is recorded for the gallery in one file: what is in it comes back, and damage is refused."""

from __future__ import annotations

import json

import pytest

from specviz.__main__ import main
from specviz.errors import TraceError
from specviz.speed.records.pair import PairRecord, format_gallery


@pytest.fixture(scope="module")
def records(pair_folders, tmp_path_factory):
    """The tiny pair, and copied tokens on its target; without speeds."""
    folder, found = tmp_path_factory.mktemp("pairs"), {}
    models = ["--target", str(pair_folders[0]), "--draft", str(pair_folders[1])]
    for proposer in ("draft", "ngram"):
        out = folder / f"{proposer}.json"
        given = ["--proposer", proposer, "--texts", "2", "--max-new-tokens", "10", "--license", "MIT | test", "--out", str(out)]
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
    assert row.count("|") == 8 and "MIT / test" in row and "not measured" in row


def test_a_method_without_a_model_has_no_divergences_and_its_own_name(records):
    found = PairRecord.from_json(records["ngram"])
    assert found.divergences == {} and found.title.endswith(", ngram") and found.list_cells()["1 - TV"] == "no model drafts"


@pytest.mark.parametrize("change", [{"license": ""}, {"title": "a\x1b[2J"}, {"sample": "x" * 3000}, {"plan": {}}, {"more": 1}])
def test_a_damaged_record_is_refused_in_words(records, change):
    with pytest.raises(TraceError, match="The record of a pair is damaged"):
        PairRecord.from_json(json.dumps(json.loads(records["draft"]) | change))


def test_an_empty_gallery_says_so():
    assert format_gallery([]) == "No pair was recorded yet.\n"
