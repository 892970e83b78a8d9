"""The outcome of an audit or of a measurement as JUnit XML, which CI servers show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

from specviz.audit.many_prompts import PromptReports
from specviz.audit.run import AuditReport
from specviz.errors import EndpointError, TrapError
from specviz.records import write

NO_XML = {code: "\ufffd" for code in (*range(9), 11, 12, *range(14, 32), 0xFFFE, 0xFFFF, *range(0xD800, 0xE000))}
Kind = Literal["", "failure", "error", "skipped"]


@dataclass(frozen=True, slots=True)
class JUnitCase:
    """One test case. kind: empty where it passed; text: more than the sentence."""

    name: str
    kind: Kind
    sentence: str
    text: str = ""


def write_junit(path: Path, suite: str, url: str, cases: Sequence[JUnitCase]) -> None:
    """Write the file; an earlier one is replaced. url: of the server. Raises SettingsError where it cannot be written."""
    write(path, build_junit(suite, url, cases), over=True, name="junit")


def build_junit(suite: str, url: str, cases: Sequence[JUnitCase]) -> str:
    """The XML."""
    kinds: list[str] = [case.kind for case in cases]
    counts = {
        name: str(kinds.count(kind)) for name, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped"))
    }
    root = ElementTree.Element("testsuite", {"name": suite, "tests": str(len(cases)), **counts})
    for case in cases:
        element = ElementTree.SubElement(root, "testcase", classname=_escape(url), name=_escape(case.name))
        if case.kind:
            ElementTree.SubElement(element, case.kind, message=_escape(case.sentence)).text = _escape(case.text)
        else:
            ElementTree.SubElement(element, "system-out").text = _escape(case.sentence)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def list_audit_cases(outcome: AuditReport | PromptReports | Exception) -> list[JUnitCase]:
    """A case for the verdict, one for speculation, and one for each check of a server; of several prompts the joint verdict, and these of each.

    A rejection, a trap, too few samples and an audit without drafting are failures; a server that does not answer is an error.

    Args:
        outcome: The report, or what ended the audit before there was one.
    """
    return [*_iterate_cases(outcome)]


def _iterate_cases(outcome: AuditReport | PromptReports | Exception) -> Iterator[JUnitCase]:
    if isinstance(outcome, Exception):
        name = "the server answers" if isinstance(outcome, EndpointError) else "lossless"
        yield JUnitCase(name, "failure" if isinstance(outcome, TrapError) else "error", str(outcome))
        return
    if isinstance(outcome, PromptReports):
        yield _build_verdict_case(outcome)
        for name, report in zip(outcome.folders, outcome.reports, strict=True):
            yield from (replace(case, name=f"{name}: {case.name}") for case in _iterate_cases(report))
        return
    record = outcome.record
    yield _build_verdict_case(outcome)
    speculation = record["audit"]["speculation"]
    seen = speculation["drafted"]
    yield JUnitCase("speculation is at work", "" if seen else "skipped" if seen is None else "failure", speculation["sentence"])
    servers = record["audit"].get("servers", [])
    for number, server in enumerate(servers, 1):
        for check in server["traps"]:
            name = f"server {number}: {check['name']}" if len(servers) > 1 else check["name"]
            kind: Kind = "failure" if check["stops"] else "skipped" if check["state"] == "unknown" else ""
            yield JUnitCase(f"check: {name}", kind, check["sentence"])


def _build_verdict_case(outcome: AuditReport | PromptReports) -> JUnitCase:
    return JUnitCase("lossless", "" if outcome.verdict == "consistent" else "failure", outcome.sentence, str(outcome))


def _escape(text: str) -> str:
    """Text without characters that XML does not have."""
    return text.translate(NO_XML)
