"""What the panel Models says of a pair: its check as rows of a table, and a sentence on where it stands. No torch."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from specviz.statistics.finding import format_bytes

if TYPE_CHECKING:
    from specviz.speed.prediction.preflight import ModelCheck, Preflight

UNKNOWN = "not known"


def build_check_rows(preflight: Preflight) -> list[dict[str, str]]:
    """The facts of both models, a line for each fact."""
    both = (preflight.target, preflight.draft)
    facts = {
        "architecture": [_describe_family(one) for one in both],
        "parameters": [_describe_parameters(one) for one in both],
        "tokens it predicts": [_format_number(one.vocabulary) for one in both],
        "context": [_describe_context(one) for one in both],
        "weights stored in": [one.stored or UNKNOWN for one in both],
        "to download": [_describe_download(one) for one in both],
        "memory": [format_bytes(one.memory_bytes) if one.memory_bytes else UNKNOWN for one in both],
        "license": [one.license or ("not said by a folder" if one.folder else UNKNOWN) for one in both],
        "revision": [_describe_revision(one) for one in both],
    }
    if not any(one.commit for one in both):
        del facts["revision"]
    return [{"": fact, "target": target, "draft": draft} for fact, (target, draft) in facts.items()]


def build_check_table(preflight: Preflight) -> str:
    """The rows as HTML, whose cells wrap on a phone. Texts of a hub or a file are escaped."""
    lines = [
        f"<tr><th scope='row'>{escape(line[''])}</th><td>{escape(line['target'])}</td><td>{escape(line['draft'])}</td></tr>"
        for line in build_check_rows(preflight)
    ]
    head = "<tr><td></td><th scope='col'>target</th><th scope='col'>draft</th></tr>"
    return f"<table class='models-table'>{head}{''.join(lines)}</table>"


def summarize_check(preflight: Preflight) -> list[str]:
    """Tokenizers, memory and expected times of the pair, a sentence each."""
    said = []
    if preflight.target.tokens is not None and preflight.draft.tokens is not None and not preflight.differ:
        said.append("Both models have one tokenizer.")
    needed = (
        f"{format_bytes(preflight.memory_bytes)} of memory needed"
        if preflight.memory_bytes is not None
        else "Memory needed: not known"
    )
    host = "" if preflight.device == "cpu" else f", {format_bytes(preflight.host_bytes)} in the system"
    said.append(
        f"{needed}; {format_bytes(preflight.free_bytes)} free on this {preflight.device}{host}. Numbers are {preflight.dtype}."
    )
    if (time := preflight.expected) is not None:
        one, block, draft = (1e3 * each.value for each in (time.one, time.block, time.draft))
        said.append(
            f"Expected on this machine: {one:.3g} ms for a target pass, {block:.3g} ms over {time.gamma + 1} tokens, {draft:.3g} ms for a "
            f"draft step. Measured on models of this shape, without their weights; off by up to {time.max_error:.0%}."
        )
    return said


def _describe_family(check: ModelCheck) -> str:
    if check.family is None:
        return UNKNOWN
    return check.family if check.supported else f"{check.family}, not supported"


def _describe_parameters(check: ModelCheck) -> str:
    if not check.parameters:
        return UNKNOWN
    return f"{check.parameters / 1e6:,.1f} million" if check.parameters >= 1e6 else f"{check.parameters:,}"


def _describe_context(check: ModelCheck) -> str:
    if check.family is None:
        return UNKNOWN
    return f"{check.context:,} tokens" if check.context else "no limit named"


def _format_number(value: int | None) -> str:
    return UNKNOWN if value is None else f"{value:,}"


def _describe_download(check: ModelCheck) -> str:
    if check.folder:
        return "a folder here"
    if check.total_bytes is None or check.download_bytes is None:
        return UNKNOWN
    return (
        f"{format_bytes(check.download_bytes)} of {format_bytes(check.total_bytes)}"
        if check.download_bytes
        else f"all {format_bytes(check.total_bytes)} here"
    )


def _describe_revision(check: ModelCheck) -> str:
    return "" if check.commit is None else f"{check.revision or 'main'}: {check.commit[:12]}"
