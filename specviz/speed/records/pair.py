"""A record of one pair, or of one drafting method on a target: what the gallery in docs/models.md says of it. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from specviz.errors import SettingsError
from specviz.records import ASSETS, Record, Schema, read_text
from specviz.speed.records.estimate import Estimate
from specviz.speed.records.plan import SpeedPlan

SCHEMA = Schema("pair", 1, "The record of a pair")
FOLDER = ASSETS / "pairs"
MOST_LETTERS = {"title": 120, "license": 120, "sample": 2000}
COLUMNS = (
    "target and draft",
    "accepted at positions 1, 2, 3",
    "1 - TV",
    "tokens per target pass",
    "best speed-up",
    "machine",
    "license",
)
COLUMNS_GAMMA = 4  # draft tokens at which tokens per target pass are listed


@dataclass(frozen=True, slots=True)
class PairRecord(Record):
    """What was measured of a pair on one machine.

    Attributes:
        title: Of target and draft, or of target and method.
        license: Of the weights, as the person states it who made the record.
        plan: Acceptance by position, tokens per target pass by gamma, and, unless speed was left out, costs and speed-ups. It names
            the machine, the models with their hashes, the settings and the date.
        divergences: Means over the tokens of texts that the target wrote, each with its interval over texts; by the names of
            verification/overlap.py, such as ``beta`` (1 - TV) and ``kl_pq`` (nats). Empty where no model drafts.
        sample: A text that the target wrote, with its opening.
    """

    schema = SCHEMA
    title: str
    license: str
    plan: SpeedPlan
    divergences: Mapping[str, Estimate]
    sample: str

    def __post_init__(self) -> None:
        for name, most in MOST_LETTERS.items():
            text = getattr(self, name)
            if not 0 < len(text) <= most or not all(letter.isprintable() or letter in "\n\t" for letter in text):
                raise SettingsError(name, text[:60], f"1 to {most:,} printable characters")

    def list_cells(self) -> dict[str, str]:
        """A row of the gallery, by column."""
        plan, beta = self.plan, self.divergences.get("beta")
        row = next(row for row in plan.rows if row.gamma == min(COLUMNS_GAMMA, plan.rows[-1].gamma))
        accepted = ", ".join(one.format(".2f") for one in plan.positions[:3])
        best = plan.row(int(plan.best.value)) if plan.best else None
        speed = "not measured" if plan.best is None else "none pays" if best is None else best.speedup.format(".2f")
        cells = (
            self.title,
            accepted or "none drafted",
            beta.format(".2f") if beta else "no model drafts",
            f"{row.tokens.format('.2f')} at gamma {row.gamma}",
            speed + (f" at gamma {best.gamma}" if best else ""),
            f"{plan.machine.get('processor', 'unknown')}, {plan.date}",
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
