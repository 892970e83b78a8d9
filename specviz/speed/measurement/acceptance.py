"""Expected tokens per target pass at every gamma, counted on texts of the target alone. No speculative run is needed.

Texts begin at places spread evenly over a given text, each after an opening of its tokens, and are continued by the target with a fixed
number of tokens; the end-of-text token does not end them. Then both models score these texts in one pass each. Scoring the given text
itself is cheaper but biased, because decoding scores the target's text.

The identity. A round checks a draft token at a place where the target's distribution is p and the draft's is q. The draft token is x and is
accepted with probability q(x) min(1, p(x) / q(x)) = min(p(x), q(x)). It is rejected, and x comes as its replacement, with probability
p(x) - min(p(x), q(x)), because the residual max(0, p - q) has exactly the mass of a rejection. The two add up to p(x). So where the text
has x at a checked place, x was an accepted draft token with probability

    a = min(p(x), q(x)) / p(x) = min(1, q(x) / p(x)).

Random numbers are fresh and distributions depend on the text alone, so the factors of a whole text multiply: given the text, acceptance
at one checked place is independent of all others. verification/overlap.py computes a from p and q.

The count. Let a round that starts at place s check at most n(s) draft tokens. It writes j + 1 tokens, j < n(s), if the first j are accepted
and the next one is rejected; its replacement is then the last token. It writes n(s) + 1 if all are accepted; the bonus token is then
the last. Let k(s, j) be the probability that draft token j is accepted, given that those before it were (a at place s + j for a draft that
reads the text alone). The probability that a round starts at t is

    r(0) = 1,   r(t) = sum over s < t of r(s) k(s, 0) ... k(s, t - s - 2) (1 - k(s, t - s - 1)),   k(s, n(s)) = 0.

The sum of r is the expected number of rounds, and tokens over rounds are the tokens per target pass. Over texts drawn from the target's
distribution the mean is exact. Nothing is assumed about how draft tokens depend on each other.

Block verification accepts the first i draft tokens, drawn with probabilities q1 .. qi, with w_i = min(1, w_(i-1) p_i / q_i), and the text
after them follows the target's distribution (Sun et al. 2024; verification/block.py). So given the text they were accepted draft
tokens with probability

    K_i = q1 .. qi w_i / (p1 .. pi) = min(1, q1/p1, q1 q2/(p1 p2), .., q1 .. qi/(p1 .. pi)),

and the count is the same with k(s, j) = K_(j+1) / K_j. The token rule has the product of the minima, which is never larger.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import torch
from torch import Tensor

from specviz.decoding.engine import TargetOnlyRandomness, advance_prefix, build_first_prefix, step
from specviz.decoding.method_checks import build_rule
from specviz.errors import Described, SettingsError, TooLongError
from specviz.models.base import LanguageModel
from specviz.models.pairs.loading import LoadedPair
from specviz.models.pairs.pair import EncoderDecoderPair
from specviz.progress import ProgressCallback, ignore_progress
from specviz.proposers.copied import CopiedTokens
from specviz.proposers.draft import DraftModel
from specviz.proposers.no_draft import NoDraft
from specviz.proposers.registry import PROPOSERS, find_form
from specviz.proposers.request import open_proposer
from specviz.randomness import PhiloxRandomness, Randomness
from specviz.settings import Settings
from specviz.speed.measurement.text_passes import iterate_distributions
from specviz.verification.overlap import compute_drafted_log_ratio, compute_drafted_probability, compute_overlap
from specviz.verification.registry import DraftForm
from specviz.verification.rule import Rule
from specviz.verification.token import TokenRule


@dataclass(frozen=True, slots=True)
class AcceptanceProbabilities:
    """What one pass of both models over B texts of N tokens says about draft tokens, for every gamma up to G.

    Attributes:
        accepted: (B, N, G) float64 in [0, 1]: for a round that starts at a place, the probability that its draft token j is
            accepted, given that those before it were.
        drafted: (B, N) int: how many tokens the proposer would draft there at most, 0 to G.
    """

    accepted: np.ndarray
    drafted: np.ndarray

    @classmethod
    def from_chain(cls, probabilities: np.ndarray, gamma: int) -> AcceptanceProbabilities:
        """Under the token rule, for a proposer that reads the text alone. probabilities: (B, N), min(1, q / p) at every place."""
        return cls(_slide_windows(probabilities, gamma), np.full(probabilities.shape, gamma))

    @classmethod
    def from_block_rule(cls, log_ratios: np.ndarray, gamma: int) -> AcceptanceProbabilities:
        """The same under block verification. log_ratios: (B, N), log(q / p) at every place."""
        least = np.minimum(np.minimum.accumulate(_slide_windows(log_ratios, gamma).cumsum(axis=2), axis=2), 0.0)
        before = np.concatenate([np.zeros_like(least[..., :1]), least[..., :-1]], axis=2)
        accepted = np.exp(np.subtract(least, before, out=np.full_like(least, -np.inf), where=np.isfinite(before)))
        return cls(accepted, np.full(log_ratios.shape, gamma))


def _slide_windows(values: np.ndarray, gamma: int) -> np.ndarray:
    """(B, N, gamma): the values at each place and at the places after it, 0 beyond the end of a text."""
    return np.lib.stride_tricks.sliding_window_view(np.pad(values, ((0, 0), (0, gamma - 1))), gamma, axis=1)


@dataclass(frozen=True, slots=True)
class ExpectedRounds:
    """Expected numbers over the rounds of each of B texts at one gamma.

    Attributes:
        tokens: N, of each text.
        by_size: (B, gamma + 1): rounds with so many draft tokens.
        tested, accepted: (B, gamma): draft tokens that were checked, and accepted, at each depth.
    """

    tokens: int
    by_size: np.ndarray
    tested: np.ndarray
    accepted: np.ndarray

    @property
    def count(self) -> np.ndarray:
        """(B,): rounds of each text."""
        return self.by_size.sum(1)

    @property
    def per_pass(self) -> float:
        """Tokens per target pass over all texts: tokens over rounds, not a mean of ratios."""
        return self.tokens * len(self.by_size) / float(self.by_size.sum())

    def resample_tokens_per_pass(self, weights: np.ndarray) -> np.ndarray:
        """The same in each of R resamples of the texts, (R,). weights: (R, B), how often each text was drawn."""
        return self.tokens * len(self.by_size) / (weights @ self.count)

    @property
    def alpha(self) -> float:
        """Acceptance rate: accepted over checked draft tokens, 0 where none was checked."""
        tested = float(self.tested.sum())
        return float(self.accepted.sum()) / tested if tested else 0.0

    @property
    def hazards(self) -> tuple[float, ...]:
        """Acceptance rate at each depth, given that all draft tokens before it were accepted; 0 at depths that are never reached."""
        tested, accepted = self.tested.sum(0), self.accepted.sum(0)
        return tuple(np.divide(accepted, tested, out=np.zeros_like(accepted), where=tested > 0.0).tolist())


def compute_expected_rounds(probabilities: AcceptanceProbabilities, gamma: int) -> ExpectedRounds:
    """The expected rounds of each text if at most ``gamma`` tokens are drafted in a round; 0 is target-only sampling.

    The last token of a text is always the rule's own, so a round drafts at most one token less than remain.
    """
    texts, places, most = probabilities.accepted.shape
    assert 0 <= gamma <= most, "no more draft tokens than there are probabilities for"
    starts = np.zeros((texts, places + 1))
    starts[:, 0] = 1.0
    by_size, tested, accepted = np.zeros((texts, gamma + 1)), np.zeros((texts, gamma)), np.zeros((texts, gamma))
    every = np.arange(texts)
    for s in range(places):
        size = np.minimum(probabilities.drafted[:, s], min(gamma, places - s - 1))
        reach = starts[:, s]
        by_size[every, size] += reach
        for j in range(int(size.max()) + 1):
            drafting = j < size
            chance = np.where(drafting, probabilities.accepted[:, s, min(j, most - 1)], 0.0)
            if j < gamma:
                tested[:, j] += np.where(drafting, reach, 0.0)
                accepted[:, j] += reach * chance
            starts[:, s + j + 1] += reach * (1.0 - chance)
            reach = reach * chance
    return ExpectedRounds(places, by_size, tested, accepted)


Ids = tuple[int, ...]
Texts = Sequence[tuple[Ids, Sequence[int]]]  # prompt and continuation of each

TEXTS_PER_BATCH = 32  # texts that are written side by side
COUNTED_RULES = ("token", "block")


def refuse_unplanned(settings: Settings) -> None:
    """Raises SettingsError for what the count does not cover: trees, rules for siblings, adaptive lengths."""
    if why := explain_unplanned(settings):
        raise why


def explain_unplanned(settings: Settings) -> SettingsError | None:
    """What ``refuse_unplanned`` raises; None: a plan counts what these settings draft."""
    if settings.draft_length_policy != "fixed":
        return SettingsError(
            "draft-length-policy", settings.draft_length_policy, "fixed for a plan: it finds the best fixed length"
        )
    if settings.proposer == "none" or not _is_counted(find_form(settings)):
        forms = {name: entry.form(settings) for name, entry in PROPOSERS.load_all().items() if name != "none"}
        names = ", ".join(name for name, form in forms.items() if _is_counted(form))
        return SettingsError("proposer", settings.proposer, f"one of {names} for a plan: it counts chains of draft tokens")
    if settings.rule not in COUNTED_RULES:
        return SettingsError(
            "rule", settings.rule, f"{' or '.join(COUNTED_RULES)} for a plan: it counts what an exact rule accepts of a chain"
        )
    return None


def _is_counted(form: DraftForm) -> bool:
    return form.fixed_length or form.copies


def has_same_weights(pair: LoadedPair) -> bool:
    """Whether the draft is the target itself."""
    ours, theirs = (dict(model.named_parameters()) for model in (pair.target, pair.draft))
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def tokenize_text(pair: LoadedPair, text: str, opening: int, length: int) -> Ids:
    """The tokens of a user's text, if openings can be cut from it and continued.

    Raises SettingsError for an encoder-decoder pair, for a text that is too short or one token over and over, and where an opening with its
    continuation exceeds the context of a model.
    """
    _refuse_encoders(pair)
    context = _find_context(pair)
    if context is not None and opening + length > context:
        found, allowed = f"{opening} + {length}", f"at most {context} tokens together, the pair's context"
        sentence = f"The opening and the new tokens must be {allowed}, and are {found}."
        raise SettingsError("opening and length", Described(found), allowed, sentence)
    ids = tuple(pair.tokenizer.encode(text)) if text else ()
    if len(ids) < opening + length:
        wanted = f"at least {opening + length} tokens long: {opening} to start from and {length} to continue with"
        raise SettingsError("text", Described(f"{len(ids)} tokens"), wanted)
    if len(set(ids)) == 1:
        raise SettingsError("text", pair.decode(ids[:1]), f"more than one token repeated (here {len(ids):,} times)")
    return ids


def _refuse_encoders(pair: LoadedPair) -> None:
    if isinstance(pair, EncoderDecoderPair):
        raise SettingsError("pair", pair.name, "decoder-only for a plan: the prompt of an encoder is not continued")


def _find_context(pair: LoadedPair) -> int | None:
    """Tokens that a text of this pair may have; None: there is no limit."""
    return min((c for c in (source.context for source in pair.open(Settings())) if c is not None), default=None)


def cut_openings(pair: LoadedPair, text: str, opening: int, length: int, count: int) -> list[tuple[Ids, Ids]]:
    """At most ``count`` places spread evenly over a text: the ``opening`` tokens before each, and the ``length`` tokens after it.

    Raises SettingsError as ``tokenize_text``.
    """
    ids = tokenize_text(pair, text, opening, length)
    last = len(ids) - opening - length
    starts = sorted({round(place) for place in np.linspace(0, last, min(count, last + 1))})
    return [(ids[s : s + opening], ids[s + opening : s + opening + length]) for s in starts]


def encode_prompts(pair: LoadedPair, prompts: Sequence[str], length: int) -> list[Ids]:
    """The tokens of prompts, of which each can be continued by ``length`` tokens.

    Raises SettingsError for an encoder-decoder pair, for fewer than two prompts, and for one that is too long for a model's context,
    by its number.
    """
    _refuse_encoders(pair)
    if len(prompts) < 2:
        raise SettingsError(
            "prompts", Described(f"{len(prompts)} of them"), "at least two: how much they differ is part of the answer"
        )
    context, found = _find_context(pair), [pair.encode(prompt) for prompt in prompts]
    for number, ids in enumerate(found, 1):
        if context is not None and len(ids) + length > context:
            why = f"because {length} more follow and the pair's context is {context}"
            raise TooLongError(f"prompt {number}", len(ids), context - length, "tokens", why)
    return found


def decode_texts(
    pair: LoadedPair,
    settings: Settings,
    prompts: Sequence[Ids],
    is_speculative: bool = False,
    on_progress: ProgressCallback = ignore_progress,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Texts of ``settings.max_new_tokens`` tokens after each prompt, TEXTS_PER_BATCH of them side by side. Text i is draw number i.

    is_speculative: with the proposer and rule that the settings name; else by the target alone, with random streams of its own.

    Returns:
        Tokens (B, N), rounds (B,), and of the draft tokens how many were checked and accepted (B, 2).
    """
    count = len(prompts)
    tokens, rounds = np.zeros((count, settings.max_new_tokens), dtype=np.int64), np.zeros(count, dtype=np.int64)
    checked = np.zeros((count, 2), dtype=np.int64)
    for begin in range(0, count, TEXTS_PER_BATCH):
        end = min(begin + TEXTS_PER_BATCH, count)
        rows = [build_first_prefix(prompts[draw], settings, None, draw) for draw in range(begin, end)]
        target, proposer = open_proposer(pair, settings)
        rule: Rule = build_rule(settings)
        randomness: Randomness = PhiloxRandomness(settings.seed)
        if not is_speculative:
            proposer, rule, randomness = NoDraft(), TokenRule(), TargetOnlyRandomness(PhiloxRandomness(settings.seed))
        while rows:
            left = []
            for row, one in zip(rows, step(rows, target, proposer, rule, randomness), strict=True):
                rounds[row.draw] += 1
                met = [decision.accepted for decision in one.proposals if decision.accepted is not None]
                checked[row.draw] += len(met), sum(met)
                tokens[row.draw, row.start : row.start + len(one.committed)] = one.committed
                row = replace(advance_prefix(row, one), past=())
                left += [row] if row.remaining else []
            rows = left
            on_progress((end - sum(row.remaining for row in rows) / settings.max_new_tokens) / count)
    return tokens, rounds, checked


def measure_acceptance(
    pair: LoadedPair,
    settings: Settings,
    texts: Texts,
    gamma: int,
    is_target_text: bool = True,
    on_progress: ProgressCallback = ignore_progress,
) -> AcceptanceProbabilities:
    """What one pass of both models over texts of one length says about draft tokens.

    is_target_text: whether the tokens are the target's own: each was an accepted draft token with probability min(1, q / p). Else the text is
    anybody's, and the probability at a place is that of a token drawn from the draft, the overlap of both distributions. The
    block rule weighs tokens, not places; it is counted as if the target had written the text.
    """
    target, proposer = open_proposer(pair, replace(settings, gamma=gamma))
    if isinstance(proposer, CopiedTokens):
        return _match_copies(proposer, texts, gamma)
    draft = cast(DraftModel, proposer).draft  # so has every proposer that a plan accepts
    if settings.rule == "block":
        return AcceptanceProbabilities.from_block_rule(measure_log_ratios(target, draft, texts, on_progress), gamma)
    return AcceptanceProbabilities.from_chain(measure_token_acceptance(target, draft, texts, is_target_text, on_progress), gamma)


def measure_token_acceptance(
    target: LanguageModel,
    draft: LanguageModel,
    texts: Texts,
    is_target_text: bool = True,
    on_progress: ProgressCallback = ignore_progress,
) -> np.ndarray:
    """Acceptance probability under the token rule at each token of each text, (B, N); ``is_target_text`` as in ``measure_acceptance``."""

    def compute_probability(p: Tensor, q: Tensor, tokens: Tensor) -> Tensor:
        return (
            compute_drafted_probability(p.gather(1, tokens), q.gather(1, tokens))[:, 0]
            if is_target_text
            else compute_overlap(p, q)
        )

    return _map_places(compute_probability, target, draft, texts, on_progress).clip(max=1.0)


def measure_log_ratios(
    target: LanguageModel, draft: LanguageModel, texts: Texts, on_progress: ProgressCallback = ignore_progress
) -> np.ndarray:
    """log(q / p) at each token of each text, (B, N)."""

    def compute_log_ratio(p: Tensor, q: Tensor, tokens: Tensor) -> Tensor:
        return compute_drafted_log_ratio(p.gather(1, tokens), q.gather(1, tokens))[:, 0]

    return _map_places(compute_log_ratio, target, draft, texts, on_progress)


def _map_places(
    compute: Callable[[Tensor, Tensor, Tensor], Tensor],
    target: LanguageModel,
    draft: LanguageModel,
    texts: Texts,
    on_progress: ProgressCallback,
) -> np.ndarray:
    """What ``compute`` makes of both distributions (n, V) and the tokens (n, 1) at each place of each text, (B, N)."""
    found = []
    for number, (prompt, tokens) in enumerate(texts):
        ids, line = torch.tensor([int(x) for x in tokens]), []
        along = (iterate_distributions(model, prompt, ids.tolist()) for model in (target, draft))
        for (where, p), (_, q) in zip(*along, strict=True):
            line.append(compute(p.cpu(), q.cpu(), ids[where, None]))
        found.append(torch.cat(line).numpy())
        on_progress((number + 1) / len(texts))
    return np.stack(found)


def _match_copies(proposer: CopiedTokens, texts: Texts, gamma: int) -> AcceptanceProbabilities:
    """For copied tokens, which have q = 1 >= p: both rules accept one if and only if it stands in the text."""
    length = len(texts[0][1])
    accepted, drafted = np.zeros((len(texts), length, gamma)), np.zeros((len(texts), length), dtype=np.int64)
    for number, (prompt, tokens) in enumerate(texts):
        tokens = tuple(int(x) for x in tokens)
        for s in range(length):
            chain = proposer.follow((*prompt, *tokens[:s]), gamma)
            drafted[number, s] = len(chain)
            for j, (one, stands) in enumerate(zip(chain, tokens[s:], strict=False)):
                if one != stands:
                    break
                accepted[number, s, j] = 1.0
    return AcceptanceProbabilities(accepted, drafted)
