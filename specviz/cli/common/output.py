"""What several commands print on stdout: a record as text or as JSON, the machine, colors."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from specviz.cli.common.command_options import add_choice
from specviz.cli.common.progress import log_line
from specviz.errors import SettingsError, TraceError
from specviz.records import read_json

NO_VERDICT = 3  # exit code: too few samples, or a machine too busy to time anything
WIDTH = 120  # columns of sentences
NO_QUESTION = ("url", "out", "format", "figures", "junit", "prometheus")  # options that change no number
NOTHING_TESTED = 5  # exit code: no draft token was proposed, so the samples say nothing of the decoder


def add_report_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a command that writes a report."""
    add_format_option(parser, "the report as JSON")
    words = "also write a certificate, tables and figures to DIR, and a zip of them"
    parser.add_argument("--out", type=Path, metavar="DIR", help=words)


def write_report(record: dict[str, Any], options: argparse.Namespace) -> None:
    """Write the certificate, tables and figures to the folder of ``--out``, if there is one."""
    if options.out:
        from specviz.export.report import write_certificate

        if sentence := _describe_replaced(options.out, record):
            log_line(sentence)
        if sentence := write_certificate(options.out, record):
            log_line(sentence)


def _describe_replaced(folder: Path, record: Mapping[str, Any]) -> str:
    """A sentence where the folder holds the report of another run, which will be replaced; '' for the same run or none."""
    try:
        earlier = read_json(folder / "report.json", "The report")
    except TraceError:
        return ""
    if all(earlier.get(name) == record.get(name) for name in ("decoder", "settings")):
        return ""
    return f"'{folder}' held the report of another run ({earlier.get('decoder')}, seed {earlier.get('seed')}): it is replaced."


def add_format_option(parser: argparse.ArgumentParser, contents: str = "JSON") -> None:
    """Add the choice between text and JSON."""
    add_choice(parser.add_argument, "format", ("text", "json"), f"text (default), or {contents}", "text")


def print_record(record: dict[str, Any], options: argparse.Namespace, as_text: Callable[[dict[str, Any]], str]) -> None:
    """Print a record in the format of ``--format``."""
    print(json.dumps(record, indent=1, allow_nan=False) if options.format == "json" else as_text(record))


def add_figures_option(parser: argparse.ArgumentParser) -> None:
    """Add the choice of figures beside a command's record and report."""
    parser.add_argument("--figures", action="store_true", help="also write tables and figures to the folder of --out")


def add_junit_option(parser: argparse.ArgumentParser) -> None:
    """Add the file of a nightly run."""
    parser.add_argument("--junit", type=Path, metavar="FILE", help="also write the outcome as JUnit XML, which CI servers show")


def read_json_object(text: str, name: str) -> dict[str, Any]:
    """An object of an option. Raises SettingsError."""
    try:
        found = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise SettingsError(name, text, 'a JSON object such as {"top_k": 0}')
    return found


def format_command(name: str, add_arguments: Callable[[argparse.ArgumentParser], None], options: argparse.Namespace) -> str:
    """The line that repeats a command on a server: its address, and every option that is not at its default."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    add_arguments(parser)
    plain = vars(parser.parse_args(["URL"]))
    words = ["specviz", name, options.url]
    for key, value in vars(options).items():
        if key not in plain or key in NO_QUESTION or value == plain[key]:
            continue
        words += [f"--{key.replace('_', '-')}", *([] if value is True else [str(value)])]
    return shlex.join(words)


def use_color() -> bool:
    """Whether stdout takes colors."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ


def format_machine(machine: Mapping[str, Any]) -> str:
    """The fields of a machine in one line."""
    return "  ".join(f"{key} {value}" for key, value in machine.items())


def format_estimate(estimate: dict[str, Any], digits: int) -> str:
    """The value and its interval, with this many digits."""
    return f"{estimate['value']:.{digits}f}  ({estimate['low']:.{digits}f} to {estimate['high']:.{digits}f})"


def wrap_sentences(text: str, indented: int = 0) -> list[str]:
    """Lines of at most WIDTH columns less the indentation. Paths and options are not broken."""
    return textwrap.wrap(text, WIDTH - indented, break_on_hyphens=False, break_long_words=False)
