"""What Is it exact? takes along: frozen records turned into a package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from specviz.export import exactness
from specviz.export.facts import facts
from specviz.export.package import Package
from specviz.web.common.download import Offer, ready
from specviz.web.exactness import words
from specviz.web.exactness.state import Exam

if TYPE_CHECKING:
    from specviz.evidence.experiment import Answer


def offer(exam: Exam) -> Offer:
    """What there is to take along; nothing until the exact distribution is known."""
    if exam.filed is not None:
        from specviz.export.report import package as of_report

        return ready(of_report(exam.filed.report))
    return Offer("is-it-exact") if exam.drawn.arms is None else ready(exact_package(exam))


def exact_package(exam: Exam) -> Package:
    drawn, question = exam.drawn, exam.question
    arm = drawn.arms[0].name
    looks = [row for _, found in drawn.looks for row in _look(arm, found)]
    last = drawn.looks[-1][1] if drawn.looks else None
    verdict = words.verdict(drawn, question)
    said = facts(
        question.settings, exam.bench.models, "exact", question.link(), [words.command(exam)],
        decoder=question.source, n=drawn.n, draws_through_the_engine=drawn.engine, verdict=verdict.mark,
        sentence=verdict.words, detectable_tv=last.detectable_tv if last else None, tests=looks, rule_of_the_looks=words.RULE,
    )  # fmt: skip
    return exactness.exact(question.settings, drawn.arms, looks, drawn.flat, f"{verdict.words} {verdict.seen}", said)


def _look(decoder: str, found: Answer) -> list[dict[str, Any]]:
    """A look as rows, one for each of its tests."""
    return [
        {"decoder": decoder, "draws": found.plan.n, "test": test.name, "p_value": test.p_value, "level": test.alpha,
         "detectable_tv": found.detectable_tv, "verdict": found.verdict}
        for test in found.tests
    ]  # fmt: skip
