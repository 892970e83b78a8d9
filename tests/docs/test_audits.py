"""The certificates of the servers that were audited are whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specviz.evidence.certificate import ALTERED, check_certificate
from tools.servers.table import FILE

ROOT = Path(__file__).parents[2]
REPORTS = sorted((ROOT / "docs" / "audits").glob("*.json"))


def test_every_server_has_its_audits():
    kinds = {FILE.fullmatch(path.name)["kind"] for path in REPORTS}
    assert kinds == {"vllm", "vllm-cured", "vllm-copied", "llama.cpp", "transformers", "own"}
    assert len(REPORTS) == 5 * (4 + 3 + 4) + 2 * 3 + 3 + 4


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_a_certificate_is_unaltered_and_names_no_place_on_a_machine(path):
    text = path.read_text()
    report = json.loads(text)
    assert [line for line in check_certificate(report) if line.state == ALTERED] == []
    assert "/tmp/" not in text and "/work/" not in text and "/home/" not in text and "/root/" not in text
    assert report["audit"]["servers"][0]["samples"] == report["n"] == 2400
