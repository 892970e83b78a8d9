"""What a visitor wants predicted on How fast?, and the recorded plans that stand there until then. Plain records, no torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

from specviz.errors import SettingsError, TooLongError
from specviz.models.pairs.catalog import PAIRS
from specviz.records import ASSETS, load_toml, read_file_or
from specviz.settings import GAMMA_MAX, PROMPT_MAX, Settings
from specviz.speed.records import gpu_costs, headline
from specviz.speed.records.batches import BatchSpeeds
from specviz.speed.records.cost_model import load_cost_models
from specviz.speed.records.gpu_costs import GpuCosts
from specviz.speed.records.plan import OWN_PAIR_DRAFTS, PLAN_DRAFTS, PLAN_TEXT, PlanChoice, SpeedPlan, load_plans
from specviz.speed.records.study import Study
from specviz.web.common import links
from specviz.web.common.cost_choice import MEASURED, apply_costs, check_costs
from specviz.web.common.page_state import MeasurementState
from specviz.web.hosting.limits import check_text
from specviz.web.speed.round_model import (
    UNKNOWN,
    RoundModel,
    build_headline_model,
    build_machine_model,
    build_plan_model,
    build_unknown_model,
)
from specviz.web.speed.surface_figures import Spot

PLANS, STUDY, BATCHES = (ASSETS / "traces" / name for name in ("plans.json", "study.json", "batches.json"))
GPU = gpu_costs.FOLDER / "h200.json"
SHOWN_TEXT = ASSETS / "texts" / "kinds" / f"{PLAN_TEXT}.txt"
FIRST = PlanChoice()
LINKED = 1200  # characters of a text that a link holds
TABS = {  # name in a link -> title
    "many": "Batch size",
    "text": "Predict for a text",
    "server": "On your server",
    "what-if": "The formula",
    "acceptance": "Temperature",
    "foretold": "How it is predicted",
}
FORMER_TABS = {"drafts": "text"}  # what a former tab showed stands in another one
NUMBERS = {"alpha": float, "c": float, "gamma": int, "texts": int}  # of the sliders
TEXTS = load_toml("texts/speed")
SHARED_COSTS = ("alpha",)  # sliders that stay when another machine is chosen: they are the pair's


@lru_cache(maxsize=1)
def load_recorded_plans() -> dict[str, SpeedPlan]:
    """The plans that the page opens with, by choice; empty where the file is missing or damaged."""
    return read_file_or(PLANS, load_plans, {})


@lru_cache(maxsize=1)
def load_study() -> Study | None:
    """The recorded study; None where the file is missing or damaged."""
    return read_file_or(STUDY, Study.from_json, None)


@lru_cache(maxsize=1)
def load_batches() -> BatchSpeeds | None:
    """The recorded rounds over many texts; None where the file is missing or damaged."""
    return read_file_or(BATCHES, BatchSpeeds.from_json, None)


@lru_cache(maxsize=1)
def load_gpu_costs() -> GpuCosts | None:
    """The recorded passes of a server's GPU; None where the file is missing or damaged."""
    return read_file_or(GPU, GpuCosts.from_json, None)


def list_batch_sizes() -> tuple[int, ...]:
    """Numbers of texts at once that were timed; one text where nothing was."""
    batches = load_batches()
    return batches.rows if batches else (1,)


@lru_cache(maxsize=1)
def load_example_text() -> str:
    """The text that the recorded plans were made on; empty where the file is missing."""
    try:
        return SHOWN_TEXT.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


@dataclass(frozen=True, slots=True)
class SpeedQuestion:
    """What a visitor wants to know. Raises SettingsError for a text that is too long, and for values out of range.

    text  of the kind that will be written; with ``lines`` prompts, one to a line; choice  draft and temperature
    pair  of models; of those of the catalog the draft of ``choice`` says which
    costs whose count, one of ``cost_choice.list_cost_titles``
    tab   the open one; alpha, c, gamma, texts  where the sliders were moved to, None: where they begin
    """

    text: str
    choice: PlanChoice = FIRST
    tab: str = next(iter(TABS))
    alpha: float | None = None
    c: float | None = None
    gamma: int | None = None
    texts: int | None = None
    pair: str = Settings().pair
    lines: bool = False
    costs: str = MEASURED

    def __post_init__(self) -> None:
        draft, own = self.choice.draft, self.pair not in PAIRS
        if own and draft not in OWN_PAIR_DRAFTS:
            object.__setattr__(self, "choice", replace(self.choice, draft="draft"))
        elif not own and draft not in PLAN_DRAFTS:
            object.__setattr__(self, "choice", replace(self.choice, draft=self.pair))
        elif not own and draft in PAIRS:
            object.__setattr__(self, "pair", draft)
        check_text("text", self.text)
        check_costs(self.costs)
        if len(self.text) > PROMPT_MAX:
            raise TooLongError("text", len(self.text), PROMPT_MAX)
        if self.tab not in TABS:
            raise SettingsError("tab", self.tab[:60], f"one of {', '.join(TABS)}")
        for name, value in (("alpha", self.alpha), ("c", self.c)):
            if value is not None and not 0.0 <= value <= 1.0:
                raise SettingsError(name, value, "a number from 0 to 1")
        if self.gamma is not None and not 1 <= self.gamma <= GAMMA_MAX:
            raise SettingsError("gamma", self.gamma, f"a whole number from 1 to {GAMMA_MAX} on this page")
        if self.texts is not None and self.texts not in list_batch_sizes():
            raise SettingsError("texts", self.texts, f"one of {', '.join(map(str, list_batch_sizes()))}")

    @property
    def settings(self) -> Settings:
        return self.choice.build_settings(Settings(pair=self.pair))

    @property
    def has_own_pair(self) -> bool:
        """Whether the pair is one of the visitor's own."""
        return self.pair not in PAIRS

    def with_pair(self, pair: str) -> SpeedQuestion:
        """The same of another pair. Copied draft tokens stay, any other draft becomes the pair's; sliders begin where it stands."""
        draft = self.choice.draft if self.choice.needs_no_pair else pair if pair in PLAN_DRAFTS else "draft"
        return replace(self, pair=pair, choice=replace(self.choice, draft=draft), alpha=None, c=None, gamma=None, texts=None)

    def build_link(self) -> dict[str, str]:
        """Query parameters under which someone else finds the same; a long text of one's own is left out."""
        query = {"draft": self.choice.draft, "temperature": self.choice.temperature}
        query |= {"costs": self.costs} if self.costs != MEASURED else {}
        query |= {"tab": self.tab} if self.tab != next(iter(TABS)) else {}
        query |= {name: f"{value:g}" for name in NUMBERS if (value := getattr(self, name)) is not None}
        query |= {"pair": self.pair} if self.has_own_pair or (self.choice.needs_no_pair and self.pair != Settings().pair) else {}
        if self.text == load_example_text() or len(self.text) > LINKED:
            return query
        return query | {"text": self.text} | ({"lines": "1"} if self.lines else {})

    @classmethod
    def from_link(cls, query: Mapping[str, str], base: Settings) -> tuple[SpeedQuestion, list[str]]:
        """What a link asks for, and a sentence for each value that was left out; other pages' settings do not matter here."""
        settings, said = links.read_prompt({"pair": query["pair"]} if "pair" in query else {}, Settings(pair=base.pair), base)
        question, left_out = links.read_values(
            query, cls(load_example_text()).with_pair(settings.pair), {"text": _set_text} | LINK_SETTERS
        )
        return question, said + left_out


def _set_text(question: SpeedQuestion, text: str) -> SpeedQuestion:
    return replace(question, text=text.strip())


def _set_number(name: str, question: SpeedQuestion, text: str) -> SpeedQuestion:
    try:
        value = round(NUMBERS[name](text), 2)  # the sliders' own steps
    except ValueError:
        raise SettingsError(name, text[:60], "a number") from None
    return replace(question, **{name: value})


LINK_SETTERS: dict[
    str, Callable[[SpeedQuestion, str], SpeedQuestion]
] = {  # parameter of a link -> the question with its text as a value
    "draft": lambda one, text: replace(one, choice=replace(one.choice, draft=text)),
    "temperature": lambda one, text: replace(one, choice=replace(one.choice, temperature=text)),
    "lines": lambda one, text: replace(one, lines=text == "1"),
    "costs": lambda one, text: replace(one, costs=text),
    "tab": lambda one, text: replace(one, tab=FORMER_TABS.get(text, text)),
    **{name: partial(_set_number, name) for name in NUMBERS},
}


class SpeedState(MeasurementState):
    """The question, and every plan that this visitor has had made: (text, whether it is prompts, pair, choice) -> SpeedPlan."""

    def build_key(self, question: SpeedQuestion) -> tuple[str, bool, str, str]:
        return question.text, question.lines, question.settings.pair, question.choice.key

    def load_recorded(self) -> SpeedPlan | None:
        """That of the same choice; for a pair of one's own, the shipped pair's of the same temperature."""
        choice = self.question.choice
        return load_recorded_plans().get(choice.key) or load_recorded_plans().get(
            replace(FIRST, temperature=choice.temperature).key
        )

    @property
    def shown_plan(self) -> SpeedPlan | None:
        """The shown result with the chosen costs."""
        plan: SpeedPlan | None = self.shown_result
        return plan and apply_costs(plan, self.question.costs)

    @property
    def pair(self) -> str:
        return self.question.pair

    def set_pair(self, pair: str) -> None:
        self.choose(self.question.with_pair(pair))


@dataclass(frozen=True, slots=True)
class Sliders:
    """Values of the four sliders."""

    alpha: float
    c: float
    gamma: int
    texts: int = 1

    @property
    def spot(self) -> Spot:
        """The point of the surface."""
        return Spot(self.alpha, self.c)


def build_round_model(question: SpeedQuestion, shown: SpeedPlan | None, batches: BatchSpeeds | None) -> RoundModel:
    """The model where the sliders begin: this pair at temperature 1, on the chosen machine. shown: the plan on screen, without another machine's costs."""
    pair, layers = _build_pair_model(question, shown, batches)
    costs = load_cost_models().get(question.costs)
    return pair if costs is None else build_machine_model(pair, costs, layers)


def _build_pair_model(
    question: SpeedQuestion, shown: SpeedPlan | None, batches: BatchSpeeds | None
) -> tuple[RoundModel, int | None]:
    """The pair as it was timed, and the layers of its draft: by ``bench``, else by its recorded plan, else by the visitor's own."""
    plan = shown if question.has_own_pair else load_recorded_plans().get(PlanChoice(draft=question.pair).key)
    if plan is None or plan.settings.pair != question.pair:
        return build_unknown_model(), None
    layers = plan.models.get("draft", {}).get("layers")
    if question.pair == headline.load_headline().pair:
        return build_headline_model(batches), layers
    if question.has_own_pair:
        return build_plan_model(
            plan, None, "this machine", f"Predicted from your text, temperature {plan.settings.temperature:g}."
        ), layers
    origin = f"Predicted from {plan.openings} continuations of {plan.text['name']} and timed rounds, {plan.date}; temperature {plan.settings.temperature:g}."
    return build_plan_model(plan, batches, "two CPU cores", origin), layers


def locate_pair(model: RoundModel) -> Spot | None:
    """The pair on the surface: where the sliders begin; None where it was not timed."""
    return None if model.kind == UNKNOWN else Spot(min(1.0, model.alpha), min(1.0, model.c))


def place_sliders(question: SpeedQuestion, model: RoundModel) -> Sliders:
    """The sliders where they were moved, else where the model begins."""
    chosen = {name: getattr(question, name) for name in ("alpha", "c", "gamma")}
    values = {name: getattr(model, name) if value is None else value for name, value in chosen.items()}
    texts = 1 if model.batches is None else question.texts or 1
    return Sliders(min(1.0, values["alpha"]), min(1.0, values["c"]), values["gamma"], texts)


def follow_widgets(question: SpeedQuestion, model: RoundModel, widgets: Mapping[Any, Any], turn: int) -> SpeedQuestion:
    """The question after tabs and sliders were touched. widgets: their values in the session; those not drawn change nothing.

    A slider at its beginning was not moved, and a link leaves it out.
    """
    title = widgets.get(build_tabs_key(turn))
    tab = next((name for name, one in TABS.items() if one == title), question.tab)
    begin = place_sliders(replace(question, alpha=None, c=None, gamma=None, texts=None), model)
    moved: dict[str, Any] = {}
    for name in NUMBERS:
        value = widgets.get(build_slider_key(name, question, turn))
        if value is not None:
            moved[name] = None if round(value, 2) == round(getattr(begin, name), 2) else round(value, 2)
    try:
        return replace(question, tab=tab, **moved)
    except SettingsError:  # a slider beyond its range: a forged value
        return replace(question, tab=tab)


def build_tabs_key(turn: int) -> str:
    """Key of the tabs' widget, made anew when a link fills the page."""
    return f"speed-tabs-{turn}"


def build_slider_key(name: str, question: SpeedQuestion, turn: int) -> str:
    """Key of a slider's widget: each pair, and for its costs each machine, has its own, for each stands elsewhere."""
    machine = "" if name in SHARED_COSTS else question.costs
    return f"speed-what-{name}-{question.pair}-{machine}-{turn}"


def choose_rounds(batches: BatchSpeeds, choice: PlanChoice) -> tuple[str, str]:
    """Key of the rounds that are shown beside the passes of the shipped pair, and a sentence with their origin."""
    key = choice.key if choice.key in batches.rounds else PlanChoice(temperature=choice.temperature).key
    whose = f"rounds of {PLAN_DRAFTS[key.split(' ')[0]][1]}"
    more = "" if key == choice.key else f"; there is no record of {(PLAN_DRAFTS | OWN_PAIR_DRAFTS)[choice.draft][1]}"
    machine, texts = batches.machine, len(next(iter(batches.rounds.values()))[0])
    where = f"{machine.get('processor', 'a machine')}, {machine.get('threads', '?')} of {machine.get('cores', '?')} cores"
    return key, (
        f"Recorded {batches.date} on {where}, load {machine.get('load', 0.0):.1f}: passes at temperature 1 with {batches.cached_tokens} tokens in the cache, "
        f"and {whose} over {texts} texts of {batches.length} tokens at temperature {choice.temperature}{more}."
    )
