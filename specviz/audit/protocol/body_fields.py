"""Fields of a request's body that change the distribution of its tokens, and so need a reference that has them too."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from specviz.errors import SettingsError

OPTION_FIELDS = {  # field -> the option that sets it on both sides
    "temperature": "--temperature",
    "top_k": "--top-k",
    "top_p": "--top-p",
    "min_p": "--min-p",
    "max_tokens": "--max-new-tokens",
    "max_completion_tokens": "--max-new-tokens",
    "max_new_tokens": "--max-new-tokens",
    "n_predict": "--max-new-tokens",
}
OTHER_FIELDS = frozenset(
    (
        "logit_bias", "presence_penalty", "frequency_penalty", "repetition_penalty", "repeat_penalty", "repeat_last_n", "dry_multiplier",
        "min_tokens", "min_new_tokens", "stop", "stop_token_ids", "ignore_eos", "typical_p", "typ_p", "top_n_sigma", "xtc_probability",
        "epsilon_cutoff", "eta_cutoff", "mirostat", "dynatemp_range", "grammar", "json_schema", "response_format", "guided_json",
        "guided_regex", "guided_choice", "guided_grammar", "structured_outputs", "regex", "ebnf", "bad_words", "bad_words_ids",
        "allowed_token_ids", "suppress_tokens", "no_repeat_ngram_size", "samplers", "do_sample", "use_beam_search", "num_beams",
        "truncate_prompt_tokens", "logits_processors", "custom_logit_processor",
    )
)  # fmt: skip
NEUTRAL: dict[str, tuple[Any, ...]] = {  # values that change nothing
    "presence_penalty": (0,), "frequency_penalty": (0,), "repetition_penalty": (1,), "repeat_penalty": (1,), "min_tokens": (0,),
    "min_new_tokens": (0,), "ignore_eos": (False,), "typical_p": (1,), "typ_p": (1,), "do_sample": (True,), "num_beams": (1,),
    "logit_bias": ({}, []), "stop": ([], ""), "dry_multiplier": (0,), "xtc_probability": (0,), "mirostat": (0,), "dynatemp_range": (0,),
}  # fmt: skip
COMPUTED_FIELDS = (
    "logit_bias",
    "min_tokens",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
)  # a reference has them
NESTED = ("sampling_params", "generation_config", "extra_body")  # objects that hold such fields, or strings of JSON


def find_distribution_fields(body: Mapping[str, Any]) -> Iterator[str]:
    """Fields that change the distribution and are not at a value that changes nothing."""
    for name, value in body.items():
        if name in NESTED:
            yield from find_distribution_fields(_read_nested(value))
        elif (name in OPTION_FIELDS or name in OTHER_FIELDS) and value is not None and value not in NEUTRAL.get(name, ()):
            yield name


def _read_nested(value: Any) -> Mapping[str, Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, Mapping) else {}


def refuse_request_fields(body: Mapping[str, Any], option: str, taken: Collection[str]) -> None:
    """Raise SettingsError for a field that other options set, or that every request has of its own. option: name of the body's."""
    if found := sorted(set(taken) & body.keys()):
        raise SettingsError(option, found[0], "without what other options say, or what every request has of its own (the seed)")


def refuse_distribution_fields(body: Mapping[str, Any], option: str) -> None:
    """Raise SettingsError for a field that the distribution of local weights would not have; those that can be computed may stay.

    Args:
        body: The object of an option.
        option: Its name, for the sentence.
    """
    for name in find_distribution_fields({name: value for name, value in body.items() if name not in COMPUTED_FIELDS}):
        if name in OPTION_FIELDS:
            raise SettingsError(
                option, name, f"without fields that have an option of their own: use {OPTION_FIELDS[name]}, which both sides get"
            )
        allowed = (
            "without fields that change the distribution, because the exact one is computed without them. Compare the server with speculation "
            "on and off instead (--against), with the same body"
        )
        raise SettingsError(option, name, allowed)
