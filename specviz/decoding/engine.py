"""The decoder: one round proposes, scores, verifies and commits. It joins proposers and rules without knowing their insides.

Leviathan et al. 2023, Algorithm 1; Chen et al. 2023, Algorithm 2 (there p and q are swapped).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from torch import Tensor

from specviz.errors import Described, SettingsError, TooLongError
from specviz.models.base import LanguageModel
from specviz.proposers.base import Proposer
from specviz.proposers.no_draft import NoDraft
from specviz.randomness import EditedRandomness, PhiloxRandomness, Prefix, Purpose, Randomness, StreamRandomness
from specviz.settings import Settings
from specviz.trace import Distribution, Ending, Outcome, Round
from specviz.verification.draft_tree import DraftTree, compute_node_depths
from specviz.verification.rule import Rule
from specviz.verification.token import TokenRule
from specviz.verification.views import view_round

T = TypeVar("T")
FETCH_MAX = 64 * 2**20  # bytes of distributions up to which a round of a GPU is judged on the CPU


def step(
    rows: Sequence[Prefix],
    target: LanguageModel,
    proposer: Proposer,
    rule: Rule,
    randomness: Randomness,
    eos_token_ids: frozenset[int] = frozenset(),
    bars: int = 0,
) -> list[Round]:
    """One round of every row: propose, score, verify, commit. Chains, trees and batches all pass through here.

    Each of the rows has at least one token remaining. ``bars`` tokens of each distribution are kept for figures. Returns one Round
    per row; its ``committed`` tokens join the text.
    """
    timed = _Stopwatch()
    tree = timed("draft", proposer.propose(rows, randomness))
    p = timed("target", target.compute_distributions(rows, tree))
    if p.is_cuda and p.nbytes <= FETCH_MAX:  # a rule and a figure read many single numbers
        p, tree = p.cpu(), replace(tree, q=tuple(None if q is None else q.cpu() for q in tree.q))
    outcomes = timed("rule", rule.verify(rows, tree, p, randomness))
    committed = [truncate_outcome(outcome, row, eos_token_ids) for outcome, row in zip(outcomes, rows, strict=True)]
    return [record_round(rule, row, tree, i, p[i], committed[i], randomness, timed.seconds, bars) for i, row in enumerate(rows)]


class _Stopwatch:
    """Hands on each result, and notes the seconds since the one before, by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def __call__(self, name: str, result: T) -> T:
        before, self._last = self._last, time.perf_counter()
        self.seconds[name] = self._last - before
        return result


def truncate_outcome(outcome: Outcome, row: Prefix, eos_token_ids: frozenset[int]) -> Outcome:
    """Cut an outcome after the first end-of-sequence token on its path (``eos``), else at the remaining tokens (``length``)."""
    path = outcome.accepted_path
    for count, node in enumerate(path, start=1):
        if outcome.decisions[node].token in eos_token_ids and count <= row.remaining:
            return replace(outcome, accepted_path=path[:count], ending=Ending("eos", None, None))
    if len(outcome.committed) > row.remaining:
        return replace(outcome, accepted_path=path[: row.remaining], ending=Ending("length", None, None))
    return outcome


def decode(
    target: LanguageModel,
    proposer: Proposer,
    rule: Rule,
    randomness: Randomness,
    settings: Settings,
    prompt: Sequence[int],
    eos_token_ids: frozenset[int] = frozenset(),
    bars: int = 0,
    draw: int = 0,
    earlier: Sequence[Round] = (),
    steps: Callable[[Sequence[Prefix]], list[Round]] | None = None,
) -> Iterator[Round]:
    """Rounds until an end-of-sequence token, ``settings.max_new_tokens`` generated tokens, or the end of the target's context.

    Args:
        target: The model that scores draft tokens.
        proposer: Drafts tokens.
        rule: Accepts or rejects them.
        randomness: All random numbers.
        settings: Of these only ``max_new_tokens`` is read.
        prompt: Ids, at least one.
        eos_token_ids: Ids that end a text.
        bars: Tokens of each distribution that are kept for figures; 0 keeps none.
        draw: Number of this sample: it uses the draw-th number of every random stream.
        earlier: Rounds of the same run that are already known; decoding continues after them.
        steps: Runs a round, as decoding/device/choice.py chooses it; None: ``step`` with these arguments.

    Raises:
        SettingsError: The prompt is empty or longer than the context.
    """
    row = build_first_prefix(prompt, settings, target.context, draw)
    for round_ in earlier:
        row = advance_prefix(row, round_)
    known = earlier[-1].committed if earlier else ()
    while row.remaining > 0 and not (known and known[-1] in eos_token_ids):
        (round_,) = steps([row]) if steps else step([row], target, proposer, rule, randomness, eos_token_ids, bars)
        yield round_
        row, known = advance_prefix(row, round_), round_.committed


def sample_target_only(
    target: LanguageModel,
    randomness: StreamRandomness,
    settings: Settings,
    prompt: Sequence[int],
    eos_token_ids: frozenset[int] = frozenset(),
    draw: int = 0,
    steps: Callable[[Sequence[Prefix]], list[Round]] | None = None,
) -> Iterator[Round]:
    """Target-only sampling, recorded like ``decode``, with random numbers of its own purpose."""
    numbers = TargetOnlyRandomness(randomness)
    return decode(target, NoDraft(), TokenRule(), numbers, settings, prompt, eos_token_ids, draw=draw, steps=steps)


@dataclass(frozen=True, slots=True)
class TargetOnlyRandomness:
    """Random numbers for a run without draft tokens: its bonus draws are taken from the target-only streams."""

    randomness: StreamRandomness

    def take(self, purpose: Purpose, rows: Sequence[Prefix], node: int, depth: int) -> np.ndarray:
        assert purpose is Purpose.BONUS, "a run without proposals draws nothing else"
        return self.randomness.take(Purpose.TARGET_ONLY, rows, node, depth)

    def stream(self, purpose: Purpose, start: int, node: int, first: int, count: int) -> np.ndarray:
        assert purpose is Purpose.BONUS, "a run without proposals draws nothing else"
        return self.randomness.stream(Purpose.TARGET_ONLY, start, node, first, count)


def build_randomness(settings: Settings) -> Randomness:
    """The random numbers of the seed, with the person's edits applied."""
    randomness = PhiloxRandomness(settings.seed)
    return EditedRandomness(randomness, settings.edits) if settings.is_edited else randomness


def build_first_prefix(prompt: Sequence[int], settings: Settings, context: int | None, draw: int = 0) -> Prefix:
    """The first prefix of a run. ``remaining`` is the length of the settings, or what the context still holds.

    Raises SettingsError for a prompt that is empty or longer than the context.
    """
    if not prompt:
        raise SettingsError(
            "prompt", Described("no tokens"), "at least one token long; an empty text starts with the start token"
        )
    remaining = settings.max_new_tokens
    if context is not None:
        if len(prompt) > context:
            raise TooLongError("prompt", len(prompt), context, "tokens", "the context of this pair")
        remaining = min(remaining, context + 1 - len(prompt))
    return Prefix(tuple(prompt), 0, remaining, draw)


def advance_prefix(row: Prefix, round_: Round) -> Prefix:
    """The prefix after a round."""
    levels = 1 + max(compute_node_depths(tuple(one.parent for one in round_.proposals)), default=-1)
    added, past = round_.committed, (*row.past, (levels, len(round_.accepted_path)))
    return replace(row, ids=row.ids + added, start=row.start + len(added), remaining=row.remaining - len(added), past=past)


@dataclass(frozen=True, slots=True)
class FullDistributions:
    """The whole distributions of one round: p (N + 1, V) after the prefix and after each node; q (N, V), None when N = 0."""

    p: Tensor
    q: Tensor | None


def record_round(
    rule: Rule,
    row: Prefix,
    tree: DraftTree,
    index: int,
    p: Tensor,
    outcome: Outcome,
    randomness: Randomness,
    timing: dict[str, float],
    bars: int,
) -> Round:
    """The record of a row's round. p: (N + 1, V), of the row alone; the rest is as in ``step``."""
    decisions = outcome.decisions
    distributions: tuple[Distribution, ...] = ()
    if bars:
        decisions, distributions = view_round(rule, row, tree, index, p, outcome, randomness, bars)
    full = FullDistributions(p[: len(tree.tokens[index]) + 1], tree.q[index])
    return Round(len(row.ids), decisions, outcome.accepted_path, outcome.ending, distributions, timing, full)
