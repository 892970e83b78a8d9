"""``worksheet``: one round by hand, with its key, as two PDF files."""

from __future__ import annotations

import argparse
from pathlib import Path

from specviz.cli.common.command_options import add_count

MAX_SHEETS = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_count(add, "seed", 0, 999_999, "number of the first sheet, 0 to 999999", 1, metavar="S")
    add_count(add, "count", 1, MAX_SHEETS, f"sheets, seeds S to S + N - 1; 1 to {MAX_SHEETS}", 1)
    add("--out", type=Path, default=Path("worksheet.pdf"), metavar="FILE", help="file to write (default: worksheet.pdf)")


def run(options: argparse.Namespace) -> int:
    from specviz.errors import SettingsError
    from specviz.records import write
    from specviz.web.classroom.worksheet import make_worksheet
    from specviz.web.classroom.worksheet_pdf import build_pdf

    if options.out.suffix.lower() != ".pdf":
        raise SettingsError("out", str(options.out), "the name of a file that ends in .pdf")
    sheets = [make_worksheet(options.seed + place) for place in range(options.count)]
    key = options.out.with_name(f"{options.out.stem}-key.pdf")
    for path in (options.out, key):
        if path.exists():
            raise SettingsError("out", str(path), "a new file", f"'{path}' exists already. --out takes the name of a new file.")
    write(options.out, build_pdf(sheets))
    write(key, build_pdf(sheets, key=True))
    print(f"{options.out} has {options.count} {'sheet' if options.count == 1 else 'sheets'}, and {key} the answers.")
    return 0
