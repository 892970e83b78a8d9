"""What tests of samples found, in words: what Exactness test and Break it share."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from specviz.evidence.testing.results import REST, SIZES, CellShares
from specviz.figures.numbers import RAISED
from specviz.models.pairs.names import format_options
from specviz.records import load_toml
from specviz.settings import Settings
from specviz.web.common.side_by_side.state import SamplingState

if TYPE_CHECKING:
    from specviz.evidence.testing.results import InterimTest
    from specviz.statistics.finding import Finding

SPACE = "·"  # how names of cells show one
LARGE_NUMBERS = {6: "million", 9: "billion", 12: "trillion"}  # by powers of ten
TAIL = 36  # characters of the prompt before a text
TEXTS = load_toml("texts/side_by_side")
RULE, SCOPE = TEXTS["rule"], TEXTS["scope"]
LARGE = 0.1  # a test that detects only distances above this answers nothing


@dataclass(frozen=True, slots=True)
class PageVerdict:
    """The answer of a page.

    Attributes:
        mark: waiting | consistent | rejected | untold | exact (by proof) | unshown (no samples could show it).
        words: The answer.
        details: What could have been seen, and what could not.
        number: The one number of the answer; empty: none.
    """

    mark: str
    words: str
    details: str
    number: str = ""


def build_early_verdict(state: SamplingState, hint: str) -> PageVerdict | None:
    """The verdict before the first test; None after it. hint: what to do where there are no samples."""
    n = state.shown_result.n
    if not n:
        return PageVerdict("waiting", "No samples yet.", hint)
    if not state.shown_result.looks:
        return PageVerdict(
            "waiting", f"{count_samples(n)} so far: too few to tell.", f"The first test comes at {SIZES[0]} samples."
        )
    return None


def describe_origin(state: SamplingState) -> list[str]:
    """When what is shown was recorded, in a sentence; nothing for a visitor's own samples."""
    return [] if state.has_own_result else [f"Recorded on {state.load_recorded().date}."]


def count_samples(n: int) -> str:
    """A number of samples in words."""
    return "1 sample" if n == 1 else f"{n:,} samples"


def find_smallest_p(interim_test: InterimTest) -> Finding:
    """The test with the smallest p-value."""
    return min(interim_test.tests, key=lambda test: test.p_value)


def describe_rejection(test: InterimTest) -> str:
    """How rarely an exact decoder would be that far off, by which test."""
    found = find_smallest_p(test)
    odds = "less than once in 10³⁰⁰" if found.p_value < 1e-300 else f"about once in {format_odds(found.p_value)}"
    groups = f" of {test.cells:,} groups of texts" if found.df else ""
    return f"By the {found.name} test{groups}, a right decoder would show a difference this large {odds} runs."


def format_odds(p: float) -> str:
    """One in how many, for a reader: 12,000, 80 billion or 7×10¹⁸."""
    whole = 1.0 / p
    if whole < 1e6:
        return f"{float(f'{whole:.2g}'):,.0f}"
    head, exponent = f"{whole:.0e}".split("e")
    for power, name in LARGE_NUMBERS.items():
        if power <= int(exponent) < power + 3:
            return f"{int(head) * 10 ** (int(exponent) - power)} {name}"
    return f"{'' if head == '1' else head + '×'}10{str(int(exponent)).translate(RAISED)}"


def describe_detectable(interim_test: InterimTest) -> str:
    """The differences that would have been detected."""
    test, caught = interim_test.tests[0], describe_power(interim_test.detectable_tv, interim_test.cells)
    return caught if test.df else f"{test.note} {caught}"


def describe_agreement(interim_test: InterimTest) -> PageVerdict:
    """What a test says that found no difference: by how small a difference it would have shown."""
    samples = count_samples(interim_test.n)
    if not interim_test.can_show_difference:
        return PageVerdict("untold", f"{samples} cannot decide: all texts share one cell.", "")
    if interim_test.detectable_tv > LARGE:
        return PageVerdict(
            "untold", f"No difference seen, but {samples} can show only a large one.", describe_detectable(interim_test)
        )
    return PageVerdict("consistent", f"Exact, as far as {samples} can tell.", f"{SCOPE} {describe_detectable(interim_test)}")


def write_plain_labels(labels: Sequence[str]) -> list[str]:
    """Names of cells with plain spaces, or as they are where two would become the same or one nothing."""
    plain = [label.replace(SPACE, " ").strip() for label in labels]
    return plain if all(plain) and len({*plain}) == len(plain) else list(labels)


def describe_excess(shares: CellShares) -> str:
    """Where the samples are farthest from the exact distribution, as a clause: “woman who” came 23 times in 100, not 62.

    Empty where all are inside what chance leaves: the test then found a difference that no single text shows.
    """
    one = shares.rows
    counts = {label: (count, one.n * prob) for label, count, prob in zip(one.labels, one.counts, one.probs, strict=True)}
    outside = [label for label in one.outliers if label != REST] or list(one.outliers)
    if not outside:
        return ""
    label = max(outside, key=lambda name: abs(counts[name][0] - counts[name][1]))
    plain = dict(zip(one.labels, write_plain_labels(one.labels), strict=True))
    return compare_counts("other texts" if label == REST else f"“{plain[label]}”", *counts[label], one.n)


def compare_counts(name: str, count: int, expected: float, n: int) -> str:
    """A clause: how often a text came in n samples, and how often it should have."""
    times = "once" if count == 1 else f"{count:,} times"
    usual = f"not {expected:,.0f}" if expected >= 0.5 else "where less than one is expected"
    return f"{name} came {times} in {n:,}, {usual}"


def format_percent(share: float) -> str:
    """A share with two digits that count: 34%, 1.6%, 0.52%."""
    return "100%" if share > 0.995 else f"{100.0 * share:.2g}%"


def describe_power(share: float, cells: int | None = None) -> str:
    """How small a difference a test detects 99 times in 100. share: the total variation distance on its cells; cells: how many, if known.

    The rows of a chart are other groups: of two neighbors the test may see only the sum.
    """
    return str(TEXTS["power"].format(share=format_percent(share), groups=f"{cells:,} groups" if cells else "groups"))


def explain_distance(interim_test: InterimTest) -> str:
    """What the percentage of ``detectable`` is, for the fold."""
    if not interim_test.tests[0].df:
        return ""
    return f"“Moves {format_percent(interim_test.detectable_tv)} of the samples” means a total variation distance of {interim_test.detectable_tv:.2g}, on the {interim_test.cells} cells of that test."


def describe_conditions(settings: Settings) -> str:
    """The settings under which decoders write."""
    parts = [f"temperature {settings.temperature:g}"]
    parts += [f"{name} {value:g}" for name, value in (("top-k", settings.top_k), ("top-p", settings.top_p)) if value is not None]
    most = min(settings.gamma, settings.max_new_tokens - 1)  # the last token of a sample is never drafted
    drafted = {0: "no draft token", 1: "1 draft token per round"}.get(most, f"up to {most} draft tokens per round")
    return ", ".join(
        [
            *parts,
            drafted,
            f"{'1 token' if settings.max_new_tokens == 1 else f'{settings.max_new_tokens} tokens'} per sample",
            f"seed {settings.seed}",
        ]
    )


def announce_next_test(state: SamplingState) -> str:
    """When the next test comes."""
    coming = state.find_test_after(state.shown_result.n)
    return f"The next test comes at {coming:,} samples." if coming else "This was the last test of the plan."


def build_heading(settings: Settings) -> str:
    """The line over the bars: which tokens, after what, and at which temperature, since exact shares depend on all three."""
    length = "token" if settings.max_new_tokens == 1 else f"{settings.max_new_tokens} tokens"
    place = f"after “{shorten_prompt(settings.prompt)}”" if settings.prompt else "after the start token"
    return f"The next {length} {place}, temperature {settings.temperature:g}"


def shorten_prompt(prompt: str) -> str:
    """The last words of a prompt."""
    return prompt if len(prompt) <= TAIL else "… " + prompt[-TAIL:].partition(" ")[2]


def build_verify_command(settings: Settings, decoder: str, *options: Any) -> str:
    """The command that tests the same without the page."""
    words = ["python", "-m", "specviz", "verify", *format_options(settings.pair), f"--prompt={settings.prompt}"]
    return shlex.join(map(str, [*words, "--decoder", decoder, "--seed", settings.seed, *options]))


def build_test_row(decoder: str, interim_test: InterimTest, test: Finding) -> dict[str, Any]:
    """A test as a row of an export."""
    return {"decoder": decoder, "draws": interim_test.n, "test": test.name, "p_value": test.p_value, "level": test.alpha,
            "detectable_tv": interim_test.detectable_tv, "verdict": interim_test.verdict}  # fmt: skip
