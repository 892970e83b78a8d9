"""The speed of the shipped pair that every page names first: the draft model's, of the recorded comparison of drafting methods.

So one record, of one machine and day, gives the pages their speeds of the pair: ``specviz record methods``. assets/headline.toml names its machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from specviz.records import ASSETS, load_toml, read_file
from specviz.settings import Settings
from specviz.speed.records.estimate import Estimate
from specviz.speed.records.methods import MethodComparison, load_comparisons

RECORD = ASSETS / "traces" / "methods.json"
_TABLE = load_toml("headline")
WHY_OTHERS = "The page *How fast?* lists every speed of this pair and why they differ."
MACHINE: str = _TABLE["machine"]
OLDER_MACHINE: str = _TABLE["older"]["machine"]
OLDER_SPEEDS: dict[str, tuple[float, float, float]] = {heat: tuple(found) for heat, found in _TABLE["older"]["speed"].items()}


@dataclass(frozen=True, slots=True)
class HeadlineRound:
    """A mean round of the pair in the runs of the headline.

    Attributes:
        tokens: That a round commits.
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


@dataclass(frozen=True, slots=True)
class Headline:
    """The speeds of the pair by temperature, "0" and "1", with the rounds of the same runs.

    Attributes:
        gamma: Draft tokens of a round.
        runs: Of every method, interleaved.
        prompts: After each of which a text was written in every run.
    """

    pair: str
    gamma: int
    runs: int
    prompts: int
    date: str
    speeds: Mapping[str, Estimate]
    rounds: Mapping[str, HeadlineRound]


@lru_cache(maxsize=1)
def load_headline() -> Headline:
    """Read the headline from the recorded comparison."""
    comparisons = {heat: one for heat, one in read_file(RECORD, load_comparisons).items() if heat in ("0", "1")}
    first = comparisons["1"]
    settings, rounds = first.settings, {heat: _read_round(one) for heat, one in comparisons.items()}
    return Headline(
        settings.pair, settings.gamma, first.runs, len(first.prompts) or 1, first.date,
        {heat: _read_speed(one) for heat, one in comparisons.items()}, rounds,
    )  # fmt: skip


def get_speed(heat: str) -> Estimate:
    """Times as fast as target-only sampling, at temperature "0" or "1"."""
    return load_headline().speeds[heat]


def get_round(heat: str) -> HeadlineRound:
    """The mean round at temperature "0" or "1"."""
    return load_headline().rounds[heat]


def _read_speed(comparison: MethodComparison) -> Estimate:
    row = comparison.find_row("draft")
    assert row is not None and row.speed is not None, f"{RECORD.name} has no speed of the draft model"
    return row.speed


def _read_round(comparison: MethodComparison) -> HeadlineRound:
    row, target = comparison.find_row("draft"), comparison.find_row("target")
    assert row is not None and row.per_pass is not None and target is not None and target.ms is not None, (
        f"{RECORD.name} has no round"
    )
    token = target.ms.value
    return HeadlineRound(row.per_pass, _read_speed(comparison).value, row.timing["draft"] / token, row.timing["target"] / token)


def format_headline(temperature: str) -> str:
    """A speed with its 95% interval: 1.42 (1.40 to 1.46)."""
    return get_speed(temperature).format()


def describe_interval(temperature: str) -> str:
    """The 95% interval of the speed and its temperature."""
    speed = get_speed(temperature)
    return f"95% interval: {speed.low:.2f} to {speed.high:.2f}; temperature {temperature}."


def find_headline(settings: Settings) -> Estimate | None:
    """The speed of the pair and temperature of these settings; None where nothing like it was recorded."""
    found = load_headline()
    return None if settings.pair != found.pair or settings.cuts else found.speeds.get(f"{settings.temperature:g}")


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
    if settings.pair != load_headline().pair or settings.cuts:
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
    return f"{get_speed(heat).value:.2f}" if heat else ""


def describe_headline_origin() -> str:
    """The measurement, its machine and its date."""
    found = load_headline()
    return (
        f"Measured over the fastest target-only decoding, beside the other drafting methods: gamma {found.gamma}, one text at a time, "
        f"{found.prompts} prompts, {found.runs} interleaved runs, {MACHINE}, {found.date}."
    )
