"""``pairs``: list the shipped pair and public ones, the memory they need, and which fit this machine; or check a pair of one's own."""

from __future__ import annotations

import argparse
from typing import Any

from specviz.cli.common.output import add_format_option, print_record
from specviz.cli.pair_check import check_pair
from specviz.errors import SettingsError
from specviz.models.pairs.public import BYTES, PUBLIC


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dtype", help="float32, bfloat16 or float16 (default: what this machine would use)")
    parser.add_argument("--device", default="auto", help="auto (default: cuda, then mps, then cpu), cuda, mps or cpu")
    parser.add_argument(
        "--check",
        nargs=2,
        metavar=("TARGET", "DRAFT"),
        help="check a pair of your own, folders or hub names (owner/model, owner/model@revision), before its weights are there",
    )
    parser.add_argument("--download", action="store_true", help="with --check: if nothing is in the way, fetch what is missing")
    parser.add_argument(
        "--no-probe", dest="probe", action="store_false", help="with --check: do not measure what a pass would take here"
    )
    add_format_option(parser)


def run(options: argparse.Namespace) -> int:
    if options.dtype is not None and options.dtype not in BYTES:
        raise SettingsError("dtype", options.dtype, f"one of {', '.join(BYTES)}")
    if options.check is not None:
        return check_pair(options)
    if options.download:
        raise SettingsError("download", "yes", "given with --check TARGET DRAFT")
    from specviz.models.pairs.families import find_free_memory
    from specviz.models.pairs.loading import pick_device

    device, kind = pick_device(options.device, options.dtype or "auto")
    dtype = str(kind).removeprefix("torch.")
    free = find_free_memory(device) / 1e9
    rows = [_row(pair, dtype, free) for pair in PUBLIC]
    record = {"device": device.type, "dtype": dtype, "free_gb": round(free, 2), "pairs": rows}
    print_record(record, options, lambda record: _text(rows, device.type, dtype, free))
    return 0


def _row(pair: Any, dtype: str, free: float) -> dict[str, Any]:
    return {
        "target": pair.target,
        "draft": pair.draft,
        "tokenizer": pair.family,
        "millions": list(pair.millions),
        "vocabulary": list(pair.vocabulary),
        "gb": {name: round(pair.gigabytes(name), 2) for name in ("float32", "bfloat16")},
        "license": pair.license,
        "kind": pair.kind,
        "fits": pair.gigabytes(dtype) <= free,
        "note": pair.note,
    }


def _text(rows: list[dict[str, Any]], device: str, dtype: str, free: float) -> str:
    head = ("fits", "target", "draft", "tokenizer", "M parameters", "GB fp32", "GB bf16", "license", "")
    table = [head]
    for row in rows:
        sizes = " + ".join(f"{m:g}" for m in row["millions"])
        gb = [f"{row['gb'][name]:.1f}" for name in ("float32", "bfloat16")]
        fits, note = "yes" if row["fits"] else "no", row["note"]
        if row["kind"] != "causal":
            note = "; ".join(filter(None, (row["kind"], note)))
        table.append((fits, row["target"], row["draft"], row["tokenizer"], sizes, *gb, row["license"], note))
    widths = [max(len(line[column]) for line in table) for column in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in table]
    intro = [
        "storybook ships with the project and is the default of every command; it needs 0.1 GB.",
        f"Public pairs, compared with {free:.1f} GB free on this {device} in {dtype} (weights plus 20%):",
        "",
    ]
    outro = [
        "",
        "To see what one needs, and to download it: specviz pairs --check TARGET DRAFT, with --download.",
    ]
    return "\n".join([*intro, *lines, *outro])
