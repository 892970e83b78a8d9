"""Audits of these tests are as large as their claims need."""

from __future__ import annotations

import pytest

from specviz.audit.collection import audited_server, preflight
from specviz.audit.findings import text_samples
from specviz.evidence import hypothesis_tests as evidence_tests


@pytest.fixture(autouse=True)
def small_audits(monkeypatch):
    """The rate of a quick server is measured for a moment, and two samples are compared by their first 400 texts.

    The two-sample test is one of nine; the mistakes here are rejected by the chi-square test of all samples.
    """
    monkeypatch.setattr(audited_server, "MIN_PROBE_SECONDS", 0.02)
    monkeypatch.setattr(evidence_tests, "MOST", 400)
    monkeypatch.setattr(text_samples, "MOST", 400)


@pytest.fixture
def short_preflight(monkeypatch):
    """Fewer and shorter probes before each audit show that these servers have no faults; test_preflight.py has the whole number."""
    monkeypatch.setattr(preflight, "HOT_DRAWS", 150)
    monkeypatch.setattr(preflight, "HOT_TOKENS", 8)
    monkeypatch.setattr(preflight, "HOT_REQUESTS", 4)
    monkeypatch.setattr(preflight, "PENALTY_TOKENS", 16)
