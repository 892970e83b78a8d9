"""A target and a draft that share one tokenizer: how a prompt is encoded, and what one request opens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from specviz.errors import SettingsError, TooLongError
from specviz.models.attachments.eagle import DraftHead
from specviz.models.attachments.exits import find_exit
from specviz.models.base import LanguageModel
from specviz.models.cache.decoder import CachedModel
from specviz.models.cache.encoder_decoder import ConditionedModel
from specviz.models.cache.feature_draft import FeatureDraft
from specviz.models.fast_llama.draft_8bit import BITS, is_rounded
from specviz.models.fast_llama.stepping import SteppingModel
from specviz.models.layered import LayeredModel, LowerLayers
from specviz.models.pairs.families import find_context
from specviz.models.pairs.generation_rules import NO_RULES, GenerationRules
from specviz.models.pairs.names import describe_short_draft
from specviz.models.pairs.tokens import format_token_bytes
from specviz.models.processors import Processor
from specviz.settings import Settings

ENCODER_MAX = 4096  # tokens of an encoder's prompt; attention memory grows with their square, 0.5 GB here for eight heads


@dataclass(frozen=True, slots=True)
class LoadedPair:
    """Target, draft and their shared tokenizer. Read-only: whatever a run changes is opened for that run."""

    name: str
    target: PreTrainedModel
    draft: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    eos_token_ids: frozenset[int]  # ids that end a text
    start: int | None  # the id that stands for an empty prompt; None: there is none
    rules: GenerationRules = field(default=NO_RULES, kw_only=True)  # what the target's generation_config changes
    notes: tuple[str, ...] = field(default=(), kw_only=True)  # sentences on how the models were read

    @property
    def vocabulary(self) -> int:
        """The larger vocabulary of the two. Ids that one model lacks have probability 0 in its distribution."""
        return max(model.config.get_text_config().vocab_size for model in (self.target, self.draft))

    @property
    def is_coarse(self) -> bool:
        """Whether distributions vary with the shape of a pass by more than float32 rounding: half precision, or an 8-bit draft."""
        return any(model.dtype in (torch.bfloat16, torch.float16) for model in (self.target, self.draft)) or is_rounded(
            self.draft
        )

    def open(self, settings: Settings) -> tuple[CachedModel, LanguageModel]:
        """Target and draft with fresh caches, for one request."""
        return self.open_model(self.target, settings, self.vocabulary), self.open_draft(settings)

    def open_layered(self, settings: Settings) -> tuple[LayeredModel, LowerLayers]:
        """The target, and its own first layers with an exit as the draft, for one request. The two share their computation.

        Raises as exits.find_exit.
        """
        exit_ = find_exit(self.name, self.target, settings)
        target = LayeredModel(self.target, settings, self.vocabulary, exit_, self.rules.processors)
        return target, target.lower

    def open_head(self, head: DraftHead, target: CachedModel, settings: Settings) -> FeatureDraft:
        """A draft head as a language model, for one request. target: as this request has opened it."""
        return FeatureDraft(head, target, settings)

    def open_model(self, model: PreTrainedModel, settings: Settings, vocabulary: int | None = None) -> CachedModel:
        """One of the two models with a fresh cache, for one request; ``vocabulary`` as in CachedModel."""
        return CachedModel(model, settings, vocabulary, self.select_processors(model))

    def open_draft(self, settings: Settings) -> LanguageModel:
        """The draft with a fresh cache, for one request."""
        return SteppingModel(self.draft, settings, self.vocabulary, self.select_processors(self.draft))

    def select_processors(self, model: PreTrainedModel) -> tuple[Processor, ...]:
        """The processors of a model's logits: the target's for both, unless the draft has another number of logits."""
        sizes = {one.config.get_text_config().vocab_size for one in (self.target, model)}
        return self.rules.processors if len(sizes) == 1 else ()

    def without_rules(self) -> LoadedPair:
        """The same pair for a server's samples: a server is asked to leave the generation_config out."""
        return replace(self, rules=NO_RULES)

    def list_notes(self, settings: Settings) -> list[str]:
        """Sentences on how the models were read and on what their configurations change in a run under these settings."""
        return [*self.notes, *self.rules.describe(settings), *self._describe_context(settings)]

    def _describe_context(self, settings: Settings) -> list[str]:
        """A sentence where the text may outgrow the draft's context."""
        target, draft = (find_context(model.config) for model in (self.target, self.draft))
        if target is None or draft is None or draft >= target or (not settings.prompt and self.start is None):
            return []
        is_longer = len(self.encode(settings.prompt)) + settings.max_new_tokens > draft
        return [describe_short_draft(draft, target)] if is_longer else []

    def encode(self, prompt: str) -> tuple[int, ...]:
        """Ids that a text begins with: those of the prompt, or only the start token for an empty prompt.

        Raises SettingsError for an empty prompt on a tokenizer that has no start token.
        """
        ids = self.tokenizer.encode(prompt) if prompt else []
        if not ids:
            if self.start is None:
                raise SettingsError("prompt", prompt, "at least one token long: this tokenizer has no start token")
            ids = [self.start]
        return tuple(ids)

    def encode_for_encoder(self, prompt: str) -> tuple[int, ...]:
        """Ids of a prompt that an encoder reads; empty for a pair without encoders."""
        return ()

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids, special tokens included; bytes that do not form a character become U+FFFD."""
        return b"".join(bytes.fromhex(self.read_pieces([token])[token]) for token in ids).decode("utf-8", "replace")

    def read_pieces(self, ids: Iterable[int]) -> dict[int, str]:
        """Id -> its bytes as hex."""
        return format_token_bytes(self.tokenizer, ids)

    def describe(self) -> dict[str, Any]:
        """Names, sizes, device and dtype, JSON-ready; device and dtype as ``load_pair`` takes them."""
        return {
            "pair": self.name,
            "device": self.target.device.type,
            "dtype": str(self.target.dtype).removeprefix("torch."),
            "target": {"family": self.target.config.model_type, "parameters": self.target.num_parameters()},
            "draft": {"family": self.draft.config.model_type, "parameters": self.draft.num_parameters()}
            | ({"bits": BITS} if is_rounded(self.draft) else {}),
            "start_token": None if self.start is None else self.tokenizer.convert_ids_to_tokens(self.start),
        } | ({"generation_config": self.rules.applied} if self.rules.applied else {})


@dataclass(frozen=True, slots=True)
class EncoderDecoderPair(LoadedPair):
    """Two encoder-decoder models. Both encoders read the prompt, and the text begins with the decoder's start token."""

    first: int = 0  # id of that start token

    def open_model(self, model: PreTrainedModel, settings: Settings, vocabulary: int | None = None) -> ConditionedModel:
        """One of the two models, after its encoder has read the prompt of the settings."""
        read = self.encode_for_encoder(settings.prompt)
        return ConditionedModel(model, settings, vocabulary, read, self.select_processors(model))

    def open_draft(self, settings: Settings) -> ConditionedModel:
        return self.open_model(self.draft, settings, self.vocabulary)

    def encode(self, prompt: str) -> tuple[int, ...]:
        """The decoder's start token, whatever the prompt."""
        return (self.first,)

    def encode_for_encoder(self, prompt: str) -> tuple[int, ...]:
        """Ids that the encoders read: those of the prompt, or only the start token for an empty prompt.

        Raises SettingsError for a prompt that is too long, and for an empty one if the tokenizer has no start token.
        """
        ids = LoadedPair.encode(self, prompt)
        if len(ids) > ENCODER_MAX:
            raise TooLongError("prompt", len(ids), ENCODER_MAX, "tokens", "the limit of an encoder")
        return ids
