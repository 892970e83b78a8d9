"""The ways to sample from the target alone, and the fastest of them: no speed-up is shown over a slower one."""

from __future__ import annotations

import logging
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
from transformers import PreTrainedModel

from specviz.decoding.device.choice import COMPILED
from specviz.evidence.assisted import build_generation_options
from specviz.models.pairs.loading import LoadedPair
from specviz.models.pairs.shared_weights import silence_transformers
from specviz.models.uncached import build_generate_inputs, build_model_inputs
from specviz.settings import SAMPLING_FIELDS, Settings
from specviz.speed.measurement.clock import Clock, Lap
from specviz.speed.measurement.costs import synchronize_device
from specviz.speed.measurement.timed_decoding import decode_target_only
from specviz.speed.records.baseline import LOOP_TITLE, Baseline
from specviz.threads import FEW, PassThreads

TOKENS = 8  # of a timed text
RUNS = 3
log = logging.getLogger(__name__)
_kept: WeakKeyDictionary[PreTrainedModel, dict[tuple[Any, ...], Baseline | None]] = WeakKeyDictionary()


def generate_text(pair: LoadedPair, settings: Settings, ids: tuple[int, ...], **overrides: Any) -> Any:
    """One text by transformers, with the same processors as the decoder's; end tokens do not end it.

    Raises SettingsError for a warper that transformers does not apply.
    """
    torch.manual_seed(settings.seed)
    model, read = copy(pair.target), pair.encode_for_encoder(settings.prompt)
    model.generation_config = pair.rules.make_config(pair.target, frozenset())
    options = build_generation_options(settings) | {"max_new_tokens": settings.max_new_tokens} | overrides
    PassThreads.for_model(pair.target).prepare(1, lambda: pair.target(**build_model_inputs(pair.target, ids[:FEW], read)))
    with silence_transformers():
        return model.generate(**build_generate_inputs(pair.target, ids, read), **options)


def _run_loop(pair: LoadedPair, settings: Settings, ids: tuple[int, ...], engine: str | None = None) -> Any:
    return list(decode_target_only(pair, settings, ids, engine=engine))


@dataclass(frozen=True, slots=True)
class TargetOnlyDecoder:
    """A way to sample from the target alone.

    Attributes:
        name: In tables.
        title: In a sentence.
        write_text: (pair, settings, ids of the prompt) -> a text of ``Settings.max_new_tokens`` tokens.
        is_compiled: Whether it compiles the target first, which takes seconds.
    """

    name: str
    title: str
    write_text: Callable[[LoadedPair, Settings, tuple[int, ...]], Any]
    is_compiled: bool = False


LOOP = TargetOnlyDecoder("target only", LOOP_TITLE, _run_loop)  # on CUDA recorded as a graph
GENERATE = TargetOnlyDecoder("generate", "generate() of transformers", generate_text)
COMPILED_LOOP = TargetOnlyDecoder(
    "target only, compiled", f"{LOOP_TITLE}, compiled", partial(_run_loop, engine=COMPILED), is_compiled=True
)
COMPILED_GENERATE = TargetOnlyDecoder(
    "generate, compiled",
    "generate() of transformers with a static cache, compiled",
    partial(generate_text, cache_implementation="static"),
    is_compiled=True,
)
TARGET_ONLY_DECODERS = (LOOP, GENERATE, COMPILED_LOOP, COMPILED_GENERATE)


def list_target_only_decoders(pair: LoadedPair, can_compile: bool) -> list[TargetOnlyDecoder]:
    """Those that run on the pair's device. Compiling pays on CUDA only."""
    compiles = can_compile and pair.target.device.type == "cuda"
    return [decoder for decoder in TARGET_ONLY_DECODERS if compiles or not decoder.is_compiled]


def find_baseline(pair: LoadedPair, settings: Settings, ids: tuple[int, ...]) -> Baseline | None:
    """The fastest way that was measured, where it is not this project's loop; None where the loop is the fastest.

    Measured once for a target, an engine and a distribution, on TOKENS tokens after ``ids``. Compiled ways take part only if the
    settings ask for compiling.
    """
    key = (settings.engine, *(getattr(settings, name) for name in SAMPLING_FIELDS))
    known = _kept.setdefault(pair.target, {})
    if key not in known:
        known[key] = _measure_baseline(pair, replace(settings, max_new_tokens=TOKENS), ids)
    return known[key]


def _measure_baseline(pair: LoadedPair, settings: Settings, ids: tuple[int, ...]) -> Baseline | None:
    decoders = {decoder.title: decoder for decoder in _list_usable(pair, settings, ids)}
    clock = Clock(
        {title: partial(_write_text, decoder, pair, settings, ids) for title, decoder in decoders.items()},
        synchronize=partial(synchronize_device, pair),
    ).run_until(RUNS)
    factors = {title: clock.compute_ratio(LOOP.title, title).value for title in decoders if title != LOOP.title}
    fastest = max(factors, key=lambda title: factors[title], default=None)
    return Baseline(fastest, factors[fastest]) if fastest is not None and factors[fastest] > 1.0 else None


def _list_usable(pair: LoadedPair, settings: Settings, ids: tuple[int, ...]) -> list[TargetOnlyDecoder]:
    """The loop, and others that can write a text with these settings, each tried once. Settings that compile compile the loop too."""
    usable = [LOOP]
    for decoder in list_target_only_decoders(pair, settings.engine == COMPILED):
        if decoder.name in (LOOP.name, COMPILED_LOOP.name):
            continue
        try:
            decoder.write_text(pair, settings, ids)
            usable.append(decoder)
        except Exception as error:  # whatever transformers raises for a model or a processor
            log.info("%s is no baseline here: %s", decoder.title, error)
    return usable


def _write_text(decoder: TargetOnlyDecoder, pair: LoadedPair, settings: Settings, ids: tuple[int, ...], lap: Lap) -> None:
    decoder.write_text(pair, replace(settings, seed=lap.run % 2**63), ids)
