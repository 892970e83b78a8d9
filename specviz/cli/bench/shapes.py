"""``bench shapes``: milliseconds per pass of models of given shapes at random weights."""

from __future__ import annotations

import argparse
import re

from specviz.cli.common.command_options import add_setting
from specviz.errors import SettingsError
from specviz.settings import FASTEST_GAMMA


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shapes", metavar="LxW,...", help="layers x width, separated by commas, such as 12x256,8x384,1x256")
    add_setting(parser.add_argument, "gamma", default=FASTEST_GAMMA, low=1)


def run(options: argparse.Namespace) -> int:
    allowed = "LAYERSxWIDTH separated by commas, 1 to 64 layers, width a multiple of 64 up to 2048"
    wanted = []
    for part in options.shapes.split(","):
        match = re.fullmatch(r"(\d{1,2})x(\d{1,4})", part.strip(), re.ASCII)
        layers, width = (int(match[1]), int(match[2])) if match else (0, 0)
        if not (1 <= layers <= 64 and width % 64 == 0 and 64 <= width <= 2048):
            raise SettingsError("shapes", options.shapes, allowed)
        wanted.append((layers, width))
    from specviz.speed.measurement.costs import time_shapes

    blocks = tuple(dict.fromkeys((1, 2, 3, options.gamma + 1, 9)))
    print("layers x width  " + "".join(f"{f'T({n})':>8}" for n in blocks) + "   ms, medians, random weights")
    for (layers, width), by in time_shapes(wanted, blocks).items():
        print(f"{f'{layers} x {width}':<16}" + "".join(f"{1e3 * seconds.value:8.2f}" for seconds in by.values()))
    return 0
