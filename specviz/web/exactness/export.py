"""What the pages Is it exact? and Break it take along: frozen records turned into packages."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from specviz.export import exactness
from specviz.export.facts import facts
from specviz.export.package import Package
from specviz.web.common.download import export
from specviz.web.exactness import words as exact_words
from specviz.web.exactness.state import Exam
from specviz.web.mistakes import words as broken_words
from specviz.web.mistakes.state import Trial

if TYPE_CHECKING:
    from specviz.evidence.experiment import Answer


def exact(exam: Exam) -> None:
    """The fold of Is it exact?; empty until the distribution is known."""
    if exam.filed is not None:
        from specviz.export.report import package as of_report

        found = of_report(exam.filed.report)
        export("exact", found.stem, found.names, lambda: found)
        return
    if exam.drawn.arms is None:
        export("exact", "is-it-exact", (), lambda: None)
        return
    package = exact_package(exam)
    export("exact", package.stem, package.names, lambda: package)


def exact_package(exam: Exam) -> Package:
    drawn, question = exam.drawn, exam.question
    arm = drawn.arms[0].name
    looks = [row for _, found in drawn.looks for row in _look(arm, found)]
    last = drawn.looks[-1][1] if drawn.looks else None
    verdict = exact_words.verdict(drawn, question)
    said = facts(
        question.settings, exam.bench.models, "exact", question.link(), [exact_words.command(exam)],
        decoder=question.source, n=drawn.n, draws_through_the_engine=drawn.engine, verdict=verdict.mark,
        sentence=verdict.words, detectable_tv=last.detectable_tv if last else None, tests=looks, rule_of_the_looks=exact_words.RULE,
    )  # fmt: skip
    return exactness.exact(question.settings, drawn.arms, looks, drawn.flat, f"{verdict.words} {verdict.seen}", said)


def _look(decoder: str, found: Answer) -> list[dict[str, Any]]:
    """A look as rows, one for each of its tests."""
    return [
        {"decoder": decoder, "draws": found.plan.n, "test": test.name, "p_value": test.p_value, "level": test.alpha,
         "detectable_tv": found.detectable_tv, "verdict": found.verdict}
        for test in found.tests
    ]  # fmt: skip


def broken(trial: Trial) -> None:
    """The fold of Break it; empty until the texts are there, and until a secret is drafted."""
    if trial.drawn.arms is None or not trial.revealed:
        said = "" if trial.revealed else "Draft token first: an export would tell."
        export("broken", "break-it", (), lambda: None, said)
        return
    package = broken_package(trial)
    export("broken", package.stem, package.names, lambda: package)


def broken_package(trial: Trial) -> Package:
    drawn, case = trial.drawn, trial.question
    verdict, mistake = broken_words.verdict(trial), case.known
    looks = [
        {"decoder": name, "draws": one.n, "test": one.test, "p_value": one.p, "level": one.level,
         "detectable_tv": one.detectable, "verdict": "rejected" if one.rejected else "consistent" if one.told else "too few draws"}
        for pair in drawn.looks
        for name, one in zip(case.names, pair, strict=True)
    ]  # fmt: skip
    told = {"id": mistake.id, "name": mistake.name, "wrong": mistake.wrong, "thread": mistake.thread} if mistake else None
    told = told | {"decoder": case.names[case.wrong[1]]} if told else None
    commands = [] if case.hidden else [broken_words.command(case)]
    said = facts(
        case.settings, trial.bench.models, "broken", case.link(), commands, mistake=told, n=drawn.n,
        verdict=verdict.mark, sentence=verdict.words, detectable_tv=looks[-1]["detectable_tv"] if looks else None, tests=looks,
        rule_of_the_looks=exact_words.RULE,
    )  # fmt: skip
    curve = drawn.picture(case, True)
    make = partial(exactness.break_it, case.settings, drawn.arms, looks, curve, drawn.speeds)
    return make(f"{verdict.words} {verdict.seen}", said)
