"""One report as a package: certificate, tables, figures for print and screen, captions, and what its manifest says."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import urlencode

from specviz.errors import SettingsError
from specviz.evidence.mutants.mistakes import MISTAKES
from specviz.export.facts import proposer_options
from specviz.export.package import Package, Picture, quoted
from specviz.figures.exactness import report as figures
from specviz.models.pairs.names import as_options
from specviz.settings import Settings
from specviz.statistics.findings import POWER
from specviz.statistics.variation import cell_band

LINKED = ("speculative", "target", "assisted")  # decoders that the page Is it exact? draws from, its usual one first
CELLS = ("mode", "begins", "text", "one_text", "mass", "expected", "count", "low", "high")
TESTS = ("mode", "name", "n", "statistic", "df", "p_value", "adjusted_p", "detectable_tv", "alpha", "power", "note")


def files(record: Mapping[str, Any]) -> dict[str, bytes]:
    """Every file of the export by name, the zip of all others last; a pure function of the report."""
    return package(record).files()


def package(record: Mapping[str, Any]) -> Package:
    """A report as what leaves the app."""
    return Package(
        stem="evidence",
        title="Is it exact?",
        data={"report.json": record},
        tables={
            "cells.csv": lambda: (CELLS, cells(record)),
            "tests.csv": lambda: (TESTS, ([one["mode"], *(test[key] for key in TESTS[1:])] for one, test in _tests(record))),
        },
        pictures=pictures(record),
        captions=tuple(captions(record)),
        facts=facts(record),
    )


def pictures(record: Mapping[str, Any]) -> dict[str, Picture]:
    """Figures by name."""
    found = {}
    for number, one in enumerate(record["answers"], 1):
        name = f"{number}-{_slug(one['mode'])}"
        if one["cells"]:
            found[f"histogram-{name}"] = Picture(partial(figures.histogram, one, record.get("pieces", {})))
        found[f"tests-{name}"] = Picture(partial(figures.tests, one))
    return found


def cells(record: Mapping[str, Any]) -> Iterable[list[Any]]:
    """Rows of cells.csv: every cell with its exact mass, count, and the 99% band of its share."""
    for one in record["answers"]:
        if not one["cells"]:
            continue
        total = sum(cell["mass"] for cell in one["cells"])
        bands = cell_band([cell["mass"] / total for cell in one["cells"]], one["n"], figures.LEVEL).T.tolist()
        for cell, (low, high) in zip(one["cells"], bands, strict=True):
            text = quoted(figures.named(cell, record.get("pieces", {})))
            begins = " ".join(map(str, cell["begins"]))
            mass = cell["mass"] / total
            yield [one["mode"], begins, text, cell["whole"], mass, mass * one["n"], cell["count"], low, high]


def captions(record: Mapping[str, Any]) -> list[str]:
    """A caption for each answer, ready to print: verdict, n, test, what could have been seen, models and settings."""
    settings = record["settings"]
    pair = record["models"].get("pair", "no models")
    distributions = ", ".join(
        f"{key.replace('_', '-')} {settings[key]}"
        for key in ("gamma", "temperature", "top_k", "top_p", "min_p", "seed")
        if settings.get(key) is not None
    )
    return [
        _caption(record, one, f"{pair}, {record['models'].get('dtype', '')}".rstrip(", "), distributions)
        for one in record["answers"]
    ]


def _caption(record: Mapping[str, Any], one: Mapping[str, Any], pair: str, distributions: str) -> str:
    first = one["tests"][0]
    seen = (
        ""
        if first["detectable_tv"] is None
        else f", detects a total variation of {first['detectable_tv']:.2g} with power {POWER:.0%}"
    )
    prompt = json.dumps(record["settings"].get("prompt", ""), ensure_ascii=False)
    level = f"{len(one['tests'])} tests, false-alarm rate of all together {one['plan']['alpha']:g}"
    return (
        f"{record['decoder']}, {one['mode']}: {one['n']:,} samples after {prompt}, {first['name']} p = {first['p_value']:.3g}{seen} "
        f"({level}). {one['sentence']} Pair {pair}; {distributions}. specviz {record['versions']['specviz']}."
    )


def facts(record: Mapping[str, Any]) -> dict[str, Any]:
    """What the manifest says of a report: what was asked and found, what made it, and how to make it again."""
    return {
        "verdict": record["verdict"],
        "sentence": record["sentence"],
        "settings": record["settings"],
        "seed": record["seed"],
        "answers": [
            {key: one[key] for key in ("mode", "n", "verdict", "detectable_tv")}
            | {"tests": [test["name"] for test in one["tests"]]}
            for one in record["answers"]
        ],
        "models": record["models"],
        "versions": record["versions"],
        "permalink": permalink(record),
        "commands": commands(record),
        "digest": record["digest"],
    }


def permalink(record: Mapping[str, Any]) -> str:
    """The page and query that open the app on the same question; empty where the draws are not ours, or no page asks it."""
    try:
        settings = Settings.from_record(record["settings"])
    except SettingsError:
        return ""
    decoder = record["decoder"]
    if record.get("files"):
        return ""
    if decoder in MISTAKES:
        return "broken?" + urlencode({"mistake": decoder, "prompt": settings.prompt, "seed": settings.seed})
    plain = replace(settings, proposer="draft", rule="token", lengths="fixed")
    if settings != plain or decoder not in LINKED:
        return ""
    source = {} if decoder == LINKED[0] else {"source": decoder}
    return "exact?" + urlencode(settings.to_query() | {"prompt": settings.prompt, "length": settings.length} | source)


def commands(record: Mapping[str, Any]) -> list[str]:
    """What draws and tests the same again, one line for each answer; then what checks this very report."""
    modes = {"shared distributions": "shared-distributions", "engine": "engine", "transformers": "both"}
    if record.get("files"):
        lines = [_command(record, record["answers"][0], _sources(record["files"]))]
    else:
        lines = [
            _command(record, one, ["--decoder", record["decoder"], f"--prompt={record['settings']['prompt']}",
                                   "--samples", one["plan"]["n"], "--mode", modes[one["mode"]], "--seconds", 86400])
            for one in record["answers"] if one["mode"] in modes
        ]  # fmt: skip
    return [*lines, "python -m specviz check report.json"]


def _command(record: Mapping[str, Any], one: Mapping[str, Any], words: list[Any]) -> str:
    settings, models = record["settings"], record["models"]
    words = ["python", "-m", "specviz", "verify", *words, "--tv", one["plan"]["tv"], "--seed", settings["seed"]]
    if models:
        words += [
            *as_options(settings["pair"]),
            "--device",
            models["device"],
            "--dtype",
            models["dtype"],
            "--length",
            settings["length"],
        ]
        for key in ("gamma", "temperature", "top_k", "top_p", "min_p"):
            if settings[key] is not None:
                words += [f"--{key.replace('_', '-')}", settings[key]]
        words += proposer_options(settings)
    return shlex.join(map(str, words))


def _sources(files: list[Mapping[str, Any]]) -> list[str]:
    return ["--sample-file", files[0]["name"], *(["--against", files[1]["name"]] if files[1:] else [])]


def _tests(record: Mapping[str, Any]):
    return ((one, test) for one in record["answers"] for test in one["tests"])


def _slug(mode: str) -> str:
    """A mode's name as part of a file's name."""
    return re.sub(r"[^a-z0-9]+", "-", mode.lower()).strip("-")[:40] or "draws"
