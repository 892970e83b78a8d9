"""A target and a draft that share one tokenizer: what a prompt becomes, and what one request opens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from specviz.errors import SettingsError
from specviz.models.attachments.exits import exit_of
from specviz.models.cache.decoder import CachedModel
from specviz.models.cache.encoder_decoder import ConditionedModel
from specviz.models.fast_llama.draft_8bit import BITS, is_rounded
from specviz.models.fast_llama.stepping import SteppingModel
from specviz.models.layered import LayeredModel, LowerLayers
from specviz.models.pairs.tokens import pieces
from specviz.settings import Settings

ENCODER_MAX = 4096  # tokens of an encoder's prompt: its attention takes memory with their square, 0.5 GB for eight heads here


@dataclass(frozen=True, slots=True)
class Pair:
    """Target, draft and their one tokenizer. Read-only: what a run changes is opened for that run.

    eos_token_ids  ids that end a text; start  the id that stands for an empty prompt
    """

    name: str
    target: PreTrainedModel
    draft: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    eos_token_ids: frozenset[int]
    start: int | None

    @property
    def vocabulary(self) -> int:
        """The larger of the two; ids that one model lacks have probability 0 in its distribution."""
        return max(model.config.get_text_config().vocab_size for model in (self.target, self.draft))

    @property
    def coarse(self) -> bool:
        """Whether distributions of the two differ with the shape of a pass by more than float32 rounds: half precision, or a draft in 8 bits."""
        return any(model.dtype in (torch.bfloat16, torch.float16) for model in (self.target, self.draft)) or is_rounded(
            self.draft
        )

    def open(self, settings: Settings) -> tuple[CachedModel, CachedModel]:
        """Target and draft with fresh caches, for one request."""
        return self.source(self.target, settings, self.vocabulary), self.drafting(settings)

    def open_layered(self, settings: Settings) -> tuple[LayeredModel, LowerLayers]:
        """The target, and its own first layers with an exit in the draft's place, for one request: what they compute they share.

        Raises as exits.exit_of.
        """
        target = LayeredModel(self.target, settings, self.vocabulary, exit_of(self.name, self.target, settings))
        return target, target.lower

    def source(self, model: PreTrainedModel, settings: Settings, vocabulary: int | None = None) -> CachedModel:
        """One of the two models with a fresh cache, for one request; ``vocabulary`` as in CachedModel."""
        return CachedModel(model, settings, vocabulary)

    def drafting(self, settings: Settings) -> CachedModel:
        """The draft with a fresh cache, for one request."""
        return SteppingModel(self.draft, settings, self.vocabulary)

    def encode(self, prompt: str) -> tuple[int, ...]:
        """Ids that a text begins with: the prompt's; the start token alone for an empty one.

        Raises SettingsError for an empty prompt on a tokenizer that has no start token.
        """
        ids = self.tokenizer.encode(prompt) if prompt else []
        if not ids:
            if self.start is None:
                raise SettingsError("prompt", prompt, "at least one token long: this tokenizer has no start token")
            ids = [self.start]
        return tuple(ids)

    def encoder_ids(self, prompt: str) -> tuple[int, ...]:
        """What an encoder reads of a prompt: nothing, where there is none."""
        return ()

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids, special tokens included; bytes that make no character become U+FFFD."""
        return b"".join(bytes.fromhex(self.pieces([token])[token]) for token in ids).decode("utf-8", "replace")

    def pieces(self, ids: Iterable[int]) -> dict[int, str]:
        """id -> its bytes as hex."""
        return pieces(self.tokenizer, ids)

    def describe(self) -> dict[str, Any]:
        """Names, sizes, device and dtype, for people and records; the last two as ``load_pair`` takes them."""
        return {
            "pair": self.name,
            "device": self.target.device.type,
            "dtype": str(self.target.dtype).removeprefix("torch."),
            "target": {"family": self.target.config.model_type, "parameters": self.target.num_parameters()},
            "draft": {"family": self.draft.config.model_type, "parameters": self.draft.num_parameters()}
            | ({"bits": BITS} if is_rounded(self.draft) else {}),
            "start_token": None if self.start is None else self.tokenizer.convert_ids_to_tokens(self.start),
        }


@dataclass(frozen=True, slots=True)
class EncoderDecoderPair(Pair):
    """Two encoder-decoder models: the prompt goes to both encoders, and the text begins with the decoder's start token.

    first  that token's id
    """

    first: int = 0

    def source(self, model: PreTrainedModel, settings: Settings, vocabulary: int | None = None) -> ConditionedModel:
        """One of the two models, its encoder done with the prompt that the settings hold."""
        return ConditionedModel(model, settings, vocabulary, self.encoder_ids(settings.prompt))

    def drafting(self, settings: Settings) -> ConditionedModel:
        return self.source(self.draft, settings, self.vocabulary)

    def encode(self, prompt: str) -> tuple[int, ...]:
        """The decoder's start token, whatever the prompt."""
        return (self.first,)

    def encoder_ids(self, prompt: str) -> tuple[int, ...]:
        """What the encoders read: the prompt as its tokenizer writes it, the start token alone for an empty one.

        Raises SettingsError for a prompt that is too long, and for an empty one on a tokenizer that has no start token.
        """
        ids = Pair.encode(self, prompt)
        if len(ids) > ENCODER_MAX:
            raise SettingsError("prompt", f"{len(ids)} tokens", f"at most {ENCODER_MAX} tokens, the longest an encoder is given")
        return ids
