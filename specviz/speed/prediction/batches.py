"""Fills the record of batches: passes over many rows by one interleaved clock, and texts decoded speculatively to count their rounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from specviz.decoding.method_checks import build_rule
from specviz.models.pairs.loading import LoadedPair
from specviz.progress import ProgressCallback, ignore_progress, split_progress
from specviz.settings import Settings
from specviz.speed.measurement.acceptance import cut_openings, decode_texts
from specviz.speed.measurement.costs import CACHED_TOKENS, build_cached_rows, build_round_parts, time_parts
from specviz.speed.measurement.machine import describe_measurement
from specviz.speed.records.batches import BatchSpeeds

ROWS = (1, 2, 4, 8, 16, 32, 64)
GAMMAS = (1, 2, 3, 4, 6, 8)
PartKey = tuple[str, int, int]  # of a round: which, rows, draft tokens


def measure_batches(
    pairs: Mapping[str, tuple[LoadedPair, Settings]],
    text: str,
    texts: int,
    opening: int,
    runs: int,
    rows: Sequence[int] = ROWS,
    gammas: Sequence[int] = GAMMAS,
    on_progress: ProgressCallback = ignore_progress,
) -> BatchSpeeds:
    """Passes of the first pair at its settings, and the rounds that texts take with each pair.

    pairs: name in the record -> pair and settings, whose draft is a model; all of one shape, so that the first one's passes are
    true of all; texts: continuations of ``text`` after ``opening`` of its tokens, ``Settings.max_new_tokens`` tokens each; runs:
    of the clock, at least 1.
    """
    first, settings = next(iter(pairs.values()))
    prompts = [prompt for prompt, _ in cut_openings(first, text, opening, settings.max_new_tokens, texts)]
    tell, rounds = split_progress(on_progress, {"counting rounds": 1, "passes": 1}), {}
    for number, (key, (pair, asked)) in enumerate(pairs.items()):
        counts = [decode_texts(pair, replace(asked, gamma=gamma, seed=asked.seed + gamma), prompts, True)[1] for gamma in gammas]
        rounds[key] = tuple(tuple(map(int, count)) for count in counts)
        tell["counting rounds"]((number + 1) / len(pairs))
    alone = {("block", count, 0) for count in rows}
    clock = time_parts(
        _build_parts(first, settings, rows, gammas), first, runs, warm_runs=1, on_progress=tell["passes"], rewarmed=alone
    )

    def build_table(part: str, sizes: Sequence[int]) -> tuple[tuple[tuple[float, ...], ...], ...]:
        return tuple(tuple(clock.get_seconds((part, count, gamma)) for gamma in sizes) for count in rows)

    return BatchSpeeds(
        settings,
        tuple(rows),
        tuple(gammas),
        passes=build_table("block", (0, *gammas)),
        drafting=build_table("draft", gammas),
        rule=build_table("rule", gammas),
        rounds=rounds,
        length=settings.max_new_tokens,
        cached_tokens=CACHED_TOKENS,
        **describe_measurement(first),
    )


def _build_parts(
    pair: LoadedPair, settings: Settings, rows: Sequence[int], gammas: Sequence[int]
) -> dict[PartKey, Callable[[], object]]:
    """What a round on so many rows consists of, with caches of their own for each number of rows."""
    found: dict[PartKey, Callable[[], object]] = {}
    for count in rows:
        models = pair.open(settings)
        for gamma in gammas:
            parts = build_round_parts(*models, build_rule(settings), replace(settings, gamma=gamma), build_cached_rows(count))
            found["block", count, 0] = parts.pop("one")
            found |= {(name, count, gamma): part for name, part in parts.items()}
    return found
