"""A record of one pair, or of one drafting method on a target: what the gallery in docs/models.md says of it. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specviz.errors import SettingsError
from specviz.records import ASSETS, Record, Schema, build_fields, read_text, to_json_fields
from specviz.settings import Settings
from specviz.speed.records.baseline import Baseline
from specviz.speed.records.estimate import Estimate
from specviz.speed.records.plan import MeasuredRow, PlanRow, SpeedPlan, explain_measured_speeds, find_fastest

SCHEMA = Schema("pair", 1, "The record of a pair")
FOLDER = ASSETS / "pairs"
MOST_LETTERS = {"title": 120, "license": 120, "sample": 2000}
COLUMNS = (
    "target and draft",
    "rounds with a draft",
    "of these, accepted at positions 1, 2, 3",
    "1 - TV",
    "tokens per target pass",
    "best speed-up",
    "how",
    "machine",
    "license",
)
COLUMNS_GAMMA = 4  # draft tokens at which tokens per target pass are listed
COUNTED, DECODED = "counted", "decoded"  # how tokens per target pass were found


@dataclass(frozen=True, slots=True)
class DecodedMethod:
    """A drafting method whose rounds no plan can count along given texts, so that the engine decoded with it.

    Attributes:
        text: As in SpeedPlan.
        openings, opening, length: Texts, tokens of the given text before each, and tokens of each.
        rows: One for each draft length, ascending, without gaps to a prediction; ``factor`` beside target-only sampling of the same texts. A
            method that reads no draft length has one row, whose gamma is the length of the longest path that it drafted.
        drafted: Share of the rounds with a draft token, at the largest draft length.
        positions: At the largest draft length, by depth: how often a draft token is accepted, among those that are checked.
        target_only_rates: Tokens per second of target-only sampling, by run; None where no speed was measured.
        baseline: As in SpeedPlan.
    """

    settings: Settings
    text: Mapping[str, Any]
    openings: int
    opening: int
    length: int
    rows: tuple[MeasuredRow, ...]
    drafted: Estimate
    positions: tuple[Estimate, ...]
    machine: Mapping[str, Any]
    models: Mapping[str, Any]
    date: str
    target_only_rates: tuple[float, ...] | None = None
    baseline: Baseline | None = None

    def __post_init__(self) -> None:
        if not self.rows:
            raise SettingsError("rows", "none", "one or more")

    @property
    def inconclusive_reason(self) -> str:
        """Why the measured speeds are not believed, as a sentence; empty where they are."""
        return explain_measured_speeds(self.rows)

    @property
    def in_words(self) -> str:
        """The measured speed-up of the best draft length, as a sentence."""
        best = find_fastest(self.rows)
        if best is None or best.factor is None:
            return "Measured by decoding, without speed."
        if self.inconclusive_reason:
            return f"No verdict: {self.inconclusive_reason}"
        said = f"{best.factor.format()} times the speed of target-only sampling at gamma {best.gamma}, measured by decoding."
        return said if best.factor.low > 1.0 else f"Do not speculate: the best draft length has {said}"


@dataclass(frozen=True, slots=True)
class PairRecord(Record):
    """The measurements of a pair on one machine.

    Attributes:
        title: Of target and draft, or of target and method.
        license: Of the weights, as the person states it who made the record.
        plan: Acceptance by position, tokens per target pass by gamma, and, unless speed was left out, costs and speed-ups. It names
            the machine, the models with their hashes, the settings and the date. None where a plan cannot count the method.
        divergences: Means over the tokens of texts that the target wrote, each with its interval over texts; by the names of
            verification/overlap.py, such as ``beta`` (1 - TV) and ``kl_pq`` (nats). Empty where no model drafts.
        sample: A text that the target wrote, with its opening.
        decoded: In place of a plan: the same, from rounds that the engine decoded.
    """

    schema = SCHEMA
    title: str
    license: str
    plan: SpeedPlan | None
    divergences: Mapping[str, Estimate]
    sample: str
    decoded: DecodedMethod | None = None

    def __post_init__(self) -> None:
        for name, most in MOST_LETTERS.items():
            text = getattr(self, name)
            if not 0 < len(text) <= most or not all(letter.isprintable() or letter in "\n\t" for letter in text):
                raise SettingsError(name, text[:60], f"1 to {most:,} printable characters")
        if (self.plan is None) == (self.decoded is None):
            raise SettingsError("plan", "a plan and decoded rounds, or neither", "one of the two")

    def to_record(self) -> dict[str, Any]:
        """JSON-ready, with the plan or the decoded rounds."""
        return {name: value for name, value in to_json_fields(self).items() if value is not None}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> PairRecord:
        return build_fields(cls, {"plan": None, "decoded": None} | record)

    @property
    def source(self) -> SpeedPlan | DecodedMethod:
        """What its numbers come from."""
        found = self.plan or self.decoded
        assert found is not None, "a record has one of the two"
        return found

    @property
    def row(self) -> PlanRow | MeasuredRow:
        """Of COLUMNS_GAMMA draft tokens, or of the most that there are."""
        rows = self.source.rows
        return next(row for row in rows if row.gamma == min(COLUMNS_GAMMA, rows[-1].gamma))

    @property
    def drafted(self) -> float | None:
        """Share of the rounds that have a draft token, at the largest draft length; None in older records."""
        if self.plan is None:
            return self.decoded.drafted.value if self.decoded else None
        sizes = self.plan.rows[-1].round_sizes
        return 1.0 - sizes[0] / sum(sizes) if sizes else None

    def describe_speed(self) -> str:
        """The best speed-up, measured or predicted, or why there is none, as a cell of a table."""
        plan, decoded = self.plan, self.decoded
        found = find_fastest(plan.rows) if plan is not None else find_fastest(decoded.rows) if decoded is not None else None
        if found is None or found.factor is None:
            return "not measured"
        if plan is not None and plan.busy:
            return "no verdict: the machine was busy"
        if decoded is not None and decoded.inconclusive_reason:
            return "no verdict: few runs, or a busy machine"
        return f"{found.factor.format()} at gamma {found.gamma}, {'predicted' if plan is not None else 'measured'}"

    def list_cells(self) -> dict[str, str]:
        """A row of the gallery, by column."""
        beta, machine = self.divergences.get("beta"), self.source.machine
        accepted = ", ".join(one.format(".2f") for one in self.source.positions[:3])
        cells = (
            self.title,
            "–" if self.drafted is None else f"{self.drafted:.0%}",
            accepted or "none drafted",
            beta.format(".2f") if beta else "no model drafts",
            f"{self.row.tokens.format('.2f')} at gamma {self.row.gamma}",
            self.describe_speed(),
            COUNTED if self.plan is not None else DECODED,
            f"{machine.get('processor', 'unknown')}, {self.source.date}",
            self.license,
        )
        return dict(zip(COLUMNS, cells, strict=True))


def load_pair_records(folder: Path = FOLDER) -> list[PairRecord]:
    """All records of the gallery, by title."""
    texts = [read_text(path, f"'{path.name}'") for path in sorted(folder.glob("*.json"))]
    return sorted((PairRecord.from_json(text) for text in texts), key=lambda one: one.title)


def format_gallery(records: Sequence[PairRecord]) -> str:
    """The table in docs/models.md."""
    if not records:
        return "No pair was recorded yet.\n"
    rows = [COLUMNS, ("---",) * len(COLUMNS), *(one.list_cells().values() for one in records)]
    lines = ("| " + " | ".join(cell.replace("|", "/").replace("\n", " ") for cell in row) + " |" for row in rows)
    return "\n".join(lines).replace("| --- |", "|---|").replace(" --- |", "---|") + "\n"
