"""``matrix``: test every drafting method under every rule, at temperature 0, at temperature 1 and with top-p 0.9, in one table."""

from __future__ import annotations

import argparse
import os
from itertools import groupby
from typing import Any

from specviz.cli.common.command_options import (
    add_cluster_option,
    add_declared,
    add_pair_options,
    add_seed_option,
    add_setting,
    check_cluster,
    load_models,
    read_settings,
)
from specviz.cli.common.output import add_format_option, print_record, use_color
from specviz.cli.common.progress import Progress
from specviz.evidence.sampling.effort import SamplingEffort

DEFAULT_MIN_TV = 0.02  # default of --min-tv: total variation that exact cells must detect
SMALLEST_MIN_TV = 0.005  # a smaller one takes hours
PROMPT = "The old man and the little dog went into the wood. The old man"  # repeats itself, so that n-gram methods can copy
WORKERS = 2  # processes on a CPU
VERDICT_MARKS = {
    "consistent": "exact",
    "coincides": "same",
    "rejected": "lossy",
    "blank": ".",
    "too few samples": "unseen",
    "nothing tested": "untested",
}
NOTHING_TESTED = "nothing tested"
UNREACHED_PARTS = {  # a count of 0 -> in words
    "accepted": "no draft token accepted",
    "rejected": "no draft token rejected",
    "bonus": "no bonus token",
    "rollbacks": "no cache rolled back",
}
MARK_COLORS = {"exact": "\x1b[32m", "lossy": "\x1b[31m", "WRONG": "\x1b[1;31m", "unseen": "\x1b[33m"}  # the words say it too
LEGEND = (
    "exact: samples follow the target's distribution   lossy: rejected, as expected of this rule   same: lossy rule, same text",
    "untested: no draft token was proposed   WRONG: not the expected result   .: the combination makes no sense, see below",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--only", nargs="+", default=[], metavar="NAME", help="test only these drafting methods, lines of the table, or rules")
    add_pair_options(parser)
    for name in ("heads", "early_exit", "exit_layer", "eagle"):
        add_setting(add, name)
    add_setting(add, "prompt", default=PROMPT, shown="a text that repeats itself")
    add_seed_option(parser)
    add_declared(add, SamplingEffort, "min_tv", default=DEFAULT_MIN_TV, low=SMALLEST_MIN_TV, above=False)
    add_cluster_option(parser)
    add_format_option(parser)


def run(options: argparse.Namespace) -> int:
    check_cluster(options)
    settings = read_settings(options, all_methods=True, prompt=options.prompt or PROMPT)
    from specviz.evidence.matrix import choose_lines_and_rules, evaluate_matrix
    from specviz.jobs.remote import open_pool
    from specviz.models.pairs.fingerprint import hash_pair
    from specviz.records import list_versions

    only = [name for part in options.only for name in part.split(",") if name]
    choose_lines_and_rules(only)  # refuses unknown names before any weights are read
    pair = load_models(settings)
    device = pair.target.device.type
    with open_pool(options.cluster, device, min(WORKERS, os.cpu_count() or 1) if device == "cpu" else 1) as executor:
        matrix = evaluate_matrix(pair, settings, options.min_tv, only, Progress("matrix"), executor)
    record = matrix.to_record() | {"models": pair.describe() | hash_pair(pair), "versions": list_versions()}
    print_record(record, options, lambda record: format_matrix(record, use_color()))
    return 0 if matrix.right else 1


def format_matrix(record: dict[str, Any], color: bool = False) -> str:
    """The table, then explanations of its entries."""
    cells = {(cell["line"], cell["column"], cell["rule"]): cell for cell in record["cells"]}
    names = list(dict.fromkeys(cell["line"] for cell in record["cells"]))
    rules = list(dict.fromkeys(cell["rule"] for cell in record["cells"]))
    wide, narrow = max(map(len, names)) + 2, max(map(len, [*rules, *VERDICT_MARKS.values()])) + 1
    columns = list(record["columns"])
    head = " " * wide + "".join(_format_heading(record, column).ljust(narrow * len(rules) + 2) for column in columns)
    below = " " * wide + "".join("".join(rule.ljust(narrow) for rule in rules) + "  " for _ in columns)

    def format_cell(name: str, column: str, rule: str) -> str:
        cell = cells[name, column, rule]
        mark = VERDICT_MARKS[cell["verdict"]] if cell["right"] or cell["verdict"] == NOTHING_TESTED else "WRONG"
        return f"{MARK_COLORS[mark]}{mark:<{narrow}}\x1b[0m" if color and mark in MARK_COLORS else mark.ljust(narrow)

    table = [
        name.ljust(wide) + "  ".join("".join(format_cell(name, c, rule) for rule in rules) for c in columns) for name in names
    ]
    explained = [*_explain_table(record), *_list_unreached(record), *_explain_blanks(record)]
    return "\n".join(line.rstrip() for line in (head, below, *table, "", *LEGEND, "", *explained))


def _format_heading(record: dict[str, Any], column: str) -> str:
    """Heading of a column: its settings."""
    changes = record["columns"][column]
    return f"top-p {changes['top_p']}" if "top_p" in changes else f"T = {changes.get('temperature', 1.0):g}"


def _explain_table(record: dict[str, Any]) -> list[str]:
    """The samples and the distance that they can show; what a lossy rule never writes; every unexpected cell."""
    tested = [
        cell
        for cell in record["cells"]
        if cell["seen"] is not None and cell["verdict"] != NOTHING_TESTED and record["rules"][cell["rule"]]["exact"]
    ]
    said = []
    if tested:
        samples, seen = max(cell["n"] for cell in tested), max(cell["seen"] for cell in tested)
        said.append(
            f"{len(tested)} exact cells with {samples:,} samples of {record['length']} tokens each would have shown a total variation of "
            f"{seen:.2g} with power {record['power']:.0%}; one false alarm in {1 / record['alpha']:,.0f} whole matrices."
        )
    lost = {(c["column"], c["rule"]): c["lost"] for c in record["cells"] if c["lost"]}
    said += [
        f"{_format_heading(record, column)}: {rule} never writes texts with total probability {mass:.3f} under the target."
        for (column, rule), mass in lost.items()
    ]
    wrong = [cell for cell in record["cells"] if not cell["right"]]
    mark = {True: "UNTESTED", False: "WRONG"}
    return said + [
        f"{mark[cell['verdict'] == NOTHING_TESTED]} {cell['line']}, {cell['rule']}, {_format_heading(record, cell['column'])}: {cell['said']}"
        for cell in wrong
    ]


def _list_unreached(record: dict[str, Any]) -> list[str]:
    """The parts of a decoder that the samples of some cells never reached, each with these cells."""
    cells: dict[str, list[str]] = {}
    for cell in record["cells"]:
        exercised = cell["exercised"] or {"proposed": 0}
        for part, name in UNREACHED_PARTS.items():
            if exercised["proposed"] and exercised[part] == 0:
                cells.setdefault(name, []).append(f"{cell['line']} / {cell['rule']}, {_format_heading(record, cell['column'])}")
    return [f"{name}: {', '.join(names)}" for name, names in cells.items()]


def _explain_blanks(record: dict[str, Any]) -> list[str]:
    """Each reason once, with the blank cells that it explains."""
    blank = sorted((cell["said"], f"{cell['line']} / {cell['rule']}") for cell in record["cells"] if cell["verdict"] == "blank")
    grouped = ((why, list(dict.fromkeys(name for _, name in some))) for why, some in groupby(blank, key=lambda pair: pair[0]))
    return [f". {why.rstrip('.')}: {', '.join(names)}" for why, names in grouped]
