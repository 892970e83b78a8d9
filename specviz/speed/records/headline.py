"""The speed of the shipped pair that every page names first, as ``bench`` measured it; the numbers are in assets/bench.toml."""

from __future__ import annotations

from specviz.records import load_toml

_TABLE = load_toml("bench")
PAIR: str = _TABLE["pair"]
FACTORS: dict[str, tuple[float, float, float]] = {
    heat: (value, low, high) for heat, (value, low, high) in _TABLE["factor"].items()
}


def format_headline(temperature: str) -> str:
    """A speed with its 95% interval: 1.42 (1.40 to 1.46)."""
    value, low, high = FACTORS[temperature]
    return f"{value:.2f} ({low:.2f} to {high:.2f})"


def describe_headline() -> str:
    """The speed at both temperatures, in a sentence."""
    return f"{format_headline('1')} times as fast at temperature 1, {format_headline('0')} at 0"


def describe_headline_origin() -> str:
    """What was measured, where and when."""
    return f"Measured with specviz bench over the fastest target-only decoding: gamma {_TABLE['gamma']}, one text, {_TABLE['machine']}, {_TABLE['date']}."
