"""What the page Is it exact? says: the verdict with what could have been seen, the rule of its looks, the command that repeats it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from specviz.export.facts import proposer_options
from specviz.figures.common.narration import number
from specviz.models.pairs.names import as_options
from specviz.settings import Settings
from specviz.web.exactness.state import SOURCES, Drawn, Exam, Question

if TYPE_CHECKING:
    from specviz.evidence.experiment import Answer

SIZES = (100, 1_000, 10_000, 100_000, 1_000_000)  # the looks of evidence/looks.py; a test compares them
MARKS = {"waiting": "…", "consistent": "✓", "rejected": "✗", "untold": "?"}
FILE_MARKS = {"consistent": "✓", "rejected": "✗", "too few samples": "?"}
ALARMS = "Samples of an exact decoder are rejected by sampling noise in 1 of 1,000 files; this holds for all tests together."
TAIL = 34  # characters of the prompt before a drawn text
TABLE = (
    "A p-value says how often samples of an exact decoder would be at least this far off. A test rejects when its p-value is at or below its "
    "level, which is how often that happens by sampling noise alone."
)
RULE = (
    "The page tests after 100, 1,000, 10,000, 100,000 and a million samples, and at no other time. These sizes, the cells of each test "
    "and its part of the false-alarm rate are fixed before the first sample. All tests together have a rate of 0.001, split as 1/2, 1/6, "
    "1/12, 1/20 and the rest. So testing while samples accumulate does not add false alarms (Lan and DeMets 1983). Samples after a test "
    "are shown, and judged at the next one. Cells are made from the target’s exact distribution, never from counts."
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """mark: waiting | consistent | rejected | untold; words: the answer; seen: what could have been seen, and what could not."""

    mark: str
    words: str
    seen: str


def verdict(drawn: Drawn, question: Question) -> Verdict:
    """The answer so far. One rejection at any look stays."""
    rejected = [found for _, found in drawn.looks if found.verdict == "rejected"]
    if not drawn.n:
        return Verdict(
            "waiting",
            "There are no samples yet.",
            "The blue marks are the exact distribution. Sample, and watch the bars approach them.",
        )
    if not drawn.looks:
        return Verdict("waiting", f"{_draws(drawn.n)} so far: too few to tell.", f"The first test comes at {SIZES[0]} samples.")
    found = rejected[0] if rejected else drawn.looks[-1][1]
    if rejected:
        test = min(found.tests, key=lambda one: one.p_value)
        words = f"Not exact: {_draws(found.plan.n)} do not follow the target’s distribution."
        return Verdict(
            "rejected",
            words,
            f"The {test.name} test: p = {number(test.p_value)}, at a level of {number(test.alpha)}. {_hidden(found)}",
        )
    if found.verdict == "too few samples":
        return Verdict("untold", f"{_draws(found.plan.n)} cannot decide: all texts share one cell.", _next(drawn, question))
    who = SOURCES[question.source]
    words = f"{who} is consistent with the target’s exact distribution: {_draws(found.plan.n)}, no difference seen."
    return Verdict("consistent", words, " ".join(filter(None, (_could(found), _hidden(found), _next(drawn, question)))))


def _draws(n: int) -> str:
    return "1 sample" if n == 1 else f"{n:,} samples"


def _could(found: Answer) -> str:
    test = found.tests[0]
    if not test.df:
        return f"{test.note} If a fraction of {found.detectable_tv:.2g} of the texts differed, this would have been detected 99 times in 100."
    cells = int((found.partition.masses > 0).sum())
    return f"A distribution at a total variation distance of {found.detectable_tv:.2g} (on {cells} cells) would have been detected 99 times in 100."


def _hidden(found: Answer) -> str:
    pooled = found.pooled
    if pooled < 5e-4:
        return ""
    share = "All cells hold" if pooled > 0.9995 else f"{pooled:.0%} of the probability lies in cells that hold"
    return f"{share} several texts each; differences inside a cell are not seen here."


def _next(drawn: Drawn, question: Question) -> str:
    later = [n for n in SIZES if drawn.n < n <= question.most]
    return f"The next test comes at {later[0]:,} samples." if later else "This was the last test of the plan."


def drawn_so_far(drawn: Drawn) -> str:
    return f"{_draws(drawn.n)} so far" if drawn.n else ""


def looks_table(drawn: Drawn, plan: list[dict[str, float]]) -> list[dict[str, object]]:
    """The plan as rows, with what each look found."""
    found = dict(drawn.looks)
    rows = []
    for look, one in enumerate(plan):
        seen = found.get(look)
        rows.append(
            {
                "samples": f"{one['n']:,}",
                "level of each test": f"{one['level']:.2g}",
                "most cells": one["cells"],
                "detects a distance of": f"{(seen.detectable_tv if seen else one['sees']):.2g}",
                "chi-square p": f"{seen.tests[0].p_value:.3g}" if seen else "",
                "G p": f"{seen.tests[1].p_value:.3g}" if seen else "",
                "found": seen.verdict if seen else "not reached",
            }
        )
    return rows


def continued(question: Question, text: str) -> str:
    """A drawn text after the last words of its prompt."""
    prompt = question.settings.prompt
    tail = prompt if len(prompt) <= TAIL else "… " + prompt[-TAIL:].partition(" ")[2]
    return f"{tail} → {text.strip(' ')}".replace("\n", "↵").strip()


def fill_sentence(drawn: Drawn) -> str:
    """The sentence of meaning under the two pictures."""
    hidden = drawn.arms[0].hidden
    words = (
        "Each bar is one cell of the distribution, fixed before the first sample; … stands for every text that begins like this. "
    )
    if drawn.n:
        words += "Sampling noise alone leaves all bars inside the grey bands 99 times in 100. "
    words += _outside(drawn)
    if mass := sum(drawn.arms[0].probs[place] for place in hidden):
        bars = "One pooled bar holds" if len(hidden) == 1 else f"{len(hidden)} pooled bars hold"
        words += f"{bars} {mass:.0%} of the probability and would dwarf the rest: see the table below."
    return words


def _outside(drawn: Drawn) -> str:
    outside = [f"{len(arm.outside)} of “{arm.name}”" for arm in drawn.arms if arm.outside]  # a phone has no left and right
    return (
        f"Here some bars are outside ({', '.join(outside)}). The verdict comes from the tests, not from single bars. "
        if outside
        else ""
    )


def engine_sentence(drawn: Drawn, question: Question) -> str:
    """Which draws ran the cached decoder itself."""
    if not drawn.n or question.source == "assisted":
        return ""
    if drawn.engine == drawn.n:
        return "All samples ran through the decoder and its caches, round by round."
    how = "from shared distributions: each is computed once for all samples that need it, and the samples are identical"
    return f"{drawn.n - drawn.engine:,} samples were drawn {how}." + (
        f" {drawn.engine:,} ran through the decoder and its caches." if drawn.engine else ""
    )


def command(exam: Exam) -> str:
    """The command that examines the same question without the page, and inside the cells too."""
    settings, plain = exam.question.settings, Settings()
    parts = ["python", "-m", "specviz", "verify"]
    parts += as_options(settings.pair)
    parts += ["--prompt", settings.prompt, "--length", str(settings.length), "--samples", str(max(exam.drawn.n, 10_000))]
    parts += ["--decoder", exam.question.source, "--seed", str(settings.seed)]
    for name in ("gamma", "temperature", "top_k", "top_p", "min_p"):
        if getattr(settings, name) != getattr(plain, name):
            parts += [f"--{name.replace('_', '-')}", str(getattr(settings, name))]
    if exam.question.source == "speculative":
        parts += proposer_options(settings.to_record())
    return shlex.join(parts)


def described(report: Mapping[str, Any]) -> str:
    """Which files, how many samples, after which words."""
    files = " and ".join(f"'{one['name']}' ({one['draws']:,} samples)" for one in report["files"])
    prompt = report["settings"]["prompt"]
    return f"{files}, after “{prompt if len(prompt) <= 80 else '…' + prompt[-79:]}”."


def file_tests(report: Mapping[str, Any]) -> list[dict[str, str]]:
    """Every test of a report as a row."""
    return [
        {"test": test["name"], "p-value": f"{test['p_value']:.3g}", "corrected": f"{test['adjusted_p']:.3g}",
         "detects a distance of": "" if test["detectable_tv"] is None else f"{test['detectable_tv']:.2g}"}
        for test in report["tests"]
    ]  # fmt: skip
