"""What Break it takes along: frozen records turned into a package."""

from __future__ import annotations

from functools import partial

from specviz.export import exactness
from specviz.export.facts import facts
from specviz.export.package import Package
from specviz.web.common.download import Offer, ready
from specviz.web.exactness.words import RULE
from specviz.web.mistakes import words
from specviz.web.mistakes.state import Trial


def offer(trial: Trial) -> Offer:
    """What there is to take along; nothing until the texts are there, and until a secret is guessed."""
    if trial.drawn.arms is None or not trial.revealed:
        return Offer("break-it", said="" if trial.revealed else "Guess first: an export would reveal the answer.")
    return ready(broken_package(trial))


def broken_package(trial: Trial) -> Package:
    drawn, case = trial.drawn, trial.question
    verdict, mistake = words.verdict(trial), case.known
    looks = [
        {"decoder": name, "draws": one.n, "test": one.test, "p_value": one.p, "level": one.level,
         "detectable_tv": one.detectable, "verdict": "rejected" if one.rejected else "consistent" if one.told else "too few samples"}
        for pair in drawn.looks
        for name, one in zip(case.names, pair, strict=True)
    ]  # fmt: skip
    told = {"id": mistake.id, "name": mistake.name, "wrong": mistake.wrong, "thread": mistake.thread} if mistake else None
    told = told | {"decoder": case.names[case.wrong[1]]} if told else None
    commands = [] if case.hidden else [words.command(case)]
    said = facts(
        case.settings, trial.bench.models, "broken", case.link(), commands, mistake=told, n=drawn.n,
        verdict=verdict.mark, sentence=verdict.words, detectable_tv=looks[-1]["detectable_tv"] if looks else None, tests=looks,
        rule_of_the_looks=RULE,
    )  # fmt: skip
    curve = drawn.picture(case, True)
    make = partial(exactness.break_it, case.settings, drawn.arms, looks, curve, drawn.speeds)
    return make(f"{verdict.words} {verdict.seen}", said)
