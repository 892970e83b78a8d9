"""Many samples at once: through the real decoder in batches, or on shared distributions, each computed once for all samples.

Both give the samples of ``engine.decode``: sample i takes the i-th number of every random stream. ``sample_with_engine`` runs the engine
itself, caches included. ``sample_with_shared_distributions`` changes the order of work: all samples that have m tokens get their next
token together, prefix by prefix, and the rule's own methods decide about each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from specviz.decoding.device.choice import choose_engine
from specviz.decoding.engine import advance_prefix, build_first_prefix
from specviz.decoding.samples import COLUMNS, NONE, Samples, count_events, group_rows
from specviz.errors import SettingsError
from specviz.models.base import LanguageModel
from specviz.models.continuations import iterate_distributions_after, limit_rows
from specviz.process import trim_memory
from specviz.progress import ProgressCallback, ignore_progress
from specviz.proposers.base import ChainProposer, Proposer
from specviz.randomness import CachedRandomness, Prefix, Purpose, Randomness, StreamRandomness
from specviz.settings import Settings
from specviz.trace import Round
from specviz.verification.draw import draw_in_rows, draw_many
from specviz.verification.rule import Rule
from specviz.verification.token import EmptyResidualError, TokenRule, compute_unscaled_residual, judge_tokens

Distributions = tuple[Tensor, Tensor | None, Tensor | None]
RowRound = tuple[Prefix, Round, Prefix | None]  # a row, its round, and the row after it; None where it has ended


@dataclass(frozen=True, slots=True)
class FollowedTexts:
    """How far samples are drawn on shared distributions where a distribution is expensive.

    Each sample is drawn as long as its text is one of ``texts``, which contain their own beginnings; the first ``whole_samples`` are drawn to
    their end. Whether a sample goes on depends only on its text, so its tokens follow the decoder's conditional distributions.
    """

    whole_samples: int
    texts: frozenset[tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Shard:
    """Samples ``first`` to ``first + count - 1`` of one decoder: the arguments of ``engine.decode``, and the numbers of the samples."""

    target: LanguageModel
    proposer: Proposer
    rule: Rule
    randomness: Randomness
    settings: Settings
    prompt: Sequence[int]
    eos_token_ids: frozenset[int] = frozenset()
    first: int = 0
    count: int = 1
    followed: FollowedTexts | None = None  # None: each sample to its end; the engine draws all of them to their end
    # through the engine: tokens of each sample that are drawn; where the settings allow more, a round of a sample with an odd number
    # may draft one token less; None: each sample to its end
    tested_tokens: int | None = None


@dataclass(slots=True)
class ShardState:
    """The state of a shard between two passes: enough to continue it, also in another process."""

    place: int  # number of tokens that every sample has
    done: int  # number of texts of that length whose samples have their next token as well
    tokens: np.ndarray  # (N, L) int32
    start: np.ndarray  # (N,) int16, where each sample's round began
    open: np.ndarray  # (N,) bool, whether the sample continues
    events: np.ndarray  # (N, 8) int16, as in Samples

    @classmethod
    def build_empty(cls, count: int, remaining: int) -> ShardState:
        """Build the state of ``count`` samples of which nothing is drawn."""
        tokens, events = np.full((count, remaining), NONE, dtype=np.int32), np.zeros((count, 8), dtype=np.int16)
        events[:, -1] = NONE
        return cls(0, 0, tokens, np.zeros(count, dtype=np.int16), np.ones(count, dtype=bool), events)


def sample_with_engine(
    shard: Shard,
    batch: int = 64,
    source: str = "speculative",
    on_progress: ProgressCallback = ignore_progress,
    engine: str | None = None,
    in_step: bool = False,
) -> Samples:
    """Draw the samples of a shard through the rounds of the decoder, ``batch`` rows at a time.

    An ``engine`` replaces that of the settings. When a sample ends, the next one takes its row. The text of a sample depends only
    on its number, up to the last digits in which passes over other numbers of rows round differently.

    ``in_step``: every sample takes a round before any takes its next one. Samples that probably draft the same token, and later those
    of the same text, are in one batch, which then asks memoized models about fewer texts.
    """
    opening = build_first_prefix(shard.prompt, shard.settings, shard.target.context)
    length = opening.remaining if shard.tested_tokens is None else min(shard.tested_tokens, opening.remaining)
    tokens, events = np.full((shard.count, length), NONE, dtype=np.int32), np.zeros((shard.count, 8), dtype=np.int32)
    randomness, numbers = shard.randomness, np.arange(shard.first, shard.first + shard.count)
    if in_step:
        randomness = streams = CachedRandomness(cast(StreamRandomness, shard.randomness), shard.first, shard.count)
        numbers = numbers[np.argsort(streams.get_stream(Purpose.DRAFT, 0, 0), kind="stable")]
    shorter = int(opening.remaining > length)
    rows = (replace(opening, draw=number, remaining=opening.remaining - shorter * (number % 2)) for number in numbers.tolist())
    decoder = (shard.target, shard.proposer, shard.rule, randomness, shard.eos_token_ids)
    columns, ended = len(shard.prompt) + opening.remaining, 0
    batch = limit_rows(batch, shard.target.vocabulary)
    choice = choose_engine(engine or shard.settings.engine, *decoder, rows=min(batch, shard.count), columns=columns)
    order: Callable[[Prefix], Any] | None = (lambda row: row.ids) if in_step else None
    for results in iterate_rounds(rows, choice.steps, shard.eos_token_ids, batch, shard.tested_tokens, order):
        for row, round_, after in results:
            number, written = row.draw - shard.first, round_.committed[: length - row.start]
            tokens[number, row.start : row.start + len(written)] = written
            events[number] += count_events(round_, after is not None)
            ended += after is None
        trim_memory()  # rounds leave holes between distributions of many sizes, and the heap would grow with every one
        on_progress(ended / shard.count)
    return Samples(tokens, shard.settings.to_record(), source, shard.first, events)


def iterate_rounds(
    rows: Iterable[Prefix],
    steps: Callable[[Sequence[Prefix]], list[Round]],
    eos_token_ids: frozenset[int],
    batch: int,
    most: int | None = None,
    order: Callable[[Prefix], Any] | None = None,
) -> Iterator[list[RowRound]]:
    """Decode many rows, ``batch`` at a time, until each has ended or has ``most`` tokens. Yields the rounds of each batch.

    With an ``order`` all rows take a round before any takes its next one, sorted by this key; without, the next row takes the
    place of one that ends. Rounds come without their whole distributions.
    """
    waiting = iter(rows)

    def take(running: Sequence[Prefix]) -> list[RowRound]:
        results = []
        for row, whole in zip(running, steps(running), strict=True):
            round_ = replace(whole, full=None)  # the next step would need its memory beside these
            after = advance_prefix(row, round_)
            done = after.remaining <= 0 or round_.committed[-1] in eos_token_ids or (most is not None and after.start >= most)
            results.append((row, round_, None if done else after))
        return results

    if order is None:
        running = list(islice(waiting, batch))
        while running:
            yield (results := take(running))
            running = [one for *_, after in results for one in ([after] if after else islice(waiting, 1))]
        return
    running = list(waiting)
    while running:
        going: list[Prefix] = []
        for first in range(0, len(running), batch):
            yield (results := take(running[first : first + batch]))
            going += [after for *_, after in results if after]
        running = sorted(going, key=order)


def sample_with_shared_distributions(
    shard: Shard,
    source: str = "speculative",
    on_progress: ProgressCallback = ignore_progress,
    state: ShardState | None = None,
    keep: Callable[[ShardState], None] = lambda state: None,
) -> Samples:
    """Draw the samples of a shard: for each i the tokens of ``engine.decode(draw=i)``.

    ``keep`` is called with the state after each pass, whose arrays change afterward; a ``state`` continues the same call, to the
    last bit. Distributions come from passes over trees of texts, the engine's from chains. In float32 they differ in the seventh
    digit, so a sample with a random number that close to its threshold may differ (``specviz.evidence.testing.borderline`` finds these).
    Memory: 4 (L + 1) bytes per sample and stream, and the distributions of one pass. Raises SettingsError for a rule that does
    not judge token by token, and for a proposer of anything but chains of fixed length.
    """
    rule, proposer = shard.rule, shard.proposer
    if not isinstance(rule, TokenRule):
        allowed = "one that judges token by token, such as token: shared distributions cannot sample others"
        raise SettingsError("rule", rule.name, allowed)
    if not hasattr(proposer, "count_levels"):
        allowed = "one of chains of a fixed length: shared distributions cannot sample others"
        raise SettingsError("proposer", proposer.name, allowed)
    return SharedSampler(shard).draw(source, on_progress, state, keep)


class SharedSampler:
    """Gives all samples of a shard their next token, place by place. Rule and proposer as in ``shared_distributions``."""

    def __init__(self, shard: Shard):
        self.shard, self.target, self.prompt = shard, shard.target, tuple(shard.prompt)
        self.proposer, self.rule = cast(ChainProposer, shard.proposer), cast(TokenRule, shard.rule)
        self.randomness = cast(StreamRandomness, shard.randomness)
        self.eos_token_ids = torch.tensor(sorted(shard.eos_token_ids), dtype=torch.int64)
        remaining = build_first_prefix(shard.prompt, shard.settings, shard.target.context).remaining
        self.levels = _count_levels(self.proposer, self.prompt, remaining)
        self.may_lack_tokens = not getattr(
            getattr(self.proposer, "draft", None), "plain", False
        )  # plain models give distributions
        self._set_state(ShardState.build_empty(shard.count, remaining))

    def _set_state(self, state: ShardState) -> None:
        self.state, self.tokens, self.start, self.open, self.events = state, state.tokens, state.start, state.open, state.events

    def draw(
        self, source: str, on_progress: ProgressCallback, state: ShardState | None, keep: Callable[[ShardState], None]
    ) -> Samples:
        if state is not None:
            self._set_state(state)
            self._warm()
        remaining = self.tokens.shape[1]
        while self.state.place < remaining:
            for fraction in self._fill_position(self.state.place):
                on_progress((self.state.place + fraction) / remaining)
                keep(self.state)
            self.state.place, self.state.done = self.state.place + 1, 0
        return Samples(self.tokens, self.shard.settings.to_record(), source, self.shard.first, self.events)

    def _warm(self) -> None:
        """Read only the prompt, as the first pass of a whole shard does, so that later passes round in the same way."""
        nothing = np.zeros((1, 0), dtype=np.int64)
        drafts = [self.proposer.draft, getattr(self.proposer, "claimed", None)] if self.levels[0] else []
        for source in filter(None, [self.target, *drafts]):
            next(iterate_distributions_after(source, self.prompt, nothing))

    def _fill_position(self, place: int) -> Iterator[float]:
        """Write token number ``place`` of every open sample that lacks it; yields the fraction that is done."""
        which = np.flatnonzero(self.open)
        if not len(which):
            return
        paths, order, ends = group_rows(self.tokens[which, :place])
        which = which[order]
        randomness, drafting = self._take_randomness(place, which)
        left = paths[self.state.done :]
        drafts, claims = self._iterate_drafts(left) if drafting.any() else (None, None)
        for _, p in iterate_distributions_after(self.target, self.prompt, left, stays=True) if len(left) else ():
            q = next(drafts)[1] if drafts else None
            claimed = next(claims)[1] if claims else q
            bounds = ends[self.state.done : self.state.done + len(p) + 1]
            here = slice(bounds[0], bounds[-1])
            mine, drafts_here, rows = which[here], drafting[here], np.repeat(np.arange(len(p)), np.diff(bounds))
            taken = {purpose: u[here] for purpose, u in randomness.items()}
            if q is not None and self.may_lack_tokens:  # where nothing can be drafted the round ends with its bonus token
                self._end_rounds(place, mine, taken, drafts_here, ~q.any(-1).cpu().numpy()[rows])
            self._write(place, mine, rows, (p, q, claimed), taken, drafts_here)
            self.state.done += len(p)
            yield self.state.done / len(paths)
        written = torch.from_numpy(self.tokens[:, place].astype(np.int64))
        self.open &= ~torch.isin(written, self.eos_token_ids).numpy()
        if self.shard.followed is not None:
            self._stop_unfollowed(self.shard.followed, place + 1)

    def _stop_unfollowed(self, followed: FollowedTexts, length: int) -> None:
        """Stop samples that are not drawn to their end and whose first ``length`` tokens are none of the followed texts."""
        which = np.flatnonzero(self.open)
        which = which[which + self.shard.first >= followed.whole_samples]
        texts, order, ends = group_rows(self.tokens[which, :length])
        goes_on = np.array([text in followed.texts for text in map(tuple, texts.tolist())], dtype=bool)
        self.open[which[order]] = np.repeat(goes_on, np.diff(ends))

    def _iterate_drafts(self, paths: np.ndarray) -> tuple[Iterator[Any], Iterator[Any] | None]:
        """The distributions that draft tokens are drawn from, and those that a mutant claims for them; None if the same."""
        claimed = getattr(self.proposer, "claimed", None)
        drafts = iterate_distributions_after(self.proposer.draft, self.prompt, paths, stays=True)
        return drafts, iterate_distributions_after(claimed, self.prompt, paths, stays=True) if claimed else None

    def _take_randomness(self, place: int, which: np.ndarray) -> tuple[dict[Purpose, np.ndarray], np.ndarray]:
        """The random numbers of these n samples here, (n,) float64 by purpose, and whether their rounds test a draft token here."""
        purposes = Purpose.DRAFT, Purpose.ACCEPT, Purpose.RESIDUAL, Purpose.BONUS
        randomness = {purpose: np.zeros(len(which)) for purpose in purposes}
        drafting = np.zeros(len(which), dtype=bool)
        began = self.start[which]  # after a stop, samples that have this token already may begin their next round after it
        for start in range(place + 1):
            here, node = np.flatnonzero(began == start), place - start
            if not len(here):
                continue
            drafting[here] = drafted = node < self.levels[start]
            for purpose in purposes[:3] if drafted else purposes[3:]:
                randomness[purpose][here] = self._take_numbers(purpose, start, node, which[here])
        return randomness, drafting

    def _take_numbers(self, purpose: Purpose, start: int, node: int, which: np.ndarray) -> np.ndarray:
        """The random numbers of these n samples, (n,) float64."""
        return self.randomness.stream(purpose, start, node, self.shard.first, self.shard.count)[which]

    def _end_rounds(
        self, place: int, which: np.ndarray, randomness: dict[Purpose, np.ndarray], drafting: np.ndarray, lacking: np.ndarray
    ) -> None:
        """Let the rounds of these samples test no draft token where none can be drawn, and take the number of a bonus token."""
        ended = np.flatnonzero(drafting & lacking)
        drafting[ended] = False
        began = self.start[which[ended]]
        for start in np.unique(began).tolist():
            here = ended[began == start]
            randomness[Purpose.BONUS][here] = self._take_numbers(Purpose.BONUS, start, place - start, which[here])

    def _write(
        self,
        place: int,
        which: np.ndarray,
        rows: np.ndarray,
        distributions: Distributions,
        randomness: dict[Purpose, np.ndarray],
        drafting: np.ndarray,
    ) -> None:
        tokens, closed = draw_next_tokens(self.rule, distributions, rows, randomness, drafting)
        self._count(place, which, drafting, closed)
        self.tokens[which, place] = tokens
        self.start[which[closed]] = place + 1

    def _count(self, place: int, which: np.ndarray, drafting: np.ndarray, closed: np.ndarray) -> None:
        """Count what these samples exercise. Draft tokens after a rejected one are never drawn here, and no cache is rolled back."""
        began_here = self.start[which] == place
        columns = (
            ("proposed", drafting),
            ("accepted", drafting & ~closed),
            ("rejected", drafting & closed),
            ("residual", drafting & closed),
            ("bonus", ~drafting & ~began_here),
            ("target_only", ~drafting & began_here),
        )
        for name, happened in columns:
            self.events[which[happened], COLUMNS[name]] += 1


def draw_next_tokens(
    rule: TokenRule, distributions: Distributions, rows: np.ndarray, randomness: dict[Purpose, np.ndarray], drafting: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The next token of n samples, (n,) int64, and for which of them it ends the round, (n,) bool.

    Args:
        rule: Decides about draft tokens.
        distributions: p, the one that draft tokens are drawn from, and the one claimed for them, (g, V) each, after g texts.
        rows: (n,) int64, in ascending order: which of the texts a sample has.
        randomness: (n,) float64 by purpose.
        drafting: (n,) bool, whether the sample's round tests a draft token here or adds its bonus token.
    """
    if type(rule) is TokenRule:
        return _apply_token_rule(distributions, rows, randomness, drafting)
    tokens, closed = np.empty(len(rows), dtype=np.int64), ~drafting
    ends = np.searchsorted(rows, np.arange(len(distributions[0]) + 1)).tolist()
    for row, (begin, end) in enumerate(pairwise(ends)):
        p, drawn, q = (None if one is None else one[row].cpu() for one in distributions)
        assert p is not None
        here = {purpose: u[begin:end] for purpose, u in randomness.items()}
        tokens[begin:end], closed[begin:end] = _apply_rule(rule, (p, drawn, q), here, drafting[begin:end])
    return tokens, closed


def _apply_token_rule(
    distributions: Distributions, rows: np.ndarray, randomness: dict[Purpose, np.ndarray], drafting: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """``draw_next_tokens`` under the token rule, for all texts together, on the device of the distributions."""
    p, drawn, q = distributions
    where = torch.from_numpy(rows).to(p.device)
    u = dict(zip(randomness, torch.from_numpy(np.stack([*randomness.values()])).to(p.device), strict=True))
    tokens, closed = torch.zeros_like(where), torch.from_numpy(~drafting).to(p.device)

    def find_texts(index: Tensor) -> tuple[Tensor | slice, Tensor]:
        """The texts of these samples, and where among them each sample's own stands; on a GPU all texts."""
        if not p.is_cpu:
            return slice(None), where[index]
        texts, line = torch.unique_consecutive(where[index], return_inverse=True)
        return slice(None) if len(texts) == len(p) else texts, line

    def fill(index: Tensor, probs: Tensor, purpose: Purpose) -> Tensor:
        texts, line = find_texts(index)
        tokens[index] = draw_in_rows(probs[texts], line, u[purpose][index])
        return tokens[index]

    if not drafting.all():
        fill(torch.from_numpy(np.flatnonzero(~drafting)).to(p.device), p, Purpose.BONUS)
    if drafting.any():
        assert drawn is not None and q is not None, "a round that drafts has its draft's distributions"
        index = torch.from_numpy(np.flatnonzero(drafting)).to(p.device)
        draft_tokens = fill(index, drawn, Purpose.DRAFT)
        texts, line = find_texts(index)
        left, total = compute_unscaled_residual(p[texts], q[texts])
        here = where[index]
        accepted = judge_tokens(u[Purpose.ACCEPT][index], p[here, draft_tokens], q[here, draft_tokens], total[line, 0])
        rejected = index[~accepted]
        if len(rejected):
            tokens[rejected] = draw_in_rows(left.div_(total), line[~accepted], u[Purpose.RESIDUAL][rejected])
            closed[rejected] = True
    found = (2 * tokens + closed).cpu().numpy()
    return found >> 1, (found & 1).astype(bool)


def _apply_rule(
    rule: TokenRule, distributions: Distributions, randomness: dict[Purpose, np.ndarray], drafting: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """``draw_next_tokens`` of any rule that judges token by token, for samples of one text; distributions (V,)."""
    p, drawn, q = distributions
    tokens, closed = np.empty(len(drafting), dtype=np.int64), ~drafting

    def fill(which: np.ndarray, probs: Tensor, purpose: Purpose) -> Tensor:
        ids = draw_many(probs, torch.from_numpy(randomness[purpose][which]))
        tokens[which] = ids.numpy()
        return ids

    if closed.any():
        fill(closed, rule.compute_bonus(p), Purpose.BONUS)
    if drafting.any():
        assert drawn is not None and q is not None, "a round that drafts has its draft's distributions"
        draft_tokens = fill(drafting, drawn, Purpose.DRAFT)
        here = rule.condition_on(p)
        accepted = here.accepts(torch.from_numpy(randomness[Purpose.ACCEPT][drafting]), p[draft_tokens], q[draft_tokens]).numpy()
        rejected = np.flatnonzero(drafting)[~accepted]
        if len(rejected):
            with suppress(EmptyResidualError):  # p equals q up to rounding: the draft token is accepted, as in the rule itself
                fill(rejected, here.compute_replacement(p, q), Purpose.RESIDUAL)
                closed[rejected] = True
    return tokens, closed


def _count_levels(proposer: ChainProposer, prompt: tuple[int, ...], remaining: int) -> list[int]:
    """Number of draft tokens of a round, by the position at which it starts. It does not depend on the text before it."""
    rows = [
        build_first_prefix(prompt + (0,) * start, Settings(max_new_tokens=remaining - start), None) for start in range(remaining)
    ]
    return [proposer.count_levels(row) for row in rows]
