"""The recipe for a drafting method in CONTRIBUTING.md works as it stands, and what it names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from specviz.proposers.registry import PROPOSERS

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_the_drafting_method_of_the_recipe_decodes(pair):
    from dataclasses import replace

    from specviz.decoding.run import record_run
    from specviz.settings import Settings

    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.S)
    try:
        exec(compile(code, "CONTRIBUTING.md", "exec"), {"__name__": "repeat"})
        settings = Settings(prompt="Once", proposer="repeat", gamma=3, max_new_tokens=12)
        trace = record_run(pair, settings, bars=0)
        assert any(round_.proposals for round_ in trace.rounds)
        assert len(record_run(pair, replace(settings, rule="block"), bars=0).output_ids) == 12
    finally:
        PROPOSERS.pop("repeat", None)
    assert "repeat" not in PROPOSERS.list_names()


@pytest.mark.parametrize(
    "path", sorted(set(re.findall(r"`((?:specviz|tests|docs|assets|pages|\.ci|\.github)/[\w./-]*\w)`", TEXT)))
)
def test_every_path_that_it_names_exists(path):
    assert (ROOT / path).exists() or path == "specviz/proposers/repeat.py"


def test_every_link_leads_somewhere():
    assert [path for path in re.findall(r"\]\(([^)#\s]+)", TEXT) if not (ROOT / path).exists()] == []
