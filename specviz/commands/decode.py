"""``decode``: decode one text and print it as coloured text or as a JSON trace. ``--probs`` also stores the full distributions."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import numpy as np

from specviz.commands.options import (
    in_words,
    pair_options,
    proposer_options,
    refuse_unknown,
    run_options,
    sampling_options,
    settings_of,
)
from specviz.errors import SettingsError
from specviz.settings import Settings
from specviz.trace import Round, Trace

DISTRIBUTIONS_LIMIT = 256 * 2**20
ORIGINS = {"accepted": "\x1b[34m", "residual": "\x1b[32m", "bonus": "\x1b[35m"}
PLAIN = "\x1b[0m"


def arguments(parser: argparse.ArgumentParser) -> None:
    pair_options(parser)
    run_options(parser)
    sampling_options(parser)
    proposer_options(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text", help="text (default), or the trace as JSON")
    parser.add_argument(
        "--color", choices=("auto", "always", "never"), default="auto", help="colour tokens by their origin (default: auto)"
    )
    parser.add_argument(
        "--probs",
        type=Path,
        metavar="FILE.npz",
        help="also store the full target and draft distributions of every round, at most 256 MB",
    )


def run(options: argparse.Namespace) -> int:
    settings = settings_of(options)
    folder = DistributionsFile(options.probs) if options.probs else None
    from specviz.decoding.run import run as decode_run
    from specviz.models.pairs.loading import load_pair

    refuse_unknown(settings)
    pair = load_pair(settings.pair, settings.device, settings.dtype)
    bars = 12 if options.format == "json" else 0
    trace = decode_run(pair, settings, bars=bars, watch=folder.add if folder else None)
    if folder:
        folder.write()
    print(trace.to_json(indent=1) if options.format == "json" else as_text(trace, _colour(options.color)))
    return 0


class DistributionsFile:
    """Collects the distributions of each round and writes them at the end, completely or not at all.

    Arrays: ``r0_p`` (N + 1, V) float64, the target distributions after the prefix and after each draft token; ``r0_q`` (N, V)
    float64, the distribution that each draft token was drawn from; then ``r1_p``, ``r1_q`` and so on.
    """

    def __init__(self, path: Path):
        if path.suffix != ".npz":
            raise SettingsError("probs", str(path), "a file ending in .npz")
        if not path.parent.is_dir():
            raise SettingsError("probs", str(path), "in a folder that exists")
        self.path, self.arrays, self.bytes, self.rounds = path, {}, 0, 0

    def add(self, round_: Round) -> None:
        p = round_.full.p.cpu().numpy()
        q = np.zeros((0, p.shape[1])) if round_.full.q is None else round_.full.q.cpu().numpy()
        self.bytes += p.nbytes + q.nbytes
        if self.bytes > DISTRIBUTIONS_LIMIT:
            raise SettingsError(
                "probs",
                f"more than {DISTRIBUTIONS_LIMIT >> 20} MB",
                f"at most {DISTRIBUTIONS_LIMIT >> 20} MB; {self.rounds} rounds of this run fit",
            )
        self.arrays[f"r{self.rounds}_p"], self.arrays[f"r{self.rounds}_q"] = p, q
        self.rounds += 1

    def write(self) -> None:
        beside = self.path.with_suffix(".partial.npz")
        try:
            np.savez(beside, **self.arrays)
            beside.replace(self.path)
        except OSError as error:
            beside.unlink(missing_ok=True)
            raise SettingsError("probs", str(self.path), f"a file that can be written ({error.strerror})") from error


def as_text(trace: Trace, colour: bool) -> str:
    """Prompt and continuation with each token coloured by its origin, and a summary below."""
    parts: list[tuple[str, bytes]] = []
    for round_ in trace.rounds:
        for node in round_.accepted_path:
            parts.append(("accepted", bytes.fromhex(trace.pieces[round_.proposals[node].token])))
        if round_.ending.token is not None:
            parts.append((round_.ending.kind, bytes.fromhex(trace.pieces[round_.ending.token])))
    body = _paint(parts) if colour else b"".join(piece for _, piece in parts).decode("utf-8", "replace")
    between = "\n\n" if trace.encoder_ids else ""  # the decoder's text does not continue the encoder's prompt
    return f"{trace.settings['prompt']}{between}{body}\n\n{_tally(trace, parts, colour)}"


def _paint(parts: list[tuple[str, bytes]]) -> str:
    """Colour runs of tokens of the same origin. Characters split over tokens stay whole within a run."""
    text, index = "", 0
    while index < len(parts):
        origin, run_bytes = parts[index][0], b""
        while index < len(parts) and parts[index][0] == origin:
            run_bytes += parts[index][1]
            index += 1
        text += ORIGINS[origin] + run_bytes.decode("utf-8", "replace") + PLAIN
    return text


def _tally(trace: Trace, parts: list[tuple[str, bytes]], colour: bool) -> str:
    words = {"accepted": "accepted draft tokens", "residual": "from the residual", "bonus": "bonus"}
    counts = [
        (ORIGINS[kind] if colour else "") + f"{sum(origin == kind for origin, _ in parts)} {word}" + (PLAIN if colour else "")
        for kind, word in words.items()
    ]
    passes = len(trace.rounds)
    rate = f"{len(parts) / passes:.2f}" if passes else "0"
    models = trace.models
    edited = "  (some random numbers were chosen by hand: this run is not a sample)" if trace.settings["uniforms"] else ""
    began = "the encoder read" if trace.encoder_ids else "started from"
    start = f"empty prompt: {began} {models.get('start_token')}\n" if not trace.settings["prompt"] else ""
    return (
        f"{start}{len(parts)} tokens in {passes} target passes, {rate} tokens per target pass: {', '.join(counts)}\n"
        f"{in_words(Settings.from_record(trace.settings))}"
        f"{models['pair']} on {models['device']}, {models['dtype']}, seed {trace.settings['seed']}{edited}"
    )


def _colour(choice: str) -> bool:
    if choice == "auto":
        return sys.stdout.isatty() and "NO_COLOR" not in os.environ
    return choice == "always"
