"""One streamed answer of an OpenAI-compatible server: when each piece of text arrived, and how many tokens there were."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from specviz.audit.profiles.answers import parse_count
from specviz.audit.profiles.base import ServerProfile
from specviz.audit.protocol.endpoint import Endpoint, RequestCancelledError
from specviz.errors import MAX_SHOWN, EndpointError

Prompt = str | tuple[Mapping[str, str], ...]  # a text to continue, or the messages of a chat


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """The request for one prompt. None leaves a field to the server.

    Attributes:
        model: As the server calls it; empty: not named.
        max_new_tokens: Most tokens of an answer; it may end before.
        extra: Further fields of the body, which win over all others.
    """

    model: str = ""
    max_new_tokens: int = 128
    temperature: float | None = None
    extra: Mapping[str, Any] | None = None

    def build_body(self, prompt: Prompt) -> dict[str, Any]:
        """The body of the request for a prompt."""
        body: dict[str, Any] = {"model": self.model} if self.model else {}
        body |= {"prompt": prompt} if isinstance(prompt, str) else {"messages": [dict(message) for message in prompt]}
        body |= {"max_tokens": self.max_new_tokens, "stream": True, "stream_options": {"include_usage": True}}
        body |= {} if self.temperature is None else {"temperature": self.temperature}
        return body | dict(self.extra or {})


@dataclass(frozen=True, slots=True)
class StreamedAnswer:
    """One answer. Times in seconds of one clock, ``time.monotonic``.

    Attributes:
        began: When the request was sent.
        arrivals: When each piece of text arrived, ascending.
        characters: Of the whole text.
        tokens: As the server counted them; None where it sends no count.
        finish: ``stop``, ``length``, or what else the server gives as the reason.
        drafted: Draft tokens of this answer; None where the server does not tell.
        accepted: Accepted draft tokens; None where the server does not tell.
        text: The whole text.
    """

    began: float
    arrivals: tuple[float, ...]
    characters: int
    tokens: int | None
    finish: str = ""
    drafted: int | None = None
    accepted: int | None = None
    text: str = ""

    @property
    def ended(self) -> float:
        return self.arrivals[-1]


def stream_answer(
    endpoint: Endpoint,
    profile: ServerProfile,
    request: StreamRequest,
    prompt: Prompt,
    is_unneeded: Callable[[], bool] = lambda: False,
) -> StreamedAnswer:
    """Send one prompt and read its stream to the end.

    Raises:
        RequestCancelledError: ``is_unneeded`` was true at some piece, because nobody needs this answer any more; the connection is
            closed. The load goes on: it is stopped by its ``on_progress``.
        EndpointError: The server fails, does not stream, or sends no text.
    """
    path = "/completions" if isinstance(prompt, str) else "/chat/completions"
    began, finish = time.monotonic(), ""
    arrivals: list[float] = []
    pieces: list[str] = []
    tokens: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    for arrived, event in endpoint.stream_events(path, request.build_body(prompt)):
        if is_unneeded():
            raise RequestCancelledError("The answer is not needed any more.")
        if isinstance(event.get("error"), Mapping | str):
            raise EndpointError(f"The server stopped in the middle of an answer ({str(event['error'])[:MAX_SHOWN]}).")
        usage = event.get("usage")
        if isinstance(usage, Mapping) and (counted := parse_count(usage.get("completion_tokens"))) is not None:
            tokens = counted
        counts = profile.read_draft_counts(event)
        drafted = drafted if counts[0] is None else counts[0]
        accepted = accepted if counts[1] is None else counts[1]
        text, reason = _read_piece(event)
        finish = reason or finish
        if text:
            arrivals.append(arrived)
            pieces.append(text)
    if not finish:
        raise EndpointError("The server broke its stream in the middle of an answer: it gave no reason for stopping.")
    if not arrivals:
        raise EndpointError(
            "The server streamed an answer without any text: it ended at once, or its limit of tokens leaves nothing to time."
        )
    whole = "".join(pieces)
    return StreamedAnswer(began, tuple(arrivals), len(whole), tokens or None, finish, drafted, accepted, whole)


def _read_piece(event: Mapping[str, Any]) -> tuple[str, str]:
    """Text and reason for stopping of one event. A reasoning model's thoughts are tokens like all others."""
    choices = event.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], Mapping) else {}
    delta = choice.get("delta")
    found = [choice.get("text")]
    if isinstance(delta, Mapping):
        found = [delta.get("reasoning_content"), delta.get("reasoning"), delta.get("content")]
    text = "".join(one for one in found if isinstance(one, str))
    reason = choice.get("finish_reason")
    return text, reason[:MAX_SHOWN] if isinstance(reason, str) else ""
