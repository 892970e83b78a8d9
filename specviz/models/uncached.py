"""A model's distributions, computed in another way than the decoder does, and how close they are to being truncated differently."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Protocol

import torch
from torch import Tensor
from transformers import PreTrainedModel

from specviz.models.attachments.eagle import DraftHead
from specviz.models.attachments.exits import Exit
from specviz.models.attention import avoid_shape_plans
from specviz.models.pairs.families import find_context
from specviz.models.pairs.loading import LoadedPair
from specviz.models.pairs.mapped import MappedPair, keep_last
from specviz.models.pairs.token_map import TokenMap
from specviz.models.processors import Processor, process_logits
from specviz.randomness import Prefix
from specviz.settings import Settings
from specviz.verification.draft_tree import DraftTree, build_empty_tree
from specviz.verification.warp import warp


class DraftReference(Protocol):
    """The distributions that a proposer's draft tokens are to be drawn from, computed without the decoder and its caches."""

    def compute_distributions(self, ids: Sequence[int], count: int) -> tuple[Tensor, Tensor]:
        """Distributions after each of the last ``count`` tokens, (count, V) float64, and the margin of each, (count,).

        The last ``count - 1`` tokens are draft tokens. The margin is that of ``compute_margins``; inf where nothing is truncated.
        """
        ...


@dataclass(frozen=True, slots=True)
class UncachedModel:
    """A network's distributions from the library's own forward pass over one whole sequence, without a cache."""

    network: PreTrainedModel
    settings: Settings
    vocabulary: int
    encoder_ids: tuple[int, ...] = ()  # ids that the network's encoder reads, if it has one
    processors: tuple[Processor, ...] = ()  # as the decoder has them
    exit_: Exit | None = None  # if given, the distributions are those of this early exit on the network's states

    @torch.inference_mode()
    def compute_distributions(self, ids: Sequence[int], count: int) -> tuple[Tensor, Tensor]:
        """Distributions after each of the last ``count`` tokens, (count, V) float64, and the margin of each, (count,)."""
        known = self.network.config.get_text_config().vocab_size
        tokens = [min(token, known - 1) for token in ids]
        early = self.exit_
        with avoid_shape_plans(self.network.device):
            out = self.network(
                **build_model_inputs(self.network, tokens, self.encoder_ids),
                use_cache=False,
                output_hidden_states=early is not None,
            )
        logits = early.compute_logits(out.hidden_states[early.layer]) if early is not None else out.logits
        logits = logits[0, -count:].cpu() if not self.processors else self._process(logits[0, -count:], tokens).cpu()
        probs = torch.nn.functional.pad(warp(logits, self.settings), (0, self.vocabulary - known))
        return probs, compute_margins(logits, self.settings)

    def _process(self, logits: Tensor, tokens: Sequence[int]) -> Tensor:
        """(count, V): the logits after each of the last texts, as the processors leave them."""
        texts = [tuple(tokens[: len(tokens) - back]) for back in reversed(range(len(logits)))]
        return process_logits(logits[None], self.processors, [texts])[0]


@dataclass(frozen=True, slots=True)
class UncachedMappedDraft:
    """The same of a draft with another tokenizer, on the target's ids: the library's pass over each text as the draft reads it."""

    network: PreTrainedModel
    settings: Settings
    vocabulary: int
    tokens: TokenMap

    @torch.inference_mode()
    def compute_distributions(self, ids: Sequence[int], count: int) -> tuple[Tensor, Tensor]:
        """As of ``DraftReference``. A row is zero where no shared token is possible."""
        context = find_context(self.network.config)
        probs, margins = torch.zeros(count, self.vocabulary, dtype=torch.float64), torch.full((count,), inf, dtype=torch.float64)
        for place, end in enumerate(range(len(ids) - count + 1, len(ids) + 1)):
            read = keep_last(self.tokens.read(tuple(ids[:end])), context)
            with avoid_shape_plans(self.network.device):
                logits = self.network(**build_model_inputs(self.network, read, ()), use_cache=False).logits[0, -1:].cpu()
            shared = logits[:, self.tokens.draft_ids]
            if bool((shared > -inf).any()):
                probs[place, self.tokens.target_ids] = warp(shared, self.settings)[0]
                margins[place] = compute_margins(shared, self.settings)[0]
        return probs, margins


@dataclass(frozen=True, slots=True)
class UncachedDraftHead:
    """A draft head's distributions from uncached passes, one for each draft token.

    It reads the states of the library's own pass of the target for the text, and its own predictions for draft tokens.
    """

    network: PreTrainedModel  # the target
    head: DraftHead
    settings: Settings
    vocabulary: int

    @torch.inference_mode()
    def compute_distributions(self, ids: Sequence[int], count: int) -> tuple[Tensor, Tensor]:
        """As of ``DraftReference``; of ``ids`` the last ``count - 1`` are draft tokens. Nothing is drafted after a text of one token: zeros."""
        text = len(ids) - count + 1
        if text < 2:
            return torch.zeros(count, self.vocabulary, dtype=torch.float64), torch.full((count,), inf)
        with avoid_shape_plans(self.network.device):
            out = self.network(
                **build_model_inputs(self.network, ids[: text - 1], ()), use_cache=False, output_hidden_states=True
            )
        states, made, layer = out.hidden_states[-1], [], self.head.network
        for end in range(text, len(ids) + 1):
            entering = self.head.embed_inputs(torch.tensor([list(ids[1:end])], device=states.device), states)
            last = layer.model(inputs_embeds=entering, use_cache=False).last_hidden_state[:, -1:]
            states = torch.cat([states, last], 1)
            made.append(layer.lm_head(last)[0, 0])
        logits = torch.stack(made).cpu()
        probs = torch.nn.functional.pad(warp(logits, self.settings), (0, self.vocabulary - logits.shape[-1]))
        return probs, compute_margins(logits, self.settings)


def build_draft_reference(pair: LoadedPair, settings: Settings) -> DraftReference:
    """The draft's distributions on the target's ids, from passes without a cache."""
    if isinstance(pair, MappedPair):
        return UncachedMappedDraft(pair.draft, settings, pair.vocabulary, pair.tokens)
    return _build_uncached(pair, pair.draft, settings)


def build_target_reference(pair: LoadedPair, settings: Settings) -> UncachedModel:
    """The target's distributions from passes without a cache."""
    return _build_uncached(pair, pair.target, settings)


def _build_uncached(pair: LoadedPair, network: PreTrainedModel, settings: Settings) -> UncachedModel:
    read = pair.encode_for_encoder(settings.prompt)
    return UncachedModel(network, settings, pair.vocabulary, read, pair.select_processors(network))


class ServedModel(Protocol):
    """A target opened for one request, as in models/cache/decoder.py and models/processed.py."""

    settings: Settings

    def compute_processed_logits(self, rows: Sequence[Prefix], tree: DraftTree) -> Tensor: ...

    def warp_logits(self, logits: Tensor) -> Tensor: ...


@dataclass(frozen=True, slots=True)
class OneTokenPasses:
    """The distributions of target-only decoding: passes of one token over a cache of its own.

    For targets whose pass over a whole text is not a valid reference, because in bfloat16 and int8 it rounds differently.
    """

    source: ServedModel

    def compute_distributions(self, ids: Sequence[int], count: int) -> tuple[Tensor, Tensor]:
        """Distributions after each of the last ``count`` tokens, (count, V) float64, and the margin of each, (count,)."""
        logits = torch.stack([self._compute_logits(tuple(ids[:end])) for end in range(len(ids) - count + 1, len(ids) + 1)])
        return self.source.warp_logits(logits).cpu(), compute_margins(logits.cpu(), self.source.settings)

    def _compute_logits(self, ids: tuple[int, ...]) -> Tensor:
        return self.source.compute_processed_logits([Prefix(ids, 0, 1)], build_empty_tree(1))[0, 0]


def build_model_inputs(network: PreTrainedModel, ids: Sequence[int], encoder_ids: Sequence[int]) -> dict[str, Tensor]:
    """One text as the arguments of the library's ``forward``: the decoder's ids, and the encoder's, if any."""
    text, read = (torch.tensor([list(tokens)], device=network.device) for tokens in (ids, encoder_ids))
    if not encoder_ids:
        return {"input_ids": text}
    return {"input_ids": read, "attention_mask": torch.ones_like(read), "decoder_input_ids": text}


def build_generate_inputs(network: PreTrainedModel, ids: Sequence[int], encoder_ids: Sequence[int]) -> dict[str, Tensor]:
    """The same for ``generate``, which would hide tokens of the prompt that are its padding token."""
    found = build_model_inputs(network, ids, encoder_ids)
    return found if encoder_ids else found | {"attention_mask": torch.ones_like(found["input_ids"])}


def compute_margins(logits: Tensor, settings: Settings) -> Tensor:
    """How much logits must change relative to each other before another set of tokens is left, (n,) for (n, V); inf: no truncation.

    Greedy: the difference of the two largest logits. The other cases are computed from the distribution after the temperature.
    Top-k: log of the ratio between the last token inside and the first one outside. Top-p: the same, or the distance of a running
    sum S from the wanted mass m, divided by m (1 - m), because S changes by S (1 - S) times the change. Min-p: log of the ratio
    between a token and the smallest probability that stays.
    """
    if settings.temperature == 0.0:
        first, second = logits.double().topk(2, -1).values.unbind(-1)
        return first - second
    near = torch.full(logits.shape[:-1], inf, dtype=torch.float64)
    if settings.top_k is not None and settings.top_k < logits.shape[-1]:
        ordered = warp(logits, settings.without_cuts()).topk(settings.top_k + 1, -1).values
        near = torch.minimum(near, (ordered[..., -2] / ordered[..., -1]).log())
    if settings.top_p is not None and settings.top_p < 1.0:
        ordered = warp(logits, replace(settings, top_p=None, min_p=None, warpers="")).sort(-1, descending=True).values
        before = ordered.cumsum(-1) - ordered
        m = settings.top_p
        last = (before < m).sum(-1, keepdim=True) - 1
        steps = (ordered[..., :-1] / ordered[..., 1:]).log().gather(-1, last.clamp(max=ordered.shape[-1] - 2))[..., 0]
        near = torch.minimum(near, torch.minimum(steps, (before - m).abs().amin(-1) / (m * (1.0 - m))))
    if settings.min_p is not None:
        probs = warp(logits, replace(settings, min_p=None, warpers=""))
        ratio = probs / (settings.min_p * probs.amax(-1, keepdim=True))
        near = torch.minimum(near, torch.where(probs > 0.0, ratio.log().abs(), inf).amin(-1))
    return near
