"""Every drafting method as a line with its drawing, its tokens per target pass and its speed: one chart, from the comparison alone. No torch."""

from __future__ import annotations

from typing import Any

from specviz.speed.records.methods import MethodComparison, MethodRow
from specviz.web.drafting_methods import method_icons
from specviz.web.drafting_methods.method_figures import compare_with_target, compute_speed, find_fastest, format_range

FAMILIES = {  # title -> its methods, in the order of the page
    "No draft": ("target",),
    "A draft model": ("draft", "block"),
    "Trees and several chains": ("tree-top", "tree", "tree-wide", "several", "several-kseq"),
    "Heads on the target": ("medusa", "medusa-wide", "eagle", "eagle-wide"),
    "The target drafts for itself": ("early-exit", "lookahead"),
    "Copied text": ("ngram", "retrieval"),
    "For comparison: drafts that know nothing, or everything": ("unigram", "uniform", "adversarial", "oracle"),
    "A rule that is not exact": ("typical",),
}
FAMILY = {key: title for title, keys in FAMILIES.items() for key in keys}
IN_SIGHT = ("target", "draft", "tree-wide", "eagle", "early-exit", "ngram", "adversarial", "oracle", "typical")  # and the fastest
STEP = 0.5  # between two ticks of the speed


def build_overview(one: MethodComparison) -> dict[str, Any]:
    """What the component draws.

    rows   per method key, name, line (its first sentence), family, drawing (shapes), inSight, tag (what is to be said beside the name),
           pass (tokens per target pass) and speed (times target only), each null or {"at", "said"}; at is a share of the axis, and the
           cost is what a round takes, in passes of target-only sampling: the quotient of the two; the speed has low, high, span (both in words) and told (faster, slower, or neither) as well
    ticks  of the speed, {"at", "said"}; unit  where target-only sampling stands; key  of the drawings
    """
    found = {row.key: compute_speed(row, one) for row in one.rows}
    farthest = max((each.high for each in found.values() if each is not None), default=1.0)
    end = STEP * (int(max(farthest, 1.5) / STEP) + 1)
    most = max((row.per_pass for row in one.rows if row.per_pass is not None), default=1.0)
    best = find_fastest(one)
    rows = []
    for row in one.rows:
        times = found[row.key]
        said = None if times is None else {
            "at": times.value / end, "low": times.low / end, "high": times.high / end, "told": compare_with_target(row, one),
            "said": "1" if row.key == "target" else f"{times.value:.2f}", "span": format_range(times) if compare_with_target(row, one) else "",
        }  # fmt: skip
        rows.append({
            "key": row.key, "name": row.entry.name, "line": take_first_sentence(row.entry.description), "family": FAMILY[row.key],
            "drawing": method_icons.DRAWINGS[row.key](), "inSight": row.key in IN_SIGHT or row is best, "tag": tag_method(row),
            "pass": None if row.per_pass is None else {"at": row.per_pass / most, "said": f"{row.per_pass:.2f}"}, "speed": said,
            "cost": None if row.per_pass is None or times is None else f"{row.per_pass / times.value:.2f}",
        })  # fmt: skip
    ticks = [{"at": STEP * count / end, "said": f"{STEP * count:g}"} for count in range(1, round(end / STEP))]
    return {
        "rows": rows,
        "ticks": ticks,
        "unit": 1.0 / end,
        "key": method_icons.KEY,
        "size": [method_icons.WIDTH, method_icons.HEIGHT],
    }


def tag_method(row: MethodRow) -> str:
    """What sets a method apart from the exact ones that could run; empty for those."""
    if row.reason:
        return "left out"
    return "" if row.exact else "lossy, same text here" if row.coincides else "lossy"


def take_first_sentence(text: str) -> str:
    """The others stand beside a round of the method."""
    head, stop, _ = text.partition(". ")
    return head + "." if stop else text
