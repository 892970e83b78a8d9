"""How each server is started on the shipped pair, without and with drafting. FOLDER is where get.sh put it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from specviz.errors import SpecvizError
from tools.processes import find_free_port, run_server

ROOT = Path(__file__).resolve().parents[2]
MODELS = Path("assets/models/storybook")  # below ROOT, where servers are started: their answers name it
NAME = "storybook"
PLAIN_PAIR = "storybook-plain"  # the pair with MODELS/draft, in the catalog of specviz; "storybook" has another draft
OFFLINE_ENVIRONMENT = {"HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1", "VLLM_NO_USAGE_STATS": "1"}


@dataclass(frozen=True, slots=True)
class StartedServer:
    """A server that answers.

    Attributes:
        pair: Name of the pair whose target and draft it runs.
        body: Fields that requests add for this drafting.
    """

    address: str
    model: str
    pair: str = PLAIN_PAIR
    body: dict[str, object] = field(default_factory=dict)


@contextmanager
def start_vllm(folder: Path, log: Path, gamma: int) -> Iterator[StartedServer]:
    """Start vLLM for CPUs in float32; gamma: draft tokens of its draft model, 0: no draft model."""
    port, drafting = find_free_port(), {"method": "draft_model", "model": str(MODELS / "draft"), "num_speculative_tokens": gamma}
    folder = folder.resolve()
    command = [f"{folder}/venv/bin/vllm", "serve", f"{MODELS}/target", "--served-model-name", NAME, "--dtype", "float32"]
    command += ["--enforce-eager", "--max-model-len", "512", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--speculative-config", json.dumps(drafting)] if gamma else []
    with run_server(
        command, f"http://127.0.0.1:{port}/health", log, 600, ROOT, OFFLINE_ENVIRONMENT | {"VLLM_CPU_KVCACHE_SPACE": "1"}
    ):
        yield StartedServer(f"http://127.0.0.1:{port}/v1", NAME)


@contextmanager
def start_llama_cpp(folder: Path, log: Path, gamma: int) -> Iterator[StartedServer]:
    """Start llama.cpp's server in float32; gamma: most draft tokens of its draft model, 0: no draft model."""
    folder = folder.resolve()
    for name in ("target", "draft"):
        if not (file := folder / f"{name}.gguf").exists():
            raise SpecvizError(f"There is no '{file}': write it with tools/servers/to_gguf.py.")
    port = find_free_port()
    command = [f"{folder}/build/bin/llama-server", "--model", "target.gguf", "--alias", NAME, "--ctx-size", "2048"]
    command += ["--parallel", "4", "--threads", "1", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--cache-type-k", "f32", "--cache-type-v", "f32"]
    if gamma:
        command += ["--model-draft", "draft.gguf", "--spec-type", "draft-simple", "--spec-draft-n-max", str(gamma)]
    with run_server(command, f"http://127.0.0.1:{port}/health", log, 120, folder, OFFLINE_ENVIRONMENT):
        yield StartedServer(f"http://127.0.0.1:{port}/v1", NAME)


@contextmanager
def start_transformers(folder: Path, log: Path, generation: dict[str, object] | None = None) -> Iterator[StartedServer]:
    """Start transformers serve in float32; generation: fields of a request's generation_config that switch drafting on."""
    folder, port = folder.resolve(), find_free_port()
    command = [f"{folder}/venv/bin/transformers", "serve", f"{MODELS}/target", "--dtype", "float32"]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    with run_server(command, f"http://127.0.0.1:{port}/health", log, 180, ROOT, OFFLINE_ENVIRONMENT):
        body: dict[str, object] = {"generation_config": generation} if generation else {}
        yield StartedServer(f"http://127.0.0.1:{port}/v1", f"{MODELS}/target", NAME, body)


@contextmanager
def start_own(log: Path, mistake: str) -> Iterator[StartedServer]:
    """Start own.py in float32, with a mistake of docs/reference/mistakes.md or with none."""
    port = find_free_port()
    command = [sys.executable, "tools/servers/own.py", "--mistake", mistake, "--gamma", "3", "--port", str(port)]
    with run_server(command, f"http://127.0.0.1:{port}/health", log, 120, ROOT, OFFLINE_ENVIRONMENT):
        yield StartedServer(f"http://127.0.0.1:{port}/v1", "", NAME)
