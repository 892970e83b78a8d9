"""Which implementation of a round runs: the reference, ``engine.step``, or the one that stays on the device."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from typing import Any

from specviz.decoding.device.round import DeviceSteps, explain_refusal
from specviz.decoding.engine import step
from specviz.errors import SettingsError
from specviz.models.base import LanguageModel
from specviz.models.cache.decoder import CachedModel
from specviz.proposers.base import Proposer
from specviz.randomness import Prefix, Randomness
from specviz.trace import Round
from specviz.verification.rule import Rule

Steps = Callable[[Sequence[Prefix]], list[Round]]
REFERENCE, DEVICE, COMPILED = "reference", "device", "compiled"


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
) -> tuple[str, Steps]:
    """The name of the implementation that is asked for, and what runs a round of it.

    engine   a choice of the setting ``engine``
    rows     most rows of a call
    columns  most tokens of a row's text
    bars     as for ``engine.step``; only the reference keeps distributions

    ``auto`` takes the device's where the target is on a GPU, the combination can stay there, and no distributions are kept.

    Raises SettingsError where ``device`` or ``compiled`` is asked for and cannot be had.
    """
    arguments = (target, proposer, rule, randomness, eos_token_ids)
    asked, why_not = engine, explain_refusal(target, proposer, rule)
    if asked == "auto":
        on_gpu = isinstance(target, CachedModel) and target.device.type == "cuda"
        asked = DEVICE if on_gpu and why_not is None and not bars else REFERENCE
    if asked == REFERENCE:
        return REFERENCE, lambda prefixes: step(prefixes, *arguments, bars)
    if why_not is not None:
        raise SettingsError("engine", asked, f"reference or auto here: {why_not}")
    if bars:
        raise SettingsError("engine", asked, "reference or auto where the distributions of each round are kept")
    return asked, DeviceSteps(*arguments, rows, columns, _compiler_options(target) if asked == COMPILED else None)


def _compiler_options(target: Any) -> dict[str, Any]:
    if target.device.type == "cpu" and not any(map(shutil.which, ("g++", "clang++", "c++"))):
        raise SettingsError("engine", COMPILED, "device or reference here: compiling for the CPU needs a C++ compiler")
    return {"backend": "inductor"}
