"""``train``: train the storybook pair from a text file. An interrupted training is resumed."""

from __future__ import annotations

import argparse
from pathlib import Path

from specviz.cli.common.command_options import NO_LIMIT, add_choice, add_count
from specviz.errors import TrainingError

TRAINED_MODELS = ("draft", "target", "distilled", "heads", "exit", "eagle")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--data", type=Path, metavar="FILE", help="training text: one paragraph per line, each work closed by <|endoftext|>")
    heldout = "held-out text in the same form; losses and acceptance rates on it are written beside the models"
    add("--heldout", type=Path, metavar="FILE", help=heldout)
    out = "folder of checkpoints and models (default: training-run)"
    add("--out", type=Path, default="training-run", metavar="DIR", help=out)
    only = "train only this part; may be repeated (default: all)"
    add_choice(add, "only", TRAINED_MODELS, only, action="append")
    add_count(add, "tokens", 1, NO_LIMIT, "number of training tokens, for a short trial (default: as for the shipped pair)")


def run(options: argparse.Namespace) -> int:
    if options.data is None:
        raise TrainingError(
            "--data FILE is required: the books are not part of the project. assets/models/storybook/MANIFEST.csv lists them "
            "by Project Gutenberg number. The file holds one paragraph per line, each work closed by a line <|endoftext|>."
        )
    from specviz.training.card import measure_and_write
    from specviz.training.pair_training import train_pair

    train_pair(options.data, options.out, tuple(options.only or TRAINED_MODELS), options.tokens)
    if options.heldout is not None:
        measure_and_write(options.out, options.heldout)
    return 0
