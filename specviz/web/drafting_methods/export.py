"""What Drafting methods takes along: the gallery on screen as a package."""

from __future__ import annotations

import shlex

from specviz.export.drafting_methods import drafting_methods
from specviz.export.facts import facts
from specviz.export.package import Package
from specviz.figures.drafting_methods import methods as figures
from specviz.measure.methods import Lineup
from specviz.models.pairs.names import as_options
from specviz.web.common.download import Offer, ready
from specviz.web.drafting_methods.state import Gallery, block_gain, recorded_matrix


def offer(gallery: Gallery) -> Offer:
    """What there is to take along; nothing until there is a gallery."""
    one = gallery.shown
    if one is None:
        return Offer("other-proposers")
    said = "" if gallery.own else f"This is the recorded comparison, for the text “{one.settings.prompt}”."
    return ready(lineup_package(gallery, one), said)


def lineup_package(gallery: Gallery, one: Lineup) -> Package:
    choice = gallery.question.choice
    link = gallery.question.link() | {"prompt": one.settings.prompt}
    said = facts(
        one.settings, one.models, "proposers", link, [command(one)], n=max((row.first.n for row in one.rows if row.first), default=0),
        turns=one.runs, machine=dict(one.machine), measured=one.date, recorded=not gallery.own, sentence=figures.conclusion(one),
    )  # fmt: skip
    return drafting_methods(one, choice, said, block_gain(), recorded_matrix())


def command(one: Lineup) -> str:
    """What runs the same rows without the page, under all of its laws; times are those of the machine it runs on."""
    settings = one.settings
    draws = max((row.first.n for row in one.rows if row.first), default=1)
    words = ["python", "-m", "specviz", "record", "--gallery"]
    words += as_options(settings.pair)
    words += [f"--prompt={settings.prompt}", "--seed", str(settings.seed), "--gamma", str(settings.gamma)]
    words += ["--max-new-tokens", str(settings.length), "--runs", str(one.runs), "--samples", str(draws), "--out", "gallery.json"]
    return shlex.join(words)
