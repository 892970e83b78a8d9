"""What runs in the queue for Is it exact?: samples in shards, looks, p-values under many seeds, and files of samples.

Every step ticks its ticket several times a second. A shard is a pure function of (settings, first, count), so draws add up
over clicks, and a stopped click has lost nothing but its last shard. Of a million draws only counts are kept.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from specviz.errors import SpecvizError
from specviz.figures.exactness.evidence import Filling, Flat, label
from specviz.web.common import cache, loads
from specviz.web.common.queue import Ticket
from specviz.web.exactness.bench import BAND, SHOWN, Bench, only_outcome
from specviz.web.exactness.state import SEED_DRAWS, SEEDS, SOURCES, Drawn, Exam, Filed, Upload, guessed, started

if TYPE_CHECKING:
    from specviz.decoding.samples import Samples

THROUGH_ENGINE = 100  # a click of so many draws or fewer goes through the engine, caches and all
SHARD = 250_000  # most draws of a shard: memory, and how often the picture fills
ENGINE_SHARD = 2000  # where the engine alone draws: some seconds between two pictures
SLOW_SHARD = 8  # of a decoder that draws one text at a time: well under a second
TEXTS = 200  # latest draws that are searched for two different texts
TV, TV_OF_TWO = 0.01, 0.1  # distance that a file must show, where its samples can; that two files must show
_global_generator = threading.Lock()  # transformers draws from torch's one global generator


def prepared(exam: Exam, ticket: Ticket) -> Bench:
    """The bench, made once; the picture shows the law before anything is drawn."""
    if exam.bench is None:
        settings, bench = exam.question.settings, Bench(exam, ticket)
        own = guessed(settings) if exam.question.source == "speculative" else ""
        notes = tuple(filter(None, (started(settings), own, only_outcome(bench))))
        exam.put(ticket, bench=bench, drawn=Drawn(bench.picture(names(exam)), notes=notes))
    ticket.tick(1.0)
    return exam.bench


def names(exam: Exam) -> tuple[str, str]:
    """What stands over the two pictures."""
    source = exam.question.source
    return SOURCES[source], SOURCES["target"] + (", another seed" if source == "target" else "")


def draw(exam: Exam, ticket: Ticket, count: int) -> None:
    """So many more draws of both arms, shard by shard; a look as soon as its number is reached."""
    bench, done = prepared(exam, ticket), 0
    while done < count:
        size = shard_size(exam, bench.n, count - done, count)

        def watch(share: float, arm: int, done: int = done, size: int = size) -> None:
            ticket.tick((done + size * (share + arm) / 2.0) / count, f"Sampling {bench.n:,} to {bench.n + size:,}")

        arms = [_drawn(exam, bench, arm, size, count, lambda share, arm=arm: watch(share, arm)) for arm in (0, 1)]
        _add(exam, ticket, bench, arms, through_engine(exam, count))
        done += size
        ticket.tick(done / count)


def shard_size(exam: Exam, n: int, left: int, asked: int) -> int:
    """Draws of the next shard: never past a look, so that each look judges exactly its number of draws."""
    from specviz.evidence.looks import LOOKS

    most = SLOW_SHARD if exam.question.source == "assisted" else ENGINE_SHARD if engine_alone(exam) else SHARD
    to_look = [LOOKS.n(look) - n for look in range(LOOKS.looks) if LOOKS.n(look) > n]
    return min([left, most, *to_look])


def through_engine(exam: Exam, asked: int) -> bool:
    """Whether the decoder under examination draws through the engine: few draws do, and all of a proposer that shared laws lack."""
    return exam.question.source != "assisted" and (asked <= THROUGH_ENGINE or engine_alone(exam))


def engine_alone(exam: Exam) -> bool:
    from specviz.evidence import sources

    return exam.question.source != "assisted" and bool(sources.engine_alone(exam.question.source, exam.question.settings))


def _drawn(exam: Exam, bench: Bench, arm: int, size: int, asked: int, watch) -> Samples:
    """A shard of one arm. The second arm is the target alone, under the next seed."""
    from specviz.evidence import sources

    settings = exam.question.settings
    if arm == 0 and exam.question.source == "assisted":
        while not _global_generator.acquire(timeout=0.1):
            watch(0.0)
        try:  # nothing ticks in here: who gives way to others must not hold what they wait for
            return sources.draw("assisted", "", bench.pair, settings, bench.ids, bench.n, size)
        finally:
            _global_generator.release()
    name = exam.question.source if arm == 0 else "target"
    settings = settings if arm == 0 else replace(settings, seed=(settings.seed + 1) % 2**63)
    mode = sources.ENGINE if asked <= THROUGH_ENGINE or (arm == 0 and engine_alone(exam)) else sources.SHARED
    return sources.draw(name, mode, bench.pair, settings, bench.ids, bench.n, size, watch)


def _add(exam: Exam, ticket: Ticket, bench: Bench, arms: list[Samples], engine: bool) -> None:
    """Count a shard in, look where a look is due, and show it. All or nothing: nothing here asks whether to stop."""
    from specviz.evidence import looks

    seen, size, found = exam.drawn, len(arms[0]), list(exam.drawn.looks)
    for counts, samples in zip(bench.counts, arms, strict=True):
        counts += bench.cells.counts(samples)
    for look, cells in enumerate(bench.looks):
        if bench.n < looks.LOOKS.n(look):
            bench.look_counts[look] += cells.counts(arms[0])
    bench.n += size
    for look, cells in enumerate(bench.looks):
        if bench.n == looks.LOOKS.n(look):
            found.append((look, looks.judge(look, cells, bench.look_counts[look], "draws as they came")))
    more = {"texts": _texts(bench, arms) or seen.texts, "engine": seen.engine + (size if engine else 0)}
    exam.put(ticket, drawn=replace(seen, arms=bench.picture(names(exam)), looks=tuple(found), **more))


def _texts(bench: Bench, arms: list[Samples]) -> tuple[int, str, str] | None:
    """The latest draw of which the two arms wrote different texts."""
    from specviz.decoding.samples import NONE

    for back in range(1, min(TEXTS, len(arms[0])) + 1):
        rows = [samples.tokens[-back] for samples in arms]
        if not np.array_equal(*rows):
            written = [bench.pair.decode([token for token in row.tolist() if token != NONE]) for row in rows]
            return arms[0].first + len(arms[0]) - back + 1, *written
    return None


def many_seeds(exam: Exam, ticket: Ticket, seeds: int = SEEDS, draws: int = SEED_DRAWS) -> None:
    """One p-value for each of many seeds: chi-square of few draws on cells of their own, fixed before."""
    bench = prepared(exam, ticket)
    from specviz.evidence import sources
    from specviz.evidence.partition import exact_partition
    from specviz.statistics.goodness import chi_square
    from specviz.statistics.variation import cell_band

    settings, stops = exam.question.settings, bench.pair.eos_token_ids
    mode = sources.ENGINE if engine_alone(exam) else sources.SHARED
    target, _ = bench.pair.open(settings)
    cells = exact_partition(target, bench.ids, settings.length, 16, 5.0 / draws, stops)
    if (cells.masses > 0).sum() < 2:
        raise SpecvizError("P-values need a distribution with several cells; here all samples fall into one.")
    law, values = cells.masses / cells.masses.sum(), []
    for number in range(seeds):
        ticket.tick(number / seeds, f"Run {number + 1} of {seeds}")
        own = replace(settings, seed=(settings.seed + 2 + number) % 2**63)
        samples = sources.draw(exam.question.source, mode, bench.pair, own, bench.ids, 0, draws, lambda share: ticket.tick())
        values.append(chi_square(cells.counts(samples), law).p_value)
        if len(values) % 40 == 0 or len(values) == seeds:
            ((low, *_), (high, *_)) = cell_band([0.1] * 10, len(values), 1.0 - (1.0 - BAND) / 10) * len(values)
            exam.put(ticket, drawn=replace(exam.drawn, flat=Flat(tuple(values), draws, round(low), round(high))))
    ticket.tick(1.0)


def examine_files(exam: Exam, ticket: Ticket, uploads: Sequence[Upload]) -> None:
    """One file against the law of the target, or two against each other. The report takes its place only when it is whole."""
    loads.libraries(ticket)
    from specviz.evidence.sample_files.reading import parse
    from specviz.evidence.sample_files.two_files import compare

    settings = exam.question.settings
    heaps = [parse(one.content, Path(one.name).name[:80], lambda share: ticket.tick(0.3 * share, "Reading")) for one in uploads]
    if len(heaps) == 2:
        ticket.tick(0.5, "Comparing the two files")
        found = compare(*heaps, TV_OF_TWO, settings.seed, lambda share: ticket.tick(0.5 + 0.5 * share))
        return exam.put(ticket, filed=Filed(found))
    from specviz.evidence.experiment import Plan
    from specviz.evidence.sample_files.against_weights import against_distribution

    pair = loads.waited(ticket, (settings.pair, settings.device, settings.dtype), cache.weights)
    ticket.tick(0.3, "Computing the exact distribution")

    def plan(n: int, length: int) -> Plan:
        return Plan.fitting(n, length, TV)

    asked = replace(settings, prompt=heaps[0].prompt)
    report = against_distribution(
        heaps[0], asked, plan, pair, lambda share: ticket.tick(0.3 + 0.7 * share, "Testing the samples")
    )
    exam.put(ticket, filed=Filed(report, _heaviest(report)))


def _heaviest(report: Mapping[str, Any]) -> Filling:
    """The heaviest cells of a report, with the band that chance leaves all of them in."""
    from specviz.statistics.variation import cell_band

    one, pieces = report["answers"][0], {int(token): raw for token, raw in report["pieces"].items()}
    cells = sorted(one["cells"], key=lambda cell: -cell["mass"])[:SHOWN]
    law = np.array([cell["mass"] for cell in cells]) / sum(cell["mass"] for cell in one["cells"])
    low, high = cell_band(law, one["n"], 1.0 - (1.0 - BAND) / len(law)).tolist()
    names = tuple(label(cell["begins"], cell["whole"], pieces) for cell in cells)
    columns = (tuple(cell["whole"] for cell in cells), tuple(law.tolist()), tuple(cell["count"] for cell in cells))
    return Filling(report["decoder"], names, *columns, tuple(low), tuple(high), one["n"])
