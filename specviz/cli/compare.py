"""``compare``: do two sample files, such as those of a server with and without speculation, have the same distribution?"""

from __future__ import annotations

import argparse
from pathlib import Path

from specviz.cli.common.command_options import add_declared, add_seed_option
from specviz.cli.common.output import add_report_options, print_record, write_report
from specviz.cli.common.progress import Progress
from specviz.cli.verify import EXIT_CODES, format_report
from specviz.evidence.sampling.effort import SamplingEffort


def add_arguments(parser: argparse.ArgumentParser) -> None:
    for name in ("file", "other"):
        parser.add_argument(
            name, type=Path, metavar=name.upper(), help="samples as JSON lines (docs/how-to/checking-your-server.md)"
        )
    add_declared(parser.add_argument, SamplingEffort, "min_tv")
    add_seed_option(parser)
    add_report_options(parser)


def run(options: argparse.Namespace) -> int:
    from specviz.evidence.sampling.sample_files import compare_files, read_samples
    from specviz.export.folder import check_writable

    if options.out:
        check_writable(options.out)
    record = compare_files(
        read_samples(options.file), read_samples(options.other), options.min_tv, options.seed, Progress("comparing")
    )
    write_report(record, options)
    print_record(record, options, format_report)
    return EXIT_CODES[record["verdict"]]
