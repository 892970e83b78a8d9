"""Two decoders sampled side by side, and tested at numbers of samples fixed beforehand: what Exactness test and Break it share.

A shard is a pure function of (settings, first, count), so samples add up over clicks, and a click that is stopped loses only
its last shard. Of a million samples only the counts stay. Torch is imported inside the work alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from specviz.errors import SpecvizError
from specviz.evidence.testing.results import CELLS, LEAST, label_cells
from specviz.jobs.queue import Ticket
from specviz.models.pairs.names import describe_draftable
from specviz.progress import ProgressCallback
from specviz.settings import Settings
from specviz.web.common.side_by_side.state import SamplingState
from specviz.web.hosting import cache, limits, metrics, model_loading, server_workers

if TYPE_CHECKING:
    from specviz.decoding.samples import Samples
    from specviz.evidence.sampling.sampling_plan import SequentialCells
    from specviz.evidence.sampling.session import SamplingSpec
    from specviz.models.pairs.loading import LoadedPair

    Sampler = Callable[[int, ProgressCallback], Sequence[Samples]]
    Fields = Callable[[Any, Sequence[Samples]], dict[str, Any]]

SHARD = 50_000  # most samples of a shard: memory, and how often the pictures are drawn again
MOMENT, SMALL = 10_000, 100_000_000  # samples that are there within a moment, by models of at most so many parameters


@dataclass(frozen=True, slots=True)
class ExactCells:
    """The exact distribution of a question on the cells of the pictures and of each test, and what the former are called."""

    ids: tuple[int, ...]
    cells: SequentialCells
    labels: tuple[str, ...]


EXACT = cache.ResultCache(32)


def compute_exact_cells(pair: LoadedPair, settings: Settings, ticket: Ticket) -> ExactCells:
    """The same for all visitors who ask the same of the target."""
    from specviz.evidence.sampling.sampling_plan import make_cells

    def compute() -> ExactCells:
        given = settings, CELLS, LEAST
        made = server_workers.run_in_worker(make_cells, pair, settings, given, lambda *_: ticket.tick(), "the exact distribution")
        cells = made.without_impossible()
        return ExactCells(tuple(pair.encode(settings.prompt)), cells, label_cells(cells.shown, pair.read_pieces))

    return EXACT.get_or_compute(encode_settings(replace(settings, seed=0)), compute)


def report_part(ticket: Ticket, low: float, high: float, doing: str | None = None) -> ProgressCallback:
    """Map one part of the work to [low, high] of the ticket's share. doing: what the page says meanwhile, None: what it said before."""

    def report(share: float, _: str = "", /) -> None:
        ticket.tick(low + (high - low) * share, doing)

    return report


def encode_settings(settings: Settings) -> str:
    """Settings as a key: equal for equal settings."""
    return json.dumps(settings.to_record(), sort_keys=True)


class SamplingWorkspace:
    """What the work of a page keeps between clicks: the open pair and the session of both decoders.

    ``make_specs``: ids of the prompt -> both decoders. ``tested``: how many of them, from the first.
    """

    def __init__(
        self, settings: Settings, make_specs: Callable[[tuple[int, ...]], Sequence[SamplingSpec]], tested: int, ticket: Ticket
    ):
        self.pair, self.settings = model_loading.wait_for_pair(ticket, settings), settings
        self.models = cache.describe_pair(settings.pair, settings.device, settings.dtype)
        self.is_small = max(self.models[role]["parameters"] for role in ("target", "draft")) <= SMALL
        ticket.tick(doing="Computing the exact distribution")
        exact = compute_exact_cells(self.pair, settings, ticket)
        from specviz.evidence.sampling.session import SideBySide

        self.ids = exact.ids
        self.session = SideBySide(self.pair, make_specs(exact.ids), exact.cells, exact.labels, tested)

    @property
    def n(self) -> int:
        """Samples of each decoder so far."""
        return self.session.n

    def draw(self, count: int, on_progress: ProgressCallback, modes: Sequence[str] = ()) -> list[Samples]:
        """The next samples of both decoders. modes: in which each is sampled; empty: as its spec says."""

        def call(function: Callable[..., Any], arguments: tuple[Any, ...], on_progress: ProgressCallback) -> Any:
            return server_workers.run_in_worker(function, self.pair, self.settings, arguments, on_progress, str(arguments[-1]))

        return self.session.draw(count, on_progress, modes, call)

    def describe_distribution(self, settings: Settings, other: str = "") -> tuple[str, ...]:
        """Sentences about an empty prompt, about ``other``, and about a distribution that leaves nothing to test."""
        empty = "" if settings.prompt else "The prompt is empty, so the text begins with the start token."
        one = ""
        if self.session.cells.shown.is_certain:
            one = "The distribution has only one outcome (temperature 0, or a cut that leaves one token): the test is equality, sample by sample."
        elif not self.session.cells.shown.can_show_difference:
            one = "No continuation is likely enough for a bar of its own, so the picture shows one bar for all. The test groups them in other cells."
        return tuple(filter(None, (empty, other, self._describe_draftable(settings), one)))

    def _describe_draftable(self, settings: Settings) -> str:
        """What the draft can propose after the prompt, where the tokenizers differ. A method that cannot draft is said when it draws."""
        from specviz.speed.measurement.text_passes import describe_pair

        with suppress(SpecvizError):
            return describe_draftable(describe_pair(self.pair, settings, [(self.ids, self.ids[-1:])]))
        return ""


def draw_in_shards(
    state: SamplingState,
    ticket: Ticket,
    count: int,
    most: int,
    ends: Sequence[int],
    sampler: Sampler,
    build_fields: Fields,
    before: int = 0,
) -> None:
    """Draw ``count`` more samples of both decoders, shard by shard. Tests see the number of samples that they were planned for.

    ``most``: samples in a shard. ``ends``: numbers of samples at which there is a test or a point, SIZES among them. ``build_fields``:
    (result before, samples of both up to the next end) -> further fields of the result, once the samples are counted. ``before``:
    samples that this piece of work has drawn already.

    A shard reads the distributions of all its samples, so it goes past the ends that small models reach within a moment.
    """
    bench, done, count = state.bench, before, before + count
    pauses = [end for end in ends if end >= MOMENT or not bench.is_small]

    while done < count:
        size = min([count - done, most, *(end - bench.n for end in pauses if end > bench.n)])
        size = limits.get_sample_allowance().grant(ticket.visitor, size)
        doing = f"Sampling {bench.n:,} to {bench.n + size:,} of each"
        arms = sampler(size, report_part(ticket, done / count, (done + size) / count, doing))
        result = state.result  # all or nothing: from here nothing asks whether to stop
        cuts = [0, *(end - bench.n for end in ends if bench.n < end < bench.n + size), size]
        for begin, end in pairwise(cuts):
            parts = [samples.slice_samples(begin, end) for samples in arms]
            result = replace(result, looks=result.looks + bench.session.test(parts))
            result = replace(result, **build_fields(result, parts))
        state.store(ticket, result=replace(result, arms=bench.session.report()))
        done += size
        metrics.SAMPLES.labels(state.page).inc(size)
        ticket.tick(done / count)
