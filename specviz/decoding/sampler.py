"""Many continuations at once: through the real decoder in batches, or on shared laws, each computed once for all that need it.

Both give the draws of ``engine.decode``, number by number: draw i takes the i-th number of every coin stream. ``decoded``
runs the engine itself, caches and all. ``shared_laws`` changes the order of the work: all draws that have written m tokens
are served together, prefix by prefix, before any writes its next one, and the rule's own methods decide about each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from specviz.decoding.engine import advance, opening_row, step
from specviz.decoding.samples import NONE, Samples
from specviz.errors import SettingsError
from specviz.models.base import LawSource
from specviz.models.paths import laws_after
from specviz.proposers.base import ChainProposer, Proposer
from specviz.randomness import Coins, Purpose, StreamCoins
from specviz.settings import Settings
from specviz.verification.draw import draw_each
from specviz.verification.token_rule import EmptyResidual, Rule, TokenRule

Watch = Callable[[float], None]  # told the share of the work that is done; may raise to stop it
Laws = tuple[Tensor, Tensor | None, Tensor | None]


@dataclass(slots=True)
class Half:
    """A shard on shared laws between two passes: all that is needed to go on with it, in another process too.

    place   tokens of every draw that are written; done  texts of that length whose draws have their next token as well
    tokens  (N, L) int32; start  (N,) int16 where each draw's round began; open  (N,) bool whether it goes on
    """

    place: int
    done: int
    tokens: np.ndarray
    start: np.ndarray
    open: np.ndarray

    @classmethod
    def blank(cls, count: int, room: int) -> Half:
        return cls(
            0, 0, np.full((count, room), NONE, dtype=np.int32), np.zeros(count, dtype=np.int16), np.ones(count, dtype=bool)
        )


def decoded(
    target: LawSource,
    proposer: Proposer,
    rule: Rule,
    coins: Coins,
    settings: Settings,
    prompt: Sequence[int],
    stops: frozenset[int] = frozenset(),
    first: int = 0,
    count: int = 1,
    batch: int = 64,
    source: str = "speculative",
    watch: Watch = lambda share: None,
) -> Samples:
    """Continuations ``first`` to ``first + count - 1`` through ``engine.step``, ``batch`` rows at a time, each at its own pace.

    Rows accept different numbers of tokens; a row that ends makes room for the next draw. What a row writes depends on its
    draw number alone, up to the last digits in which passes over other numbers of rows round differently.
    """
    opening = opening_row(prompt, settings, target.context)
    tokens = np.full((count, opening.room), NONE, dtype=np.int32)
    waiting = iter(range(first, first + count))
    rows = [replace(opening, draw=number) for number in islice(waiting, batch)]
    ended = 0
    while rows:
        going = []
        for row, round_ in zip(rows, step(rows, target, proposer, rule, coins, stops), strict=True):
            tokens[row.draw - first, row.start : row.start + len(round_.committed)] = round_.committed
            row = advance(row, round_)
            if row.room > 0 and round_.committed[-1] not in stops:
                going.append(row)
            else:
                ended += 1
                going += [replace(opening, draw=number) for number in islice(waiting, 1)]
        rows = going
        watch(ended / count)
    return Samples(tokens, settings.to_record(), source, first)


def shared_laws(
    target: LawSource,
    proposer: ChainProposer,
    rule: TokenRule,
    coins: StreamCoins,
    settings: Settings,
    prompt: Sequence[int],
    stops: frozenset[int] = frozenset(),
    first: int = 0,
    count: int = 1,
    source: str = "speculative",
    watch: Watch = lambda share: None,
    half: Half | None = None,
    keep: Callable[[Half], None] = lambda half: None,
) -> Samples:
    """Continuations ``first`` to ``first + count - 1`` of a run: the tokens that ``engine.decode(draw=i)`` writes, for each i.

    The laws come from passes over trees of continuations, the engine's from chains: in float32 they differ in the seventh
    digit, so a draw whose coin lies that close to its threshold may differ (``specviz.decoding.borderline`` counts them). Memory: 4 (L + 1) bytes per draw and stream, and
    the laws of one pass.

    half, keep   ``keep`` is shown the work after each pass (it changes on: copy what is to last); a ``half`` from there, of
                 the same call, is gone on with, and the draws are the same to the last bit
    """
    if not isinstance(rule, TokenRule):
        raise SettingsError("rule", rule.name, "one that judges guess by guess, such as token: shared laws draw no others")
    if not hasattr(proposer, "levels"):
        raise SettingsError("proposer", proposer.name, "one of chains of a fixed length: shared laws draw no others")
    shard = Shard(target, proposer, rule, coins, settings, prompt, stops, first, count)
    return shard.drawn(source, watch, half, keep)


class Shard:
    """The draws of one call, all at the same length."""

    def __init__(self, target, proposer, rule, coins, settings, prompt, stops, first, count):
        self.target, self.proposer, self.rule, self.coins = target, proposer, rule, coins
        self.settings, self.prompt, self.first, self.count = settings, tuple(prompt), first, count
        self.stops = torch.tensor(sorted(stops), dtype=torch.int64)
        room = opening_row(prompt, settings, target.context).room
        self.levels = _levels(proposer, self.prompt, room)
        self._take(Half.blank(count, room))

    def _take(self, half: Half) -> None:
        self.half, self.tokens, self.start, self.open = half, half.tokens, half.start, half.open

    def drawn(self, source: str, watch: Watch, half: Half | None, keep: Callable[[Half], None]) -> Samples:
        if half is not None:
            self._take(half)
            self._warm()
        room = self.tokens.shape[1]
        while self.half.place < room:
            for share in self._place(self.half.place):
                watch((self.half.place + share) / room)
                keep(self.half)
            self.half.place, self.half.done = self.half.place + 1, 0
        return Samples(self.tokens, self.settings.to_record(), source, self.first)

    def _warm(self) -> None:
        """Read the prompt alone, as the first pass of a whole shard does: later passes then round as they would have."""
        nothing = np.zeros((1, 0), dtype=np.int64)
        sources = [self.target, *([self.proposer.draft, getattr(self.proposer, "claimed", None)] if self.levels[0] else [])]
        for source in filter(None, sources):
            next(laws_after(source, self.prompt, nothing))

    def _place(self, place: int) -> Iterator[float]:
        """Write token number ``place`` of every open draw that lacks it; yields the share that is done."""
        who = np.flatnonzero(self.open)
        if not len(who):
            return
        paths, group = _distinct(self.tokens[who, :place])
        order = np.argsort(group, kind="stable")
        who, ends = who[order], np.searchsorted(group[order], np.arange(len(paths) + 1))
        coins, guessing = self._coins(place)
        left = paths[self.half.done :]
        drafts, claims = self._drafts(left) if guessing[who].any() else (None, None)
        for _, p in laws_after(self.target, self.prompt, left) if len(left) else ():
            q = next(drafts)[1] if drafts else None
            claimed = next(claims)[1] if claims else q
            for offset, number in enumerate(range(self.half.done, self.half.done + len(p))):
                mine = who[ends[number] : ends[number + 1]]
                laws = (p[offset], None, None) if q is None else (p[offset], q[offset], claimed[offset])
                self._write(place, mine, laws, {purpose: u[mine] for purpose, u in coins.items()}, guessing[mine])
            self.half.done += len(p)
            yield self.half.done / len(paths)
        written = torch.from_numpy(self.tokens[:, place].astype(np.int64))
        self.open &= ~torch.isin(written, self.stops).numpy()

    def _drafts(self, paths: np.ndarray):
        """The laws that guesses are drawn from, and those that the proposer claims for them where these are others (a mutant)."""
        claimed = getattr(self.proposer, "claimed", None)
        drafts = laws_after(self.proposer.draft, self.prompt, paths)
        return drafts, laws_after(claimed, self.prompt, paths) if claimed else None

    def _coins(self, place: int) -> tuple[dict[Purpose, np.ndarray], np.ndarray]:
        """Each draw's numbers for this place, (count,) float64 by purpose, and whether its round tests a guess here."""
        coins = {purpose: np.zeros(self.count) for purpose in (Purpose.DRAFT, Purpose.ACCEPT, Purpose.RESIDUAL, Purpose.BONUS)}
        guessing = np.zeros(self.count, dtype=bool)
        for start in range(place + 1):
            here, node = self.open & (self.start == start), place - start
            if not here.any():
                continue
            guessing[here] = guesses = node < self.levels[start]
            for purpose in (Purpose.DRAFT, Purpose.ACCEPT, Purpose.RESIDUAL) if guesses else (Purpose.BONUS,):
                coins[purpose][here] = self.coins.stream(purpose, start, node, self.first, self.count)[here]
        return coins, guessing

    def _write(self, place: int, who: np.ndarray, laws: Laws, coins: dict[Purpose, np.ndarray], guessing: np.ndarray) -> None:
        tokens, closed = settled(self.rule, laws, coins, guessing)
        self.tokens[who, place] = tokens
        self.start[who[closed]] = place + 1


def settled(rule: TokenRule, laws: Laws, coins: dict[Purpose, np.ndarray], guessing: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The next token of n draws that share their text, (n,) int64, and for which of them it ends the round, (n,) bool.

    laws      (V,) each: p, the law that guesses are drawn from, and what is claimed for it; the last two None without guesses
    coins     (n,) float64 by purpose; guessing  (n,) bool: whether the draw's round tests a guess here, or adds its bonus
    """
    p, drawn, q = laws
    tokens, closed = np.empty(len(guessing), dtype=np.int64), ~guessing

    def fill(who: np.ndarray, law: Tensor, purpose: Purpose) -> Tensor:
        ids = draw_each(law, torch.from_numpy(coins[purpose][who]))
        tokens[who] = ids.numpy()
        return ids

    if closed.any():
        fill(closed, rule.bonus(p), Purpose.BONUS)
    if guessing.any():
        guesses = fill(guessing, drawn, Purpose.DRAFT)
        here = rule.at(p)
        kept = here.accepts(torch.from_numpy(coins[Purpose.ACCEPT][guessing]), p[guesses], q[guesses]).numpy()
        refused = np.flatnonzero(guessing)[~kept]
        if len(refused):
            with suppress(EmptyResidual):  # p equals q up to rounding: the guess stays, as in the rule itself
                fill(refused, here.replacement(p, q), Purpose.RESIDUAL)
                closed[refused] = True
    return tokens, closed


def _levels(proposer: ChainProposer, prompt: tuple[int, ...], room: int) -> list[int]:
    """Guesses of a round by where it starts; which tokens stand before it does not matter."""
    rows = [opening_row(prompt + (0,) * start, Settings(length=room - start), None) for start in range(room)]
    return [proposer.levels(row) for row in rows]


def _distinct(paths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Different rows in lexicographic order, and which of them each row is."""
    first, group = np.zeros(1, dtype=np.int64), np.zeros(len(paths), dtype=np.int64)
    for column in paths.T:  # one sort of numbers a token: sorting rows takes ten times as long
        _, first, group = np.unique(group * (int(column.max()) + 1) + column, return_index=True, return_inverse=True)
    return paths[first], group.reshape(-1)
