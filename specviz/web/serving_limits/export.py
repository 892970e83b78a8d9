"""What Serving limits takes along: the laboratory on screen as a package."""

from __future__ import annotations

import shlex

from specviz.export.facts import facts
from specviz.export.package import Package
from specviz.export.serving_limits import serving_limits
from specviz.figures.serving_limits import setups as figures
from specviz.models.pairs.names import as_options
from specviz.serving.setups import Laboratory
from specviz.web.common.download import Offer, ready
from specviz.web.serving_limits.state import Surroundings


def offer(surroundings: Surroundings) -> Offer:
    """What there is to take along; nothing until there is a laboratory."""
    one = surroundings.shown
    if one is None:
        return Offer("around-the-rule")
    said = "" if surroundings.own else f"This is the recorded measurement, on passages of {one.text}."
    return ready(around_package(surroundings, one), said)


def around_package(surroundings: Surroundings, one: Laboratory) -> Package:
    arm, link = surroundings.question.arm, surroundings.question.link()
    link = link if surroundings.own else {key: value for key, value in link.items() if key != "prompt"}
    commands = [] if surroundings.own else [command(one)]
    said = facts(
        one.settings, one.models, "around", link, commands, n=one.texts, turns=one.runs, machine=dict(one.machine),
        measured=one.date, recorded=not surroundings.own, sentence=figures.conclusion(one),
    )  # fmt: skip
    return serving_limits(one, arm, said)


def command(one: Laboratory) -> str:
    """What records the same rows without the page; times are those of the machine it runs on."""
    settings = one.settings
    words = ["python", "-m", "specviz", "record", "--surroundings"]
    words += as_options(settings.pair)
    positions = min((row.own.prefixes for row in one.rows if row.own), default=1)
    words += ["--seed", str(settings.seed), "--gamma", str(settings.gamma), "--texts", str(one.texts), "--runs", str(one.runs)]
    return shlex.join([*words, "--positions", str(positions), "--out", "surroundings.json"])
