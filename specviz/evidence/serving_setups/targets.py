"""Serving setups as arguments of ``decode``, among them mistakes: a processor, scale or ban that depends on more than the prefix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor
from transformers import (
    PreTrainedModel,
    RepetitionPenaltyLogitsProcessor,
    SuppressTokensLogitsProcessor,
)

from specviz.errors import ModelError, UnsupportedModelError
from specviz.models.cache.decoder import CachedModel
from specviz.models.fast_llama.int8 import Int8Linear, quantize_model
from specviz.models.pairs.pair import EncoderDecoderPair, LoadedPair
from specviz.models.processed import ProcessedModel
from specviz.randomness import Prefix
from specviz.settings import Settings
from specviz.verification.draft_tree import DraftTree
from specviz.verification.rule import Rule
from specviz.verification.token import TokenRule

TOP_K, PENALTY, WORD = 20, 1.3, "the"  # assets/texts/setups.toml names them
Source = CachedModel | ProcessedModel
Ids = tuple[int, ...]
TextExcerpt = tuple[Ids, Ids]  # a text: its opening and its continuation
Places = Sequence[TextExcerpt]


@dataclass(frozen=True, slots=True)
class ServedTarget:
    """One way to serve a target. open: the target of one request under settings, with empty caches; rule: verifies draft tokens."""

    open: Callable[[Settings], Source]
    rule: Rule = field(default_factory=TokenRule)


def open_setup(pair: LoadedPair, key: str) -> ServedTarget:
    """The setup of that key on a pair. The draft is not changed.

    Raises ModelError if the pair cannot be served so, UnsupportedModelError if its layers have no such form.
    """

    def wrap_network(model: PreTrainedModel) -> ServedTarget:
        return ServedTarget(lambda settings: pair.open_model(model, settings, pair.vocabulary))

    def wrap_processor(processor: Callable, kind: type[ProcessedModel] = ProcessedModel) -> ServedTarget:
        return ServedTarget(lambda settings: kind(pair.open_model(pair.target, settings, pair.vocabulary), processor))

    match key:
        case "fp32":
            return wrap_network(pair.target)
        case "bf16":
            return wrap_network(round_to_bfloat16(pair.target))
        case "int8":
            return wrap_network(quantize_model(pair.target))
        case "int8-pass":
            return wrap_network(quantize_model(pair.target, PassScaleLinear))
        case "top-k":
            return ServedTarget(lambda settings: wrap_network(pair.target).open(replace(settings, top_k=TOP_K)))
        case "ban":
            return wrap_processor(SuppressTokensLogitsProcessor(find_banned_tokens(pair)))
        case "ban-draws":
            return replace(wrap_network(pair.target), rule=ProcessedDrawsRule(ban_tokens(find_banned_tokens(pair))))
        case "penalty":
            return wrap_processor(RepetitionPenaltyLogitsProcessor(PENALTY))
        case "penalty-once":
            return wrap_processor(RepetitionPenaltyLogitsProcessor(PENALTY), OncePerRoundModel)
        case _:
            raise KeyError(key)


def refuse_unsupported(pair: LoadedPair) -> None:
    """Raises UnsupportedModelError for a target that is not float32 on a CPU, the reference of all setups, and for encoder-decoder pairs."""
    if isinstance(pair, EncoderDecoderPair):
        raise UnsupportedModelError("The measurement compares decoder-only models: the prompt of an encoder is not continued.")
    if pair.target.dtype is not torch.float32 or pair.target.device.type != "cpu":
        where = f"{str(pair.target.dtype).removeprefix('torch.')} on {pair.target.device.type}"
        raise UnsupportedModelError(f"The measurement needs a target in float32 on a CPU, and this one is {where}.")


def round_to_bfloat16(model: PreTrainedModel) -> PreTrainedModel:
    """A copy with every weight rounded to bfloat16, as if loaded in that type: buffers stay in float32."""
    copy = deepcopy(model)
    for weight in copy.parameters():
        weight.data = weight.data.to(torch.bfloat16)
    return copy


def find_banned_tokens(pair: LoadedPair) -> list[int]:
    """Every token that is WORD alone, with or without a space before it, in any case.

    Raises ModelError if the tokenizer has no such token.
    """
    pieces = pair.read_pieces(range(len(pair.tokenizer)))
    found = [token for token, raw in pieces.items() if bytes.fromhex(raw).strip().lower() == WORD.encode()]
    if not found:
        raise ModelError(f"No token of this pair is the word “{WORD}”.")
    return found


class OncePerRoundModel(ProcessedModel):
    """The processor is given the committed text alone, whatever draft tokens stand before a distribution: it forgets what the draft itself repeats."""

    def list_prefixes(self, row: Prefix, tree: DraftTree, index: int) -> list[tuple[int, ...]]:
        return [row.ids] * (len(tree.tokens[index]) + 1)


class PassScaleLinear(Int8Linear):
    """One scale for all tokens of a pass, as ``torch.ao.quantization.quantize_dynamic`` has it: draft tokens change how the prefix is rounded."""

    def compute_scales(self, tokens: Tensor) -> Tensor:
        return tokens.abs().amax().view(1, 1)


class ProcessedDrawsRule(TokenRule):
    """Draft tokens are judged by the distribution as it was; what the target draws itself, replacement and bonus, comes from the changed one.

    ``change``: (V,) float64 -> (V,), both distributions.
    """

    name, title = "processor on the draws alone", "processor on the draws alone (lossy)"
    exact = False

    def __init__(self, change: Callable[[Tensor], Tensor]):
        self.change = change

    def compute_replacement(self, p: Tensor, q: Tensor) -> Tensor:
        return super().compute_replacement(self.change(p), q)

    def compute_bonus(self, p: Tensor) -> Tensor:
        return self.change(p)


def ban_tokens(ids: Sequence[int]) -> Callable[[Tensor], Tensor]:
    """The distribution in which some tokens are impossible."""

    def change(probs: Tensor) -> Tensor:
        left = probs.index_fill(-1, torch.tensor(ids, device=probs.device), 0.0)
        return left / left.sum(-1, keepdim=True)

    return change
