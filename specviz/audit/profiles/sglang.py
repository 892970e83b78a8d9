"""SGLang; the facts come from its source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specviz.audit.profiles.answers import (
    are_token_ids,
    format_value,
    get_field,
    merge_objects,
    parse_count,
    pick_fields,
    sum_counts,
)
from specviz.audit.profiles.base import SampledText, ServerAnswer, ServerFacts, ServerProfile, register_server_profile
from specviz.audit.protocol.sampling_request import SamplingRequest
from specviz.errors import MAX_SHOWN, EndpointError

FACTS = ("version", "model_path", "tokenizer_path", "dtype", "quantization", "kv_cache_dtype", "sampling_backend", "attention_backend",
         "random_seed", "enable_deterministic_inference", "speculative_algorithm", "speculative_draft_model_path",
         "speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens")  # fmt: skip


@register_server_profile("sglang")
class SglangProfile(ServerProfile):
    """Its own ``/generate`` gives ids; OpenAI's paths, which a chat needs, give text."""

    name = "SGLang"
    drafting_evidence = "the counts of verifying passes in its answers"
    priority = 20
    identity_fields = ("model", "weight_version")
    optional_fields = ("sampling_seed", "min_p", "repetition_penalty", "frequency_penalty", "presence_penalty")

    @classmethod
    def recognize(cls, facts: ServerFacts) -> dict[str, Any] | None:
        is_owner = "sglang" in facts.owners
        info = facts.fetch("root:/get_server_info") or (facts.fetch("root:/server_info") if is_owner else None)
        return pick_fields(info, FACTS) if isinstance(info, dict) and (is_owner or "model_path" in info) else None

    def select_path(self, sampling: SamplingRequest, choices: int = 1) -> str:
        return super().select_path(sampling) if sampling.chat else "root:/generate"

    def build_neutral_fields(self, sampling: SamplingRequest) -> dict[str, Any]:
        off = {"top_k": sampling.top_k or -1, "min_p": sampling.min_p or 0.0, "repetition_penalty": 1.0}
        return super().build_neutral_fields(sampling) | off

    def build_body(self, sampling: SamplingRequest, seed: int | None, choices: int = 1) -> dict[str, Any]:
        if sampling.chat:
            return super().build_body(sampling, seed, choices)
        params = {"temperature": sampling.temperature, "top_p": sampling.top_p or 1.0, "max_new_tokens": sampling.max_tokens}
        params |= (
            self.build_neutral_fields(sampling)
            | ({} if seed is None else {"sampling_seed": seed})
            | ({"n": choices} if choices > 1 else {})
        )
        kept = {key: value for key, value in params.items() if key not in self.refused_fields}
        return merge_objects({"text": sampling.prompt, "sampling_params": kept}, sampling.extra)

    def read_answer(self, answer: Any) -> ServerAnswer:
        if isinstance(answer, dict) and "choices" in answer:
            return super().read_answer(answer)
        every = answer if isinstance(answer, list) else [answer]
        metas = [get_field(one, "meta_info", dict) for one in every]
        if not every:
            raise EndpointError("The server answered with an empty list.")
        verified = [parse_count(meta.get("spec_verify_ct")) for meta in metas]
        drafted = [parse_count(meta.get("spec_draft_token_num")) for meta in metas]
        accepted = [parse_count(meta.get("spec_accept_token_num")) for meta in metas]
        return ServerAnswer(
            tuple(self._read_sample(one, meta) for one, meta in zip(every, metas, strict=True)),
            (str(metas[0].get("model") or "")[:MAX_SHOWN], str(metas[0].get("weight_version") or "")[:MAX_SHOWN]),
            parse_count(metas[0].get("prompt_tokens")),
            None,
            sum_counts([parse_count(meta.get("completion_tokens")) for meta in metas]),
            sum_counts(drafted) if sum_counts(drafted) is not None else sum_counts(verified),
            sum_counts(accepted),
        )

    def format_ids_expression(self, sampling: SamplingRequest) -> str:
        return super().format_ids_expression(sampling) if sampling.chat else 'answer["output_ids"]'

    def _read_sample(self, answer: Mapping[str, Any], meta: Mapping[str, Any]) -> SampledText:
        reason = meta.get("finish_reason")
        kind = reason.get("type") if isinstance(reason, dict) else reason
        ids, text = answer.get("output_ids"), answer.get("text")
        if not are_token_ids(ids) and not isinstance(text, str):
            raise EndpointError(f"The server answered with neither text nor token ids ({format_value(answer)}).")
        end = reason.get("matched") if isinstance(reason, dict) else None
        tokens = tuple(ids) if are_token_ids(ids) else None
        if tokens is not None and kind == "stop" and type(end) is int and tokens[-1:] != (end,):
            tokens += (end,)
        return SampledText(tokens, text if isinstance(text, str) else "", str(kind or ""))
