"""The export of Serving limits: the measurement on screen as a package."""

from __future__ import annotations

import shlex

from specviz.evidence.serving_setups.setups import SetupComparison
from specviz.export.manifest import facts
from specviz.models.pairs.names import as_options
from specviz.web.common.download import Offer, ready
from specviz.web.serving_limits import setups as figures
from specviz.web.serving_limits.package import serving_limits
from specviz.web.serving_limits.state import SetupsState


def offer(state: SetupsState) -> Offer:
    """What can be exported; nothing until there is a measurement."""
    one = state.shown
    if one is None:
        return Offer("serving-limits")
    link = {key: value for key, value in state.question.link().items() if state.own or key != "prompt"}
    said = facts(
        one.settings, one.models, "serving_limits", link, [] if state.own else [command(one)], n=one.texts, turns=one.runs,
        machine=dict(one.machine), measured=one.date, recorded=not state.own, sentence=figures.conclusion(one),
    )  # fmt: skip
    package = serving_limits(one, state.question.arm, said)
    return ready(package, "" if state.own else f"This is the recorded measurement, on passages of {one.text}.")


def command(one: SetupComparison) -> str:
    """What records the same rows without the page; times are those of the machine it runs on."""
    settings = one.settings
    positions = min((row.own.prefixes for row in one.rows if row.own), default=1)
    words = ["python", "-m", "specviz", "record", "setups", *as_options(settings.pair), "--seed", str(settings.seed)]
    words += ["--gamma", str(settings.gamma), "--texts", str(one.texts), "--runs", str(one.runs)]
    return shlex.join([*words, "--positions", str(positions), "--out", "setups.json"])
