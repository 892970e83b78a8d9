"""``pairs --check``: whether a pair of one's own will run here, before its weights are there, and their download."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from specviz.cli.common.output import print_record
from specviz.cli.common.progress import Progress
from specviz.models.pairs.names import PairPlaces, format_options
from specviz.statistics.finding import size_in_words

if TYPE_CHECKING:
    from specviz.speed.preflight import ModelCheck, Preflight

NOT_READY = 1  # exit code


def check_pair(options: argparse.Namespace) -> int:
    """Print what the check found and, with ``--download``, fetch what is missing. Returns the exit code."""
    from specviz.speed.preflight import check_pair

    progress = Progress("checking")
    found = check_pair(*options.check, options.device, options.dtype or "auto", options.probe, on_progress=progress)
    progress(1.0)
    fetching = options.download and found.ready and found.download_bytes > 0
    record = found.to_record() | ({"downloaded_bytes": found.download_bytes} if fetching else {})
    if options.format == "text":
        print_record(record, options, lambda record: format_check(found, _chosen(options)))
    if fetching:
        _fetch(found)
    if options.format == "json":
        print_record(record, options, lambda record: "")
    elif fetching:
        print(f"\nDownloaded: {size_in_words(found.download_bytes)}, every file with the hash that was announced.")
    return 0 if found.ready else NOT_READY


def _fetch(found: Preflight) -> None:
    from specviz.models.hub.download import download_models

    progress = Progress("downloading")
    try:
        download_models(
            found.listings, lambda done, total: progress(done / max(total, 1), f"{size_in_words(done)} of {size_in_words(total)}")
        )
    except KeyboardInterrupt:
        raise KeyboardInterrupt("what has arrived is kept, and the same command goes on from there") from None


def _chosen(options: argparse.Namespace) -> list[str]:
    """Options of this check that a run needs too."""
    given = {"--device": options.device if options.device != "auto" else None, "--dtype": options.dtype}
    return [word for name, value in given.items() if value for word in (name, value)]


def format_check(found: Preflight, chosen: Sequence[str] = ()) -> str:
    """The check as text: a paragraph for each model, one for the pair, and what is worth knowing or stands in the way.

    chosen  more options of a command that runs the pair
    """
    lines = [*_model(found.target), "", *_model(found.draft), "", *_pair(found)]
    for title, sentences in (("worth knowing", found.notes), ("in the way", found.all_problems)):
        if sentences:
            lines += ["", f"{title}:", *(f"- {sentence}" for sentence in sentences)]
    if found.ready:
        command = shlex.join([*format_options(PairPlaces(found.target.place, found.draft.place).name), *chosen])
        lines += ["", f"Ready. To run it: specviz decode {command} --prompt ..."]
    else:
        lines += ["", "Not ready."]
    return "\n".join(lines)


def _model(model: ModelCheck) -> list[str]:
    lines = [f"{model.role:<7} {model.place}"]
    if model.commit is not None:
        said = (f"commit {model.commit[:12]}", f"license {model.license or 'not named'}", "gated" if model.gated else "")
        lines.append("        " + ", ".join(filter(None, said)))
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
        missing = f"{size_in_words(model.download_bytes or 0)} to download" if model.download_bytes else "all here"
        lines.append(f"        {size_in_words(model.total_bytes)} of files, {missing}")
    return lines


def _pair(found: Preflight) -> list[str]:
    lines = []
    if found.target.tokens is not None and found.draft.tokens is not None:
        lines.append(f"tokens  {f'the tokenizers differ: {found.differ}' if found.differ else 'one tokenizer'}")
    needed = f"{size_in_words(found.memory_bytes)} needed, " if found.memory_bytes is not None else ""
    host = "" if found.device == "cpu" else f", {size_in_words(found.host_bytes)} in the system"
    lines.append(f"memory  {needed}{size_in_words(found.free_bytes)} free on this {found.device}{host}, in {found.dtype}")
    if (time := found.expected) is not None:
        milliseconds = [1e3 * one.value for one in (time.one, time.block, time.draft)]
        lines += [
            f"time    target pass {milliseconds[0]:.3g} ms, over {time.gamma + 1} tokens {milliseconds[1]:.3g} ms, "
            f"draft step {milliseconds[2]:.3g} ms",
            f"        estimated from models of this shape and depth; the pair's own may be off by {time.off:.0%}",
        ]
    return lines
