"""Passes and rounds of models of published shapes at random weights, on a GPU: seconds, kernels, attention."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import PreTrainedModel, Qwen3Config, Qwen3ForCausalLM

from specviz.decoding.device import capture
from specviz.decoding.device.compilation import COMPILER
from specviz.decoding.device.round import DeviceSteps
from specviz.decoding.engine import TargetOnlyRandomness
from specviz.models.cache.decoder import CachedModel
from specviz.models.cache.fixed import FixedModel, PassTokens
from specviz.proposers.draft import DraftModel
from specviz.proposers.no_draft import NoDraft
from specviz.proposers.request import open_proposer
from specviz.randomness import PhiloxRandomness, Prefix
from specviz.settings import Settings
from specviz.speed.benchmarks.gpu.context import PartContext, load_storybook, time_calls
from specviz.verification.token import TokenRule


@dataclass(frozen=True, slots=True)
class PublishedShape:
    """Shape of a published model of the Qwen3 family; weights are random."""

    layers: int
    width: int
    network: int
    heads: int
    key_heads: int = 8
    head: int = 128
    vocabulary: int = 151_936


SHAPES = {
    "1.7B": PublishedShape(28, 2048, 6144, 16),
    "8B": PublishedShape(36, 4096, 12288, 32),
    "draft of 28 layers (0.6B)": PublishedShape(28, 1024, 3072, 16),
    "draft of 2 layers": PublishedShape(2, 1024, 3072, 16),
}
TOKENS = (1, 2, 3, 5, 9, 17, 33, 64)
ROWS = (1, 8, 32, 64)
COLUMNS = 320


class OperationCount(TorchDispatchMode):
    """Counts dispatched operations by name; each is about one kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[str, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not any(
            view in str(func) for view in ("view", "transpose", "expand", "slice", "split", "select.int", "unsqueeze", "aten.t.")
        ):
            self.names[str(func)] = self.names.get(str(func), 0) + 1
        return func(*args, **(kwargs or {}))


def build_shape(context: PartContext, name: str, dtype: torch.dtype = torch.bfloat16) -> PreTrainedModel:
    """A model of a published shape at random weights, on the part's device."""
    shape = PublishedShape(2, 64, 128, 4, 2, 16, 500) if context.dry else SHAPES[name]
    config = Qwen3Config(
        vocab_size=shape.vocabulary, hidden_size=shape.width, intermediate_size=shape.network, num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads, num_key_value_heads=shape.key_heads, head_dim=shape.head, max_position_embeddings=4096,
        tie_word_embeddings=False,
    )  # fmt: skip
    torch.manual_seed(0)
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float32 if context.dry else dtype)
        with torch.device(context.device):
            return Qwen3ForCausalLM(config).eval().requires_grad_(False)
    finally:
        torch.set_default_dtype(before)


@dataclass(slots=True)
class TimedPass:
    """A pass over ``tokens`` tokens of each of ``rows`` rows, ready to be repeated: recorded on a GPU, called on a CPU."""

    replay: Callable[[], object]
    build_seconds: float

    @classmethod
    @torch.inference_mode()
    def build(cls, context: PartContext, model: PreTrainedModel, rows: int, tokens: int, compiles: bool = False) -> TimedPass:
        began = time.perf_counter()
        vocabulary = model.config.vocab_size
        fixed = FixedModel(model, Settings(), vocabulary, rows, COLUMNS)
        if compiles:
            torch._dynamo.config.recompile_limit = capture.RECOMPILE_LIMIT
            fixed.compile(COMPILER)
        fed = PassTokens.build_chain(tokens, fixed.device)
        begin = torch.full((rows,), COLUMNS // 2, device=fixed.device)
        ids = torch.arange(rows * tokens, device=fixed.device).view(rows, tokens) % vocabulary

        def run(packet: Tensor) -> Tensor:
            return fixed.compute_probs(packet, begin, fed)[0]

        if context.dry:
            run(ids)
            return cls(lambda: run(ids), time.perf_counter() - began)
        replay, result = capture.record_graph(run, ids)
        return cls(partial(_replay_holding, replay, (fixed, result, ids)), time.perf_counter() - began)

    def time(self, context: PartContext, repeats: int = 20, series: int = 5) -> float:
        """Milliseconds of one call, median of several series."""
        return time_calls(context, self.replay, repeats, series)


def _replay_holding(replay: Callable[[], None], held: object) -> None:
    replay()


def measure_passes(context: PartContext) -> None:
    """T(n) for n tokens and for rows at published shapes, recorded, and compiled and recorded; and whole rounds with two drafts."""
    curves: dict[str, Any] = context.record.get("shapes", {})
    tokens_wanted, rows_wanted = ((1, 3), (1, 2)) if context.dry else (TOKENS, ROWS)
    drafts = {name: build_shape(context, name) for name in list(SHAPES)[2:]}
    for name in list(SHAPES)[:2]:
        found: dict[str, Any] = curves.setdefault(name, {"tokens_ms": {}, "rows_ms": {}, "compiled_ms": {}, "rounds_ms": {}})
        with context.guard(name, 10) as is_on:
            if not is_on:
                continue
            model = build_shape(context, name)
            time_lengths(context, name, model, tokens_wanted, found)
            context.save(shapes=curves)
            for rows in rows_wanted:
                for tokens in (1, 5):
                    with context.guard(f"{name}, {rows} rows of {tokens}", 2) as is_possible:
                        if is_possible:
                            found["rows_ms"][f"{rows} x {tokens}"] = TimedPass.build(context, model, rows, tokens).time(
                                context, 8
                            )
            context.save(shapes=curves)
            for draft_name, draft in drafts.items():
                for compiles in (False, True)[: 1 if context.dry else 2]:
                    label = f"{draft_name}{', compiled' if compiles else ''}"
                    with context.guard(f"{name}, round, {label}", 20 if compiles else 4) as is_possible:
                        if is_possible:
                            found["rounds_ms"][label] = time_round(context, model, draft, compiles)
                            context.save(shapes=curves)
            found["peak_bytes"] = 0 if context.dry else torch.cuda.max_memory_allocated()
            context.save(shapes=curves)
            del model
            if not context.dry:
                torch.cuda.empty_cache()
    with context.guard("drafts", 4) as is_on:
        if is_on:
            for name, draft in drafts.items():
                curves[name] = {"tokens_ms": {}, "compiled_ms": {}}
                time_lengths(context, name, draft, (1, 2), curves[name])
            context.save(shapes=curves)


def time_lengths(
    context: PartContext, name: str, model: PreTrainedModel, lengths: Sequence[int], seconds: dict[str, dict[int, float]]
) -> None:
    """Milliseconds of passes over each number of tokens, recorded, and compiled and recorded, into ``tokens_ms`` and ``compiled_ms``.

    They are timed in turns, so that a clock that changes changes all of them alike.
    """
    built: dict[tuple[str, int], TimedPass] = {}
    for kind, compiles in (("tokens_ms", False), ("compiled_ms", True))[: 1 if context.dry else 2]:
        for tokens in lengths:
            with context.guard(f"{name}, {tokens} tokens{', compiled' if compiles else ''}", 8 if compiles else 2) as is_possible:
                if is_possible:
                    built[kind, tokens] = TimedPass.build(context, model, 1, tokens, compiles)
                    if compiles:
                        seconds.setdefault("compile_seconds", {})[tokens] = built[kind, tokens].build_seconds
    series: dict[tuple[str, int], list[float]] = {key: [] for key in built}
    for _ in range(2 if context.dry else 7):
        for key, timed in built.items():
            series[key].append(timed.time(context, 8, 1))
    for (kind, tokens), times in series.items():
        seconds[kind][tokens] = statistics.median(times)


def time_round(context: PartContext, model: PreTrainedModel, draft: PreTrainedModel, compiles: bool) -> dict[str, float]:
    """Milliseconds of a round of gamma 4: as the host sees it, and of its replay alone; seconds until it was ready."""
    settings, began = Settings(gamma=4, max_new_tokens=64), time.perf_counter()
    target = CachedModel(model, settings)
    steps = DeviceSteps(
        target, DraftModel(CachedModel(draft, settings), 4), TokenRule(), PhiloxRandomness(1), columns=COLUMNS,
        compiler=COMPILER if compiles else None, records=not context.dry,
    )  # fmt: skip
    ready = time.perf_counter() - began
    prefix = Prefix(tuple(range(1, 33)), 0, 200)
    steps([prefix])
    found = {"round": time_calls(context, lambda: steps([prefix]), 10), "ready_seconds": ready}
    if not context.dry:
        found["replay"] = time_calls(context, steps.program._replay, 10)
    return found


def count_kernels(context: PartContext) -> None:
    """Operations and kernels of a pass and of a round; the kernels that take most of the time."""
    found: dict[str, Any] = context.record.get("counts", {})
    with context.guard("operations of a pass", 5) as is_on:
        if is_on:
            model = build_shape(context, "1.7B")
            for tokens in (1, 5):
                with torch.inference_mode():
                    fixed = FixedModel(model, Settings(), model.config.vocab_size, 1, COLUMNS)
                    fed, begin = PassTokens.build_chain(tokens, fixed.device), torch.full((1,), 100, device=fixed.device)
                    ids = torch.ones(1, tokens, dtype=torch.int64, device=fixed.device)
                    for label, way in (("ours", fixed._pass), ("library", None)):
                        fixed._pass = way
                        fixed._tables.clear()  # their lines follow the pass
                        with OperationCount() as counted:
                            fixed.compute_probs(ids, begin, fed)
                        found[f"operations, {tokens} tokens, {label}"] = sum(counted.names.values())
                context.save(counts=found)
            if not context.dry:
                for rows, tokens in ((1, 1), (1, 5), (64, 5)):
                    with context.guard(f"kernels, {rows} x {tokens}", 3) as is_possible:
                        if is_possible:
                            built = TimedPass.build(context, model, rows, tokens)
                            context.save(
                                kernels=context.record.get("kernels", {}) | {f"1.7B, {rows} x {tokens}": profile(built.replay)}
                            )
    with context.guard("kernels of a round", 5) as is_on:
        if is_on and not context.dry:
            pair = load_storybook(context, "bfloat16")
            settings = Settings(gamma=3)
            target, proposer = open_proposer(pair, settings)
            steps = DeviceSteps(target, proposer, TokenRule(), PhiloxRandomness(1), columns=200, records=True)
            context.save(kernels=context.record.get("kernels", {}) | {"storybook, round of 3": profile(steps.program._replay)})
            context.save(storybook_replay_ms=time_calls(context, steps.program._replay, 50))
            alone = DeviceSteps(
                target, NoDraft(), TokenRule(), TargetOnlyRandomness(PhiloxRandomness(1)), columns=200, records=True
            )
            context.save(storybook_target_replay_ms=time_calls(context, alone.program._replay, 50))


def measure_batches(context: PartContext) -> None:
    """One and five tokens of 64 rows at the 8B shape, recorded, and compiled and recorded; and which kernels take the time."""
    model, rows = build_shape(context, "8B"), 2 if context.dry else 64
    found: dict[str, float] = context.record.get("ms", {})
    for compiles in (False, True)[: 1 if context.dry else 2]:
        for tokens in (1, 5):
            label = f"{rows} x {tokens}{', compiled' if compiles else ''}"
            with context.guard(label, 12 if compiles else 4) as is_on:
                if is_on:
                    built = TimedPass.build(context, model, rows, tokens, compiles)
                    found[label] = built.time(context, 8)
                    context.save(ms=found)
                    if not context.dry:
                        context.save(kernels=context.record.get("kernels", {}) | {label: profile(built.replay)})


def profile(call: Callable[[], object]) -> dict[str, Any]:
    """Kernels of a call: how many, their milliseconds, and the first twelve by time."""
    call()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as found:
        call()
        torch.cuda.synchronize()
    events = [event for event in found.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    by_name: dict[str, list[float]] = {}
    for event in events:
        by_name.setdefault(event.name[:90], []).append(event.device_time_total if hasattr(event, "device_time_total") else 0.0)
    top = sorted(by_name.items(), key=lambda item: -sum(item[1]))[:12]
    return {
        "count": len(events),
        "ms": sum(map(sum, by_name.values())) / 1e3,
        "top": [[name, len(times), round(sum(times) / 1e3, 4)] for name, times in top],
    }


def compare_attention(context: PartContext) -> None:
    """One attention call by each kernel, query heads stacked on the key heads or not: microseconds by rows, tokens and columns."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    found: dict[str, float] = context.record.setdefault("microseconds", {})
    heads, group, size = (2, 2, 16) if context.dry else (8, 4, 128)
    dtype = torch.float32 if context.dry else torch.bfloat16
    backends = {"any": None, "math": SDPBackend.MATH}
    if not context.dry:
        backends |= {"efficient": SDPBackend.EFFICIENT_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
    for rows, tokens, columns in (
        ((1, 1, 32),) if context.dry else ((1, 1, 320), (1, 5, 320), (64, 1, 320), (64, 5, 320), (64, 5, 1024))
    ):
        with torch.inference_mode():
            keys, values = (
                torch.randn(rows, columns, heads, size, device=context.device, dtype=dtype).transpose(1, 2) for _ in "kv"
            )
            plain = torch.randn(rows, heads * group, tokens, size, device=context.device, dtype=dtype)
            mask = torch.zeros(rows, 1, tokens, columns, device=context.device, dtype=dtype)
            stacked = plain.view(rows, heads, group, tokens, size).transpose(2, 3).reshape(rows, heads, tokens * group, size)
            wide = mask.repeat_interleave(group, 2)

            def multiply(stacked: Tensor = stacked, keys: Tensor = keys, values: Tensor = values, wide: Tensor = wide) -> Tensor:
                scores = torch.matmul(stacked, keys.transpose(2, 3)).float() * size**-0.5 + wide
                return torch.matmul(torch.softmax(scores, -1).to(values.dtype), values)

            ways: dict[str, tuple[Callable[[], Tensor], Any]] = {"stacked, products": (multiply, None)}
            attend = torch.nn.functional.scaled_dot_product_attention
            for name, backend in backends.items():
                ways[f"stacked, {name}"] = (partial(attend, stacked, keys, values, wide), backend)
                ways[f"enable_gqa, {name}"] = (partial(attend, plain, keys, values, mask, enable_gqa=True), backend)
            for label, (way, backend) in ways.items():
                with context.guard(f"{label}, {rows} x {tokens}, {columns}", 1) as is_on:
                    if is_on:
                        with sdpa_kernel(backend) if backend is not None else nullcontext():
                            call: Callable[[], object] = way
                            try:
                                way()
                            except RuntimeError as error:
                                if "No available kernel" not in str(error):
                                    raise
                                context.record.setdefault("unavailable", []).append(
                                    f"{label}, {rows} x {tokens}, {columns} columns"
                                )
                                continue
                            if not context.dry:
                                call, _ = capture.record_graph(partial(_repeat, way), torch.zeros((), device="cuda"))
                            scale = 1e3 / (1 if context.dry else 10)
                            found[f"{label}, {rows} x {tokens}, {columns} columns"] = round(
                                time_calls(context, call, 10) * scale, 2
                            )
    context.save(microseconds=found)


def _repeat(run_pass: Callable[[], Tensor], packet: Tensor) -> Tensor:
    return torch.stack([run_pass() for _ in range(10)]).sum() + packet
