"""The fastest way to sample from the target alone: no ratio is shown over a slower one.

The ways are this project's target-only loop (on CUDA recorded as a graph), ``generate()`` of transformers, and on CUDA, if the settings
ask for compiling, ``generate()`` with a static cache, which transformers compiles.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from transformers import PreTrainedModel

from specviz.decoding.device.choice import COMPILED
from specviz.models.pairs.loading import LoadedPair
from specviz.settings import SAMPLING_FIELDS, Settings
from specviz.speed.bench import generate_text
from specviz.speed.clock import Clock, Lap
from specviz.speed.costs import synchronize_device
from specviz.speed.generation import decode_target_only
from specviz.speed.records.baseline import LOOP, Baseline

TOKENS = 8  # of a timed text
RUNS = 3
GENERATE, STATIC = "generate() of transformers", "generate() of transformers with a static cache, compiled"
Way = Callable[[LoadedPair, Settings, tuple[int, ...]], Any]
log = logging.getLogger(__name__)
_kept: WeakKeyDictionary[PreTrainedModel, dict[tuple[Any, ...], Baseline | None]] = WeakKeyDictionary()


def find_baseline(pair: LoadedPair, settings: Settings, ids: tuple[int, ...]) -> Baseline | None:
    """The fastest way that was measured, where it is not this project's loop; None where the loop is the fastest.

    Measured once for a target, an engine and a distribution, on TOKENS tokens after ``ids``.
    """
    key = (settings.engine, *(getattr(settings, name) for name in SAMPLING_FIELDS))
    known = _kept.setdefault(pair.target, {})
    if key not in known:
        known[key] = _measure_baseline(pair, replace(settings, max_new_tokens=TOKENS), ids)
    return known[key]


def _measure_baseline(pair: LoadedPair, settings: Settings, ids: tuple[int, ...]) -> Baseline | None:
    clock = Clock(
        {name: partial(_write_text, way, pair, settings, ids) for name, way in _list_ways(pair, settings, ids).items()},
        synchronize=partial(synchronize_device, pair),
    ).run_until(RUNS)
    factors = {name: clock.compute_ratio(LOOP, name).value for name in clock.contestants if name != LOOP}
    fastest = max(factors, key=lambda name: factors[name], default=None)
    return Baseline(fastest, factors[fastest]) if fastest is not None and factors[fastest] > 1.0 else None


def _list_ways(pair: LoadedPair, settings: Settings, ids: tuple[int, ...]) -> dict[str, Way]:
    """The ways that can write a text with these settings, each tried once."""
    found: dict[str, Way] = {LOOP: lambda *arguments: list(decode_target_only(*arguments))}
    others: dict[str, Way] = {GENERATE: generate_text}
    if pair.target.device.type == "cuda" and settings.engine == COMPILED:
        others[STATIC] = partial(generate_text, cache_implementation="static")
    for name, way in others.items():
        try:
            way(pair, settings, ids)
            found[name] = way
        except Exception as error:  # whatever transformers raises for a model or a processor
            log.info("%s is no baseline here: %s", name, error)
    return found


def _write_text(way: Way, pair: LoadedPair, settings: Settings, ids: tuple[int, ...], lap: Lap) -> None:
    way(pair, replace(settings, seed=lap.run % 2**63), ids)
