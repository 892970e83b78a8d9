"""What a model's generation_config changes in a run: its logits processors and end tokens, and what is not applied.

One object for decoder, reference and every opponent. assets/generation_config.toml says for each field whether it is applied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from transformers import (
    ForcedBOSTokenLogitsProcessor,
    GenerationConfig,
    MinLengthLogitsProcessor,
    NoBadWordsLogitsProcessor,
    NoRepeatNGramLogitsProcessor,
    PreTrainedModel,
    RepetitionPenaltyLogitsProcessor,
    SequenceBiasLogitsProcessor,
    SuppressTokensLogitsProcessor,
)

from specviz.errors import ModelError
from specviz.models.processors import Processor
from specviz.records import load_toml
from specviz.settings import SETTINGS, Settings

FIELDS: dict[str, dict[str, Any]] = load_toml("generation_config")
TOKENS = ("eos_token_id", "decoder_start_token_id")  # applied fields that make no processor
MAX_VALUE = 40  # characters of a value that a sentence repeats

# In the order of transformers' generate. eos: ids that end a text, as a tensor; None: there are none.
PROCESSORS: dict[str, Callable[[Any, Tensor | None], Processor]] = {
    "sequence_bias": lambda value, eos: SequenceBiasLogitsProcessor(value),
    "repetition_penalty": lambda value, eos: RepetitionPenaltyLogitsProcessor(float(value)),
    "no_repeat_ngram_size": lambda value, eos: NoRepeatNGramLogitsProcessor(value),
    "bad_words_ids": NoBadWordsLogitsProcessor,
    "min_length": lambda value, eos: MinLengthLogitsProcessor(value, [] if eos is None else eos, _find_device(eos)),
    "forced_bos_token_id": lambda value, eos: ForcedBOSTokenLogitsProcessor(value),
    "suppress_tokens": lambda value, eos: SuppressTokensLogitsProcessor(value, _find_device(eos)),
}


@dataclass(frozen=True, slots=True)
class GenerationRules:
    """The part of a generation_config that concerns the distribution of the next token.

    Attributes:
        processors: Of the target's logits, in transformers' order; each is a pure function of the text and its logits.
        applied: Field -> value, of those that the processors stand for.
        defaults: Field -> value, of those that settings of a run decide.
        ignored: Field -> value, of those that are not applied.
    """

    processors: tuple[Processor, ...] = ()
    applied: dict[str, Any] = field(default_factory=dict)
    defaults: dict[str, Any] = field(default_factory=dict)
    ignored: dict[str, Any] = field(default_factory=dict)

    def make_config(self, model: PreTrainedModel, eos_token_ids: frozenset[int]) -> GenerationConfig:
        """The configuration under which transformers' generate has these processors and end tokens, and no others."""
        own = model.generation_config
        tokens = {name: getattr(own, name, None) for name in ("bos_token_id", "pad_token_id", "decoder_start_token_id")}
        return GenerationConfig(**tokens, **self.applied, eos_token_id=sorted(eos_token_ids) or None)

    def describe(self, settings: Settings) -> list[str]:
        """Sentences on what applies to a run under these settings, and on what does not."""
        samples = settings.temperature > 0.0
        wanted = {
            name: value
            for name, value in self.defaults.items()
            if samples and name in SETTINGS and value != getattr(settings, name) and not _is_off(settings, name, value)
        }
        left = [_write_field(name, value) for name, value in self.ignored.items() if samples or FIELDS[name]["effect"] == "named"]
        said = []
        if self.applied:
            said.append(f"The target's generation_config applies: {_join_fields(self.applied)}.")
        if wanted:
            options = " ".join(f"{SETTINGS[name].option} {value}" for name, value in wanted.items())
            said.append(f"The target's generation_config names other sampling defaults: {options} would set them.")
        if left:
            said.append(
                f"Not applied from the target's generation_config: {', '.join(left)}. generate() would write other texts."
            )
        return said


NO_RULES = GenerationRules()


def read_generation_rules(place: str, model: PreTrainedModel, eos_token_ids: frozenset[int]) -> GenerationRules:
    """The rules of a loaded model. Raises ModelError, with the field and its value, for one that cannot be applied."""
    found = sort_fields(model.generation_config, bool(eos_token_ids))
    eos = torch.tensor(sorted(eos_token_ids), device=model.device) if eos_token_ids else None
    return replace(found, processors=tuple(_build_processor(place, *one, eos, model) for one in found.applied.items()))


def sort_fields(config: GenerationConfig | None, ends: bool) -> GenerationRules:
    """The rules of a configuration, without their processors. ends: whether a token ends a text."""
    found: dict[str, dict[str, Any]] = {"applied": {}, "option": {}, "ignored": {}}
    for name, declared in FIELDS.items():
        value, effect = getattr(config, name, None), declared["effect"]
        if value is None or value in declared.get("off", ()) or effect == "none" or name in TOKENS:
            continue
        if name == "min_length" and not ends:  # it delays the tokens that end a text
            continue
        if isinstance(value, dict) and name == "sequence_bias":  # as Python code writes it; JSON has lists
            value = [[list(tokens), bias] for tokens, bias in value.items()]
        found[effect if effect in found else "ignored"][name] = value
    applied = {name: found["applied"][name] for name in PROCESSORS if name in found["applied"]}
    return GenerationRules((), applied, found["option"], found["ignored"])


def read_eos_ids(place: str, generation: GenerationConfig | None, config: Any) -> frozenset[int]:
    """The ids that end a text, as generate() reads them: those of the generation_config, if there is one.

    Raises ModelError for anything but whole numbers.
    """
    found = getattr(config if generation is None else generation, "eos_token_id", None)
    ids = [] if found is None else list(found) if isinstance(found, list | tuple) else [found]
    for one in ids:
        if isinstance(one, bool) or not isinstance(one, int):
            raise ModelError(
                f"'{place}' names {one!r} as a token that ends a text (eos_token_id). Write the token's id, a whole number, into "
                "generation_config.json."
            )
    return frozenset(ids)


def _build_processor(place: str, name: str, value: Any, eos: Tensor | None, model: PreTrainedModel) -> Processor:
    """The processor of a field, tried on a text of one token."""
    width = model.config.get_text_config().vocab_size
    try:
        made = PROCESSORS[name](value, eos)
        text = torch.zeros(1, 1, dtype=torch.int64, device=model.device)
        made(text, torch.zeros(1, width, device=model.device))
    except Exception as error:  # transformers checks its values with bare asserts, ValueErrors and index errors
        raise ModelError(
            f"The generation_config of '{place}' has {_write_field(name, value)}, which cannot be applied: {str(error)[:120]}."
        ) from error
    return made


def _find_device(eos: Tensor | None) -> Any:
    return "cpu" if eos is None else eos.device


def _is_off(settings: Settings, name: str, value: Any) -> bool:
    """Whether a sampling default changes nothing: top-k 0 and top-p 1 where the setting is off."""
    return getattr(settings, name) is None and value in (0, 0.0, 1.0)


def _join_fields(values: dict[str, Any]) -> str:
    return ", ".join(_write_field(name, value) for name, value in values.items())


def _write_field(name: str, value: Any) -> str:
    """A field with its value, or with the number of its entries."""
    if isinstance(value, Sequence | dict) and not isinstance(value, str):
        count = len(value)
        return f"{name} ({count} {'entry' if count == 1 else 'entries'})"
    shown = str(value)
    return f"{name} {shown if len(shown) <= MAX_VALUE else shown[:MAX_VALUE] + '…'}"
