"""Cost models: what decoding costs on a machine, by the parts of a round. Plain records, no torch.

A cost model is a file: one machine, one size of target, and drafts of several depths. With the tokens per pass of any pair it gives
the speed that the pair would have there. The shipped ones are in assets/costs/.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np

from specviz.errors import SettingsError
from specviz.records import ASSETS, Record, Schema, read_file_or, read_text, record_key
from specviz.settings import check_number, check_whole

SCHEMA = Schema("costs", 1, "The cost model")
FOLDER = ASSETS / "costs"
ON_RECORD = "two-cpu-cores"  # the shipped cost model of the machine that the recorded speeds were timed on
SERVER = "h200-8b"  # the one that stands for a server's GPU
MOST_MS = 1e6  # of any time in a file
MOST_TOKENS = 1 << 20
MOST_LAYERS = 10_000
MOST_DRAFTS = 16
MOST_LETTERS = 300  # of a text in a file
TIME = f"a number of milliseconds above 0 and at most {MOST_MS:g}"


@dataclass(frozen=True, slots=True)
class DraftCosts:
    """What drafting with a model of some depth costs, in milliseconds.

    Attributes:
        layers: Of the draft model; 0: no model drafts, as where tokens are copied.
        step: One draft step: pass, distribution and draw. 0 where no model drafts.
        rest: What a round takes beside its draft steps and the target's pass: the rule, and the work between passes.
    """

    layers: int
    step: float
    rest: float

    def __post_init__(self) -> None:
        check_whole("layers of a draft", self.layers, 0, MOST_LAYERS)
        check_number("step of a draft", self.step, 0.0, MOST_MS, TIME, above=self.layers > 0)
        check_number("rest of a round", self.rest, 0.0, MOST_MS, TIME.replace("above 0", "from 0"))


@dataclass(frozen=True, slots=True)
class CostModel(Record):
    """What decoding costs on one machine with a target of one size, in milliseconds.

    Attributes:
        title: Names machine and target, such as "H200, target of 1.7B".
        machine: What it was measured on.
        date: Of the measurement.
        conditions: How it was measured: number type, engine, weights.
        layers: Of the target.
        target_only: One token of target-only sampling, by the fastest way that was measured.
        passes: T(n), the target's pass, by the number n of its tokens; 1 is among them.
        drafts: By depth, the shallowest first; at least one with a model.
    """

    schema = SCHEMA
    title: str
    machine: str
    date: str
    conditions: str
    layers: int
    target_only: float = field(metadata=record_key("alone"))
    passes: Mapping[int, float]
    drafts: tuple[DraftCosts, ...]

    def __post_init__(self) -> None:
        for name in ("title", "machine", "date", "conditions"):
            text = getattr(self, name)
            if not 0 < len(text) <= MOST_LETTERS or not text.isprintable():
                raise SettingsError(name, text[:60], f"one line of 1 to {MOST_LETTERS} characters")
        check_whole("layers", self.layers, 1, MOST_LAYERS)
        check_number("alone", self.target_only, 0.0, MOST_MS, TIME, above=True)
        for tokens, ms in self.passes.items():
            check_whole("tokens of a pass", tokens, 1, MOST_TOKENS)
            check_number(f"passes of {tokens} tokens", ms, 0.0, MOST_MS, TIME, above=True)
        if 1 not in self.passes or len(self.passes) < 2:
            raise SettingsError(
                "passes", sorted(self.passes)[:8], "times of a pass over 1 token and over at least one larger number"
            )
        layers = [draft.layers for draft in self.drafts]
        if layers != sorted(set(layers)) or not any(layers) or len(layers) > MOST_DRAFTS:
            raise SettingsError(
                "drafts", layers[:8], f"1 to {MOST_DRAFTS} of different depth, the shallowest first, at least one with layers"
            )

    def describe(self) -> str:
        """Where the costs come from."""
        return f"Costs of {self.title}: {self.machine}, {self.date}; {self.conditions}."

    def compute_pass(self, tokens: float) -> float:
        """T(n) by linear interpolation; beyond the longest pass along its last two."""
        sizes = np.array(sorted(self.passes))
        times = np.array([self.passes[n] for n in sizes.tolist()])
        if tokens <= sizes[-1]:
            return float(np.interp(tokens, sizes, times))
        slope = (times[-1] - times[-2]) / (sizes[-1] - sizes[-2])
        return float(times[-1] + max(0.0, slope) * (tokens - sizes[-1]))

    def find_draft(self, layers: int | None = None) -> DraftCosts:
        """The draft model with the nearest number of layers, by default the shallowest. 0: what a round costs that no model drafts for."""
        models = [draft for draft in self.drafts if draft.layers]
        if layers == 0:
            shallow = self.drafts[0]
            return shallow if not shallow.layers else DraftCosts(0, 0.0, shallow.rest)
        return min(models, key=lambda draft: abs(draft.layers - (layers or 0)))

    def compute_round(self, tokens: float, steps: float, draft: DraftCosts) -> float:
        """A round whose pass reads ``tokens`` draft tokens, which took ``steps`` steps of a draft."""
        return steps * draft.step + self.compute_pass(1 + tokens) + draft.rest


@lru_cache(maxsize=1)
def load_cost_models() -> dict[str, CostModel]:
    """The shipped cost models by the name of their file; without those that are damaged."""
    found = {path.stem: read_file_or(path, CostModel.from_json, None) for path in sorted(FOLDER.glob("*.json"))}
    return {name: model for name, model in found.items() if model is not None}


def find_cost_model(name: str) -> CostModel:
    """A shipped cost model by its name, or the one in a file.

    Raises SettingsError for an unknown name and TraceError for a file that holds something else.
    """
    if (known := load_cost_models().get(name)) is not None:
        return known
    if not Path(name).is_file():
        raise SettingsError("costs", name, f"{', '.join(load_cost_models())}, or a file with a cost model")
    return CostModel.from_json(read_text(Path(name), SCHEMA.noun))
