"""A plan: the predicted gain of speculation on a text, and the error of the prediction where it was measured too.

Intervals of predicted tokens come from resampled texts. Intervals of predicted speeds come from resampled texts and resampled runs of
the cost probes. Measured speeds are medians over runs, each over texts of its own. ``specviz.speed.prediction.planning`` makes plans; the plans that
the page *How fast?* shows first are one for each of PLAN_CHOICES.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, TypeVar

from specviz.errors import Described, SettingsError
from specviz.models.pairs.catalog import PAIRS
from specviz.proposers.registry import PROPOSERS
from specviz.records import ASSETS, Record, Schema, build, build_fields, read_text, record_key, to_json_fields, to_json_value
from specviz.settings import GAMMA_MAX, Settings
from specviz.speed.records.baseline import Baseline
from specviz.speed.records.cost_model import CostModel, DraftCosts
from specviz.speed.records.estimate import Estimate, explain_interval, explain_spread, measure_spread
from specviz.speed.records.server_commands import ServerCommand, build_server_commands
from specviz.theory import LinearCost, compute_speed_factor, compute_wall_clock_factor, find_best_gamma

SCHEMA = Schema("plan", 3, "The plan")
DERIVED = {
    "verdict": "verdict",
    "in_words": "in_words",
    "lost": "lost",
    "lines": "server_commands",
}  # name in a record -> property; written to a record for its readers; computed again when a plan is read back


@dataclass(frozen=True, slots=True)
class RoundCostCurve:
    """Seconds of the probes, run by run, in one process; or a single run, computed from a cost model.

    Attributes:
        target_only: One token by the target alone, a whole round of the loop.
        rounds: Per run, a whole round with 0, 1, .. G draft tokens, whether they are accepted or not.
        first: Per run, the first round of a text, which opens the models and reads the prompt: the target alone, then with 0, 1,
            .. G draft tokens.
        parts: Of a round with so many draft tokens, medians: drafting, the target's pass, the rule; ``rest`` is what is left of
            the round.
    """

    target_only: tuple[float, ...] = field(metadata=record_key("alone"))
    rounds: tuple[tuple[float, ...], ...]
    first: tuple[tuple[float, ...], ...]
    parts: Mapping[str, tuple[float, ...]]

    @classmethod
    def from_cost_model(cls, model: CostModel, gamma: int, draft: DraftCosts) -> RoundCostCurve:
        """The rounds with up to ``gamma`` draft tokens of one of the model's drafts. A first round costs as much as a later one."""
        sizes = range(gamma + 1)
        rounds = tuple(1e-3 * model.compute_round(n, n, draft) for n in sizes)
        parts = {
            "draft": tuple(1e-3 * n * draft.step for n in sizes),
            "target": tuple(1e-3 * model.compute_pass(1 + n) for n in sizes),
            "rule": (1e-3 * draft.rest,) * len(sizes),
            "rest": (0.0,) * len(sizes),
        }
        alone = 1e-3 * model.target_only
        return cls((alone,), (rounds,), ((alone, *rounds),), parts)

    def with_baseline(self, baseline: Baseline | None) -> RoundCostCurve:
        """The curve with the target-only times of a faster way."""
        if baseline is None:
            return self
        first = tuple((run[0] / baseline.factor, *run[1:]) for run in self.first)
        return replace(self, target_only=tuple(seconds / baseline.factor for seconds in self.target_only), first=first)

    def fit_draft(self, layers: int) -> DraftCosts:
        """Costs of this curve's draft for a cost model: the line through its drafting, whose fixed part counts as rest."""
        drafting = {n: seconds for n, seconds in enumerate(self.parts["draft"]) if n}
        line = LinearCost.fit(drafting)
        rest = median(sum(self.parts[name][n] for name in ("rule", "rest")) for n in drafting)
        step = max(1e-7, line.per_draft_token)  # a noisy clock may find that more steps take less time
        return DraftCosts(layers, round(1e3 * step, 4), round(max(0.0, 1e3 * (line.fixed + rest)), 4))

    def list_passes(self) -> dict[int, float]:
        """T(n) in milliseconds by the number n of tokens in the target's pass, for a cost model."""
        return {n: round(1e3 * seconds, 4) for n, seconds in enumerate(self.parts["target"], 1)}

    @property
    def c(self) -> float:
        """Draft step over target pass: drafting in the median round at the largest gamma, for each draft token, over one token alone."""
        return self.parts["draft"][-1] / (len(self.rounds[0]) - 1) / median(self.target_only)

    def compute_part(self, name: str, gamma: int) -> float:
        """One of ``parts`` of a round with so many draft tokens over one token of the target alone."""
        return self.parts[name][gamma] / median(self.target_only)

    @property
    def spread(self) -> float:
        """As ``measure_spread``, over the target alone and all rounds."""
        return measure_spread([self.target_only, *zip(*self.rounds, strict=True)])


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One gamma: tokens per target pass, and the factor over the target alone, None where no costs were measured.

    Attributes:
        tokens: Counted on texts of the target.
        hazards, independent: By the plainer formulas, at the counted hazards and alpha.
        own_text: Counted on the user's text, which needs no text of the target; None where the user gave prompts, which nothing
            follows.
        leviathan: Factor of the independent formula at c, where a verification pass costs one pass.
        linear: Of the hazards at a cost with a fixed part.
        operations: Arithmetic for a token over that of the target alone; None where no model drafts.
        gain: Tokens per pass above those of the token rule on the same texts; None under the token rule.
        round_sizes: Shares of the rounds with 0, 1, .. gamma draft tokens; empty in older records.
    """

    gamma: int
    tokens: Estimate
    hazards: float
    independent: float
    own_text: float | None
    alpha: float
    factor: Estimate | None = None
    leviathan: float | None = None
    linear: float | None = None
    operations: float | None = None
    gain: Estimate | None = None
    round_sizes: tuple[float, ...] = ()

    @property
    def speedup(self) -> Estimate:
        """The factor, of a plan with costs."""
        assert self.factor is not None, "a plan with costs has a factor for every gamma"
        return self.factor

    def compute_mean_round(self, rounds: Sequence[float]) -> float:
        """Mean time of a round. rounds: time of one with 0, 1, .. draft tokens, at least up to gamma."""
        if not self.round_sizes:
            return rounds[self.gamma]
        return sum(share * rounds[size] for size, share in enumerate(self.round_sizes)) / sum(self.round_sizes)

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> PlanRow:
        """A row of a record; older ones lack ``round_sizes``."""
        return build_fields(cls, {"round_sizes": []} | record)


@dataclass(frozen=True, slots=True)
class MeasuredRow:
    """One gamma, measured.

    Attributes:
        gaps: By formula: predicted over measured tokens per pass, minus 1.
        rate: Tokens per second by run; None where no speed was measured.
        gain: Measured tokens per pass above those of the token rule after the same openings; None under the token rule.
        noise: Sampling noise of the timed texts: rounds that they took over expected ones, minus 1, which is part of the gap of
            the speed.
    """

    gamma: int
    tokens: Estimate
    gaps: Mapping[str, Estimate]
    factor: Estimate | None = None
    rate: tuple[float, ...] | None = None
    gain: Estimate | None = None
    noise: float | None = None


Row = TypeVar("Row", PlanRow, MeasuredRow)


def find_fastest(rows: Sequence[Row]) -> Row | None:
    """The row with the largest speed-up; None where none has one."""
    timed = [row for row in rows if row.factor is not None]
    return max(timed, key=lambda row: row.factor.value if row.factor else 0.0, default=None)


def explain_measured_speeds(rows: Sequence[MeasuredRow]) -> str:
    """Why measured speeds are not believed, as a sentence; empty where they are."""
    widest = max((row.factor for row in rows if row.factor is not None), key=lambda one: one.width, default=None)
    return "" if widest is None else explain_interval(widest, "a measured speed")


OPTIONAL = ("cost_model", "baseline")  # fields that a record has only where there is something


@dataclass(frozen=True, slots=True)
class SpeedPlan(Record):
    """One plan.

    Attributes:
        text: Its name, its tokens, and the SHA-256 of its bytes; of a list of prompts also their number, ``prompts``.
        opening, length: Tokens of each before and after its place; opening is 0 where prompts are continued.
        positions: For each position of a round at the largest gamma: how often a draft token there is accepted, among those that
            are checked.
        best: Gamma of the largest predicted factor, 0 for the target alone, with the middle 95% over resamples; None without
            costs.
        checked: Measured rows, empty if nothing was measured.
        target_only_rates: Tokens per second of the target alone in that measurement, by run.
        cost_model: Of another machine, from which ``costs`` and all speeds are computed; None: they are measured.
        baseline: What ``costs.target_only`` and ``target_only_rates`` are times of; None: of this project's target-only loop, the fastest one measured.
    """

    schema = SCHEMA
    settings: Settings
    text: Mapping[str, Any]
    openings: int
    opening: int
    length: int
    rows: tuple[PlanRow, ...]
    costs: RoundCostCurve | None = None
    best: Estimate | None = None
    checked: tuple[MeasuredRow, ...] = ()
    target_only_rates: tuple[float, ...] | None = field(default=None, metadata=record_key("alone"))
    machine: Mapping[str, Any] = field(default_factory=dict)
    models: Mapping[str, Any] = field(default_factory=dict)
    date: str = ""
    positions: tuple[Estimate, ...] = ()
    cost_model: CostModel | None = None
    baseline: Baseline | None = None

    def with_cost_model(self, model: CostModel, draft: DraftCosts | None = None) -> SpeedPlan:
        """The same texts with the costs of another machine. Tokens per pass stay, speeds are computed from both.

        draft: one of the model's; None: the one whose depth is nearest to that of the plan's own draft, where this is known.
        """
        draft = draft or model.find_draft(self._count_draft_layers())
        costs = RoundCostCurve.from_cost_model(model, self.rows[-1].gamma, draft)
        rounds, alone = costs.rounds[0], costs.target_only[0]
        linear = LinearCost.fit(dict(enumerate(rounds[1:], 1)))
        rows = tuple(
            replace(
                row,
                factor=row.tokens.convert(alone / row.compute_mean_round(rounds), "times"),
                leviathan=compute_wall_clock_factor(row.alpha, row.gamma, costs.c),
                linear=compute_speed_factor(row.hazards, linear.compute_seconds(row.gamma), alone),
            )
            for row in self.rows
        )
        best = float(find_best_gamma({row.gamma: row.speedup.value for row in rows}))
        checked = tuple(replace(one, factor=None, rate=None, noise=None) for one in self.checked)
        found = Estimate(best, best, best, self.openings)
        return replace(
            self, rows=rows, costs=costs, best=found, checked=checked, target_only_rates=None, cost_model=model, baseline=None
        )

    def _count_draft_layers(self) -> int | None:
        """Layers of what drafts: 0 where no model does, None where it is not known."""
        runs_model = PROPOSERS.read_argument(self.settings.proposer, "runs_model", True)
        return self.models.get("draft", {}).get("layers") if runs_model else 0

    def compare_drafts(self) -> dict[DraftCosts, tuple[PlanRow, float]]:
        """With each of the cost model's other drafts: the row of the best gamma, and the speed-up at most, if all draft tokens were accepted.

        Empty without a cost model, and where no model drafts.
        """
        model, layers = self.cost_model, self._count_draft_layers()
        if model is None or layers == 0:
            return {}
        found = {}
        for draft in model.drafts:
            if draft.layers and draft != model.find_draft(layers):
                rows = self.with_cost_model(model, draft).rows
                most = max((n + 1) * model.target_only / model.compute_round(n, n, draft) for n in range(1, GAMMA_MAX + 1))
                found[draft] = max(rows, key=lambda row: row.speedup.value), most
        return found

    def find_row(self, gamma: int) -> PlanRow | None:
        return next((row for row in self.rows if row.gamma == gamma), None)

    @property
    def chosen_by(self) -> dict[str, int]:
        """The gamma that each way of predicting chooses, 0 for the target alone; empty without costs."""
        if self.best is None:
            return {}
        plainer = {
            name: find_best_gamma({row.gamma: getattr(row, name) for row in self.rows}) for name in ("linear", "leviathan")
        }
        return {"accepted draft tokens": int(self.best.value), "hazards": plainer["linear"], "Leviathan": plainer["leviathan"]}

    @property
    def busy(self) -> str:
        """Why the costs allow no verdict, as a sentence; empty if they do."""
        return "" if self.costs is None else explain_spread(self.costs.spread, "one probe’s runs")

    @property
    def is_conclusive(self) -> bool:
        """Whether the measured speeds have enough runs, close enough together; true where none were measured."""
        return not self.inconclusive_reason

    @property
    def inconclusive_reason(self) -> str:
        """Why the measured speeds are not believed, as a sentence; empty where they are."""
        return explain_measured_speeds(self.checked)

    @property
    def verdict(self) -> str:
        """``speculate``, ``do not speculate``, or ``no verdict``: no costs, or a machine too busy to measure them."""
        if self.best is None or self.busy:
            return "no verdict"
        row = self.find_row(int(self.best.value))
        return "speculate" if row is not None and row.speedup.low > 1.0 else "do not speculate"

    @property
    def in_words(self) -> str:
        """The verdict as a sentence."""
        if self.costs is None or self.best is None:
            return "No verdict on speed: no costs were measured."
        if self.busy:
            return f"No verdict: {self.busy}"
        row = self.find_row(int(self.best.value))
        refusal = f"Do not speculate{' with this draft' if self.settings.proposer == 'draft' else ''}"
        if row is None:
            top = max(self.rows, key=lambda one: one.speedup.value)
            said = f"{refusal}: even the best gamma, {top.gamma}, has a predicted speed-up of {top.speedup.format()}."
        elif row.speedup.low <= 1.0:
            said = f"{refusal}: the predicted speed-up of {row.speedup.format()} is not distinguishable from no gain."
        else:
            span = "" if self.best.low == self.best.high else f" ({self.best.low:g} to {self.best.high:g})"
            said = f"Speculate with gamma {row.gamma}{span}: the predicted speed-up is {row.speedup.format()}."
        return f"{said} {self.origin}".rstrip()

    @property
    def origin(self) -> str:
        """That speeds are computed from this pair's tokens and another machine's costs, as a sentence; empty where they are measured."""
        if self.cost_model is None:
            return ""
        return f"Computed from both: tokens per target pass of this pair, costs of {self.cost_model.title}."

    def describe_drafts(self) -> list[str]:
        """What drafts of other depths would give, a sentence each."""
        model, found = self.cost_model, []
        for draft, (row, most) in self.compare_drafts().items():
            assert model is not None, "drafts are those of a cost model"
            found.append(
                f"A draft of {draft.layers} layers beside this target of {model.layers} would cost {draft.step / model.target_only:.2f} target passes a step: "
                f"at best {row.speedup.value:.2f} times the speed of target-only sampling (gamma {row.gamma}), and at most {most:.2f} if every draft "
                "token were accepted."
            )
        return found

    @property
    def of_prompts(self) -> bool:
        """Whether it continues prompts as they are, not places of one text."""
        return "prompts" in self.text

    @property
    def server_commands(self) -> tuple[ServerCommand, ...]:
        """How servers are started with the best gamma; empty where that is the target alone, or not known."""
        draft = self.models.get("draft", {})
        return () if self.best is None else build_server_commands(self.settings, int(self.best.value), draft)

    @property
    def lost(self) -> float | None:
        """How much slower the chosen gamma was measured than the best one, as a share; None where no speed was measured.

        The median over runs; below 0 the chosen gamma was faster. In each run it is compared with the gamma that was fastest in the
        other runs, because the fastest of several noisy measurements looks better than it is.
        """
        if self.best is None or self.target_only_rates is None or len(self.target_only_rates) < 2:
            return None
        rates = {0: self.target_only_rates} | {row.gamma: row.rate for row in self.checked if row.rate is not None}
        if (chosen := int(self.best.value)) not in rates:
            return None
        ratios = []
        for run in range(len(self.target_only_rates)):
            others = {gamma: median(rate[:run] + rate[run + 1 :]) for gamma, rate in rates.items()}
            fastest = max(others, key=lambda gamma: others[gamma])
            ratios.append(rates[chosen][run] / rates[fastest][run])
        return 1.0 - median(ratios)

    def to_record(self) -> dict[str, Any]:
        """JSON-ready, with DERIVED, without a cost model and a baseline where there are none."""
        record = {name: value for name, value in to_json_fields(self).items() if value is not None or name not in OPTIONAL}
        return record | {key: to_json_value(getattr(self, name)) for key, name in DERIVED.items()}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> SpeedPlan:
        return build_fields(cls, dict.fromkeys(OPTIONAL) | {name: value for name, value in record.items() if name not in DERIVED})


PLANS_SCHEMA = Schema("plans", 3, "The record of plans")
PLAN_TEXT = "bedtime"  # kind of text that they are made on
PLAN_GAMMAS = tuple(range(1, 9))
PLAN_DRAFTS: dict[str, tuple[dict[str, Any], str]] = {  # name -> the settings that choose it, and what it is
    "storybook": ({"pair": "storybook", "proposer": "draft"}, "the draft distilled from the target"),
    "storybook-plain": ({"pair": "storybook-plain", "proposer": "draft"}, "a draft trained on text alone"),
    "ngram": ({"pair": "storybook", "proposer": "ngram"}, "draft tokens copied from the text so far"),
}
OWN_PAIR_DRAFTS: dict[str, tuple[dict[str, Any], str]] = {  # of a pair of one's own, for which there are no recorded plans
    "draft": ({"proposer": "draft"}, "the pair's draft"),
    "ngram": ({"proposer": "ngram"}, "draft tokens copied from the text so far"),
}
PLAN_TEMPERATURES = ("0", "0.6", "1")


@dataclass(frozen=True, slots=True)
class PlanChoice:
    """A draft and a temperature by name. Raises SettingsError for names that are not known."""

    draft: str = "storybook"
    temperature: str = "1"

    def __post_init__(self) -> None:
        for name, value, known in (
            ("draft", self.draft, PLAN_DRAFTS | OWN_PAIR_DRAFTS),
            ("temperature", self.temperature, PLAN_TEMPERATURES),
        ):
            if value not in known:
                raise SettingsError(name, value[:60], f"one of {', '.join(known)}")

    @property
    def key(self) -> str:
        return f"{self.draft} {self.temperature}"

    @property
    def needs_no_pair(self) -> bool:
        """Whether the draft is offered for every pair: no model of a pair drafts."""
        return self.draft in PLAN_DRAFTS.keys() & OWN_PAIR_DRAFTS.keys()

    def build_settings(self, base: Settings) -> Settings:
        """These settings with the choice; a pair of one's own stays, one of the catalog is that of the draft."""
        chosen = (PLAN_DRAFTS if base.pair in PAIRS else OWN_PAIR_DRAFTS)[self.draft][0]
        return replace(base, temperature=float(self.temperature), **chosen)


PLAN_CHOICES = tuple(PlanChoice(draft, temperature) for draft in PLAN_DRAFTS for temperature in PLAN_TEMPERATURES)


def dump_plans(plans: Mapping[str, SpeedPlan]) -> str:
    """The JSON of plans by key."""
    return PLANS_SCHEMA.format_record({"plans": to_json_value(plans)})


def load_plans(text: str) -> dict[str, SpeedPlan]:
    """The plans of a file by key. Raises TraceError for anything else."""
    return PLANS_SCHEMA.read(text, lambda record: build(dict[str, dict[str, SpeedPlan]], record)["plans"])


def load_plan_text() -> str:
    """The text of PLAN_TEXT."""
    return read_text(ASSETS / "texts" / "kinds" / f"{PLAN_TEXT}.txt", "The text")


def parse_prompts(text: str, most: int) -> tuple[str, ...]:
    """The prompts of a text; empty lines are left out. Raises SettingsError for fewer than two, and for more than ``most``."""
    found = tuple(line for line in text.splitlines() if line.strip())
    if not 2 <= len(found) <= most:
        lines = f"{len(found):,} line{'s' * (len(found) != 1)}"
        raise SettingsError("prompts", Described(lines), f"2 to {most:,}, each on a line of its own")
    return found
