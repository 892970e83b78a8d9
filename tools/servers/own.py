"""A server that decodes with one named mistake, or with none, behind the protocol that OpenAI-compatible servers speak.

    python tools/servers/own.py --mistake R5 --port 8765
    specviz audit http://127.0.0.1:8765/v1 --prompt "Once upon a time" --max-new-tokens 3 --samples 20000 --target TARGET --draft DRAFT

It answers as vLLM does: POST /v1/completions with ``return_token_ids``, ``n`` (choice i has the seed + i) and prompts of text or ids,
GET /v1/models, /version, /health, and /metrics with the counters of draft tokens. It is made to be audited, not to be fast.
"""

from __future__ import annotations

import argparse
import json
import secrets
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from specviz.audit.text_samples import TokenBytes  # noqa: E402
from specviz.decoding.engine import advance_prefix, build_first_prefix, step  # noqa: E402
from specviz.decoding.sampler import Shard, SharedSampler  # noqa: E402
from specviz.decoding.samples import NONE  # noqa: E402
from specviz.errors import SpecvizError  # noqa: E402
from specviz.evidence.bugs.registry import BUGS, Components, build_correct  # noqa: E402
from specviz.models.pairs.loading import load_pair  # noqa: E402
from specviz.models.pairs.pair import LoadedPair  # noqa: E402
from specviz.models.paths import MemoizedPaths  # noqa: E402
from specviz.randomness import PhiloxRandomness  # noqa: E402
from specviz.settings import Settings  # noqa: E402

NO_BUG = "none"
BODY, CHOICES, LONGEST, KEPT = 2**20, 256, 64, 8  # bytes of a request, choices, tokens, opened decoders


@dataclass(slots=True)
class DraftCounters:
    """What /metrics tells: rounds, draft tokens that were judged, and those accepted."""

    drafts: int = 0
    drafted: int = 0
    accepted: int = 0

    def text(self) -> str:
        names = (
            "vllm:spec_decode_num_drafts_total",
            "vllm:spec_decode_num_draft_tokens_total",
            "vllm:spec_decode_num_accepted_tokens_total",
        )
        values = (self.drafts, self.drafted, self.accepted)
        return "".join(f"# TYPE {name} counter\n{name} {value}.0\n" for name, value in zip(names, values, strict=True))


class CountingSampler(SharedSampler):
    """The sampler on shared distributions, which also counts draft tokens."""

    def __init__(self, shard: Shard, counters: DraftCounters):
        super().__init__(shard)
        self.counters = counters

    def _write(self, place, which, distributions, randomness, drafting) -> None:
        self.counters.drafts += int(((self.start[which] == place) & drafting).sum())
        super()._write(place, which, distributions, randomness, drafting)
        self.counters.drafted += int(drafting.sum())
        self.counters.accepted += int((drafting & (self.start[which] <= place)).sum())


@dataclass(slots=True)
class BuggyDecoder:
    """The pair with one mistake. One request is decoded at a time; distributions that were computed are kept."""

    pair: LoadedPair
    mistake: str
    gamma: int
    counters: DraftCounters = field(default_factory=DraftCounters)
    opened: dict[tuple, Components] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def write(self, prompt: Sequence[int], settings: Settings, seeds: Sequence[int]) -> list[list[int]]:
        """One sample for each seed: ids with the end token."""
        with self.lock:
            made = self._arguments(tuple(prompt), settings)
            if self.mistake == NO_BUG or BUGS[self.mistake].on_shared_distributions:
                return [self._shared(made, prompt, settings, seed) for seed in seeds]
            return [self._engine(made, prompt, settings, seed) for seed in seeds]

    def _arguments(self, prompt: tuple[int, ...], settings: Settings) -> Components:
        key = prompt, str(replace(settings, seed=0, max_new_tokens=1).to_record())
        if key not in self.opened:
            if len(self.opened) >= KEPT:
                self.opened.pop(next(iter(self.opened)))
            build = build_correct if self.mistake == NO_BUG else BUGS[self.mistake].build
            made = build(self.pair.open, settings)
            for name in ("draft", "claimed"):
                if model := getattr(made.proposer, name, None):
                    setattr(made.proposer, name, MemoizedPaths(model))
            self.opened[key] = replace(made, target=MemoizedPaths(made.target))
        return self.opened[key]

    def _shared(self, made: Components, prompt: Sequence[int], settings: Settings, seed: int) -> list[int]:
        randomness = made.randomness(PhiloxRandomness(seed))
        shard = Shard(made.target, made.proposer, made.rule, randomness, settings, prompt, self.pair.eos_token_ids, 0, 1)
        tokens = CountingSampler(shard, self.counters).draw("", lambda share: None, None, lambda state: None).tokens[0]
        return [token for token in tokens.tolist() if token != NONE]

    def _engine(self, made: Components, prompt: Sequence[int], settings: Settings, seed: int) -> list[int]:
        row, randomness = build_first_prefix(prompt, settings, made.target.context), made.randomness(PhiloxRandomness(seed))
        written: list[int] = []
        while row.remaining > 0 and not (written and written[-1] in self.pair.eos_token_ids):
            (round_,) = step([row], made.target, made.proposer, made.rule, randomness, self.pair.eos_token_ids)
            judged = [one.accepted for one in round_.proposals if one.accepted is not None]
            self.counters.drafts += bool(round_.proposals)
            self.counters.drafted += len(round_.proposals)
            self.counters.accepted += sum(judged)
            written += round_.committed
            row = advance_prefix(row, round_)
        return written


class RequestError(ValueError):
    """A request that is answered with 400 and this sentence."""


@dataclass(slots=True)
class CompletionsApi:
    """What the server answers, without the network."""

    decoder: BuggyDecoder
    model: str
    tokens: TokenBytes

    @classmethod
    def of(cls, pair: LoadedPair, mistake: str, gamma: int, model: str = "own") -> CompletionsApi:
        return cls(BuggyDecoder(pair, mistake, gamma), model, TokenBytes.from_pair(pair))

    def completions(self, body: Any) -> dict[str, Any]:
        """Raises Refused."""
        if not isinstance(body, dict):
            raise RequestError("the request must be a JSON object")
        if body.get("model") not in (None, self.model):
            raise RequestError(f"the model `{body['model']}` does not exist")
        count, length = self._whole(body, "n", 1, 1, CHOICES), self._whole(body, "max_tokens", 16, 1, LONGEST)
        prompt, settings = self._prompt(body.get("prompt")), self._settings(body, length)
        seed = body.get("seed")
        first = secrets.randbits(62) if seed is None else self._whole(body, "seed", 0, 0, 2**62)
        written = self.decoder.write(prompt, settings, [first + number for number in range(count)])
        choices = [self._choice(number, ids, bool(body.get("return_token_ids"))) for number, ids in enumerate(written)]
        if body.get("return_token_ids"):
            choices = [choice | {"prompt_token_ids": list(prompt)} for choice in choices]
        usage = {"prompt_tokens": len(prompt), "completion_tokens": sum(map(len, written))}
        return {
            "id": f"cmpl-{secrets.token_hex(8)}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": self.model,
            "choices": choices,
            "usage": usage | {"total_tokens": sum(usage.values())},
        }

    def _choice(self, number: int, ids: list[int], told: bool) -> dict[str, Any]:
        ended = ids[-1] in self.decoder.pair.eos_token_ids
        choice = {
            "index": number,
            "text": self.tokens.text(ids, False),
            "logprobs": None,
            "finish_reason": "stop" if ended else "length",
        }
        return choice | ({"token_ids": ids} if told else {})

    def _prompt(self, prompt: Any) -> tuple[int, ...]:
        if isinstance(prompt, str) and prompt:
            return self.decoder.pair.encode(prompt)
        ids = (
            isinstance(prompt, list)
            and prompt
            and all(type(token) is int and 0 <= token < self.decoder.pair.vocabulary for token in prompt)
        )
        if not ids:
            raise RequestError("prompt must be a text that is not empty, or a list of token ids")
        return tuple(prompt)

    def _settings(self, body: dict[str, Any], length: int) -> Settings:
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
    def _whole(body: dict[str, Any], name: str, usual: int, low: int, high: int) -> int:
        value = body.get(name, usual)
        if type(value) is not int or not low <= value <= high:
            raise RequestError(f"{name} must be a whole number from {low} to {high}")
        return value


class CompletionsHandler(BaseHTTPRequestHandler):
    """One connection. ``server.api`` answers."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        api: CompletionsApi = self.server.api  # type: ignore[attr-defined]
        match self.path:
            case "/v1/models":
                self._json(200, {"object": "list", "data": [{"id": api.model, "object": "model", "owned_by": "vllm"}]})
            case "/version":
                self._json(200, {"version": "0.0+own"})
            case "/health":
                self._send(200, b"", "text/plain")
            case "/metrics":
                self._send(200, api.decoder.counters.text().encode(), "text/plain; version=0.0.4")
            case _:
                self._json(404, {"error": {"message": f"there is no {self.path}", "code": 404}})

    def do_POST(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        content = self.rfile.read(min(size, BODY))
        if self.path != "/v1/completions":
            self._json(404, {"error": {"message": f"there is no {self.path}", "code": 404}})
            return
        try:
            if size > BODY:
                raise RequestError(f"a request may have {BODY} bytes")
            self._json(200, self.server.api.completions(json.loads(content)))  # type: ignore[attr-defined]
        except (ValueError, SpecvizError) as error:
            self._json(400, {"error": {"message": str(error), "type": "BadRequestError", "code": 400}})
            self.close_connection = size > BODY

    def _json(self, code: int, value: Any) -> None:
        self._send(code, json.dumps(value).encode(), "application/json")

    def _send(self, code: int, content: bytes, kind: str) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *parts: Any) -> None:
        """A line for each of 20,000 requests helps nobody."""


def start_http_server(api: CompletionsApi, host: str = "127.0.0.1", port: int = 0) -> ThreadingHTTPServer:
    """A server that is bound to a port (0: any free one) and not yet running."""
    server = ThreadingHTTPServer((host, port), CompletionsHandler)
    server.daemon_threads, server.api = True, api  # type: ignore[attr-defined]
    return server


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--mistake",
        default=NO_BUG,
        choices=(NO_BUG, *BUGS),
        help="id of a mistake in docs/reference/mistakes.md (default: none)",
    )
    parser.add_argument("--pair", default="storybook", help="name of the pair (default: storybook, the shipped one)")
    parser.add_argument("--gamma", type=int, default=2, help="draft tokens per round (default: 2)")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8765, help="0: any free one (default: 8765)")
    options = parser.parse_args(words)
    server = start_http_server(
        CompletionsApi.of(load_pair(options.pair, "cpu", "float32"), options.mistake, options.gamma), options.host, options.port
    )
    print(f"http://{options.host}:{server.server_address[1]}/v1 decodes with {options.mistake}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        print("stopped")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
