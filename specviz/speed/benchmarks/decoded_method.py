"""Measure a drafting method by decoding with it, where no plan can count its draft tokens along given texts.

The draft tokens of lookahead depend on the rounds before, and so does an adaptive length; a tree offers several tokens for one place. So the engine
writes texts after the openings that a plan would continue. Target-only sampling writes as many, and all draft lengths, one right after the other,
so that a burst of other work meets all alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from typing import Any, NamedTuple

from specviz.models.pairs.loading import LoadedPair
from specviz.progress import ProgressCallback, ignore_progress
from specviz.proposers.registry import PROPOSERS
from specviz.settings import Settings
from specviz.speed.benchmarks.drafting_methods import count_draft_tokens
from specviz.speed.benchmarks.target_only import find_baseline
from specviz.speed.measurement.acceptance import cut_openings, tokenize_text
from specviz.speed.measurement.clock import Clock, Lap
from specviz.speed.measurement.machine import describe_measurement
from specviz.speed.measurement.timed_decoding import decode_speculatively, decode_target_only
from specviz.speed.prediction.planning import TIMES, TOKENS_PER_PASS, identify_text, split_into_runs
from specviz.speed.records.estimate import Estimate
from specviz.speed.records.pair_record import DecodedMethod
from specviz.speed.records.plan import MeasuredRow
from specviz.trace import Round
from specviz.verification.draft_tree import compute_node_depths

GAMMAS = (1, 2, 4)  # of a method that reads a draft length
TARGET_ONLY = 0  # its place among the draft lengths


class TextCounts(NamedTuple):
    """What became of the draft tokens of one text."""

    tokens: int
    rounds: int
    drafted: int  # rounds with a draft token
    depth: int  # draft tokens on the longest path of any round
    checked: Sequence[int]  # draft tokens, by depth
    accepted: Sequence[int]

    @classmethod
    def from_rounds(cls, rounds: Sequence[Round]) -> TextCounts:
        found: dict[str, Any] = count_draft_tokens(rounds)
        depths = (compute_node_depths(tuple(one.parent for one in each.proposals)) for each in rounds if each.proposals)
        drafted = [1 + max(each) for each in depths]
        return cls(found["tokens"], len(rounds), len(drafted), max(drafted, default=0), found["checked"], found["accepted"])


def measure_method(
    pair: LoadedPair,
    settings: Settings,
    text: str,
    texts: int,
    opening: int,
    runs: int,
    name: str = "",
    is_timed: bool = True,
    on_progress: ProgressCallback = ignore_progress,
) -> DecodedMethod:
    """Decode texts with the method of the settings, each after an opening of ``text``.

    Args:
        pair: The models.
        settings: Method, rule, distribution, and the length of each text; its draft lengths are GAMMAS, if it reads any.
        text: Like those that will be written.
        texts: How many, from places all over it; fewer where it is short.
        opening: Tokens of the text before each.
        runs: Into how many runs of the clock the texts are divided.
        name: Of the text, for the record.
        is_timed: Whether target-only sampling writes as many texts beside them; else there are no speeds.
        on_progress: Called with the share that is done; what it raises ends the work.

    Raises SettingsError as ``cut_openings``, and for what cannot be opened.
    """
    length, measured = settings.max_new_tokens, describe_measurement(pair)
    prompts = [prompt for prompt, _ in cut_openings(pair, text, opening, length, texts)]
    gammas = choose_gammas(settings)
    parts = split_into_runs(list(enumerate(prompts)), min(runs, len(prompts)) if is_timed else 1)
    lanes = (TARGET_ONLY, *gammas) if is_timed else gammas
    clock = Clock(
        {gamma: partial(_write_text, pair, settings, gamma) for gamma in lanes},
        warm_runs=int(is_timed),
        items=lambda run: parts[run - 1] if run > 0 else parts[0][:1],
    )
    clock.run_until(len(parts), lambda share, run, gamma: on_progress(share))
    counts = {gamma: clock.get_kept(gamma) for gamma in gammas}
    longest = counts[gammas[-1]]
    rows = {gamma: MeasuredRow(gamma, _estimate_tokens(found), gaps={}) for gamma, found in counts.items()}
    if len(gammas) == 1:
        (only,) = rows.values()
        rows = {gammas[0]: replace(only, gamma=max(1, *(one.depth for one in longest)))}
    found = DecodedMethod(
        settings=settings,
        text={"name": name, "tokens": len(tokenize_text(pair, text, opening, length))} | identify_text(text),
        openings=len(prompts),
        opening=opening,
        length=length,
        rows=tuple(rows.values()),
        drafted=Estimate.from_ratio([one.drafted for one in longest], [one.rounds for one in longest]),
        positions=_estimate_positions(longest),
        **measured,
    )
    if not is_timed:
        return found
    baseline = find_baseline(pair, settings, prompts[0])
    slower = baseline.factor if baseline else 1.0  # this project's loop than the baseline

    def list_rates(gamma: int) -> tuple[float, ...]:
        return tuple(len(part) * length / spent for part, spent in zip(parts, clock.get_seconds(gamma), strict=True))

    timed = tuple(
        replace(row, factor=clock.compute_ratio(TARGET_ONLY, gamma).convert(1.0 / slower, TIMES), rate=list_rates(gamma))
        for gamma, row in rows.items()
    )
    alone = tuple(slower * rate for rate in list_rates(TARGET_ONLY))
    return replace(found, rows=timed, target_only_rates=alone, baseline=baseline)


def choose_gammas(settings: Settings) -> tuple[int, ...]:
    """The draft lengths to measure, ascending: one for a tree of a given shape, and for a method that has its length elsewhere."""
    return GAMMAS if "gamma" in PROPOSERS.find(settings.proposer).reads and not settings.tree else (settings.gamma,)


def _write_text(pair: LoadedPair, settings: Settings, gamma: int, lap: Lap) -> None:
    """One text under a seed of its own; the end-of-text token does not end it, so that all write the same number of tokens."""
    number, prompt = lap.item
    own = replace(settings, gamma=gamma, seed=(settings.seed + 1 + number) % 2**63)
    if gamma == TARGET_ONLY:
        for _ in decode_target_only(pair, own, prompt):
            pass
        return
    lap.keep(TextCounts.from_rounds(list(decode_speculatively(pair, own, prompt))))


def _estimate_tokens(texts: Sequence[TextCounts]) -> Estimate:
    return Estimate.from_ratio([one.tokens for one in texts], [one.rounds for one in texts], TOKENS_PER_PASS)


def _estimate_positions(texts: Sequence[TextCounts]) -> tuple[Estimate, ...]:
    """As ``PlanForecast.estimate_positions``, of rounds that were decoded."""
    checked, accepted = (
        list(zip_longest(*(getattr(one, name) for one in texts), fillvalue=0)) for name in ("checked", "accepted")
    )
    return tuple(Estimate.from_ratio(part, whole) for part, whole in zip(accepted, checked, strict=True) if sum(whole))
