"""Fills the records of serving setups: each reads the same texts, is checked against itself with draft tokens, and is timed.

Distances are between distributions of passes over one token, as each target serves them alone. Whether draft tokens keep such a
distribution is shown by the analytic check (evidence/analytic/along_text.py): the distribution of what the decoder writes, caches
included, against the same target's passes over one token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from specviz.decoding.engine import decode, sample_target_only
from specviz.errors import SpecvizError, TooLongError
from specviz.evidence.analytic.along_text import AnalyticResult, check_along_text
from specviz.evidence.serving_setups.near_ties import measure_near_ties
from specviz.evidence.serving_setups.records import LOSSY, REFERENCE, SETUPS, NearTies, SetupCheck, SetupComparison, SetupRow
from specviz.evidence.serving_setups.targets import Ids, Places, ServedTarget, Source, TextExcerpt, open_setup, refuse_unsupported
from specviz.models.pairs.loading import LoadedPair
from specviz.models.uncached import OneTokenPasses, build_draft_reference
from specviz.progress import Expect, ProgressCallback, ignore_progress, split_progress
from specviz.proposers.draft import DraftModel
from specviz.randomness import PhiloxRandomness
from specviz.settings import Settings
from specviz.speed.measurement.acceptance import decode_texts
from specviz.speed.measurement.clock import Clock, Lap
from specviz.speed.measurement.machine import describe_measurement
from specviz.speed.measurement.text_passes import describe_pair, iterate_distributions
from specviz.speed.measurement.timed_decoding import DecodingPace, measure_pace
from specviz.speed.records.estimate import Estimate, compute_relative_iqr
from specviz.trace import Round
from specviz.verification.overlap import compute_overlap

TARGET_ONLY, SPECULATIVE = "alone", "drafted"
READING, CHECKING, TIMING, GREEDY = "reading", "checking", "timing", "greedy"
GREEDY_TEXTS = (
    ("fp32", TARGET_ONLY),
    ("bf16", TARGET_ONLY),
    ("int8", TARGET_ONLY),
    ("bf16", SPECULATIVE),
    ("fp32", SPECULATIVE),
)  # near_ties.py


@dataclass(frozen=True, slots=True)
class SetupEffort:
    """How much is done for each setup."""

    positions: int  # prefixes of its check
    runs: int  # timed ones
    tokens: int  # of a timed text
    prompts: int  # prompts, greedy: greedy texts, and tokens of each
    greedy: int


def compare_setups(
    pair: LoadedPair,
    settings: Settings,
    places: Places,
    effort: SetupEffort,
    name: str,
    on_progress: ProgressCallback = ignore_progress,
    keys: Sequence[str] = tuple(SETUPS),
    expect: Expect = ignore_progress,
    show: Callable[[SetupComparison], None] = ignore_progress,
) -> SetupComparison:
    """Run every setup, the reference among them.

    ``settings``: seed, gamma and temperature. ``places``: at least one text, all of one length. ``name``: of what they were cut
    from. ``expect``: called after a probe of each setup how long the rest will take. ``show``: called with what is found so far:
    the rows that are checked, after each; near ties with them; then speeds, after each run but the last.

    Raises UnsupportedModelError for a target that cannot be the reference, SettingsError for texts that the context does not hold.
    """
    refuse_unsupported(pair)
    assert places and places[0][1], "there is nothing to read"
    refuse_too_long(pair, max(len(opening) for opening, _ in places), max(len(places[0][1]), effort.tokens, effort.greedy))
    ways, rows = _open_setups(pair, keys)
    where, timed_settings = describe_measurement(pair), replace(settings, max_new_tokens=effort.tokens)
    where["models"] = describe_pair(pair, settings, places)
    weights = estimate_stage_seconds(
        measure_paces(pair, ways, timed_settings, places[0], on_progress), places, settings.gamma, effort
    )
    expect(sum(weights.values()))
    tell = split_progress(on_progress, weights)

    def build_comparison(rows: dict[str, SetupRow], ties: NearTies, runs: int = 0, spread: float = 0.0) -> SetupComparison:
        size: dict[str, Any] = {"texts": len(places), "opening": len(places[0][0]), "length": len(places[0][1])}
        return SetupComparison(settings, tuple(rows.values()), ties, text=name, runs=runs, spread=spread, **size, **where)

    read, done = measure_distances(pair, ways, settings, places, tell[READING]), {}
    for key, row in rows.items():
        if key in ways:

            def report_share(share: float, key: str = key) -> None:
                number = list(ways).index(key)
                tell[CHECKING]((number + share) / len(ways), f"distribution with draft tokens: {SETUPS[key].name}")

            seen = check_setup(pair, key, ways, ways[key], settings, places, effort.positions, report_share)
            own = SetupCheck(float(seen.tv.mean()), seen.worst, seen.prefixes, len(seen.near_ties)) if seen.places else None
            row = replace(row, **read.get(SETUPS[key].reference_key, {}), own=own)
        done[key] = row
        show(build_comparison(done, NearTies({})))
    prompts = [opening for opening, _ in places[: effort.prompts]]
    ties = measure_near_ties(pair, ways, settings, prompts, effort.greedy, tell[GREEDY])
    show(build_comparison(done, ties))
    for run, timed, spread in time_setups(pair, ways, timed_settings, places, effort.runs, tell[TIMING]):
        done = {key: replace(row, **timed.get(key, {})) for key, row in done.items()}
        one = build_comparison(done, ties, run, spread)
        if run < effort.runs:
            show(one)
    return one


def measure_paces(
    pair: LoadedPair, ways: dict[str, ServedTarget], settings: Settings, place: TextExcerpt, on_progress: ProgressCallback
) -> dict[tuple[str, str], DecodingPace]:
    """The pace of each setup with draft tokens and, except for mistakes, without: by (setup, ALONE or SPECULATIVE)."""
    paces = {}
    for key, way in ways.items():
        on_progress(0.0, f"how long it takes: {SETUPS[key].name}")
        for kind in (SPECULATIVE,) if SETUPS[key].kind == LOSSY else (TARGET_ONLY, SPECULATIVE):
            paces[key, kind] = measure_pace(_decode_rounds(pair, way, settings, kind == SPECULATIVE, place[0]))
    return paces


def estimate_stage_seconds(
    paces: dict[tuple[str, str], DecodingPace], places: Places, gamma: int, effort: SetupEffort
) -> dict[str, float]:
    """Seconds that each stage will take, by the pace of each setup.

    Reading is a pass of one token for each token of each text; a checked position is a round with draft tokens, and such a pass for each
    token that the round may write.
    """
    each = {key: pace.each for key, pace in paces.items()}
    meant = [
        each[SETUPS[key].reference_key, TARGET_ONLY]
        for key, kind in paces
        if kind == SPECULATIVE and (SETUPS[key].reference_key, TARGET_ONLY) in each
    ]
    drafted = [one for (_, kind), one in each.items() if kind == SPECULATIVE]
    tokens = sum(len(text) for _, text in places)
    return {
        READING: tokens * sum(one for (_, kind), one in each.items() if kind == TARGET_ONLY),
        CHECKING: effort.positions * (sum(drafted) + (gamma + 1) * sum(meant)),
        GREEDY: effort.prompts * sum(paces[one].estimate_seconds(effort.greedy) for one in GREEDY_TEXTS if one in paces),
        TIMING: (effort.runs + 1) * sum(pace.estimate_seconds(effort.tokens) for pace in paces.values()),
    }


def _open_setups(pair: LoadedPair, keys: Sequence[str]) -> tuple[dict[str, ServedTarget], dict[str, SetupRow]]:
    ways, rows = {}, {}
    for key in keys:
        try:
            ways[key], rows[key] = open_setup(pair, key), SetupRow(key)
        except SpecvizError as error:
            rows[key] = SetupRow(key, str(error))
    return ways, rows


def refuse_too_long(pair: LoadedPair, opening: int, length: int) -> None:
    """Raises SettingsError where a context does not hold a text and what is written after it."""
    contexts = [source.context for source in pair.open(Settings()) if source.context is not None]
    if contexts and opening + length > min(contexts):
        raise TooLongError("prompt", opening, min(contexts) - length, "tokens", f"because {length} more are written")


def measure_distances(
    pair: LoadedPair, ways: dict[str, ServedTarget], settings: Settings, places: Places, on_progress: ProgressCallback
) -> dict[str, dict[str, Any]]:
    """Distance of each setup's own distribution from the reference's, and its overlap with the draft's, over all prefixes of the texts.

    Returns ``distance`` and ``overlap`` of a SetupRow, by setup; none for mistakes.
    """
    keys = [key for key in ways if SETUPS[key].kind != LOSSY]
    apart: dict[str, list[float]] = {key: [] for key in keys}
    overlaps: dict[str, list[float]] = {key: [] for key in keys}
    for number, place in enumerate(places):
        q = torch.cat([probs for _, probs in iterate_distributions(pair.open(settings)[1], *place, tokens_per_pass=1)])
        reference = _compute_distributions(ways[REFERENCE].open(settings), place)
        for key in keys:
            on_progress(number / len(places), f"reading text {number + 1} of {len(places)}: {SETUPS[key].name}")
            p = reference if key == REFERENCE else _compute_distributions(ways[key].open(settings), place)
            apart[key].append(float((1.0 - compute_overlap(p, reference)).clamp_(min=0.0).mean()))
            overlaps[key].append(float(compute_overlap(p, q).mean()))
    return {
        key: {"overlap": Estimate.from_mean(overlaps[key])}
        | ({} if key == REFERENCE else {"distance": Estimate.from_mean(apart[key])})
        for key in keys
    }


def _compute_distributions(source: Source, place: TextExcerpt) -> Tensor:
    """(L, V): the distribution before each token of a continuation, token by token."""
    opening, text = place
    return OneTokenPasses(source).compute_distributions(opening + text[:-1], len(text))[0]


def check_setup(
    pair: LoadedPair,
    key: str,
    ways: dict[str, ServedTarget],
    served_target: ServedTarget,
    settings: Settings,
    places: Places,
    positions: int,
    on_progress: ProgressCallback,
) -> AnalyticResult:
    """The decoder with draft tokens against the distribution that this setup means to keep, along the texts one after the other."""
    meant = ways[SETUPS[key].reference_key].open(settings)
    ids = tuple(token for opening, text in places for token in opening + text)
    draft, fresh = pair.open(settings)[1], build_draft_reference(pair, settings)
    proposer = DraftModel(draft, settings.gamma)
    return check_along_text(
        served_target.open(settings),
        proposer,
        served_target.rule,
        settings,
        ids,
        OneTokenPasses(meant),
        fresh,
        positions,
        on_progress,
    )


def time_setups(
    pair: LoadedPair, ways: dict[str, ServedTarget], settings: Settings, places: Places, runs: int, on_progress: ProgressCallback
) -> Iterator[tuple[int, dict[str, dict[str, Any]], float]]:
    """Every setup with draft tokens and, except for mistakes, without: one clock, each run on the next place.

    Yields after each run its number, fields of each row, and the middle half of the reference's seconds as a share of their
    median.
    """
    contestants = {}
    for key, way in ways.items():
        if SETUPS[key].kind != LOSSY:
            contestants[key, TARGET_ONLY] = partial(_write_text, pair, way, settings, False)
        contestants[key, SPECULATIVE] = partial(_write_text, pair, way, settings, True)
    clock = Clock(contestants, items=lambda run: (places[run % len(places)][0],))
    for number in range(1, runs + 1):

        def report_run(share: float, run: int, key: tuple[str, str], number: int = number) -> None:
            on_progress((number - 1 + share) / runs, f"timing, run {run} of {runs}: {SETUPS[key[0]].name}")

        clock.run_until(number, report_run)
        timed = {key: _build_timing_fields(clock, key, settings.max_new_tokens) for key in ways}
        yield number, timed, compute_relative_iqr(clock.get_seconds((REFERENCE, TARGET_ONLY)))


def _write_text(pair: LoadedPair, served_target: ServedTarget, settings: Settings, drafting: bool, lap: Lap) -> None:
    """One text; the end-of-text token does not end it."""
    own = replace(settings, seed=(settings.seed + lap.run) % 2**63)
    for one in _decode_rounds(pair, served_target, own, drafting, lap.item):
        lap.keep(replace(one, full=None))


def _decode_rounds(
    pair: LoadedPair, served_target: ServedTarget, settings: Settings, drafting: bool, prompt: Ids
) -> Iterator[Round]:
    """The rounds of a text, with draft tokens or without."""
    target, randomness = served_target.open(settings), PhiloxRandomness(settings.seed)
    if drafting:
        yield from decode(
            target, DraftModel(pair.open(settings)[1], settings.gamma), served_target.rule, randomness, settings, prompt
        )
    else:
        yield from sample_target_only(target, randomness, settings, prompt)


def _build_timing_fields(clock: Clock, key: str, tokens: int) -> dict[str, Any]:
    made, alone = clock.get_kept((key, SPECULATIVE)), (key, TARGET_ONLY) if (key, TARGET_ONLY) in clock.contestants else None
    decided = [one.accepted for round_ in made for one in round_.proposals if one.accepted is not None]
    reference = (REFERENCE, TARGET_ONLY)
    return {
        "tokens": sum(len(one.committed) for one in made),
        "passes": len(made),
        "checked": len(decided),
        "accepted": sum(map(bool, decided)),
        "speed_without_draft": clock.compute_ratio(reference, alone) if alone else None,
        "speed_with_draft": clock.compute_ratio(reference, (key, SPECULATIVE)),
        "ms": (
            1e3 * clock.compute_median(alone, tokens).value if alone else None,
            1e3 * clock.compute_median((key, SPECULATIVE), tokens).value,
        ),
    }


def continue_prompt(pair: LoadedPair, settings: Settings, prompt: str, length: int, count: int) -> Places:
    """A prompt that the reference target continues ``count`` times with different random numbers. Raises as ``refuse_too_long``."""
    ids = pair.encode(prompt)
    refuse_too_long(pair, len(ids), length)
    tokens, _, _ = decode_texts(pair, replace(settings, max_new_tokens=length), [ids] * count)
    return [(ids, tuple(row)) for row in tokens.tolist()]
