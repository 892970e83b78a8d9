"""``pairs check``: whether a pair of one's own will run here, before its weights are there."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from specviz.cli.common.output import add_format_option, print_record
from specviz.cli.common.progress import Progress
from specviz.cli.pairs.listing import add_place_options
from specviz.models.pairs.names import PairPlaces, check_place, format_options
from specviz.statistics.finding import format_bytes

if TYPE_CHECKING:
    from specviz.speed.prediction.preflight import ModelCheck, Preflight

NOT_READY = 1  # exit code


def add_arguments(parser: argparse.ArgumentParser) -> None:
    for role in ("target", "draft"):
        parser.add_argument(role, metavar=role.upper(), help="folder, GGUF file or hub name (owner/model, owner/model@revision)")
    add_place_options(parser)
    parser.add_argument(
        "--no-probe", dest="probe", action="store_false", help="do not measure what a pass would take on this machine"
    )
    add_format_option(parser)


def run(options: argparse.Namespace) -> int:
    found = check_models(options)
    print_record(found.to_record(), options, lambda record: format_check(found, list_chosen_options(options)))
    return 0 if found.ready else NOT_READY


def check_models(options: argparse.Namespace) -> Preflight:
    """Check the pair that the options name."""
    from specviz.speed.prediction.preflight import check_pair

    for role in ("target", "draft"):
        check_place(role, getattr(options, role))
    progress = Progress("checking")
    dtype = options.dtype or "auto"
    found = check_pair(options.target, options.draft, options.device, dtype, options.probe, on_progress=progress)
    progress(1.0)
    return found


def list_chosen_options(options: argparse.Namespace) -> list[str]:
    """Options of this check that a run needs too."""
    given = {"--device": options.device if options.device != "auto" else None, "--dtype": options.dtype}
    return [word for name, value in given.items() if value for word in (name, value)]


def format_check(preflight: Preflight, chosen: Sequence[str] = ()) -> str:
    """The check as text: a paragraph for each model, one for the pair, and what is worth knowing or stands in the way.

    chosen: more options of a command that runs the pair.
    """
    lines = [*_describe_model(preflight.target), "", *_describe_model(preflight.draft), "", *_describe_pair(preflight)]
    for title, sentences in (("worth knowing", preflight.all_notes), ("in the way", preflight.all_problems)):
        if sentences:
            lines += ["", f"{title}:", *(f"- {sentence}" for sentence in sentences)]
    if preflight.ready:
        command = shlex.join([*format_options(PairPlaces(preflight.target.place, preflight.draft.place).name), *chosen])
        lines += ["", f"Ready. To run it: specviz decode {command} --prompt ..."]
    else:
        lines += ["", "Not ready."]
    return "\n".join(lines)


def _describe_model(model: ModelCheck) -> list[str]:
    lines = [f"{model.role:<7} {model.place}"]
    if model.commit is not None:
        lines.append(
            f"        commit {model.commit[:12]}, license {model.license or 'not named'}{', gated' if model.gated else ''}"
        )
    if model.family is not None:
        said = (
            f"{model.family}{'' if model.supported else ' (not supported)'}",
            f"{model.parameters / 1e6:.1f} million parameters" if model.parameters else "",
            f"stored in {model.stored}" if model.stored else "",
            f"{model.vocabulary} tokens" if model.vocabulary else "",
            f"context {model.context}" if model.context else "",
            f"sliding window {model.window}" if model.window else "",
            "chat template" if model.chat_template else "",
        )
        lines.append("        " + ", ".join(filter(None, said)))
    if model.total_bytes is not None and model.here_bytes is not None:
        missing = f"{format_bytes(model.download_bytes or 0)} to download" if model.download_bytes else "all here"
        lines.append(f"        {format_bytes(model.total_bytes)} of files, {missing}")
    return lines


def _describe_pair(preflight: Preflight) -> list[str]:
    lines = []
    if preflight.target.tokens is not None and preflight.draft.tokens is not None:
        lines.append(f"tokens  {f'the tokenizers differ: {preflight.differ}' if preflight.differ else 'one tokenizer'}")
    needed = f"{format_bytes(preflight.memory_bytes)} needed, " if preflight.memory_bytes is not None else ""
    host = "" if preflight.device == "cpu" else f", {format_bytes(preflight.host_bytes)} in the system"
    lines.append(
        f"memory  {needed}{format_bytes(preflight.free_bytes)} free on this {preflight.device}{host}, in {preflight.dtype}"
    )
    if (time := preflight.expected) is not None:
        milliseconds = [1e3 * one.value for one in (time.one, time.block, time.draft)]
        lines += [
            f"time    target pass {milliseconds[0]:.3g} ms, over {time.gamma + 1} tokens {milliseconds[1]:.3g} ms, "
            f"draft step {milliseconds[2]:.3g} ms",
            f"        estimated from models of this shape and depth; the pair's own may be off by {time.max_error:.0%}",
        ]
    return lines
