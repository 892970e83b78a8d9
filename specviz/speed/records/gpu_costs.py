"""Costs that were measured on a GPU, as a small record that ships: passes of published shapes, drafts, rows, and the shipped pair.

``bench gpu`` writes such a record beside its own. The shipped ones are in assets/costs/.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from specviz.records import ASSETS, Schema, build, read_file, to_json_value

SCHEMA = Schema("gpu-costs", 1, "The record of costs")
FOLDER = ASSETS / "costs"


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
class GpuCosts:
    """Costs on one machine, in milliseconds, as recorded CUDA graphs in bfloat16.

    Attributes:
        machine: Name of the GPU.
        date: Of the measurement.
        versions: Of torch and transformers.
        passes: By model: T(n) by the number n of tokens.
        rows: By model: a pass by rows and tokens of each, as "8 x 5".
        rounds: By target and draft: a round of four draft tokens.
        pair: The shipped pair, by dtype and temperature.
    """

    machine: str
    date: str
    versions: dict[str, str]
    passes: dict[str, dict[str, float]]
    rows: dict[str, dict[str, float]]
    rounds: dict[str, dict[str, float]]
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
            {name: _round_values(found["rows_ms"]) for name, found in shapes.items() if found.get("rows_ms")},
            {
                name: _round_values({draft: value["round"] for draft, value in found["rounds_ms"].items()})
                for name, found in shapes.items()
                if found.get("rounds_ms")
            },
            {case: _read_speed(found) for case, found in parts.get("bench", {}).get("cases", {}).items()},
        )

    @classmethod
    def from_json(cls, text: str) -> GpuCosts:
        """The costs that ``to_json`` wrote. Raises TraceError for anything else."""
        return SCHEMA.read(text, lambda record: build(cls, record))

    def to_json(self) -> str:
        """The costs as a record."""
        return SCHEMA.text(to_json_value(self), indent=1)


def list_gpu_costs() -> dict[str, GpuCosts]:
    """The shipped records, by the name of their file."""
    return {path.stem: read_file(path, GpuCosts.from_json) for path in sorted(FOLDER.glob("*.json"))}


def _round_values(found: Mapping[Any, float]) -> dict[str, float]:
    return {str(name): round(value, 3) for name, value in found.items()}


def _read_speed(found: Mapping[str, Any]) -> PairSpeed:
    intervals = ({name: tuple(values) for name, values in found[part].items()} for part in ("rates", "ratios"))
    rates, ratios = intervals
    return PairSpeed(rates, found["baseline"], ratios, *(_round_values(found[part]) for part in ("round_ms", "tokens_per_round")))
