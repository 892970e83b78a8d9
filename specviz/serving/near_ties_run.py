"""Fills the microscope: greedy texts through the engine, with the margin of the two largest logits before each token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from torch import Tensor

from specviz.decoding.engine import decode
from specviz.models.pairs.loading import Pair
from specviz.proposers.base import Nothing, Proposer
from specviz.proposers.draft import DraftModel
from specviz.randomness import PhiloxRandomness, Prefix
from specviz.serving.near_ties import ARMS, DIGITS, Arm, GreedyPair, GreedyText, Microscope
from specviz.serving.served import Ids, ServedTarget, Source, Watch
from specviz.settings import Settings
from specviz.verification.draft_tree import DraftTree, texts
from specviz.verification.token_rule import TokenRule

SHOWN = 12  # tokens of the prompt's end that are kept
_SERVED = {"bf16": ("fp32", "bf16"), "int8": ("fp32", "int8"), "bf16-blocks": ("bf16", "bf16"), "fp32-blocks": ("fp32", "fp32")}


def microscope(
    pair: Pair, ways: dict[str, ServedTarget], settings: Settings, prompts: Sequence[Ids], length: int, watch: Watch
) -> Microscope:
    """Write every prompt on under every arm whose targets are served. settings: gamma of the arms with draft tokens; length: tokens of each text."""
    greedy = replace(settings, temperature=0.0, length=length)
    arms = {key: arm for key, arm in ARMS.items() if set(_SERVED[key]) <= ways.keys()}
    found: dict[str, list[GreedyPair]] = {key: [] for key in arms}
    for number, prompt in enumerate(prompts):
        known: dict[str, GreedyText] = {}
        for key, arm in arms.items():
            watch(number / len(prompts), f"greedy texts: {arm.name}")
            found[key].append(_pairing(pair, ways, greedy, prompt, arm, known))
    return Microscope({key: tuple(pairings) for key, pairings in found.items()})


def _pairing(
    pair: Pair, ways: dict[str, ServedTarget], settings: Settings, prompt: Ids, arm: Arm, known: dict[str, GreedyText]
) -> GreedyPair:
    one, other = _SERVED[arm.key]
    for key in (one,) if arm.draft_tokens else (one, other):
        if key not in known:
            known[key] = written(ways[key].open(settings), Nothing(), settings, prompt)
    if arm.draft_tokens:
        draft = DraftModel(pair.open(settings)[1], settings.gamma)
        second = written(ways[other].open(settings), draft, settings, prompt)
    else:
        second = known[other]
    begins = prompt[-SHOWN:]
    return GreedyPair(begins, known[one], second, pair.pieces({*begins, *known[one].tokens, *second.tokens}))


def written(source: Source, proposer: Proposer, settings: Settings, prompt: Ids) -> GreedyText:
    """One greedy text, each token with the margin that the pass which decided about it saw."""
    watched = Watched(source)
    rounds = decode(watched, proposer, TokenRule(), PhiloxRandomness(settings.seed), settings, prompt)
    tokens = tuple(token for one in rounds for token in one.committed)
    margins = [watched.margins[(*prompt, *tokens[:place])] for place in range(len(tokens))]
    return GreedyText(tokens, tuple(round(margin, DIGITS) for margin in margins))


@dataclass(slots=True)
class Watched:
    """A target that notes how far its two largest logits lie apart after each text that it is asked about, the last time it is."""

    source: Source
    margins: dict[Ids, float] = field(default_factory=dict)

    @property
    def vocabulary(self) -> int:
        return self.source.vocabulary

    @property
    def context(self) -> int | None:
        return self.source.context

    def distributions(self, rows: Sequence[Prefix], block: DraftTree) -> Tensor:
        logits = self.source.logits(rows, block)
        for index, row in enumerate(rows):
            for place, ids in enumerate(texts(row.ids, block, index)):
                first, second = logits[index, place].double().topk(2).values.tolist()
                self.margins[ids] = first - second
        return self.source.warped(logits)
