"""``study``: which simple statistic of target and draft predicts the acceptance rate, over kinds of text that the fit has not seen."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from specviz.cli.common.command_options import add_cluster_option, add_count, add_seed_option, check_cluster
from specviz.cli.common.output import add_format_option
from specviz.cli.common.progress import Progress
from specviz.errors import SettingsError

if TYPE_CHECKING:
    from specviz.speed.records.study import Study, StudyCell


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_count(add, "continuations", 2, 1024, "continuations of each kind of text, 2 to 1024", 16)
    add_seed_option(parser)
    add("--read", type=Path, metavar="FILE", help="measure nothing, and judge a study that was recorded")
    add("--out", type=Path, metavar="FILE", help="write the record there as JSON")
    resume = "save every finished cell to FILE; the same command resumes from it (default with --out: that name and .cells)"
    add("--resume", type=Path, metavar="FILE", help=resume)
    add_cluster_option(parser)
    add_format_option(parser)


def run(options: argparse.Namespace) -> int:
    for name in ("resume", "cluster"):
        if options.read and (value := getattr(options, name)) is not None:
            raise SettingsError(name, str(value), "left out with --read: nothing is measured")
    check_cluster(options)
    if options.out and options.out.is_dir():
        raise SettingsError("out", str(options.out), "a file", f"'{options.out}' is a folder. --out takes a file.")
    from specviz.records import read_text
    from specviz.speed.records.study import SCHEMA, Study

    if options.out:
        SCHEMA.refuse_other(options.out)  # before minutes of work, not after
        options.out.parent.mkdir(parents=True, exist_ok=True)  # finished cells are saved there meanwhile
    if options.read:
        if not options.read.is_file():
            allowed = "a file that study --out has written"
            raise SettingsError("read", str(options.read), allowed, f"There is no file '{options.read}'. --read takes {allowed}.")
        study, cells = Study.from_json(read_text(options.read, "The study")), None
    else:
        cells = options.resume or (options.out and options.out.with_name(f"{options.out.name}.cells"))
        study = measure_study(options, cells)
    if options.out:
        SCHEMA.save(options.out, study.to_json())
    if cells:
        cells.unlink(missing_ok=True)
    print(study.to_json() if options.format == "json" else format_study(study))
    return 0


def measure_study(options: argparse.Namespace, cells: Path | None) -> Study:
    """The whole study of the shipped drafts; minutes. An interrupt raises KeyboardInterrupt with a sentence on how to resume.

    cells: file of the finished cells
    """
    from specviz.jobs.remote import open_pool
    from specviz.models.pairs.loading import pick_device
    from specviz.speed.prediction.study import StudySize, run_study

    try:
        with open_pool(options.cluster, pick_device("auto", "auto")[0].type) as executor:
            size = StudySize(openings=options.continuations)
            return run_study(size, options.seed, on_progress=Progress("study"), resume=cells, executor=executor)
    except KeyboardInterrupt as stop:
        said = f"every finished cell is saved in '{cells}'; the same command resumes from there"
        if cells is None:
            said = "nothing was saved; with --out FILE or --resume FILE the same command can resume where it stopped"
        elif not cells.exists():
            said = "no cell was finished; the same command begins anew"
        raise KeyboardInterrupt(said) from stop


def format_study(study: Study) -> str:
    """What every predictor is off by, over all drafts and over the networks alone, and the shares by draft and distribution."""
    from specviz.speed.records.study import DRAFTS, NETWORK_DRAFTS, STATISTICS

    lines = []
    for title, drafts in (("all drafts", tuple(DRAFTS)), ("networks alone", NETWORK_DRAFTS)):
        cells = study.list_measured(drafts)
        if len({cell.kind for cell in cells}) < 2:
            continue
        noise = sum(cell.noise for cell in cells) / len(cells)
        lines += [
            f"{title}: {len(cells)} cells; one measured share is known to {noise:.3f}",
            f"  {'predictor':<52}{'mean error (middle 95% over kinds)':<38}{'explained':>9}",
        ]
        for score in study.score_predictors(drafts):
            lines.append(f"  {STATISTICS.get(score.name, score.name):<52}{score.error.format('.3f'):<38}{score.explained:>9.2f}")
        lines.append("")
    lines.append("acceptance rate by kind of text, over temperature, and over top-p at temperature 1")
    for draft in dict.fromkeys(cell.draft for cell in study.cells):
        row = [cell for cell in study.cells if cell.draft == draft]
        distributions = dict.fromkeys(_format_distribution(cell) for cell in row)
        lines.append(f"  {draft:<20}" + "".join(f"{distribution:>7}" for distribution in distributions))
        for kind in dict.fromkeys(cell.kind for cell in row):
            shares = ["  none" if cell.reason else f"{cell.share:>7.3f}" for cell in row if cell.kind == kind]
            lines.append(f"    {kind:<18}" + "".join(shares))
    said = "Accepted draft tokens and the overlap itself are not fitted; the others are fitted to all kinds of text but the predicted one."
    return "\n".join([*lines, "", said])


def _format_distribution(cell: StudyCell) -> str:
    return f"{cell.temperature:g}" if cell.top_p is None else f"p {cell.top_p:g}"
