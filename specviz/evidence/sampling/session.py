"""Sampling sessions: draw samples of a decoder shard by shard, count and test them as its plan says, and report.

A plan without looks has its samples drawn, kept and tested once, as ``specviz verify`` does. With looks they accumulate: their counts
are kept and tested at each look, as on the pages and in the classroom. ``SideBySide`` holds the sessions of decoders that are compared.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from specviz.decoding.engine import build_first_prefix
from specviz.decoding.sampler import FollowedTexts, ShardState
from specviz.decoding.samples import Coverage, Samples, join_samples
from specviz.errors import SpecvizError
from specviz.evidence.decoder import (
    ENGINE,
    MEMOIZED,
    SHARED,
    TARGET,
    Blocks,
    Decoder,
    build_decoder,
    count_whole_samples,
    list_sampling_modes,
    sample_together,
)
from specviz.evidence.mistakes.comparison import DistanceCurve, DraftingCounts
from specviz.evidence.sampling.sampling_plan import INTERIM, SINGLE, SamplingPlan, SequentialCells, make_cells
from specviz.evidence.sampling.saved_samples import ModeSamples, SavedSamples, add_coverage
from specviz.evidence.testing.hypothesis_tests import TestPlan, TestReport, run_count_tests, run_tests
from specviz.evidence.testing.partition import Partition, build_partition
from specviz.evidence.testing.report import build_report
from specviz.evidence.testing.results import CELLS, LEAST, CellShares, InterimTest
from specviz.jobs.tasks import Executor, PairRef, allow_paths, describe_models
from specviz.models.base import LanguageModel
from specviz.models.pairs.loading import LoadedPair
from specviz.progress import ProgressCallback, ignore_progress
from specviz.settings import Settings
from specviz.statistics.goodness import compute_chi_square

SHARD_SIZES = {
    SHARED: 2_000_000,
    MEMOIZED: 2_000_000,
    ENGINE: 512,
}  # samples of a shard; a shared shard may be stopped after each pass
UNTIMED = (SHARED, MEMOIZED)  # modes in which the planned number of samples is drawn, however long it takes
ONE_BY_ONE = 16  # the same for decoders that draw one text at a time
PILOT = 64  # samples whose time tells how many fit into the given seconds
SEED_CELLS = 16  # most cells of the test of one of many seeds; each with at least 5 expected samples


class ShardRange(NamedTuple):
    """A shard of a run: samples ``first`` to ``first + count - 1``."""

    first: int
    count: int  # type: ignore[assignment]  # hides tuple.count

    def __str__(self) -> str:
        return f"samples {self.first} to {self.first + self.count - 1}"


@dataclass(frozen=True, slots=True)
class SamplingSpec:
    """A decoder and a mode, without the models: what is sent to workers. The fields are those of ``build_decoder``."""

    name: str
    mode: str
    settings: Settings
    ids: tuple[int, ...]
    without_mistake: bool = False
    label: str = ""
    followed: FollowedTexts | None = None
    tested_tokens: int | None = None

    def build(self, pair: LoadedPair) -> Decoder:
        made = build_decoder(
            self.name,
            pair,
            self.settings,
            self.ids,
            without_mistake=self.without_mistake,
            label=self.label,
            followed=self.followed,
        )
        return replace(made, tested_tokens=self.tested_tokens)


@dataclass(frozen=True, slots=True)
class SamplingTask:
    """A run's shards as items of a task. A worker may read the files that its settings name: they come from a command line."""

    pair: PairRef
    spec: SamplingSpec

    def prepare(self) -> Callable[[ShardRange, ProgressCallback], Samples]:
        allow_paths(self.spec.settings)
        decoder = self.spec.build(self.pair.load())
        return lambda shard, on_progress: decoder.sample(self.spec.mode, *shard, on_progress)


def draw_shard(
    pair: LoadedPair, spec: SamplingSpec, shard: ShardRange, on_progress: ProgressCallback = ignore_progress
) -> Samples:
    """The samples of a shard: a pure function of its arguments."""
    return spec.build(pair).sample(spec.mode, *shard, on_progress)


def draw_together(
    pair: LoadedPair, specs: Sequence[SamplingSpec], shard: ShardRange, on_progress: ProgressCallback = ignore_progress
) -> list[Samples]:
    """The same samples of several decoders: a pure function of its arguments. The target is read once where that is possible."""
    decoders = [spec.build(pair) for spec in specs]
    seedless = [replace(spec.settings, seed=0) for spec in specs]
    is_plain = all(spec.mode == SHARED and spec.name in ("speculative", TARGET) for spec in specs)
    if is_plain and all(one == seedless[0] for one in seedless):
        return sample_together(decoders, *shard, on_progress)
    steps = [lambda share, number=number: on_progress((number + share) / len(specs)) for number in range(len(specs))]
    return [one.sample(spec.mode, *shard, step) for one, spec, step in zip(decoders, specs, steps, strict=True)]


def write_texts(
    pair: LoadedPair, spec: SamplingSpec, count: int, length: int, on_progress: ProgressCallback = ignore_progress
) -> tuple[tuple[tuple[int, ...], ...], DraftingCounts]:
    """The first ``count`` texts of a decoder through the engine, ``length`` tokens each, and what became of its draft tokens."""
    texts = spec.build(pair).decode_rounds(range(count), length, on_progress)
    written = tuple(tuple(token for round_ in rounds for token in round_.committed) for rounds in texts)
    return written, DraftingCounts.from_rounds(spec.label or spec.name, texts)


def describe_run(name: str, pair: LoadedPair, settings: Settings, draws: int, seconds: float, tv: float) -> dict[str, Any]:
    """Everything that determines the samples, including the models and versions of this machine."""
    is_followed = count_whole_samples(draws, pair.vocabulary) < draws  # the cells then decide how far samples are drawn
    return {
        "decoder": name,
        "settings": settings.to_record(),
        "draws": draws,
        "seconds": seconds,
        **({"min_tv": tv} if is_followed else {}),
        **describe_models(pair),
    }


def compute_shard_sizes(mode: str, n: int) -> list[int]:
    """Sizes of the shards, in order. In float32 a sample very close to an edge may depend on the other samples of its shard."""
    pilot = [] if mode in UNTIMED else [min(n, PILOT)]
    left, size = n - sum(pilot), SHARD_SIZES.get(mode, ONE_BY_ONE)
    return pilot + [min(size, left - done) for done in range(0, left, size)]


class Session:
    """Samples of one decoder under a plan: draw them in each mode, or count those drawn elsewhere; test them; report.

    Args:
        decoder: What is sampled.
        plan: How it is sampled and tested.
        saved: The samples drawn so far; they grow.
        executor: Who draws the shards; None: this process.
        cells: Of a plan with looks, made before; None: they are made when samples are first counted.
    """

    def __init__(
        self,
        decoder: Decoder,
        plan: SamplingPlan = SINGLE,
        saved: SavedSamples | None = None,
        executor: Executor | None = None,
        cells: SequentialCells | None = None,
    ):
        self.decoder, self.plan, self.executor = replace(decoder, tested_tokens=plan.tested_tokens), plan, executor
        self.saved = saved or SavedSamples.open(None, {})
        self.samples: dict[str, Samples] = {}
        self.coverage: dict[str, Coverage | None] = {}
        self.reports: dict[str, TestReport] = {}
        self.n = 0  # samples counted, in the cells of a plan with looks
        self.counted: Coverage | None = Coverage()  # what they exercised
        self.shown = np.zeros(0, dtype=np.int64)  # (C,) in the cells of the picture
        self.look_counts: list[np.ndarray] = []  # (C,) for each look, in its own cells
        self._planned: dict[str, tuple[TestPlan, Partition]] = {}  # what was fixed before a mode's samples were drawn
        self._cells: SequentialCells | None = None
        if cells is not None:
            self._set_cells(cells)
        self._models: tuple[LanguageModel, LanguageModel] | None = None
        self._reference: Samples | None = None

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes in which the plan has the decoder sampled. Raises SettingsError where it cannot be."""
        return list_sampling_modes(self.decoder.name, self.decoder.settings, self.plan.mode)

    def run(self, on_stage: Callable[[str], ProgressCallback]) -> dict[str, Any]:
        """Draw and test in every mode, and report.

        ``on_stage``: what is being done -> what is called with the share of it that is done; may raise to stop.
        """
        self._open()
        for mode in self.modes:
            self.draw(mode, on_stage(f"{self.decoder.name}, {mode}: drawing"))
            self.test(mode, on_stage(f"{self.decoder.name}, {mode}: testing"))
        return self.report()

    def report_interrupted(self, on_progress: ProgressCallback = ignore_progress) -> dict[str, Any] | None:
        """The certificate of what was drawn when an interrupt came; None where that is nothing.

        Of a mode that was being drawn through the engine, the whole shards count: which samples of another shard are done depends on what they are.
        What they detect takes the place of the plan's distance. Nothing is computed without samples.
        """
        note = ""
        for mode in self.modes:
            part = self.saved.parts.get(mode)
            if mode in self.reports or mode == SHARED or part is None or not len(part.tokens):
                continue
            self.keep(mode, Samples(part.tokens, self.decoder.settings.to_record(), part.source), part.coverage)
            self.test(mode, on_progress, self.plan.plan_single_test(*part.tokens.shape))
            note = f"{mode}: interrupted after {len(part.tokens):,} of {part.n:,} samples."
        return self.report(note=note, is_computed=False) if self.reports else None

    def draw(self, mode: str, on_progress: ProgressCallback = ignore_progress) -> Samples:
        """Draw the planned number of samples in a mode of UNTIMED; otherwise as many as fit into the planned seconds.

        At least a pilot is drawn. Saved samples are not drawn again. The number of samples depends on the pilot's speed, never on its content, and is saved too.
        """
        if mode == SHARED and self.plan.looks is None:
            self._plan_followed(mode)
        decoder, saved = self.decoder, self.saved
        if mode not in saved.parts:
            saved.parts[mode] = self._begin(mode)
        part, size = saved.parts[mode], SHARD_SIZES.get(mode, ONE_BY_ONE)
        if self.executor is not None and part.n - len(part.tokens) > size:
            left = [ShardRange(first, min(size, part.n - first)) for first in range(len(part.tokens), part.n, size)]
            spec = SamplingSpec(
                decoder.name, mode, decoder.settings, decoder.prompt,
                followed=decoder.followed, tested_tokens=decoder.tested_tokens,
            )  # fmt: skip
            drawn = self.executor.run_all(SamplingTask(PairRef.from_pair(decoder.pair, decoder.settings), spec), left)
            _add_in_order(drawn, part, saved, on_progress)

        def keep(state: ShardState) -> None:
            part.half = state
            saved.write_if_due()

        def report_share(first: int, count: int, share: float) -> None:
            on_progress((first + count * share) / part.n)

        while (first := len(part.tokens)) < part.n:
            count = min(size, part.n - first)
            step = partial(report_share, first, count)
            part.add(decoder.sample(mode, first, count, step, part.half and replace(part.half), keep))
            saved.write_if_due()
        on_progress(1.0)
        self.keep(mode, Samples(part.tokens, decoder.settings.to_record(), part.source), part.coverage)
        return self.samples[mode]

    def keep(self, mode: str, samples: Samples, coverage: Coverage | None = None) -> None:
        """Keep samples for ``test``. coverage: what they exercised; None: as they say."""
        self.samples[mode], self.coverage[mode] = samples, coverage or samples.coverage

    def draw_exactly(self, mode: str, n: int, on_progress: ProgressCallback = ignore_progress, blocks: Blocks = ()) -> Samples:
        """Draw ``n`` samples, whatever number is planned, in the shards in which ``draw`` draws them.

        ``blocks``: which samples of the seed, on shared distributions; empty: the first ones.
        """
        if blocks:
            drawn = self.decoder.sample_blocks(blocks, on_progress)
        else:
            shards: list[Samples] = []
            first = 0
            for count in compute_shard_sizes(mode, n):
                step = partial(lambda first, count, share: on_progress((first + count * share) / n), first, count)
                shards.append(self.decoder.sample(mode, first, count, step))
                first += count
            drawn = join_samples(shards)
        self.keep(mode, drawn)
        return drawn

    @property
    def cells(self) -> SequentialCells:
        """The cells of a plan with looks."""
        if self._cells is None:
            decoder = self.decoder
            settings = replace(decoder.settings, seed=0)
            self._set_cells(make_cells(decoder.pair, settings, CELLS, LEAST, prompt=decoder.prompt, plan=self.plan))
        assert self._cells is not None
        return self._cells

    def _set_cells(self, cells: SequentialCells) -> None:
        self._cells = cells
        self.shown = np.zeros(len(cells.shown.names), dtype=np.int64)
        self.look_counts = [np.zeros(len(one.names), dtype=np.int64) for one in cells.tests]

    def count(self, samples: Samples) -> Increment:
        """Count the next samples, and run the test of each look that they complete, on exactly its number of samples."""
        counts, due, looks = {}, {}, self.plan.looks
        for look, cells in enumerate(self.cells.tests):
            assert looks is not None
            if self.n >= (size := looks.count_samples(look)):
                continue
            part = samples.slice_samples(0, min(len(samples), size - self.n))
            counts[look] = cells.count_samples(part)
            self.look_counts[look] += counts[look]
            if self.n + len(part) == size:
                plan, coverage = self.plan.plan_look(look, cells.length), add_coverage(self.counted, part.coverage)
                due[look] = run_count_tests(
                    plan, cells, self.look_counts[look], self.decoder.label, coverage, self.decoder.is_control
                )
        shown = self.cells.shown.count_samples(samples)
        self.shown += shown
        self.n += len(samples)
        self.counted = add_coverage(self.counted, samples.coverage)
        return Increment(shown, counts, samples.coverage, due)

    def restore(self, count: int, record: dict[str, Any]) -> None:
        """Count samples that were counted before: their number, and ``Increment.to_record`` of them."""
        self.n += count
        for cell, times in record["shown"].items():
            self.shown[int(cell)] += times
        for look, counts in record["looks"].items():
            for cell, times in counts.items():
                self.look_counts[int(look)][int(cell)] += times
        exercised = record.get("exercised")
        self.counted = add_coverage(self.counted, exercised and Coverage.from_record(exercised))

    def test(
        self,
        mode: str,
        on_progress: ProgressCallback = ignore_progress,
        plan: TestPlan | None = None,
        partition: Partition | None = None,
        blocks: Blocks = (),
        extra: Sequence[str] | None = None,
    ) -> TestReport:
        """Test the samples of a mode.

        Args:
            mode: One in which samples were drawn.
            on_progress: Called with the share that is done.
            plan: None: for the planned distance; after the first mode, for what the samples of a mode allow.
            partition: The cells; None: they are made for the plan.
            blocks: Which samples of the seed they are; empty: the first ones.
            extra: Names of the registered statistics to compute beside the built-in tests; None: all.
        """
        decoder, samples = self.decoder, self.samples[mode]
        (target, draft), reference = self._open()
        if plan is None and partition is None and mode in self._planned:
            plan, partition = self._planned[mode]
        if plan is None:
            make_plan = TestPlan.for_samples if self.reports else TestPlan.for_distance
            plan = make_plan(len(samples), samples.tokens.shape[1], self.plan.min_tv)
        whole_samples = decoder.followed.whole_samples if mode == SHARED and decoder.followed is not None else None
        report = run_tests(
            plan, target, draft, decoder.prompt, samples, mode, decoder.eos_token_ids, reference, on_progress, partition,
            self.coverage[mode], decoder.is_control, extra, whole_samples,
        )  # fmt: skip
        borderline = decoder.count_borderline(report.partition, len(samples), blocks)
        self.reports[mode] = replace(report, borderline=borderline)
        return self.reports[mode]

    def report(
        self, blocks: Blocks = (), files: Sequence[dict[str, Any]] = (), note: str = "", is_computed: bool = True
    ) -> dict[str, Any]:
        """The certificate of all tested modes, JSON-ready.

        Args:
            blocks: Which samples of the seed they are; empty: the first ones.
            files: Descriptions of the sample files, if there are any.
            note: A sentence about these files, or about an interrupt.
            is_computed: Whether the decoder's own distribution is computed too, where it was sampled through the engine.
        """
        decoder = self.decoder
        is_computed = is_computed and self.plan.mode != "shared-distributions"
        analytic_tv = decoder.compute_analytic_tv() if is_computed else None
        reports = list(self.reports.values())
        return build_report(decoder.label, reports, decoder.pair, decoder.settings, analytic_tv, files, note, blocks)

    def _open(self) -> tuple[tuple[LanguageModel, LanguageModel], Samples | None]:
        """The models that tests read, and target-only samples, opened once."""
        if self._models is None:
            self._models = self.decoder.open_models()
        if self._reference is None and self.plan.reference != 0:
            self._reference = self.decoder.sample_target(self.plan.reference)
        return self._models, self._reference

    def _plan_followed(self, mode: str) -> None:
        """Fix plan and cells of samples that are drawn until their cell is known, where drawing all of them to their end takes too long."""
        decoder, n = self.decoder, self.plan.samples
        if count_whole_samples(n, decoder.pair.vocabulary) >= n:
            return
        (target, _), _ = self._open()
        length = build_first_prefix(decoder.prompt, decoder.settings, target.context).remaining
        plan = TestPlan.for_distance(n, length, self.plan.min_tv)
        partition = build_partition(target, decoder.prompt, length, plan.max_cells, plan.min_mass, decoder.eos_token_ids)
        self._planned[mode] = plan, partition
        self.decoder = follow_cells(decoder, partition, count_whole_samples(n, decoder.pair.vocabulary))

    def _begin(self, mode: str) -> ModeSamples:
        most = self.plan.samples
        if mode in UNTIMED:
            return ModeSamples(most, self.decoder.label, np.zeros((0, 0), dtype=np.int32))
        workers = self.executor.size if self.executor else 1
        marks = [time.perf_counter()]
        pilot = self.decoder.sample(mode, 0, min(most, PILOT), lambda *_: marks.append(time.perf_counter()))
        fitting = self.plan.count_fitting(_estimate_usual_seconds(marks) / len(pilot) / workers)
        n = max(len(pilot), min(most, fitting))
        return ModeSamples(n, pilot.source, pilot.tokens, coverage=pilot.coverage)


def follow_cells(decoder: Decoder, partition: Partition, whole_samples: int | None) -> Decoder:
    """The decoder with samples drawn until their cell is known, and the first ``whole_samples`` to their end; None: all to their end."""
    return replace(decoder, followed=None if whole_samples is None else FollowedTexts(whole_samples, partition.inner_names))


def _estimate_usual_seconds(marks: Sequence[float]) -> float:
    """Seconds between these moments if the first quarter of the steps took the median of the others.

    In the first steps threads are chosen and weights first read. The last ones are quick, because few rows are left, but belong to the time
    of these samples.
    """
    steps = [after - before for before, after in pairwise(marks)]
    early = -(-len(steps) // 4) if len(steps) > 1 else 0
    return sum(steps[early:]) + early * median(steps[early:])


def _add_in_order(
    shards: Iterator[tuple[ShardRange, Samples]], part: ModeSamples, saved: SavedSamples, on_progress: ProgressCallback
) -> None:
    """Add shards that come in any order. The saved samples grow in order, so a shard waits here for those before it."""
    waiting: dict[int, Samples] = {}
    for _, samples in shards:
        waiting[samples.first] = samples
        while (following := waiting.pop(len(part.tokens), None)) is not None:
            part.add(following)
        saved.write_if_due()
        on_progress((len(part.tokens) + sum(map(len, waiting.values()))) / part.n)


@dataclass(frozen=True, slots=True)
class Increment:
    """What samples added to the counts of a session."""

    shown: np.ndarray  # (C,) counts in the cells of the picture
    looks: dict[int, np.ndarray]  # in those of each look that had not come before
    coverage: Coverage | None  # what they exercised
    due: dict[int, TestReport]  # tests of the looks that they completed, by number

    def to_record(self) -> dict[str, Any]:
        """JSON-ready, for ``Session.restore``."""
        exercised = self.coverage and self.coverage.to_record()
        looks = {str(look): _encode_sparse(counts) for look, counts in self.looks.items()}
        return {"shown": _encode_sparse(self.shown), "looks": looks, "exercised": exercised}


def _encode_sparse(counts: np.ndarray) -> dict[str, int]:
    return {str(cell): int(counts[cell]) for cell in np.flatnonzero(counts)}


class SideBySide:
    """Sessions of several decoders whose samples accumulate together; the target is read once for all, where that is possible.

    Args:
        pair: The models.
        specs: The decoders.
        cells: Of the picture and of each look.
        labels: What the cells of the picture are called.
        tested: How many of the decoders are tested, from the first.
        plan: With looks.
    """

    def __init__(
        self,
        pair: LoadedPair,
        specs: Sequence[SamplingSpec],
        cells: SequentialCells,
        labels: tuple[str, ...],
        tested: int,
        plan: SamplingPlan = INTERIM,
    ):
        self.pair, self.specs, self.cells, self.labels = pair, tuple(specs), cells, labels
        untested = replace(cells, tests=())
        self.sessions = [
            Session(spec.build(pair), plan, cells=cells if number < tested else untested) for number, spec in enumerate(specs)
        ]

    @property
    def n(self) -> int:
        """Samples of each decoder so far."""
        return self.sessions[0].n

    def draw(
        self,
        count: int,
        on_progress: ProgressCallback = ignore_progress,
        modes: Sequence[str] = (),
        call: Callable[..., Any] | None = None,
    ) -> list[Samples]:
        """The next ``count`` samples of each decoder. ``test`` counts them.

        ``modes``: in which each decoder is sampled; empty: as its spec says. ``call``: (function, arguments, on_progress) -> its
        result, to draw elsewhere; None: here.
        """
        specs = [replace(spec, mode=mode) for spec, mode in zip(self.specs, modes, strict=True)] if modes else self.specs
        given = tuple(specs), ShardRange(self.n, count)
        return call(draw_together, given, on_progress) if call else draw_together(self.pair, *given, on_progress)

    def test(self, samples: Sequence[Samples]) -> tuple[tuple[InterimTest, ...], ...]:
        """Count the next samples of each decoder, and test the looks that they complete: for each look, the result of every tested decoder."""
        added = [session.count(one) for session, one in zip(self.sessions, samples, strict=True)]
        looks = sorted({look for one in added for look in one.due})
        return tuple(tuple(one.due[look].to_interim() for one in added if look in one.due) for look in looks)

    def extend_curve(self, curve: DistanceCurve) -> DistanceCurve:
        """The curve with one more point: the samples counted so far."""
        return curve.with_point(self.n, self.cells.shown.masses, [session.shown for session in self.sessions])

    def report(self) -> tuple[CellShares, ...]:
        """The samples of each decoder so far, in the cells of the picture."""
        cells = self.cells.shown
        fixed = self.labels, cells.is_whole_text.tolist(), cells.masses
        return tuple(CellShares.from_counts(one.decoder.label, *fixed, one.shown.tolist(), one.n) for one in self.sessions)


def compute_seed_p_values(
    pair: LoadedPair, settings: Settings, ids: Sequence[int], seeds: int, samples: int, draw: Callable[[Settings], Samples]
) -> Iterator[float]:
    """Chi-square p-values, each in [0, 1], of the seeds after the next one, on cells of their own that are fixed before.

    The p-values of an exact decoder are uniform on [0, 1].

    ``ids``: of the prompt. ``samples``: of each seed. ``draw``: (settings with a seed of their own) -> so many samples.

    Raises SpecvizError where the distribution has a single cell.
    """
    target, _ = pair.open(settings)
    cells = build_partition(target, ids, settings.max_new_tokens, SEED_CELLS, 5.0 / samples, pair.eos_token_ids)
    if (cells.masses > 0).sum() < 2:
        raise SpecvizError("P-values need a distribution with several cells; here all samples fall into one.")
    probs = cells.masses / cells.masses.sum()
    for number in range(seeds):
        own = replace(settings, seed=(settings.seed + 2 + number) % 2**63)
        yield compute_chi_square(cells.count_samples(draw(own)), probs).p_value
