"""Check the first line of a commit message: ``area: what changed``, at most 72 characters. Called by pre-commit with the message's file."""

from __future__ import annotations

import re
import sys
from pathlib import Path

LONGEST = 72
SUBJECT = re.compile(r"[a-z][\w ,/.-]*: \S.*")


def find_fault(subject: str) -> str:
    """Return what is wrong with a subject, as a sentence; "" for a good one."""
    if subject.startswith(("Merge ", "Revert ", "fixup! ", "squash! ")):
        return ""
    if len(subject) > LONGEST:
        return f"The subject has {len(subject)} characters, at most {LONGEST} are allowed."
    if not SUBJECT.fullmatch(subject):
        return f'The subject must read "area: what changed", such as "audit: check end tokens", got "{subject}".'
    return ""


if __name__ == "__main__":
    fault = find_fault(Path(sys.argv[1]).read_text(encoding="utf-8").split("\n", 1)[0])
    sys.exit(fault and f"{fault}")
