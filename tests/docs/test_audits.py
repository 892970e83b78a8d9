"""The records of the servers that were audited are whole, and of the servers and settings that the tool plans."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specviz.audit.many_prompts import RECORD
from specviz.evidence.sampling.certificate import ALTERED, check_certificate
from tools.servers.audits import PLANS, PROMPTS
from tools.servers.table import AUDIT

FOLDER = Path(__file__).parents[2] / "docs" / "audits"
REPORTS = sorted(path for path in FOLDER.glob("*/*.json") if path.name != RECORD)


def test_every_planned_audit_is_published_with_all_prompts():
    assert {path.parent.name for path in REPORTS} == {plan.tag for plan in PLANS} and len(REPORTS) == len(PLANS) * len(PROMPTS)
    for plan in PLANS:
        assert AUDIT.fullmatch(plan.tag)
        record = json.loads((FOLDER / plan.tag / RECORD).read_text())
        assert [one["prompt"] for one in record["prompts"]] == list(PROMPTS)
        reports = [json.loads((FOLDER / plan.tag / f"{one['folder']}.json").read_text()) for one in record["prompts"]]
        assert [one["digest"] for one in record["prompts"]] == [report["digest"] for report in reports]
        assert [one["verdict"] for one in record["prompts"]] == [report["verdict"] for report in reports]


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_certificate_is_unaltered_and_names_no_place_on_a_machine(path):
    text = path.read_text()
    report = json.loads(text)
    assert [line for line in check_certificate(report) if line.state == ALTERED] == []
    assert "/tmp/" not in text and "/work/" not in text and "/home/" not in text and "/root/" not in text
    assert report["audit"]["servers"][0]["samples"] == report["answers"][0]["n"]
