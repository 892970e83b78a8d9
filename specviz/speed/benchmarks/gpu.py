"""Everything that only a GPU can tell, in one run of a few minutes: parts in the order of importance, each with its own time limit.

A second process does the work, so that a part which hangs or crashes ends without the others: it is killed and the next part begins
in a new one. After an error that leaves CUDA unusable the same part goes on in a new process, with the step after the one that failed.
Results are written to one JSON file after each step. A second run into the same folder skips the parts that are done. With ``dry``
all parts run small on the CPU.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import statistics
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from queue import Empty
from typing import Any

import torch
import transformers
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import PreTrainedModel, Qwen3Config, Qwen3ForCausalLM

from specviz.decoding.device import capture
from specviz.decoding.device.choice import COMPILED, DEVICE, REFERENCE
from specviz.decoding.device.round import DeviceSteps
from specviz.decoding.engine import TargetOnlyRandomness
from specviz.decoding.methods import build_rule
from specviz.decoding.run import record_run
from specviz.decoding.sampler import Shard, sample_with_engine
from specviz.evidence.decoder import SHARED, build_decoder
from specviz.evidence.matrix import list_lines
from specviz.evidence.session import SamplingPlan, Session
from specviz.models.attachments.eagle import EAGLES
from specviz.models.attachments.heads import HEADS
from specviz.models.cache.decoder import CachedModel
from specviz.models.cache.fixed import FixedModel, PassTokens
from specviz.models.pairs.loading import LoadedPair, load_pair
from specviz.proposers.draft import DraftModel
from specviz.proposers.no_draft import NoDraft
from specviz.proposers.request import open_proposer
from specviz.randomness import PhiloxRandomness, Prefix
from specviz.records import HERE
from specviz.settings import Settings
from specviz.speed.measurement.clock import Clock, Lap
from specviz.speed.measurement.generation import PROMPTS, decode_speculatively, decode_target_only
from specviz.speed.records.gpu_costs import GpuCosts
from specviz.verification.registry import RULES
from specviz.verification.token import TokenRule

RECORD = "gpu.json"
TABLE = "gpu.txt"
COSTS = "costs.json"  # what ships of the record, in assets/gpus/
PAIR = "storybook"
COMPILER = {"backend": "inductor"}


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Shape of a published model of the Qwen3 family; weights are random."""

    layers: int
    width: int
    network: int
    heads: int
    key_heads: int = 8
    head: int = 128
    vocabulary: int = 151_936


SHAPES = {
    "1.7B": ModelShape(28, 2048, 6144, 16),
    "8B": ModelShape(36, 4096, 12288, 32),
    "draft of 28 layers (0.6B)": ModelShape(28, 1024, 3072, 16),
    "draft of 2 layers": ModelShape(2, 1024, 3072, 16),
}
TOKENS = (1, 2, 3, 5, 9, 17, 33, 64)
ROWS = (1, 8, 32, 64)
COLUMNS = 320


class DeviceLostError(Exception):
    """An error after which CUDA works no more in this process. The step that failed is in the record."""


@dataclass(slots=True)
class PartContext:
    """What a part works with.

    Attributes:
        dry: Whether everything is small and on the CPU.
        until: Time by ``time.monotonic`` at which the part should end.
        send: Called with the part's record so far.
        record: What the part has measured, in an earlier process too.
    """

    dry: bool
    until: float
    send: Callable[[dict[str, Any]], None]
    record: dict[str, Any] = field(default_factory=dict)
    _open_steps: int = 0  # steps that contain the present one

    @property
    def device(self) -> str:
        return "cpu" if self.dry else "cuda"

    def save(self, **found: Any) -> None:
        """Add to the record and hand it on."""
        self.record |= found
        self.send(self.record)

    def add(self, field_name: str, found: Mapping[str, Any]) -> None:
        """Add entries to a table of the record, and hand it on."""
        self.save(**{field_name: self.record.get(field_name, {}) | found})

    def has_time(self, seconds: float) -> bool:
        """Whether so many seconds are left."""
        return time.monotonic() + seconds < self.until

    @contextmanager
    def guard(self, name: str, seconds: float = 1.0) -> Iterator[bool]:
        """A step of the part: skipped where its time is over; an error in it is recorded, and the part goes on.

        Yields whether to take the step; it checks that. A step that failed in an earlier process, or an outermost one that was
        finished there, is not taken again.

        Raises:
            DeviceLostError: The step's error, or that of a step within it, made CUDA unusable.
        """
        finished = self.record.setdefault("finished", [])
        if name in self.record.get("errors", {}) or (not self._open_steps and name in finished):
            yield False
            return
        if not self.has_time(seconds):
            skipped = self.record.setdefault("skipped", [])
            skipped.extend([name] * (name not in skipped))
            yield False
            return
        self._open_steps += 1
        try:
            yield True
        except DeviceLostError:
            raise
        except Exception as error:  # whatever a driver or compiler raises
            text = f"{type(error).__name__}: {error}".strip()
            self.record.setdefault("errors", {})[name] = (
                text[:600] + "\n" + "".join(traceback.format_tb(error.__traceback__)[-3:])
            )
            self.send(self.record)
            if not self.dry and not is_device_usable():
                raise DeviceLostError(name) from error
        else:
            if self._open_steps == 1:
                finished.append(name)
        finally:
            self._open_steps -= 1
        self.send(self.record)


def is_device_usable() -> bool:
    """Whether CUDA still works in this process: an illegal access, for one, ends it for good."""
    try:
        torch.cuda.synchronize()
        return bool(torch.ones(1, device="cuda").item())
    except Exception:  # every call raises then, under several names
        return False


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the measurement.

    Attributes:
        run: Measures, and saves into the context.
        seconds: Most seconds it may take on a GPU.
    """

    run: Callable[[PartContext], None]
    seconds: int


def measure_machine(context: PartContext) -> None:
    """Names and versions, and the rates that bound everything else."""
    found = {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "cores": os.cpu_count(),
        "date": time.strftime("%Y-%m-%d"),
    }
    if not context.dry:
        properties = torch.cuda.get_device_properties(0)
        found |= {"gpu": properties.name, "cuda": torch.version.cuda, "memory": properties.total_memory}
    context.save(**found)


def load_storybook(context: PartContext, dtype: str) -> LoadedPair:
    """The shipped pair on the part's device."""
    return load_pair(PAIR, context.device, dtype)


EXACT_SETTINGS: dict[str, dict[str, Any]] = {
    "chain, token": {},
    "chain, token, T=0": {"temperature": 0.0},
    "chain, block": {"rule": "block"},
    "chain, top-p 0.9": {"top_p": 0.9},
    "tree of drawn siblings": {"proposer": "tree", "tree": "2-2-1", "siblings": "distinct"},
    "tree of top siblings": {"proposer": "tree", "tree": "3-2-1", "siblings": "top"},
}


def compare_engines(context: PartContext) -> None:
    """Recorded rounds against the reference in float64: the same texts by every engine."""
    pair = load_storybook(context, "float64")
    results: dict[str, Any] = context.record.get("equal", {})
    engines = (DEVICE,) if context.dry else (DEVICE, COMPILED)
    for engine in engines:
        for name, changes in (
            EXACT_SETTINGS.items() if engine == DEVICE else [*EXACT_SETTINGS.items()][::4]
        ):  # compiling takes time
            with context.guard(f"{engine}: {name}", 3 if engine == DEVICE else 15) as is_on:
                if not is_on:
                    continue
                same = 0
                for number, prompt in enumerate(PROMPTS.values()):
                    settings = Settings(prompt=prompt, gamma=3, max_new_tokens=12 if context.dry else 60, seed=number, **changes)
                    ids = pair.encode(prompt)
                    texts = [write_text(pair, replace(settings, engine=kind), ids) for kind in (REFERENCE, engine)]
                    same += texts[0] == texts[1]
                results[f"{engine}: {name}"] = f"{same} of {len(PROMPTS)} texts equal"
                context.save(equal=results)
        with context.guard(f"{engine}: target only", 3) as is_on:
            if is_on:
                settings = Settings(prompt="", max_new_tokens=12 if context.dry else 60)
                texts = [
                    [token for round_ in decode_target_only(pair, settings, (5, 6, 7), engine=kind) for token in round_.committed]
                    for kind in (REFERENCE, engine)
                ]
                results[f"{engine}: target only"] = f"{int(texts[0] == texts[1])} of 1 texts equal"
                context.save(equal=results)


def write_text(pair: LoadedPair, settings: Settings, ids: tuple[int, ...]) -> list[int]:
    """The tokens that a pair writes."""
    return [token for round_ in decode_speculatively(pair, settings, ids, pair.eos_token_ids) for token in round_.committed]


BENCH_CASES = (("float32", 1.0), ("bfloat16", 1.0), ("float32", 0.0), ("bfloat16", 0.0))


def bench_pair(context: PartContext) -> None:
    """The shipped pair by every engine, beside the target alone in every way: tokens per second, interleaved."""
    rates: dict[str, Any] = context.record.get("cases", {})
    for dtype, temperature in BENCH_CASES[: 1 if context.dry else None]:
        case = f"{dtype}, T={temperature:g}"
        with context.guard(case, 12) as is_on:
            if is_on:
                rates[case] = bench_case(context, case, dtype, temperature)
                context.save(cases=rates)


def bench_case(context: PartContext, case: str, dtype: str, temperature: float) -> dict[str, Any]:
    """Rates, ratios over the fastest way without speculation, and costs of one dtype and temperature."""
    from specviz.speed.benchmarks.bench import generate_with_assistant
    from specviz.speed.benchmarks.target_only import COMPILED_GENERATE, GENERATE

    pair, length = load_storybook(context, dtype), 8 if context.dry else 64
    base = Settings(gamma=3, max_new_tokens=length, temperature=temperature)
    rounds: dict[str, list[Any]] = {}

    def write_rounds(name: str, decode: Callable[..., Iterator[Any]], engine: str, lap: Lap) -> None:
        settings = replace(base, prompt=lap.item, seed=lap.run, engine=engine)
        found = list(decode(pair, settings, pair.encode(lap.item)))
        if lap.run > 0:
            rounds.setdefault(name, []).extend(found)

    def generate(make: Callable[..., Any], lap: Lap) -> None:
        make(pair, replace(base, prompt=lap.item, seed=lap.run), pair.encode(lap.item))

    with_slow = (dtype, temperature) == BENCH_CASES[0]  # each of their runs takes as long as ten of the others
    engines = (DEVICE,) if context.dry else (DEVICE, COMPILED)
    ways: dict[str, Callable[[Lap], object]] = {}
    for engine in (REFERENCE, *engines) if with_slow else engines:
        ways[engine] = partial(write_rounds, engine, decode_speculatively, engine)
        alone = f"target only, {engine}"
        ways[alone] = partial(write_rounds, alone, partial(decode_target_only, engine=engine), engine)
    if with_slow:
        ways |= {GENERATE.name: partial(generate, GENERATE.write_text), "assisted": partial(generate, generate_with_assistant)}
    if temperature and not context.dry:  # compiling takes 12 s
        ways[COMPILED_GENERATE.name] = partial(generate, COMPILED_GENERATE.write_text)
    contestants = {}
    for name, way in ways.items():
        with context.guard(f"{case}, {name}", 5) as is_possible:
            if is_possible:
                before, began = 0 if context.dry else torch.cuda.memory_allocated(), time.perf_counter()
                way(Lap(0, PROMPTS["opening"]))  # compiles and records
                context.add("first_text_seconds", {f"{case}, {name}": time.perf_counter() - began})
                if not context.dry:
                    context.add("kept_bytes", {f"{case}, {name}": torch.cuda.memory_allocated() - before})
                contestants[name] = way
    runs = 1 if context.dry else 4 if with_slow else 12
    clock = Clock(contestants, items=lambda run: tuple(PROMPTS.values()), synchronize=partial(wait, context))
    while clock.runs < runs and (clock.runs < 2 or context.has_time(8)):
        clock.run_until(clock.runs + 1)
    tokens = length * len(PROMPTS)
    rates = {name: clock.compute_rate(name, tokens, "tokens/s") for name in contestants}
    best = max(filter(is_baseline, contestants), key=lambda name: rates[name].value)
    found = {
        "rates": {name: estimate_record(rate) for name, rate in rates.items()},
        "baseline": best,
        "ratios": {name: estimate_record(clock.compute_ratio(best, name)) for name in contestants if not is_baseline(name)},
        "round_ms": {
            name: 1e3 * statistics.median(sum(r.timing.values()) for r in written) for name, written in rounds.items() if written
        },
        "tokens_per_round": {
            name: sum(len(r.committed) for r in written) / len(written) for name, written in rounds.items() if written
        },
        "runs": clock.runs,
        "replay_ms": time_replays(context, pair),
    }  # fmt: skip
    found["allowed"] = compute_allowed(found)
    with context.guard(f"{case}, passes", 3) as is_possible:
        if is_possible:
            found["pass_ms"] = time_pair_passes(context, pair, base)
            found["allowed_by_passes"] = compute_allowed_by_passes(found, base.gamma)
    return found


def compute_allowed(case: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """By engine, the speed-up over the baseline that the measured costs allow, and the share of it that was reached.

    The costs are a round's and a token's on the device alone, recorded. Lost are the host's work between rounds and the reading of
    prompts. The host also works between the baseline's tokens, more often, so a share above 1 is possible. Where the baseline has no recording, the target alone by the same engine stands for it.
    """
    found = {}
    for engine, (ratio, *_) in case["ratios"].items():
        replays = case["replay_ms"]
        alone = replays.get(case["baseline"], replays.get(f"target only, {engine}"))
        if engine in replays and alone:
            allowed = case["tokens_per_round"][engine] * alone / replays[engine]
            found[engine] = {"speed_up": round(allowed, 3), "share": round(ratio / allowed, 3)}
    return found


def time_pair_passes(context: PartContext, pair: LoadedPair, settings: Settings) -> dict[str, float]:
    """Milliseconds of what a round must consist of: passes of the target over one token and over a chain, of the draft over one."""
    passes = {"target, 1": (pair.target, 1), "target, chain": (pair.target, settings.gamma + 1), "draft, 1": (pair.draft, 1)}
    return {name: TimedPass.build(context, model, 1, tokens).time(context) for name, (model, tokens) in passes.items()}


def compute_allowed_by_passes(case: Mapping[str, Any], gamma: int) -> dict[str, float]:
    """What rounds without a rule and without drawing would allow of ``device`` over ``target only, device``, and the share reached."""
    passes, rates = case["pass_ms"], case["rates"]
    if DEVICE not in rates or (alone := f"target only, {DEVICE}") not in rates:
        return {}
    allowed = case["tokens_per_round"][DEVICE] * passes["target, 1"] / (gamma * passes["draft, 1"] + passes["target, chain"])
    return {"speed_up": round(allowed, 3), "share": round(rates[DEVICE][0] / rates[alone][0] / allowed, 3)}


def time_replays(context: PartContext, pair: LoadedPair) -> dict[str, float]:
    """Milliseconds of each recorded round of a pair, without the host's work."""
    if context.dry:
        return {}
    found = {}
    for _, program in capture.ProgramStore.find_store(pair.target).list_free():
        name = COMPILED if program.is_compiled else DEVICE
        found[name if program.kernel.draft else f"target only, {name}"] = time_calls(context, program._replay, 50)
    return found


def is_baseline(name: str) -> bool:
    """Whether a contestant of ``bench_pair`` does not speculate."""
    return name.startswith(("target only", "generate"))


def estimate_record(found: Any) -> list[float]:
    """Median, and the ends of its 95% interval."""
    return [round(float(number), 3) for number in (found.value, found.low, found.high)]


def wait(context: PartContext) -> None:
    """Wait for the device."""
    if not context.dry:
        torch.cuda.synchronize()


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
    shape = ModelShape(2, 64, 128, 4, 2, 16, 500) if context.dry else SHAPES[name]
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
        fed = PassTokens.chain(tokens, fixed.device)
        begin = torch.full((rows,), COLUMNS // 2, device=fixed.device)
        ids = torch.arange(rows * tokens, device=fixed.device).view(rows, tokens) % vocabulary

        def run(packet: Tensor) -> Tensor:
            return fixed.probs(packet, begin, fed)[0]

        if context.dry:
            run(ids)
            return cls(lambda: run(ids), time.perf_counter() - began)
        replay, result = capture.record_graph(run, ids)
        return cls(partial(_replay_holding, replay, (fixed, result, ids)), time.perf_counter() - began)

    def time(self, context: PartContext, repeats: int = 20) -> float:
        """Milliseconds of one call, median of five series."""
        return time_calls(context, self.replay, repeats)


def _replay_holding(replay: Callable[[], None], held: object) -> None:
    replay()


@torch.inference_mode()
def time_calls(context: PartContext, call: Callable[[], object], repeats: int = 20) -> float:
    """Milliseconds of one call, median over five series of calls."""
    count, repeats = (2, 2) if context.dry else (5, repeats)
    call()
    times = []
    for _ in range(count):
        wait(context)
        began = time.perf_counter()
        for _ in range(repeats):
            call()
        wait(context)
        times.append(1e3 * (time.perf_counter() - began) / repeats)
    return statistics.median(times)


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
            for tokens in tokens_wanted:
                with context.guard(f"{name}, {tokens} tokens", 2) as is_possible:
                    if is_possible:
                        found["tokens_ms"][tokens] = TimedPass.build(context, model, 1, tokens).time(context)
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
            for tokens in (1, 5):
                with context.guard(f"{name}, {tokens} tokens, compiled", 15) as is_possible:
                    if is_possible and not context.dry:
                        built = TimedPass.build(context, model, 1, tokens, compiles=True)
                        found["compiled_ms"][tokens] = built.time(context)
                        found.setdefault("compile_seconds", {})[tokens] = built.build_seconds
            found["peak_bytes"] = 0 if context.dry else torch.cuda.max_memory_allocated()
            context.save(shapes=curves)
            del model
            if not context.dry:
                torch.cuda.empty_cache()
    with context.guard("drafts", 4) as is_on:
        if is_on:
            for name, draft in drafts.items():
                curves[name] = {"tokens_ms": {n: TimedPass.build(context, draft, 1, n).time(context) for n in (1, 2)}}
            context.save(shapes=curves)


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
                    fed, begin = PassTokens.chain(tokens, fixed.device), torch.full((1,), 100, device=fixed.device)
                    ids = torch.ones(1, tokens, dtype=torch.int64, device=fixed.device)
                    for label, way in (("ours", fixed._pass), ("library", None)):
                        fixed._pass = way
                        fixed._tables.clear()  # their lines follow the pass
                        with OperationCount() as counted:
                            fixed.probs(ids, begin, fed)
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


def _repeat(way: Callable[[], Tensor], packet: Tensor) -> Tensor:
    return torch.stack([way() for _ in range(10)]).sum() + packet


def run_verify(context: PartContext) -> None:
    """``verify`` on the device, in float32 and in bfloat16: verdicts, and seconds of each stage."""
    cases = (("float32", 2_000, 0.2),) if context.dry else (("float32", 1_000_000, 0.005), ("bfloat16", 200_000, 0.01))
    for dtype, samples, least in cases:
        with context.guard(dtype, 8) as is_on:
            if is_on:
                context.save(**{dtype: verify_pair(context, dtype, samples, least)})


def verify_pair(context: PartContext, dtype: str, samples: int, least: float) -> dict[str, Any]:
    """Verdict, p-values and seconds by stage of a session as ``verify`` has it."""
    decoder = build_decoder("speculative", load_storybook(context, dtype), Settings(max_new_tokens=3))
    session = Session(decoder, SamplingPlan("both", samples, least, 0.3 if context.dry else 6.0))
    seconds: dict[str, float] = {}

    def measure(stage: str, work: Callable[[], Any]) -> Any:
        wait(context)
        began = time.perf_counter()
        result = work()
        wait(context)
        seconds[stage] = time.perf_counter() - began
        return result

    measure("warm-up: 2,000 samples", lambda: decoder.sample(SHARED, 0, 2_000))
    measure("opening", session._open)
    found = {}
    for mode in session.modes:
        drawn = measure(f"{mode}: drawing", partial(session.draw, mode))
        report = measure(f"{mode}: testing", partial(session.test, mode))
        found[mode] = {
            "verdict": report.verdict,
            "samples": len(drawn),
            "p_values": {test.name: test.p_value for test in report.tests},
            "borderline": report.borderline,
        }
    measure("report", session.report)
    return {"modes": found, "stage_seconds": seconds, "seconds": sum(seconds.values())}


def measure_live_rounds(context: PartContext) -> None:
    """Milliseconds of a round whose whole distributions are kept for a page, by engine; and of a page's click on the next round."""
    for dtype in ("float32",) if context.dry else ("float32", "bfloat16"):
        pair = load_storybook(context, dtype)
        base = Settings(prompt=PROMPTS["opening"], max_new_tokens=8 if context.dry else 64)
        for engine in (REFERENCE, DEVICE, "auto"):
            with context.guard(f"{dtype}, {engine}", 4) as is_on:
                if is_on:
                    settings = replace(base, engine=engine)
                    warm, ends = record_run(pair, settings), _list_round_ends(pair, settings)  # the first run records, and probes
                    clicks = []
                    for count in range(2, min(8, len(warm.rounds))):
                        began = time.perf_counter()
                        record_run(pair, settings, rounds=count, earlier=warm.rounds[: count - 1])
                        clicks.append(time.perf_counter() - began)
                    context.save(**{f"{dtype}, {engine}": {
                        "engine": warm.models["engine"],
                        "round_ms": 1e3 * statistics.median([after - before for before, after in pairwise(ends)] or [0.0]),
                        "click_ms": 1e3 * statistics.median(clicks or [0.0]),
                    }})  # fmt: skip


def _list_round_ends(pair: LoadedPair, settings: Settings) -> list[float]:
    """When each round of a run ended."""
    ends: list[float] = []
    record_run(pair, settings, on_round=lambda round_: ends.append(time.perf_counter()))
    return ends


def sample_by_rounds(context: PartContext) -> None:
    """Samples of three tokens by recorded rounds of many rows: samples per second, and equality with the reference in float64."""
    rates: dict[str, Any] = context.record.get("rates", {})
    for dtype, rows, count in (("float32", 8, 16),) if context.dry else (("float32", 256, 20_000), ("bfloat16", 1024, 40_000)):
        with context.guard(f"{dtype}, {rows} rows", 8) as is_on:
            if is_on:
                pair = load_storybook(context, dtype)
                began = time.perf_counter()
                sample_engine(pair, DEVICE, rows, rows)
                middle = time.perf_counter()
                sample_engine(pair, DEVICE, rows, count)
                seconds = time.perf_counter() - middle
                rates[f"{dtype}, {rows} rows"] = {"samples_per_second": count / seconds, "recording_seconds": middle - began}
                context.save(rates=rates)
    with context.guard("equality", 5) as is_on:
        if is_on:
            pair = load_storybook(context, "float64")
            count = 16 if context.dry else 256
            one, other = (sample_engine(pair, engine, 16 if context.dry else 64, count) for engine in (REFERENCE, DEVICE))
            context.save(equal=f"{int((one == other).all(1).sum())} of {count} samples equal")


def sample_engine(pair: LoadedPair, engine: str, rows: int, count: int) -> Any:
    """Samples of three tokens after a prompt, (count, 3)."""
    settings = Settings(prompt=PROMPTS["opening"], max_new_tokens=3, gamma=3, engine=engine)
    target, proposer = open_proposer(pair, settings)
    ids = pair.encode(settings.prompt)
    shard = Shard(target, proposer, build_rule(settings), PhiloxRandomness(7), settings, ids, pair.eos_token_ids, count=count)
    return sample_with_engine(shard, batch=rows).tokens


def compare_methods(context: PartContext) -> None:
    """Every drafting method under every rule in float64: the same tokens as on the CPU."""
    pairs = [load_pair(PAIR, device, "float64") for device in ("cpu", context.device)]
    same, total, different = (context.record.get(name, empty) for name, empty in (("equal", 0), ("total", 0), ("different", [])))
    attachments = {"heads": HEADS, "eagle": EAGLES}
    more = {}
    for name, known in attachments.items():
        place = HERE.parent / "assets" / "models" / PAIR / name
        if place.is_dir():
            more[name] = known.allow(str(place))
    names = list(list_lines().items())[: 2 if context.dry else None]
    for name, changes in names:
        for rule in list(RULES)[: 2 if context.dry else None]:
            with context.guard(f"{name}, {rule}", 1.5) as is_on:
                if not is_on:
                    continue
                settings = Settings(
                    prompt=PROMPTS["after a full stop"],
                    max_new_tokens=12,
                    gamma=3,
                    rule=rule,
                    engine=REFERENCE,
                    **(more | changes),
                )
                texts = []
                for pair in pairs:
                    try:
                        texts.append(str(write_text(pair, settings, pair.encode(settings.prompt))))
                    except Exception as error:
                        if type(error).__module__ != "specviz.errors":
                            raise
                        texts.append(str(error))
                total += 1
                same += texts[0] == texts[1]
                if texts[0] != texts[1]:
                    different.append(f"{name}, {rule}")
                context.save(equal=same, total=total, different=different)
    context.save(equal=same, total=total, different=different)


PARTS = {  # in the order of importance
    "machine": Part(measure_machine, 30),
    "bench": Part(bench_pair, 170),
    "verify": Part(run_verify, 45),
    "live rounds": Part(measure_live_rounds, 20),
    "methods": Part(compare_methods, 45),
    "batches": Part(measure_batches, 40),
    "passes": Part(measure_passes, 90),
    "kernels": Part(count_kernels, 15),
    "rounds of many rows": Part(sample_by_rounds, 30),
    "engines": Part(compare_engines, 60),
    "attention": Part(compare_attention, 15),
}
GRACE = 25.0  # seconds after a part's time limit before its process is killed
STARTING = 15.0  # seconds that a process needs before its first part
DRY_SECONDS = 20


def measure_gpu(out: Path, minutes: float, dry: bool, log: Callable[[str], None], only: Sequence[str] = ()) -> dict[str, Any]:
    """Run all parts that are not done yet, and return the record.

    Args:
        out: Folder of the record; a record in it is continued.
        minutes: Time for all parts.
        dry: Small, on the CPU.
        log: Called with a line about each part.
        only: Parts to run; empty: all.
    """
    out.mkdir(parents=True, exist_ok=True)
    path = out / RECORD
    record: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {"parts": {}}
    record["dry"] = dry
    until = time.monotonic() + 60 * minutes
    waiting = [name for name in only or PARTS if record["parts"].get(name, {}).get("status") != "done"]
    methods = multiprocessing.get_context("spawn")
    while waiting and time.monotonic() + STARTING < until:
        events = methods.Queue()
        begun = {name: record["parts"][name] for name in waiting if name in record["parts"]}
        worker = methods.Process(target=_run_parts, args=(waiting, dry, until - time.monotonic(), events, begun), daemon=True)
        worker.start()
        waiting = _follow(worker, events, waiting, until, record, path, log)
        if worker.is_alive():
            worker.kill()
        worker.join(10)
    for name in waiting:
        record["parts"].setdefault(name, {"status": "no time left"})
    _write(path, record)
    (out / TABLE).write_text(format_gpu(record) + "\n")
    costs = GpuCosts.from_measurement(record, time.strftime("%Y-%m-%d"))
    (out / COSTS).write_text(costs.to_json() + "\n")
    for name, model in costs.build_cost_models({name: shape.layers for name, shape in list(SHAPES.items())[:2]}).items():
        (out / f"costs-{name.lower()}.json").write_text(model.to_json() + "\n")
    return record


def _follow(
    worker: Any, events: Any, waiting: list[str], until: float, record: dict[str, Any], path: Path, log: Callable[[str], None]
) -> list[str]:
    """Write down what a worker sends until it ends or a part's time is over. Returns the parts that are left for another process."""
    left, current, deadline = [*waiting], "", time.monotonic() + 120
    while left:
        try:
            kind, name, content = events.get(timeout=0.5)
        except Empty:
            if worker.is_alive() and time.monotonic() < min(deadline, until + GRACE):
                continue
            why = (
                f"stopped after its time limit of {PARTS[current].seconds} s"
                if worker.is_alive() and current
                else "its process ended"
            )
            if current:
                record["parts"].setdefault(current, {})["status"] = why
                log(f"{current}: {why}")
                left.remove(current)
            elif time.monotonic() + STARTING < until:
                record["parts"].setdefault(left[0], {})["status"] = "its process did not start"
                left.pop(0)
            break
        if kind == "begin":
            current, deadline = name, time.monotonic() + content + GRACE
            record["parts"][name] = record["parts"].get(name, {}) | {"status": "running"}
        elif kind == "device lost":
            if name:
                record["parts"][name] = content
                log(f"{name}: CUDA is unusable after an error; it goes on in a new process")
            _write(path, record)
            break
        elif kind == "record":
            record["parts"][name] = content | {"status": "running"}
        else:
            record["parts"][name] = content
            log(f"{name}: {content['status']}, {content['seconds']:.0f} s")
            left.remove(name)
            current, deadline = "", time.monotonic() + 60
        _write(path, record)
    return left


def _write(path: Path, record: dict[str, Any]) -> None:
    fresh = path.with_suffix(".part")
    fresh.write_text(json.dumps(record, indent=1, default=str))
    fresh.replace(path)


def _run_parts(
    names: list[str], dry: bool, seconds: float, events: Any, begun: Mapping[str, dict[str, Any]] | None = None
) -> None:
    """Run parts one after the other, in a process of their own, until CUDA is unusable.

    begun: Records of parts that an earlier process began.
    """
    warnings.filterwarnings("ignore")  # kernels that are tried and not taken
    for library in ("torch", "transformers"):
        logging.getLogger(library).setLevel(logging.ERROR)
    until = time.monotonic() + seconds
    for name in names:
        part, began, record = PARTS[name], time.monotonic(), dict((begun or {}).get(name, {}))
        if began + 3 > until:
            return
        if record.get("status") != "running":  # one that ended with errors is begun anew
            record = {}
        before = record.get("seconds", 0.0)
        limit = min((DRY_SECONDS if dry else part.seconds) - before, until - began)
        events.put(("begin", name, limit))
        context = PartContext(dry, began + limit, lambda found, name=name: events.put(("record", name, deepcopy(found))), record)  # type: ignore[misc]
        try:
            part.run(context)
            status = "done" if not context.record.get("skipped") and not context.record.get("errors") else "partly done"
        except DeviceLostError:
            done = {"status": "running", "seconds": before + time.monotonic() - began}
            events.put(("device lost", name, context.record | done))
            return
        except Exception as error:  # a part's failure is a result
            text = traceback.format_exc(limit=-4)
            status = f"failed: {type(error).__name__}: {str(error)[:300]}"
            context.save(traceback=text[-1500:])
        context.record.pop("finished", None)
        if not dry:
            context.record["peak_bytes"] = torch.cuda.max_memory_allocated()
        events.put(("end", name, context.record | {"status": status, "seconds": before + time.monotonic() - began}))
        if not dry and not is_device_usable():
            events.put(("device lost", "", {}))
            return


def format_gpu(record: dict[str, Any]) -> str:
    """The record as a table."""
    parts = record["parts"]
    machine = parts.get("machine", {})
    rows = [f"{machine.get('gpu', 'CPU (dry)')}, torch {machine.get('torch')}, transformers {machine.get('transformers')}", ""]
    rows += [f"{name:<22}{part.get('status', '?')[:90]}" for name, part in parts.items()]
    for name, equal in parts.get("engines", {}).get("equal", {}).items():
        rows.append(f"  {name:<44}{equal}")
    for case, found in parts.get("bench", {}).get("cases", {}).items():
        rows += ["", f"{case}: tokens per second, median and 95% interval; baseline: {found['baseline']}"]
        for name, (value, low, high) in found["rates"].items():
            ratio = found["ratios"].get(name)
            times = f"   {ratio[0]:.2f} times the baseline" if ratio else ""
            cost, replay = found["round_ms"].get(name), found.get("replay_ms", {}).get(name)
            allowed = found.get("allowed", {}).get(name)
            share = f"   {allowed['share']:.0%} of the {allowed['speed_up']:.2f} that its costs allow" if allowed else ""
            costs = f"{share}{f'   round {cost:.2f} ms' if cost else ''}{f', of it the device {replay:.2f} ms' if replay else ''}"
            rows.append(f"  {name:<26}{value:8.0f}  ({low:.0f} to {high:.0f}){times}{costs}")
        if by_passes := found.get("allowed_by_passes"):
            rows.append(
                f"  device over target only, device: {by_passes['share']:.0%} of the {by_passes['speed_up']:.2f} that its passes allow"
            )
    for name, found in parts.get("passes", {}).get("shapes", {}).items():
        rows += ["", name]
        for key, values in found.items():
            rows.append(f"  {key}: {json.dumps(values)}")
    for name in ("attention", "rounds of many rows", "verify", "live rounds", "batches", "methods", "kernels"):
        if name in parts:
            rows += ["", name, f"  {json.dumps({k: v for k, v in parts[name].items() if k != 'status'}, default=str)[:3000]}"]
    return "\n".join(rows)
