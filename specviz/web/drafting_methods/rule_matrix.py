"""Every proposer under every rule as one small table for each distribution, from the record that ``matrix`` writes."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from specviz.proposers.registry import PROPOSERS
from specviz.records import Schema, load_toml
from specviz.speed.records.methods import DRAFTING_METHODS

SCHEMA = Schema("matrix", 2, "The matrix")
MARKS = {  # verdict -> class, sign and word of a cell that is as it should be
    "consistent": ("exact", "✓", "exact"),
    "coincides": ("same", "=", "coincides here"),
    "rejected": ("lossy", "✗", "lossy"),
    "blank": ("blank", "·", "not applicable"),
    "too few samples": ("open", "–", "too few samples"),
}
WRONG = ("wrong", "!", "unexpected")
TEXTS = load_toml("texts/drafting_methods")["matrix"]
METHOD_NAMES = {key: method.name for key, method in DRAFTING_METHODS.items()}
LINES = {key: METHOD_NAMES[name[1:]] if name.startswith("=") else name for key, name in TEXTS["lines"].items()} | METHOD_NAMES


def read_matrix(text: str) -> dict[str, Any]:
    """A record of ``matrix --format json``. Raises TraceError for anything else."""

    def check_fields(record: dict[str, Any]) -> dict[str, Any]:
        for cell in record["cells"]:
            mark_cell(cell), cell["line"], cell["column"], record["rules"][cell["rule"]]["exact"], cell["said"]
        record["settings"]["prompt"], record["tv"], record["alpha"], record["columns"]
        return {"schema": SCHEMA.tag} | record

    return SCHEMA.read(text, check_fields)


def mark_cell(cell: Mapping[str, Any]) -> tuple[str, str, str]:
    """Class, sign and word of a cell."""
    return MARKS[cell["verdict"]] if cell["right"] else WRONG


def build_matrix_html(record: Mapping[str, Any]) -> str:
    """One table for each distribution. Every word is escaped."""
    cells = {(cell["column"], cell["line"], cell["rule"]): cell for cell in record["cells"]}
    lines, rules = _list_names(record, "line"), _list_names(record, "rule")
    tables = []
    for column in _list_names(record, "column"):
        head = "".join(f"<th scope='col'>{escape(TEXTS['rules'].get(rule, rule))}</th>" for rule in rules)
        rows = "".join(
            f"<tr><th scope='row'>{escape(LINES.get(line, line))}</th>{''.join(_build_cell(cells.get((column, line, rule))) for rule in rules)}</tr>"
            for line in lines
        )
        tables.append(
            f"<table><caption>{escape(TEXTS['columns'].get(column, column))}</caption><thead><tr><th scope='col'></th>{head}</tr></thead><tbody>{rows}</tbody></table>"
        )
    return f"<div class='matrix'>{''.join(tables)}</div>"


def _build_cell(cell: Mapping[str, Any] | None) -> str:
    if cell is None:
        return "<td></td>"
    kind, sign, word = mark_cell(cell)
    return f"<td class='{kind}' title='{escape(explain_cell(cell), quote=True)}'>{sign}<span>{escape(word)}</span></td>"


def explain_cell(cell: Mapping[str, Any]) -> str:
    """The sentence of a cell; of a blank one the reason."""
    said = cell["said"]
    if cell["verdict"] != "blank":
        return said
    return TEXTS["needs"].get(cell["rule"], said) if said.startswith("rule must be") else TEXTS["reasons"].get(said, said)


def describe_matrix(record: Mapping[str, Any]) -> str:
    """What the tables show, with the distance that the samples could detect."""
    cells, rules = record["cells"], record["rules"]
    drawn = [cell for cell in cells if rules[cell["rule"]]["exact"] and cell["verdict"] != "blank"]
    fine = [cell for cell in drawn if cell["verdict"] == "consistent" and cell["right"]]
    seen = max((cell["seen"] for cell in drawn if cell["seen"] is not None), default=None)
    said = f"{len(fine)} of {len(drawn)} cells with an exact rule follow the target’s distribution"
    said += f"; a total variation of {seen:.2g} would be detected 99 times in 100." if seen is not None else "."
    lossy = [cell for cell in cells if cell["verdict"] == "rejected" and cell["right"]]
    same = [cell for cell in cells if cell["verdict"] == "coincides"]
    if lossy or same:
        said += f" The lossy rule is detected in {len(lossy)} cells and coincides with the target in {len(same)}."
    if wrong := [cell for cell in cells if not cell["right"]]:
        said += f" Unexpected results: {len(wrong)}."
    if unmeasured := list_unmeasured(record):
        said += f" Not measured yet: {', '.join(unmeasured)}."
    return said


def list_unmeasured(record: Mapping[str, Any]) -> list[str]:
    """Drafting methods of this version that the record has no line of. A line is named after its method, or begins with its name."""
    lines = _list_names(record, "line")
    return [name for name in PROPOSERS if not any(line == name or line.startswith(f"{name}-") for line in lines)]


def list_blanks(record: Mapping[str, Any]) -> list[dict[str, str]]:
    """Each reason for blank cells once, with the rules and the methods that it leaves blank."""
    found: dict[str, dict[str, dict[str, None]]] = {}
    for cell in record["cells"]:
        if cell["verdict"] == "blank":
            rule, line = TEXTS["rules"].get(cell["rule"], cell["rule"]), LINES.get(cell["line"], cell["line"])
            found.setdefault(explain_cell(cell), {}).setdefault(line, {})[rule] = None
    rows = []
    for why, lines in found.items():
        rules = dict.fromkeys(rule for of in lines.values() for rule in of)
        rows.append({"blank because": why, "cells": f"{'; '.join(lines)} ({', '.join(rules)})"})
    return rows


def _list_names(record: Mapping[str, Any], key: str) -> list[str]:
    return list(dict.fromkeys(cell[key] for cell in record["cells"]))
