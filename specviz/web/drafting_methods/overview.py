"""Every drafting method as a line with its drawing, its tokens per target pass and its speed: one chart, from the comparison alone. No torch."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any
from xml.etree import ElementTree

from specviz.records import ASSETS, load_toml
from specviz.speed.records.methods import ComputedComparison, MethodComparison, MethodRow
from specviz.web.drafting_methods.words import UNSURE, compare_with_target, compute_speed, find_fastest, format_range, is_computed

TEXTS = load_toml("texts/drafting_methods")
TICK_STEP = 0.5  # of the speed
ICONS = ASSETS / "components" / "drafting_methods" / "chart" / "icons.svg"

Shape = tuple[str, dict[str, Any]]  # SVG element, attributes


@lru_cache(maxsize=1)
def load_icons() -> dict[str, list[Shape]]:
    """The drawing of each method by its key: the shapes of its group in ICONS, with those of the parts that it uses."""
    groups = {group.get("id", ""): group for group in ElementTree.parse(ICONS).getroot()}

    def list_shapes(key: str) -> Iterator[Shape]:
        for shape in groups[key]:
            name = shape.tag.partition("}")[2]
            if name == "use":
                yield from list_shapes(shape.get("href", "")[1:])
            else:
                yield name, {key: text if key in ("class", "d") else float(text) for key, text in shape.attrib.items()}

    return {key: list(list_shapes(key)) for key in groups if not key.startswith("part-")}


def build_overview(comparison: MethodComparison, elsewhere: ComputedComparison | None = None) -> dict[str, Any]:
    """Payload of the component.

    Args:
        comparison: What is compared.
        elsewhere: The same with the costs of another machine, each row's speed there as a second mark; None: none.

    Returns:
        ``rows``, the fastest first and lossy rules last: per method key, name, line (its first sentence), group (a heading, or empty), drawing
        (shapes), inSight, tag beside the name, pass (tokens per target pass) and speed (times target only), each null or {"at", "said"}; at is a share of the axis. The cost is what a round
        takes, in passes of target-only sampling. The speed has low, high, span (in words), told (faster,
        slower or neither) and whether it is computed. ``other`` is the speed elsewhere, null or {"at", "said"}.
        ``marks`` explains the dots.
        ``ticks`` of the speed, {"at", "said"}; ``unit``: place of target-only sampling; ``key`` and ``size`` of the drawings.
    """
    found = {row.key: compute_speed(row, comparison) for row in comparison.rows}
    others = {} if elsewhere is None else {
        row.key: speed for row in elsewhere.rows if row.key != "target" and (speed := compute_speed(row, elsewhere)) is not None
    }  # fmt: skip
    farthest = max((each.high for each in (*found.values(), *others.values()) if each is not None), default=1.0)
    end = TICK_STEP * (int(max(farthest, 1.5) / TICK_STEP) + 1)
    most = max((row.per_pass for row in comparison.rows if row.per_pass is not None), default=1.0)
    best = find_fastest(comparison)
    rows = []
    for row in sort_by_speed(comparison):
        times, other = found[row.key], others.get(row.key)
        said = None if times is None else {
            "at": times.value / end, "low": times.low / end, "high": times.high / end, "told": name_comparison(row, comparison),
            "said": "1" if row.key == "target" else f"{times.value:.2f}", "span": format_range(times) if compare_with_target(row, comparison) else "",
            "computed": row.key != "target" and is_computed(row, comparison),
        }  # fmt: skip
        rows.append({
            "key": row.key, "name": row.entry.name, "line": take_first_sentence(row.entry.description), "group": "" if is_exact(row) else TEXTS["lossy_group"],
            "drawing": load_icons()[row.key], "inSight": row.key in TEXTS["in_sight"] or row is best, "tag": build_tag(row),
            "pass": None if row.per_pass is None else {"at": row.per_pass / most, "said": f"{row.per_pass:.2f}"}, "speed": said,
            "other": None if other is None else {"at": other.value / end, "said": f"{other.value:.2f}"},
            "cost": None if row.per_pass is None or times is None else f"{row.per_pass / times.value:.2f}",
        })  # fmt: skip
    ticks = [{"at": TICK_STEP * count / end, "said": f"{TICK_STEP * count:g}"} for count in range(1, round(end / TICK_STEP))]
    marks = TEXTS["marks_computed" if any(is_computed(row, comparison) for row in comparison.rows) else "marks"]
    if elsewhere is not None:
        marks = f"{marks} {TEXTS['marks_elsewhere'].format(machine=elsewhere.cost_model.title)}"
    return {
        "rows": rows,
        "ticks": ticks,
        "unit": 1.0 / end,
        "key": TEXTS["drawings"],
        "marks": marks,
        "size": [132, 44],
    }


def is_exact(row: MethodRow) -> bool:
    """Whether its rule is exact, as far as it could run."""
    return row.exact or bool(row.reason)


def sort_by_speed(comparison: MethodComparison) -> list[MethodRow]:
    """The rows with an exact rule, the fastest first and those without a speed last; then the others in the same order."""

    def rank(row: MethodRow) -> tuple[bool, float]:
        speed = compute_speed(row, comparison)
        return not is_exact(row), -speed.value if speed else 0.0

    return sorted(comparison.rows, key=rank)


def name_comparison(row: MethodRow, comparison: MethodComparison) -> str:
    """Faster or slower than target-only sampling, or that no difference is seen; empty without intervals."""
    told = compare_with_target(row, comparison)
    return "no difference seen" if told == UNSURE else told


def build_tag(row: MethodRow) -> str:
    """A word for a method that is left out or not exact; empty for the others."""
    if row.reason:
        return "left out"
    return "" if row.exact else "lossy, same text here" if row.coincides else "lossy"


def take_first_sentence(text: str) -> str:
    """The first sentence of a description; the whole is shown beside a round of the method."""
    head, stop, _ = text.partition(". ")
    return head + "." if stop else text
