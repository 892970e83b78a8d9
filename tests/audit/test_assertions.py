"""``assert_lossless``, JUnit, the schema of the record and the pytest plugin, on two small servers that are compared.

An exact server is rejected with a probability of 0.001; the samples are fixed by the default seed.
"""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import tomllib
from dataclasses import fields
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import numpy as np
import pytest

import specviz.audit
from specviz.audit import NothingTestedError, NotLosslessError, TooFewSamplesError, assert_lossless, many_prompts
from specviz.audit.assertions import AuditOptions
from specviz.audit.junit import build_junit, list_audit_cases
from specviz.audit.run import AuditReport, AuditRequest
from specviz.errors import EndpointError, SettingsError, TrapError
from tests.audit.conftest import shorten_preflight
from tests.audit.server import build_chain_probs, run_server

ROOT = Path(__file__).resolve().parents[2]
ASKED = {"prompt": "a b", "max_new_tokens": 3, "samples": 200, "min_tv": 0.5, "choices": 10}  # ten samples of a request

pytestmark = pytest.mark.usefixtures("short_preflight")


def swap_probs(ids) -> np.ndarray:
    """The chain's distribution with its two likeliest tokens made impossible: far from it."""
    probs = build_chain_probs(ids[-1]).copy()
    probs[np.argsort(probs)[-2:]] = 0.0
    return probs / probs.sum()


@pytest.fixture(scope="module")
def servers():
    """A server that drafts, the same one without speculation, and one that is wrong."""
    with run_server(drafts=True) as on, run_server() as off, run_server(drafts=True, probs=swap_probs) as wrong:
        yield on.url, off.url, wrong.url


@pytest.fixture(scope="module")
def short_probes():
    """``short_preflight`` for the module."""
    with pytest.MonkeyPatch.context() as patched:
        shorten_preflight(patched)
        yield


@pytest.fixture(scope="module")
def rejected(servers, short_probes) -> AuditReport:
    with pytest.raises(NotLosslessError) as caught:
        assert_lossless(servers[2], against=servers[1], **ASKED)
    assert str(caught.value).startswith("Rejected: the two sets of samples were not drawn from one distribution")
    assert caught.value.report.exit_code == 1 and isinstance(caught.value, AssertionError)
    return caught.value.report


@pytest.fixture(scope="module")
def untested(servers, short_probes) -> AuditReport:
    """Consistent, and of a server that does not draft."""
    with pytest.raises(NothingTestedError, match="Speculation was not seen at work") as caught:
        assert_lossless(servers[1], against_body={"user": "x"}, **ASKED)
    assert caught.value.report.verdict == "consistent" and caught.value.report.exit_code == 5
    return caught.value.report


def test_an_exact_server_passes_and_its_record_has_the_published_schema(servers, tmp_path):
    report = assert_lossless(servers[0], against=servers[1], folder=tmp_path / "a", **ASKED)
    assert report.is_lossless and report.has_drafted and "Consistent with one distribution" in report.sentence
    schema = json.loads((ROOT / "docs" / "reference" / "audit-record.schema.json").read_text())
    record = json.loads((tmp_path / "a" / "report.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    published = jsonschema.Draft202012Validator(schema)
    published.validate(record)
    for damage in ({"verdict": "fine"}, {"audit": {}}, {"n": "200"}):
        with pytest.raises(jsonschema.ValidationError):
            published.validate(record | damage)
    assert (tmp_path / "a" / "report.txt").read_text() == f"{report}\n"


def test_a_wrong_server_raises_its_verdict_and_junit_shows_it(rejected, servers):
    suite = ElementTree.fromstring(build_junit("specviz audit", servers[2], list_audit_cases(rejected)))
    cases = {case.get("name"): case for case in suite}
    assert suite.get("failures") == "1" and suite.get("errors") == "0" and int(suite.get("tests")) == len(cases)
    assert cases["lossless"].find("failure").get("message") == rejected.sentence
    assert rejected.record["audit"]["where"] in cases["lossless"].find("failure").text
    assert cases["speculation is at work"].find("failure") is None
    assert any(name.startswith("check: server 2") for name in cases)


def test_several_prompts_have_one_verdict_and_share_the_false_alarm_rate(servers, rejected, untested, tmp_path, monkeypatch):
    few = {name: value for name, value in ASKED.items() if name != "prompt"}
    found = assert_lossless(servers[0], tmp_path / "a", against=servers[1], prompts=["a b", "c d", "a b"], **few)
    assert found.prompts == ("a b", "c d") and found.is_lossless and "after each of 2 prompts" in found.sentence
    assert {report.record["answers"][0]["plan"]["alpha"] for report in found.reports} == {0.001 / 2}
    assert (tmp_path / "a" / "prompts.json").exists()
    for reports, error, said, code in (
        ((found.reports[0], rejected, untested), NotLosslessError, "Rejected: the samples of 1 of 3 prompts", 1),
        ((found.reports[0], untested), NothingTestedError, "Speculation was not seen at work", 5),
    ):
        given = iter(reports)
        with monkeypatch.context() as patched, pytest.raises(error, match=said) as caught:
            patched.setattr(many_prompts, "run_audit", lambda *_, **__: next(given))  # noqa: B023
            assert_lossless(servers[0], against=servers[1], prompts=["a", "b", "c"][: len(reports)], **few)
        assert caught.value.report.exit_code == code
    with pytest.raises(SettingsError, match="prompts must be left out when prompt is given"):
        assert_lossless(servers[0], against=servers[1], prompts=["c d"], **ASKED)
    with pytest.raises(SettingsError, match="prompts must be 1 to 64 prompts"):
        assert_lossless(servers[0], against=servers[1], prompts=[], **few)


def test_too_few_samples_and_a_server_that_does_not_draft_are_no_success(servers, untested):
    with pytest.raises(TooFewSamplesError, match=r"Too few samples: .* needs"):
        assert_lossless(servers[0], against=servers[1], **ASKED | {"samples": 30})
    assert not untested.is_lossless


def test_a_trap_and_a_silent_server_are_other_errors(servers):
    with run_server(greedy=True) as greedy, pytest.raises(TrapError, match="does not sample") as trap:
        assert_lossless(greedy.url, against=servers[1], **ASKED)
    with pytest.raises(EndpointError) as silent:
        assert_lossless("http://127.0.0.1:9/v1", against=servers[1], **ASKED)
    assert (trap.value.exit_code, silent.value.exit_code) == (7, 6)
    kinds = [
        ElementTree.fromstring(build_junit("audit", "http://a\x00", list_audit_cases(one.value))).find("testcase")[0].tag
        for one in (trap, silent)
    ]
    assert kinds == ["failure", "error"]


def test_the_keyword_arguments_are_the_fields_of_a_request():
    assert [*AuditOptions.__annotations__] == [one.name for one in fields(AuditRequest) if one.name != "url"]
    own = {name: one for name, one in vars(specviz.audit.assertions).items() if inspect.isclass(one)}
    exported = {name for name, one in own.items() if name.endswith("Error") and one.__module__ == "specviz.audit.assertions"}
    assert exported <= set(dir(specviz.audit))


NIGHTLY = """
SMALL = dict(prompt="a b", max_new_tokens=3, samples=200, min_tv=0.5, choices=10)

def test_by_fixture(assert_server_lossless):
    assert assert_server_lossless(**SMALL).verdict == "consistent"

def test_by_hand(specviz_server, specviz_reference):
    from specviz.audit import assert_lossless

    assert specviz_server == "SERVER" and specviz_reference == {"against": "REFERENCE"}
    assert_lossless("SERVER", against="REFERENCE", **SMALL)
"""


def test_the_plugin_audits_the_server_of_the_command_line(servers, tmp_path, monkeypatch, capfd):
    """A test of a user's own, run in this process; without a server it is skipped."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    (tmp_path / "test_nightly.py").write_text(NIGHTLY.replace("SERVER", servers[0]).replace("REFERENCE", servers[1]))
    words = [
        str(tmp_path),
        "-q",
        "-p",
        "specviz.audit.pytest_plugin",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:unraisableexception",  # it collects garbage at the end of a session, here among all objects of this process
        "-c",
        "/dev/null",
        "--rootdir",
        str(tmp_path),
    ]
    asked = [
        "--specviz-url",
        servers[0],
        "--specviz-against",
        servers[1],
        "--junitxml",
        str(tmp_path / "junit.xml"),
        "--specviz-out",
        str(tmp_path / "kept"),
    ]
    assert pytest.main([*words, *asked]) == 0
    said = capfd.readouterr().out
    cases = [*ElementTree.parse(tmp_path / "junit.xml").iter("testcase")]
    properties = [[(one.get("name"), one.get("value")) for one in case.iter("property")] for case in cases]
    assert "2 passed" in said and len(properties) == 2
    for (verdict, is_consistent), (sentence, words_of_it) in properties:  # of both ways, once
        assert (verdict, is_consistent, sentence) == ("specviz.verdict", "consistent", "specviz.sentence")
        assert "would have shown a total variation of" in words_of_it and f": {words_of_it}" in said
    assert len(list(tmp_path.glob("kept/*/audit-0/report.json"))) == 1
    assert pytest.main(words) == 0 and "2 skipped" in capfd.readouterr().out
    assert pytest.main([*words, "--specviz-url", servers[0]]) == 1 and "There is no reference" in capfd.readouterr().out


def test_the_plugin_is_declared_and_its_import_waits_for_nothing():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"specviz": "specviz.audit.pytest_plugin"}
    code = "import sys, specviz.audit.pytest_plugin; sys.exit(bool({'torch', 'numpy', 'streamlit', 'httpx2'} & {*sys.modules}))"
    assert subprocess.run([sys.executable, "-c", code], check=False, cwd=ROOT).returncode == 0
