"""How many tokens a pass will yield, before anything is speculated: texts of the target alone, then one pass of both models over them.

kept_guess.py says why that suffices and does the counting. The texts begin at places spread over a text of the user's, each with
as many of its tokens as an opening has, and go on for a fixed number of tokens; the end-of-text token does not end them, as in the
bench. Reading on in the user's own text instead is cheaper and biased: while decoding, what is met comes from the target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from specviz.decoding.engine import TargetOnlyRandomness, advance, opening_row, step
from specviz.errors import SettingsError
from specviz.models.base import LanguageModel
from specviz.models.pairs.loading import Pair
from specviz.models.pairs.pair import EncoderDecoderPair
from specviz.prediction.accepted_count import Chances
from specviz.proposers.base import Nothing, Proposer
from specviz.proposers.copied import Copied
from specviz.proposers.registry import CHAINS, PROPOSERS, named, opened
from specviz.randomness import PhiloxRandomness, Prefix
from specviz.settings import Settings
from specviz.verification.draft_tree import ROOT, DraftTree
from specviz.verification.overlap import drafted_chance, drafted_ratio, overlap
from specviz.verification.registry import rule_of
from specviz.verification.token_rule import TokenRule

Ids = tuple[int, ...]
Watch = Callable[[float], None]  # told the share of the work that is done; may raise to stop it

TOGETHER = 32  # texts that are written side by side
SPAN = 64  # tokens of a text that are read in one pass
COPIES = ("ngram", "retrieval")
RULES = ("token", "block")


def refuse_unplanned(settings: Settings) -> None:
    """Raises SettingsError for what the accepted draft token identity does not cover: trees, rules for siblings, lengths that move."""
    known = (*CHAINS[1:], *COPIES)
    named("proposer", settings.proposer, PROPOSERS)
    if settings.proposer not in known:
        raise SettingsError(
            "proposer", settings.proposer, f"one of {', '.join(known)} for a plan: it counts chains of draft tokens"
        )
    if settings.rule not in RULES:
        raise SettingsError(
            "rule", settings.rule, f"{' or '.join(RULES)} for a plan: it counts what an exact rule accepts of a chain"
        )
    if settings.lengths != "fixed":
        raise SettingsError("lengths", settings.lengths, "fixed for a plan: it finds the best fixed length")


def same_weights(pair: Pair) -> bool:
    """Whether the draft is the target itself."""
    ours, theirs = (dict(model.named_parameters()) for model in (pair.target, pair.draft))
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def readable(pair: Pair, text: str, opening: int, length: int) -> Ids:
    """The tokens of a user's text, if openings can be cut from it and read on.

    Raises SettingsError for a text that is too short or one token over and over, and where an opening and its continuation exceed the
    context of a model.
    """
    if isinstance(pair, EncoderDecoderPair):
        raise SettingsError("pair", pair.name, "decoder-only for a plan: the prompt of an encoder is not continued")
    context = min((c for c in (source.context for source in pair.open(Settings())) if c is not None), default=None)
    if context is not None and opening + length > context:
        raise SettingsError(
            "opening and length", f"{opening} + {length}", f"at most {context} tokens together, the pair's context"
        )
    ids = tuple(pair.tokenizer.encode(text)) if text else ()
    if len(ids) < opening + length:
        wanted = f"at least {opening + length} tokens long: {opening} to start from and {length} to continue with"
        raise SettingsError("text", f"{len(ids)} tokens", wanted)
    if len(set(ids)) == 1:
        raise SettingsError("text", pair.decode(ids[:1]), f"more than one token repeated (here {len(ids):,} times)")
    return ids


def openings(ids: Ids, opening: int, length: int, count: int) -> list[tuple[Ids, Ids]]:
    """At most ``count`` places spread evenly over a text: the ``opening`` tokens before each, and the ``length`` tokens behind it."""
    last = len(ids) - opening - length
    starts = sorted({round(place) for place in np.linspace(0, last, min(count, last + 1))})
    return [(ids[s : s + opening], ids[s + opening : s + opening + length]) for s in starts]


def written(
    pair: Pair,
    settings: Settings,
    prompts: Sequence[Ids],
    drafting: bool = False,
    watch: Watch = lambda share: None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Texts of ``settings.length`` tokens after each prompt, all of one length, TOGETHER of them side by side.

    drafting  by the proposer and rule that the settings name; else by the target alone, with random numbers of its own purpose. Text i has
              draw number i
    returns   tokens (B, N), rounds (B,), and of the draft tokens how many were tested and kept (B, 2)
    """
    rule = rule_of(settings) if drafting else TokenRule()
    tokens, rounds, draft_tokens = np.zeros((len(prompts), settings.length), dtype=np.int64), [], []
    for begin in range(0, len(prompts), TOGETHER):
        some = prompts[begin : begin + TOGETHER]
        rows = [opening_row(prompt, settings, None, begin + number) for number, prompt in enumerate(some)]
        randomness = PhiloxRandomness(settings.seed)
        target, proposer = opened(pair, settings)
        if not drafting:
            proposer, randomness = Nothing(), TargetOnlyRandomness(randomness)
        count, seen = np.zeros(len(some), dtype=np.int64), np.zeros((len(some), 2), dtype=np.int64)
        while rows:
            left = []
            for row, one in zip(rows, step(rows, target, proposer, rule, randomness), strict=True):
                count[row.draw - begin] += 1
                met = [decision.accepted for decision in one.proposals if decision.accepted is not None]
                seen[row.draw - begin] += len(met), sum(met)
                tokens[row.draw, row.start : row.start + len(one.committed)] = one.committed
                row = replace(advance(row, one), past=())
                left += [row] if row.remaining else []
            rows = left
            watch((begin + len(some) * (1 - sum(row.remaining for row in rows) / (len(some) * settings.length))) / len(prompts))
        rounds.append(count)
        draft_tokens.append(seen)
    return tokens, np.concatenate(rounds), np.concatenate(draft_tokens)


def along(source: LanguageModel, prompt: Ids, tokens: Sequence[int]) -> Iterator[tuple[slice, Tensor]]:
    """The distributions that a source has at each of the tokens after a prompt: (which tokens, (n, V) float64), SPAN of them at a time."""
    for begin in range(0, len(tokens), SPAN):
        some = tuple(tokens[begin : begin + SPAN])
        nodes = len(some) - 1
        chain = DraftTree((some[:-1],), (tuple(range(ROOT, nodes - 1)),), (None,), ((None,) * nodes,), "text")
        row = Prefix((*prompt, *tokens[:begin]), begin, len(tokens) - begin)
        yield slice(begin, begin + len(some)), source.distributions([row], chain)[0]


def chances(
    pair: Pair,
    settings: Settings,
    texts: Sequence[tuple[Ids, Sequence[int]]],
    gamma: int,
    of_target: bool = True,
    watch: Watch = lambda share: None,
) -> Chances:
    """What one pass of both models over (prompt, tokens) says about draft tokens, all texts of one length.

    of_target  the tokens are the target's own: each was a accepted draft token with probability min(1, q / p). Else the text is anybody's, and
               the chance at a place is that of a draw from the draft, the overlap of both distributions; the block rule, which weighs tokens
               and not places, is counted as if the target had written it
    """
    target, proposer = opened(pair, replace(settings, gamma=gamma))
    if isinstance(proposer, Copied):  # a draft token that is certain: both rules keep it iff it stands in the text
        return _copied(proposer, texts, gamma)
    if settings.rule == "block":
        return Chances.of_block(chain_ratios(target, proposer.draft, texts, watch), gamma)
    return Chances.of_chain(chain_chances(target, proposer.draft, texts, of_target, watch), gamma)


def chain_chances(
    target: LanguageModel,
    draft: LanguageModel,
    texts: Sequence[tuple[Ids, Sequence[int]]],
    of_target: bool = True,
    watch: Watch = lambda share: None,
) -> np.ndarray:
    """For a draft that reads the text alone: the chance at each token of each text, (B, N); ``of_target`` as in chances."""
    at = _of_tokens(drafted_chance) if of_target else lambda p, q, tokens: overlap(p, q)
    return _at_places(target, draft, texts, at, watch).clip(max=1.0)


def chain_ratios(
    target: LanguageModel, draft: LanguageModel, texts: Sequence[tuple[Ids, Sequence[int]]], watch: Watch = lambda share: None
) -> np.ndarray:
    """log(q / p) at each token of each text, (B, N)."""
    return _at_places(target, draft, texts, _of_tokens(drafted_ratio), watch)


def _of_tokens(look: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """What depends on the masses of the tokens that stand there alone."""
    return lambda p, q, tokens: look(p.gather(1, tokens), q.gather(1, tokens))[:, 0]


def _at_places(
    target: LanguageModel,
    draft: LanguageModel,
    texts: Sequence[tuple[Ids, Sequence[int]]],
    at: Callable[[Tensor, Tensor, Tensor], Tensor],
    watch: Watch,
) -> np.ndarray:
    """What ``at`` says of both distributions (n, V) and the tokens (n, 1) at each place of each text, (B, N)."""
    found = []
    for number, (prompt, tokens) in enumerate(texts):
        ids, line = torch.tensor([int(x) for x in tokens]), []
        for (where, p), (_, q) in zip(along(target, prompt, ids.tolist()), along(draft, prompt, ids.tolist()), strict=True):
            line.append(at(p.cpu(), q.cpu(), ids[where, None]))
        found.append(torch.cat(line).numpy())
        watch((number + 1) / len(texts))
    return np.stack(found)


def _copied(proposer: Copied, texts: Sequence[tuple[Ids, Sequence[int]]], gamma: int) -> Chances:
    """For draft tokens that are certain: one that stands in the text was kept, as q = 1 >= p; where they end is known for every start."""
    length = len(texts[0][1])
    kept, draft_tokens = np.zeros((len(texts), length, gamma)), np.zeros((len(texts), length), dtype=np.int64)
    for number, (prompt, tokens) in enumerate(texts):
        tokens = tuple(int(x) for x in tokens)
        for s in range(length):
            draft_token = proposer.follow((*prompt, *tokens[:s]), gamma)
            draft_tokens[number, s] = len(draft_token)
            for j, (one, stands) in enumerate(zip(draft_token, tokens[s:], strict=False)):
                if one != stands:
                    break
                kept[number, s, j] = 1.0
    return Chances(kept, draft_tokens)


def proposed(pair: Pair, settings: Settings) -> Proposer:
    """The proposer that the settings name, with caches of its own."""
    return opened(pair, settings)[1]
