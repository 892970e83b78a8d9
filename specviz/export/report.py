"""One report as a package: certificate, tables, figures for print and screen, captions, and what its manifest says."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from specviz.errors import SettingsError
from specviz.evidence.mistakes.published import PUBLISHED_MISTAKES
from specviz.evidence.testing.results import label_cell
from specviz.export.folder import write_folder
from specviz.export.manifest import build_drafting_options, build_sampling_options, describe_recorded_conditions
from specviz.export.package import NO_FIGURES, Package, Picture, can_draw, quote_text
from specviz.figures import verification_report as figures
from specviz.models.pairs.names import format_options
from specviz.settings import Settings, update_names
from specviz.statistics.finding import POWER, format_p_value
from specviz.statistics.total_variation import compute_cell_bands

LINKED = ("speculative", "target", "assisted")  # decoders that the page Exactness test draws from, its usual one first
MODES = {"shared distributions": "shared-distributions", "engine": "engine", "transformers": "both"}  # an answer's mode -> --mode
REPORT_CELL_COLUMNS = ("mode", "begins", "text", "one_text", "mass", "expected", "count", "low", "high")
TESTS = ("mode", "name", "n", "statistic", "df", "p_value", "adjusted_p", "detectable_tv", "alpha", "power", "note")


def build_report_package(record: Mapping[str, Any]) -> Package:
    """A report as what leaves the app."""
    answers, pieces = record["answers"], {int(token): raw for token, raw in record.get("pieces", {}).items()}
    pictures = {}
    for number, one in enumerate(answers, 1):
        slug = re.sub(r"[^a-z0-9]+", "-", one["mode"].lower()).strip("-")[:40]
        name = f"{number}-{slug or 'draws'}"
        if one["cells"]:
            pictures[f"histogram-{name}"] = Picture(partial(figures.plot_histogram, one, pieces))
        pictures[f"tests-{name}"] = Picture(partial(figures.plot_tests, one))
    tests = [[one["mode"], *(test[key] for key in TESTS[1:])] for one in answers for test in one["tests"]]
    return Package(
        stem="evidence",
        title="Exactness test",
        data={"report.json": record},
        tables={
            "cells.csv": lambda: (REPORT_CELL_COLUMNS, _iterate_cell_rows(answers, pieces)),
            "tests.csv": lambda: (TESTS, tests),
        },
        pictures=pictures,
        captions=tuple(_build_caption(record, one) for one in answers),
        facts=_build_facts(record),
    )


def write_certificate(folder: Path, record: Mapping[str, Any]) -> str:
    """Write report.json, which ``specviz check`` reads, tables and figures to a folder, all of it or nothing.

    Returns a sentence if the figures had to be left out, else "".

    Raises SettingsError for a folder that holds anything but an earlier export, and where the disk is full or not writable.
    """
    write_folder(folder, build_report_package(record).build_files())
    return "" if can_draw() else NO_FIGURES


def _iterate_cell_rows(answers: Iterable[Mapping[str, Any]], pieces: Mapping[int, str]) -> Iterable[list[Any]]:
    """Every cell with its exact mass, count, and the 99% band of its share."""
    for one in answers:
        total = sum(cell["mass"] for cell in one["cells"])
        masses = [cell["mass"] / total for cell in one["cells"]]
        bands = compute_cell_bands(masses, one["n"], figures.LEVEL).T.tolist() if masses else []
        for cell, mass, band in zip(one["cells"], masses, bands, strict=True):
            begins, text = " ".join(map(str, cell["begins"])), quote_text(label_cell(cell["begins"], cell["whole"], pieces))
            yield [one["mode"], begins, text, cell["whole"], mass, mass * one["n"], cell["count"], *band]


def _build_caption(record: Mapping[str, Any], answer: Mapping[str, Any]) -> str:
    """Of one answer, ready to print: verdict, n, test, what could have been seen, models and settings."""
    first, tests = answer["tests"][0], len(answer["tests"])
    tv = first["detectable_tv"]
    seen = "" if tv is None else f", detects a total variation of {tv:.2g} with power {POWER:.0%}"
    return (
        f"{record['decoder']}, {answer['mode']}: {answer['n']:,} samples after {quote_text(record['settings'].get('prompt', ''))}, "
        f"{first['name']} {format_p_value(first['p_value'])}{seen} "
        f"({tests} tests, false-alarm rate of all together {answer['plan']['alpha']:g}). {answer['sentence']} "
        f"{describe_recorded_conditions(record['settings'], record['models'], record['versions']['specviz'])}"
    )


def _build_facts(record: Mapping[str, Any]) -> dict[str, Any]:
    """Of the manifest: what was asked and found, what made it, and how to make it again."""
    return {
        **{key: record[key] for key in ("verdict", "sentence", "settings", "seed")},
        "answers": [
            {key: one[key] for key in ("mode", "n", "verdict", "detectable_tv")}
            | {"tests": [test["name"] for test in one["tests"]]}
            for one in record["answers"]
        ],
        "models": record["models"],
        "versions": record["versions"],
        "permalink": build_permalink(record),
        "commands": build_commands(record),
        "digest": record["digest"],
    }


def build_permalink(record: Mapping[str, Any]) -> str:
    """The page and query that open the app on the same question; empty where the samples are not ours, or no page asks it."""
    if record.get("files"):
        return ""
    try:
        settings = Settings.from_record(record["settings"])
    except SettingsError:
        return ""
    decoder = record["decoder"]
    if decoder in PUBLISHED_MISTAKES:
        return "mistakes?" + urlencode({"mistake": decoder, "prompt": settings.prompt, "seed": settings.seed})
    plain = replace(settings, proposer="draft", rule="token", draft_length_policy="fixed")
    if settings != plain or decoder not in LINKED:
        return ""
    source = {} if decoder == LINKED[0] else {"source": decoder}
    return "exactness?" + urlencode(
        settings.to_query() | {"prompt": settings.prompt, "max_new_tokens": settings.max_new_tokens} | source
    )


def build_commands(record: Mapping[str, Any]) -> list[str]:
    """The command that draws and tests the same again, for each answer; then the one that checks this very report."""
    answers, lines = record["answers"], []
    if audit := record.get("audit"):
        lines = [audit["command"]]
    elif files := [one["name"] for one in record.get("files", ())]:
        if len(files) > 1:
            words = ["compare", *files, "--min-tv", answers[0]["plan"]["tv"], "--seed", record["settings"]["seed"]]
            lines = [shlex.join(map(str, ["python", "-m", "specviz", *words]))]
        else:
            lines = [_build_verify_command(record, answers[0], ["--sample-file", files[0]])]
    else:
        for one in answers:
            if one["mode"] in MODES:
                mode = MODES[one["mode"]]
                options = ["--decoder", record["decoder"], f"--prompt={record['settings']['prompt']}", "--samples", one["plan"]["n"],
                           "--mode", mode, *(["--seconds", 86400] if mode != "shared-distributions" else [])]  # fmt: skip
                lines.append(_build_verify_command(record, one, options))
    return [*lines, "python -m specviz check report.json"]


def _build_verify_command(record: Mapping[str, Any], answer: Mapping[str, Any], options: list[Any]) -> str:
    settings, models = update_names(record["settings"]), record["models"]
    words = ["python", "-m", "specviz", "verify", *options, "--min-tv", answer["plan"]["tv"], "--seed", settings["seed"]]
    if models:
        words += [*format_options(settings["pair"]), "--device", models["device"], "--dtype", models["dtype"]]
        words += [
            "--max-new-tokens",
            settings["max_new_tokens"],
            *build_sampling_options(settings),
            *build_drafting_options(settings),
        ]
    return shlex.join(map(str, words))
