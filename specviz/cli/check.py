"""``check``: check a certificate field by field: confirmed, consistent in itself, or altered.

Exit codes: 0 every sample was drawn again and nothing was altered; 1 altered; 4 nothing was redrawn, so the file was only compared
with itself. Anyone who changes a number can make the rest agree with it, so 4 is not a confirmation.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specviz.cli.common.command_options import DRAFT_BITS, add_setting, read_pair_name
from specviz.cli.common.output import add_format_option, print_record
from specviz.cli.common.progress import Progress
from specviz.records import to_json_fields

if TYPE_CHECKING:
    from specviz.evidence.sampling.certificate import FieldResult


EXIT_CODES = {"redrawn": 0, "altered": 1, "not redrawn": 4}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("certificate", type=Path, help="the report.json written by verify --out")
    add("--no-redraw", action="store_true", help="check only what follows from the file itself; needs no models")
    add("--pair", help="name of the pair on this machine (default: as in the certificate)")
    add("--target", metavar="T", help="folder of the target on this machine; needs --draft")
    add("--draft", metavar="D", help="folder of the draft on this machine; needs --target")
    add_setting(add, DRAFT_BITS, help="8 if the draft was rounded to 8 bits; needs --target and --draft")
    add_format_option(parser)


def run(options: argparse.Namespace) -> int:
    from specviz.evidence.sampling.certificate import ALTERED, check_certificate, read_certificate

    record = read_certificate(options.certificate)
    lines, missing = check_certificate(record), ""
    if options.no_redraw:
        missing = "--no-redraw was given"
    elif any(line.state == ALTERED for line in lines):
        missing = "the file contradicts itself, or was changed"
    else:
        lines, missing = redraw_samples(record, lines, options)
    found = summarize_lines(lines, missing)
    print_record(found, options, format_outcome)
    return EXIT_CODES[found["outcome"]]


def redraw_samples(
    record: dict[str, Any], lines: list[FieldResult], options: argparse.Namespace
) -> tuple[list[FieldResult], str]:
    """Draw the samples again: (updated lines, ""); if the models are not available, (the same lines, the reason)."""
    from specviz.evidence.sampling.certificate import ModelsUnavailableError, load_models, redraw_certificate

    try:
        pair = load_models(record, read_pair_name(options) if options.pair or options.target or options.draft else None)
        found = {line.field: line for line in lines} | {line.field: line for line in redraw_certificate(record, pair, Progress)}
    except ModelsUnavailableError as error:
        return lines, str(error).rstrip(".")
    return list(found.values()), ""


def summarize_lines(lines: list[FieldResult], missing: str) -> dict[str, Any]:
    """Every field, a name of CODES, a sentence that claims no more than was checked, and its basis, JSON-ready.

    missing: why nothing was redrawn; '' if it was
    """
    from specviz.evidence.sampling.certificate import ALTERED, CONFIRMED, SELF_CONSISTENT

    states = [line.state for line in lines]
    counts = f"{states.count(CONFIRMED)} fields {CONFIRMED}, {states.count(SELF_CONSISTENT)} {SELF_CONSISTENT}"
    if ALTERED in states:
        found, summary = "altered", f"Altered: {', '.join(line.field for line in lines if line.state == ALTERED)}."
    elif missing:
        found, summary = "not redrawn", f"Not redrawn: {missing}."
    else:
        found, summary = "redrawn", "Nothing was altered."
    if not missing:
        note = f"Redrawn with the stored seed on the same models: {counts}."
    elif found == "altered":
        note = f"Not redrawn: {missing}."
    else:
        note = f"The file agrees with itself, but a forged file can do so too: {counts}."
    return {"fields": [to_json_fields(line) for line in lines], "outcome": found, "summary": summary, "note": note}


def format_outcome(outcome: dict[str, Any]) -> str:
    """One line for each field, altered ones last; then the summary and its basis."""
    from specviz.evidence.sampling.certificate import ALTERED

    fields = sorted(outcome["fields"], key=lambda line: line["state"] == ALTERED)
    rows = [f"{line['state']:<37} {line['field']:<55} {line['why']}" for line in fields]
    return "\n".join([*rows, "", outcome["summary"], outcome["note"]])
