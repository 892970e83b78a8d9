"""Every drafting method as a picture of a round with its speed, and all of them as one chart: from the comparison alone. No torch."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any
from xml.etree import ElementTree

from specviz.records import ASSETS, load_toml
from specviz.speed.records import headline
from specviz.speed.records.methods import ComputedComparison, MethodComparison, MethodRow
from specviz.web.drafting_methods.tree import build_tree
from specviz.web.drafting_methods.words import (
    FASTER,
    SLOWER,
    UNSURE,
    answer_which_pay,
    compare_with_target,
    compute_speed,
    find_fastest,
    format_range,
    is_bound,
    is_computed,
    locate,
)

TEXTS = load_toml("texts/drafting_methods")
CHART, PICTURE = TEXTS["chart"], TEXTS["picture"]
ROUND_NODE = ("glyphs", "name", "parent", "status", "col", "line")  # fields of a token of a round
SIZE = (132, 44)  # of the drawings
MARGIN = 0.1  # of the axis, in times target only
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


def build_overview(where: str, *comparisons: MethodComparison) -> dict[str, Any]:
    """Payload of the chart, which shows the speeds of one machine at a time.

    Args:
        where: The machine of speeds that were measured, as in "on two CPU cores".
        comparisons: The same methods, once for each machine.

    Returns:
        ``rows``, a method each, in the order of the record: key, name, line (its first sentence), group (a heading, or empty), drawing (shapes),
        inSight, tag beside the name. ``views``, a machine each, in the order given: label, answer (how many are faster, and which), note (what the bars
        are) and ``speeds``, the fastest first and lossy rules last: key, pass (tokens per target pass), cost (what a round takes, in passes
        of target-only sampling) and speed (times target only), each null where unknown. A speed has at, low, high (shares of the axis),
        said, span (its range in words), told (faster, slower, neither, at most), unsure (neither), computed, and bound (it is the most that
        it can be). ``axis``: its ends, in times target only; ``unit``: place of target-only sampling on it; ``size`` of the drawings.
    """
    speeds = [speed for one in comparisons for row in one.rows if (speed := compute_speed(row, one)) is not None]
    axis = (min((each.low for each in speeds), default=0.5) - MARGIN, max((each.high for each in speeds), default=1.5) + MARGIN)
    best = find_fastest(comparisons[0])
    rows = [
        {
            "key": row.key, "name": row.entry.name, "line": take_first_sentence(row.entry.description), "tag": build_tag(row),
            "group": "" if is_exact(row) else TEXTS["lossy_group"], "drawing": load_icons()[row.key],
            "inSight": row.key in TEXTS["in_sight"] or row is best,
        }
        for row in comparisons[0].rows
    ]  # fmt: skip
    return {
        "rows": rows,
        "views": [_build_view(one, where, axis) for one in comparisons],
        "axis": axis,
        "unit": _place(1.0, axis),
        "size": SIZE,
    }


def _build_view(comparison: MethodComparison, where: str, axis: tuple[float, float]) -> dict[str, Any]:
    """The chart on one machine. axis: its ends, in times target only."""
    place = locate(comparison, where)
    count, answer = answer_which_pay(comparison, place)
    speeds = []
    for row in sort_by_speed(comparison):
        times = compute_speed(row, comparison)
        speeds.append({
            "key": row.key, "pass": None if row.per_pass is None else f"{row.per_pass:.2f}",
            "cost": None if row.per_pass is None or times is None else format_cost(row.per_pass, times.value),
            "speed": None if times is None else {
                "at": _place(times.value, axis), "low": _place(times.low, axis), "high": _place(times.high, axis), "told": name_comparison(row, comparison),
                "said": "1" if row.key == "target" else f"{times.value:.2f}", "span": format_range(times) if compare_with_target(row, comparison) else "",
                "unsure": compare_with_target(row, comparison) == UNSURE, "computed": row.key != "target" and is_computed(row, comparison),
                "bound": is_bound(row, comparison),
            },
        })  # fmt: skip
    kind = "computed" if isinstance(comparison, ComputedComparison) else "measured"
    label = CHART["label"].format(machine=place.removeprefix("on ").removeprefix("an "), kind=kind)
    return {"label": label, "answer": [count, answer], "note": CHART[f"note_{kind}"], "speeds": speeds}


def _place(speed: float, axis: tuple[float, float]) -> float:
    """A speed as a share of the axis."""
    return (speed - axis[0]) / (axis[1] - axis[0])


def build_picture(comparison: MethodComparison, where: str) -> dict[str, Any]:
    """Payload of the picture of one method at a time.

    Args:
        comparison: What is compared.
        where: The machine of speeds that were measured, as in "on two CPU cores".

    Returns:
        ``rows``, in the order of the record, whatever their speed: key, name, tag, group, inSight, drawing and about as in the chart; round: a recorded one as in
        ``build_tree``, without its steps and distributions, null where there is none; ``speed``: its number with what it means, and a note of
        how it comes about, each empty where it is unknown; other: why another page has another one. ``size`` of the drawings; ``first``: shown before any is chosen.
    """
    best, rows = find_fastest(comparison), []
    for row in comparison.rows:
        rows.append({
            "key": row.key, "name": row.entry.name, "tag": build_tag(row), "group": "" if is_exact(row) else TEXTS["lossy_group"],
            "about": row.reason or take_first_sentence(row.entry.description), "drawing": load_icons()[row.key],
            "inSight": row.key in TEXTS["in_sight"] or (row is best and not is_bound(row, comparison)), "round": _build_round(row), "speed": _describe_speed(row, comparison, where),
        })  # fmt: skip
    return {"rows": rows, "size": SIZE, "first": PICTURE["first"]}


def _describe_speed(row: MethodRow, comparison: MethodComparison, where: str) -> dict[str, str]:
    """The speed of a method as a number, what that means, and how many tokens a round writes in which time."""
    found = compute_speed(row, comparison)
    if row.key == "target":
        return {"number": "1×", "means": PICTURE["means"], "note": PICTURE["alone"], "other": ""}
    if row.per_pass is None:
        return {"number": "", "means": "", "note": "", "other": ""}
    tokens = f"{row.per_pass:.2f}".removesuffix(".00")
    tokens += " token" if tokens == "1" else " tokens"
    if found is None:
        missing = PICTURE["not_computed" if isinstance(comparison, ComputedComparison) else "not_timed"]
        return {"number": "", "means": "", "note": missing.format(tokens=tokens), "other": ""}
    means, bound = "means", is_bound(row, comparison)
    if not row.exact:
        means = "lossy"
    elif bound:
        means = "bound"
    elif (told := compare_with_target(row, comparison)) in (SLOWER, UNSURE):
        means = "slower" if told == SLOWER else "unsure"
    elif is_computed(row, comparison) and found.value < 1.0:
        means = "slower"
    passes = f"{'at least ' if bound else ''}{format_cost(row.per_pass, found.value)}"
    how = PICTURE["computed" if is_computed(row, comparison) else "measured"].format(
        place=where, machine=locate(comparison, where).removeprefix("on ")
    )
    note = PICTURE["cost"].format(tokens=tokens, passes=passes, how=how)
    return {"number": f"{found.value:.2f}×", "means": PICTURE[means], "note": note, "other": _relate_to_headline(row, comparison)}


def _relate_to_headline(row: MethodRow, comparison: MethodComparison) -> str:
    """Why How fast? names another speed of the draft model; empty for other rows, and where the headline is of another pair or temperature."""
    found = headline.find_headline(comparison.settings)
    if found is None or row.key != PICTURE["first"] or isinstance(comparison, ComputedComparison):
        return ""
    return PICTURE["other"].format(gamma=comparison.settings.gamma, there=headline.GAMMA, speed=found[0])


def format_cost(per_pass: float, speed: float) -> str:
    """The time of a round in passes, with as many digits as it takes to divide the printed tokens by it and find the printed speed."""
    tokens = float(f"{per_pass:.2f}")
    costs = [f"{per_pass / speed:.2f}", *(f"{tokens / speed:.{digits}f}" for digits in (3, 4))]
    return next((cost for cost in costs if f"{tokens / float(cost):.2f}" == f"{speed:.2f}"), costs[-1])


def _build_round(row: MethodRow) -> dict[str, Any] | None:
    if row.trace is None:
        return None
    tree = build_tree(row.trace)
    nodes = [{name: node[name] for name in ROUND_NODE} for node in tree["nodes"]]
    ending = tree["ending"] and {name: tree["ending"][name] for name in (*ROUND_NODE, "kind") if name != "status"}
    return {name: tree[name] for name in ("before", "columns", "lines")} | {"nodes": nodes, "ending": ending}


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
    """Faster or slower than target-only sampling, or that the runs cannot tell, or that it is only a bound; else empty without intervals. A lossy method is never only faster."""
    if is_bound(row, comparison):
        return "at most"
    told = compare_with_target(row, comparison)
    if told == UNSURE:
        return "too close to call"
    return f"{told}, but lossy" if told == FASTER and not row.exact else told


def build_tag(row: MethodRow) -> str:
    """A word for a method that is left out or not exact; empty for the others."""
    if row.reason:
        return "left out"
    return "" if row.exact else "lossy, same text here" if row.coincides else "lossy"


def take_first_sentence(text: str) -> str:
    """The first sentence of a description; the whole is shown beside a round of the method."""
    head, stop, _ = text.partition(". ")
    return head + "." if stop else text
