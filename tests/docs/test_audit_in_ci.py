"""Audit in CI: the workflow is one, its command lines and the numbers and codes of the page are those of the code."""

from __future__ import annotations

import re
import shlex
import signal
from pathlib import Path

import pytest
import yaml

import specviz.audit
import specviz.errors
from specviz.__main__ import COMMANDS, build_parser
from specviz.audit.collection.audited_server import count_needed_samples
from specviz.audit.pytest_plugin import FOLDER_OPTION, REFERENCE_OPTIONS, URL_OPTION
from specviz.audit.run import VERDICT_CODES
from specviz.statistics.registry import STATISTICS

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "how-to"
PAGE = (FOLDER / "audit-in-ci.md").read_text(encoding="utf-8")
WORKFLOW = yaml.safe_load((FOLDER / "audit-workflow.yml").read_text(encoding="utf-8"))
STEPS = WORKFLOW["jobs"]["audit"]["steps"]


def list_commands() -> list[list[str]]:
    """Words of the lines of the workflow that call specviz."""
    lines = [line for step in STEPS for line in step.get("run", "").replace("\\\n", " ").splitlines()]
    night = '"$(date +%Y%m%d)"'
    return [shlex.split(line.replace(night, "20261128"))[2:] for line in lines if line.strip().startswith("exec specviz ")]


def test_the_workflow_runs_every_night_and_its_commands_can_be_parsed():
    assert WORKFLOW[True]["schedule"][0]["cron"] and all("uses" in step or "run" in step for step in STEPS)
    commands = list_commands()
    assert [name for name, *_ in commands] == ["audit", "pays"]
    for name, *words in commands:
        options = build_parser(name).parse(words)
        assert options.junit and options.url.startswith("http://localhost:8000")
        assert name != "audit" or options.seed == 20261128, "each night has samples of its own"
        assert f"{options.out}/**" in STEPS[-1]["with"]["path"].split(), "the folders of prompts are uploaded too"
        assert str(options.junit) in str(STEPS[-1]) or "*.xml" in str(STEPS[-1]), "the outcome is uploaded"


def test_the_second_server_starts_when_the_first_one_answers_and_a_failed_audit_skips_no_measurement():
    start = next(step["run"] for step in STEPS if "vllm serve" in step.get("run", ""))
    first, wait, second = start.index("vllm serve"), start.index("localhost:8000/health"), start.rindex("vllm serve")
    assert first < wait < second < start.index("localhost:8001/health")
    assert "!cancelled()" in next(step for step in STEPS if "specviz pays" in step.get("run", ""))["if"]


def test_the_codes_of_the_page_are_the_commands():
    rows = {int(code): meaning for code, meaning in re.findall(r"^\| (\d+) \| .* \| (.*) \|$", PAGE, re.M)}
    assert rows.keys() == {int(code) for code in COMMANDS["audit"]["exit_codes"]} and {*VERDICT_CODES.values()} <= rows.keys()
    for code, meaning in rows.items():
        assert code <= 128 or signal.Signals(code - 128) in (signal.SIGINT, signal.SIGTERM)
        for name in re.findall(r"`(\w+Error)`", meaning):
            kind = getattr(specviz.errors, name, None) or getattr(specviz.audit, name)
            assert issubclass(kind, AssertionError) or kind.exit_code == code, name


def test_the_help_of_a_command_lists_its_codes():
    for name, command in COMMANDS.items():
        shown = re.findall(r"^  (\d+) +(.+)$", build_parser(name).format_help().partition("\nexit codes:\n")[2], re.M)
        assert dict(shown) == command.get("exit_codes", {}), name


@pytest.fixture
def own_statistics():
    """The page is about the project alone: a statistic of another package lowers the level of all tests."""
    with STATISTICS.list_own_only():
        yield


@pytest.mark.parametrize("tv", (0.1, 0.05, 0.02))
def test_the_numbers_of_samples_are_computed(tv, own_statistics):
    assert f"| {tv:g} | {count_needed_samples(tv, 4, False):,} | {count_needed_samples(tv, 4, True):,} |" in PAGE


@pytest.mark.parametrize("tv", (0.1, 0.05, 0.02))
def test_the_minutes_follow_from_the_rates_of_the_head(tv, own_statistics):
    both = 2 * count_needed_samples(tv, 4, True)
    minutes = [both / rate / 60 for rate in (10, 100, 1000)]
    shown = " | ".join(f"{one:.0f}" if one >= 20 else f"{one:.1f}" for one in minutes)
    assert f"| {tv:g} | {both:,} | {shown} |" in PAGE


def test_the_minutes_of_a_measurement_follow_from_the_options_of_the_workflow():
    command = next(words for name, *words in list_commands() if name == "pays")
    options = build_parser("pays").parse(command)
    answers = 2 * len(options.concurrency.split(",")) * (options.turns + 1) * options.prompts_per_user
    assert f"2 × 3 × 11 × 2 = {answers} times the seconds of an answer: {2 * answers / 60:.1f} minutes" in PAGE
    assert WORKFLOW["jobs"]["audit"]["timeout-minutes"] == 360, "GitHub's default: nothing is assumed about a server"


def test_the_options_of_the_plugin_exist():
    known = {URL_OPTION, FOLDER_OPTION, *REFERENCE_OPTIONS}
    assert {*re.findall(r"--specviz-[a-z-]+", PAGE)} <= known
