"""What tests of samples found, in words: what Is it exact? and Break it share."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from specviz.evidence.tally import SIZES
from specviz.figures.common.narration import number
from specviz.models.pairs.names import as_options
from specviz.settings import Settings
from specviz.web.common.sampling import SamplingState

if TYPE_CHECKING:
    from specviz.evidence.tally import Look
    from specviz.statistics.finding import Finding

TAIL = 34  # characters of the prompt before a text
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


def too_early(state: SamplingState, hint: str) -> Verdict | None:
    """The verdict before the first test; None after it. hint: what to do where there are no samples."""
    n = state.shown.n
    if not n:
        return Verdict("waiting", "There are no samples yet.", hint)
    if not state.shown.looks:
        return Verdict("waiting", f"{counted(n)} so far: too few to tell.", f"The first test comes at {SIZES[0]} samples.")
    return None


def told(state: SamplingState) -> list[str]:
    """Where what is shown comes from, in a sentence, where it was recorded."""
    if state.own:
        return []
    one = state.recorded()
    return [
        f"Recorded on {one.date}: {counted(one.result.n)} of each, from seed {one.settings.seed}. Samples that you draw take their place."
    ]


def counted(n: int) -> str:
    return "1 sample" if n == 1 else f"{n:,} samples"


def decisive(found: Look) -> Finding:
    """The test with the smallest p-value."""
    return min(found.tests, key=lambda test: test.p_value)


def rejection(found: Look) -> str:
    test = decisive(found)
    p = "p < 10⁻³⁰⁰" if test.p_value < 1e-300 else f"p = {number(test.p_value)}"
    return f"The {test.name} test: {p}, at a level of {number(test.alpha)}."


def detectable(found: Look) -> str:
    """What would have been detected."""
    test, tv = found.tests[0], f"{found.detectable_tv:.2g}"
    if not test.df:
        return f"{test.note} If a fraction of {tv} of the texts differed, this would have been detected 99 times in 100."
    return (
        f"A distribution at a total variation distance of {tv} (on {found.cells} cells) would have been detected 99 times in 100."
    )


def next_test(state: SamplingState) -> str:
    coming = state.test_after(state.shown.n)
    return f"The next test comes at {coming:,} samples." if coming else "This was the last test of the plan."


def tail(prompt: str) -> str:
    """The last words of a prompt."""
    return prompt if len(prompt) <= TAIL else "… " + prompt[-TAIL:].partition(" ")[2]


def verify_command(settings: Settings, decoder: str, *options: Any) -> str:
    """The command that tests the same without the page."""
    words = ["python", "-m", "specviz", "verify", *as_options(settings.pair), f"--prompt={settings.prompt}"]
    return shlex.join(map(str, [*words, "--decoder", decoder, "--seed", settings.seed, *options]))


def as_row(decoder: str, found: Look, test: Finding) -> dict[str, Any]:
    """A test as a row of an export."""
    return {"decoder": decoder, "draws": found.n, "test": test.name, "p_value": test.p_value, "level": test.alpha,
            "detectable_tv": found.detectable_tv, "verdict": found.verdict}  # fmt: skip
