"""What Break it exports: frozen records turned into a package."""

from __future__ import annotations

from specviz.export.manifest import facts
from specviz.export.package import Package
from specviz.web.common.download import Offer, ready
from specviz.web.exactness import package
from specviz.web.mistakes import words
from specviz.web.mistakes.state import Trial
from specviz.web.sampling.verdict import RULE, as_row, decisive, verify_command


def offer(trial: Trial) -> Offer:
    """What can be exported; nothing until the texts are there, and until a hidden mistake is guessed."""
    if trial.shown.arms is None or not trial.revealed:
        return Offer("break-it", said="" if trial.revealed else "Guess first: an export would reveal the answer.")
    return ready(broken_package(trial))


def broken_package(trial: Trial) -> Package:
    result, case, verdict = trial.shown, trial.question, words.verdict(trial)
    tests = [as_row(name, one, decisive(one)) for pair in result.looks for name, one in zip(case.names, pair, strict=True)]
    mistake = None
    if found := case.known:
        mistake = {key: getattr(found, key) for key in ("id", "name", "wrong", "thread")} | {"decoder": case.names[case.wrong[1]]}
    said = facts(
        case.settings, trial.models, "mistakes", case.link(),
        [] if case.hidden else [verify_command(case.settings, case.mistake)], mistake=mistake, n=result.n, verdict=verdict.mark,
        sentence=verdict.words, detectable_tv=tests[-1]["detectable_tv"] if tests else None, tests=tests, rule_of_the_looks=RULE,
    )  # fmt: skip
    curve = result.picture(case.wrong_arm)
    return package.break_it(case.settings, result.arms, tests, curve, result.speeds, f"{verdict.words} {verdict.seen}", said)
