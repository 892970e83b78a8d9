"""Which implementation of a round runs: the reference, ``engine.step``, or the one that stays on the device."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from torch.utils._triton import has_triton

from specviz.decoding.device.capture import ProgramStore
from specviz.decoding.device.round import DeviceSteps, explain_refusal
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
) -> EngineChoice:
    """What runs a request's rounds.

    On a GPU, ``device`` and ``compiled`` are recorded as a CUDA graph. There ``auto`` takes the engine that a probe measured to be
    faster; the measurement is kept with the models. ``auto`` takes the reference on other devices, and where the combination
    cannot stay on the device.

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
            return _choose_fastest(reference, arguments, rows, columns, bars)
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
) -> EngineChoice:
    """What runs target-only sampling, with its own random streams. Arguments as for ``choose_engine``."""
    return choose_engine(
        engine, target, NoDraft(), TokenRule(), TargetOnlyRandomness(randomness), eos_token_ids, rows, columns
    )  # fmt: skip


def _choose_fastest(reference: EngineChoice, arguments: tuple[Any, ...], rows: int, columns: int, bars: int) -> EngineChoice:
    """The faster of the reference and the recorded round."""
    target, proposer, rule, randomness, eos_token_ids = arguments
    device = DeviceSteps(target, proposer, rule, randomness, eos_token_ids, rows, columns, records=True, bars=bars)
    store = ProgramStore.find_store(target.model)
    seconds = store.seconds.get(device.key)
    if seconds is None:
        probes: dict[str, Steps] = {REFERENCE: reference.steps, DEVICE: device}
        seconds = {name: _time_rounds(steps, rows) for name, steps in probes.items()}
        device.forget_rows()
        if not isinstance(proposer, NoDraft):
            alone = DeviceSteps(
                target,
                NoDraft(),
                TokenRule(),
                TargetOnlyRandomness(PhiloxRandomness(0)),
                eos_token_ids,
                rows,
                columns,
                records=True,
            )
            seconds[TARGET_ONLY] = _time_rounds(alone, rows)
        store.seconds[device.key] = seconds
    fastest = min((REFERENCE, DEVICE), key=lambda name: seconds[name])
    return EngineChoice(fastest, device if fastest == DEVICE else reference.steps, seconds)


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
    return {"backend": "inductor"}
