"""Pictures of the questions: bars under each other, as plain records that the component draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specviz.speed.estimate import Estimate

ROLES = (
    "p",
    "q",
    "accepted",
    "residual",
    "plain",
    "strong",
    "wrong",
)  # what a part of a bar may be; the style sheet has a color for each


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar. parts: (role, value) one after the other, value >= 0; said: what is written beside it; mark: where a mark stands;
    interval: from where to where the value may lie."""

    parts: tuple[tuple[str, float], ...]
    said: str
    mark: float | None = None
    interval: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if wrong := [role for role, _ in self.parts if role not in ROLES]:
            raise ValueError(f"a part of a bar is one of {', '.join(ROLES)}, got {wrong[0]!r}")

    @property
    def end(self) -> float:
        return max(sum(value for _, value in self.parts), self.mark or 0.0, self.interval[1] if self.interval else 0.0)


@dataclass(frozen=True, slots=True)
class BarGroup:
    """A name and its bars. now: whether it is the row that is meant."""

    name: str
    lanes: tuple[Bar, ...]
    now: bool = False


@dataclass(frozen=True, slots=True)
class BarPicture:
    """Bars on one scale that begins at 0.

    title     what is drawn, with the unit; key  (role, words) of what needs telling apart; mark  what the marks mean, empty without marks
    line      a value at which a line crosses all bars, and its words
    interval  what the intervals of the bars are, empty without intervals
    """

    title: str
    rows: tuple[BarGroup, ...]
    key: tuple[tuple[str, str], ...] = ()
    mark: str = ""
    line: tuple[float, str] | None = None
    interval: str = ""

    def payload(self) -> dict[str, Any]:
        """JSON for the component; ``most`` is the value at the right edge."""
        most = max(lane.end for row in self.rows for lane in row.lanes)
        if self.line is not None:
            most = max(most, self.line[0])
        rows = [
            {
                "name": row.name,
                "now": row.now,
                "lanes": [
                    {
                        "parts": [list(part) for part in lane.parts],
                        "said": lane.said,
                        "mark": lane.mark,
                        "interval": lane.interval and list(lane.interval),
                    }
                    for lane in row.lanes
                ],
            }
            for row in self.rows
        ]
        return {
            "title": self.title, "rows": rows, "key": [list(one) for one in self.key], "mark": self.mark, "line": self.line and list(self.line),
            "interval": self.interval, "most": most,
        }  # fmt: skip


def draw_amounts(
    title: str, values: Mapping[str, tuple[float, str]], now: str = "", line: tuple[float, str] | None = None
) -> BarPicture:
    """One gray bar for each name; the one named ``now`` is strong. values: name -> (value, how it is written)."""
    rows = (
        BarGroup(name, (Bar((("strong" if name == now else "plain", value),), said),), name == now)
        for name, (value, said) in values.items()
    )
    return BarPicture(title, tuple(rows), line=line)


def draw_estimates(
    title: str, values: Mapping[str, Estimate], interval: str, now: str = "", line: tuple[float, str] | None = None
) -> BarPicture:
    """The same of measured numbers, each with its interval. interval: what it is, in words."""
    rows = tuple(
        BarGroup(
            name,
            (Bar((("strong" if name == now else "plain", one.value),), f"{one.value:.2f}", interval=(one.low, one.high)),),
            name == now,
        )
        for name, one in values.items()
    )
    return BarPicture(title, rows, line=line, interval=interval)


def draw_over_tokens(
    title: str, names: Sequence[str], lanes: Sequence[Sequence[Bar]], key: Sequence[tuple[str, str]], mark: str = ""
) -> BarPicture:
    """Bars of several kinds over the same tokens."""
    rows = tuple(BarGroup(name, tuple(row)) for name, row in zip(names, lanes, strict=True))
    return BarPicture(title, rows, tuple(key), mark)
