"""Distributions in links, and in what the browser reports. No torch, no Streamlit."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from specviz.web.one_token.payload import FIRST_PRESET, GRID, MAX_TOKENS, MIN_TOKENS, PRESETS, Preset

LONGEST_REPEATED = 40  # characters of a wrong value that a sentence repeats
_PERCENT = re.compile(r"(\d{1,3})(?:\.(\d{1,2}))?", re.ASCII)


def read_reported_state(reported: Any, state: Mapping[str, Any], positions: Sequence[str]) -> dict[str, Any]:
    """The state that the browser reports of its bars, validated as a link is; ``state`` where it is not valid."""
    if not isinstance(reported, Mapping):
        return dict(state)
    query = {key: reported[key] for key in ("preset", "from") if isinstance(reported.get(key), str)}
    try:
        query |= {key: write_distribution([round(GRID * x) for x in reported[key]]) for key in ("p", "q") if reported.get(key)}
    except (TypeError, ValueError, OverflowError):
        return dict(state)
    read, left_out = read_state(query, positions)
    return dict(state) if left_out else read


def read_state(query: Mapping[str, str], positions: Collection[str]) -> tuple[dict[str, Any], list[str]]:
    """Read what a link shows first.

    Args:
        query: Parameters of the link.
        positions: Ids of the positions that can be named.

    Returns:
        {"preset", "from", "p", "q"}, and a sentence for each value that was left out. "from" is None without a position; "p" and "q"
        are None where nothing was dragged.
    """
    left_out: list[str] = []
    preset = query.get("preset", FIRST_PRESET)
    if preset not in PRESETS:
        left_out.append(f"The link's preset was left out: {_shorten_value(preset)} is not one of {', '.join(PRESETS)}.")
        preset = FIRST_PRESET
    position = query.get("from")
    if position is not None and position not in positions:
        last = max(positions, key=lambda one: tuple(map(int, one.split("."))), default="")
        known = f"the recorded run has draft tokens {min(positions)} to {last}" if positions else "no run was recorded"
        left_out.append(f"The link's position was left out: there is no draft token {_shorten_value(position)} ({known}).")
        position = None
    dragged: dict[str, list[int]] = {}
    for key in ("p", "q"):
        try:
            dragged |= {key: read_distribution(query[key])} if key in query else {}
        except ValueError as error:
            left_out.append(f"The link's {key} was left out: {_shorten_value(query[key])}; {error}.")
    try:
        p, q = _complete_pair(dragged, PRESETS[preset] if position is None else None)
    except ValueError as error:
        left_out.append(f"The link's bars were left out: {error}.")
        p = q = None
    return {"preset": preset, "from": position, "p": p, "q": q}, left_out


def read_distribution(text: str) -> list[int]:
    """40-30-20-7-3 as ten-thousandths. Raises ValueError with what is wrong."""
    probs = []
    for part in text.split("-"):
        match = _PERCENT.fullmatch(part)
        if match is None:
            raise ValueError("it is not written in percents with at most two decimals, such as 40-30-20-7-3")
        probs.append(100 * int(match[1]) + int((match[2] or "").ljust(2, "0")))
    if not MIN_TOKENS <= len(probs) <= MAX_TOKENS:
        raise ValueError(f"it has {len(probs)} numbers, and {MIN_TOKENS} to {MAX_TOKENS} are allowed")
    if sum(probs) != GRID:
        raise ValueError(f"its percents sum to {sum(probs) / 100:g}, not 100")
    return probs


def write_distribution(probs: Sequence[int]) -> str:
    """The inverse of read_distribution."""
    return "-".join(f"{n / 100:.2f}".rstrip("0").rstrip(".") for n in probs)


def _complete_pair(dragged: Mapping[str, list[int]], preset: Preset | None) -> tuple[list[float] | None, list[float] | None]:
    """Both distributions as floats; one that is missing comes from the preset, widened with zeros. Raises ValueError."""
    if not dragged:
        return None, None
    if preset is None and len(dragged) < 2:  # a recorded distribution has no whole ten-thousandths to fill up with
        raise ValueError("bars that were dragged from a recorded text need both p and q")
    size = max(map(len, dragged.values()))
    p, q = (dragged[key] if key in dragged else _pad_with_zeros(getattr(preset, key), size) for key in ("p", "q"))
    if len(p) != len(q):
        raise ValueError(f"p has {len(p)} numbers and q has {len(q)}")
    return [n / GRID for n in p], [n / GRID for n in q]


def _pad_with_zeros(probs: list[int], size: int) -> list[int]:
    return probs + [0] * (size - len(probs))


def _shorten_value(text: str) -> str:
    return repr(text if len(text) <= LONGEST_REPEATED else text[: LONGEST_REPEATED - 1] + "…")
