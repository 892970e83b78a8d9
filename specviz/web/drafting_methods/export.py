"""The export of Drafting methods: the comparison on screen as a package."""

from __future__ import annotations

import shlex

from specviz.export.manifest import facts
from specviz.models.pairs.names import as_options
from specviz.speed.methods import MethodComparison
from specviz.web.common.download import Offer, ready
from specviz.web.drafting_methods import methods as figures
from specviz.web.drafting_methods.package import drafting_methods
from specviz.web.drafting_methods.state import MethodsState, block_gain, recorded_matrix


def offer(state: MethodsState) -> Offer:
    """What can be exported; nothing until there is a comparison."""
    one = state.shown
    if one is None:
        return Offer("drafting-methods")
    link = state.question.link() | {"prompt": one.settings.prompt}
    said = facts(
        one.settings, one.models, "drafting_methods", link, [command(one)], n=samples(one), turns=one.runs,
        machine=dict(one.machine), measured=one.date, recorded=not state.own, sentence=figures.conclusion(one),
    )  # fmt: skip
    package = drafting_methods(one, state.question.choice, said, block_gain(), recorded_matrix())
    return ready(package, "" if state.own else f"This is the recorded comparison, for the text “{one.settings.prompt}”.")


def samples(one: MethodComparison) -> int:
    """First tokens drawn of a row; 0 where no row could run."""
    return max((row.first.n for row in one.rows if row.first), default=0)


def command(one: MethodComparison) -> str:
    """What measures the same rows without the page, at every temperature and top-p of it; times are those of the machine it runs on."""
    settings = one.settings
    words = ["python", "-m", "specviz", "record", "methods", *as_options(settings.pair), f"--prompt={settings.prompt}"]
    words += ["--seed", str(settings.seed), "--gamma", str(settings.gamma), "--max-new-tokens", str(settings.max_new_tokens)]
    words += ["--runs", str(one.runs), "--samples", str(max(1, samples(one))), "--out", "methods.json"]
    return shlex.join(words)
