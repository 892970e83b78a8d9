"""What a browser says of the bars that were dragged. No torch, no Streamlit."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from specviz.web.one_token.payload import FEWEST, FIRST, GRID, MOST, PRESETS


def read_reported_state(said: Any, state: Mapping[str, Any], known: Sequence[str]) -> dict[str, Any]:
    """What the browser says of its bars, where that can be: nothing in it is trusted. Else ``state``."""
    if not isinstance(said, Mapping):
        return dict(state)
    query = {key: said[key] for key in ("preset", "from") if isinstance(said.get(key), str)}
    try:
        query |= {key: write_distribution(tuple(round(GRID * x) for x in said[key])) for key in ("p", "q") if said.get(key)}
    except (TypeError, ValueError, OverflowError):
        return dict(state)
    found, wrong = read_state(query, known)
    return dict(state) if wrong else found


_PERCENT = re.compile(r"(\d{1,3})(?:\.(\d{1,2}))?", re.ASCII)
LONG = 40  # characters of a wrong value that a sentence repeats


def read_state(query: Mapping[str, str], known: Collection[str]) -> tuple[dict[str, Any], list[str]]:
    """What to show first, and a sentence for each value that was left out.

    known   ids of the positions that there are
    returns {"preset", "from", "p", "q"}: from is None without a position; p and q are None where nothing was dragged
    """
    said: list[str] = []
    preset = query.get("preset", FIRST)
    if preset not in PRESETS:
        said.append(f"The link's preset was left out: {_shorten_value(preset)} is not one of {', '.join(PRESETS)}.")
        preset = FIRST
    place = query.get("from")
    if place is not None and place not in known:
        there = (
            f"the recorded run has draft tokens {min(known)} to {max(known, key=_read_position)}"
            if known
            else "no run was recorded"
        )
        said.append(f"The link's position was left out: there is no draft token {_shorten_value(place)} ({there}).")
        place = None
    distributions = {key: _read_distribution(key, query[key], said) for key in ("p", "q") if key in query}
    p, q = _match_lengths(distributions.get("p"), distributions.get("q"), PRESETS[preset] if place is None else None, said)
    return {"preset": preset, "from": place, "p": p, "q": q}, said


def read_distribution(text: str) -> tuple[int, ...]:
    """40-30-20-7-3 as ten-thousandths. Raises ValueError with what is wrong."""
    matches = [_PERCENT.fullmatch(part) for part in text.split("-")]
    if not all(matches):
        raise ValueError("it is not written in percents with at most two decimals, such as 40-30-20-7-3")
    probs = tuple(100 * int(match[1]) + int((match[2] or "").ljust(2, "0")) for match in matches)
    if not FEWEST <= len(probs) <= MOST:
        raise ValueError(f"it has {len(probs)} numbers, and {FEWEST} to {MOST} are allowed")
    if sum(probs) != GRID:
        raise ValueError(f"its percents sum to {sum(probs) / 100:g}, not 100")
    return probs


def write_distribution(probs: tuple[int, ...]) -> str:
    """The inverse of read_distribution."""
    return "-".join(f"{n / 100:.2f}".rstrip("0").rstrip(".") for n in probs)


def _read_distribution(key: str, text: str, said: list[str]) -> tuple[int, ...] | None:
    try:
        return read_distribution(text)
    except ValueError as error:
        said.append(f"The link's {key} was left out: {_shorten_value(text)}; {error}.")
        return None


def _match_lengths(p: Any, q: Any, preset: Any, said: list[str]) -> tuple[Any, Any]:
    """Both distributions of one length, as floats; what a link leaves out comes from the preset, widened with zeros."""
    if p is None and q is None:
        return None, None
    if preset is None and (p is None or q is None):  # a recorded distribution has no whole ten-thousandths to fill up with
        said.append("The link's bars were left out: bars that were dragged from a recorded text need both p and q.")
        return None, None
    p, q = p or _pad_with_zeros(preset.p, len(q)), q or _pad_with_zeros(preset.q, len(p or ()))
    if len(p) != len(q):
        said.append(f"The link's bars were left out: p has {len(p)} numbers and q has {len(q)}.")
        return None, None
    return [n / GRID for n in p], [n / GRID for n in q]


def _pad_with_zeros(probs: tuple[int, ...], size: int) -> tuple[int, ...]:
    return probs + (0,) * (size - len(probs))


def _read_position(place: str) -> tuple[int, ...]:
    return tuple(map(int, place.split(".")))


def _shorten_value(text: str) -> str:
    return repr(text if len(text) <= LONG else text[: LONG - 1] + "…")
