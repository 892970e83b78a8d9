"""The request to a server: the text, its length, and the distribution of its tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from specviz.errors import SettingsError, TooLongError
from specviz.settings import CUT_FIELDS, PROMPT_MAX, SWITCH_OFF, check_number, check_whole

MAX_TOKENS = 64  # of a sample: longer ones need more samples than any server gives
MAX_TEMPERATURE = 1000.0  # temperature of a probe: every token is about as likely as any other


@dataclass(frozen=True, slots=True)
class SamplingRequest:
    """A request for samples. None for top_k, top_p or min_p means off.

    Attributes:
        prompt: The text to continue; under ``chat`` the message of the user.
        max_tokens: 1 to 64.
        model: As the server calls it; empty: not named temperature 0 to 1000.
        extra: Further fields of the request's body, which win over everything else.
        written: The text that the server's model reads, where it differs from ``prompt``: the chat template with the message in
            it.
        stream: Whether answers are streamed, so that each shows its rounds.
    """

    prompt: str
    max_tokens: int
    model: str = ""
    chat: bool = False
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    written: str = ""
    stream: bool = False

    def __post_init__(self) -> None:
        check_whole("max-tokens", self.max_tokens, 1, MAX_TOKENS)
        check_number("temperature", self.temperature, 0.0, MAX_TEMPERATURE, f"a number from 0 (greedy) to {MAX_TEMPERATURE:g}")
        if self.top_k is not None:
            check_whole("top-k", self.top_k, 1, 10**7, f"a whole number from 1; {SWITCH_OFF}")
        for name, value in (("top-p", self.top_p), ("min-p", self.min_p)):
            if value is not None:
                check_number(name, value, 0.0, 1.0, f"above 0 and at most 1; {SWITCH_OFF}", above=True)
        if not self.prompt:
            raise SettingsError("prompt", self.prompt, "a text: servers refuse an empty one, or answer it in ways of their own")
        if len(self.prompt) > PROMPT_MAX:
            raise TooLongError("prompt", len(self.prompt), PROMPT_MAX)

    @property
    def messages(self) -> list[dict[str, str]]:
        """The messages of a chat."""
        return [{"role": "user", "content": self.prompt}]

    @property
    def line(self) -> str:
        """The text that the samples continue, as a sample file names it."""
        return self.written or self.prompt

    def build_settings(self, seed: int | None = None) -> dict[str, Any]:
        """The field ``settings`` of a sample: what changes its distribution, and its seed."""
        asked = {name: getattr(self, name) for name in CUT_FIELDS if getattr(self, name) is not None}
        chat = {"chat": True} if self.chat else {}
        return (
            {"temperature": self.temperature, "max_tokens": self.max_tokens}
            | asked
            | chat
            | ({} if seed is None else {"seed": seed})
        )

    def to_record(self) -> dict[str, Any]:
        """All fields of the request, JSON-ready."""
        return (
            {
                "model": self.model,
                "prompt": self.prompt,
                "written": self.written,
                "extra": dict(self.extra),
            }
            | ({"stream": True} if self.stream else {})
            | self.build_settings()
        )

    def with_temperature(self, temperature: float, max_tokens: int) -> SamplingRequest:
        """The same text, at a temperature that makes tokens alike and without filters: whatever is cut then, the server cuts."""
        no_cuts: dict[str, Any] = dict.fromkeys(CUT_FIELDS)
        return replace(self, temperature=temperature, max_tokens=max_tokens, **no_cuts)
