"""What the page Is it exact? says: the verdict with what could have been detected, its tests, the command that repeats it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from specviz.export.manifest import proposer_options
from specviz.figures.exactness.samples import ExactnessResult
from specviz.settings import Settings
from specviz.statistics.finding import p_in_a_table
from specviz.web.common.verdict import Verdict, counted, detectable, next_test, rejection, tail, too_early, verify_command
from specviz.web.exactness.state import SOURCES, Exam, Question

if TYPE_CHECKING:
    from specviz.evidence.tally import Look

ALARMS = "Samples of an exact decoder are rejected by sampling noise in 1 of 1,000 files; this holds for all tests together."
TABLE = (
    "A p-value says how often samples of an exact decoder would be at least this far off. A test rejects when its p-value is at or below its "
    "level, which is how often that happens by sampling noise alone."
)


def verdict(exam: Exam) -> Verdict:
    """The answer so far. One rejection at any test stays."""
    if early := too_early(exam, "The blue marks are the exact distribution. Sample, and watch the bars approach them."):
        return early
    looks = [look for (look,) in exam.shown.looks]
    found = next((one for one in looks if one.verdict == "rejected"), looks[-1])
    samples, who = counted(found.n), SOURCES[exam.question.source]
    if found.verdict == "rejected":
        return Verdict("rejected", f"No, not exact: {samples} do not follow the target’s distribution.", rejection(found))
    if not found.tells:
        return Verdict("untold", f"{samples} cannot decide: all texts share one cell.", next_test(exam))
    return Verdict(
        "consistent", f"Yes, as far as {samples} can tell.", f"{who}: {samples}, no difference seen. {detectable(found)}"
    )


def more(exam: Exam) -> str:
    """What the verdict leaves open: differences inside a cell, and the test that comes next; empty before the first test."""
    if not (looks := exam.shown.looks):
        return ""
    return " ".join(filter(None, (_pooled(looks[-1][0]), next_test(exam))))


def _pooled(found: Look) -> str:
    if found.pooled < 5e-4:
        return ""
    share = "All cells hold" if found.pooled > 0.9995 else f"{found.pooled:.0%} of the probability lies in cells that hold"
    return f"{share} several texts each; differences inside a cell are not seen here."


def tests_table(result: ExactnessResult, plan: list[dict[str, float]]) -> list[dict[str, object]]:
    """The plan as rows, with what each test found."""
    looks = [look for (look,) in result.looks] + [None] * (len(plan) - len(result.looks))
    return [
        {"samples": f"{one['n']:,}", "level of each test": f"{one['level']:.2g}", "most cells": one["cells"],
         "detects a distance of": f"{(found.detectable_tv if found else one['sees']):.2g}",
         "chi-square p": p_in_a_table(found.tests[0].p_value) if found else "",
         "G p": p_in_a_table(found.tests[1].p_value) if found else "", "found": found.verdict if found else "not reached"}
        for found, one in zip(looks, plan, strict=True)
    ]  # fmt: skip


def continued(question: Question, text: str) -> str:
    """A text after the last words of its prompt."""
    return f"{tail(question.settings.prompt)} → {text.strip(' ')}".replace("\n", "↵").strip()


def bars_sentence(result: ExactnessResult) -> str:
    """The sentence of meaning under the two pictures."""
    words = (
        "Each bar is one cell of the distribution, fixed before the first sample; … stands for every text that begins like this. "
    )
    if result.n:
        words += "Sampling noise alone leaves all bars inside the gray bands 99 times in 100. "
    outside = [f"{len(arm.outside)} of “{arm.name}”" for arm in result.arms if arm.outside]  # a phone has no left and right
    if outside:
        words += f"Here some bars are outside ({', '.join(outside)}). The verdict comes from the tests, not from single bars. "
    hidden = result.arms[0].hidden
    if mass := sum(result.arms[0].probs[place] for place in hidden):
        bars = "One pooled bar holds" if len(hidden) == 1 else f"{len(hidden)} pooled bars hold"
        words += f"{bars} {mass:.0%} of the probability and would dwarf the rest: see the table below."
    return words


def engine_sentence(result: ExactnessResult, question: Question) -> str:
    """Which samples ran through the cached decoder itself."""
    if not result.n or question.source == "assisted":
        return ""
    if result.engine == result.n:
        return "All samples ran through the decoder and its caches, round by round."
    how = "from shared distributions: each is computed once for all samples that need it, and the samples are identical"
    engine = f" {result.engine:,} ran through the decoder and its caches." if result.engine else ""
    return f"{result.n - result.engine:,} samples were drawn {how}.{engine}"


def command(exam: Exam) -> str:
    """The command that tests the same decoder without the page, and inside the cells too."""
    settings, source, plain = exam.question.settings, exam.question.source, Settings()
    options: list[Any] = ["--length", settings.length, "--samples", max(exam.shown.n, 10_000)]
    for name in ("gamma", "temperature", "top_k", "top_p", "min_p"):
        if getattr(settings, name) != getattr(plain, name):
            options += [f"--{name.replace('_', '-')}", getattr(settings, name)]
    return verify_command(
        settings, source, *options, *(proposer_options(settings.to_record()) if source == "speculative" else [])
    )


def described(report: Mapping[str, Any]) -> str:
    """Which files, how many samples, after which words."""
    files = " and ".join(f"'{one['name']}' ({one['draws']:,} samples)" for one in report["files"])
    prompt = report["settings"]["prompt"]
    return f"{files}, after “{prompt if len(prompt) <= 80 else '…' + prompt[-79:]}”."


def file_tests(report: Mapping[str, Any]) -> list[dict[str, str]]:
    """Every test of a report as a row."""
    return [
        {"test": test["name"], "p-value": p_in_a_table(test['p_value']), "corrected": p_in_a_table(test['adjusted_p']),
         "detects a distance of": "" if test["detectable_tv"] is None else f"{test['detectable_tv']:.2g}"}
        for test in report["tests"]
    ]  # fmt: skip


def of_audit(report: Mapping[str, Any]) -> list[str]:
    """What an audit of a server says besides its verdict; nothing for a report on files."""
    if not (audit := report.get("audit")):
        return []
    from specviz.audit.judging import of_servers  # torch comes with it, which is there once there is a report

    servers = of_servers(audit)
    said = [(audit.get(part) or {}).get("sentence") for part in ("speculation", "precision", "diagnosis", "reproduction")]
    return [line for line in (said[0], *servers, said[1], audit.get("where"), *said[2:]) if line]


def tables_of_audit(report: Mapping[str, Any]) -> list[tuple[str, list[dict[str, str]]]]:
    """Where a server's samples part, and the known mistakes that were compared; nothing where none were."""
    found = (report.get("audit") or {}).get("diagnosis") or {}
    parting, matches = found.get("parting"), found.get("matches")
    shifts = [*parting["gains"], *parting["loses"]] if parting else []
    tokens = [{"token": one["text"], "seen": f"{one['seen']:.4f}", "exact": f"{one['exact']:.4f}"} for one in shifts]
    mistakes = [
        {
            "mistake": one["mistake"],
            "likelihood ratio": f"1e{one['log10_ratio']:+.1f}",
            "explains": f"{one['explained']:.0%}",
            "as": one["words"],
        }
        for one in matches or ()
    ]
    named = (("Tokens that come too often or too rarely", tokens), ("Known mistakes, the likeliest first", mistakes))
    return [(name, rows) for name, rows in named if rows]
