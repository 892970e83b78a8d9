"""``train``: the storybook pair from a text file, resumed where it was left."""

from __future__ import annotations

import argparse
from pathlib import Path

from specviz.errors import TrainingError

ROLES = ("draft", "target", "distilled", "heads", "exit")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, help="text to learn from: a paragraph per line, works closed by <|endoftext|>")
    parser.add_argument(
        "--heldout", type=Path, help="text of the same form that is only measured; writes losses and the model card"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("training-run"), help="folder of checkpoints and models (default: training-run)"
    )
    parser.add_argument("--only", choices=ROLES, action="append", help="train one of these; may be repeated (default: all)")
    parser.add_argument("--tokens", type=int, help="tokens to see, for a short trial (default: the shipped pair's)")


def run(options: argparse.Namespace) -> int:
    if options.data is None:
        raise TrainingError(
            "--data FILE is required: the books are not part of the project. assets/models/storybook/MANIFEST.csv lists them "
            "by Project Gutenberg number; one paragraph per line, each work closed by a line <|endoftext|>."
        )
    if options.tokens is not None and options.tokens < 1:
        raise TrainingError(f"--tokens must be at least 1, got {options.tokens}.")
    from specviz.training.card import measure_and_write
    from specviz.training.pair import train_pair

    train_pair(options.data, options.out, tuple(options.only or ROLES), options.tokens)
    if options.heldout is not None:
        measure_and_write(options.out, options.heldout)
    return 0
