"""Do these samples follow the target's distribution, and what could the tests have detected?

The plan is made before any sample is drawn: the number of cells that the samples allow, and the level of each test. Then every
sample is counted in its cell and scored along its own text. The verdict is one of ``results.VERDICTS``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from specviz.decoding.samples import NONE, Coverage, Samples
from specviz.evidence.testing import results
from specviz.evidence.testing.partition import Partition, build_partition
from specviz.evidence.testing.results import NO_DRAFT, NOTHING_TESTED, InterimTest, describe_unreached
from specviz.evidence.testing.scores import Scores, score_samples
from specviz.jobs.daemon_threads import run_in_thread
from specviz.models.base import LanguageModel
from specviz.progress import ProgressCallback, ignore_progress, scale_progress
from specviz.statistics.finding import ALPHA, POWER, Finding, format_p_value
from specviz.statistics.goodness import compute_chi_square, compute_conditional_chi_square, compute_g_test
from specviz.statistics.positions import compute_rate_test, compute_transform_test
from specviz.statistics.power import (
    adjust_p_values,
    compute_affordable_df,
    correct_level,
    count_draws_needed,
    count_equality_draws_needed,
    find_detectable_tv,
)
from specviz.statistics.random_streams import RandomUse, make_generator
from specviz.statistics.registry import load_extra_statistics
from specviz.statistics.total_variation import NullBand, compute_null_band, compute_total_variation
from specviz.statistics.twosample import compute_permutation_test

CELLS = (16, 512)  # fewest and most cells of the joint distribution
MARGIN = 0.98  # safety margin: light cells make the chi-square test a little weaker than the textbook formula
SCORING = 0.7  # fraction of the work of a test that is scoring each sample along its text; the rest is permutations
POOLED = "No text is probable enough for a cell of its own, so all texts lie in one cell. More samples give more cells."
CONDITIONAL, RATE, STOPPING = (
    "next tokens given their prefix", "tokens with q > p at position", "stopping time: tokens that end a text",
)  # fmt: skip
TRANSFORM, TWO_SAMPLES = "probability transform", "two samples: these and target-only"


@dataclass(frozen=True, slots=True)
class TestPlan:
    """The choices that are fixed before sampling.

    Attributes:
        n: Number of samples.
        length: Samples are truncated to this many tokens.
        tv: Total variation from the target's distribution that must be detected, in (0, 1].
        alpha: False-alarm rate of all tests together.
        level: False-alarm rate of each test (Bonferroni).
        cells: Most cells of the joint distribution with which n samples still detect ``tv``; 0 if even the fewest are too many.
    """

    __test__ = False  # pytest: not a test

    n: int
    length: int
    tv: float
    alpha: float
    level: float
    cells: int

    @classmethod
    def for_distance(cls, n: int, length: int, tv: float, alpha: float = ALPHA, extra: int | None = None) -> TestPlan:
        """The plan for a distance. extra: tests beside the built-in ones; None: as many as are registered here."""
        # Joint distribution twice, conditional distributions, transform, two samples, stopping time; one test for each position.
        level = correct_level(alpha, length + 6 + (len(load_extra_statistics()) if extra is None else extra))
        cells = min(CELLS[1], compute_affordable_df(MARGIN * tv, n, level) + 1)
        return cls(n, length, tv, alpha, level, cells if cells >= CELLS[0] else 0)

    @classmethod
    def for_samples(cls, n: int, length: int, tv: float, alpha: float = ALPHA) -> TestPlan:
        """The plan for a given number of samples. If they cannot detect ``tv``, it is replaced by what the fewest cells detect."""
        plan = cls.for_distance(n, length, tv, alpha)
        if plan.cells:
            return plan
        reachable = min(1.0, 1.001 * find_detectable_tv(CELLS[0] - 1, n, plan.level) / MARGIN)
        return cls.for_distance(n, length, reachable, alpha)

    def with_alpha(self, alpha: float, tests: int | None = None) -> TestPlan:
        """The same cells at another false-alarm rate; ``tv`` becomes what they then detect, where that is more.

        ``tests``: how many share the rate; None: as many as before.
        """
        level = correct_level(alpha, round(self.alpha / self.level) if tests is None else tests)
        reachable = min(1.0, (1.0 + 1e-9) * find_detectable_tv(self.max_cells - 1, self.n, level) / MARGIN)
        return replace(self, tv=max(self.tv, reachable), alpha=alpha, level=level)

    @property
    def max_cells(self) -> int:
        """Most cells that are made: the fewest, where even these are too many to detect ``tv``."""
        return self.cells or CELLS[0]

    @property
    def min_mass(self) -> float:
        """Least probability of a cell: one that expects 5 samples."""
        return 5.0 / self.n

    @property
    def needed(self) -> int:
        """Number of samples with which the fewest cells detect ``tv``."""
        return count_draws_needed(MARGIN * self.tv, CELLS[0] - 1, self.level)


@dataclass(frozen=True, slots=True)
class TestReport:
    """The tests of a set of samples. Everything else follows from these fields.

    Attributes:
        mode: "shared distributions", "engine", or the name of a file or of another decoder.
        tests: All findings, each with its ``detectable_tv`` at the plan's level.
        partition: The cells.
        counts: Samples in each cell, (C,).
        borderline: Number of samples with a random number so close to an edge that they may fall into another cell on another
            machine; None: not counted.
        coverage: What the samples exercised; None: not known, as of samples from a file.
        is_control: Whether the decoder drafts nothing by design.
        whole_samples: How many samples were drawn to their end, the others until their cell was known; None: all.
    """

    __test__ = False  # pytest: not a test

    mode: str
    plan: TestPlan
    tests: tuple[Finding, ...]
    partition: Partition
    counts: np.ndarray
    coverage: Coverage | None = None
    is_control: bool = False
    borderline: int | None = None
    whole_samples: int | None = None

    @property
    def adjusted(self) -> tuple[float, ...]:
        """The p-values, corrected for multiple testing (Holm 1979); compare with ``plan.alpha``."""
        return adjust_p_values([test.p_value for test in self.tests])

    @property
    def probs(self) -> np.ndarray:
        """The cells' masses, (C,), rescaled to sum to 1."""
        return self.partition.masses / self.partition.masses.sum()

    @property
    def tv(self) -> float:
        """Total variation between counts and distribution on the cells."""
        return compute_total_variation(self.counts, self.probs)

    @property
    def band(self) -> NullBand:
        """The range of ``tv`` under the target's distribution."""
        return compute_null_band(self.probs, self.plan.n)

    @property
    def detectable_tv(self) -> float:
        """Total variation that the test of the joint distribution detects."""
        return self.tests[0].detectable_tv or 1.0

    @property
    def verdict(self) -> str:
        """One of ``results.VERDICTS``."""
        is_enough = self.partition.can_show_difference and self.detectable_tv <= self.plan.tv
        return decide_verdict(min(self.adjusted) <= self.plan.alpha, is_enough, self.coverage, self.is_control)

    def to_interim(self) -> InterimTest:
        """The result in plain numbers."""
        return InterimTest(
            n=self.plan.n,
            verdict=self.verdict,
            tests=self.tests,
            detectable_tv=self.detectable_tv,
            pooled=self.partition.pooled_mass,
            cells=int((self.partition.masses > 0).sum()),
            can_show_difference=self.partition.can_show_difference,
            counts=tuple(self.counts.tolist()),
            exercised=self.coverage,
        )

    @property
    def needed(self) -> int:
        """Number of samples that would detect ``plan.tv``; fewer if the target allows only one text."""
        return count_equality_draws_needed(self.plan.tv) if self.partition.is_certain else self.plan.needed

    @property
    def sentence(self) -> str:
        """The verdict in words, with the distance that could have been detected and the parts that were not reached."""
        n, seen, verdict = f"{self.plan.n:,} samples", f"{self.detectable_tv:.2g}", self.verdict
        if verdict == "rejected":
            p, test = min(zip(self.adjusted, self.tests, strict=True), key=lambda pair: pair[0])
            return f"Rejected: {n} do not follow the target's distribution ({test.name}, {format_p_value(p)} after correction)."
        if verdict == NOTHING_TESTED:
            return f"Nothing tested: {n}, and {NO_DRAFT}"
        if verdict == "consistent":
            sentence = f"Consistent with the target's distribution: {n} would have shown a total variation of {seen} with power {POWER:.0%}."
        elif not self.partition.can_show_difference:
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
    plan: TestPlan,
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
    extra: Sequence[str] | None = None,
    whole_samples: int | None = None,
) -> TestReport:
    """Test the samples as planned.

    Args:
        plan: Number of samples, level of each test, and most cells.
        target: The model whose distribution is tested.
        draft: For the tests of tokens with q > p; None: they are left out.
        prompt: Token ids.
        samples: At most as long as the plan says.
        mode: As in TestReport.
        eos_token_ids: Tokens that end a text.
        reference: Target-only samples, for the test that needs no distribution.
        on_progress: Called with the share that is done.
        partition: Cells made earlier from the same plan; None: they are made here.
        coverage: What the samples exercised; None: as they say.
        is_control: Whether the decoder drafts nothing by design.
        extra: Names of the registered statistics to compute beside the built-in tests; None: all.
        whole_samples: How many samples were drawn to their end, as in TestReport. Only these are compared with the reference, text by text.
    """
    if partition is None:
        partition = build_partition(target, prompt, plan.length, plan.max_cells, plan.min_mass, eos_token_ids)
    counts = partition.count_samples(samples)
    compare: Callable[[], Finding] | None = None
    if reference is not None:
        progress = scale_progress(on_progress, SCORING, 1.0)
        drawn_to_end = samples if whole_samples is None else samples.slice_samples(0, whole_samples)
        compare = partial(_compare_with_reference, plan, drawn_to_end, reference, progress)
        if (device := getattr(target, "device", None)) is not None and device.type == "cuda":  # the host is idle meanwhile
            compare = run_in_thread(_compare_with_reference, plan, drawn_to_end, reference, name="two samples").result
    scores = score_samples(target, draft, prompt, samples, eos_token_ids, scale_progress(on_progress, 0.0, SCORING))
    tests = (
        *run_joint_tests(plan, partition, counts, extra),
        *_run_sample_tests(plan, samples, scores, eos_token_ids, compare),
    )
    on_progress(1.0)
    return TestReport(mode, plan, tests, partition, counts, coverage or samples.coverage, is_control, whole_samples=whole_samples)


def run_count_tests(
    plan: TestPlan,
    partition: Partition,
    counts: np.ndarray,
    mode: str,
    coverage: Coverage | None = None,
    is_control: bool = False,
) -> TestReport:
    """Test counts, (C,), of exactly the plan's number of samples, with the tests that need no more. The rest is as in TestReport.

    What these cells detect is what is asked of them.
    """
    assert counts.sum() == plan.n
    tests = run_joint_tests(plan, partition, counts)
    plan = replace(plan, tv=max(plan.tv, tests[0].detectable_tv or 1.0))
    return TestReport(mode, plan, tests, partition, counts.copy(), coverage, is_control)


def run_joint_tests(
    plan: TestPlan, partition: Partition, counts: np.ndarray, extra: Sequence[str] | None = ()
) -> tuple[Finding, ...]:
    """The tests of the joint distribution, which need only the cells and their counts: chi-square, G, and registered ones.

    ``extra``: names of the registered ones to run; None: all.
    """
    probs = partition.masses / partition.masses.sum()
    tests: tuple[Finding, ...] = (
        compute_chi_square(counts, probs, alpha=plan.level),
        compute_g_test(counts, probs, alpha=plan.level),
    )
    if not partition.can_show_difference:
        tests = tuple(replace(test, detectable_tv=None, note=POOLED) for test in tests)
    others = (one for one in load_extra_statistics() if extra is None or one.name in extra)
    return (*tests, *(entry.test(counts, probs, alpha=plan.level) for entry in others))


def is_sample_test(name: str) -> bool:
    """Whether a finding of this name needs every sample. The others follow from the counts."""
    return name.startswith((CONDITIONAL, RATE, STOPPING, TRANSFORM, TWO_SAMPLES))


def _run_sample_tests(
    plan: TestPlan,
    samples: Samples,
    scores: Scores,
    eos_token_ids: frozenset[int],
    compare: Callable[[], Finding] | None,
) -> Iterator[Finding]:
    """The tests that need every sample. compare: the test of two samples, if there are two."""
    level = plan.level
    if groups := [group for place in scores.groups for group in place]:
        yield compute_conditional_chi_square(groups, name=CONDITIONAL, alpha=level)
    written = samples.tokens[:, : plan.length] != NONE
    if not np.isnan(scores.favored_mass).all():
        for place in range(plan.length):
            here = written[:, place]
            if here.any():
                favored, mass = int(scores.favored[here, place].sum()), scores.favored_mass[here, place]
                yield compute_rate_test(favored, *_group_masses(mass), name=f"{RATE} {place + 1}", alpha=level)
    if scores.ending[written].any():
        ended = int(np.isin(samples.tokens[:, : plan.length][written], sorted(eos_token_ids)).sum())
        yield compute_rate_test(ended, *_group_masses(scores.ending[written]), name=STOPPING, alpha=level)
    uniform = make_generator(int(samples.settings.get("seed", 0)), RandomUse.TRANSFORM).random(int(written.sum()))
    yield compute_transform_test(scores.below[written], scores.mass[written], uniform, name=TRANSFORM, alpha=level)
    if compare is not None:
        yield compare()


def _compare_with_reference(
    plan: TestPlan, samples: Samples, reference: Samples, on_progress: ProgressCallback = ignore_progress
) -> Finding:
    """The test of these samples and target-only ones."""
    most = results.REFERENCE_SAMPLES
    left, right = (
        [tuple(token for token in row if token != NONE) for row in arm.tokens[:most, : plan.length].tolist()]
        for arm in (samples, reference)
    )
    return compute_permutation_test(left, right, alpha=plan.level, name=TWO_SAMPLES, on_progress=on_progress)


def _group_masses(masses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct probabilities (G,), and how many samples have each."""
    return np.unique(masses, return_counts=True)
