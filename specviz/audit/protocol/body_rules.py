"""Fields of a request's body that change the distribution in a way that the reference can compute: penalties, biases, a least length.

The definitions are those of vLLM and of OpenAI's API. They act on the logits before the temperature, in this order.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import isfinite
from typing import Any

import torch
from torch import Tensor

from specviz.audit.protocol.body_fields import COMPUTED_FIELDS, NEUTRAL
from specviz.errors import SettingsError
from specviz.models.pairs.generation_rules import NO_RULES, PROCESSORS, GenerationRules
from specviz.models.processors import Processor

MAX_BIAS = 100.0  # of a token, in either direction


def read_body_rules(
    body: Mapping[str, Any], prompt_tokens: int, vocabulary: int, eos_token_ids: frozenset[int]
) -> GenerationRules:
    """The processors of a body's fields; others are not read.

    Args:
        body: Of the requests.
        prompt_tokens: Length of the prompt. ``presence_penalty``, ``frequency_penalty`` and ``min_tokens`` count what comes after it.
        vocabulary: Number of tokens.
        eos_token_ids: Tokens that end a text.

    Raises:
        SettingsError: A value is out of range.
    """
    asked = {name: body[name] for name in COMPUTED_FIELDS if name in body and body[name] not in (None, *NEUTRAL.get(name, ()))}
    if not asked:
        return NO_RULES
    found: list[Processor] = []
    if bias := asked.get("logit_bias"):
        found.append(partial(_add_bias, bias=_read_bias(bias, vocabulary)))
    if least := asked.get("min_tokens"):
        if type(least) is not int or least < 0:
            raise SettingsError("min_tokens", least, "a whole number from 0")
        ends = torch.tensor(sorted(eos_token_ids), dtype=torch.int64)
        found.append(partial(_delay_end, prompt_tokens=prompt_tokens, least=least, ends=ends))
    if "repetition_penalty" in asked:
        found.append(PROCESSORS["repetition_penalty"](_read_number(asked, "repetition_penalty", 1e-3, 100.0), None))
    if {"presence_penalty", "frequency_penalty"} & asked.keys():
        presence, frequency = (_read_number(asked, name, -2.0, 2.0) for name in ("presence_penalty", "frequency_penalty"))
        found.append(partial(_penalize, prompt_tokens=prompt_tokens, presence=presence, frequency=frequency))
    return GenerationRules(tuple(found), asked)


def describe_body_rules(rules: GenerationRules) -> str:
    """A sentence where the reference has fields of the requests; else ''."""
    if not rules.applied:
        return ""
    return f"The reference is computed with the requests' {', '.join(rules.applied)}, as vLLM and OpenAI define them."


def _add_bias(ids: Tensor, logits: Tensor, bias: Mapping[int, float]) -> Tensor:
    changed = logits.clone()
    for token, value in bias.items():
        changed[:, token] += value
    return changed


def _delay_end(ids: Tensor, logits: Tensor, prompt_tokens: int, least: int, ends: Tensor) -> Tensor:
    if ids.shape[-1] - prompt_tokens >= least:
        return logits
    return logits.index_fill(-1, ends.to(logits.device), -torch.inf)


def _penalize(ids: Tensor, logits: Tensor, prompt_tokens: int, presence: float, frequency: float) -> Tensor:
    written = ids[0, prompt_tokens:]
    counts = torch.bincount(written, minlength=logits.shape[-1]).to(logits.dtype)
    return logits - frequency * counts - presence * (counts > 0)


def _read_bias(bias: Any, vocabulary: int) -> dict[int, float]:
    allowed = f"an object of token ids below {vocabulary:,} and numbers from -{MAX_BIAS:g} to {MAX_BIAS:g}"
    try:
        found = {int(token): float(value) for token, value in bias.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise SettingsError("logit_bias", str(bias)[:80], allowed) from error
    if not all(0 <= token < vocabulary and abs(value) <= MAX_BIAS for token, value in found.items()):
        raise SettingsError("logit_bias", str(bias)[:80], allowed)
    return found


def _read_number(body: Mapping[str, Any], name: str, low: float, high: float) -> float:
    value = body.get(name, 0.0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or not low <= value <= high:
        raise SettingsError(
            name, value if isinstance(value, int | float) else str(value)[:40], f"a number from {low:g} to {high:g}"
        )
    return float(value)
