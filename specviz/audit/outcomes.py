"""Listeners to the outcome of ``assert_lossless``, such as the pytest plugin. Nothing of an audit is imported here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specviz.audit.many_prompts import PromptReports
    from specviz.audit.run import AuditReport

listeners: list[Callable[[AuditReport | PromptReports], None]] = []


def announce_outcome(report: AuditReport | PromptReports) -> None:
    """Call every listener."""
    for listener in listeners:
        listener(report)
