"""``bench gpu``: everything that only a GPU can tell, in one run of a few minutes."""

from __future__ import annotations

import argparse
from pathlib import Path

from specviz.cli.common.command_options import add_number
from specviz.cli.common.progress import log_line
from specviz.errors import ModelError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--out", type=Path, required=True, metavar="DIR", help="folder of the results; results in it are continued")
    add_number(add, "minutes", 120.0, "time for all parts (default: 8)", "M", 8.0)
    add("--only", nargs="+", default=[], metavar="PART", help="run only these parts")
    add("--dry", action="store_true", help="run all parts small on the CPU")


def run(options: argparse.Namespace) -> int:
    import torch

    from specviz.models.pairs.loading import explain_missing_cuda

    if not options.dry and not torch.cuda.is_available():
        raise ModelError(f"There is no CUDA device here: {explain_missing_cuda()}. --dry runs all parts on the CPU.")
    from specviz.speed.benchmarks.gpu.runner import format_gpu, measure_gpu

    record = measure_gpu(options.out, options.minutes, options.dry, log_line, options.only)
    print(format_gpu(record))
    return 0 if all(part.get("status") == "done" for part in record["parts"].values()) else 3
