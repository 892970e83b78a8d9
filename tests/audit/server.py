"""A server of the tests' own that speaks the dialects of the real ones over a known distribution, with a switch for every fault.

It samples from a Markov chain of 1,024 tokens, or from anything that gives the distribution after a list of ids. Token i is written
" i", token 0 ends a text. Every answer is one write, so a request takes about a millisecond.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import numpy as np

from specviz.audit.protocol import endpoint

VOCABULARY, EOS = 1024, 0
MODEL = "table"


@lru_cache(maxsize=4096)
def build_chain_probs(last: int) -> np.ndarray:
    """(1024,) the distribution after a token: most of the mass on eight tokens that depend on it."""
    dice = np.random.default_rng([11, last])
    probs = np.full(VOCABULARY, 0.02 / VOCABULARY)
    probs[dice.permutation(VOCABULARY)[:8]] += 0.98 * dice.dirichlet(np.full(8, 2.0))
    return probs / probs.sum()


def encode_words(text: str) -> list[int]:
    """One token for each word."""
    return [1 + sum(word.encode()) % (VOCABULARY - 1) for word in text.split()]


class FakeClock:
    """The clock of ``Endpoint``: waiting makes the time pass, and takes none. waits: in the order in which they began.

    is_still: the time stands, so that the waits of threads do not depend on their order.
    """

    def __init__(self, monkeypatch: Any, is_still: bool = False) -> None:
        self.now, self.waits, self.is_still = 0.0, [], is_still
        clock = self

        class Stopped(threading.Event):
            def wait(self, timeout: float | None = None) -> bool:
                clock.waits.append(timeout or 0.0)
                clock.now += 0.0 if clock.is_still else timeout or 0.0
                return self.is_set()

        monkeypatch.setattr(endpoint, "time", self)
        monkeypatch.setattr(endpoint, "threading", SimpleNamespace(Event=Stopped, Lock=threading.Lock))

    def monotonic(self) -> float:
        return self.now


@dataclass
class Switches:
    """What the server does wrong; each by itself. Times in seconds.

    dialect      vllm, sglang, llama.cpp, transformers, llama-cpp-python or generic
    models       those that it lists and answers as; any other name, and none, is refused. Empty: one, and every name is answered
    created      what it lists as the time of its model; fingerprint  called with the number of the request
    drafts       whether it counts drafted tokens; from: shortest request in which it drafts
    others       rounds of other users that it counts during each request
    usage        what it counts: the total of a request's samples, the first one alone, or none
    template     what a chat puts before the message
    least, most_mass  a min-p and a top-p that are in force before the temperature, whatever a request says
    passes       tokens of each event of a stream, from the number of tokens; fewer at the end
    leaks        whether a request of another temperature than the last one's is answered at the last one's
    penalty      of tokens that were there before, unless a request names it; takes_penalty: the field that names it
    detokenized  called with the text of token ids; returns what is answered as their text
    fails        called with the number of the request (from 1); returns a status to answer with, or 0
    """

    dialect: str = "vllm"
    version: str = "0.32.0"
    model: str = MODEL
    models: tuple[str, ...] = ()
    root: str = ""
    meta: Any = None
    created: Callable[[], Any] = lambda: int(time.time() * 1e6)
    fingerprint: Callable[[int], str] = lambda number: ""
    drafts: bool = False
    drafts_from: int = 3
    others: int = 0
    greedy: bool = False
    top_k: int = 0
    least: float = 0.0
    most_mass: float = 1.0
    penalty: float = 1.0
    takes_penalty: str = "repetition_penalty"
    fixed_seed: bool = False
    ignores_seeds: bool = False
    one_seed: bool = False
    leaks: bool = False
    mixes_seeds: bool = False
    equal_choices: bool = False
    ignores_n: bool = False
    usage: str = "total"
    caches: bool = False
    strips_end: bool = False
    most_tokens: int = 10**9
    start_token: bool = False
    template: str = "<user>"
    zero_logprobs: bool = False
    refuses: tuple[str, ...] = ()
    ignores: tuple[str, ...] = ()
    fails: Callable[[int], int] = lambda number: 0
    detokenized: Callable[[str], Any] = lambda text: text
    html: bool = False
    garbage: bool = False
    endless: bool = False
    hangs: float = 0.0
    drips: bool = False
    cut: Callable[[int], bool] = lambda number: False
    redirects: str = ""
    becomes: tuple[int, str] = (10**9, "")
    key: str = ""
    closes_after: int = 10**9
    passes: Callable[[int], Sequence[int]] = lambda count: [1] + [3] * count
    slow: Callable[[int], float] = lambda number: 0.0
    probs: Callable[[Sequence[int]], np.ndarray] = lambda ids: build_chain_probs(ids[-1])
    encode: Callable[[str], list[int]] = encode_words
    piece: Callable[[int], str] = lambda token: f" {token}"
    end: int = EOS


@dataclass
class ReceivedRequests:
    """What the server was asked. bodies: of requests for samples; most: at the same time."""

    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: Counter = field(default_factory=Counter)
    concurrency: int = 0
    most: int = 0
    drafted: int = 0
    accepted: int = 0


class Server(ThreadingHTTPServer):
    daemon_threads, request_queue_size = True, 256

    def __init__(self, switches: Switches, port: int = 0):
        super().__init__(("127.0.0.1", port), Handler)
        self.switches, self.seen, self.lock = switches, ReceivedRequests(), threading.Lock()
        self.last_temperature: float | None = None
        self.shared, self.kept = np.random.default_rng(random.randrange(2**32)), {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


@contextmanager
def run_server(**switches: Any):
    """A running server."""
    with run_in_thread(Server(Switches(**switches))) as server:
        yield server


@contextmanager
def run_in_thread(server: ThreadingHTTPServer):
    """Serve until the block ends."""
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


class Handler(BaseHTTPRequestHandler):
    protocol_version, disable_nagle_algorithm, wbufsize = "HTTP/1.1", True, -1
    server: Server

    def log_message(self, *_: object) -> None:
        pass

    def setup(self) -> None:
        super().setup()
        self.answered = 0

    def parse_request(self) -> bool:
        """Read the request line and the headers as clients of these tests write them, which takes a tenth of the library's time."""
        words = str(self.raw_requestline, "latin-1").split()
        self.requestline, (self.command, self.path, self.request_version) = " ".join(words), words
        self.headers = {}
        while line := str(self.rfile.readline(), "latin-1").strip():
            name, _, value = line.partition(":")
            self.headers[name.title()] = value.strip()
        self.close_connection = self.headers.get("Connection") == "close"
        return True

    def do_GET(self) -> None:
        self.server.seen.paths[self.path] += 1
        s = self.server.switches
        if s.html:
            return self.send("<html><body>Welcome</body></html>", kind="text/html")
        if s.hangs:
            time.sleep(s.hangs)
        found = self.describe().get(self.path)
        if found is None:
            return self.send({"detail": "Not Found"}, 404)
        return self.send(found, kind="text/plain") if isinstance(found, str) else self.send(found)

    def do_POST(self) -> None:
        server, s = self.server, self.server.switches
        content = self.rfile.read(int(self.headers["Content-Length"]))
        with server.lock:
            server.seen.paths[self.path] += 1
            server.seen.bodies.append(json.loads(content))
            server.seen.headers.append(dict(self.headers))
            number = len(server.seen.bodies)
            server.seen.concurrency += 1
            server.seen.most = max(server.seen.most, server.seen.concurrency)
        try:
            if self.path in ("/tokenize", "/apply-template") and s.dialect == "llama.cpp":
                self.read_prompt(json.loads(content))
            elif self.path == "/detokenize":
                name = "content" if s.dialect == "llama.cpp" else "prompt"
                self.send({name: s.detokenized("".join(f" {token}" for token in json.loads(content)["tokens"]))})
            else:
                self.sample(json.loads(content), number, s)
        finally:
            with server.lock:
                server.seen.concurrency -= 1

    def send(self, found: Any, status: int = 200, kind: str = "application/json", **headers: str) -> None:
        content = found.encode() if isinstance(found, str) else json.dumps(found).encode()
        head = {"Content-Type": kind, "Content-Length": str(len(content)), **headers}
        lines = (f"{name.replace('_', '-')}: {value}\r\n" for name, value in head.items())
        self.answered += 1
        if self.answered >= self.server.switches.closes_after:  # without saying so, as servers drop idle connections
            self.close_connection = True
        self.wfile.write(f"HTTP/1.1 {status} Status\r\n{''.join(lines)}\r\n".encode() + content)
        self.wfile.flush()

    # What it says of itself ---------------------------------------------------------------------------------------------

    def describe(self) -> dict[str, Any]:
        s = self.server.switches
        owner = {"vllm": "vllm", "sglang": "sglang", "llama.cpp": "llamacpp", "llama-cpp-python": "me"}.get(s.dialect, "somebody")
        model = {"id": s.model, "owned_by": owner, "created": s.created(), "max_model_len": 512}
        model |= ({"root": s.root} if s.root else {}) | ({} if s.meta is None else {"meta": s.meta})
        models = {"data": [model | {"id": name} for name in s.models or (s.model,)]}
        counts = [
            ("drafts", self.server.seen.drafted),
            ("draft_tokens", self.server.seen.drafted),
            ("accepted_tokens", self.server.seen.accepted),
        ]
        metrics = "".join(
            f"# HELP vllm:spec_decode_num_{name}_total Count.\n# TYPE vllm:spec_decode_num_{name}_total counter\n"
            f'vllm:spec_decode_num_{name}_total{{engine="0"}} {float(value)}\n'
            for name, value in counts
        )
        found: dict[str, Any] = {"/v1/models": models}
        if s.dialect == "generic" and s.version:
            found |= {"/version": {"version": s.version}}
        if s.dialect == "vllm":
            found |= {"/version": {"version": s.version}, "/metrics": metrics if s.drafts else "# nothing\n"}
        if s.dialect == "sglang":
            found |= {"/get_server_info": {"version": s.version, "model_path": s.model, "api_key": "secret-of-the-server"}}
        if s.dialect == "llama.cpp":
            found |= {"/props": {"build_info": s.version, "default_generation_settings": {"n_ctx": 512}, "total_slots": 4}}
        if s.dialect == "transformers":
            found = {"/openapi.json": {"info": {"title": "FastAPI"}, "paths": {"/load_model": {}}}}
        if s.dialect == "llama-cpp-python":
            found |= {"/openapi.json": {"info": {"title": "🦙 llama.cpp Python API"}, "paths": {}}}
        return found

    def read_prompt(self, body: dict[str, Any]) -> None:
        s = self.server.switches
        if self.path == "/tokenize":
            return self.send({"tokens": [1] * s.start_token + s.encode(body["content"])})
        return self.send({"prompt": s.template + body["messages"][0]["content"]})

    # Sampling -------------------------------------------------------------------------------------------------------------

    def sample(self, body: dict[str, Any], number: int, s: Switches) -> None:
        if s.key and self.headers.get("Authorization") != f"Bearer {s.key}":
            return self.send({"error": {"message": "Unauthorized"}}, 401)
        if s.html:
            return self.send("<html><body>Welcome</body></html>", kind="text/html")
        if s.models and body.get("model") not in s.models:
            return self.send({"error": {"message": f"The model `{body.get('model')}` does not exist."}}, 404)
        if s.redirects:
            return self.send("", 307, Location=s.redirects)
        if status := s.fails(number):
            return self.send({"error": {"message": "it failed"}}, status, **({"Retry_After": "0.05"} if status == 429 else {}))
        time.sleep(s.hangs or s.slow(number))
        if s.garbage:
            return self.send('{"choices": [{"text": "abc', kind="application/json")
        if s.endless or s.drips:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            with __import__("contextlib").suppress(OSError):
                while True:
                    self.wfile.write(b" " * (2**20 if s.endless else 1))
                    self.wfile.flush()
                    time.sleep(0.0 if s.endless else 0.05)
        if refused := [name for name in s.refuses if name in body or name in body.get("sampling_params", {})]:
            return self.send({"detail": f"Unexpected fields: {', '.join(refused)}"}, 422)
        asked = self.read_fields(body)
        with self.server.lock:
            before, self.server.last_temperature = self.server.last_temperature, asked["temperature"]
        if s.leaks and before is not None:
            asked["temperature"] = before
        if isinstance(asked["prompt"], list) and s.dialect in ("transformers", "llama-cpp-python"):
            return self.send({"detail": "prompt must be a string."}, 400)
        if s.caches and (kept := self.server.kept.get(json.dumps(body, sort_keys=True))):
            return self.send(kept)
        answer = self.answer(body, asked, s.becomes[1] if number >= s.becomes[0] else s.model)
        answer |= {"system_fingerprint": mark} if (mark := s.fingerprint(number)) else {}
        self.server.kept[json.dumps(body, sort_keys=True)] = answer
        if s.cut(number):  # the whole work was done, and the answer is lost
            self.connection.close()
            self.close_connection = True
            return None
        if body.get("stream") and s.dialect == "vllm":
            return self.send_stream(answer, s)
        return self.send(answer)

    def send_stream(self, answer: dict[str, Any], s: Switches) -> None:
        """The first choice in one event for each pass, and the usage in one of its own."""
        (whole, *_), head = answer["choices"], {key: value for key, value in answer.items() if key not in ("choices", "usage")}
        tokens, events, begin = whole["token_ids"], [], 0
        for size in s.passes(len(tokens)):
            if begin < len(tokens):
                part = tokens[begin : begin + size]
                begin += size
                text = "".join(s.piece(token) for token in part if token != s.end)
                stop = whole["finish_reason"] if begin >= len(tokens) else None
                events.append(head | {"choices": [{"token_ids": part, "text": text, "finish_reason": stop}]})
        events.append(head | {"choices": [], "usage": answer["usage"]})
        lines = [f"data: {json.dumps(event)}\n\n" for event in events]
        self.send("".join([*lines, "data: [DONE]\n\n"]), kind="text/event-stream")

    def read_fields(self, body: dict[str, Any]) -> dict[str, Any]:
        """The fields that this dialect reads, with its own defaults."""
        s, chat = self.server.switches, "messages" in body
        prompt = s.template + body["messages"][0]["content"] if chat else body.get("prompt", body.get("text"))
        found = {"prompt": prompt, "seed": body.get("seed"), "n": body.get("n", 1), "temperature": body.get("temperature", 1.0),
                 "top_k": body.get("top_k", 0), "top_p": body.get("top_p", 1.0), "max_tokens": body.get("max_tokens", 16)}  # fmt: skip
        if s.dialect == "sglang" and not chat:
            inner = body["sampling_params"]
            found |= {key: inner[key] for key in ("temperature", "top_k", "top_p") if key in inner}
            found |= {"max_tokens": inner["max_new_tokens"], "seed": inner.get("sampling_seed"), "n": inner.get("n", 1)}
        if s.dialect == "llama.cpp":
            found["max_tokens"] = body.get("n_predict", found["max_tokens"])
            found |= {"top_k": body.get("top_k", 40)}
        if s.dialect == "llama-cpp-python":
            found |= {"top_k": body.get("top_k", 40), "n": 1}
        if s.dialect == "transformers":
            config = json.loads(body.get("generation_config", "{}"))
            found |= {"top_k": config.get("top_k", 50), "temperature": config.get("temperature", 1.0), "n": 1}
            found["temperature"] = found["temperature"] if config.get("do_sample") else 0.0
        inner = body.get("sampling_params", body)
        found["penalty"] = inner.get(s.takes_penalty, s.penalty)
        found["max_tokens"] = min(found["max_tokens"], s.most_tokens)
        return found | {name: body[name] for name in ("stop", "allowed_token_ids") if name in body and name not in s.ignores}

    def open_generator(self, seed: int | None, place: int) -> np.random.Generator:
        server, s = self.server, self.server.switches
        if s.one_seed:
            return np.random.default_rng(5)
        if s.ignores_seeds or (seed is None and not s.fixed_seed) or (s.mixes_seeds and server.seen.concurrency > 1):
            with server.lock:
                return np.random.default_rng(server.shared.integers(2**63))
        return np.random.default_rng((4 if seed is None else seed) + place)

    def continue_text(self, ids: list[int], asked: dict[str, Any], generator: np.random.Generator) -> tuple[list[int], str]:
        s, found = self.server.switches, []
        for _ in range(asked["max_tokens"]):
            probs = np.array(s.probs([*ids, *found]), dtype=float)
            if asked["penalty"] != 1.0:
                probs[[*ids, *found]] /= asked["penalty"]
            if allowed := asked.get("allowed_token_ids"):
                probs = np.where(np.isin(np.arange(len(probs)), allowed), probs, 0.0)
            probs[probs < s.least * probs.max()] = 0.0
            probs[_list_outside(probs, s.most_mass)] = 0.0
            if s.greedy or asked["temperature"] == 0.0:
                token = int(probs.argmax())
            else:
                with np.errstate(divide="ignore"):
                    scaled = np.log(probs) / asked["temperature"]
                probs = np.exp(scaled - scaled.max())
                if (k := s.top_k or asked["top_k"] or 0) > 0:
                    probs[np.argsort(-probs, kind="stable")[k:]] = 0.0
                if asked["top_p"] < 1.0:
                    probs[_list_outside(probs, asked["top_p"])] = 0.0
                token = int(np.searchsorted(np.cumsum(probs / probs.sum()), generator.random(), side="right"))
                token = min(token, len(probs) - 1)
            found.append(token)
            if token == s.end or any(text in s.piece(token) for text in asked.get("stop", ())):
                return found, "stop"
        return found, "length"

    def answer(self, body: dict[str, Any], asked: dict[str, Any], model: str) -> Any:
        s, seen = self.server.switches, self.server.seen
        prompts = asked["prompt"] if isinstance(asked["prompt"], list) else [asked["prompt"]]
        count = 1 if s.ignores_n else asked["n"]
        runs = []
        for prompt in prompts:
            ids = [1] * s.start_token + s.encode(prompt)
            for place in range(count):
                runs.append(self.continue_text(ids, asked, self.open_generator(asked["seed"], 0 if s.equal_choices else place)))
        drafted = max(0, asked["max_tokens"] - 2) if s.drafts and asked["max_tokens"] >= s.drafts_from else 0
        with self.server.lock:
            seen.drafted, seen.accepted = seen.drafted + drafted + s.others, seen.accepted + drafted // 2
        total = sum(len(tokens) for tokens, _ in runs)
        given = [tokens[:-1] if s.strips_end and stop == "stop" else tokens for tokens, stop in runs]
        texts = ["".join(s.piece(token) for token in tokens if token != s.end) for tokens, _ in runs]
        timings = {"draft_n": drafted, "draft_n_accepted": drafted // 2} if drafted else {}
        if self.path == "/generate":
            return {"text": texts[0], "output_ids": given[0],
                    "meta_info": {"finish_reason": {"type": "stop", "matched": s.end} if runs[0][1] == "stop" else {"type": "length"},
                                  "prompt_tokens": len(ids), "completion_tokens": total, "spec_verify_ct": drafted}}  # fmt: skip
        if self.path == "/completion":
            return {"content": texts[0], "tokens": given[0], "model": model, "stop_type": {"stop": "eos", "length": "limit"}[runs[0][1]],
                    "tokens_evaluated": len(ids), "tokens_predicted": total, "timings": timings}  # fmt: skip
        choices = []
        for tokens, text, (every, stop) in zip(given, texts, runs, strict=True):
            one: dict[str, Any] = {"finish_reason": stop} | (
                {"message": {"content": text}} if "messages" in body else {"text": text}
            )
            if s.dialect == "vllm" and body.get("return_token_ids"):
                one |= {"token_ids": tokens, "prompt_token_ids": ids}
            if body.get("logprobs"):
                rows = [np.log(s.probs([*ids, *every[:place]])) for place in range(len(every))]
                chances = [0.0 if s.zero_logprobs else float(row[token]) for row, token in zip(rows, every, strict=True)]
                one["logprobs"] = {
                    "content": [
                        {"id": token, "logprob": chance, "top_logprobs": [{"logprob": float(row.max())}]}
                        for token, chance, row in zip(tokens, chances, rows, strict=False)
                    ]
                }
            choices.append(one)
        count = {"total": total, "first": len(runs[0][0])}.get(s.usage)
        usage = {"prompt_tokens": len(ids)} | ({} if count is None else {"completion_tokens": count})
        return {"model": model, "choices": choices, "usage": usage} | ({"timings": timings} if s.dialect == "llama.cpp" else {})


def _list_outside(probs: np.ndarray, most: float) -> np.ndarray:
    """The tokens that a top-p leaves out."""
    if most >= 1.0:
        return np.zeros(0, dtype=int)
    order = np.argsort(-probs, kind="stable")
    return order[np.cumsum(probs[order]) - probs[order] >= most * probs.sum()]
