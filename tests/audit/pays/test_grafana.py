"""The Grafana board reads the metrics and labels that ``pays`` writes, and no others."""

from __future__ import annotations

import json
import re
from pathlib import Path

from specviz.audit.pays.report import format_prometheus

BOARD = Path(__file__).resolve().parents[3] / "deploy" / "grafana" / "specviz-pays.json"
ESTIMATE = {"value": 1.3, "low": 1.2, "high": 1.4}
REPORT = {
    "unit": "tokens/s",
    "levels": [{"users": 1, "speedup": ESTIMATE, "on": ESTIMATE, "off": ESTIMATE}],
    "rounds": [{"source": "bursts", "tokens_per_round": ESTIMATE}],
}
COLLECTED = {"instance"}  # labels that Prometheus adds


def list_metrics(lines: str) -> dict[str, dict[str, set[str]]]:
    """Metric -> label -> its values."""
    found: dict[str, dict[str, set[str]]] = {}
    for name, labels in re.findall(r"^(specviz_\w+)\{(.*)\} [\d.e+-]+$", lines, re.M):
        for label, value in re.findall(r'(\w+)="([^"]*)"', labels):
            found.setdefault(name, {}).setdefault(label, set()).add(value)
    return found


def test_every_metric_of_the_board_is_exported_with_its_labels():
    metrics, board = list_metrics(format_prometheus(REPORT)), json.loads(BOARD.read_text())
    used = set()
    for panel in board["panels"]:
        for target in panel["targets"]:
            name, labels = re.fullmatch(r"(\w+)\{(.*)\}", target["expr"]).groups()
            used.add(name)
            for label, sign, value in re.findall(r'(\w+)(=~?)"([^"]*)"', labels):
                assert label in COLLECTED | metrics[name].keys(), (name, label)
                assert sign == "=~" or value in metrics[name][label], (name, label, value)
            assert {*re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])} <= metrics[name].keys()
    assert used == metrics.keys()
    queries = [one["query"] for one in board["templating"]["list"] if one["type"] == "query"]
    assert all(re.fullmatch(r"label_values\((\w+), instance\)", query)[1] in metrics for query in queries)
