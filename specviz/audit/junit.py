"""The outcome of an audit as JUnit XML, which CI servers show: a case for the verdict, for speculation, and for each check."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from specviz.audit.run import AuditReport
from specviz.errors import EndpointError, TrapError
from specviz.records import write

SUITE = "specviz audit"
NO_XML = {code: "\ufffd" for code in (*range(9), 11, 12, *range(14, 32), 0xFFFE, 0xFFFF, *range(0xD800, 0xE000))}


def write_junit(path: Path, url: str, outcome: AuditReport | Exception) -> None:
    """Write the file; an earlier one is replaced.

    Args:
        path: Of the file.
        url: Of the server.
        outcome: The report, or what ended the audit before there was one.

    Raises:
        SettingsError: The file cannot be written.
    """
    write(path, build_junit(url, outcome), over=True, name="junit")


def build_junit(url: str, outcome: AuditReport | Exception) -> str:
    """The XML. A rejection, a trap, too few samples and an audit without drafting are failures; a server that does not answer is an error."""
    cases = list(_iterate_cases(outcome))
    kinds = [case[1] for case in cases]
    suite = ElementTree.Element(
        "testsuite",
        name=SUITE,
        tests=str(len(cases)),
        failures=str(kinds.count("failure")),
        errors=str(kinds.count("error")),
        skipped=str(kinds.count("skipped")),
    )
    for name, kind, sentence, text in cases:
        case = ElementTree.SubElement(suite, "testcase", classname=_escape(url), name=_escape(name))
        if kind:
            ElementTree.SubElement(case, kind, message=_escape(sentence)).text = _escape(text)
        else:
            ElementTree.SubElement(case, "system-out").text = _escape(sentence)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suite, encoding="unicode") + "\n"


def _iterate_cases(outcome: AuditReport | Exception) -> Iterator[tuple[str, str, str, str]]:
    """Name, kind ("" passed), sentence and text of each case."""
    if isinstance(outcome, Exception):
        name = "the server answers" if isinstance(outcome, EndpointError) else "lossless"
        yield name, "failure" if isinstance(outcome, TrapError) else "error", str(outcome), ""
        return
    record = outcome.record
    yield "lossless", "" if outcome.verdict == "consistent" else "failure", outcome.sentence, str(outcome)
    speculation = record["audit"]["speculation"]
    seen = speculation["drafted"]
    yield "speculation is at work", {True: "", None: "skipped", False: "failure"}[seen], speculation["sentence"], ""
    servers = record["audit"].get("servers", [])
    for number, server in enumerate(servers, 1):
        for check in server["traps"]:
            kind = "failure" if check["stops"] else "skipped" if check["state"] == "unknown" else ""
            name = f"server {number}: {check['name']}" if len(servers) > 1 else check["name"]
            yield f"check: {name}", kind, check["sentence"], ""


def _escape(text: str) -> str:
    """Text without characters that XML does not have."""
    return text.translate(NO_XML)
