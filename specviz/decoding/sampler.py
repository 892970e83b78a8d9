"""Many samples at once: through the real decoder in batches, or on shared distributions, each computed once for all samples.

Both give the samples of ``engine.decode``: sample i takes the i-th number of every random stream. ``decoded`` runs the engine
itself, caches included. ``shared_distributions`` changes the order of the work: all samples that have m tokens get their next
token together, prefix by prefix, and the rule's own methods decide about each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from specviz.decoding.engine import advance, opening_row, step
from specviz.decoding.samples import NONE, Samples
from specviz.errors import SettingsError
from specviz.models.base import LanguageModel
from specviz.models.paths import distributions_after
from specviz.proposers.base import ChainProposer, Proposer
from specviz.randomness import Purpose, Randomness, StreamRandomness
from specviz.settings import Settings
from specviz.verification.draw import draw_each
from specviz.verification.token_rule import EmptyResidual, Rule, TokenRule

Watch = Callable[[float], None]  # called with the fraction of the work that is done; may raise to stop it
Distributions = tuple[Tensor, Tensor | None, Tensor | None]


@dataclass(slots=True)
class Half:
    """The state of a shard between two passes: enough to continue it, also in another process.

    place   number of tokens that every sample has
    done    number of texts of that length whose samples have their next token as well
    tokens  (N, L) int32
    start   (N,) int16, where each sample's round began
    open    (N,) bool, whether the sample continues
    """

    place: int
    done: int
    tokens: np.ndarray
    start: np.ndarray
    open: np.ndarray

    @classmethod
    def blank(cls, count: int, remaining: int) -> Half:
        return cls(
            0, 0, np.full((count, remaining), NONE, dtype=np.int32), np.zeros(count, dtype=np.int16), np.ones(count, dtype=bool)
        )


def decoded(
    target: LanguageModel,
    proposer: Proposer,
    rule: Rule,
    randomness: Randomness,
    settings: Settings,
    prompt: Sequence[int],
    eos_token_ids: frozenset[int] = frozenset(),
    first: int = 0,
    count: int = 1,
    batch: int = 64,
    source: str = "speculative",
    watch: Watch = lambda fraction: None,
) -> Samples:
    """Samples ``first`` to ``first + count - 1`` through ``engine.step``, ``batch`` rows at a time.

    Rows accept different numbers of tokens; when a sample ends, the next one takes its row. The text of a sample depends only on
    its number, up to the last digits in which passes over other numbers of rows round differently.
    """
    opening = opening_row(prompt, settings, target.context)
    tokens = np.full((count, opening.remaining), NONE, dtype=np.int32)
    waiting = iter(range(first, first + count))
    rows = [replace(opening, draw=number) for number in islice(waiting, batch)]
    ended = 0
    while rows:
        going = []
        for row, round_ in zip(rows, step(rows, target, proposer, rule, randomness, eos_token_ids), strict=True):
            tokens[row.draw - first, row.start : row.start + len(round_.committed)] = round_.committed
            row = advance(row, round_)
            if row.remaining > 0 and round_.committed[-1] not in eos_token_ids:
                going.append(row)
            else:
                ended += 1
                going += [replace(opening, draw=number) for number in islice(waiting, 1)]
        rows = going
        watch(ended / count)
    return Samples(tokens, settings.to_record(), source, first)


def shared_distributions(
    target: LanguageModel,
    proposer: ChainProposer,
    rule: TokenRule,
    randomness: StreamRandomness,
    settings: Settings,
    prompt: Sequence[int],
    eos_token_ids: frozenset[int] = frozenset(),
    first: int = 0,
    count: int = 1,
    source: str = "speculative",
    watch: Watch = lambda fraction: None,
    half: Half | None = None,
    keep: Callable[[Half], None] = lambda half: None,
) -> Samples:
    """Samples ``first`` to ``first + count - 1`` of a run: for each i the tokens of ``engine.decode(draw=i)``.

    half  state to continue from, as ``keep`` was given it in the same call; the samples are the same to the last bit
    keep  called with the state after each pass; the arrays change afterwards, so copy what is to last

    The distributions come from passes over trees of texts, the engine's from chains. In float32 they differ in the seventh digit,
    so a sample with a random number that close to its threshold may differ (``specviz.decoding.borderline`` finds these). Memory:
    4 (L + 1) bytes per sample and stream, and the distributions of one pass.

    Raises SettingsError for a rule that does not judge token by token, and for a proposer of anything but chains of fixed length.
    """
    if not isinstance(rule, TokenRule):
        raise SettingsError(
            "rule", rule.name, "one that judges token by token, such as token: shared distributions cannot sample others"
        )
    if not hasattr(proposer, "levels"):
        raise SettingsError(
            "proposer", proposer.name, "one of chains of a fixed length: shared distributions cannot sample others"
        )
    shard = Shard(target, proposer, rule, randomness, settings, prompt, eos_token_ids, first, count)
    return shard.drawn(source, watch, half, keep)


class Shard:
    """The samples of one call, all at the same length."""

    def __init__(
        self,
        target: LanguageModel,
        proposer: ChainProposer,
        rule: TokenRule,
        randomness: StreamRandomness,
        settings: Settings,
        prompt: Sequence[int],
        eos_token_ids: frozenset[int],
        first: int,
        count: int,
    ):
        self.target, self.proposer, self.rule, self.randomness = target, proposer, rule, randomness
        self.settings, self.prompt, self.first, self.count = settings, tuple(prompt), first, count
        self.eos_token_ids = torch.tensor(sorted(eos_token_ids), dtype=torch.int64)
        remaining = opening_row(prompt, settings, target.context).remaining
        self.levels = _levels(proposer, self.prompt, remaining)
        self._take(Half.blank(count, remaining))

    def _take(self, half: Half) -> None:
        self.half, self.tokens, self.start, self.open = half, half.tokens, half.start, half.open

    def drawn(self, source: str, watch: Watch, half: Half | None, keep: Callable[[Half], None]) -> Samples:
        if half is not None:
            self._take(half)
            self._warm()
        remaining = self.tokens.shape[1]
        while self.half.place < remaining:
            for fraction in self._place(self.half.place):
                watch((self.half.place + fraction) / remaining)
                keep(self.half)
            self.half.place, self.half.done = self.half.place + 1, 0
        return Samples(self.tokens, self.settings.to_record(), source, self.first)

    def _warm(self) -> None:
        """Read only the prompt, as the first pass of a whole shard does, so that later passes round in the same way."""
        nothing = np.zeros((1, 0), dtype=np.int64)
        sources = [self.target, *([self.proposer.draft, getattr(self.proposer, "claimed", None)] if self.levels[0] else [])]
        for source in filter(None, sources):
            next(distributions_after(source, self.prompt, nothing))

    def _place(self, place: int) -> Iterator[float]:
        """Write token number ``place`` of every open sample that lacks it; yields the fraction that is done."""
        which = np.flatnonzero(self.open)
        if not len(which):
            return
        paths, group = _distinct(self.tokens[which, :place])
        order = np.argsort(group, kind="stable")
        which, ends = which[order], np.searchsorted(group[order], np.arange(len(paths) + 1))
        randomness, drafting = self._randomness(place)
        left = paths[self.half.done :]
        drafts, claims = self._drafts(left) if drafting[which].any() else (None, None)
        for _, p in distributions_after(self.target, self.prompt, left) if len(left) else ():
            q = next(drafts)[1] if drafts else None
            claimed = next(claims)[1] if claims else q
            for offset, number in enumerate(range(self.half.done, self.half.done + len(p))):
                mine = which[ends[number] : ends[number + 1]]
                distributions = (
                    (p[offset], None, None) if q is None or claimed is None else (p[offset], q[offset], claimed[offset])
                )
                self._write(place, mine, distributions, {purpose: u[mine] for purpose, u in randomness.items()}, drafting[mine])
            self.half.done += len(p)
            yield self.half.done / len(paths)
        written = torch.from_numpy(self.tokens[:, place].astype(np.int64))
        self.open &= ~torch.isin(written, self.eos_token_ids).numpy()

    def _drafts(self, paths: np.ndarray) -> tuple[Iterator[Any], Iterator[Any] | None]:
        """The distributions that draft tokens are drawn from, and those that a mutant claims for them; None if the same."""
        claimed = getattr(self.proposer, "claimed", None)
        drafts = distributions_after(self.proposer.draft, self.prompt, paths)
        return drafts, distributions_after(claimed, self.prompt, paths) if claimed else None

    def _randomness(self, place: int) -> tuple[dict[Purpose, np.ndarray], np.ndarray]:
        """Each sample's random numbers here, (count,) float64 by purpose, and whether its round tests a draft token here."""
        randomness = {
            purpose: np.zeros(self.count) for purpose in (Purpose.DRAFT, Purpose.ACCEPT, Purpose.RESIDUAL, Purpose.BONUS)
        }
        drafting = np.zeros(self.count, dtype=bool)
        for start in range(place + 1):
            here, node = self.open & (self.start == start), place - start
            if not here.any():
                continue
            drafting[here] = drafted = node < self.levels[start]
            for purpose in (Purpose.DRAFT, Purpose.ACCEPT, Purpose.RESIDUAL) if drafted else (Purpose.BONUS,):
                randomness[purpose][here] = self.randomness.stream(purpose, start, node, self.first, self.count)[here]
        return randomness, drafting

    def _write(
        self,
        place: int,
        which: np.ndarray,
        distributions: Distributions,
        randomness: dict[Purpose, np.ndarray],
        drafting: np.ndarray,
    ) -> None:
        tokens, closed = settled(self.rule, distributions, randomness, drafting)
        self.tokens[which, place] = tokens
        self.start[which[closed]] = place + 1


def settled(
    rule: TokenRule, distributions: Distributions, randomness: dict[Purpose, np.ndarray], drafting: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The next token of n samples that share their text, (n,) int64, and for which of them it ends the round, (n,) bool.

    distributions  (V,) each: p, the distribution that draft tokens are drawn from, and the one claimed for them; the last two are
                   None if no draft token is tested
    randomness     (n,) float64 by purpose
    drafting       (n,) bool: True where the sample's round tests a draft token here, False where it adds its bonus token
    """
    p, drawn, q = distributions
    tokens, closed = np.empty(len(drafting), dtype=np.int64), ~drafting

    def fill(which: np.ndarray, probs: Tensor, purpose: Purpose) -> Tensor:
        ids = draw_each(probs, torch.from_numpy(randomness[purpose][which]))
        tokens[which] = ids.numpy()
        return ids

    if closed.any():
        fill(closed, rule.bonus(p), Purpose.BONUS)
    if drafting.any():
        assert drawn is not None and q is not None, "a round that drafts has its draft's distributions"
        draft_tokens = fill(drafting, drawn, Purpose.DRAFT)
        here = rule.at(p)
        accepted = here.accepts(torch.from_numpy(randomness[Purpose.ACCEPT][drafting]), p[draft_tokens], q[draft_tokens]).numpy()
        rejected = np.flatnonzero(drafting)[~accepted]
        if len(rejected):
            with suppress(EmptyResidual):  # p equals q up to rounding: the draft token is accepted, as in the rule itself
                fill(rejected, here.replacement(p, q), Purpose.RESIDUAL)
                closed[rejected] = True
    return tokens, closed


def _levels(proposer: ChainProposer, prompt: tuple[int, ...], remaining: int) -> list[int]:
    """Number of draft tokens of a round, by the position at which it starts. It does not depend on the text before it."""
    rows = [opening_row(prompt + (0,) * start, Settings(length=remaining - start), None) for start in range(remaining)]
    return [proposer.levels(row) for row in rows]


def _distinct(paths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct rows in lexicographic order, and the index of each row among them."""
    first, group = np.zeros(1, dtype=np.int64), np.zeros(len(paths), dtype=np.int64)
    for column in paths.T:  # one sort of numbers a token: sorting rows takes ten times as long
        _, first, group = np.unique(group * (int(column.max()) + 1) + column, return_index=True, return_inverse=True)
    return paths[first], group.reshape(-1)
