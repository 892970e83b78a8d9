"""``site OUT``: write the static edition, plain files that any file server shows."""

from __future__ import annotations

import argparse
import gzip
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("out", type=Path, metavar="OUT", help="folder to write to")
    parser.add_argument("--live", metavar="URL", help="address of the app, which the pages then lead to (default: none)")


def run(options: argparse.Namespace) -> int:
    from specviz.static_site.build import write_site
    from specviz.static_site.document import FONT

    found = write_site(options.out, options.live)
    for name, content in found.items():
        if name.endswith(".html"):
            print(f"{name:<24} {(len(gzip.compress(content)) + len(found[FONT])) / 1000:6.1f} kB compressed, with its font")
    print(f"The site is in {options.out}.")
    return 0
