"""Every speed of the shipped pair that stands on a page or in the README, each read from its record, with what makes it differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from specviz.figures.pages_and_glossary import PAGES
from specviz.speed.records import headline
from specviz.speed.records.batches import BatchSpeeds
from specviz.speed.records.passage import Passage
from specviz.speed.records.plan import SpeedPlan
from specviz.web.speed.round_model import RoundModel
from specviz.web.speed.state import load_gpu_costs
from specviz.web.whole_text.state import load_recorded_passages

COLUMNS = ("where it stands, and what makes it differ", "times as fast")


@dataclass(frozen=True, slots=True)
class OtherSpeed:
    """A speed of the pair.

    Attributes:
        place: Where it stands.
        speed: Times as fast as target-only sampling, with its 95% interval where it has one.
        why: What makes it differ from the others.
    """

    place: str
    speed: str
    why: str

    @property
    def row(self) -> tuple[tuple[str, str], str]:
        """Its row of a table with COLUMNS."""
        return (self.place, self.speed), self.why


def list_other_speeds(model: RoundModel, plan: SpeedPlan | None, batches: BatchSpeeds | None) -> list[OtherSpeed]:
    """All of them, the headline first. model: of the pair in the headline's runs; plan: recorded, at temperature 1."""
    return [*_list_measured(), *_list_texts(), *_list_predictions(model, plan, batches)]


def _list_measured() -> Iterator[OtherSpeed]:
    tokens = {heat: headline.get_round(heat).tokens for heat in headline.load_headline().rounds}
    yield OtherSpeed(
        f"At the top of this page, {PAGES['drafting_methods'].title}, README",
        headline.format_headline("1"),
        f"temperature 1, gamma {headline.load_headline().gamma}, {headline.load_headline().runs} runs of {headline.load_headline().prompts} texts",
    )
    yield OtherSpeed(
        "README, temperature 0", headline.format_headline("0"), f"a round writes {tokens['0']:.2f} tokens instead of {tokens['1']:.2f}"
    )  # fmt: skip
    value, low, high = headline.OLDER_SPEEDS["1"]
    yield OtherSpeed("README, older CPU", f"{value:.2f} ({low:.2f} to {high:.2f})", headline.OLDER_MACHINE)
    record = load_gpu_costs()
    for dtype in ("float32", "bfloat16"):
        if record and (pair := record.pair.get(f"{dtype}, T=1")):
            value, low, high = pair.ratios["auto"]
            yield OtherSpeed("README, GPU", f"{value:.2f} ({low:.2f} to {high:.2f})", f"{record.machine}, {dtype}, compiled")


def _list_texts() -> Iterator[OtherSpeed]:
    for number, passage in enumerate(load_recorded_passages().values()):
        heat = f"temperature {passage.settings.temperature:g}"
        yield OtherSpeed(
            f"{PAGES['whole_text'].title}{', the front page' * (number == 0)}",
            f"{_compare_clocks(passage):.2f}",
            f"one text of {len(passage.target.trace.output_ids)} tokens; {heat}",
        )


def _compare_clocks(passage: Passage) -> float:
    return passage.speculative.speed / passage.target.speed


def _list_predictions(model: RoundModel, plan: SpeedPlan | None, batches: BatchSpeeds | None) -> Iterator[OtherSpeed]:
    if plan is not None and plan.best is not None and (row := plan.find_row(int(plan.best.value))):
        text = f"{plan.openings} continuations of one text, {plan.length} tokens each"
        yield OtherSpeed("Predict for a text: predicted", row.speedup.format(), text)
        measured = next((one.factor for one in plan.checked if one.gamma == row.gamma and one.factor), None)
        if measured:
            yield OtherSpeed("Predict for a text: measured", measured.format(), f"the same {text.partition(',')[0]}")
    if batches is not None:
        key = f"{batches.settings.pair} 1"
        _, found = batches.find_best(key, batches.rows[0])
        yield OtherSpeed(
            "Batch size, all numbers", found.format(), f"computed from timed passes with {batches.cached_tokens} tokens in the cache"
        )  # fmt: skip
    paper = model.compute_paper_speed(model.alpha, model.c, model.gamma)
    yield OtherSpeed("The paper’s formula", f"{paper:.2f}", "computed; longer passes and the rule cost nothing")
