"""The report of ``pays`` as a package: the record, its table, figures and captions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from specviz.export.folder import write_folder
from specviz.export.package import NO_FIGURES, Package, Picture, can_draw
from specviz.figures import server_speed as figures
from specviz.records import list_versions


def build_server_speed_package(report: Mapping[str, Any]) -> Package:
    """A report as what leaves the program."""
    pictures, captions = {}, [report["sentence"]]
    if any(level["speedup"] for level in report["levels"]):
        pictures["speedup"] = Picture(partial(figures.plot_speedups, report), "Speed-up by speculation")
    pictures["rates"] = Picture(partial(figures.plot_rates, report), "Rate of the server")
    captions.append(figures.describe_rates(report))
    if report["gammas"]:
        pictures["gammas"] = Picture(partial(figures.plot_gammas, report), "Draft lengths, computed")
        captions.append(figures.describe_gammas(report))
    rows = figures.build_level_rows(report)
    return Package(
        stem="pays",
        title="Does speculation pay on this server?",
        data={"report.json": report},
        tables={"levels.csv": lambda: (list(rows[0]), [list(row.values()) for row in rows])},
        pictures=pictures,
        captions=(*captions, *report["remarks"]),
        facts={name: report[name] for name in ("sentence", "date", "prompts", "servers")}
        | {"versions": list_versions(), "commands": [report["command"]]},
    )


def write_server_speed(folder: Path, report: Mapping[str, Any]) -> str:
    """Write table and figures to a folder. Returns a sentence if the figures had to be left out, else ""; raises as ``write_folder``."""
    write_folder(folder, build_server_speed_package(report).build_files())
    return "" if can_draw() else NO_FIGURES
