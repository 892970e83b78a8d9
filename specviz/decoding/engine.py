"""The decoder: propose, score, verify, commit. It joins proposers and verification, and knows neither's insides.

Leviathan et al. 2023, Algorithm 1; Chen et al. 2023, Algorithm 2 (there p and q are swapped).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from torch import Tensor

from specviz.errors import SettingsError
from specviz.models.base import LanguageModel
from specviz.proposers.base import Nothing, Proposer
from specviz.randomness import EditedRandomness, PhiloxRandomness, Prefix, Purpose, Randomness, StreamRandomness
from specviz.settings import Settings
from specviz.trace import Distribution, Ending, Outcome, Round
from specviz.verification.draft_tree import ROOT, DraftTree
from specviz.verification.token_rule import Rule, TokenRule
from specviz.verification.views import round_views


@dataclass(frozen=True, slots=True)
class FullDistributions:
    """The whole distributions of one round: p (N + 1, V) after the prefix and after each node, q (N, V), None when N = 0."""

    p: Tensor
    q: Tensor | None


def step(
    rows: Sequence[Prefix],
    target: LanguageModel,
    proposer: Proposer,
    rule: Rule,
    randomness: Randomness,
    eos_token_ids: frozenset[int] = frozenset(),
    bars: int = 0,
) -> list[Round]:
    """One round of every row. Chains, trees and batches all pass here.

    rows     B prefixes, each with room for at least one token
    eos_token_ids    token ids that end a text
    bars     largest tokens per distribution to keep for drawing; 0 keeps none
    returns  one Round per row; its ``committed`` tokens are what joins the text
    """
    began = time.perf_counter()
    block = proposer.propose(rows, randomness)
    proposed = time.perf_counter()
    p = target.distributions(rows, block)
    scored = time.perf_counter()
    outcomes = [cut(o, row, eos_token_ids) for o, row in zip(rule.verify(rows, block, p, randomness), rows, strict=True)]
    timing = {"draft": proposed - began, "target": scored - proposed, "rule": time.perf_counter() - scored}
    return [_record(rule, row, block, i, p[i], outcomes[i], randomness, timing, bars) for i, row in enumerate(rows)]


def cut(outcome: Outcome, row: Prefix, eos_token_ids: frozenset[int]) -> Outcome:
    """The outcome up to the earliest stop token inside the block, and never beyond the row's room.

    A stop token inside the accepted path closes the round (kind ``eos``, no further token); a path that fills the room
    closes it with kind ``length``. A stop token drawn by the rule itself needs no cut.
    """
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
) -> Iterator[Round]:
    """Rounds until a stop token, ``settings.length`` generated tokens, or the end of the target's context.

    prompt   at least one id
    draw     number of this continuation: which number of each random number stream is its own
    earlier  rounds of the same run that are known already; decoding goes on after them

    Raises SettingsError for a prompt that is empty or leaves no room in the context.
    """
    row = opening_row(prompt, settings, target.context, draw)
    for round_ in earlier:
        row = advance(row, round_)
    known = earlier[-1].committed if earlier else ()
    while row.remaining > 0 and not (known and known[-1] in eos_token_ids):
        (round_,) = step([row], target, proposer, rule, randomness, eos_token_ids, bars)
        yield round_
        row, known = advance(row, round_), round_.committed


def target_only(
    target: LanguageModel,
    randomness: StreamRandomness,
    settings: Settings,
    prompt: Sequence[int],
    eos_token_ids: frozenset[int] = frozenset(),
    draw: int = 0,
) -> Iterator[Round]:
    """The same records when the target decodes alone, with random numbers of its own purpose."""
    return decode(target, Nothing(), TokenRule(), TargetOnlyRandomness(randomness), settings, prompt, eos_token_ids, draw=draw)


@dataclass(frozen=True, slots=True)
class TargetOnlyRandomness:
    """Another's random numbers, with the bonus draws of a run without proposals taken from the target-only streams."""

    randomness: StreamRandomness

    def take(self, purpose: Purpose, rows: Sequence[Prefix], node: int, depth: int) -> np.ndarray:
        assert purpose is Purpose.BONUS, "a run without proposals draws nothing else"
        return self.randomness.take(Purpose.TARGET_ONLY, rows, node, depth)

    def stream(self, purpose: Purpose, start: int, node: int, first: int, count: int) -> np.ndarray:
        assert purpose is Purpose.BONUS, "a run without proposals draws nothing else"
        return self.randomness.stream(Purpose.TARGET_ONLY, start, node, first, count)


def randomness_of(settings: Settings) -> Randomness:
    """The seed's random numbers, with a person's edits laid over them."""
    randomness = PhiloxRandomness(settings.seed)
    return EditedRandomness(randomness, settings.edits) if settings.edited else randomness


def opening_row(prompt: Sequence[int], settings: Settings, context: int | None, draw: int = 0) -> Prefix:
    """The first prefix of a run; its room is the length asked for, or what the context still holds."""
    if not prompt:
        raise SettingsError("prompt", "no tokens", "at least one token long; an empty text starts with the start token")
    remaining = settings.length
    if context is not None:
        if len(prompt) > context:
            raise SettingsError("prompt", f"{len(prompt)} tokens", f"at most {context} tokens, the context of this pair")
        remaining = min(remaining, context + 1 - len(prompt))
    return Prefix(tuple(prompt), 0, remaining, draw)


def advance(row: Prefix, round_: Round) -> Prefix:
    """The prefix after a round."""
    added, past = round_.committed, (*row.past, (_levels(round_), len(round_.accepted_path)))
    return replace(row, ids=row.ids + added, start=row.start + len(added), remaining=row.remaining - len(added), past=past)


def _levels(round_: Round) -> int:
    """How many draft tokens a round had one below the other."""
    depths: list[int] = []
    for decision in round_.proposals:
        depths.append(1 if decision.parent == ROOT else depths[decision.parent] + 1)
    return max(depths, default=0)


def _record(
    rule: Rule,
    row: Prefix,
    block: DraftTree,
    index: int,
    p: Tensor,
    outcome: Outcome,
    randomness: Randomness,
    timing: dict[str, float],
    bars: int,
) -> Round:
    decisions = outcome.decisions
    distributions: tuple[Distribution, ...] = ()
    if bars:
        decisions, distributions = round_views(rule, row, block, index, p, outcome, randomness, bars)
    nodes = len(block.tokens[index])
    full = FullDistributions(p[: nodes + 1], block.q[index])
    return Round(len(row.ids), decisions, outcome.accepted_path, outcome.ending, distributions, timing, full)
