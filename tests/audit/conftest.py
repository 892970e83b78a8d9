"""Audits of these tests are as large as their claims need."""

from __future__ import annotations

import pytest

from specviz.audit.collection import audited_server, preflight
from specviz.audit.findings import confirmation, temperature_chain


@pytest.fixture(autouse=True, scope="module")
def small_audits():
    """The rate of a quick server is measured for a moment, and temperatures are fitted in few rounds; findings/test_diagnosis.py has them all."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(audited_server, "MIN_PROBE_SECONDS", 0.02)
        patched.setattr(temperature_chain, "EM_ROUNDS", 4)
        yield


@pytest.fixture
def brief_confirmation(monkeypatch):
    """A rejected server is asked again for a moment; test_command.py and findings/test_confirmation.py have whole runs."""
    monkeypatch.setattr(confirmation, "MAX_SECONDS", 0.1)


@pytest.fixture
def short_preflight(monkeypatch):
    """Fewer and shorter probes before each audit show that these servers have no faults; test_preflight.py has the whole number."""
    shorten_preflight(monkeypatch)


def shorten_preflight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "HOT_DRAWS", 150)
    monkeypatch.setattr(preflight, "HOT_TOKENS", 8)
    monkeypatch.setattr(preflight, "HOT_REQUESTS", 4)
    monkeypatch.setattr(preflight, "PENALTY_TOKENS", 16)
