"""The next-token distribution of the real decoder, with its caches, against an uncached pass of the target. No samples, no statistics.

The decoder is led along a text. Random numbers are chosen so that the draft tokens are the text's own tokens, as far as the draft
allows it. The random numbers of acceptance are 0 or nearly 1, at random, so that draft tokens are accepted and rejected and the
caches are rolled back at every depth. From time to time the walk goes back. At each place that was decided, the distribution of the
written token is assembled from what the decoder does: the distribution that its draft token is really drawn from, the acceptance
probability of each draft token, and the distribution of the replacement (probes.py). The result is compared with ``warp`` of the
logits of the library's own forward pass over that text, without a cache.

The identity min(p, q) + max(0, p - q) = p holds for any p and q. Therefore nothing here relies on the distributions that the decoder
reports. Covers chains, and rules that decide about each draft token from its own p and q.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import cast

import numpy as np
import torch
from torch import Tensor

from specviz.decoding.engine import step
from specviz.decoding.method_checks import build_rule
from specviz.evidence.analytic.probes import LAST, RuleInput, measure_draft_distribution, measure_next_distribution
from specviz.models.base import LanguageModel
from specviz.models.pairs.loading import LoadedPair
from specviz.models.uncached import DraftReference, OneTokenPasses, UncachedModel, build_target_reference
from specviz.progress import ProgressCallback, ignore_progress
from specviz.proposers.base import Proposer
from specviz.proposers.registry import PROPOSERS
from specviz.proposers.request import open_proposer
from specviz.randomness import Prefix, Purpose, Randomness
from specviz.settings import GAMMA_MAX, Settings
from specviz.trace import Outcome
from specviz.verification.draft_tree import DraftTree
from specviz.verification.rule import Rule

TIE = 5e-5  # between two passes two logits of the shipped pair differ by up to 3.2e-5 more or less; divided by T = 0.7
WINDOW = 128  # tokens of a text before a new walk begins
LEAST = 1e-4  # smallest probability of a token that can be forced: far above rounding
ACCEPT, GO_BACK = 0.4, 0.05  # probability that the acceptance number is 0, and of going back after a round


@dataclass(frozen=True, slots=True)
class CheckedPosition:
    """One token that the decoder decided about."""

    length: int  # tokens before it
    node: int  # its place in the round, from 0
    is_bonus: bool  # whether it is the bonus token
    tv: float  # total variation between the decoder's distribution and the target's, in [0, 1]
    # how close the truncation of target or draft is to another result (see ``compute_margins``); inf: nothing is truncated
    margin: float
    # whether the proposer drew again here; not for a bonus token, nor where an earlier draft token is so close to an edge that it is
    # not drawn again: the draft's distribution then comes from the uncached pass
    is_redrawn: bool


@dataclass(frozen=True, slots=True)
class AnalyticResult:
    """The result for one setting of temperature and truncation."""

    settings: Settings
    places: tuple[CheckedPosition, ...]  # the places compared
    near_ties: tuple[CheckedPosition, ...]  # places with a margin below TIE, listed separately
    prefixes: int  # number of distinct prefixes among all places
    accepted: tuple[int, ...]  # accepted draft tokens of each round

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
        """The result in words."""
        apart = f"; {len(self.near_ties)} near ties are listed separately" if self.near_ties else ""
        return (
            f"At {self.prefixes} prefixes the distribution of the next token lies within TV {self.worst:.1e} of an uncached pass of "
            f"the target (median {self.median:.1e}){apart}."
        )


def check_pair_along_text(pair: LoadedPair, settings: Settings, ids: Sequence[int], positions: int = 300) -> AnalyticResult:
    """``check_along_text`` for the decoder that the settings name. Raises SettingsError for unknown names."""
    target, proposer = open_proposer(pair, settings)
    build_reference = PROPOSERS.find(settings.proposer).build_reference
    fresh, fresh_draft = build_target_reference(pair, settings), build_reference(pair, settings) if build_reference else None
    return check_along_text(target, proposer, build_rule(settings), settings, ids, fresh, fresh_draft, positions)


def check_along_text(
    target: LanguageModel,
    proposer: Proposer,
    rule: Rule,
    settings: Settings,
    ids: Sequence[int],
    fresh: UncachedModel | OneTokenPasses,
    fresh_draft: DraftReference | None = None,
    positions: int = 300,
    on_progress: ProgressCallback = ignore_progress,
) -> AnalyticResult:
    """Compare the next-token distribution at ``positions`` distinct prefixes, or at as many as the text has.

    ``target``, ``proposer``, ``rule``: the decoder under test, as ``engine.step`` takes them. ``settings``: temperature and
    truncation define the target's distribution; the seed fixes the walk, gamma bounds the draft tokens. ``ids``: a text that
    neither model was trained on, longer than ``positions``. ``fresh``: the target's distributions, computed another way.
    ``fresh_draft``: the draft's, likewise; None for a proposer that declares none.
    """
    rng = np.random.default_rng(settings.seed)
    places: list[CheckedPosition] = []
    prefixes: set[tuple[int, ...]] = set()
    accepted: list[int] = []
    for handed, outcome in _iterate_rounds(target, proposer, rule, settings, ids, fresh_draft, rng):
        path = len(outcome.accepted_path)
        decided = min(path + 1, len(outcome.committed))  # the accepted draft tokens, and the token after them
        places += _check_positions(handed, decided, proposer, rule, fresh, fresh_draft, rng)
        text = handed.row.ids + handed.tokens
        prefixes |= {text[: len(handed.row.ids) + node] for node in range(decided)}
        accepted.append(path)
        on_progress(min(1.0, len(prefixes) / positions))
        if len(prefixes) >= positions:
            break
    near = tuple(place for place in places if place.margin < TIE)
    return AnalyticResult(settings, tuple(p for p in places if p.margin >= TIE), near, len(prefixes), tuple(accepted))


def _check_positions(
    handed: RuleInput,
    decided: int,
    proposer: Proposer,
    rule: Rule,
    fresh: UncachedModel | OneTokenPasses,
    fresh_draft: DraftReference | None,
    rng: np.random.Generator,
) -> Iterator[CheckedPosition]:
    """The first ``decided`` places of a round."""
    length, text = len(handed.row.ids), handed.row.ids + handed.tokens
    text = text[: length + decided - 1]
    p, margins = fresh.compute_distributions(text, decided)
    q, draft_margins = fresh_draft.compute_distributions(text, decided) if fresh_draft else (None, torch.full_like(margins, inf))
    for node in range(decided):
        near, drawn, asked, bonus = float(margins[node]), None, False, node == len(handed.tokens)
        if not bonus:
            beliefs = ([] if q is None else [q[node]]) + [handed.get_q(node)]
            drawn, asked = measure_draft_distribution(proposer, handed, node, beliefs)
            near = min(near, float(draft_margins[node]))
        probs = measure_next_distribution(rule, handed, node, drawn, rng)
        yield CheckedPosition(length + node, node, bonus, float((probs - p[node]).abs().sum()) / 2, near, asked)


@dataclass(slots=True)
class _RecordingRule:
    """A rule that records its last input."""

    rule: Rule
    received: RuleInput | None = None

    def verify(self, rows: Sequence[Prefix], tree: DraftTree, p: Tensor, randomness: Randomness) -> tuple[Outcome, ...]:
        (row,) = rows
        assert tree.is_chain, "this check is for chains"
        self.received = RuleInput(row, replace(tree, q=tuple(None if q is None else q.cpu() for q in tree.q)), p[0].cpu())
        return self.rule.verify(rows, tree, p, randomness)


@dataclass(frozen=True, slots=True)
class _ForcedRandomness:
    """Random numbers that lead the decoder: given numbers for draft tokens, 0 or nearly 1 for acceptance, otherwise random."""

    rng: np.random.Generator
    draft_tokens: Sequence[float]

    def take(self, purpose: Purpose, rows: Sequence[Prefix], node: int, depth: int) -> np.ndarray:
        if purpose is Purpose.ACCEPT:
            return np.where(self.rng.random(len(rows)) < ACCEPT, 0.0, LAST)
        if purpose is Purpose.DRAFT and node < len(self.draft_tokens):
            return np.full(len(rows), self.draft_tokens[node])
        return self.rng.random(len(rows))


def _iterate_rounds(
    target: LanguageModel,
    proposer: Proposer,
    rule: Rule,
    settings: Settings,
    ids: Sequence[int],
    fresh_draft: DraftReference | None,
    rng: np.random.Generator,
) -> Iterator[tuple[RuleInput, Outcome]]:
    """Rounds along the text: the input of the rule, and its decisions."""
    recording = _RecordingRule(rule)
    window = WINDOW if target.context is None else min(WINDOW, target.context - GAMMA_MAX)
    for first in range(0, len(ids) - 1, window):
        text, at = tuple(ids[first : first + window]), 1
        while at < len(text):
            draft_tokens = _compute_forcing_numbers(text[at : at + settings.gamma], text[:at], fresh_draft)
            row = Prefix(text[:at], at, GAMMA_MAX + 1)
            (round_,) = step([row], target, proposer, cast(Rule, recording), _ForcedRandomness(rng, draft_tokens))
            assert recording.received is not None
            yield recording.received, Outcome(round_.proposals, round_.accepted_path, round_.ending)
            agreed = _count_shared(
                tuple(draft_token.token for draft_token in round_.proposals[: len(round_.accepted_path)]), text[at:]
            )
            at = max(1, at - 2 ** int(rng.integers(6))) if rng.random() < GO_BACK else at + agreed + 1


def _compute_forcing_numbers(tokens: Sequence[int], before: tuple[int, ...], fresh_draft: DraftReference | None) -> list[float]:
    """Numbers that draw the wanted tokens from the draft's distributions, up to the first token that is too unlikely.

    Each number is the middle of the token's interval in the cumulative distribution.
    """
    if fresh_draft is None or not tokens:
        return []
    distributions = fresh_draft.compute_distributions((*before, *tokens[:-1]), len(tokens))[0]
    place = torch.arange(len(tokens)), torch.tensor(tokens)
    mass, upto = distributions[place].tolist(), distributions.cumsum(-1)[place].tolist()
    drawable = next((n for n, m in enumerate(mass) if m < LEAST), len(mass))
    return [upto[n] - mass[n] / 2 for n in range(drawable)]


def _count_shared(tokens: tuple[int, ...], text: tuple[int, ...]) -> int:
    """Length of the common beginning."""
    shorter = min(len(tokens), len(text))
    return next((i for i in range(shorter) if tokens[i] != text[i]), shorter)
