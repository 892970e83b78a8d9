"""``decode``: decode one text and print it as colored text or as a JSON trace. ``--probs`` also stores the full distributions."""

from __future__ import annotations

import argparse
import io
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import numpy as np

from specviz.cli.common.command_options import (
    add_choice,
    add_cluster_option,
    add_decoding_options,
    add_drafting_options,
    add_pair_options,
    add_run_options,
    check_cluster,
    describe_drafting,
    load_models,
    read_run_settings,
)
from specviz.cli.common.output import add_format_option, use_color
from specviz.decoding.method_checks import check_methods
from specviz.errors import SettingsError
from specviz.models.pairs.names import describe_draftable
from specviz.records import write
from specviz.settings import Settings
from specviz.trace import Round, Trace

DISTRIBUTIONS_LIMIT = 256 * 2**20
ORIGIN_COLORS = {"accepted": "\x1b[34m", "residual": "\x1b[32m", "bonus": "\x1b[35m"}
RESET_COLOR = "\x1b[0m"
ORIGIN_MARKS = {"accepted": ("", ""), "residual": ("[", "]"), "bonus": ("<", ">")}  # around tokens, without color


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_pair_options(parser)
    add_run_options(parser)
    add_decoding_options(parser)
    add_drafting_options(parser)
    add_cluster_option(parser)
    add_format_option(parser, "the trace as JSON")
    add = parser.add_argument
    color = (
        "color tokens by their origin; without color, marks: [from the residual] <bonus> (default: auto); plain: the text alone"
    )
    add_choice(add, "color", ("auto", "always", "never", "plain"), color, "auto")
    probs = "also store the full target and draft distributions of every round, at most 256 MB"
    add("--probs", type=Path, metavar="FILE.npz", help=probs)


def run(options: argparse.Namespace) -> int:
    settings = read_run_settings(options)
    if options.format == "json" and options.color != "auto":
        raise SettingsError("color", options.color, "left out with --format json, which has no colors")
    if options.probs and options.cluster is not None:
        raise SettingsError("cluster", options.cluster, "left out with --probs: only the trace comes back from there")
    check_cluster(options)
    folder = DistributionsFile(options.probs) if options.probs else None
    if folder and settings.engine == "auto":
        settings = replace(settings, engine="reference")  # only it keeps distributions
    check_methods(settings)
    from specviz.jobs.remote import run_remote

    trace = run_remote(options.cluster, decode_text, settings, 12 if options.format == "json" else 0, folder and folder.add)
    if folder:
        folder.write()
    color = use_color() if options.color == "auto" else options.color == "always"
    print(trace.to_json(indent=1) if options.format == "json" else format_trace(trace, color, options.color != "plain"))
    return 0


def decode_text(settings: Settings, bars: int, on_round: Callable[[Round], None] | None) -> Trace:
    """The trace of one text, decoded where this is called."""
    from specviz.decoding.run import record_run as decode_run

    return decode_run(load_models(settings), settings, bars=bars, on_round=on_round)


class DistributionsFile:
    """Collects the distributions of each round and writes them at the end, completely or not at all.

    Arrays: ``r0_p`` (N + 1, V) float64, the target distributions after the prefix and after each draft token; ``r0_q`` (N, V)
    float64, the distribution that each draft token was drawn from; then ``r1_p``, ``r1_q`` and so on.
    """

    def __init__(self, path: Path):
        if path.suffix != ".npz":
            raise SettingsError("probs", str(path), "a file ending in .npz")
        if not path.parent.is_dir():
            sentence = f"The folder '{path.parent}' does not exist. --probs takes a file in a folder that exists."
            raise SettingsError("probs", str(path), "in a folder that exists", sentence)
        self.path, self.bytes, self.rounds = path, 0, 0
        self.arrays: dict[str, np.ndarray] = {}

    def add(self, round_: Round) -> None:
        if round_.full is None:
            allowed = "left out with --engine device and compiled, which keep no distributions"
            raise SettingsError("probs", str(self.path), allowed)
        p = round_.full.p.cpu().numpy()
        q = np.zeros((0, p.shape[1])) if round_.full.q is None else round_.full.q.cpu().numpy()
        self.bytes += p.nbytes + q.nbytes
        if self.bytes > DISTRIBUTIONS_LIMIT:
            most = f"{DISTRIBUTIONS_LIMIT >> 20} MB"
            sentence = f"The distributions of this run take more than {most}, the most that --probs writes; those of {self.rounds} rounds fit."
            raise SettingsError("probs", f"more than {most}", f"at most {most}", sentence)
        self.arrays[f"r{self.rounds}_p"], self.arrays[f"r{self.rounds}_q"] = p, q
        self.rounds += 1

    def write(self) -> None:
        buffer = io.BytesIO()
        np.savez(buffer, **self.arrays)
        write(self.path, (buffer.getbuffer(),), over=True, name="probs")


def format_trace(trace: Trace, color: bool, marks: bool = True) -> str:
    """Prompt and continuation with each token colored, or else marked, by its origin, and a summary below."""
    parts: list[tuple[str, bytes]] = []
    for round_ in trace.rounds:
        for node in round_.accepted_path:
            parts.append(("accepted", bytes.fromhex(trace.pieces[round_.proposals[node].token])))
        if round_.ending.token is not None:
            parts.append((round_.ending.kind, bytes.fromhex(trace.pieces[round_.ending.token])))
    around = {kind: _frame_origin(kind, color, marks) for kind in ORIGIN_COLORS}
    body = _join_runs(parts, around) if color or marks else b"".join(piece for _, piece in parts).decode("utf-8", "replace")
    between = "\n\n" if trace.encoder_ids else ""  # the decoder's text does not continue the encoder's prompt
    return f"{trace.settings['prompt']}{between}{body}\n\n{_format_tally(trace, parts, around)}"


def _frame_origin(kind: str, color: bool, marks: bool) -> tuple[str, str]:
    """The marks before and after tokens of an origin."""
    return (ORIGIN_COLORS[kind], RESET_COLOR) if color else ORIGIN_MARKS[kind] if marks else ("", "")


def _join_runs(parts: list[tuple[str, bytes]], around: Mapping[str, tuple[str, str]]) -> str:
    """Runs of tokens of the same origin. Characters split over tokens stay whole within a run."""
    runs = ((origin, b"".join(piece for _, piece in run)) for origin, run in groupby(parts, key=lambda part: part[0]))
    return "".join(around[origin][0] + run.decode("utf-8", "replace") + around[origin][1] for origin, run in runs)


FINISHED = {
    "stop": "a token that ends a text",
    "length": "as many tokens as were asked for",
    "context": "the target's context is full",
}


def _format_finish(trace: Trace) -> str:
    """A line on why the text ends."""
    return f"finish reason: {trace.finish_reason} ({FINISHED[trace.finish_reason]})\n" if trace.finish_reason else ""


def _format_tally(trace: Trace, parts: list[tuple[str, bytes]], around: Mapping[str, tuple[str, str]]) -> str:
    words, counts = {"accepted": "accepted draft tokens", "residual": "from the residual", "bonus": "bonus"}, []
    for kind, word in words.items():
        said = f"{sum(origin == kind for origin, _ in parts)} {word}"
        counts.append(said.join(around[kind]))
    passes = len(trace.rounds)
    rate = f"{len(parts) / passes:.2f}" if passes else "0"
    models = trace.models
    edited = "  (some random numbers were chosen by hand: this run is not a sample)" if trace.settings["uniforms"] else ""
    sharing = f"{said}\n" if (said := describe_draftable(models)) else ""
    began = "the encoder read" if trace.encoder_ids else "started from"
    start = f"empty prompt: {began} {models.get('start_token')}\n" if not trace.settings["prompt"] else ""
    return (
        f"{start}{_format_finish(trace)}{len(parts)} tokens in {passes} target passes, {rate} tokens per target pass: {', '.join(counts)}\n"
        f"{describe_drafting(Settings.from_record(trace.settings))}"
        f"{sharing}"
        f"{models['pair']} on {models['device']}, {models['dtype']}, seed {trace.settings['seed']}{edited}"
    )
