"""What several commands print on stdout: a record as text or as JSON, the machine, colors."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from specviz.cli.common.parser import Choice

NO_VERDICT = 3  # exit code: too few samples, or a machine too busy to time anything
NOTHING_TESTED = 5  # exit code: no draft token was proposed, so the samples say nothing of the decoder


def add_format_option(parser: argparse.ArgumentParser, what: str = "JSON") -> None:
    formats = Choice("format", ("text", "json"))
    parser.add_argument("--format", type=formats, default="text", metavar=formats.metavar, help=f"text (default), or {what}")


def print_record(record: dict[str, Any], options: argparse.Namespace, as_text: Callable[[dict[str, Any]], str]) -> None:
    """Print a record as ``--format`` asks."""
    print(json.dumps(record, indent=1, allow_nan=False) if options.format == "json" else as_text(record))


def use_color() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ


def format_machine(machine: Mapping[str, Any]) -> str:
    return "  ".join(f"{key} {value}" for key, value in machine.items())


def format_estimate(estimate: dict[str, Any], digits: int) -> str:
    """The value and its interval, with this many digits."""
    return f"{estimate['value']:.{digits}f}  ({estimate['low']:.{digits}f} to {estimate['high']:.{digits}f})"
