"""``pairs download``: check a pair of one's own, and fetch what is missing if nothing is in the way."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from specviz.cli.common.output import print_record
from specviz.cli.common.progress import Progress
from specviz.cli.pairs import check
from specviz.cli.pairs.check import NOT_READY, check_models, format_check, list_chosen_options
from specviz.statistics.finding import format_bytes

if TYPE_CHECKING:
    from specviz.speed.prediction.preflight import Preflight

add_arguments = check.add_arguments


def run(options: argparse.Namespace) -> int:
    found = check_models(options)
    fetching = found.ready and found.download_bytes > 0
    if options.format == "text":
        print(format_check(found, list_chosen_options(options)))
    if fetching:
        fetch_files(found)
    record = found.to_record() | ({"downloaded_bytes": found.download_bytes} if fetching else {})
    if options.format == "json":
        print_record(record, options, lambda record: "")
    elif fetching:
        print(f"\nDownloaded: {format_bytes(found.download_bytes)}, every file with the hash that was announced.")
    return 0 if found.ready else NOT_READY


def fetch_files(preflight: Preflight) -> None:
    """Download what is missing of both models."""
    from specviz.models.hub.download import download_models

    progress = Progress("downloading")
    try:
        download_models(preflight.listings, progress)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("what has arrived is kept, and the same command goes on from there") from None
