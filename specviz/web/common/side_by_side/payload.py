"""Payload of the histogram that fills: a decoder's samples after growing numbers of them, and the answer that they lead to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from specviz.evidence.testing.results import CellShares
from specviz.figures.charts import shorten_label
from specviz.records import load_toml
from specviz.web.common.side_by_side.words import SPACE, PageVerdict, write_plain_labels

TEXTS = load_toml("texts/side_by_side")["histogram"]
AIR = 1.2  # of a common axis, beyond the farthest room or dot: no less than that of one histogram (assets/components/lib/histogram.js)
DIGITS = 5  # of a share that is only drawn
LEAST = 0.01  # smallest probability of a row of its own on a phone, where ``few`` stands for all rows


def build_frames(steps: Sequence[CellShares], pooled: bool = True, least: float = 0.0) -> dict[str, Any]:
    """The frames of a histogram, one for each number of samples.

    Args:
        steps: The histogram after growing numbers of samples.
        pooled: Whether small cells share one bar.
        least: Smallest probability of a cell with a bar of its own, if small ones share one.

    Returns:
        ``labels`` and ``exact`` of the rows, heaviest first; ``conclusion`` in words; ``frames``, each with n, and ``shares``, ``low`` and
        ``high`` of every row.
    """
    drawn = [step.merge_rows(least) if pooled else step for step in steps]
    last = drawn[-1]
    frames = [
        {"n": one.n} | {name: [round(x, DIGITS) for x in getattr(one, name)] for name in ("shares", "low", "high")}
        for one in drawn
    ]
    return {
        "labels": [shorten_label(label) for label in write_plain_labels(last.labels)],
        "exact": list(last.probs),
        "conclusion": steps[-1].conclusion,
        "frames": frames,
    }


def compute_reach(*drawn: Mapping[str, Any]) -> float:
    """How far a common axis of several histograms goes to each side of the exact probability, as a share. drawn: as of ``build_frames``."""
    far = [
        abs(x - p)
        for one in drawn
        for frame in one["frames"]
        for name in ("shares", "low", "high")
        for x, p in zip(frame[name], one["exact"], strict=True)
    ]
    return AIR * max(far)


def build_histogram(
    frames: Mapping[str, Any],
    heading: str,
    verdict: PageVerdict | None = None,
    texts: Mapping[str, Any] = TEXTS,
    is_live: bool = False,
    control: CellShares | None = None,
) -> dict[str, Any]:
    """The payload.

    Args:
        frames: As ``build_frames`` returns them.
        heading: What stands over the rows.
        verdict: Shown once the last bars have arrived; None: no answer.
        texts: Of the component, with the keys of TEXTS.
        is_live: Whether the visitor has waited for the samples, so that the bars arrive at once.
        control: As many samples without a draft, shown beside them.
    """
    answer = None
    if verdict is not None:
        answer = {name: getattr(verdict, name) for name in ("mark", "words", "details", "number")}
    said = dict(texts) | {"without": texts["without"].format(n=f"{control.n:,}") if control else ""}
    if any(SPACE in label for label in frames["labels"]) and said.get("space"):
        said["signs"] = [said["space"], *said["signs"]]
    drawn = {**frames, "heading": heading, "answer": answer, "texts": said, "live": is_live}
    if control is None:
        return drawn
    conclusion = f"{frames['conclusion']} {control.conclusion}"
    return drawn | {"conclusion": conclusion, "control": build_frames((control,))["frames"][0]}


def build_result_frames(result: Any, few: bool = False) -> dict[str, Any]:
    """The frames of a result's ``filling``, kept as long as the result. few: also with the rows that a phone has room for, as ``few``."""
    from specviz.web.common.figure_cache import draw_cached  # Plotly comes with it, which the game does without

    return draw_cached(_build_filling, result, few)


def _build_filling(result: Any, few: bool) -> dict[str, Any]:
    frames = build_frames(result.filling)
    if not few:
        return frames
    fewer = build_frames(result.filling, least=LEAST)
    return frames | {"few": {name: fewer[name] for name in ("labels", "exact", "frames")}}
