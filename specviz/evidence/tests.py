"""One question, several tests, one answer: do these samples follow the target's distribution, and what could the tests have seen?

The plan is made before any sample is drawn: the number of cells that the samples allow, and the level of each test. Then every
sample is counted in its cell and scored along its own text. The verdict is one of ``results.VERDICTS``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from specviz.decoding.samples import NONE, Coverage, Samples
from specviz.evidence.partition import Partition, exact_partition
from specviz.evidence.results import NO_DRAFT, NOTHING_TESTED, InterimTest, describe_unreached
from specviz.evidence.scores import Scores, score_samples
from specviz.models.base import LanguageModel
from specviz.progress import ProgressCallback, ignore_progress, scale_progress
from specviz.statistics.finding import ALPHA, POWER, Finding, p_in_words
from specviz.statistics.goodness import chi_square, conditional_chi_square, g_test
from specviz.statistics.positions import rate_test, transform_test
from specviz.statistics.power import affordable_df, corrected, detectable_tv, draws_needed, equal_draws_needed, holm
from specviz.statistics.random_streams import Use, generator
from specviz.statistics.registry import load_extra_statistics
from specviz.statistics.total_variation import Band, total_variation, tv_null_band
from specviz.statistics.twosample import MOST, permutation_test

CELLS = (16, 512)  # fewest and most cells of the joint distribution
MARGIN = 0.98  # safety margin: light cells make the chi-square test a little weaker than the textbook formula
SCORING = 0.7  # fraction of an answer's work that is scoring each sample along its text; the rest is permutations
POOLED = "No text is probable enough for a cell of its own, so all texts lie in one cell. More samples give more cells."


@dataclass(frozen=True, slots=True)
class Plan:
    """What is fixed before sampling.

    n       number of samples
    length  L: samples are truncated to L tokens
    tv      total variation from the target's distribution that must be detected, in (0, 1]
    alpha   false-alarm rate of all tests together
    level   false-alarm rate of each test (Bonferroni)
    cells   most cells of the joint distribution with which n samples still detect ``tv``; 0 if even the fewest are too many
    """

    n: int
    length: int
    tv: float
    alpha: float
    level: float
    cells: int

    @classmethod
    def of(cls, n: int, length: int, tv: float, alpha: float = ALPHA) -> Plan:
        # Joint distribution twice, conditional distributions, transform, two samples, stopping time; one test for each position.
        level = corrected(alpha, length + 6 + len(load_extra_statistics()))
        cells = min(CELLS[1], affordable_df(MARGIN * tv, n, level) + 1)
        return cls(n, length, tv, alpha, level, cells if cells >= CELLS[0] else 0)

    @classmethod
    def fitting(cls, n: int, length: int, tv: float, alpha: float = ALPHA) -> Plan:
        """The plan for a given number of samples. If they cannot detect ``tv``, it is replaced by what the fewest cells detect."""
        plan = cls.of(n, length, tv, alpha)
        return (
            plan
            if plan.cells
            else cls.of(n, length, min(1.0, 1.001 * detectable_tv(CELLS[0] - 1, n, plan.level) / MARGIN), alpha)
        )

    @property
    def needed(self) -> int:
        """Number of samples with which the fewest cells detect ``tv``."""
        return draws_needed(MARGIN * self.tv, CELLS[0] - 1, self.level)


@dataclass(frozen=True, slots=True)
class TestReport:
    """What the samples show.

    mode        "shared distributions", "engine", or the name of a file or of another decoder
    tests       all findings, each with its ``detectable_tv`` at the plan's level
    adjusted    their p-values, corrected for multiple testing (Holm 1979); compare with ``plan.alpha``
    tv          total variation between counts and distribution on the cells
    band        the range of ``tv`` under the target's distribution
    pooled      mass of the cells that hold more than one text
    partition   the cells; counts  samples in each: enough to compute chi-square, G and TV again
    borderline  number of samples with a random number so close to an edge that they may fall into another cell on another machine;
                None: not counted
    coverage    what the samples exercised; None: not known, as of samples from a file
    is_control  whether the decoder drafts nothing by design
    """

    __test__ = False  # pytest: not a test

    verdict: str
    mode: str
    plan: Plan
    tests: tuple[Finding, ...]
    adjusted: tuple[float, ...]
    tv: float
    band: Band
    detectable_tv: float
    pooled: float
    partition: Partition
    counts: np.ndarray
    borderline: int | None = None
    coverage: Coverage | None = None
    is_control: bool = False

    @classmethod
    def from_findings(
        cls,
        plan: Plan,
        mode: str,
        tests: Sequence[Finding],
        partition: Partition,
        counts: np.ndarray,
        coverage: Coverage | None = None,
        is_control: bool = False,
    ) -> TestReport:
        """The report that follows from findings and counts: Holm's correction, the verdict, the total variation and its band."""
        probs = partition.masses / partition.masses.sum()
        adjusted = holm([test.p_value for test in tests])
        detectable = tests[0].detectable_tv or 1.0
        is_enough = partition.tells and detectable <= plan.tv
        verdict = decide_verdict(min(adjusted) <= plan.alpha, is_enough, coverage, is_control)
        distance, band = total_variation(counts, probs), tv_null_band(probs, plan.n)
        return cls(
            verdict,
            mode,
            plan,
            tuple(tests),
            adjusted,
            distance,
            band,
            detectable,
            partition.pooled,
            partition,
            counts,
            None,
            coverage,
            is_control,
        )

    def to_interim(self) -> InterimTest:
        """The result in plain numbers."""
        possible = int((self.partition.masses > 0).sum())
        return InterimTest(
            self.plan.n,
            self.verdict,
            self.tests,
            self.detectable_tv,
            self.pooled,
            possible,
            self.partition.tells,
            tuple(self.counts.tolist()),
            self.coverage,
        )

    @property
    def needed(self) -> int:
        """Number of samples that would detect ``plan.tv``; fewer if the target allows only one text."""
        return equal_draws_needed(self.plan.tv) if self.partition.certain else self.plan.needed

    @property
    def sentence(self) -> str:
        """The verdict in words, with the distance that could have been detected and the parts that were not reached."""
        n, seen = f"{self.plan.n:,} samples", f"{self.detectable_tv:.2g}"
        if self.verdict == "rejected":
            worst = min(zip(self.adjusted, self.tests, strict=True), key=lambda pair: pair[0])
            return f"Rejected: {n} do not follow the target's distribution ({worst[1].name}, {p_in_words(worst[0])} after correction)."
        if self.verdict == NOTHING_TESTED:
            return f"Nothing tested: {n}, and {NO_DRAFT}"
        if self.verdict == "consistent":
            sentence = f"Consistent with the target's distribution: {n} would have shown a total variation of {seen} with power {POWER:.0%}."
        elif not self.partition.tells:
            sentence = f"Too few samples: {n} tell nothing. {POOLED}"
        else:
            sentence = f"Too few samples: {n} can detect a total variation of {seen}; {self.plan.tv:g} needs {self.needed:,}."
        return " ".join([sentence, *describe_unreached(self.coverage, self.is_control)])


def decide_verdict(is_rejected: bool, is_enough: bool, coverage: Coverage | None, is_control: bool) -> str:
    """One of VERDICTS. is_enough: whether the samples detect the planned distance."""
    if is_rejected:
        return "rejected"
    if coverage is not None and not coverage.proposed and not is_control:
        return NOTHING_TESTED
    return "consistent" if is_enough else "too few samples"


def run_tests(
    plan: Plan,
    target: LanguageModel,
    draft: LanguageModel | None,
    prompt: Sequence[int],
    samples: Samples,
    mode: str,
    eos_token_ids: frozenset[int] = frozenset(),
    reference: Samples | None = None,
    on_progress: ProgressCallback = ignore_progress,
    partition: Partition | None = None,
    coverage: Coverage | None = None,
    is_control: bool = False,
) -> TestReport:
    """Test the samples as planned.

    reference   target-only samples, for the test that needs no distribution
    partition   cells made earlier from the same plan; None: they are made here
    coverage    what the samples exercised; None: as they say
    is_control  whether the decoder drafts nothing by design
    """
    if partition is None:
        partition = exact_partition(target, prompt, plan.length, plan.cells or CELLS[0], 5.0 / plan.n, eos_token_ids)
    counts = partition.counts(samples)
    scores = score_samples(target, draft, prompt, samples, eos_token_ids, scale_progress(on_progress, 0.0, SCORING))
    tests = (
        *joint_tests(plan, partition, counts),
        *run_extra_tests(plan, partition, counts),
        *_tests(plan, samples, scores, eos_token_ids, reference, on_progress),
    )
    return TestReport.from_findings(plan, mode, tests, partition, counts, coverage or samples.coverage, is_control)


def joint_tests(plan: Plan, partition: Partition, counts: np.ndarray) -> tuple[Finding, ...]:
    """The tests of the joint distribution. They need only the cells and their counts."""
    probs = partition.masses / partition.masses.sum()
    tests = chi_square(counts, probs, alpha=plan.level), g_test(counts, probs, alpha=plan.level)
    return tests if partition.tells else tuple(replace(test, detectable_tv=None, note=POOLED) for test in tests)


def run_extra_tests(plan: Plan, partition: Partition, counts: np.ndarray) -> tuple[Finding, ...]:
    """The tests of the joint distribution that were registered beside the two of ``joint_tests``."""
    probs = partition.masses / partition.masses.sum()
    return tuple(entry.test(counts, probs, alpha=plan.level) for entry in load_extra_statistics())


def _tests(plan: Plan, samples: Samples, scores: Scores, eos_token_ids: frozenset[int], reference, on_progress: ProgressCallback):
    """The tests that need every sample."""
    level = {"alpha": plan.level}
    if groups := [group for place in scores.groups for group in place]:
        yield conditional_chi_square(groups, name="next tokens given their prefix", **level)
    written = samples.tokens[:, : plan.length] != NONE
    if not np.isnan(scores.favored_mass).all():
        for place in range(plan.length):
            here = written[:, place]
            if here.any():
                favored, mass = int(scores.favored[here, place].sum()), scores.favored_mass[here, place]
                yield rate_test(favored, *_grouped(mass), name=f"tokens with q > p at position {place}", **level)
    if scores.ending[written].any():
        ended = int(np.isin(samples.tokens[:, : plan.length][written], sorted(eos_token_ids)).sum())
        yield rate_test(ended, *_grouped(scores.ending[written]), name="stopping time: tokens that end a text", **level)
    uniform = generator(int(samples.settings.get("seed", 0)), Use.TRANSFORM).random(int(written.sum()))
    yield transform_test(scores.below[written], scores.mass[written], uniform, **level)
    if reference is not None:
        arms = [
            [tuple(t for t in row if t != NONE) for row in arm.tokens[:MOST, : plan.length].tolist()]
            for arm in (samples, reference)
        ]
        named = level | {"name": "two samples: these and target-only", "on_progress": scale_progress(on_progress, SCORING, 1.0)}
        yield permutation_test(*arms, permutations=int(1.5 / plan.level), **named)
    on_progress(1.0)


def _grouped(masses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct probabilities (G,), and how many samples have each."""
    return np.unique(masses, return_counts=True)
