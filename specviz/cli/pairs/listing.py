"""``pairs``: list the shipped pair and public ones, the memory they need, and which fit this machine."""

from __future__ import annotations

import argparse
from typing import Any

from specviz.cli.common.command_options import add_choice
from specviz.cli.common.output import add_format_option, print_record
from specviz.models.pairs.catalog import BYTES, list_public_pairs
from specviz.settings import SETTINGS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_place_options(parser)
    add_format_option(parser)


def add_place_options(parser: argparse.ArgumentParser) -> None:
    """The device and the number type that models are read into."""
    add_choice(parser.add_argument, "dtype", [*BYTES], "number type of the weights (default: what this machine would use)")
    parser.add_argument("--device", default="auto", help=SETTINGS["device"].describe())


def run(options: argparse.Namespace) -> int:
    from specviz.models.pairs.families import find_free_memory
    from specviz.models.pairs.loading import pick_device

    device, kind = pick_device(options.device, options.dtype or "auto")
    dtype = str(kind).removeprefix("torch.")
    free = find_free_memory(device) / 1e9
    rows = [_describe_pair(pair, dtype, free) for pair in list_public_pairs()]
    record = {"device": device.type, "dtype": dtype, "free_gb": round(free, 2), "pairs": rows}
    print_record(record, options, lambda record: _format_pairs(rows, device.type, dtype, free))
    return 0


def _describe_pair(pair: Any, dtype: str, free: float) -> dict[str, Any]:
    return {
        "target": pair.target,
        "draft": pair.draft,
        "tokenizer": pair.family,
        "millions": list(pair.millions),
        "vocabulary": list(pair.vocabulary),
        "gb": {name: round(pair.compute_gigabytes(name), 2) for name in ("float32", "bfloat16")},
        "license": pair.license,
        "kind": pair.kind,
        "fits": pair.compute_gigabytes(dtype) <= free,
        "note": pair.note,
    }


def _format_pairs(rows: list[dict[str, Any]], device: str, dtype: str, free: float) -> str:
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
    intro = "storybook ships with the project and is the default of every command; it needs 0.1 GB."
    compared = f"Public pairs, compared with {free:.1f} GB free on this {device} in {dtype} (weights plus 20%):"
    outro = (
        "To see what one needs, and to download it: specviz pairs check TARGET DRAFT, then specviz pairs download TARGET DRAFT."
    )
    return "\n".join([intro, compared, "", *lines, "", outro])
