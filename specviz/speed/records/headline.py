"""The speed of the shipped pair that every page names first, as ``bench`` measured it; the numbers are in assets/bench.toml."""

from __future__ import annotations

from dataclasses import dataclass

from specviz.records import load_toml
from specviz.settings import Settings

_TABLE = load_toml("bench")
WHY_OTHERS = "The page *How fast?* lists every speed of this pair and why they differ."
PAIR: str = _TABLE["pair"]
FACTORS: dict[str, tuple[float, float, float]] = {
    heat: (value, low, high) for heat, (value, low, high) in _TABLE["factor"].items()
}
GAMMA: int = _TABLE["gamma"]
RUNS: int = _TABLE["runs"]
MACHINE: str = _TABLE["machine"]
OLDER_MACHINE: str = _TABLE["older"]["machine"]
OLDER_FACTORS: dict[str, tuple[float, float, float]] = {heat: tuple(found) for heat, found in _TABLE["older"]["factor"].items()}


@dataclass(frozen=True, slots=True)
class BenchRound:
    """A round of the pair as ``bench`` measured it, in the runs of the headline.

    Attributes:
        tokens: That a round commits, mean.
        factor: Times as fast as target-only sampling.
        drafting, target_pass: Their time, over that of one token of target-only sampling.
    """

    tokens: float
    factor: float
    drafting: float
    target_pass: float

    @property
    def cost(self) -> float:
        """Time of a round over that of one token of target-only sampling."""
        return self.tokens / self.factor

    @property
    def rest(self) -> float:
        """What a round takes besides drafting and the target's pass: the rule, and the work between passes."""
        return max(0.0, self.cost - self.drafting - self.target_pass)


def load_bench_round(temperature: str) -> BenchRound:
    """The round at temperature 0 or 1."""
    row = _TABLE["round"][temperature]
    milliseconds = 1000 / row["target_only"]
    return BenchRound(row["tokens"], FACTORS[temperature][0], row["drafting"] / milliseconds, row["target_pass"] / milliseconds)


def format_headline(temperature: str) -> str:
    """A speed with its 95% interval: 1.42 (1.40 to 1.46)."""
    value, low, high = FACTORS[temperature]
    return f"{value:.2f} ({low:.2f} to {high:.2f})"


def describe_interval(temperature: str) -> str:
    """The 95% interval of the speed and its temperature."""
    _, low, high = FACTORS[temperature]
    return f"95% interval: {low:.2f} to {high:.2f}; temperature {temperature}."


def find_headline(settings: Settings) -> tuple[float, float, float] | None:
    """The speed of the pair and temperature of these settings with its interval; None where ``bench`` measured nothing like it."""
    return None if settings.pair != PAIR or settings.cuts else FACTORS.get(f"{settings.temperature:g}")


def add_headline(settings: Settings) -> str:
    """The speed from more runs, for a page that shows another one of the same pair and temperature; empty where there is none."""
    if find_headline(settings) is None:
        return ""
    return (
        f"The speed of this pair, from more runs: {format_headline(f'{settings.temperature:g}')} times with the draft model. "
        f"{describe_headline_origin()} {WHY_OTHERS}"
    )


def choose_heat(settings: Settings) -> str:
    """Which of the benchmark's temperatures is compared with a text of these settings: 0 with 0, 1 with any other; empty where their pair or their cuts were not measured."""
    if settings.pair != PAIR or settings.cuts:
        return ""
    return "0" if settings.temperature == 0.0 else "1"


def relate_to_headline(settings: Settings) -> str:
    """The benchmark's speed of the pair of these settings, for a page that measured one text; empty where there is none."""
    if not (average := format_average(settings)):
        return ""
    return f"This is one text. The benchmark of this pair: {average} at temperature {choose_heat(settings)}."


def format_average(settings: Settings) -> str:
    """The benchmark's speed of the pair of these settings, over several prompts; empty where it measured no such pair."""
    heat = choose_heat(settings)
    return f"{FACTORS[heat][0]:.2f}" if heat else ""


def describe_headline_origin() -> str:
    """What was measured, where and when."""
    return (
        f"Measured with specviz bench over the fastest target-only decoding: gamma {GAMMA}, one text at a time, {RUNS} runs, "
        f"{_TABLE['machine']}, {_TABLE['date']}."
    )
