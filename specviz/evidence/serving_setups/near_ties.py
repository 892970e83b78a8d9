"""Fills the record of near ties: greedy texts by the engine, with the margin of the two largest logits before each token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from torch import Tensor

from specviz.decoding.engine import decode
from specviz.evidence.serving_setups.records import COMPARISONS, MARGIN_DIGITS, GreedyPair, GreedyText, NearTies
from specviz.evidence.serving_setups.targets import Ids, ServedTarget, Source
from specviz.models.pairs.loading import LoadedPair
from specviz.progress import ProgressCallback
from specviz.proposers.base import Proposer
from specviz.proposers.draft import DraftModel
from specviz.proposers.no_draft import NoDraft
from specviz.randomness import PhiloxRandomness, Prefix
from specviz.settings import Settings
from specviz.verification.draft_tree import DraftTree, list_node_texts
from specviz.verification.token import TokenRule

PROMPT_TAIL = 12  # tokens of the prompt's end that are kept
_TARGETS = {"bf16": ("fp32", "bf16"), "int8": ("fp32", "int8"), "bf16-blocks": ("bf16", "bf16"), "fp32-blocks": ("fp32", "fp32")}


def measure_near_ties(
    pair: LoadedPair,
    ways: dict[str, ServedTarget],
    settings: Settings,
    prompts: Sequence[Ids],
    length: int,
    on_progress: ProgressCallback,
) -> NearTies:
    """Continue every prompt in every comparison whose targets are served.

    ``settings``: gamma of the comparisons with draft tokens. ``length``: tokens of each text.
    """
    greedy = replace(settings, temperature=0.0, max_new_tokens=length)
    known = {key: one for key, one in COMPARISONS.items() if set(_TARGETS[key]) <= ways.keys()}
    found: dict[str, list[GreedyPair]] = {key: [] for key in known}

    @cache
    def decode_alone(target_key: str, prompt: Ids) -> GreedyText:
        return decode_greedy_text(ways[target_key].open(greedy), NoDraft(), greedy, prompt)

    for number, prompt in enumerate(prompts):
        for key, one in known.items():
            on_progress(number / len(prompts), f"greedy texts: {one.name}")
            reference, other = _TARGETS[key]
            first = decode_alone(reference, prompt)
            if one.draft_tokens:
                second = decode_greedy_text(
                    ways[other].open(greedy), DraftModel(pair.open(greedy)[1], greedy.gamma), greedy, prompt
                )
            else:
                second = decode_alone(other, prompt)
            begins = prompt[-PROMPT_TAIL:]
            found[key].append(GreedyPair(begins, first, second, pair.read_pieces({*begins, *first.tokens, *second.tokens})))
    return NearTies({key: tuple(pairings) for key, pairings in found.items()})


def decode_greedy_text(source: Source, proposer: Proposer, settings: Settings, prompt: Ids) -> GreedyText:
    """One greedy text, each token with the margin in the pass that decided it."""
    recorder = MarginRecorder(source)
    rounds = decode(recorder, proposer, TokenRule(), PhiloxRandomness(settings.seed), settings, prompt)
    tokens = tuple(token for one in rounds for token in one.committed)
    margins = [recorder.margins[(*prompt, *tokens[:place])] for place in range(len(tokens))]
    return GreedyText(tokens, tuple(round(margin, MARGIN_DIGITS) for margin in margins))


@dataclass(slots=True)
class MarginRecorder:
    """A target that records the difference of its two largest logits after each text, as of its last pass over that text."""

    source: Source
    margins: dict[Ids, float] = field(default_factory=dict)
    vocabulary: int = field(init=False)
    context: int | None = field(init=False)

    def __post_init__(self) -> None:
        self.vocabulary, self.context = self.source.vocabulary, self.source.context

    def compute_distributions(self, rows: Sequence[Prefix], tree: DraftTree) -> Tensor:
        logits = self.source.compute_processed_logits(rows, tree)
        for index, row in enumerate(rows):
            for place, ids in enumerate(list_node_texts(row.ids, tree, index)):
                first, second = logits[index, place].double().topk(2).values.tolist()
                self.margins[ids] = first - second
        return self.source.warp_logits(logits)
