"""Options and files of the commands that write a report."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from specviz.cli.common.output import add_format_option
from specviz.cli.common.parser import Number
from specviz.cli.common.progress import log_line


def add_min_tv(add: Any, default: float) -> None:
    add(
        "--min-tv",
        type=Number("min-tv", 1.0),
        default=default,
        metavar="TV",
        help=f"total variation that the tests must detect (default: {default:g})",
    )


def add_report_options(parser: argparse.ArgumentParser) -> None:
    add_format_option(parser, "the report as JSON")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="also write a certificate, tables and figures to DIR, and a zip of them"
    )


def write_report(record: dict[str, Any], options: argparse.Namespace) -> None:
    """Write the certificate, tables and figures to the folder of ``--out``, if there is one."""
    if options.out:
        from specviz.export.report import write_certificate

        if sentence := write_certificate(options.out, record):
            log_line(sentence)
