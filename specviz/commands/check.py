"""``check``: check a certificate field by field: confirmed, consistent in itself, or altered.

Exit codes: 0 every sample was drawn again and nothing was altered; 1 altered; 4 nothing was redrawn, so the file was only compared
with itself. Anyone who changes a number can make the rest agree with it, so 4 is not a confirmation.
"""

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


CODES = {"redrawn": 0, "altered": 1, "not redrawn": 4}
EPILOG = (
    "Exit codes: 0 samples redrawn with the stored seed, nothing altered; 1 altered; 2 unreadable; "
    "4 not redrawn: the file was only compared with itself."
)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("certificate", type=Path, help="the report.json written by verify --out")
    parser.add_argument("--no-redraw", action="store_true", help="check only what follows from the file itself; needs no models")
    parser.add_argument("--pair", help="name of the pair on this machine (default: as in the certificate)")
    parser.add_argument("--target", metavar="T", help="folder of the target on this machine; needs --draft")
    parser.add_argument("--draft", metavar="D", help="folder of the draft on this machine; needs --target")
    parser.add_argument(
        "--draft-bits", type=int, metavar="8", help="8 if the draft was rounded to 8 bits; needs --target and --draft"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="text (default) or json")


def run(options: argparse.Namespace) -> int:
    from specviz.evidence.certificate.check import ALTERED, check, read

    record = read(options.certificate)
    lines, missing = check(record), "--no-redraw was given"
    if not options.no_redraw and not any(line.state == ALTERED for line in lines):
        lines, missing = redrawn(record, lines, options)
    elif not options.no_redraw:
        missing = "the file contradicts itself, or was changed"
    print(json.dumps(_record(lines, missing), indent=1) if options.format == "json" else as_text(lines, missing))
    return CODES[outcome(lines, missing)]


def redrawn(record: dict[str, Any], lines: list[Line], options: argparse.Namespace) -> tuple[list[Line], str]:
    """Draw the samples again: (updated lines, ""); if the models are not available, (the same lines, the reason)."""
    from specviz.evidence.certificate.redraw import NotAtHand, models, redraw

    try:
        pair = models(record, pair_name(options) if options.pair or options.target or options.draft else None)
        found = {line.field: line for line in lines} | {line.field: line for line in redraw(record, pair, Progress)}
    except NotAtHand as error:
        return lines, str(error).rstrip(".")
    return list(found.values()), ""


def outcome(lines: list[Line], missing: str) -> str:
    """A name of CODES. missing: why nothing was redrawn; '' if it was."""
    from specviz.evidence.certificate.check import ALTERED

    if any(line.state == ALTERED for line in lines):
        return "altered"
    return "not redrawn" if missing else "redrawn"


def as_text(lines: list[Line], missing: str) -> str:
    """One line for each field, altered ones last; then the headline and its basis."""
    from specviz.evidence.certificate.check import ALTERED

    rows = [f"{line.state:<37} {line.field:<55} {line.why}" for line in sorted(lines, key=lambda line: line.state == ALTERED)]
    return "\n".join([*rows, "", headline(lines, missing), note(lines, missing)])


def headline(lines: list[Line], missing: str) -> str:
    """The outcome, in a sentence that claims no more than was checked."""
    from specviz.evidence.certificate.check import ALTERED

    found = outcome(lines, missing)
    if found == "altered":
        return f"Altered: {', '.join(line.field for line in lines if line.state == ALTERED)}."
    return "Nothing was altered." if found == "redrawn" else f"Not redrawn: {missing}."


def note(lines: list[Line], missing: str) -> str:
    """The basis of the headline: how many fields were confirmed, and whether samples were redrawn."""
    from specviz.evidence.certificate.check import CONFIRMED, ITSELF

    states = [line.state for line in lines]
    counts = f"{states.count(CONFIRMED)} fields {CONFIRMED}, {states.count(ITSELF)} {ITSELF}"
    if not missing:
        return f"Redrawn with the stored seed on the same models: {counts}."
    if outcome(lines, missing) == "altered":
        return f"Not redrawn: {missing}."
    return f"The file agrees with itself, but a forged file can do so too: {counts}."


def _record(lines: list[Line], missing: str) -> dict[str, Any]:
    return {
        "fields": [asdict(line) for line in lines],
        "outcome": outcome(lines, missing),
        "summary": headline(lines, missing),
        "note": note(lines, missing),
    }
