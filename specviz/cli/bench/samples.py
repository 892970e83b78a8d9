"""``bench samples``: how many samples a second each way of sampling gives."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from specviz.cli.common.command_options import add_pair_options, load_models, read_settings
from specviz.cli.common.output import add_format_option, format_machine, print_record
from specviz.cli.common.progress import log_line
from specviz.evidence.sampling.effort import SamplingEffort
from specviz.settings import list_declared


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "samples",
        type=list_declared(SamplingEffort)["samples"].parse,
        metavar="N",
        help="samples of 3 tokens, on shared distributions, beside batches and one after the other",
    )
    add_pair_options(parser)
    add_format_option(parser)


def run(options: argparse.Namespace) -> int:
    from specviz.speed.benchmarks import sampling_rates
    from specviz.speed.measurement.machine import describe_machine

    pair = load_models(read_settings(options))
    found = sampling_rates.measure_sampling_rates(pair, options.samples, log=log_line)
    record = {
        "machine": describe_machine(pair),
        "peak_mb": sampling_rates.read_peak_megabytes(),
        "results": [asdict(one) for one in found],
    }
    print_record(record, options, lambda record: f"{format_machine(record['machine'])}\n{sampling_rates.format_rates(found)}")
    return 0
