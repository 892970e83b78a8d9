"""Which implementation of a round runs: the reference, ``engine.step``, or the one that stays on the device."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from torch.utils._triton import has_triton

from specviz.decoding.device.capture import ProgramNotReadyError, ProgramStore
from specviz.decoding.device.compilation import COMPILER, compiler_thread
from specviz.decoding.device.round import DeviceSteps, explain_refusal, plan_program
from specviz.decoding.engine import TargetOnlyRandomness, step
from specviz.errors import ModelError, SettingsError
from specviz.models.base import LanguageModel
from specviz.models.cache.decoder import CachedModel
from specviz.proposers.base import Proposer
from specviz.proposers.no_draft import NoDraft
from specviz.randomness import PhiloxRandomness, Prefix, Randomness
from specviz.trace import Round
from specviz.verification.rule import Rule
from specviz.verification.token import TokenRule

Steps = Callable[[Sequence[Prefix]], list[Round]]
Decoding = tuple[Any, Any, Rule, Randomness, frozenset[int]]  # the first arguments of ``engine.step`` after its rows
REFERENCE, DEVICE, COMPILED = "reference", "device", "compiled"
TARGET_ONLY = "target only"
PROBE_ROUNDS, PROBE_WARM_UPS, PROBE_PREFIX = 7, 2, 16  # timed rounds of a probe, rounds before them, tokens of its text


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """What runs a request's rounds.

    Attributes:
        name: ``reference``, ``device`` or ``compiled``.
        steps: Runs a round of rows.
        seconds: Of a round by each engine, and of a token by the target alone, where a probe measured them.
        note: Why the device's round was not taken where it could have been; empty otherwise.
    """

    name: str
    steps: Steps
    seconds: dict[str, float] | None = None
    note: str = ""

    def explain_loss(self, tokens_per_round: float) -> str:
        """A sentence where the target alone is faster than rounds of so many tokens; otherwise nothing."""
        seconds = self.seconds or {}
        if not tokens_per_round or TARGET_ONLY not in seconds or seconds[self.name] <= tokens_per_round * seconds[TARGET_ONLY]:
            return ""
        return (
            f"The target alone is faster here: {1e3 * seconds[TARGET_ONLY]:.2f} ms a token, against "
            f"{1e3 * seconds[self.name] / tokens_per_round:.2f} ms a token with speculation."
        )


def choose_engine(
    engine: str,
    target: LanguageModel,
    proposer: Proposer,
    rule: Rule,
    randomness: Randomness,
    eos_token_ids: frozenset[int] = frozenset(),
    rows: int = 1,
    columns: int = 1024,
    bars: int = 0,
    may_compile: bool = True,
) -> EngineChoice:
    """What runs a request's rounds.

    On a GPU, ``device`` and ``compiled`` are recorded as a CUDA graph. There ``auto`` takes the engine that a probe measured to be
    the fastest; the measurement is kept with the models. The second request of a kind has the round compiled in the background,
    and the first one after that measures it too; rounds of several rows are not compiled. ``auto`` takes the reference on other
    devices, and where the combination cannot stay on the device.

    Args:
        engine: A choice of the setting ``engine``.
        target: As for ``engine.step``.
        proposer: As for ``engine.step``.
        rule: As for ``engine.step``.
        randomness: As for ``engine.step``.
        eos_token_ids: As for ``engine.step``.
        rows: Most rows of a call.
        columns: Most tokens of a row's text.
        bars: As for ``engine.step``.
        may_compile: Whether ``auto`` may start to compile in the background, which slows what runs beside it.

    Raises:
        SettingsError: ``device`` or ``compiled`` is wanted and not possible.
        ModelError: The same, because recording or compiling failed.
    """
    arguments = (target, proposer, rule, randomness, eos_token_ids)
    reference = EngineChoice(REFERENCE, lambda prefixes: step(prefixes, *arguments, bars))
    on_gpu = isinstance(target, CachedModel) and target.device.type == "cuda"
    refusal = explain_refusal(target, proposer, rule)
    if engine == REFERENCE or (engine == "auto" and not on_gpu):
        return reference
    if engine == "auto":
        if refusal is not None:
            return EngineChoice(REFERENCE, reference.steps, note=f"The reference runs: {refusal}.")
        try:
            return _choose_fastest(reference, arguments, rows, columns, bars, may_compile)
        except ModelError as error:
            return EngineChoice(REFERENCE, reference.steps, note=f"{str(error).rstrip('.')}. The reference runs instead.")
    if refusal is not None:
        raise SettingsError("engine", engine, f"reference or auto here: {refusal}")
    compiler = _choose_compiler_options(target) if engine == COMPILED else None
    return EngineChoice(engine, DeviceSteps(*arguments, rows, columns, compiler, on_gpu, bars))


def choose_target_only(
    engine: str,
    target: LanguageModel,
    randomness: Any,
    eos_token_ids: frozenset[int] = frozenset(),
    rows: int = 1,
    columns: int = 1024,
    may_compile: bool = True,
) -> EngineChoice:
    """What runs target-only sampling, with its own random streams. Arguments as for ``choose_engine``."""
    numbers = TargetOnlyRandomness(randomness)
    return choose_engine(
        engine, target, NoDraft(), TokenRule(), numbers, eos_token_ids, rows, columns, may_compile=may_compile
    )  # fmt: skip


def wait_for_compilations(target: Any, seconds: float) -> bool:
    """Wait until what is compiled in the background for this target model is ready. Returns whether it is."""
    until = time.monotonic() + seconds
    return all(one.wait(max(0.0, until - time.monotonic())) for one in [*ProgramStore.find_store(target).compilations.values()])


def _choose_fastest(
    reference: EngineChoice, arguments: Decoding, rows: int, columns: int, bars: int, may_compile: bool
) -> EngineChoice:
    """The fastest of the reference, the recorded round, and the compiled and recorded one where it is ready."""
    target, proposer, _, _, eos_token_ids = arguments
    device = DeviceSteps(*arguments, rows, columns, None, True, bars)
    store = ProgramStore.find_store(target.model)
    engines: dict[str, Steps] = {REFERENCE: reference.steps, DEVICE: device}
    is_first = device.key not in store.seconds
    seconds = _probe(store, device.key, engines, rows)
    compiled = None if rows > 1 else _open_compiled(store, seconds, arguments, columns, bars, may_compile and not is_first)
    if compiled:
        engines[COMPILED] = compiled
        seconds = _probe(store, device.key, engines, rows)
    fastest = min(engines, key=lambda name: seconds[name])
    return EngineChoice(
        fastest, engines[fastest], seconds | _probe_target_only(store, target, proposer, eos_token_ids, rows, columns)
    )


def _probe(store: ProgramStore, key: Hashable, engines: dict[str, Steps], rows: int) -> dict[str, float]:
    """Seconds of a round by engine, measured for those that were not."""
    seconds = store.seconds.get(key, {})
    for name, steps in engines.items():
        if name not in seconds:
            seconds = seconds | {name: _time_rounds(steps, rows)}
            if isinstance(steps, DeviceSteps):
                steps.forget_rows()
    store.seconds[key] = seconds
    return seconds


def _probe_target_only(
    store: ProgramStore, target: Any, proposer: Proposer, eos_token_ids: frozenset[int], rows: int, columns: int
) -> dict[str, float]:
    """Seconds of a token by the target alone, by the fastest engine that was measured; nothing where nothing is drafted anyway."""
    if isinstance(proposer, NoDraft):
        return {}
    alone = (target, NoDraft(), TokenRule(), TargetOnlyRandomness(PhiloxRandomness(0)), eos_token_ids)
    key = plan_program(*alone[:3], rows, columns, records=True).key
    if DEVICE not in store.seconds.get(key, {}):
        _probe(store, key, {DEVICE: DeviceSteps(*alone, rows, columns, records=True)}, rows)
    return {TARGET_ONLY: min(store.seconds[key].values())}


def _open_compiled(
    store: ProgramStore, seconds: dict[str, float], arguments: Decoding, columns: int, bars: int, starts: bool
) -> DeviceSteps | None:
    """The compiled and recorded round, where it is ready and not known to be slower.

    starts: whether it begins to be compiled in the background where it is not.
    """
    target, proposer, rule, *_ = arguments
    if seconds.get(COMPILED, 0.0) > seconds[DEVICE] or not has_triton():
        return None
    plan = plan_program(target, proposer, rule, 1, columns, COMPILER, records=True, bars=bars)
    compilation, program = store.find_compilation(plan.key)
    if program:
        try:
            store.keep(plan.key, program.record())
        except ModelError as error:
            compilation.error = str(error)
    if compilation and compilation.error:
        return None
    try:
        return DeviceSteps(*arguments, 1, columns, COMPILER, True, bars, False)
    except ProgramNotReadyError:
        if starts:
            store.start_compilation(plan.key, lambda: compiler_thread.start(plan.prepare))
        return None


def _time_rounds(steps: Steps, rows: int) -> float:
    """Median seconds of a round after the same text. A device round ends with a transfer, the reference with several: both wait."""
    prefixes = [Prefix((1,) * PROBE_PREFIX, 0, 64, draw) for draw in range(rows)]
    times = []
    for _ in range(PROBE_WARM_UPS + PROBE_ROUNDS):
        began = time.perf_counter()
        steps(prefixes)
        times.append(time.perf_counter() - began)
    return median(times[PROBE_WARM_UPS:])


def _choose_compiler_options(target: Any) -> dict[str, Any]:
    if target.device.type == "cpu" and not any(map(shutil.which, ("g++", "clang++", "c++"))):
        raise SettingsError("engine", COMPILED, "device or reference here: compiling for the CPU needs a C++ compiler")
    if target.device.type == "cuda" and not has_triton():
        raise SettingsError("engine", COMPILED, "device or reference here: compiling for a GPU needs triton")
    return COMPILER
