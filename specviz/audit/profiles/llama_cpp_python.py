"""llama-cpp-python, seen in version 0.3.36."""

from __future__ import annotations

from typing import Any

from specviz.audit.profiles.base import ServerFacts, ServerProfile, register_server_profile
from specviz.audit.sampling_request import MAX_TEMPERATURE, SamplingRequest


@register_server_profile("llama-cpp-python")
class LlamaCppPythonProfile(ServerProfile):
    """One request at a time, text only. Without a seed its samples repeat from one start to the next; penalties are on."""

    name = "llama-cpp-python"
    max_temperature = MAX_TEMPERATURE
    is_sequential = True
    max_choices = 1
    priority = 40
    optional_fields: tuple[str, ...] = ()

    @classmethod
    def recognize(cls, facts: ServerFacts) -> dict[str, Any] | None:
        info = facts.schema.get("info")
        title = str(info.get("title", "")) if isinstance(info, dict) else ""
        return facts.version if "llama.cpp" in title else None

    def build_neutral_fields(self, sampling: SamplingRequest) -> dict[str, Any]:
        off = {"top_k": sampling.top_k or 0, "min_p": sampling.min_p or 0.0, "repeat_penalty": 1.0}
        return off | {"presence_penalty": 0.0, "frequency_penalty": 0.0}
