"""What Is it exact? exports: frozen records turned into a package."""

from __future__ import annotations

from specviz.export.manifest import facts
from specviz.export.package import Package
from specviz.web.common.download import Offer, ready
from specviz.web.exactness import package, words
from specviz.web.exactness.state import Exam
from specviz.web.sampling.verdict import RULE, as_row


def offer(exam: Exam) -> Offer:
    """What can be exported; nothing until the exact distribution is known."""
    if exam.report is not None:
        from specviz.export.report import package as of_report

        return ready(of_report(exam.report))
    return Offer("is-it-exact") if exam.shown.arms is None else ready(exact_package(exam))


def exact_package(exam: Exam) -> Package:
    result, question, verdict = exam.shown, exam.question, words.verdict(exam)
    tests = [as_row(result.arms[0].name, found, test) for (found,) in result.looks for test in found.tests]
    said = facts(
        question.settings, exam.models, "exactness", question.link(), [words.command(exam)], decoder=question.source, n=result.n,
        draws_through_the_engine=result.engine, verdict=verdict.mark, sentence=verdict.words,
        detectable_tv=tests[-1]["detectable_tv"] if tests else None, tests=tests, rule_of_the_looks=RULE,
    )  # fmt: skip
    return package.exact(question.settings, result.arms, tests, result.p_values, f"{verdict.words} {verdict.seen}", said)
