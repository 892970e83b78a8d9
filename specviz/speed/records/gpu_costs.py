"""Measurements on a GPU, as a small record that ships: passes of published shapes, drafts, rows, and the shipped pair.

``bench gpu`` writes such a record beside its own, and the cost models that follow from it. The shipped records are in assets/gpus/.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from specviz.records import ASSETS, Record, Schema, read_file
from specviz.speed.records.cost_model import CostModel, DraftCosts

SCHEMA = Schema("gpu-costs", 2, "The record of costs")
FOLDER = ASSETS / "gpus"
GAMMA = 4  # draft tokens of a round in ``GpuCosts.rounds``
COMPILED = ", compiled"  # end of the name of a draft in ``GpuCosts.rounds``


@dataclass(frozen=True, slots=True)
class PairSpeed:
    """Measured speed of a pair under one temperature and dtype.

    Attributes:
        rates: Tokens per second by way of decoding: median, and the ends of its 95% interval.
        baseline: The fastest way without speculation.
        ratios: Times as fast as the baseline, with intervals.
        round_ms: Milliseconds of a round.
        tokens_per_round: Tokens that a round commits, mean.
    """

    rates: dict[str, tuple[float, float, float]]
    baseline: str
    ratios: dict[str, tuple[float, float, float]]
    round_ms: dict[str, float]
    tokens_per_round: dict[str, float]


@dataclass(frozen=True, slots=True)
class GpuCosts(Record):
    """Costs on one machine, in milliseconds, as recorded CUDA graphs in bfloat16.

    Attributes:
        machine: Name of the GPU.
        date: Of the measurement.
        versions: Of torch and transformers.
        passes: By model: T(n) by the number n of tokens.
        compiled: The same, compiled before it was recorded, for some n.
        rows: By model: a pass by rows and tokens of each, as "8 x 5".
        rounds: By target and draft: a round of four draft tokens, as the host sees it.
        replays: The same on the device alone.
        pair: The shipped pair, by dtype and temperature.
    """

    schema = SCHEMA
    machine: str
    date: str
    versions: dict[str, str]
    passes: dict[str, dict[str, float]]
    compiled: dict[str, dict[str, float]]
    rows: dict[str, dict[str, float]]
    rounds: dict[str, dict[str, float]]
    replays: dict[str, dict[str, float]]
    pair: dict[str, PairSpeed]

    @classmethod
    def from_measurement(cls, record: Mapping[str, Any], date: str) -> GpuCosts:
        """What the record of ``bench gpu`` says. ``date``: for a record without one."""
        parts = record["parts"]
        machine, shapes = parts.get("machine", {}), parts.get("passes", {}).get("shapes", {})
        return cls(
            machine.get("gpu", "CPU"),
            machine.get("date", date),
            {name: machine[name] for name in ("torch", "transformers") if name in machine},
            {name: _round_values(found["tokens_ms"]) for name, found in shapes.items() if found.get("tokens_ms")},
            {name: _round_values(found["compiled_ms"]) for name, found in shapes.items() if found.get("compiled_ms")},
            {name: _round_values(found["rows_ms"]) for name, found in shapes.items() if found.get("rows_ms")},
            _read_rounds(shapes, "round"),
            _read_rounds(shapes, "replay"),
            {case: _read_speed(found) for case, found in parts.get("bench", {}).get("cases", {}).items()},
        )

    def build_cost_models(self, layers: Mapping[str, int]) -> dict[str, CostModel]:
        """By target, what decoding costs on the device; only targets whose passes and rounds were timed. layers: of each target."""
        timed = {name for name in layers if "1" in (found := self.passes.get(name, {})) and len(found) > 1}
        rounds = {name: [draft for draft in self.replays.get(name, {}) if "1" in self.passes.get(draft, {})] for name in timed}
        return {name: self._build_cost_model(name, depth, rounds[name]) for name, depth in layers.items() if rounds.get(name)}

    def _build_cost_model(self, target: str, layers: int, drafts: Sequence[str]) -> CostModel:
        """Compiled throughout where that was measured, so that both sides of a ratio are decoded in the fastest way.

        The rest of a round is what remains of it beside its passes.
        """
        passes, compiled = ({int(n): ms for n, ms in found.get(target, {}).items()} for found in (self.passes, self.compiled))
        if is_compiled := passes.keys() <= compiled.keys():
            passes = compiled
        verified = float(np.interp(GAMMA + 1, [*passes], [*passes.values()]))
        costs = []
        for name in drafts:
            steps = self.compiled if is_compiled and name in self.compiled else self.passes
            step, depth = steps[name]["1"], re.search(r"\d+", name)
            whole = self.replays[target].get(f"{name}{COMPILED}" if is_compiled else name, self.replays[target][name])
            costs.append(DraftCosts(int(depth[0]) if depth else 1, step, round(max(0.0, whole - GAMMA * step - verified), 3)))
        return CostModel(
            title=f"{self.machine.removeprefix('NVIDIA ')}, target of {target}",
            machine=self.machine,
            date=f"{datetime.fromisoformat(self.date):%-d %B %Y}",
            conditions=f"bfloat16, random weights of the published shape, CUDA graphs{COMPILED if is_compiled else ''}, time of the device",
            layers=layers,
            target_only=passes[1],
            passes=passes,
            drafts=tuple(sorted(costs, key=lambda draft: draft.layers)),
        )


def list_gpu_costs() -> dict[str, GpuCosts]:
    """The shipped records, by the name of their file."""
    return {path.stem: read_file(path, GpuCosts.from_json) for path in sorted(FOLDER.glob("*.json"))}


def describe_bfloat16() -> str:
    """What the default number type of CUDA means, and what float32 costs: as recorded for the shipped pair on a GPU."""
    speeds = list_gpu_costs()["h200"].pair
    half, single = (max(rate for rate, *_ in speeds[f"{kind}, T=1"].rates.values()) for kind in ("bfloat16", "float32"))
    return (
        "On CUDA numbers are bfloat16 unless --dtype says otherwise: a text has the distribution of the verification pass, "
        "which lies about TV 0.005 a token from that of single passes (float32: 2e-6 at most). float32 costs speed: the shipped "
        f"pair wrote {single:,.0f} tokens a second with it and {half:,.0f} with bfloat16 on an H200, at temperature 1."
    )


def describe_precision(models: Mapping[str, Any]) -> str:
    """What the number type means for a result on CUDA, from the description of its pair; empty on a CPU and for float32."""
    on_cuda = str(models.get("device", "")).startswith("cuda")
    return describe_bfloat16() if on_cuda and models.get("dtype") == "bfloat16" else ""


def _round_values(values: Mapping[Any, float]) -> dict[str, float]:
    return {str(name): round(value, 3) for name, value in values.items()}


def _read_rounds(shapes: Mapping[str, Any], part: str) -> dict[str, dict[str, float]]:
    return {
        name: _round_values({draft: value[part] for draft, value in found["rounds_ms"].items() if part in value})
        for name, found in shapes.items()
        if found.get("rounds_ms")
    }


def _read_speed(record: Mapping[str, Any]) -> PairSpeed:
    intervals = ({name: tuple(values) for name, values in record[part].items()} for part in ("rates", "ratios"))
    rates, ratios = intervals
    return PairSpeed(
        rates, record["baseline"], ratios, *(_round_values(record[part]) for part in ("round_ms", "tokens_per_round"))
    )
