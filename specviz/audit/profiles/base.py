"""What every profile shares: samples, answers, the facts that a profile is recognized by, and the profile of an unknown server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeVar

from specviz.audit.profiles.answers import are_token_ids, format_value, get_field, merge_objects, parse_count
from specviz.audit.protocol.endpoint import FEW_TRIES, MAX_TRIES, Endpoint
from specviz.audit.protocol.sampling_request import SamplingRequest
from specviz.errors import MAX_SHOWN, EndpointError
from specviz.registry import Registry

OPTIONAL_TRIES = 5  # tries at an address that a server may lack, if it answers with an error
OPTIONAL_TIMEOUT = 20.0  # seconds for an answer while it is still unknown who answers


@dataclass(frozen=True, slots=True)
class SampledText:
    """One continuation.

    Attributes:
        tokens: None where the server gives no ids.
        stop: ``stop`` where it ended by itself, ``length`` at the limit.
        rounds: Tokens of each event of a stream, where the server sends what a target pass wrote in one event; else empty.
    """

    tokens: tuple[int, ...] | None
    text: str
    stop: str
    rounds: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ServerAnswer:
    """What one request brought.

    Attributes:
        identity: Of what answered: model and, where there is one, fingerprint.
        prompt_tokens: Number of tokens of the prompt that the server read.
        completion_tokens: Tokens of all samples together.
        drafted: Draft tokens; None where the answer does not say.
        accepted: Accepted draft tokens; None where the answer does not say.
    """

    samples: tuple[SampledText, ...]
    identity: tuple[str, str] = ("", "")
    prompt_tokens: int | None = None
    prompt_ids: tuple[int, ...] | None = None
    completion_tokens: int | None = None
    drafted: int | None = None
    accepted: int | None = None


@dataclass(frozen=True, slots=True)
class DraftCounters:
    """What a server has counted since it started, or between two readings (their difference).

    Attributes:
        drafted: Draft tokens.
        accepted: Accepted draft tokens.
        rounds: Rounds in which something was drafted; None where it does not count them.
        accepted_by_position: Accepted draft tokens by their place in the round; empty where it does not count them.
    """

    drafted: float
    accepted: float
    rounds: float | None = None
    accepted_by_position: tuple[float, ...] = ()

    def __sub__(self, before: DraftCounters) -> DraftCounters:
        rounds = None if self.rounds is None or before.rounds is None else self.rounds - before.rounds
        earlier = before.accepted_by_position + (0.0,) * len(self.accepted_by_position)
        positions = tuple(now - then for now, then in zip(self.accepted_by_position, earlier, strict=False))
        return DraftCounters(self.drafted - before.drafted, self.accepted - before.accepted, rounds, positions)

    def to_record(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> DraftCounters:
        return cls(**dict(record) | {"accepted_by_position": tuple(record["accepted_by_position"])})


def fetch_optional(endpoint: Endpoint, path: str) -> Any:
    """The JSON at an address that a server may lack; None there. Raises EndpointError where nothing answers at all."""
    try:
        return endpoint.request_json(path, max_tries=OPTIONAL_TRIES, timeout=OPTIONAL_TIMEOUT)
    except EndpointError as error:
        if not error.status or 300 <= error.status < 400 or error.status in (401, 403):
            raise
        return None


def fetch_text_field(endpoint: Endpoint, path: str, body: Mapping[str, Any], name: str) -> str | None:
    """A text of an answer: what cannot be printed is escaped, and its length is bounded. None where the server does not give it."""
    try:
        answer = endpoint.request_json(path, body, max_tries=1, timeout=OPTIONAL_TIMEOUT)
    except EndpointError:
        return None
    text = answer.get(name) if isinstance(answer, dict) else None
    if not isinstance(text, str):
        return None
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text[:MAX_SHOWN])


@dataclass(slots=True)
class ServerFacts:
    """What a server answers at the addresses by which profiles recognize it. Each address is requested once.

    Attributes:
        owners: Of the models that it lists, in lower case.
    """

    endpoint: Endpoint
    owners: frozenset[str]
    _answers: dict[str, Any] = field(default_factory=dict)

    def fetch(self, path: str) -> Any:
        """The JSON at an address, as ``fetch_optional``."""
        if path not in self._answers:
            self._answers[path] = fetch_optional(self.endpoint, path)
        return self._answers[path]

    @property
    def version(self) -> dict[str, str]:
        """The field ``version`` of ``/version``; empty without one."""
        answer = self.fetch("root:/version")
        return {"version": str(answer["version"])[:60]} if isinstance(answer, dict) and "version" in answer else {}

    @property
    def schema(self) -> dict[str, Any]:
        """The server's OpenAPI document; empty without one."""
        answer = self.fetch("root:/openapi.json")
        return answer if isinstance(answer, dict) else {}


class ServerProfile:
    """A server of which only OpenAI's protocol is known; base class of all profiles.

    Attributes:
        max_temperature: Highest temperature that is certain to be accepted.
        is_sequential: Whether requests should be sent one by one: seeds set a generator that all requests share.
        optional_fields: Fields that may be left out where a server refuses them.
        identity_fields: What the identity of an answer holds.
        drafting_evidence: Where drafting shows, in a few words; empty: nowhere.
        streams_rounds: Whether an event of a streamed answer holds the ids of all tokens that one target pass wrote.
        priority: Profiles with a lower one are tried first. Those of other packages should stay at 0.
        refused_fields: Optional fields that this server has refused.
    """

    name = "an OpenAI-compatible server"
    max_temperature = 2.0
    is_sequential = False
    max_choices = 128
    drafting_evidence = ""
    identity_fields = ("model", "system_fingerprint")
    optional_fields: tuple[str, ...] = ("presence_penalty", "frequency_penalty", "seed", "top_p")
    streams_rounds = False
    priority = 0

    def __init__(self, refused_fields: frozenset[str] = frozenset()):
        self.refused_fields = refused_fields

    @classmethod
    def recognize(cls, facts: ServerFacts) -> dict[str, Any] | None:
        """Facts about the server besides its models if it is of this kind; None if it is not."""
        return facts.version

    def select_path(self, sampling: SamplingRequest, choices: int = 1) -> str:
        return "/chat/completions" if sampling.chat else "/completions"

    def build_body(self, sampling: SamplingRequest, seed: int | None, choices: int = 1) -> dict[str, Any]:
        """The request for samples of the sampling's distribution, and of nothing else."""
        body: dict[str, Any] = {"model": sampling.model} if sampling.model else {}
        body |= {"messages": sampling.messages} if sampling.chat else {"prompt": sampling.prompt}
        body |= {"max_tokens": sampling.max_tokens, "temperature": sampling.temperature, "top_p": sampling.top_p or 1.0}
        body |= ({} if seed is None else {"seed": seed}) | ({"n": choices} if choices > 1 else {})
        body |= self.build_neutral_fields(sampling)
        return merge_objects({key: value for key, value in body.items() if key not in self.refused_fields}, sampling.extra)

    def request(
        self, endpoint: Endpoint, sampling: SamplingRequest, seed: int | None, choices: int = 1, max_tries: int = MAX_TRIES
    ) -> ServerAnswer:
        """Request samples and read them. Raises EndpointError as ``Endpoint.request_json`` and ``read_answer``."""
        body = self.build_body(sampling, seed, choices)
        if sampling.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
            return self.read_stream([event for _, event in endpoint.stream_events(self.select_path(sampling), body, max_tries)])
        return self.read_answer(endpoint.request_json(self.select_path(sampling, choices), body, max_tries))

    def build_neutral_fields(self, sampling: SamplingRequest) -> dict[str, Any]:
        """Fields that switch off everything else that changes the distribution, and that request ids."""
        given = {name: getattr(sampling, name) for name in ("top_k", "min_p") if getattr(sampling, name) is not None}
        return {"presence_penalty": 0.0, "frequency_penalty": 0.0} | given

    def read_answer(self, answer: Any) -> ServerAnswer:
        """The samples of an answer. Raises EndpointError for one that holds none."""
        choices = get_field(answer, "choices", list)
        if not choices:
            raise EndpointError(f"The server answered without choices ({format_value(answer)}).")
        usage = answer.get("usage") if isinstance(answer.get("usage"), dict) else {}
        ids = choices[0].get("prompt_token_ids", answer.get("prompt_token_ids")) if isinstance(choices[0], dict) else None
        return ServerAnswer(
            tuple(self.read_choice(one) for one in choices),
            (str(answer.get("model") or "")[:MAX_SHOWN], str(answer.get("system_fingerprint") or "")[:MAX_SHOWN]),
            parse_count(usage.get("prompt_tokens")),
            tuple(ids) if are_token_ids(ids) else None,
            parse_count(usage.get("completion_tokens")),
            *self.read_draft_counts(answer),
        )

    def read_stream(self, events: Sequence[Mapping[str, Any]]) -> ServerAnswer:
        """The one sample of a streamed answer, with the number of tokens of each event. Raises EndpointError as ``read_answer``."""
        ids: list[int] = []
        rounds: list[int] = []
        whole: dict[str, Any] = {}
        text, stop = "", None
        for event in events:
            whole |= {key: value for key, value in event.items() if value is not None and key != "choices"}
            for choice in get_field(event, "choices", list):
                if not isinstance(choice, dict):
                    raise EndpointError(f"The server streamed a choice that is no object ({format_value(choice)}).")
                whole |= {"prompt_token_ids": choice["prompt_token_ids"]} if choice.get("prompt_token_ids") else {}
                text += choice["text"] if isinstance(choice.get("text"), str) else ""
                stop = choice.get("finish_reason") or stop
                if found := self.read_ids(choice):
                    ids += found
                    rounds.append(len(found))
        answer = self.read_answer(whole | {"choices": [{"token_ids": ids, "text": text, "finish_reason": stop}]})
        return replace(answer, samples=(replace(answer.samples[0], rounds=tuple(rounds)),))

    def read_choice(self, choice: Any) -> SampledText:
        if not isinstance(choice, dict):
            raise EndpointError(f"The server answered with a choice that is no object ({format_value(choice)}).")
        message = choice.get("message")
        text = message.get("content") if isinstance(message, dict) else choice.get("text")
        ids = self.read_ids(choice)
        if ids is None and isinstance(message, dict) and (message.get("reasoning_content") or message.get("tool_calls")):
            raise EndpointError(
                "The server takes its answers apart (reasoning or tool calls), so the text as it was written is lost. "
                "Switch its parsers off, or use the completions endpoint without --chat."
            )
        if ids is None and not isinstance(text, str):
            raise EndpointError(f"The server answered with neither text nor token ids ({format_value(choice)}).")
        stop = choice.get("finish_reason")
        return SampledText(ids, text if isinstance(text, str) else "", {"eos": "stop"}.get(str(stop), str(stop or "")))

    def read_ids(self, choice: Mapping[str, Any]) -> tuple[int, ...] | None:
        found = choice.get("token_ids")
        return tuple(found) if are_token_ids(found) else None

    def format_ids_expression(self, sampling: SamplingRequest) -> str:
        """Python source that takes a sample's token ids from an ``answer``."""
        return 'answer["choices"][0]["token_ids"]'

    def read_draft_counts(self, answer: Mapping[str, Any]) -> tuple[int | None, int | None]:
        return None, None

    def fetch_prompt_ids(self, endpoint: Endpoint, sampling: SamplingRequest) -> tuple[int, ...] | None:
        """The ids of the prompt as the server's model reads it, where an address of its own gives them; else None."""
        return None

    def fetch_text(self, endpoint: Endpoint, model: str, ids: Sequence[int]) -> str | None:
        """The text of token ids, where an address of its own gives it; else None."""
        return None

    def read_draft_counters(self, endpoint: Endpoint) -> DraftCounters | None:
        """What the server has drafted and accepted since it started; None where it has no such counters."""
        return None

    def settle(self, endpoint: Endpoint, sampling: SamplingRequest) -> tuple[ServerProfile, ServerAnswer, list[str]]:
        """The profile without the optional fields that this server refuses, its first answer, and a sentence for each such field.

        Raises EndpointError where it refuses anything else.
        """
        profile: ServerProfile = self
        notices: list[str] = []
        while True:
            try:
                return profile, profile.request(endpoint, sampling, 1, max_tries=FEW_TRIES), notices
            except EndpointError as error:
                refused = {name for name in profile.optional_fields if name in str(error)} - profile.refused_fields
                if error.status not in (400, 422) or not refused:
                    raise
                profile = type(profile)(profile.refused_fields | refused)
                notices += [f"The server refuses {name}; its own value is in force." for name in sorted(refused)]


PROFILES: Registry[type[ServerProfile]] = Registry(
    "server profile", "specviz.audit.profiles", "register_server_profile", "specviz.server_profiles"
)
Profile = TypeVar("Profile", bound=type[ServerProfile])


def register_server_profile(name: str) -> Callable[[Profile], Profile]:
    """Class decorator: add a profile under a name. Other packages name their module in the entry-point group ``specviz.server_profiles``."""
    return PROFILES.register(name, lambda profile: profile)
