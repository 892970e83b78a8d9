"""llama.cpp's llama-server, seen in version 0.5.0-dev, and llama-cpp-python, seen in version 0.3.36."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from specviz.audit.profiles.answers import are_token_ids, bound_value, format_value, get_field, parse_count, pick_fields
from specviz.audit.profiles.base import (
    SampledText,
    ServerAnswer,
    ServerFacts,
    ServerProfile,
    fetch_text_field,
    register_server_profile,
)
from specviz.audit.protocol.endpoint import FEW_TRIES, Endpoint
from specviz.audit.protocol.sampling_request import MAX_TEMPERATURE, SamplingRequest
from specviz.errors import MAX_SHOWN, EndpointError
from specviz.settings import CUT_FIELDS

DEFAULTS = ("n_ctx", "speculative", "params")  # of its default settings


@register_server_profile("llama.cpp")
class LlamaCppProfile(ServerProfile):
    """Its own ``/completion`` gives ids, end token included, and the counts of draft tokens.

    Of its samplers only those that were asked for are named, in the order of this project: temperature first. The cache of prompts is off,
    because what it holds changes the last bits of the distribution.
    """

    name = "llama.cpp"
    max_temperature = MAX_TEMPERATURE
    max_choices = 4
    drafting_evidence = "the counts in its answers"
    priority = 10
    optional_fields = ()

    @classmethod
    def recognize(cls, facts: ServerFacts) -> dict[str, Any] | None:
        props = facts.fetch("root:/props")
        return _describe(props) if isinstance(props, dict) and "default_generation_settings" in props else None

    def select_path(self, sampling: SamplingRequest, choices: int = 1) -> str:
        return super().select_path(sampling) if sampling.chat or choices > 1 else "root:/completion"

    def build_neutral_fields(self, sampling: SamplingRequest) -> dict[str, Any]:
        cuts = [name for name in CUT_FIELDS if getattr(sampling, name) is not None]
        return {
            "samplers": ["temperature", *cuts],
            "top_k": sampling.top_k or 0,
            "min_p": sampling.min_p or 0.0,
            "repeat_penalty": 1.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "cache_prompt": False,
        }

    def fetch_text(self, endpoint: Endpoint, model: str, ids: Sequence[int]) -> str | None:
        return fetch_text_field(endpoint, "root:/detokenize", {"tokens": list(ids)}, "content")

    def build_body(self, sampling: SamplingRequest, seed: int | None, choices: int = 1) -> dict[str, Any]:
        body = super().build_body(sampling, seed, choices)
        if self.select_path(sampling, choices) == "root:/completion":
            body["n_predict"] = body.pop("max_tokens")
            return body | {"return_tokens": True}
        return body | ({"logprobs": True, "top_logprobs": 1} if sampling.chat else {"logprobs": 1})

    def read_answer(self, answer: Any) -> ServerAnswer:
        if isinstance(answer, dict) and "choices" in answer:
            return super().read_answer(answer)
        tokens, text = get_field(answer, "tokens", list), get_field(answer, "content", str)
        if not are_token_ids(tokens):
            raise EndpointError(f"The server answered with tokens that are no ids ({format_value(tokens)}).")
        stop = {"eos": "stop", "word": "stop", "limit": "length"}.get(
            str(answer.get("stop_type")), str(answer.get("stop_type") or "")
        )
        counts = parse_count(answer.get("tokens_evaluated")), None, parse_count(answer.get("tokens_predicted"))
        identity = str(answer.get("model") or "")[:MAX_SHOWN], ""
        return ServerAnswer((SampledText(tuple(tokens), text, stop),), identity, *counts, *self.read_draft_counts(answer))

    def read_ids(self, choice: Mapping[str, Any]) -> tuple[int, ...] | None:
        content = choice["logprobs"].get("content") if isinstance(choice.get("logprobs"), dict) else None
        found = [one.get("id") if isinstance(one, dict) else None for one in content] if isinstance(content, list) else None
        return tuple(found) if are_token_ids(found) else None

    def fetch_prompt_ids(self, endpoint: Endpoint, sampling: SamplingRequest) -> tuple[int, ...] | None:
        try:
            text = sampling.prompt
            if sampling.chat:
                text = get_field(
                    endpoint.request_json("root:/apply-template", {"messages": sampling.messages}, FEW_TRIES), "prompt", str
                )
            body = {"content": text, "add_special": True, "parse_special": True}
            found = get_field(endpoint.request_json("root:/tokenize", body, FEW_TRIES), "tokens", list)
        except EndpointError:
            return None
        return tuple(found) if are_token_ids(found) else None

    def format_ids_expression(self, sampling: SamplingRequest) -> str:
        of_chat = '[one["id"] for one in answer["choices"][0]["logprobs"]["content"]]'
        return of_chat if sampling.chat else 'answer["tokens"]'

    def read_draft_counts(self, answer: Mapping[str, Any]) -> tuple[int | None, int | None]:
        timings = answer.get("timings")
        if not isinstance(timings, dict):
            return None, None
        return parse_count(timings.get("draft_n")) or 0, parse_count(timings.get("draft_n_accepted")) or 0


@register_server_profile("llama-cpp-python")
class LlamaCppPythonProfile(ServerProfile):
    """One request at a time, text only. Without a seed its samples repeat from one start to the next; penalties are on."""

    name = "llama-cpp-python"
    max_temperature = MAX_TEMPERATURE
    is_sequential = True
    max_choices = 1
    priority = 40
    optional_fields = ()

    @classmethod
    def recognize(cls, facts: ServerFacts) -> dict[str, Any] | None:
        info = facts.schema.get("info")
        title = str(info.get("title", "")) if isinstance(info, dict) else ""
        return facts.version if "llama.cpp" in title else None

    def build_neutral_fields(self, sampling: SamplingRequest) -> dict[str, Any]:
        off = {"top_k": sampling.top_k or 0, "min_p": sampling.min_p or 0.0, "repeat_penalty": 1.0}
        return off | {"presence_penalty": 0.0, "frequency_penalty": 0.0}


def _describe(props: Mapping[str, Any]) -> dict[str, Any]:
    usual = props["default_generation_settings"] if isinstance(props["default_generation_settings"], dict) else {}
    template = str(props.get("chat_template") or "")
    return {
        "version": str(props.get("build_info") or "")[:60],
        "model_path": str(props.get("model_path") or "")[:MAX_SHOWN],
        "total_slots": bound_value(props.get("total_slots")),
        "defaults": pick_fields(usual, DEFAULTS),
        "chat_template_sha256": hashlib.sha256(template.encode()).hexdigest() if template else "",
    }
