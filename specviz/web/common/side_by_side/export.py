"""Shared by the exports of Exactness test and Break it: the cells of both decoders, and what each test found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from specviz.evidence.testing.results import CellShares
from specviz.export.package import quote_text
from specviz.settings import Settings

SAMPLE_CELL_COLUMNS = ("decoder", "begins_with", "one_text", "exact_probability", "draws", "share", "low", "high")


LOOKS = ("decoder", "draws", "test", "p_value", "level", "detectable_tv", "verdict")


TestRow = Mapping[str, Any]  # keys of LOOKS


def build_sample_tables(
    arms: Sequence[CellShares], looks: Sequence[TestRow], verdict: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Build the record of samples and tests, and their tables."""
    cells = [
        {
            "decoder": one.name,
            "n": one.n,
            "cells": [dict(zip(SAMPLE_CELL_COLUMNS[1:], row, strict=True)) for row in iterate_cell_rows(one)],
        }
        for one in arms
    ]
    tables = {
        "cells.csv": lambda: (
            SAMPLE_CELL_COLUMNS,
            ([one.name, quote_text(row[0]), *row[1:]] for one in arms for row in iterate_cell_rows(one)),
        ),
        "looks.csv": lambda: (LOOKS, ([one[key] for key in LOOKS] for one in looks)),
    }
    return {"verdict": verdict, "arms": cells, "looks": [dict(one) for one in looks]}, tables


def describe_samples(shares: CellShares, settings: Settings) -> str:
    """Say what a figure of samples shows, and after which prompt."""
    tokens = "1 token" if settings.max_new_tokens == 1 else f"{settings.max_new_tokens} tokens"
    return f"{shares.conclusion} {tokens[0].upper()}{tokens[1:]} after {quote_text(settings.prompt)}."


def iterate_cell_rows(shares: CellShares) -> Iterator[list[Any]]:
    """Yield the fields of SAMPLE_CELL_COLUMNS after the decoder, the likeliest cell first."""
    for place in shares.order:
        band = [shares.low[place], shares.high[place]] if shares.n else ["", ""]
        yield [
            shares.labels[place],
            shares.is_whole_text[place],
            shares.probs[place],
            shares.counts[place],
            shares.shares[place],
            *band,
        ]
