"""``check``: is a certificate what it says? Field by field: confirmed, consistent in itself, or altered."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specviz.commands.options import pair_name
from specviz.commands.progress import Progress

if TYPE_CHECKING:
    from specviz.evidence.certificate.check import Line


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("certificate", type=Path, help="the report.json that verify --out has written")
    parser.add_argument("--no-redraw", action="store_true", help="only what follows from the file itself; needs no models")
    parser.add_argument("--pair", help="name of the pair on this machine (default: as the certificate says)")
    parser.add_argument("--target", metavar="T", help="where the target is on this machine; needs --draft")
    parser.add_argument("--draft", metavar="D", help="where the draft is on this machine; needs --target")
    parser.add_argument("--draft-bits", type=int, help="8 where the draft was rounded to 8 bits; needs --target and --draft")
    parser.add_argument("--format", choices=("text", "json"), default="text")


def run(options: argparse.Namespace) -> int:
    from specviz.evidence.certificate.check import ALTERED, check, read

    record = read(options.certificate)
    lines, note = check(record), "Not re-drawn: --no-redraw was given."
    if not options.no_redraw and not any(line.state == ALTERED for line in lines):
        lines, note = redrawn(record, lines, options)
    elif not options.no_redraw:
        note = "Not re-drawn: the file contradicts itself, or was changed."
    print(json.dumps(_record(lines, note), indent=1) if options.format == "json" else as_text(lines, note))
    return 1 if any(line.state == ALTERED for line in lines) else 0


def redrawn(record: dict[str, Any], lines: list[Line], options: argparse.Namespace) -> tuple[list[Line], str]:
    """The lines after drawing again, where the models are at hand; else as they are, and why."""
    from specviz.evidence.certificate.redraw import NotAtHand, models, redraw

    try:
        pair = models(record, pair_name(options) if options.pair or options.target or options.draft else None)
        found = {line.field: line for line in lines} | {line.field: line for line in redraw(record, pair, Progress)}
    except NotAtHand as error:
        return lines, f"Not re-drawn: {str(error).rstrip('.')}."
    return list(found.values()), "Re-drawn with the stored seed on the same models."


def as_text(lines: list[Line], note: str) -> str:
    """One line a field, what was altered last, and a sentence that sums up."""
    from specviz.evidence.certificate.check import ALTERED

    rows = [f"{line.state:<37} {line.field:<55} {line.why}" for line in sorted(lines, key=lambda line: line.state == ALTERED)]
    return "\n".join([*rows, "", summary(lines), note])


def summary(lines: list[Line]) -> str:
    """How many fields are what, in words."""
    from specviz.evidence.certificate.check import ALTERED, CONFIRMED, ITSELF

    states = [line.state for line in lines]
    if bad := [line.field for line in lines if line.state == ALTERED]:
        return f"Altered: {', '.join(bad)}."
    return f"Nothing was altered: {states.count(CONFIRMED)} fields {CONFIRMED}, {states.count(ITSELF)} {ITSELF}."


def _record(lines: list[Line], note: str) -> dict[str, Any]:
    return {"fields": [asdict(line) for line in lines], "summary": summary(lines), "note": note}
