"""transformers serve, seen in version 5.23."""

from __future__ import annotations

import json
from typing import Any

from specviz.audit.profiles.answers import format_value, merge_objects
from specviz.audit.profiles.base import ServerFacts, ServerProfile, register_server_profile
from specviz.audit.protocol.sampling_request import MAX_TEMPERATURE, SamplingRequest
from specviz.errors import EndpointError


@register_server_profile("transformers")
class TransformersProfile(ServerProfile):
    """Text only. Sampling is off and top-k is 50 unless ``generation_config``, a JSON string, says otherwise.

    Any field that it does not know is refused. Drafting (prompt lookup, early exit) is switched on in ``generation_config`` and shows nowhere.
    """

    name = "transformers serve"
    max_temperature = MAX_TEMPERATURE
    is_sequential = True
    max_choices = 1
    priority = 50
    optional_fields = ()

    @classmethod
    def recognize(cls, facts: ServerFacts) -> dict[str, Any] | None:
        paths = facts.schema.get("paths")
        return facts.version if isinstance(paths, dict) and "/load_model" in paths else None

    def build_body(self, sampling: SamplingRequest, seed: int | None, choices: int = 1) -> dict[str, Any]:
        """A field ``generation_config`` of the sampling's, as an object or as a string, is added to this one's."""
        extra = dict(sampling.extra)
        own = extra.pop("generation_config", {})
        config = {
            "do_sample": sampling.temperature > 0.0,
            "temperature": sampling.temperature,
            "top_k": sampling.top_k or 0,
            "top_p": sampling.top_p or 1.0,
            "min_p": sampling.min_p or 0.0,
            "typical_p": 1.0,
            "repetition_penalty": 1.0,
        }
        try:
            config = merge_objects(config, json.loads(own) if isinstance(own, str) else own)
        except (ValueError, TypeError) as error:
            raise EndpointError(f"generation_config must be a JSON object, got {format_value(own)}.") from error
        body: dict[str, Any] = {"model": sampling.model} if sampling.model else {}
        body |= {"messages": sampling.messages} if sampling.chat else {"prompt": sampling.prompt}
        body |= {"max_tokens": sampling.max_tokens, "generation_config": json.dumps(config)} | (
            {} if seed is None else {"seed": seed}
        )
        return merge_objects(body, extra)
