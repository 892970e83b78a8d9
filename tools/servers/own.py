"""A server that decodes with one named mistake, or with none, behind the protocol that OpenAI-compatible servers speak.

    python tools/servers/own.py --mistake R5 --port 8765
    specviz audit http://127.0.0.1:8765/v1 --prompt "Once upon a time" --max-new-tokens 3 --min-tv 0.1 --pair storybook

It answers as vLLM does: POST /v1/completions with ``return_token_ids``, ``n`` (choice i has the seed + i), ``stream`` (an event for each
round, sent when the round ends), penalties, and prompts of text or ids; POST /detokenize; GET /v1/models, /version, /health, and /metrics
with the counters of draft tokens, without those of rounds and of places in them. It is made to be audited, not to be fast.
"""

from __future__ import annotations

import argparse
import json
import secrets
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402

from specviz.audit.findings.text_samples import TokenBytes  # noqa: E402
from specviz.audit.protocol.body_fields import COMPUTED_FIELDS  # noqa: E402
from specviz.audit.protocol.body_rules import read_body_rules  # noqa: E402
from specviz.decoding.engine import build_first_prefix, step  # noqa: E402
from specviz.decoding.sampler import Shard, iterate_rounds, sample_with_shared_distributions  # noqa: E402
from specviz.decoding.samples import NONE, Coverage, count_events  # noqa: E402
from specviz.errors import SpecvizError  # noqa: E402
from specviz.evidence.decoder import SPECULATIVE, Decoder, build_decoder  # noqa: E402
from specviz.evidence.mistakes.components import OtherRowModel  # noqa: E402
from specviz.evidence.mistakes.registry import MISTAKES  # noqa: E402
from specviz.models.continuations import MemoizedPaths  # noqa: E402
from specviz.models.pairs.loading import load_pair  # noqa: E402
from specviz.models.pairs.pair import LoadedPair  # noqa: E402
from specviz.randomness import PhiloxRandomness, Prefix, Purpose  # noqa: E402
from specviz.settings import Settings  # noqa: E402
from specviz.trace import Round  # noqa: E402

NO_MISTAKE, OTHER_ROW = "none", "draft-row"
MAX_BYTES, MAX_CHOICES, MAX_TOKENS, MAX_OPENED = 2**20, 256, 128, 8  # of a request: bytes, choices, tokens; opened decoders


@dataclass(frozen=True, slots=True)
class SeededSamples:
    """Random numbers of samples that have a seed each: sample i is the first one of seed i."""

    seeds: tuple[int, ...]

    def take(self, purpose: Purpose, rows: Sequence[Prefix], node: int, depth: int) -> np.ndarray:
        numbers = [PhiloxRandomness(self.seeds[row.draw]).take(purpose, [replace(row, draw=0)], node, depth) for row in rows]
        return np.concatenate(numbers)

    def stream(self, purpose: Purpose, start: int, node: int, first: int, count: int) -> np.ndarray:
        numbers = [PhiloxRandomness(seed).stream(purpose, start, node, 0, 1) for seed in self.seeds[first : first + count]]
        return np.concatenate(numbers)


@dataclass(frozen=True, slots=True)
class WrittenRound:
    """The tokens of one round of one text. ids: with the end token; is_last: whether the text ends with it."""

    text: int
    ids: tuple[int, ...]
    is_last: bool


def join_rounds(rounds: Sequence[WrittenRound], count: int) -> list[list[int]]:
    """The tokens of each of so many texts."""
    return [[token for one in rounds if one.text == number for token in one.ids] for number in range(count)]


@dataclass(slots=True)
class MistakenDecoder:
    """The pair with one mistake, or with none. One request is decoded at a time; distributions that were computed are kept.

    OTHER_ROW judges by the draft's rows in the last request with another prompt: at each place those that its texts had there. The
    first requests have no such row, and are decoded correctly.
    """

    pair: LoadedPair
    mistake: str
    gamma: int
    coverage: Coverage = field(default_factory=Coverage)
    opened: dict[tuple[Any, ...], Decoder] = field(default_factory=dict)
    written: dict[tuple[int, ...], list[list[int]]] = field(
        default_factory=dict
    )  # the last texts after each prompt, the newest last
    lock: threading.Lock = field(default_factory=threading.Lock)

    def write(
        self, prompt: Sequence[int], settings: Settings, seeds: Sequence[int], body: Mapping[str, Any] = MappingProxyType({})
    ) -> list[list[int]]:
        """The tokens of one sample for each seed, with the end token. body: of the request, whose penalties and biases count."""
        with self.lock:
            decoder, randomness = self._open_decoder(tuple(prompt), settings, body), SeededSamples(tuple(seeds))
            if self.mistake == OTHER_ROW:
                return join_rounds(self._decode_with_other_row(decoder, settings, randomness), len(seeds))
            if decoder.engine_only:
                return join_rounds([*self._iterate_rounds(decoder, settings, randomness)], len(seeds))
            made = decoder.reopen()
            mistaken = made.randomness(randomness)
            shard = Shard(
                made.target, made.proposer, made.rule, mistaken, settings, decoder.prompt, decoder.eos_token_ids, 0, len(seeds)
            )
            samples = sample_with_shared_distributions(shard)
            self.coverage += samples.coverage or Coverage()
            return [[token for token in row if token != NONE] for row in samples.tokens.tolist()]

    def stream(
        self, prompt: Sequence[int], settings: Settings, seeds: Sequence[int], body: Mapping[str, Any] = MappingProxyType({})
    ) -> Iterator[WrittenRound]:
        """The rounds of the same samples, each as it ends. Arguments and errors as ``write``, before the first round."""
        with self.lock:
            decoder = self._open_decoder(tuple(prompt), settings, body)

        def iterate_alone() -> Iterator[WrittenRound]:
            with self.lock:
                decode = self._decode_with_other_row if self.mistake == OTHER_ROW else self._iterate_rounds
                yield from decode(decoder, settings, SeededSamples(tuple(seeds)))

        return iterate_alone()

    def _decode_with_other_row(self, decoder: Decoder, settings: Settings, randomness: SeededSamples) -> list[WrittenRound]:
        """Judge by rows of another request where there was one; keep the texts for the next request."""
        proposer, prompt = decoder.reopen().proposer, decoder.prompt
        others = [one for one in self.written if one != prompt]

        def read_text(row: Prefix, depth: int) -> tuple[int, ...]:
            texts = self.written[others[-1]]
            return *others[-1], *texts[row.draw % len(texts)][: len(row.ids) - len(prompt) + depth]

        proposer.claimed = OtherRowModel(proposer.draft, read_text) if others else proposer.draft  # type: ignore[attr-defined]
        found = [*self._iterate_rounds(decoder, settings, randomness)]
        self.written.pop(prompt, None)
        self.written[prompt] = join_rounds(found, len(randomness.seeds))
        if len(self.written) > MAX_OPENED:
            self.written.pop(next(iter(self.written)))
        return found

    def _iterate_rounds(self, decoder: Decoder, settings: Settings, randomness: SeededSamples) -> Iterator[WrittenRound]:
        """The samples through the engine, side by side."""
        made, numbers = decoder.reopen(), range(len(randomness.seeds))
        opening = build_first_prefix(decoder.prompt, settings, made.target.context)
        mistaken = made.randomness(randomness)

        def run_step(rows: Sequence[Prefix]) -> list[Round]:
            return step(rows, made.target, made.proposer, made.rule, mistaken, decoder.eos_token_ids)

        rows = (replace(opening, draw=number) for number in numbers)
        for stepped in iterate_rounds(rows, run_step, decoder.eos_token_ids, len(numbers)):
            self.coverage += Coverage.from_events(np.array([count_events(one, after is not None) for _, one, after in stepped]))
            for row, one, after in stepped:
                yield WrittenRound(row.draw, tuple(one.committed), after is None)

    def _open_decoder(self, prompt: tuple[int, ...], settings: Settings, body: Mapping[str, Any]) -> Decoder:
        rules = read_body_rules(body, len(prompt), self.pair.vocabulary, self.pair.eos_token_ids)
        key = prompt, str(replace(settings, seed=0, max_new_tokens=1).to_record()), json.dumps(rules.applied, sort_keys=True)
        if key not in self.opened:
            if len(self.opened) >= MAX_OPENED:
                self.opened.pop(next(iter(self.opened)))
            pair = replace(self.pair, rules=rules)
            decoder = build_decoder(SPECULATIVE if self.mistake == NO_MISTAKE else self.mistake, pair, settings, prompt)
            components = decoder.reopen()
            for name in ("draft", "claimed"):
                if model := getattr(components.proposer, name, None):
                    setattr(components.proposer, name, MemoizedPaths(model))
            components = replace(components, target=MemoizedPaths(components.target))
            self.opened[key] = replace(decoder, reopen=lambda: components)
        return self.opened[key]

    def format_metrics(self) -> str:
        """The counters of draft tokens, as vLLM writes them."""
        names = ("vllm:spec_decode_num_draft_tokens_total", "vllm:spec_decode_num_accepted_tokens_total")
        counts = zip(names, (self.coverage.proposed, self.coverage.accepted), strict=True)
        return "".join(f"# TYPE {name} counter\n{name} {count}.0\n" for name, count in counts)


class RequestError(ValueError):
    """A request that is answered with 400 and this sentence."""


@dataclass(slots=True)
class CompletionsApi:
    """What the server answers, without the network."""

    decoder: MistakenDecoder
    model: str
    tokens: TokenBytes

    @classmethod
    def from_pair(cls, pair: LoadedPair, mistake: str, gamma: int, model: str = "own") -> CompletionsApi:
        return cls(MistakenDecoder(pair, mistake, gamma), model, TokenBytes.from_pair(pair))

    def complete(self, body: Any) -> dict[str, Any] | Iterator[dict[str, Any]]:
        """Answer a request; the events as they come where it asks for a stream. Raises RequestError."""
        if not isinstance(body, dict):
            raise RequestError("the request must be a JSON object")
        if body.get("model") not in (None, self.model):
            raise RequestError(f"the model `{body['model']}` does not exist")
        count, length = self._read_number(body, "n", 1, 1, MAX_CHOICES), self._read_number(body, "max_tokens", 16, 1, MAX_TOKENS)
        prompt, settings = self._read_prompt(body.get("prompt")), self._read_settings(body, length)
        seed = body.get("seed")
        first = secrets.randbits(62) if seed is None else self._read_number(body, "seed", 0, 0, 2**62)
        rules = {name: body[name] for name in COMPUTED_FIELDS if name in body}
        seeds, has_ids = [first + number for number in range(count)], bool(body.get("return_token_ids"))
        head = {
            "id": f"cmpl-{secrets.token_hex(8)}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": self.model,
        }
        if body.get("stream") is True:
            return self._build_events(head, len(prompt), self.decoder.stream(prompt, settings, seeds, rules), has_ids)
        texts = self.decoder.write(prompt, settings, seeds, rules)
        choices = [self._format_choice(number, ids, has_ids) for number, ids in enumerate(texts)]
        if has_ids:
            choices = [choice | {"prompt_token_ids": list(prompt)} for choice in choices]
        return head | {"choices": choices, "usage": _count_usage(len(prompt), sum(map(len, texts)))}

    def detokenize(self, body: Any) -> dict[str, Any]:
        """The text of token ids. Raises RequestError."""
        ids = body.get("tokens") if isinstance(body, dict) else None
        if not isinstance(ids, list):
            raise RequestError("the request must be a JSON object with a list of tokens")
        return {"prompt": self.tokens.decode(self._read_prompt(ids), False)}

    def _build_events(
        self, head: dict[str, Any], prompt_tokens: int, rounds: Iterator[WrittenRound], has_ids: bool
    ) -> Iterator[dict[str, Any]]:
        """An event for each round, and one with the counts. Only the last round of a text has a reason why it ended."""
        total = 0
        for one in rounds:
            total += len(one.ids)
            choice = self._format_choice(one.text, one.ids, has_ids)
            yield head | {"choices": [choice if one.is_last else choice | {"finish_reason": None}]}
        yield head | {"choices": [], "usage": _count_usage(prompt_tokens, total)}

    def _format_choice(self, number: int, ids: Sequence[int], has_ids: bool) -> dict[str, Any]:
        reason = "stop" if ids[-1] in self.decoder.pair.eos_token_ids else "length"
        choice = {"index": number, "text": self.tokens.decode(ids, False), "logprobs": None, "finish_reason": reason}
        return choice | ({"token_ids": list(ids)} if has_ids else {})

    def _read_prompt(self, prompt: Any) -> tuple[int, ...]:
        if isinstance(prompt, str) and prompt:
            return self.decoder.pair.encode(prompt)
        known = range(self.decoder.pair.vocabulary)
        if not isinstance(prompt, list) or not prompt or not all(type(token) is int and token in known for token in prompt):
            raise RequestError("prompt must be a text that is not empty, or a list of token ids")
        return tuple(prompt)

    def _read_settings(self, body: dict[str, Any], length: int) -> Settings:
        top_k, top_p, min_p = body.get("top_k"), body.get("top_p"), body.get("min_p")
        try:
            return Settings(
                temperature=body.get("temperature", 1.0),
                top_k=None if top_k in (None, 0, -1) else top_k,
                top_p=None if top_p in (None, 1, 1.0) else top_p,
                min_p=None if min_p in (None, 0, 0.0) else min_p,
                gamma=self.decoder.gamma,
                max_new_tokens=length,
            )
        except SpecvizError as error:
            raise RequestError(str(error)) from error

    @staticmethod
    def _read_number(body: dict[str, Any], name: str, usual: int, low: int, high: int) -> int:
        value = body.get(name, usual)
        if type(value) is not int or not low <= value <= high:
            raise RequestError(f"{name} must be a whole number from {low} to {high}")
        return value


def _count_usage(prompt_tokens: int, tokens: int) -> dict[str, int]:
    return {"prompt_tokens": prompt_tokens, "completion_tokens": tokens, "total_tokens": prompt_tokens + tokens}


class CompletionsHandler(BaseHTTPRequestHandler):
    """One connection. ``server.api`` answers."""

    protocol_version, disable_nagle_algorithm = "HTTP/1.1", True

    def do_GET(self) -> None:
        api: CompletionsApi = self.server.api  # type: ignore[attr-defined]
        match self.path:
            case "/v1/models":
                self._send_json(200, {"object": "list", "data": [{"id": api.model, "object": "model", "owned_by": "vllm"}]})
            case "/version":
                self._send_json(200, {"version": "0.0+own"})
            case "/health":
                self._send(200, b"", "text/plain")
            case "/metrics":
                self._send(200, api.decoder.format_metrics().encode(), "text/plain; version=0.0.4")
            case _:
                self._send_json(404, {"error": {"message": f"there is no {self.path}", "code": 404}})

    def do_POST(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        content = self.rfile.read(min(size, MAX_BYTES))
        if self.path not in ("/v1/completions", "/detokenize"):
            self._send_json(404, {"error": {"message": f"there is no {self.path}", "code": 404}})
            return
        try:
            if size > MAX_BYTES:
                raise RequestError(f"a request may have {MAX_BYTES} bytes")
            api: CompletionsApi = self.server.api  # type: ignore[attr-defined]
            body = json.loads(content)
            answer = api.detokenize(body) if self.path == "/detokenize" else api.complete(body)
            if isinstance(answer, dict):
                self._send_json(200, answer)
            else:
                self._send_events(answer)
        except (ValueError, SpecvizError) as error:
            self._send_json(400, {"error": {"message": str(error), "type": "BadRequestError", "code": 400}})
            self.close_connection = size > MAX_BYTES

    def _send_events(self, events: Iterator[dict[str, Any]]) -> None:
        """A stream, which ends the connection. A client that leaves ends the decoding: the iterator is dropped."""
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        with suppress(ConnectionError):
            try:
                for event in events:
                    self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
            except SpecvizError as error:
                self.wfile.write(f"data: {json.dumps({'error': {'message': str(error)}})}\n\n".encode())
            self.wfile.write(b"data: [DONE]\n\n")

    def _send_json(self, code: int, value: Any) -> None:
        self._send(code, json.dumps(value).encode(), "application/json")

    def _send(self, code: int, content: bytes, kind: str) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *parts: Any) -> None:
        """A line for each of 20,000 requests helps nobody."""


class _HttpServer(ThreadingHTTPServer):
    """Many clients connect at the same moment: a shorter queue resets their connections."""

    daemon_threads, request_queue_size = True, 256


def start_http_server(api: CompletionsApi, host: str = "127.0.0.1", port: int = 0) -> ThreadingHTTPServer:
    """A server that is bound to a port (0: any free one) and not yet running."""
    server = _HttpServer((host, port), CompletionsHandler)
    server.api = api  # type: ignore[attr-defined]
    return server


def describe_decoder(mistake: str, gamma: int) -> str:
    """What the server does, for the line that it prints when it is ready."""
    if mistake != NO_MISTAKE:
        return f"decodes with the mistake {mistake}, {gamma} draft tokens a round"
    return f"decodes exactly, {gamma} draft tokens a round" if gamma else "decodes exactly, without speculation"


def main(words: Sequence[str] | None = None) -> int:
    """Serve until interrupted; return the exit code."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    mistakes = (NO_MISTAKE, *MISTAKES)
    parser.add_argument(
        "--mistake", default=NO_MISTAKE, choices=mistakes, help="id of a mistake in docs/reference/mistakes.md (default: none)"
    )
    parser.add_argument("--pair", default="storybook", help="name of the pair (default: storybook, the shipped one)")
    parser.add_argument("--gamma", type=int, default=2, help="draft tokens per round (default: 2)")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8765, help="0: any free one (default: 8765)")
    options = parser.parse_args(words)
    api = CompletionsApi.from_pair(load_pair(options.pair, "cpu", "float32"), options.mistake, options.gamma)
    try:
        server = start_http_server(api, options.host, options.port)
    except OSError as error:
        print(f"Port {options.port} of {options.host} cannot be used ({error.strerror}); --port names another.", file=sys.stderr)
        return 2
    print(f"http://{options.host}:{server.server_address[1]}/v1 {describe_decoder(options.mistake, options.gamma)}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        print("stopped")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
