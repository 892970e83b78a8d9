"""Every drafting method as a picture of a round with the time of its tokens, and all of them as one chart: from the comparison alone. No torch."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any
from xml.etree import ElementTree

from specviz.records import ASSETS, load_toml
from specviz.speed.records import headline
from specviz.speed.records.estimate import Estimate
from specviz.speed.records.methods import ComputedComparison, MethodComparison, MethodRow
from specviz.web.drafting_methods.tree import build_tree
from specviz.web.drafting_methods.words import (
    FASTER,
    UNSURE,
    compare_with_target,
    compute_speed,
    find_fastest,
    format_range,
    is_bound,
    is_computed,
    list_timed,
    name_machine,
)

TEXTS = load_toml("texts/drafting_methods")
PICTURE = TEXTS["picture"]
ROUND_NODE = ("glyphs", "name", "parent", "status", "col", "line")  # fields of a token of a round
SIZE = (132, 44)  # of the drawings
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


def build_overview(comparison: MethodComparison, elsewhere: ComputedComparison | None = None, where: str = "") -> dict[str, Any]:
    """Payload of the component.

    Args:
        comparison: What is compared.
        elsewhere: The same with the costs of another machine, each row's speed there as a second mark; None: none.
        where: The machine of ``comparison``, as in "on two CPU cores"; only read where there is another.

    Returns:
        ``rows``, the fastest first and lossy rules last: per method key, name, line (its first sentence), group (a heading, or empty), drawing
        (shapes), inSight, lead (what a phone has in sight: the fastest two, and some to compare them with), tag beside the name, pass (tokens per target pass) and speed (times target only), each null or {"at", "said"}; at is a share of the axis. The cost is what a round
        takes, in passes of target-only sampling. The speed has low, high, span (in words), told (faster,
        slower or neither), unsure (neither) and whether it is computed. ``other`` is the speed elsewhere, null or {"at", "said", "bound"}; bound:
        it is the most that it can be.
        ``marks`` explains the dots, ``heads`` names both.
        ``ticks`` of the speed, {"at", "said"}; ``unit``: place of target-only sampling; ``size`` of the drawings.
    """
    found = {row.key: compute_speed(row, comparison) for row in comparison.rows}
    others = {} if elsewhere is None else {
        row.key: (speed, is_bound(row, elsewhere))
        for row in elsewhere.rows if row.key != "target" and (speed := compute_speed(row, elsewhere)) is not None
    }  # fmt: skip
    farthest = max(
        (each.high for each in (*found.values(), *(speed for speed, _ in others.values())) if each is not None), default=1.0
    )
    end = TICK_STEP * (int(max(farthest, 1.5) / TICK_STEP) + 1)
    most = max((row.per_pass for row in comparison.rows if row.per_pass is not None), default=1.0)
    best, fastest = find_fastest(comparison), list_timed(comparison)[:2]
    rows = []
    for row in sort_by_speed(comparison):
        times, (other, is_most) = found[row.key], others.get(row.key, (None, False))
        is_lead = row.key in TEXTS["in_sight_on_phones"] or row in fastest
        said = None if times is None else {
            "at": times.value / end, "low": times.low / end, "high": times.high / end, "told": name_comparison(row, comparison), "unsure": compare_with_target(row, comparison) == UNSURE,
            "said": "1" if row.key == "target" else f"{times.value:.2f}", "span": format_range(times) if compare_with_target(row, comparison) else "",
            "computed": row.key != "target" and is_computed(row, comparison),
        }  # fmt: skip
        rows.append({
            "key": row.key, "name": row.entry.name, "line": take_first_sentence(row.entry.description), "group": "" if is_exact(row) else TEXTS["lossy_group"],
            "drawing": load_icons()[row.key], "inSight": row.key in TEXTS["in_sight"] or row is best, "lead": is_lead, "tag": build_tag(row),
            "pass": None if row.per_pass is None else {"at": row.per_pass / most, "said": f"{row.per_pass:.2f}"}, "speed": said,
            "other": None if other is None else {"at": other.value / end, "said": f"{other.value:.2f}", "bound": is_most},
            "cost": None if row.per_pass is None or times is None else f"{row.per_pass / times.value:.2f}",
        })  # fmt: skip
    ticks = [{"at": TICK_STEP * count / end, "said": f"{TICK_STEP * count:g}"} for count in range(1, round(end / TICK_STEP))]
    marks = TEXTS["marks_computed" if any(is_computed(row, comparison) for row in comparison.rows) else "marks"]
    if elsewhere is not None:
        marks += " " + TEXTS["marks_elsewhere"].format(machine=name_machine(elsewhere.cost_model))
    heads = (
        []
        if elsewhere is None
        else [
            TEXTS["heads"]["measured"].format(where=where.removeprefix("on ")),
            TEXTS["heads"]["computed"].format(machine=elsewhere.cost_model.title),
        ]
    )
    return {"rows": rows, "ticks": ticks, "unit": 1.0 / end, "marks": marks, "heads": heads, "size": SIZE}


def build_picture(comparison: MethodComparison, elsewhere: ComputedComparison | None, where: str) -> dict[str, Any]:
    """Payload of the picture of one method at a time.

    Args:
        comparison: What is compared.
        elsewhere: The same with the costs of another machine; None: none.
        where: The machine of ``comparison``, as in "on two CPU cores".

    Returns:
        ``rows``, in the order of the record, whatever their speed: key, name, tag, group, inSight, drawing and about as there; round: a recorded one as in
        ``build_tree``, without its steps and distributions, null where there is none; title of the bars, note (empty: none), and ``bars``: how long the tokens of a round take, without a draft first. A bar has kind (target, measured, computed),
        label, at (share of the axis), said (passes), speed and told. ``size`` of the drawings.
    """
    speeds = {row.key: (compute_speed(row, comparison), _find_speed(row.key, elsewhere)) for row in comparison.rows}
    most = max(
        (row.per_pass / min(1.0, *(one.value for one in speeds[row.key] if one), 1.0) for row in comparison.rows if row.per_pass),
        default=1.0,
    )
    best, rows = find_fastest(comparison), []
    for row in comparison.rows:
        own, other = speeds[row.key]
        bars = []
        if row.per_pass is not None:
            bars.append(_build_bar("target", PICTURE["alone"], row.per_pass, most))
            if own is not None and row.key != "target":
                computed = is_computed(row, comparison)
                told = _describe_speed(row, comparison, computed)
                label = PICTURE["drafted"].format(where=where.removeprefix("on "))
                bars.append(
                    _build_bar("computed" if computed else "measured", label, row.per_pass / own.value, most, own.value, told)
                )
            if other is not None and elsewhere is not None and row.key != "target":
                label = PICTURE["drafted"].format(where=elsewhere.cost_model.title)
                there = elsewhere.row(row.key)
                assert there is not None, "it has a speed"
                told = _describe_speed(there, elsewhere, True)
                bars.append(_build_bar("computed", label, row.per_pass / other.value, most, other.value, told))
        rows.append({
            "key": row.key, "name": row.entry.name, "tag": build_tag(row), "group": "" if is_exact(row) else TEXTS["lossy_group"],
            "about": row.reason or take_first_sentence(row.entry.description), "drawing": load_icons()[row.key], "bars": bars,
            "inSight": row.key in TEXTS["in_sight"] or row is best,
            "round": _build_round(row), "title": _title_times(row), "note": _relate_to_headline(row, comparison),
        })  # fmt: skip
    return {"rows": rows, "size": SIZE, "first": PICTURE["first"]}


def _describe_speed(row: MethodRow, comparison: MethodComparison, is_from_model: bool) -> str:
    """What a speed is, after its number: how it is known, and that a method is lossy or the difference too small for its runs."""
    if not row.exact:
        return PICTURE["computed_lossy" if is_from_model else "measured_lossy"]
    if is_from_model:
        return PICTURE["bound" if is_bound(row, comparison) else "computed"]
    found = compute_speed(row, comparison)
    span = f" ({format_range(found)})" if found is not None and found.low < found.high else ""
    return PICTURE["unsure" if compare_with_target(row, comparison) == UNSURE else "measured"] + span


def _build_round(row: MethodRow) -> dict[str, Any] | None:
    if row.trace is None:
        return None
    tree = build_tree(row.trace)
    nodes = [{name: node[name] for name in ROUND_NODE} for node in tree["nodes"]]
    ending = tree["ending"] and {name: tree["ending"][name] for name in (*ROUND_NODE, "kind") if name != "status"}
    return {name: tree[name] for name in ("before", "columns", "lines")} | {"nodes": nodes, "ending": ending}


def _find_speed(key: str, elsewhere: ComputedComparison | None) -> Estimate | None:
    row = elsewhere.row(key) if elsewhere is not None else None
    return compute_speed(row, elsewhere) if row is not None and elsewhere is not None else None


def _build_bar(kind: str, label: str, passes: float, most: float, speed: float | None = None, told: str = "") -> dict[str, Any]:
    return {
        "kind": kind, "label": label, "at": passes / most, "said": f"{passes:.2f}".removesuffix(".00"), "told": told,
        "speed": "" if speed is None else f"{speed:.2f}×",
    }  # fmt: skip


def _title_times(row: MethodRow) -> str:
    if row.per_pass is None:
        return ""
    tokens = f"{row.per_pass:.2f}".removesuffix(".00")
    return PICTURE["no_draft" if row.key == "target" else "title"].format(tokens=f"{tokens} token{'s' * (tokens != '1')}")


def _relate_to_headline(row: MethodRow, comparison: MethodComparison) -> str:
    """Why *How fast?* names another speed of the draft model; empty for other methods, and where nothing alike was measured."""
    found = headline.find_headline(comparison.settings)
    if row.key != "draft" or found is None or isinstance(comparison, ComputedComparison):
        return ""
    return PICTURE["headline"].format(speed=found[0], gamma=headline.GAMMA, own=comparison.settings.gamma)


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
    """Faster or slower than target-only sampling, or that no difference is seen, or that it is only a bound; else empty without intervals. A lossy method is never only faster."""
    if is_bound(row, comparison):
        return "at most"
    told = compare_with_target(row, comparison)
    if told == UNSURE:
        return "no difference seen"
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
