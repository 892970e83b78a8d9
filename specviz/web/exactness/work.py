"""What runs in the queue for Exactness test: samples in shards, p-values of many seeds, and reports on sample files."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specviz.errors import EvidenceError
from specviz.evidence.mistakes.comparison import POINTS
from specviz.evidence.testing.results import SEED_SAMPLES, SEEDS, ExactnessResult, FillStep, SeedPValues
from specviz.export.manifest import find_drafting_changes
from specviz.jobs.queue import Ticket
from specviz.progress import ProgressCallback
from specviz.settings import CUT_FIELDS, Settings
from specviz.web.common.side_by_side import work as sampling
from specviz.web.common.side_by_side.work import SHARD, SamplingWorkspace, encode_settings, report_part
from specviz.web.exactness.state import AT_ONCE, SERVER, SOURCES, ExactnessState, SampleUpload, ServerRequest, list_sources
from specviz.web.exactness.words import list_audit_words
from specviz.web.hosting import cache, limits, model_loading, server_workers

if TYPE_CHECKING:
    from specviz.decoding.samples import Samples

THROUGH_ENGINE = 100  # most samples of a click that runs through the engine and its caches
ENGINE_SHARD = 2000  # where only the engine can draw: some seconds between two pictures
SLOW_SHARD = 8  # of a decoder that writes one text at a time: well under a second
SILENCE = 60.0  # seconds that a server may take for an answer
TV_OF_SERVER = 0.02
TV, TV_OF_TWO = 0.01, 0.1  # distance that a file must show, where its samples can; that two files must show
STARTS = cache.ResultCache(64)  # the same record for all who ask the same, so that its pictures are drawn once
_global_generator = threading.Lock()  # transformers draws from torch's one global generator


def prepare_session(state: ExactnessState, ticket: Ticket) -> SamplingWorkspace:
    """The bench, made once; the picture shows the exact distribution before anything is sampled."""
    if state.bench is None:
        model_loading.wait_for_libraries(ticket)
        from specviz.evidence.sampling.session import SamplingSpec

        settings, source = state.question.settings, state.question.source
        names = SOURCES[source], SOURCES["target"] + (", another seed" if source == "target" else "")
        other = replace(settings, seed=(settings.seed + 1) % 2**63)

        def make_specs(ids: tuple[int, ...]) -> list[SamplingSpec]:
            asked = ((source, settings, names[0]), ("target", other, names[1]))
            return [SamplingSpec(name, "", own, ids, label=label) for name, own, label in asked]

        bench = SamplingWorkspace(settings, make_specs, 1, ticket)
        changes = find_drafting_changes(settings.to_record()) if source == "speculative" else {}
        others = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in changes.items())
        notes = bench.describe_distribution(settings, f"As the link asks: {others}." if others else "")
        left, right = bench.session.report()
        first = STARTS.get_or_compute((encode_settings(settings), source), lambda: ExactnessResult((left, right), notes=notes))
        state.store(ticket, bench=bench, result=first)
    ticket.tick(1.0)
    return state.bench


def draw_samples(state: ExactnessState, ticket: Ticket, count: int) -> None:
    """Draw ``count`` more samples of the decoder, and of target-only sampling under the next seed."""
    bench = prepare_session(state, ticket)
    from specviz.evidence.decoder import ENGINE, SHARED, explain_engine_only

    settings, source = state.question.settings, state.question.source
    only_engine, few = bool(explain_engine_only(source, settings)), count <= THROUGH_ENGINE
    most = SLOW_SHARD if source == "assisted" else ENGINE_SHARD if only_engine else SHARD
    modes = [ENGINE if engine else SHARED for engine in (few or only_engine, few)]

    def draw_both(size: int, on_progress: ProgressCallback) -> list[Samples]:
        if source != "assisted":
            return bench.draw(size, on_progress, modes)
        while not _global_generator.acquire(timeout=0.1):
            on_progress(0.0)
        try:  # nothing ticks in here: work that gives way to others must not hold what they wait for
            return bench.session.draw(size, modes=modes)
        finally:
            _global_generator.release()

    def build_changes(result: ExactnessResult, arms: Sequence[Samples]) -> dict[str, Any]:
        through = len(arms[0]) if source != "assisted" and modes[0] == ENGINE else 0
        found: dict[str, Any] = {"engine": result.engine + through}
        if bench.n in POINTS:
            found["steps"] = (*result.steps, FillStep.from_shares(bench.session.report()[0]))
        return found

    sampling.draw_in_shards(state, ticket, count, most, POINTS, draw_both, build_changes)


def run_many_seeds(state: ExactnessState, ticket: Ticket, seeds: int = SEEDS, samples: int = SEED_SAMPLES) -> None:
    """One p-value for each of many seeds: chi-square of few samples on cells of their own, fixed before."""
    bench = prepare_session(state, ticket)
    from specviz.evidence.decoder import ENGINE, SHARED, explain_engine_only
    from specviz.evidence.sampling.session import SamplingSpec, ShardRange, compute_seed_p_values, draw_shard

    settings, source = state.question.settings, state.question.source
    mode = ENGINE if explain_engine_only(source, settings) else SHARED
    values: list[float] = []

    def draw(own: Settings) -> Samples:
        ticket.tick(len(values) / seeds, f"Run {len(values) + 1} of {seeds}")
        limits.get_sample_allowance().grant(ticket.visitor, samples)
        given = SamplingSpec(source, mode, own, bench.ids), ShardRange(0, samples)
        return server_workers.run_in_worker(draw_shard, bench.pair, own, given, lambda *_: ticket.tick(), str(given[1]))

    for value in compute_seed_p_values(bench.pair, settings, bench.ids, seeds, samples, draw):
        values.append(value)
        if len(values) % 40 == 0 or len(values) == seeds:
            state.store(ticket, result=replace(state.result, p_values=SeedPValues.from_values(values, samples)))
    ticket.tick(1.0)


def examine_files(state: ExactnessState, ticket: Ticket, uploads: Sequence[SampleUpload]) -> None:
    """One file against the target's distribution, or two against each other. A report takes its place only when it is whole."""
    model_loading.wait_for_libraries(ticket)
    from specviz.evidence.sampling.sample_files import compare_files, parse_samples, report_file

    settings = state.question.settings
    files = [parse_samples(one.content, Path(one.name).name[:80], report_part(ticket, 0.0, 0.3, "Reading")) for one in uploads]
    for one in files:
        limits.check_text("prompt", one.prompt)
    if len(files) == 2:
        ticket.tick(0.5, "Comparing the two files")
        found = compare_files(files[0], files[1], TV_OF_TWO, settings.seed, report_part(ticket, 0.5, 1.0))
        return state.store(ticket, report=found)
    pair = model_loading.wait_for_pair(ticket, settings)
    ticket.tick(0.3, "Computing the exact distribution")

    asked, on_progress = (
        (files[0], replace(settings, prompt=files[0].prompt), TV),
        report_part(ticket, 0.3, 1.0, "Testing the samples"),
    )
    state.store(ticket, report=server_workers.run_in_worker(report_file, pair, settings, asked, on_progress, "a file of samples"))


def audit_server(state: ExactnessState, ticket: Ticket, request: ServerRequest) -> None:
    """Run the preflight checks, collect, and test. Samples stay while the question does, so that work that was stopped goes on."""
    assert SERVER in list_sources(), "only a local server asks others"
    model_loading.wait_for_libraries(ticket)
    from specviz.audit.collection.audited_server import AuditTarget, add_server_records
    from specviz.audit.collection.size import CollectionSize
    from specviz.audit.findings import verdict
    from specviz.audit.protocol.endpoint import Endpoint
    from specviz.audit.protocol.sampling_request import SamplingRequest
    from specviz.evidence.sampling.sample_files import read_samples

    settings = state.question.settings
    same = {name: getattr(settings, name) for name in ("prompt", "temperature", *CUT_FIELDS)}
    sampling = SamplingRequest(max_tokens=settings.max_new_tokens, model=request.model, **same)
    if state.server_collection is None or state.server_collection[0] != request:
        state.store(
            ticket,
            server_collection=(request, tempfile.TemporaryDirectory(prefix="specviz-audit-")),
            report=None,
            server_notes=(),
        )
    assert state.server_collection is not None
    folder = Path(state.server_collection[1].name)
    pair = model_loading.wait_for_pair(ticket, settings)
    endpoint = Endpoint(request.url, "", AT_ONCE, SILENCE)
    try:
        arm = AuditTarget(endpoint, sampling, CollectionSize(int(request.samples), AT_ONCE, seed=settings.seed), "samples.jsonl")
        arm.prepare(folder, TV_OF_SERVER, pair, lambda share, doing="", /: ticket.tick(0.2 * share, doing.capitalize()))
        state.store(ticket, server_notes=tuple(arm.preparation.summary.splitlines()))
        if arm.preparation.blocking:
            raise EvidenceError(" ".join(check.sentence for check in arm.preparation.blocking))
        record = arm.collect(folder, lambda share, doing="", /: ticket.tick(0.2 + 0.6 * share, f"Collecting: {doing}"))
    finally:
        endpoint.close()
    report = verdict.build_verdict(
        read_samples(folder / arm.file),
        settings=settings,
        pair=pair,
        tv=TV_OF_SERVER,
        seed=settings.seed,
        drafted=[record.drafted],
        command=list_audit_words(settings, request.url, request.model, request.samples),
        on_progress=report_part(ticket, 0.8, 1.0, "Testing the samples"),
        requests=[arm.request],
    )
    state.store(ticket, report=add_server_records(report, [record]))
