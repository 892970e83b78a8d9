"""One audit over several prompts: each has a folder, a record and a share of the false-alarm rate; together they have one verdict."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specviz.audit.run import (
    BESIDE_SAMPLING,
    NO_DRAFT_CODE,
    VERDICT_CODES,
    AuditReport,
    AuditRequest,
    MakeProgress,
    ignore_line,
    make_silent,
    plan_audit,
    run_audit,
)
from specviz.audit.run import (
    REPORT as REPORT_OF_PROMPT,
)
from specviz.errors import EndpointError, SettingsError
from specviz.records import load_toml, write
from specviz.statistics.finding import ALPHA, format_p_value

if TYPE_CHECKING:
    from specviz.audit.collection.preflight import PreflightResult

DEFAULT = "default"  # in place of a file: the set that comes with the project
MAX_PROMPTS = 64
RECORD, REPORT, SCHEMA = "prompts.json", "prompts.txt", "specviz-audit-prompts-1"
SHOWN = 60  # characters of a prompt in a table


def read_audit_prompts(prompts: str | Sequence[str]) -> tuple[str, ...]:
    """Different prompts: given ones, the default set by its name, or those of a file as ``pays`` reads it. Raises SettingsError."""
    if prompts == DEFAULT:
        return tuple(load_toml("texts/prompts")["audit"])
    if isinstance(prompts, str):
        from specviz.audit.pays.prompts import read_prompts

        found: Sequence[object] = read_prompts(Path(prompts), chat=False)
    else:
        found = prompts
    if not 0 < len(found) <= MAX_PROMPTS:
        raise SettingsError("prompts", len(found), f"1 to {MAX_PROMPTS} prompts: each is an audit of its own")
    texts = tuple(one for one in found if isinstance(one, str))
    if len(texts) < len(found):
        raise SettingsError("prompts", str(prompts)[:80], "texts, not messages; with --chat each text is the message of a user")
    return tuple(dict.fromkeys(texts))


@dataclass(frozen=True, slots=True)
class PromptReports:
    """The outcome of an audit over several prompts. reports: of each prompt, in order; folders: their names."""

    prompts: tuple[str, ...]
    reports: tuple[AuditReport, ...]
    folders: tuple[str, ...]

    @property
    def adjusted(self) -> tuple[tuple[float, ...], ...]:
        """The p-values of each prompt, corrected for all tests of all prompts (Holm 1979)."""
        from specviz.statistics.power import adjust_p_values

        groups = [[test["p_value"] for answer in report.record["answers"] for test in answer["tests"]] for report in self.reports]
        flat = iter(adjust_p_values([p for group in groups for p in group]))
        return tuple(tuple(next(flat) for _ in group) for group in groups)

    @property
    def verdict(self) -> str:
        """``rejected`` where one prompt is; ``consistent`` where all are; else ``too few samples``."""
        found = {report.verdict for report in self.reports}
        return "rejected" if "rejected" in found else "consistent" if found == {"consistent"} else "too few samples"

    @property
    def exit_code(self) -> int:
        """As of one audit: 0, 1, 3 or 5."""
        code = VERDICT_CODES[self.verdict]
        return NO_DRAFT_CODE if code == 0 and any(report.exit_code == NO_DRAFT_CODE for report in self.reports) else code

    @property
    def is_lossless(self) -> bool:
        """Whether each report is: consistent, and not of a server that drafted nothing."""
        return self.exit_code == 0

    @property
    def speculation(self) -> str:
        """Whether the server was seen to draft: the different sentences of the reports."""
        return " ".join(dict.fromkeys(report.speculation for report in self.reports))

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        count, counts = len(self.reports), [report.verdict for report in self.reports]
        if self.verdict == "rejected":
            smallest = min(min(group) for group in self.adjusted)
            return (
                f"Rejected: the samples of {counts.count('rejected')} of {count} prompts do not follow the reference "
                f"({format_p_value(smallest)} after correction for all prompts)."
            )
        if self.verdict == "consistent":
            detected = max(report.record["answers"][0]["detectable_tv"] for report in self.reports)
            return f"Consistent: after each of {count} prompts a total variation of {detected:.2g} or less would have shown."
        return f"Too few samples: {counts.count('too few samples')} of {count} prompts need more; their reports say how many."

    def to_record(self) -> dict[str, Any]:
        """JSON-ready. The records of the prompts are in their folders."""
        rows = zip(self.prompts, self.reports, self.folders, self.adjusted, strict=True)
        return {
            "schema": SCHEMA,
            "verdict": self.verdict,
            "sentence": self.sentence,
            "alpha": ALPHA,
            "prompts": [
                {
                    "prompt": prompt,
                    "folder": folder,
                    "verdict": report.verdict,
                    "sentence": report.sentence,
                    "adjusted_p": min(adjusted),
                    "drafted": report.has_drafted,
                    "digest": report.record["digest"],
                }
                for prompt, report, folder, adjusted in rows
            ],
        }

    def __str__(self) -> str:
        lines = [self.sentence, ""]
        for row, report in zip(self.to_record()["prompts"], self.reports, strict=True):
            lines += [
                _name_prompt(row["folder"], row["prompt"]),
                f"  {row['sentence']} (corrected for all prompts: {format_p_value(row['adjusted_p'])})",
            ]
            lines += [f"  {sentence}" for sentence in _explain_rejection(report)]
        return "\n".join([*lines, "", self.speculation, f"Each folder has the whole report of its prompt, {REPORT_OF_PROMPT}."])


def _name_prompt(folder: str, prompt: str) -> str:
    """The folder of a prompt, and the end of its text."""
    text = prompt if len(prompt) <= SHOWN else f"...{prompt[-SHOWN:]}"
    return f"{folder}: {text!r}"


def _explain_rejection(report: AuditReport) -> list[str]:
    """Where the samples of a rejected prompt differ first, and which mistake explains them."""
    audit = report.record["audit"]
    found = [audit["where"], audit["diagnosis"] and audit["diagnosis"]["sentence"]]
    return [sentence for sentence in found if sentence]


def run_prompts(
    request: AuditRequest,
    prompts: Sequence[str],
    folder: Path,
    make_progress: MakeProgress = make_silent,
    show_line: Callable[[str], None] = ignore_line,
) -> PromptReports:
    """Audit a server after each prompt. The same call goes on where an earlier one ended.

    Args:
        request: What is asked; its prompt is replaced.
        prompts: One or more.
        folder: A folder for each prompt is made in it.
        make_progress: As for ``run_audit``.
        show_line: As for ``run_audit``.

    Raises:
        SpecvizError: As ``run_audit``.
    """
    reports, folders, known = [], [], dict[str, "PreflightResult"]()
    for number, prompt in enumerate(prompts, 1):
        folders.append(f"prompt-{number:02}")
        show_line(f"Prompt {number} of {len(prompts)}:")
        one = replace(request, prompt=prompt)
        try:
            reports.append(
                run_audit(one, folder / folders[-1], make_progress, show_line, ALPHA / len(prompts), known_checks=known)
            )
        except (KeyboardInterrupt, EndpointError):
            show_line(
                f"{len(reports)} of {len(prompts)} prompts were audited to their end, so there is no verdict of all prompts."
            )
            raise
        show_line(f"{folders[-1]}: {reports[-1].sentence}")
    found = PromptReports(tuple(prompts), tuple(reports), tuple(folders))
    write(folder / RECORD, json.dumps(found.to_record(), indent=1, allow_nan=False) + "\n", over=True)
    write(folder / REPORT, f"{found}\n", over=True)
    return found


def plan_prompts(
    request: AuditRequest,
    prompts: Sequence[str],
    folder: Path,
    make_progress: MakeProgress = make_silent,
    show_line: Callable[[str], None] = ignore_line,
) -> list[str]:
    """What each prompt takes, under its name, and all of them together; lines for a terminal. Arguments as for ``run_prompts``."""
    from specviz.audit.collection.audited_server import format_duration

    lines, missing, seconds, known = list[str](), 0, 0.0, dict[str, "PreflightResult"]()
    for number, prompt in enumerate(prompts, 1):
        show_line(f"Prompt {number} of {len(prompts)}:")
        one, name = replace(request, prompt=prompt), f"prompt-{number:02}"
        plan = plan_audit(one, folder / name, make_progress, show_line, ALPHA / len(prompts), known)
        lines += [_name_prompt(name, prompt), *plan.summaries]
        missing, seconds = missing + plan.missing, seconds + plan.seconds
    total = f"All {len(prompts)} prompts: {missing:,} samples are to be collected. Sampling takes {format_duration(seconds)}."
    return [*lines, total, BESIDE_SAMPLING]
