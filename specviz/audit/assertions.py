"""``assert_lossless``: an audit as an assertion of a test."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

from specviz.audit.run import AuditReport, AuditRequest, run_audit


class AuditOptions(TypedDict, total=False):
    """The keyword arguments of an audit: the fields of ``AuditRequest`` without ``url``, which explains them."""

    prompt: str
    model: str
    chat: bool
    max_new_tokens: int
    max_tokens: int | None
    gamma: int | None
    samples: int | None
    min_tv: float
    pair: str | None
    target: str | None
    draft: str | None
    device: str
    dtype: str
    against: str | None
    against_model: str | None
    against_body: Mapping[str, Any] | None
    temperature: float
    top_k: int | None
    top_p: float | None
    min_p: float | None
    warpers: str
    body: Mapping[str, Any]
    concurrency: int
    choices: int
    rate: float | None
    timeout: float
    api_key_variable: str
    ignore_checks: bool
    beside: Sequence[Mapping[str, Any]]
    beside_concurrency: int
    seed: int


class VerdictError(AssertionError):
    """An audit that does not show a lossless server. The message is the verdict in words. report: all that is known."""

    def __init__(self, report: AuditReport):
        self.report = report
        super().__init__(f"{self.describe()}\n\n{report}")

    def describe(self) -> str:
        """The reason in a sentence."""
        return self.report.sentence


class NotLosslessError(VerdictError):
    """The samples do not follow the reference."""


class TooFewSamplesError(VerdictError):
    """The samples are too few to detect ``min_tv``."""


class NothingTestedError(VerdictError):
    """The samples are consistent, and the server counted no draft token: they say nothing about speculation."""

    def describe(self) -> str:
        return self.report.record["audit"]["speculation"]["sentence"]


def audit_server(url: str, folder: Path | str | None = None, **options: Unpack[AuditOptions]) -> AuditReport:
    """Audit a running server. Raises as ``run_audit``.

    Args:
        url: Of the server, such as http://HOST:PORT/v1.
        folder: Of samples, record and report; the same call continues there. None: a temporary one.
        options: As for ``AuditRequest``; one of ``against``, ``against_body``, ``pair`` and ``target`` names the reference.
    """
    request = AuditRequest(url=url, **options)
    if folder is not None:
        return run_audit(request, Path(folder))
    with tempfile.TemporaryDirectory(prefix="specviz-audit-") as temporary:
        return run_audit(request, Path(temporary))


def assert_lossless(url: str, folder: Path | str | None = None, **options: Unpack[AuditOptions]) -> AuditReport:
    """Audit a running server, and raise unless its samples are consistent with the reference. Arguments as ``audit_server``.

    Raises:
        NotLosslessError: The samples do not follow the reference.
        TooFewSamplesError: They are too few to detect ``min_tv``.
        NothingTestedError: The server counted no draft token.
        TrapError: A check found that samples would show nothing.
        EndpointError: The server cannot be reached, or fails.
        SettingsError: An option is out of range.
    """
    report = audit_server(url, folder, **options)
    if report.verdict == "rejected":
        raise NotLosslessError(report)
    if report.verdict != "consistent":
        raise TooFewSamplesError(report)
    if not report.is_lossless:
        raise NothingTestedError(report)
    return report
