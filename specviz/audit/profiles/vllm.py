"""vLLM, seen in version 0.32."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from specviz.audit.profiles.base import (
    OPTIONAL_TIMEOUT,
    DraftCounters,
    ServerFacts,
    ServerProfile,
    fetch_text_field,
    register_server_profile,
)
from specviz.audit.protocol.endpoint import FEW_TRIES, Endpoint
from specviz.audit.protocol.sampling_request import SamplingRequest
from specviz.errors import EndpointError

DRAFT_COUNTERS = "vllm:spec_decode_num_"
MAX_POSITIONS = 63  # places in a round that are told apart


@register_server_profile("vllm")
class VllmProfile(ServerProfile):
    """Ids on request, end token included. Seeds are a request's own, and choice i of n uses seed + i.

    A stream has an event for each step of its scheduler, with all tokens of that step.
    """

    name = "vLLM"
    drafting_evidence = "its counters on /metrics"
    streams_rounds = True
    priority = 30
    optional_fields = ("return_token_ids", "min_p", "repetition_penalty")

    @classmethod
    def recognize(cls, facts: ServerFacts) -> dict[str, Any] | None:
        version = facts.version
        return version if "vllm" in facts.owners or (version and not facts.owners - {"vllm"}) else None

    def build_neutral_fields(self, sampling: SamplingRequest) -> dict[str, Any]:
        return {
            "top_k": sampling.top_k or -1,
            "min_p": sampling.min_p or 0.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "repetition_penalty": 1.0,
            "return_token_ids": True,
        }

    def fetch_text(self, endpoint: Endpoint, model: str, ids: Sequence[int]) -> str | None:
        body = {"tokens": list(ids)} | ({"model": model} if model else {})
        return fetch_text_field(endpoint, "root:/detokenize", body, "prompt")

    def read_draft_counters(self, endpoint: Endpoint) -> DraftCounters | None:
        try:
            text = endpoint.send("root:/metrics", max_tries=FEW_TRIES, timeout=OPTIONAL_TIMEOUT).content.decode(
                "utf-8", "replace"
            )
            sums, positions = {"draft_tokens": 0.0, "accepted_tokens": 0.0, "drafts": 0.0}, defaultdict[int, float](float)
            for family in text_string_to_metric_families(text):
                for one in family.samples:
                    name = one.name.removeprefix(DRAFT_COUNTERS).removesuffix("_total")
                    if name in sums:
                        sums[name] += one.value
                    elif name == "accepted_tokens_per_pos" and (place := str(one.labels.get("position"))).isdecimal():
                        positions[min(int(place), MAX_POSITIONS)] += one.value
        except (EndpointError, ValueError):
            return None
        by_position = tuple(positions[place] for place in range(max(positions, default=-1) + 1))
        return DraftCounters(sums["draft_tokens"], sums["accepted_tokens"], sums["drafts"], by_position)
