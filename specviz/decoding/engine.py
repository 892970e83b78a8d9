"""The decoder: propose, score, verify, commit. It joins proposers and verification, and knows neither's insides.

Leviathan et al. 2023, Algorithm 1; Chen et al. 2023, Algorithm 2 (there p and q are swapped).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from specviz.errors import SettingsError
from specviz.models.base import LawSource
from specviz.proposers.base import Nothing, Proposer
from specviz.randomness import Coins, EditedCoins, PhiloxCoins, Prefix, Purpose, StreamCoins
from specviz.settings import Settings
from specviz.trace import Ending, Outcome, Round
from specviz.verification.draft_tree import ROOT, Block
from specviz.verification.token_rule import Rule, TokenRule
from specviz.verification.views import round_views


@dataclass(frozen=True, slots=True)
class FullLaws:
    """The whole laws of one round: p (N + 1, V) after the prefix and after each node, q (N, V), None when N = 0."""

    p: Tensor
    q: Tensor | None


def step(
    rows: Sequence[Prefix],
    target: LawSource,
    proposer: Proposer,
    rule: Rule,
    coins: Coins,
    stops: frozenset[int] = frozenset(),
    bars: int = 0,
) -> list[Round]:
    """One round of every row. Chains, trees and batches all pass here.

    rows     B prefixes, each with room for at least one token
    stops    token ids that end a text
    bars     largest tokens per law to keep for drawing; 0 keeps none
    returns  one Round per row; its ``committed`` tokens are what joins the text
    """
    began = time.perf_counter()
    block = proposer.propose(rows, coins)
    proposed = time.perf_counter()
    p = target.laws(rows, block)
    scored = time.perf_counter()
    outcomes = [cut(o, row, stops) for o, row in zip(rule.verify(rows, block, p, coins), rows, strict=True)]
    timing = {"draft": proposed - began, "target": scored - proposed, "rule": time.perf_counter() - scored}
    return [_record(rule, row, block, i, p[i], outcomes[i], coins, timing, bars) for i, row in enumerate(rows)]


def cut(outcome: Outcome, row: Prefix, stops: frozenset[int]) -> Outcome:
    """The outcome up to the earliest stop token inside the block, and never beyond the row's room.

    A stop token inside the accepted path closes the round (kind ``eos``, no further token); a path that fills the room
    closes it with kind ``length``. A stop token drawn by the rule itself needs no cut.
    """
    path = outcome.accepted_path
    for count, node in enumerate(path, start=1):
        if outcome.decisions[node].token in stops and count <= row.room:
            return replace(outcome, accepted_path=path[:count], ending=Ending("eos", None, None))
    if len(outcome.committed) > row.room:
        return replace(outcome, accepted_path=path[: row.room], ending=Ending("length", None, None))
    return outcome


def decode(
    target: LawSource,
    proposer: Proposer,
    rule: Rule,
    coins: Coins,
    settings: Settings,
    prompt: Sequence[int],
    stops: frozenset[int] = frozenset(),
    bars: int = 0,
    draw: int = 0,
    earlier: Sequence[Round] = (),
) -> Iterator[Round]:
    """Rounds until a stop token, ``settings.length`` generated tokens, or the end of the target's context.

    prompt   at least one id
    draw     number of this continuation: which number of each coin stream is its own
    earlier  rounds of the same run that are known already; decoding goes on after them

    Raises SettingsError for a prompt that is empty or leaves no room in the context.
    """
    row = opening_row(prompt, settings, target.context, draw)
    for round_ in earlier:
        row = advance(row, round_)
    known = earlier[-1].committed if earlier else ()
    while row.room > 0 and not (known and known[-1] in stops):
        (round_,) = step([row], target, proposer, rule, coins, stops, bars)
        yield round_
        row, known = advance(row, round_), round_.committed


def target_only(
    target: LawSource, coins: Coins, settings: Settings, prompt: Sequence[int], stops: frozenset[int] = frozenset(), draw: int = 0
) -> Iterator[Round]:
    """The same records when the target decodes alone, with coins of its own purpose."""
    return decode(target, Nothing(), TokenRule(), TargetOnlyCoins(coins), settings, prompt, stops, draw=draw)


@dataclass(frozen=True, slots=True)
class TargetOnlyCoins:
    """Another's coins, with the bonus draws of a run without proposals taken from the target-only streams."""

    coins: StreamCoins

    def take(self, purpose: Purpose, rows: Sequence[Prefix], node: int, depth: int):
        assert purpose is Purpose.BONUS, "a run without proposals draws nothing else"
        return self.coins.take(Purpose.TARGET_ONLY, rows, node, depth)

    def stream(self, purpose: Purpose, start: int, node: int, first: int, count: int):
        assert purpose is Purpose.BONUS, "a run without proposals draws nothing else"
        return self.coins.stream(Purpose.TARGET_ONLY, start, node, first, count)


def coins_of(settings: Settings) -> Coins:
    """The seed's coins, with a person's edits laid over them."""
    coins = PhiloxCoins(settings.seed)
    return EditedCoins(coins, settings.edits) if settings.edited else coins


def opening_row(prompt: Sequence[int], settings: Settings, context: int | None, draw: int = 0) -> Prefix:
    """The first prefix of a run; its room is the length asked for, or what the context still holds."""
    if not prompt:
        raise SettingsError("prompt", "no tokens", "at least one token long; an empty text starts with the start token")
    room = settings.length
    if context is not None:
        if len(prompt) > context:
            raise SettingsError("prompt", f"{len(prompt)} tokens", f"at most {context} tokens, the context of this pair")
        room = min(room, context + 1 - len(prompt))
    return Prefix(tuple(prompt), 0, room, draw)


def advance(row: Prefix, round_: Round) -> Prefix:
    """The prefix after a round."""
    added, past = round_.committed, (*row.past, (_levels(round_), len(round_.accepted_path)))
    return replace(row, ids=row.ids + added, start=row.start + len(added), room=row.room - len(added), past=past)


def _levels(round_: Round) -> int:
    """How many guesses a round had one below the other."""
    depths: list[int] = []
    for decision in round_.proposals:
        depths.append(1 if decision.parent == ROOT else depths[decision.parent] + 1)
    return max(depths, default=0)


def _record(
    rule: Rule,
    row: Prefix,
    block: Block,
    index: int,
    p: Tensor,
    outcome: Outcome,
    coins: Coins,
    timing: dict[str, float],
    bars: int,
) -> Round:
    decisions, laws = outcome.decisions, ()
    if bars:
        decisions, laws = round_views(rule, row, block, index, p, outcome, coins, bars)
    nodes = len(block.tokens[index])
    full = FullLaws(p[: nodes + 1], block.q[index])
    return Round(len(row.ids), decisions, outcome.accepted_path, outcome.ending, laws, timing, full)
