"""The distribution of the next token under the real decoder, caches and all, against a fresh pass of the target: no draws, no statistics.

The decoder is led along a text. Its draft tokens are drawn with numbers that make them the text's own tokens where the draft
allows it; accept random numbers of 0 and of nearly 1, at random, keep and refuse them, so that the caches are rolled back at every
depth, and now and then the walk goes back. At each place that was decided, the distribution of the token written there is put together
from what the decoder does: which distribution its draft token is really drawn from, how often its rule keeps each draft token, what it puts in place
of a refused one (evidence/probes.py). It is compared with ``warp`` of the logits of the library's own forward pass over that one
text, without a cache.

The identity min(p, q) + max(0, p - q) = p holds for any p and q, so nothing here takes the decoder's word for its distributions.
Chains only, and rules that decide about each draft token by its own two distributions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np
import torch
from torch import Tensor

from specviz.decoding.engine import step
from specviz.evidence.analytic.fresh import Alone, Fresh
from specviz.evidence.analytic.probes import LAST, Handed, drawn_distribution, next_distribution
from specviz.models.attachments.exits import exit_of
from specviz.models.base import LanguageModel
from specviz.models.pairs.loading import Pair
from specviz.proposers.base import Proposer
from specviz.proposers.registry import EARLY_EXIT, opened
from specviz.randomness import Prefix, Purpose, Randomness
from specviz.settings import GAMMA_MAX, Settings
from specviz.trace import Outcome
from specviz.verification.draft_tree import DraftTree
from specviz.verification.registry import rule_of
from specviz.verification.token_rule import Rule

TOLERANCE = 5e-6  # total variation that rounding explains in float32
TIE = 5e-5  # two passes move two logits of the shipped pair by up to 3.2e-5 against each other; that over T = .7
WINDOW = 128  # tokens of a text that are walked before a new text begins
LEAST = 1e-4  # share of a token that can be forced: far more than rounding
KEEP, BACK = 0.4, 0.05  # chances: of an accept random number of 0, of going back after a round


@dataclass(frozen=True, slots=True)
class Place:
    """One token that the decoder decided about.

    length  tokens before it; node  its place in the block, from 0; bonus  whether it closed a full block
    tv      between the decoder's distribution and the target's, in [0, 1]
    margin  how near one of the cuts of target or draft is to falling otherwise; inf where nothing is cut
    asked   whether the proposer drew again there with other numbers (not at a bonus, and not where an earlier draft token lies so
            near to another that it is not drawn again): else the distribution of its draft token is taken from the fresh pass
    """

    length: int
    node: int
    bonus: bool
    tv: float
    margin: float
    asked: bool


@dataclass(frozen=True, slots=True)
class Analytic:
    """What was found, for one warper. ``near_ties`` are the places whose margin is below TIE, kept apart from the others.

    prefixes  different texts among all places; kept  draft tokens kept in each round, one number per round
    """

    settings: Settings
    places: tuple[Place, ...]
    near_ties: tuple[Place, ...]
    prefixes: int
    kept: tuple[int, ...]

    @property
    def tv(self) -> np.ndarray:
        """Total variation at each place that is no near tie."""
        return np.array([place.tv for place in self.places])

    @property
    def worst(self) -> float:
        return float(self.tv.max(initial=0.0))

    @property
    def median(self) -> float:
        return float(np.median(self.tv)) if self.places else 0.0

    @property
    def sentence(self) -> str:
        """What was found, in words."""
        apart = f"; {len(self.near_ties)} near ties are listed apart" if self.near_ties else ""
        return (
            f"At {self.prefixes} prefixes the distribution of the next token lies within TV {self.worst:.1e} of a fresh pass of the target"
            f" (median {self.median:.1e}){apart}."
        )

    def passed(self, tolerance: float = TOLERANCE) -> bool:
        """Whether every place that is no near tie lies within rounding; False where nothing was looked at."""
        return bool(self.places) and self.worst <= tolerance


def analytic_of_pair(pair: Pair, settings: Settings, ids: Sequence[int], positions: int = 300, **options) -> Analytic:
    """The decoder that the settings name, on a pair. Raises SettingsError for names that are not known."""
    target, proposer = opened(pair, settings)
    fresh = Fresh(pair.target, settings, pair.vocabulary, pair.encoder_ids(settings.prompt))
    if settings.proposer == EARLY_EXIT:
        drafting = replace(fresh, exit_=exit_of(pair.name, pair.target, settings))
    else:
        drafting = replace(fresh, network=pair.draft)
    return analytic(target, proposer, rule_of(settings), settings, ids, fresh, drafting, positions, **options)


def analytic(
    target: LanguageModel,
    proposer: Proposer,
    rule: Rule,
    settings: Settings,
    ids: Sequence[int],
    fresh: Fresh | Alone,
    fresh_draft: Fresh | None = None,
    positions: int = 300,
    watch: Callable[[float], None] = lambda share: None,
) -> Analytic:
    """Compare the distribution of the next token at ``positions`` different prefixes, or as many as the text has.

    target, proposer, rule  the decoder under test: what ``engine.step`` takes
    settings     the warper that the target's distribution is defined by; its seed leads the walk, its gamma bounds the forced draft tokens
    ids          a text that neither model was trained on, longer than ``positions``
    fresh        the target again, by another way; fresh_draft  the draft, None for a proposer without one
    """
    dice = np.random.default_rng(settings.seed)
    places, prefixes, kept = [], set(), []
    for handed, outcome in _rounds(target, proposer, rule, settings, ids, fresh_draft, dice):
        path = len(outcome.accepted_path)
        decided = min(path + 1, len(outcome.committed))  # the draft tokens that were kept, and what followed them
        places += _compared(handed, decided, proposer, rule, fresh, fresh_draft, dice)
        text = handed.row.ids + handed.tokens
        prefixes |= {text[: len(handed.row.ids) + node] for node in range(decided)}
        kept.append(path)
        watch(min(1.0, len(prefixes) / positions))
        if len(prefixes) >= positions:
            break
    near = tuple(place for place in places if place.margin < TIE)
    return Analytic(settings, tuple(p for p in places if p.margin >= TIE), near, len(prefixes), tuple(kept))


def _compared(
    handed: Handed,
    decided: int,
    proposer: Proposer,
    rule: Rule,
    fresh: Fresh | Alone,
    fresh_draft: Fresh | None,
    dice: np.random.Generator,
) -> Iterator[Place]:
    """The first ``decided`` places of a round."""
    length, text = len(handed.row.ids), handed.row.ids + handed.tokens
    text = text[: length + decided - 1]
    p, margins = fresh.distributions(text, decided)
    q, draft_margins = fresh_draft.distributions(text, decided) if fresh_draft else (None, torch.full_like(margins, inf))
    for node in range(decided):
        near, drawn, asked, bonus = float(margins[node]), None, False, node == len(handed.tokens)
        if not bonus:
            beliefs = ([] if q is None else [q[node]]) + [handed.q(node)]
            drawn, asked = drawn_distribution(proposer, handed, node, beliefs)
            near = min(near, float(draft_margins[node]))
        probs = next_distribution(rule, handed, node, drawn, dice)
        yield Place(length + node, node, bonus, float((probs - p[node]).abs().sum()) / 2, near, asked)


@dataclass(slots=True)
class _Listening:
    """A rule, and what it was handed last."""

    rule: Rule
    heard: Handed | None = None

    def verify(self, rows: Sequence[Prefix], block: DraftTree, p: Tensor, randomness: Randomness) -> tuple[Outcome, ...]:
        (row,) = rows
        assert block.is_chain, "this check is for chains"
        self.heard = Handed(row, replace(block, q=tuple(None if q is None else q.cpu() for q in block.q)), p[0].cpu())
        return self.rule.verify(rows, block, p, randomness)


@dataclass(frozen=True, slots=True)
class _Led:
    """Random numbers that lead the decoder: forced draft numbers where there are some, accept random numbers of 0 or nearly 1, else chance."""

    dice: np.random.Generator
    draft_tokens: Sequence[float]

    def take(self, purpose: Purpose, rows: Sequence[Prefix], node: int, depth: int) -> np.ndarray:
        if purpose is Purpose.ACCEPT:
            return np.where(self.dice.random(len(rows)) < KEEP, 0.0, LAST)
        if purpose is Purpose.DRAFT and node < len(self.draft_tokens):
            return np.full(len(rows), self.draft_tokens[node])
        return self.dice.random(len(rows))


def _rounds(
    target: LanguageModel,
    proposer: Proposer,
    rule: Rule,
    settings: Settings,
    ids: Sequence[int],
    fresh_draft: Fresh | None,
    dice: np.random.Generator,
) -> Iterator[tuple[Handed, Outcome]]:
    """Rounds along the text: what the rule was handed, and what it decided."""
    listening = _Listening(rule)
    window = WINDOW if target.context is None else min(WINDOW, target.context - GAMMA_MAX)
    for first in range(0, len(ids) - 1, window):
        text, at = tuple(ids[first : first + window]), 1
        while at < len(text):
            draft_tokens = _leading(text[at : at + settings.gamma], text[:at], fresh_draft)
            row = Prefix(text[:at], at, GAMMA_MAX + 1)
            (round_,) = step([row], target, proposer, listening, _Led(dice, draft_tokens))
            yield listening.heard, Outcome(round_.proposals, round_.accepted_path, round_.ending)
            agreed = _shared(tuple(draft_token.token for draft_token in round_.proposals[: len(round_.accepted_path)]), text[at:])
            at = max(1, at - 2 ** int(dice.integers(6))) if dice.random() < BACK else at + agreed + 1


def _leading(wanted: Sequence[int], before: tuple[int, ...], fresh_draft: Fresh | None) -> list[float]:
    """Numbers that draw the wanted tokens from the draft's distributions, each from the middle of its share, up to the first too unlikely."""
    if fresh_draft is None or not wanted:
        return []
    distributions = fresh_draft.distributions((*before, *wanted[:-1]), len(wanted))[0]
    place = torch.arange(len(wanted)), torch.tensor(wanted)
    mass, upto = distributions[place].tolist(), distributions.cumsum(-1)[place].tolist()
    drawable = next((n for n, m in enumerate(mass) if m < LEAST), len(mass))
    return [upto[n] - mass[n] / 2 for n in range(drawable)]


def _shared(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """Length of the common beginning."""
    shorter = min(len(one), len(other))
    return next((i for i in range(shorter) if one[i] != other[i]), shorter)
