"""Fills the records of drafting methods: each decodes the same prompts on one clock, keeps a round to be drawn, and samples its first token.

In each run of the clock all methods write the same number of tokens after each prompt, under the same seed. A first run is not timed: it warms up, and the
round that is kept is one of its.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np
import torch

from specviz.decoding.method_checks import build_rule
from specviz.decoding.run import build_trace, record_run
from specviz.decoding.sampler import Shard, sample_with_engine
from specviz.errors import SpecvizError
from specviz.glyphs import read_piece
from specviz.models.memoized import MemoizedPair
from specviz.models.pairs.loading import LoadedPair
from specviz.progress import Expect, ProgressCallback, ignore_progress, scale_progress, split_progress
from specviz.proposers.request import open_proposer
from specviz.randomness import PhiloxRandomness, Prefix
from specviz.settings import Settings
from specviz.speed.benchmarks.target_only import find_baseline
from specviz.speed.measurement.clock import Clock, Lap
from specviz.speed.measurement.costs import average_round_timeline
from specviz.speed.measurement.machine import describe_measurement
from specviz.speed.measurement.text_passes import describe_pair
from specviz.speed.measurement.timed_decoding import DecodingPace, decode_speculatively, measure_pace
from specviz.speed.records.baseline import Baseline
from specviz.speed.records.methods import (
    DRAFTING_METHODS,
    DraftingMethod,
    FirstToken,
    MethodComparison,
    MethodRow,
    explain_blank,
)
from specviz.statistics.total_variation import compute_cell_bands, compute_null_band, compute_total_variation
from specviz.trace import Round, Trace
from specviz.verification.draft_tree import build_empty_tree, compute_node_depth
from specviz.verification.typical import TypicalRule

BARS = 7  # largest tokens per distribution that a kept round holds
MAX_BARS = 12  # tokens of the first one's distribution that get a bar
SAMPLE_TOKENS = 3  # tokens of a sample: enough for two draft tokens, one below the other
SAMPLES_PER_CHUNK = 100  # samples between two calls of the watch
KEPT_FACTOR = 1.2  # how many times as long a text takes whose distributions are kept
ROUNDS_PER_CHUNK = 4.0  # rounds that take as long as a chunk of samples
WARMING, SAMPLING, TIMING = "warming up", "sampling", "timing"  # what is being done
MS = "ms/token"
BAND_LEVEL = 0.99  # of all bars together


def compare_methods(
    pair: LoadedPair,
    settings: Settings,
    runs: int = 6,
    draws: int = 2000,
    on_progress: ProgressCallback = ignore_progress,
    keys: Sequence[str] = tuple(DRAFTING_METHODS),
    expect: Expect = ignore_progress,
    show: Callable[[MethodComparison], None] = ignore_progress,
    prompts: Sequence[str] = (),
) -> MethodComparison:
    """Run every method. settings: the prompt, the distribution and the length of all; DRAFTING_METHODS say what each method changes.

    runs: timed ones, at least 1; draws: samples of each method's first token; keys: methods to run; expect: called after a probe
    of each method how long the rest will take; show: called with what is found so far: after each method's samples, when it has
    no times yet, and after each timed run but the last; prompts: of the timed texts, all of them in every run; empty: the prompt of
    the settings, of which the samples and the round that is kept always are.
    """
    rows, where = {key: _prepare_row(pair, DRAFTING_METHODS[key], settings) for key in keys}, describe_measurement(pair)
    under = {key: DRAFTING_METHODS[key].build_settings(settings) for key, row in rows.items() if not row.reason}
    ids, paces = pair.encode(settings.prompt), []
    timed = [pair.encode(prompt) for prompt in prompts] or [ids]
    for key, own in under.items():
        on_progress(0.0, f"{DRAFTING_METHODS[key].name}: how long it takes")
        paces.append(measure_pace(decode_speculatively(pair, own, ids)))
    weights = estimate_stage_seconds(paces, settings.max_new_tokens, runs * len(timed), draws)
    expect(sum(weights.values()))
    tell = split_progress(on_progress, weights)
    for number, (key, own) in enumerate(under.items()):
        tell[WARMING](number / len(under), f"{DRAFTING_METHODS[key].name}: a first run")
        rows[key] = replace(rows[key], trace=find_clear_round(pair, own))
    if drafted := next((rows[key].trace for key in under), None):
        where["models"] = describe_pair(pair, settings, [(ids, (*drafted.prompt_ids, *drafted.output_ids)[len(ids) :])])
    remembering = MemoizedPair(pair, len(ids) + 1)
    for number, (key, own) in enumerate(under.items()):
        part = scale_progress(
            tell[SAMPLING], number / len(under), (number + 1) / len(under), f"First tokens: {DRAFTING_METHODS[key].name}"
        )
        rows[key] = replace(rows[key], first=sample_first_token(remembering, own, draws, part))
        show(MethodComparison(settings, tuple(rows.values()), 0, **where))
    clock = build_method_clock(pair, under, lambda run: timed)
    baseline = find_baseline(pair, settings, tuple(ids)) if "target" in under else None
    for number in range(1, runs + 1):

        def report_run(share: float, lap: int, key: str) -> None:
            tell[TIMING]((lap - 1 + share) / runs, f"Run {lap} of {runs}: {DRAFTING_METHODS[key].name}")

        clock.run_until(number, report_run)
        for key in under:
            rows[key] = _time_row(rows[key], clock, len(timed) * settings.max_new_tokens, baseline)
        found = MethodComparison(settings, tuple(rows.values()), number, baseline=baseline, prompts=tuple(prompts), **where)
        if number < runs:
            show(found)
    return found


def _time_row(row: MethodRow, clock: Clock[str], tokens: int, baseline: Baseline | None) -> MethodRow:
    """A row with the times and counts of the runs so far. tokens: that a run writes."""
    factor, rounds = baseline.factor if baseline is not None else 1.0, clock.get_kept(row.key)
    ms = clock.compute_median(row.key, tokens).convert(1e3 / (factor if row.key == "target" else 1.0), MS)
    speed = None
    if "target" in clock.contestants and row.key != "target":
        speed = clock.compute_ratio("target", row.key).convert(1.0 / factor, "times")
    timing = average_round_timeline(rounds, sum(clock.get_seconds(row.key)))
    parts = {} if "round" in timing else {name: 1e3 * seconds for name, seconds in timing.items()}
    return replace(row, **count_draft_tokens(rounds), ms=ms, speed=speed, timing=parts)


def estimate_stage_seconds(paces: Sequence[DecodingPace], length: int, texts: int, draws: int) -> dict[str, float]:
    """Seconds that each stage will take, by the pace of each method. texts: timed ones of each. The least is above 0 where no method runs."""
    once = sum(pace.estimate_seconds(length) for pace in paces) or 1e-9
    return {
        WARMING: KEPT_FACTOR * once,
        SAMPLING: -(-draws // SAMPLES_PER_CHUNK) * ROUNDS_PER_CHUNK * sum(pace.each for pace in paces),
        TIMING: texts * once,
    }


def _prepare_row(pair: LoadedPair, method: DraftingMethod, settings: Settings) -> MethodRow:
    """A row before it has run; blank where the method says nothing or cannot be opened."""
    rule = build_rule(method.build_settings(settings))
    reason = explain_blank(method, settings)
    try:
        if not reason:
            open_proposer(pair, method.build_settings(settings))
    except SpecvizError as error:
        reason = str(error)
    return MethodRow(method.key, rule.title, rule.exact, reason)


def build_method_clock(
    pair: LoadedPair, settings: Mapping[str, Settings], choose_prompts: Callable[[int], Sequence[tuple[int, ...]]]
) -> Clock[str]:
    """The clock of methods by name; it keeps the rounds. choose_prompts: run -> the prompts after each of which a method writes a text in it."""
    return Clock({key: partial(_write_text, pair, own) for key, own in settings.items()}, warm_runs=0, items=choose_prompts)


def _write_text(pair: LoadedPair, settings: Settings, lap: Lap) -> None:
    """One text; the end-of-text token does not end it, so that all write the same number of tokens."""
    own = replace(settings, seed=(settings.seed + lap.run - 1) % 2**63)
    for one in decode_speculatively(pair, own, lap.item):
        lap.keep(one)


def count_draft_tokens(rounds: Sequence[Round]) -> dict[str, Any]:
    """Fields of a MethodRow: tokens, passes, draft tokens, and how many were checked and accepted, by depth."""
    tested: dict[int, int] = {}
    accepted: dict[int, int] = {}
    for one in rounds:
        parents = tuple(decision.parent for decision in one.proposals)
        for node, decision in enumerate(one.proposals):
            if decision.accepted is not None:
                level = compute_node_depth(parents, node)
                tested[level] = tested.get(level, 0) + 1
                accepted[level] = accepted.get(level, 0) + bool(decision.accepted)
    levels = range(max(tested, default=-1) + 1)
    return {
        "tokens": sum(len(one.committed) for one in rounds),
        "passes": len(rounds),
        "nodes": sum(len(one.proposals) for one in rounds) / len(rounds),
        "checked": tuple(tested.get(level, 0) for level in levels),
        "accepted": tuple(accepted.get(level, 0) for level in levels),
    }


def find_clear_round(pair: LoadedPair, settings: Settings) -> Trace:
    """A round of a run that had all its draft tokens, with its distributions; the text before it is the trace's prompt.

    The one that shows most: with a rejection, then with the most kinds of outcome, then with the most tokens that begin a word;
    the last among equals.
    """
    whole = record_run(pair, settings, bars=BARS)
    levels = len(settings.tree.split("-")) if settings.tree else settings.gamma
    ids, found = whole.prompt_ids, []
    for one in whole.rounds:
        remaining = settings.max_new_tokens - (len(ids) - len(whole.prompt_ids))
        outcomes = {decision.accepted for decision in one.proposals}
        found.append(((remaining > levels, False in outcomes, len(outcomes), _count_words(whole, one)), ids, one))
        ids += one.committed
    _, before, kept = max(reversed(found), key=lambda row: row[0])
    return build_trace(pair, settings, before, (kept,))


def _count_words(trace: Trace, round_: Round) -> int:
    """How many of the draft tokens and of what the round adds begin with a space: others are pieces of words, or signs."""
    tokens = (*(decision.token for decision in round_.proposals), *round_.committed[-1:])
    return sum(read_piece(trace.pieces, token).startswith(b" ") for token in tokens)


def sample_first_token(pair: MemoizedPair, settings: Settings, draws: int, on_progress: ProgressCallback) -> FirstToken:
    """Samples of the first token by the engine, beside the exact distribution of the target. on_progress: called with the share that is done."""
    ids, own = pair.encode(settings.prompt), replace(settings, max_new_tokens=SAMPLE_TOKENS)
    target, proposer = open_proposer(cast(LoadedPair, pair), own)
    row = Prefix(ids, 0, SAMPLE_TOKENS)
    probs = target.compute_distributions([row], build_empty_tree(1))[0, 0]
    top = probs.topk(min(MAX_BARS, int((probs > 0).sum()))).indices.tolist()
    tokens: list[int] = []
    while len(tokens) < draws:
        count = min(SAMPLES_PER_CHUNK, draws - len(tokens))
        shard = Shard(target, proposer, build_rule(own), PhiloxRandomness(own.seed), own, ids, first=len(tokens), count=count)
        samples = sample_with_engine(shard)
        tokens += samples.tokens[:, 0].tolist()
        on_progress(len(tokens) / draws)
    cells = _compute_cell_masses(probs, top)
    counts = np.array([tokens.count(token) for token in top])
    counts = np.append(counts, draws - counts.sum())
    masses = np.array(cells) / sum(cells)
    low, high = compute_cell_bands(masses, draws, 1.0 - (1.0 - BAND_LEVEL) / len(masses)).tolist()
    pieces = pair.read_pieces(top)
    return FirstToken(
        labels=(*(pieces[token] for token in top), ""),
        probs=tuple(cells),
        counts=tuple(counts.tolist()),
        low=tuple(low),
        high=tuple(high),
        n=draws,
        tv=compute_total_variation(counts, masses),
        upper=compute_null_band(masses, draws, BAND_LEVEL).upper,
        entropy=float(torch.special.entr(probs).sum()),
        **_compute_typical_fields(pair, own, row, probs, top),
    )


def _compute_cell_masses(probs: torch.Tensor, top: list[int]) -> tuple[float, ...]:
    """Probabilities of the tokens on show, and of all others together."""
    shown = probs[top]
    return (*shown.tolist(), max(0.0, float(probs.sum() - shown.sum())))


def _compute_typical_fields(
    pair: MemoizedPair, settings: Settings, row: Prefix, probs: torch.Tensor, top: list[int]
) -> dict[str, Any]:
    """Fields for typical acceptance: the distribution of the first token that it writes with a chain."""
    rule = build_rule(settings)
    if not isinstance(rule, TypicalRule):
        return {}
    target, proposer = open_proposer(cast(LoadedPair, pair), settings)
    tree = proposer.propose([row], PhiloxRandomness(settings.seed))
    shown = rule.view_node(tree, 0, target.compute_distributions([row], tree)[0], 0)
    total = shown.overlap + shown.left
    tv = 0.5 * float((total - probs).abs().sum())
    return {"written": _compute_cell_masses(total, top), "written_tv": tv, "edge": rule.condition_on(probs).bar}
