"""Every drafting method as a picture of a round with its speed, and all of them as one chart: from the comparison alone. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any
from xml.etree import ElementTree

from specviz.records import ASSETS, load_toml
from specviz.speed.records.methods import ComputedComparison, MethodComparison, MethodRow
from specviz.web.drafting_methods.tree import build_tree
from specviz.web.drafting_methods.words import (
    FASTER,
    SLOWER,
    UNSURE,
    WIDE,
    answer_which_pay,
    compare_passes,
    compare_with_target,
    compute_speed,
    describe_texts,
    explain_other_machine,
    find_fastest,
    format_range,
    is_bound,
    is_computed,
    is_exact,
    is_faster,
    is_tied,
    locate,
)

TEXTS = load_toml("texts/drafting_methods")
CHART, PICTURE = TEXTS["chart"], TEXTS["picture"]
ROUND_NODE = ("glyphs", "name", "parent", "status", "col", "line")  # fields of a token of a round
SIZE = (132, 44)  # of the drawings
MARGIN = 0.1  # of the axis, in times target only
TICKS = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0)  # in times target only
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
    """Payload of the chart, which has a column for each machine.

    Args:
        where: The machine of speeds that were measured, as in "on two CPU cores".
        comparisons: The same methods, once for each machine, the measured one first.

    Returns:
        ``rows``, a method each, in the order of the record: key, name, line (its first sentence), group (a heading, or empty), drawing (shapes),
        inSight, tag beside the name. ``views``, a machine each, in the order given: label, from (how its speeds are known), answer (how many are
        faster), note (what the bars are) and ``speeds``, the fastest first and lossy rules last: key, pass (tokens per target pass), cost (what
        a round takes, in tokens of target-only sampling) and speed (times target only), each null where unknown. A speed has at, low, high
        (shares of the axis), said, span (its range in words), verdict (faster, slower, neither, tied with the first, at most), unsure (neither),
        computed, and bound (it is the most that it can be). ``axis``: its ends, in times target only; ``ticks`` on it: at, said; ``unit``:
        place of target-only sampling on it; ``setting``: what all speeds have in common; ``shapes`` of the drawings, each with what it means; ``why``: what explains the large trees, or empty; ``size`` of the drawings.
    """
    speeds = [speed for one in comparisons for row in one.rows if (speed := compute_speed(row, one)) is not None]
    axis = (min((each.low for each in speeds), default=0.5) - MARGIN, max((each.high for each in speeds), default=1.5) + MARGIN)
    best = find_fastest(comparisons[0])
    rows = [
        {
            "key": row.key, "name": row.entry.name, "line": take_first_sentence(row.entry.description), "tag": build_tag(row),
            "group": "" if is_exact(row) else TEXTS["lossy_group"], "drawing": load_icons()[row.key],
            "inSight": row.key in TEXTS["in_sight"] or row is best or is_faster(row, comparisons[0]),
        }
        for row in comparisons[0].rows
    ]  # fmt: skip
    return {
        "rows": rows,
        "views": [_build_view(one, where, axis) for one in comparisons],
        "axis": axis,
        "ticks": [{"at": _place(one, axis), "said": f"{one:g}×"} for one in TICKS if axis[0] < one < axis[1]],
        "unit": _place(1.0, axis),
        "why": explain_other_machine(comparisons[0], _find_computed(comparisons), where),
        "setting": CHART["setting"].format(texts=describe_texts(comparisons[0]), temperature=name_sampling(comparisons[0])),
        "shapes": CHART["shapes"],
        "size": SIZE,
    }


def _find_computed(comparisons: Iterable[MethodComparison]) -> ComputedComparison | None:
    """The one of another machine's costs; None: all are measured."""
    return next((one for one in comparisons if isinstance(one, ComputedComparison)), None)


def _build_view(comparison: MethodComparison, where: str, axis: tuple[float, float]) -> dict[str, Any]:
    """The chart on one machine. axis: its ends, in times target only."""
    place = locate(comparison, where)
    count, answer = answer_which_pay(comparison, place)
    speeds = []
    for row in sort_by_speed(comparison):
        times = compute_speed(row, comparison)
        speeds.append({
            "key": row.key, "pass": None if row.per_pass is None else f"{row.per_pass:.2f}",
            "cost": None if row.per_pass is None or times is None else f"{row.per_pass / times.value:.2f}",
            "speed": None if times is None else {
                "at": _place(times.value, axis), "low": _place(times.low, axis), "high": _place(times.high, axis), "verdict": name_comparison(row, comparison),
                "said": f"{times.value:.2f}", "span": format_range(times) if compare_with_target(row, comparison) else "",
                "unsure": compare_with_target(row, comparison) == UNSURE, "computed": row.key != "target" and is_computed(row, comparison),
                "bound": is_bound(row, comparison),
            },
        })  # fmt: skip
    kind = "computed" if isinstance(comparison, ComputedComparison) else "measured"
    label = CHART["label"].format(machine=name_view(comparison, where), kind=kind)
    known = CHART[f"from_{kind}"].format(runs=comparison.runs)
    return {"label": label, "from": known, "answer": [count, answer], "note": CHART[f"note_{kind}"], "speeds": speeds}


def name_view(comparison: MethodComparison, where: str) -> str:
    """The machine of a comparison, without a preposition and an article."""
    return comparison.cost_model.title if isinstance(comparison, ComputedComparison) else where.removeprefix("on ")


def name_sampling(comparison: MethodComparison) -> str:
    """The temperature of a comparison, and what else cuts its distributions."""
    settings = comparison.settings
    return f"temperature {settings.temperature:g}" + (f", top-p {settings.top_p:g}" if settings.top_p else "")


def _place(speed: float, axis: tuple[float, float]) -> float:
    """A speed as a share of the axis."""
    return (speed - axis[0]) / (axis[1] - axis[0])


def build_picture(where: str, *comparisons: MethodComparison) -> dict[str, Any]:
    """Payload of the picture of one method at a time.

    Args:
        where: The machine of speeds that were measured, as in "on two CPU cores".
        comparisons: The same methods, once for each machine, the measured one first.

    Returns:
        ``rows``, in the order of the record, whatever their speed: key, name, tag, drawing and about as in the chart; inSight: whether it has a button
        before it is chosen; round: a recorded one as in ``build_tree``, without its steps and distributions, null where there is none; ``speeds``, a
        machine each: number, verdict (words on it) and place (the machine); note: how many tokens a round writes, and what explains the speeds.
        ``title`` of the speeds; ``size`` of the drawings; ``first``: shown before any is chosen.
    """
    rows = []
    for row, *others in zip(*(one.rows for one in comparisons), strict=True):
        speeds = [_describe_speed(*each, where) for each in zip((row, *others), comparisons, strict=True)]
        rows.append({
            "key": row.key, "name": row.entry.name, "tag": build_tag(row), "inSight": row.key in TEXTS["in_sight"] and row.key != "target",
            "about": row.reason or take_first_sentence(row.entry.description), "drawing": load_icons()[row.key], "round": _build_round(row),
            "speeds": [] if row.per_pass is None else speeds, "note": _describe_round(row, where, *comparisons),
        })  # fmt: skip
    return {"rows": rows, "title": PICTURE["title"], "size": SIZE, "first": PICTURE["first"]}


def _describe_speed(row: MethodRow, comparison: MethodComparison, where: str) -> dict[str, str]:
    """The speed of a method on one machine, with words on it, and the machine."""
    found, is_model = compute_speed(row, comparison), isinstance(comparison, ComputedComparison)
    place = CHART["label"].format(machine=name_view(comparison, where), kind="computed" if is_model else "measured")
    if found is None:
        return {"number": "", "verdict": PICTURE["not_computed" if is_model else "not_timed"], "place": place}
    more = ""
    if not row.exact:
        more = PICTURE["lossy"]
    elif is_bound(row, comparison) or compare_with_target(row, comparison) == UNSURE:
        more = name_comparison(row, comparison)
    return {"number": f"{found.value:.2f}×", "verdict": ", ".join(filter(None, (PICTURE["times"], more))), "place": place}


def _describe_round(row: MethodRow, where: str, comparison: MethodComparison, *others: MethodComparison) -> str:
    """How many tokens a round of a method writes; and of a large tree how long checking it takes."""
    if row.key == "target":
        return str(PICTURE["alone"])
    if row.per_pass is None:
        return ""
    said = PICTURE["writes"].format(tokens=f"{row.per_pass:.2f}")
    there = _find_computed(others)
    passes = compare_passes(row, comparison, there, where) if row.key in WIDE and there is not None else ""
    return f"{said} {passes}".strip()


def _build_round(row: MethodRow) -> dict[str, Any] | None:
    if row.trace is None:
        return None
    tree = build_tree(row.trace)
    nodes = [{name: node[name] for name in ROUND_NODE} for node in tree["nodes"]]
    ending = tree["ending"] and {name: tree["ending"][name] for name in (*ROUND_NODE, "kind") if name != "status"}
    return {name: tree[name] for name in ("before", "columns", "lines")} | {"nodes": nodes, "ending": ending}


def sort_by_speed(comparison: MethodComparison) -> list[MethodRow]:
    """The rows with an exact rule, the fastest first and those without a speed last; then the others in the same order."""

    def rank(row: MethodRow) -> tuple[bool, float]:
        speed = compute_speed(row, comparison)
        return not is_exact(row), -speed.value if speed else 0.0

    return sorted(comparison.rows, key=rank)


def name_comparison(row: MethodRow, comparison: MethodComparison) -> str:
    """Faster or slower than target-only sampling, tied with the fastest, that the runs cannot tell, or that it is only a bound; empty without intervals.

    A lossy method is never only faster.
    """
    if row.key == "target":
        return str(CHART["alone"])
    if is_bound(row, comparison):
        return "at most"
    verdict, found = compare_with_target(row, comparison), compute_speed(row, comparison)
    if found is not None and is_computed(row, comparison):
        verdict = FASTER if found.value > 1.0 else SLOWER
    if verdict == UNSURE:
        return "too close to call"
    if is_tied(row, comparison):
        return f"{verdict}, tied with the first"
    return f"{verdict}, but lossy" if verdict == FASTER and not row.exact else verdict


def build_tag(row: MethodRow) -> str:
    """A word for a method that is left out or not exact; empty for the others."""
    if row.reason:
        return "left out"
    return "" if row.exact else "lossy, same text here" if row.coincides else "lossy"


def take_first_sentence(text: str) -> str:
    """The first sentence of a description; the whole is shown beside a round of the method."""
    head, stop, _ = text.partition(". ")
    return head + "." if stop else text
