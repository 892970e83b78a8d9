"""``assert_lossless``: an audit as an assertion of a test."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack, overload

from specviz.audit.many_prompts import PromptReports, read_audit_prompts, run_prompts
from specviz.audit.outcomes import announce_outcome
from specviz.audit.run import AuditReport, AuditRequest, run_audit
from specviz.errors import SettingsError


class AuditOptions(TypedDict, total=False):
    """The keyword arguments of an audit: the fields of ``AuditRequest`` without ``url``, which explains them."""

    prompt: str
    model: str
    chat: bool
    max_new_tokens: int
    request_tokens: int | None
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

    def __init__(self, report: AuditReport | PromptReports):
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
        return self.report.speculation


@overload
def audit_server(
    url: str, folder: Path | str | None = None, *, prompts: None = None, **options: Unpack[AuditOptions]
) -> AuditReport: ...


@overload
def audit_server(
    url: str, folder: Path | str | None = None, *, prompts: str | Sequence[str], **options: Unpack[AuditOptions]
) -> PromptReports: ...


def audit_server(
    url: str,
    folder: Path | str | None = None,
    *,
    prompts: str | Sequence[str] | None = None,
    **options: Unpack[AuditOptions],
) -> AuditReport | PromptReports:
    """Audit a running server, after one prompt or after each of several. Raises as ``run_audit``.

    Args:
        url: Of the server, such as http://HOST:PORT/v1.
        folder: Of samples, record and report; the same call continues there. None: a temporary one.
        prompts: In place of the option ``prompt``: texts, the path of a file with prompts, or "default" for the set that comes with the project.
            They share the false-alarm rate and have one verdict.
        options: As for ``AuditRequest``; one of ``against``, ``against_body``, ``pair`` and ``target`` names the reference.
    """
    texts = () if prompts is None else read_audit_prompts(prompts)
    if texts and options.get("prompt"):
        raise SettingsError("prompts", str(prompts)[:80], "left out when prompt is given")
    request = AuditRequest(url=url, **options)

    def run(place: Path) -> AuditReport | PromptReports:
        return run_prompts(request, texts, place) if texts else run_audit(request, place)

    if folder is not None:
        return run(Path(folder))
    with tempfile.TemporaryDirectory(prefix="specviz-audit-") as temporary:
        return run(Path(temporary))


@overload
def assert_lossless(
    url: str, folder: Path | str | None = None, *, prompts: None = None, **options: Unpack[AuditOptions]
) -> AuditReport: ...


@overload
def assert_lossless(
    url: str, folder: Path | str | None = None, *, prompts: str | Sequence[str], **options: Unpack[AuditOptions]
) -> PromptReports: ...


def assert_lossless(
    url: str,
    folder: Path | str | None = None,
    *,
    prompts: str | Sequence[str] | None = None,
    **options: Unpack[AuditOptions],
) -> AuditReport | PromptReports:
    """Audit a running server, and raise unless its samples are consistent with the reference. Arguments as ``audit_server``.

    In a test of pytest the verdict and its sentence, with the difference that would have shown, are properties of the test.

    Raises:
        NotLosslessError: The samples do not follow the reference.
        TooFewSamplesError: They are too few to detect ``min_tv``.
        NothingTestedError: The server counted no draft token.
        TrapError: A check found that samples would show nothing.
        EndpointError: The server cannot be reached, or fails.
        SettingsError: An option is out of range.
    """
    report = audit_server(url, folder, prompts=prompts, **options)
    announce_outcome(report)
    if report.verdict == "rejected":
        raise NotLosslessError(report)
    if report.verdict != "consistent":
        raise TooFewSamplesError(report)
    if not report.is_lossless:
        raise NothingTestedError(report)
    return report
