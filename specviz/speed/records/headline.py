"""The speed of the shipped pair that every page names first, as ``bench`` measured it; the numbers are in assets/bench.toml."""

from __future__ import annotations

from specviz.records import load_toml
from specviz.settings import Settings

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
    """The speed at both temperatures, for a heading."""
    return f"{FACTORS['1'][0]:.2f} times as fast at temperature 1, {FACTORS['0'][0]:.2f} at 0"


def describe_headline_intervals() -> str:
    """The 95% intervals of both."""
    (_, low, high), (_, greedy_low, greedy_high) = FACTORS["1"], FACTORS["0"]
    return f"95% intervals: {low:.2f} to {high:.2f}, and {greedy_low:.2f} to {greedy_high:.2f}."


def find_headline(settings: Settings) -> tuple[float, float, float] | None:
    """The speed of the pair and temperature of these settings with its interval; None where ``bench`` measured nothing like it."""
    return None if settings.pair != PAIR or settings.cuts else FACTORS.get(f"{settings.temperature:g}")


def add_headline(settings: Settings) -> str:
    """The speed from more runs, for a page that shows another one of the same pair and temperature; empty where there is none."""
    if find_headline(settings) is None:
        return ""
    return f"The speed of this pair, from more runs: {format_headline(f'{settings.temperature:g}')} times with the draft model. {describe_headline_origin()}"


def relate_to_headline(settings: Settings) -> str:
    """The benchmark's speed of the pair of these settings, for a page that measured one text; empty where there is none."""
    heat = "0" if settings.temperature == 0.0 else "1"
    if settings.pair != PAIR or settings.cuts:
        return ""
    return f"This is one text. The benchmark of this pair: {FACTORS[heat][0]:.2f} at temperature {heat}."


def describe_headline_origin() -> str:
    """What was measured, where and when."""
    return f"Measured with specviz bench over the fastest target-only decoding: gamma {_TABLE['gamma']}, one text, {_TABLE['machine']}, {_TABLE['date']}."
