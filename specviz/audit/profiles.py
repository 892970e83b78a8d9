"""The servers that people run: how each is known, what it must be sent so that nothing but the model's distribution is sampled, how
its tokens are read back, and where it shows that it drafts.

Each fact was seen on the server itself (transformers serve 5.23, llama.cpp 0.5.0-dev, llama-cpp-python 0.3.36, vLLM 0.32) except for
SGLang's, which come from its source.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from prometheus_client.parser import text_string_to_metric_families

from specviz.audit.endpoint import FEW_TRIES, Endpoint
from specviz.audit.sampling_request import MAX_TEMPERATURE, SamplingRequest
from specviz.errors import SHOWN, EndpointError

OPTIONAL_TRIES = 5  # tries at an address that a server may lack, if it answers with an error
OPTIONAL_TIMEOUT = 20.0  # seconds for an answer while it is still unknown who answers
MAX_SEED = 2**32 - 2  # seeds are 1 .. SEEDS: 0 and 2^32 - 1 mean a random one to some servers
DRAFT_COUNTERS = "vllm:spec_decode_num_"
SGLANG_FIELDS = ("version", "model_path", "tokenizer_path", "dtype", "quantization", "kv_cache_dtype", "sampling_backend", "attention_backend",
          "random_seed", "enable_deterministic_inference", "speculative_algorithm", "speculative_draft_model_path",
          "speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens")  # fmt: skip
LLAMA_FIELDS = ("n_ctx", "speculative", "params")  # of its default settings
MODEL_FIELDS = ("id", "root", "owned_by", "max_model_len", "meta")  # of each model that a server lists
MAX_CHANGES, MAX_VALUE_LENGTH, MAX_LEVELS = 3, 80, 6  # changes that are named, characters of a value, and levels of a description
MAX_MODELS, MAX_FACT_LENGTH = 20, 4000  # models, and characters of one fact about a server: of more a digest is kept


@dataclass(frozen=True, slots=True)
class SampledText:
    """One continuation. tokens: None where the server gives no ids; stop: ``stop`` where it ended by itself, ``length`` at the limit."""

    tokens: tuple[int, ...] | None
    text: str
    stop: str


@dataclass(frozen=True, slots=True)
class ServerAnswer:
    """What one request brought.

    identity          of what answered: model and, where there is one, fingerprint
    prompt_tokens     that the server read; prompt_ids  which
    completion_tokens of all samples together
    drafted, accepted draft tokens, None where the answer does not say
    """

    samples: tuple[SampledText, ...]
    identity: tuple[str, str] = ("", "")
    prompt_tokens: int | None = None
    prompt_ids: tuple[int, ...] | None = None
    completion_tokens: int | None = None
    drafted: int | None = None
    accepted: int | None = None


class ServerProfile:
    """A server that is known by nothing but OpenAI's protocol.

    name      in sentences
    hottest   highest temperature that is sure to be taken
    alone     whether requests should come one by one: seeds set a generator that all requests share, and nothing is gained
    choices   most samples of one request
    optional  fields that may be left out where a server refuses them
    identified  what the identity of an answer holds
    seen_by   where drafting shows, in a few words; empty: nowhere
    without   optional fields that this server has refused
    """

    name, hottest, alone, choices, seen_by = "an OpenAI-compatible server", 2.0, False, 128, ""
    identified = ("model", "system_fingerprint")
    optional: tuple[str, ...] = ("presence_penalty", "frequency_penalty", "seed", "top_p")

    def __init__(self, without: frozenset[str] = frozenset()):
        self.without = without

    def path(self, manner: SamplingRequest, choices: int = 1) -> str:
        return "/chat/completions" if manner.chat else "/completions"

    def body(self, manner: SamplingRequest, seed: int | None, choices: int = 1) -> dict[str, Any]:
        """The request for samples of the manner's distribution, and of nothing else."""
        asked: dict[str, Any] = {"model": manner.model} if manner.model else {}
        asked |= {"messages": manner.messages} if manner.chat else {"prompt": manner.prompt}
        asked |= {"max_tokens": manner.max_tokens, "temperature": manner.temperature, "top_p": manner.top_p or 1.0}
        asked |= ({} if seed is None else {"seed": seed}) | ({"n": choices} if choices > 1 else {})
        asked |= self.plain(manner)
        return merge_objects({key: value for key, value in asked.items() if key not in self.without}, manner.extra)

    def plain(self, manner: SamplingRequest) -> dict[str, Any]:
        """What switches off everything that changes the distribution and was not asked for, and asks for ids."""
        asked = {name: getattr(manner, name) for name in ("top_k", "min_p") if getattr(manner, name) is not None}
        return {"presence_penalty": 0.0, "frequency_penalty": 0.0} | asked

    def read(self, answer: Any) -> ServerAnswer:
        """The samples of an answer. Raises EndpointError for one that holds none."""
        choices = get_field(answer, "choices", list)
        if not choices:
            raise EndpointError(f"The server answered without choices ({format_value(answer)}).")
        usage = answer.get("usage") if isinstance(answer.get("usage"), dict) else {}
        ids = choices[0].get("prompt_token_ids", answer.get("prompt_token_ids")) if isinstance(choices[0], dict) else None
        return ServerAnswer(
            tuple(self.choice(one) for one in choices),
            (str(answer.get("model") or "")[:SHOWN], str(answer.get("system_fingerprint") or "")[:SHOWN]),
            as_count(usage.get("prompt_tokens")),
            tuple(ids) if are_token_ids(ids) else None,
            as_count(usage.get("completion_tokens")),
            *self.drafted(answer),
        )

    def choice(self, choice: Any) -> SampledText:
        if not isinstance(choice, dict):
            raise EndpointError(f"The server answered with a choice that is no object ({format_value(choice)}).")
        message = choice.get("message")
        text = message.get("content") if isinstance(message, dict) else choice.get("text")
        ids = self.ids(choice)
        if ids is None and isinstance(message, dict) and (message.get("reasoning_content") or message.get("tool_calls")):
            raise EndpointError(
                "The server takes its answers apart (reasoning or tool calls), so the text as it was written is lost. "
                "Switch its parsers off, or use the completions endpoint without --chat."
            )
        if ids is None and not isinstance(text, str):
            raise EndpointError(f"The server answered with neither text nor token ids ({format_value(choice)}).")
        stop = choice.get("finish_reason")
        return SampledText(ids, text if isinstance(text, str) else "", {"eos": "stop"}.get(str(stop), str(stop or "")))

    def ids(self, choice: Mapping[str, Any]) -> tuple[int, ...] | None:
        found = choice.get("token_ids")
        return tuple(found) if are_token_ids(found) else None

    def ids_in_python(self, manner: SamplingRequest) -> str:
        """Python source that takes a sample's token ids from an ``answer``."""
        return 'answer["choices"][0]["token_ids"]'

    def drafted(self, answer: Mapping[str, Any]) -> tuple[int | None, int | None]:
        return None, None

    def prompt_ids(self, endpoint: Endpoint, manner: SamplingRequest) -> tuple[int, ...] | None:
        """The ids of what the server's model reads, where it tells them apart from a sample; None where it does not."""
        return None

    def counters(self, endpoint: Endpoint) -> tuple[float, float] | None:
        """Tokens that the server has drafted and accepted since it started; None where it has no such counters."""
        return None

    def settled(self, endpoint: Endpoint, manner: SamplingRequest) -> tuple[ServerProfile, ServerAnswer, list[str]]:
        """The profile without the optional fields that this server refuses, its first answer, and a sentence for each such field.

        Raises EndpointError where it refuses anything else.
        """
        profile: ServerProfile = self
        said: list[str] = []
        while True:
            try:
                return profile, profile.read(endpoint.ask(profile.path(manner), profile.body(manner, 1), FEW_TRIES)), said
            except EndpointError as error:
                refused = {name for name in profile.optional if name in str(error)} - profile.without
                if error.status not in (400, 422) or not refused:
                    raise
                profile = type(profile)(profile.without | refused)
                said += [f"The server refuses {name}; its own value is in force." for name in sorted(refused)]


class VllmProfile(ServerProfile):
    """Ids on request, end token included. Seeds are a request's own, and choice i of n uses seed + i."""

    name, seen_by = "vLLM", "its counters on /metrics"
    optional = ("return_token_ids", "min_p", "repetition_penalty")

    def plain(self, manner: SamplingRequest) -> dict[str, Any]:
        return {
            "top_k": manner.top_k or -1,
            "min_p": manner.min_p or 0.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "repetition_penalty": 1.0,
            "return_token_ids": True,
        }

    def counters(self, endpoint: Endpoint) -> tuple[float, float] | None:
        try:
            text = endpoint.reply("root:/metrics", tries=FEW_TRIES, silence=OPTIONAL_TIMEOUT).content.decode("utf-8", "replace")
            sums = {"draft_tokens": 0.0, "accepted_tokens": 0.0}
            for family in text_string_to_metric_families(text):
                for one in family.samples:
                    if (name := one.name.removeprefix(DRAFT_COUNTERS).removesuffix("_total")) in sums:
                        sums[name] += one.value
            return sums["draft_tokens"], sums["accepted_tokens"]
        except (EndpointError, ValueError):
            return None


class SglangProfile(ServerProfile):
    """Its own ``/generate`` gives ids; OpenAI's paths, which a chat needs, give text."""

    name, seen_by = "SGLang", "the counts of verifying passes in its answers"
    identified = ("model", "weight_version")
    optional = ("sampling_seed", "min_p", "repetition_penalty", "frequency_penalty", "presence_penalty")

    def path(self, manner: SamplingRequest, choices: int = 1) -> str:
        return super().path(manner) if manner.chat else "root:/generate"

    def plain(self, manner: SamplingRequest) -> dict[str, Any]:
        off = {"top_k": manner.top_k or -1, "min_p": manner.min_p or 0.0, "repetition_penalty": 1.0}
        return super().plain(manner) | off

    def body(self, manner: SamplingRequest, seed: int | None, choices: int = 1) -> dict[str, Any]:
        if manner.chat:
            return super().body(manner, seed, choices)
        asked = {"temperature": manner.temperature, "top_p": manner.top_p or 1.0, "max_new_tokens": manner.max_tokens}
        asked |= self.plain(manner) | ({} if seed is None else {"sampling_seed": seed}) | ({"n": choices} if choices > 1 else {})
        kept = {key: value for key, value in asked.items() if key not in self.without}
        return merge_objects({"text": manner.prompt, "sampling_params": kept}, manner.extra)

    def read(self, answer: Any) -> ServerAnswer:
        if isinstance(answer, dict) and "choices" in answer:
            return super().read(answer)
        every = answer if isinstance(answer, list) else [answer]
        metas = [get_field(one, "meta_info", dict) for one in every]
        if not every:
            raise EndpointError("The server answered with an empty list.")
        verified = [as_count(meta.get("spec_verify_ct")) for meta in metas]
        drafted = [as_count(meta.get("spec_draft_token_num")) for meta in metas]
        accepted = [as_count(meta.get("spec_accept_token_num")) for meta in metas]
        return ServerAnswer(
            tuple(self._one(one, meta) for one, meta in zip(every, metas, strict=True)),
            (str(metas[0].get("model") or "")[:SHOWN], str(metas[0].get("weight_version") or "")[:SHOWN]),
            as_count(metas[0].get("prompt_tokens")),
            None,
            sum_counts([as_count(meta.get("completion_tokens")) for meta in metas]),
            sum_counts(drafted) if sum_counts(drafted) is not None else sum_counts(verified),
            sum_counts(accepted),
        )

    def ids_in_python(self, manner: SamplingRequest) -> str:
        return super().ids_in_python(manner) if manner.chat else 'answer["output_ids"]'

    def _one(self, one: Mapping[str, Any], meta: Mapping[str, Any]) -> SampledText:
        reason = meta.get("finish_reason")
        kind = reason.get("type") if isinstance(reason, dict) else reason
        ids, text = one.get("output_ids"), one.get("text")
        if not are_token_ids(ids) and not isinstance(text, str):
            raise EndpointError(f"The server answered with neither text nor token ids ({format_value(one)}).")
        end = reason.get("matched") if isinstance(reason, dict) else None
        tokens = tuple(ids) if are_token_ids(ids) else None
        if tokens is not None and kind == "stop" and type(end) is int and tokens[-1:] != (end,):
            tokens += (end,)
        return SampledText(tokens, text if isinstance(text, str) else "", str(kind or ""))


class LlamaCppProfile(ServerProfile):
    """Its own ``/completion`` gives ids, end token included, and the counts of drafted tokens. Of its samplers only those that were
    asked for are named, in the order of this project: temperature first. The cache of prompts is off, because what it holds
    changes the last bits of the distribution."""

    name, hottest, choices, seen_by = "llama.cpp", MAX_TEMPERATURE, 4, "the counts in its answers"
    optional = ()

    def path(self, manner: SamplingRequest, choices: int = 1) -> str:
        return super().path(manner) if manner.chat or choices > 1 else "root:/completion"

    def plain(self, manner: SamplingRequest) -> dict[str, Any]:
        cuts = [name for name in ("top_k", "top_p", "min_p") if getattr(manner, name) is not None]
        return {
            "samplers": ["temperature", *cuts],
            "top_k": manner.top_k or 0,
            "min_p": manner.min_p or 0.0,
            "repeat_penalty": 1.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "cache_prompt": False,
        }

    def body(self, manner: SamplingRequest, seed: int | None, choices: int = 1) -> dict[str, Any]:
        asked = super().body(manner, seed, choices)
        if self.path(manner, choices) == "root:/completion":
            asked["n_predict"] = asked.pop("max_tokens")
            return asked | {"return_tokens": True}
        return asked | ({"logprobs": True, "top_logprobs": 1} if manner.chat else {"logprobs": 1})

    def read(self, answer: Any) -> ServerAnswer:
        if isinstance(answer, dict) and "choices" in answer:
            return super().read(answer)
        tokens, text = get_field(answer, "tokens", list), get_field(answer, "content", str)
        if not are_token_ids(tokens):
            raise EndpointError(f"The server answered with tokens that are no ids ({format_value(tokens)}).")
        stop = {"eos": "stop", "word": "stop", "limit": "length"}.get(
            str(answer.get("stop_type")), str(answer.get("stop_type") or "")
        )
        counts = as_count(answer.get("tokens_evaluated")), None, as_count(answer.get("tokens_predicted"))
        identity = str(answer.get("model") or "")[:SHOWN], ""
        return ServerAnswer((SampledText(tuple(tokens), text, stop),), identity, *counts, *self.drafted(answer))

    def ids(self, choice: Mapping[str, Any]) -> tuple[int, ...] | None:
        content = choice["logprobs"].get("content") if isinstance(choice.get("logprobs"), dict) else None
        found = [one.get("id") if isinstance(one, dict) else None for one in content] if isinstance(content, list) else None
        return tuple(found) if are_token_ids(found) else None

    def prompt_ids(self, endpoint: Endpoint, manner: SamplingRequest) -> tuple[int, ...] | None:
        try:
            text = manner.prompt
            if manner.chat:
                text = get_field(endpoint.ask("root:/apply-template", {"messages": manner.messages}, FEW_TRIES), "prompt", str)
            asked = {"content": text, "add_special": True, "parse_special": True}
            found = get_field(endpoint.ask("root:/tokenize", asked, FEW_TRIES), "tokens", list)
        except EndpointError:
            return None
        return tuple(found) if are_token_ids(found) else None

    def ids_in_python(self, manner: SamplingRequest) -> str:
        of_chat = '[one["id"] for one in answer["choices"][0]["logprobs"]["content"]]'
        return of_chat if manner.chat else 'answer["tokens"]'

    def drafted(self, answer: Mapping[str, Any]) -> tuple[int | None, int | None]:
        timings = answer.get("timings")
        if not isinstance(timings, dict):
            return None, None
        return as_count(timings.get("draft_n")) or 0, as_count(timings.get("draft_n_accepted")) or 0


class LlamaCppPythonProfile(ServerProfile):
    """One request at a time, text only. Without a seed its samples repeat from one start to the next; penalties are on."""

    name, hottest, alone, choices = "llama-cpp-python", MAX_TEMPERATURE, True, 1
    optional = ()

    def plain(self, manner: SamplingRequest) -> dict[str, Any]:
        off = {"top_k": manner.top_k or 0, "min_p": manner.min_p or 0.0, "repeat_penalty": 1.0}
        return off | {"presence_penalty": 0.0, "frequency_penalty": 0.0}


class TransformersProfile(ServerProfile):
    """Text only. Sampling is off and top-k is 50 unless ``generation_config``, a JSON string, says otherwise. Any field that it does
    not know is refused. Drafting (prompt lookup, early exit) is asked for in ``generation_config`` and shows nowhere."""

    name, hottest, alone, choices = "transformers serve", MAX_TEMPERATURE, True, 1
    optional = ()

    def body(self, manner: SamplingRequest, seed: int | None, choices: int = 1) -> dict[str, Any]:
        """A field ``generation_config`` of the manner's, as an object or as a string, is added to this one's."""
        extra = dict(manner.extra)
        own = extra.pop("generation_config", {})
        config = {
            "do_sample": manner.temperature > 0.0,
            "temperature": manner.temperature,
            "top_k": manner.top_k or 0,
            "top_p": manner.top_p or 1.0,
            "min_p": manner.min_p or 0.0,
            "typical_p": 1.0,
            "repetition_penalty": 1.0,
        }
        try:
            config = merge_objects(config, json.loads(own) if isinstance(own, str) else own)
        except (ValueError, TypeError) as error:
            raise EndpointError(f"generation_config must be a JSON object, got {format_value(own)}.") from error
        asked: dict[str, Any] = {"model": manner.model} if manner.model else {}
        asked |= {"messages": manner.messages} if manner.chat else {"prompt": manner.prompt}
        asked |= {"max_tokens": manner.max_tokens, "generation_config": json.dumps(config)} | (
            {} if seed is None else {"seed": seed}
        )
        return merge_objects(asked, extra)


@dataclass(frozen=True, slots=True)
class RecognizedServer:
    """A server's profile, and what it says about itself that should not change while it is sampled.

    created  of each model that it lists: when it was loaded, or only what time it is now
    """

    profile: ServerProfile
    about: dict[str, Any]
    created: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        version = self.about.get("version", "")
        return f"{self.profile.name}{f' {version}' if version else ''}"


def recognize_server(endpoint: Endpoint) -> RecognizedServer:
    """Who answers at an address. Raises EndpointError where nothing does."""
    models = list_models(endpoint)
    owners = {str(one.get("owned_by", "")).lower() for one in models}
    about: dict[str, Any] = {"models": [pick_fields(one, MODEL_FIELDS) for one in models]}
    profile, more = _identify_profile(endpoint, owners)
    return RecognizedServer(profile, about | more, get_creation_times(models))


def list_models(endpoint: Endpoint) -> list[dict[str, Any]]:
    """The models that a server lists, the first ones."""
    models = fetch_optional(endpoint, "/models")
    found = models.get("data") if isinstance(models, dict) else None
    return [one for one in found if isinstance(one, dict)][:MAX_MODELS] if isinstance(found, list) else []


def get_creation_times(models: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """When each model was loaded, as the server has it."""
    return {str(one.get("id"))[:SHOWN]: bound_value(one["created"]) for one in models if "created" in one}


def list_changes(then: Any, now: Any, name: str = "", levels: int = MAX_LEVELS) -> list[str]:
    """What differs between two descriptions, a clause each: name, old and new value. levels: below which values are shown whole."""
    if levels and isinstance(then, Mapping) and isinstance(now, Mapping):
        keys = [key for key in {**then, **now} if then.get(key) != now.get(key)]
        return [one for key in keys for one in list_changes(then.get(key), now.get(key), f"{name}.{key}".strip("."), levels - 1)]
    if levels and isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        pairs = enumerate(zip(then, now, strict=True), 1)
        return [one for number, (a, b) in pairs if a != b for one in list_changes(a, b, f"{name}[{number}]", levels - 1)]
    old, new = ("nothing" if one in (None, "") else _shorten(json.dumps(one)) for one in (then, now))
    return [f"{_shorten(json.dumps(name)[1:-1])} was {old} and now is {new}"]


def format_changes(found: Sequence[str]) -> str:
    """Changes as part of a sentence: the first ones."""
    more = f"; and {len(found) - MAX_CHANGES} more" if len(found) > MAX_CHANGES else ""
    return "; ".join(found[:MAX_CHANGES]) + more


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_VALUE_LENGTH else text[:MAX_VALUE_LENGTH] + "…"


def _identify_profile(endpoint: Endpoint, owners: set[str]) -> tuple[ServerProfile, dict[str, Any]]:
    """Which kind of server it is, and what it says of itself besides its models."""
    props = fetch_optional(endpoint, "root:/props")
    if isinstance(props, dict) and "default_generation_settings" in props:
        return LlamaCppProfile(), _describe_llama(props)
    info = fetch_optional(endpoint, "root:/get_server_info") or (
        fetch_optional(endpoint, "root:/server_info") if "sglang" in owners else None
    )
    if isinstance(info, dict) and ("sglang" in owners or "model_path" in info):
        return SglangProfile(), pick_fields(info, SGLANG_FIELDS)
    answer = fetch_optional(endpoint, "root:/version")
    version = {"version": str(answer["version"])[:60]} if isinstance(answer, dict) and "version" in answer else {}
    if "vllm" in owners or (version and not owners - {"vllm"}):
        return VllmProfile(), version
    schema = fetch_optional(endpoint, "root:/openapi.json")
    if isinstance(schema, dict):
        title = schema["info"].get("title", "") if isinstance(schema.get("info"), dict) else ""
        if re.search(r"llama\.cpp", str(title)):
            return LlamaCppPythonProfile(), version
        if isinstance(schema.get("paths"), dict) and "/load_model" in schema["paths"]:
            return TransformersProfile(), version
    return ServerProfile(), version


def fetch_optional(endpoint: Endpoint, path: str) -> Any:
    """The JSON at an address that a server may lack; None there. Raises EndpointError where nothing answers at all."""
    try:
        return endpoint.ask(path, tries=OPTIONAL_TRIES, silence=OPTIONAL_TIMEOUT)
    except EndpointError as error:
        if not error.status or 300 <= error.status < 400 or error.status in (401, 403):
            raise
        return None


def _describe_llama(props: Mapping[str, Any]) -> dict[str, Any]:
    usual = props["default_generation_settings"] if isinstance(props["default_generation_settings"], dict) else {}
    template = str(props.get("chat_template") or "")
    return {
        "version": str(props.get("build_info") or "")[:60],
        "model_path": str(props.get("model_path") or "")[:SHOWN],
        "total_slots": bound_value(props.get("total_slots")),
        "defaults": pick_fields(usual, LLAMA_FIELDS),
        "chat_template_sha256": hashlib.sha256(template.encode()).hexdigest() if template else "",
    }


# Reading what a server wrote: anything may be missing, or of another type.


def pick_fields(found: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """The fields of an object that are kept of it."""
    return {key: bound_value(found[key]) for key in keys if key in found}


def bound_value(found: Any) -> Any:
    """A fact as it is, or a digest of it where it is long."""
    try:
        text = json.dumps(found, sort_keys=True)
    except (RecursionError, ValueError):
        return "too deep to be read"
    return found if len(text) <= MAX_FACT_LENGTH else f"sha256 {hashlib.sha256(text.encode()).hexdigest()}"


def merge_objects(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Two objects as one, level by level; the second wins."""
    if not isinstance(second, Mapping):
        raise TypeError(f"an object was expected, got {type(second).__name__}")
    both = dict(first)
    for key, value in second.items():
        inner = both.get(key)
        both[key] = merge_objects(inner, value) if isinstance(inner, Mapping) and isinstance(value, Mapping) else value
    return both


def get_field(answer: Any, key: str, kind: type) -> Any:
    """A field of an answer. Raises EndpointError where it is missing or of another type."""
    if not isinstance(answer, dict) or not isinstance(answer.get(key), kind):
        raise EndpointError(f"The server answered without a field {key!r} that could be read ({format_value(answer)}).")
    return answer[key]


def are_token_ids(found: Any) -> TypeGuard[list[int]]:
    """Whether it is a list of ids."""
    return isinstance(found, list) and all(type(one) is int and one >= 0 for one in found)


def as_count(found: Any) -> int | None:
    return found if type(found) is int and found >= 0 else None


def sum_counts(found: list[int | None]) -> int | None:
    """The sum; None where one is missing."""
    return None if None in found or not found else sum(one for one in found if one is not None)


def format_value(found: Any) -> str:
    """What a server wrote, for a sentence: one line, bounded."""
    return json.dumps(found, default=str)[:SHOWN]
