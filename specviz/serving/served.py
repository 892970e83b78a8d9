"""Serving setups, opened: each entry of setups.py as the arguments of ``decode``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace

import torch
from transformers import (
    PreTrainedModel,
    RepetitionPenaltyLogitsProcessor,
    SuppressTokensLogitsProcessor,
)

from specviz.errors import ModelError, UnsupportedModel
from specviz.evidence.mutants.serving import OncePerRound, OnDrawsAlone, OneScalePerPass, without
from specviz.models.cache.decoder import CachedModel
from specviz.models.fast_llama.int8 import quantised
from specviz.models.pairs.pair import EncoderDecoderPair, Pair
from specviz.models.processed import Processed
from specviz.serving.setups import PENALTY, TOP_K, WORD
from specviz.settings import Settings
from specviz.verification.token_rule import Rule, TokenRule

Source = CachedModel | Processed
Ids = tuple[int, ...]
Place = tuple[Ids, Ids]  # a text: what it begins with, and how it goes on
Places = Sequence[Place]


@dataclass(frozen=True, slots=True)
class ServedTarget:
    """One way to serve a target. open: the target of one request under settings, with empty caches; rule: verifies draft tokens."""

    open: Callable[[Settings], Source]
    rule: Rule = field(default_factory=TokenRule)


def served(pair: Pair, key: str) -> ServedTarget:
    """The setup of that key on a pair. The draft is not changed.

    Raises ModelError if the pair cannot be served so, UnsupportedModel if its layers have no such form.
    """
    return _WAYS[key](pair)


def refuse_uncompared(pair: Pair) -> None:
    """Raises UnsupportedModel for a target that is not float32 on a CPU, the reference of all setups, and for encoder-decoder pairs."""
    if isinstance(pair, EncoderDecoderPair):
        raise UnsupportedModel("The measurement compares decoder-only models: the prompt of an encoder is not continued.")
    if pair.target.dtype is not torch.float32 or pair.target.device.type != "cpu":
        where = f"{str(pair.target.dtype).removeprefix('torch.')} on {pair.target.device.type}"
        raise UnsupportedModel(f"The measurement needs a target in float32 on a CPU, and this one is {where}.")


def in_bfloat16(model: PreTrainedModel) -> PreTrainedModel:
    """A copy with every weight rounded to bfloat16, as if loaded in that type: buffers stay in float32."""
    copy = deepcopy(model)
    for weight in copy.parameters():
        weight.data = weight.data.to(torch.bfloat16)
    return copy


def banned(pair: Pair) -> list[int]:
    """Every token that is WORD alone, with or without a space before it, in any case.

    Raises ModelError if the tokenizer has no such token.
    """
    pieces = pair.pieces(range(len(pair.tokenizer)))
    found = [token for token, raw in pieces.items() if bytes.fromhex(raw).strip().lower() == WORD.encode()]
    if not found:
        raise ModelError(f"No token of this pair is the word “{WORD}”.")
    return found


def _network(change: Callable[[PreTrainedModel], PreTrainedModel]) -> Callable[[Pair], ServedTarget]:
    """Another network in the place of the target."""

    def way(pair: Pair) -> ServedTarget:
        other = change(pair.target)
        return ServedTarget(lambda settings: pair.source(other, settings, pair.vocabulary))

    return way


def _processed(kind: type[Processed], make: Callable[[Pair], Callable]) -> Callable[[Pair], ServedTarget]:
    """The target behind a processor."""

    def way(pair: Pair) -> ServedTarget:
        processor = make(pair)
        return ServedTarget(lambda settings: kind(pair.source(pair.target, settings, pair.vocabulary), processor))

    return way


def _cut(pair: Pair) -> ServedTarget:
    return ServedTarget(lambda settings: pair.source(pair.target, replace(settings, top_k=TOP_K), pair.vocabulary))


def _banned_in_draws(pair: Pair) -> ServedTarget:
    return replace(_network(lambda model: model)(pair), rule=OnDrawsAlone(without(banned(pair))))


def _ban(pair: Pair) -> SuppressTokensLogitsProcessor:
    return SuppressTokensLogitsProcessor(banned(pair))


def _penalty(pair: Pair) -> RepetitionPenaltyLogitsProcessor:
    return RepetitionPenaltyLogitsProcessor(PENALTY)


_WAYS: dict[str, Callable[[Pair], ServedTarget]] = {
    "fp32": _network(lambda model: model),
    "bf16": _network(in_bfloat16),
    "int8": _network(quantised),
    "int8-pass": _network(lambda model: quantised(model, OneScalePerPass)),
    "top-k": _cut,
    "ban": _processed(Processed, _ban),
    "ban-draws": _banned_in_draws,
    "penalty": _processed(Processed, _penalty),
    "penalty-once": _processed(OncePerRound, _penalty),
}
