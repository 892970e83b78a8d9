"""Every way to host lets the server drain before it is killed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from specviz.web.hosting.shutdown import LAST_LOOK, PATIENCE

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"


@pytest.mark.parametrize(
    ("file", "named"),
    [
        ("compose.yaml", r"stop_grace_period: (\d+)s"),
        ("kubernetes/specviz.yaml", r"terminationGracePeriodSeconds: (\d+)"),
        ("systemd/specviz.service", r"TimeoutStopSec=(\d+)"),
    ],
)
def test_a_server_that_is_stopped_has_the_time_that_it_asks_for(file, named):
    (seconds,) = re.findall(named, (DEPLOY / file).read_text(encoding="utf-8"))
    assert int(seconds) >= 2 * (PATIENCE + LAST_LOOK)
