"""Pictures of the questions: horizontal bars as plain records that the component draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from specviz.speed.records.estimate import Estimate

ROLES = ("p", "q", "accepted", "residual", "plain", "strong", "wrong")  # of parts of a bar; the style sheet has a color for each


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar.

    Attributes:
        parts: (role, value >= 0) of each part, left to right.
        label: Text beside the bar.
        mark: Where a mark stands.
        interval: Ends of the interval of the value.
    """

    parts: tuple[tuple[str, float], ...]
    label: str
    mark: float | None = None
    interval: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if wrong := [role for role, _ in self.parts if role not in ROLES]:
            raise ValueError(f"a part of a bar is one of {', '.join(ROLES)}, got {wrong[0]!r}")

    @property
    def end(self) -> float:
        """Right end of the bar, its mark and its interval."""
        return max(sum(value for _, value in self.parts), self.mark or 0.0, self.interval[1] if self.interval else 0.0)


@dataclass(frozen=True, slots=True)
class BarGroup:
    """Bars under one name."""

    name: str
    bars: tuple[Bar, ...]
    highlighted: bool = False


@dataclass(frozen=True, slots=True)
class BarPicture:
    """Bars on one scale that begins at 0.

    Attributes:
        title: What is drawn, with the unit.
        groups: From top to bottom.
        legend: (role, words) of the roles that need an explanation.
        mark: Meaning of the marks; empty without marks.
        line: Value at which a line crosses all bars, and its words.
        interval: What the intervals are; empty without intervals.
    """

    title: str
    groups: tuple[BarGroup, ...]
    legend: tuple[tuple[str, str], ...] = ()
    mark: str = ""
    line: tuple[float, str] | None = None
    interval: str = ""

    def build_payload(self) -> dict[str, Any]:
        """JSON for the component; ``most`` is the value at the right edge, 1 where no value is known yet."""
        ends = [bar.end for group in self.groups for bar in group.bars]
        return asdict(self) | {"most": max(*ends, self.line[0] if self.line else 0.0) or 1.0}


def build_comparison(
    title: str,
    values: Mapping[str, Estimate | tuple[float, str]],
    highlighted: str = "",
    line: tuple[float, str] | None = None,
    interval: str = "",
    roles: Mapping[str, str] | None = None,
) -> BarPicture:
    """One bar for each name in the color of its role, else gray; that of ``highlighted`` is strong. A value is an estimate, or a number and its text."""
    groups = []
    for name, value in values.items():
        role = (roles or {}).get(name, "strong" if name == highlighted else "plain")
        if isinstance(value, Estimate):
            bar = Bar(((role, value.value),), f"{value.value:.2f}", interval=(value.low, value.high))
        else:
            bar = Bar(((role, value[0]),), value[1])
        groups.append(BarGroup(name, (bar,), name == highlighted))
    return BarPicture(title, tuple(groups), line=line, interval=interval)


def build_token_bars(
    title: str, names: Sequence[str], bars: Sequence[Sequence[Bar]], legend: Sequence[tuple[str, str]], mark: str = ""
) -> BarPicture:
    """Bars of several kinds for each of the named tokens."""
    groups = tuple(BarGroup(name, tuple(row)) for name, row in zip(names, bars, strict=True))
    return BarPicture(title, groups, tuple(legend), mark)
