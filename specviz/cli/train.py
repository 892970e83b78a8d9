"""``train``: train the storybook pair from a text file. An interrupted training is resumed."""

from __future__ import annotations

import argparse
from pathlib import Path

from specviz.errors import TrainingError

ROLES = ("draft", "target", "distilled", "heads", "exit", "eagle")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--data", type=Path, metavar="FILE", help="training text: one paragraph per line, each work closed by <|endoftext|>")
    add(
        "--heldout",
        type=Path,
        metavar="FILE",
        help="held-out text in the same form; losses and acceptance rates on it are written beside the models",
    )
    add(
        "--out", type=Path, default="training-run", metavar="DIR", help="folder of checkpoints and models (default: training-run)"
    )
    add("--only", choices=ROLES, action="append", help="train only this part; may be repeated (default: all)")
    add("--tokens", type=int, metavar="N", help="number of training tokens, for a short trial (default: as for the shipped pair)")


def run(options: argparse.Namespace) -> int:
    if options.data is None:
        raise TrainingError(
            "--data FILE is required: the books are not part of the project. assets/models/storybook/MANIFEST.csv lists them "
            "by Project Gutenberg number. The file holds one paragraph per line, each work closed by a line <|endoftext|>."
        )
    if options.tokens is not None and options.tokens < 1:
        raise TrainingError(f"--tokens must be at least 1, got {options.tokens}.")
    from specviz.training.card import measure_and_write
    from specviz.training.pair import train_pair

    train_pair(options.data, options.out, tuple(options.only or ROLES), options.tokens)
    if options.heldout is not None:
        measure_and_write(options.out, options.heldout)
    return 0
