"""The export of How fast?: the plan on screen and what stands in the tabs as a package."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from specviz.export.manifest import build_facts, describe_conditions
from specviz.export.package import ExportOffer, Package, Picture, list_interval, name_interval_columns
from specviz.models.pairs.names import format_options
from specviz.speed.records.batches import BatchSpeeds
from specviz.speed.records.plan import SpeedPlan
from specviz.speed.records.study import STATISTICS, Study
from specviz.web.speed import batch_figures, plan_figures, surface_figures, timeline_figures
from specviz.web.speed import plan_figures as figures
from specviz.web.speed import study_figures as fast_study
from specviz.web.speed.state import SpeedState, load_batches, load_study
from specviz.web.speed.surface_figures import Spot
from specviz.web.speed.tab_state import choose_rounds, locate_pair, place_sliders


def build_offer(state: SpeedState) -> ExportOffer:
    """What can be exported; nothing until there is a plan. The sliders stand where the visitor has left them."""
    plan, choice, found, many = state.shown, state.question.choice, load_study(), load_batches()
    if plan is None:
        return ExportOffer("how-fast")
    asked = place_sliders(state.question, plan, many)
    commands = [plan_command(plan), "python -m specviz study", "python -m specviz record batches"]
    said = build_facts(
        plan.settings, plan.models, "speed", state.question.link(), commands, n=plan.openings,
        machine=dict(plan.machine), measured=plan.date, recorded=not state.own, sentence=plan.in_words,
    )  # fmt: skip
    package = build_speed_package(
        plan,
        said,
        study=found and (found, choice.draft),
        many=many and (many, choose_rounds(many, choice)[0]),
        what_if=(asked.gamma, asked.spot, locate_pair(choice, plan, many, asked.gamma)),  # where the sliders stand
    )
    about = "" if state.own else f"This is the recorded plan, of the text {plan.text['name']}."
    return ExportOffer.from_package(package, about)


def plan_command(plan: SpeedPlan) -> str:
    """What makes the same plan without the page, on the same text in a file; times are those of the machine it runs on."""
    settings = plan.settings
    words = ["python", "-m", "specviz", "plan", *format_options(settings.pair), "--proposer", settings.proposer]
    words += ["--prompts", "prompts.txt"] if plan.of_prompts else ["--text", "text.txt"]
    words += ["--temperature", f"{settings.temperature:g}", "--gammas", f"{plan.rows[0].gamma}-{plan.rows[-1].gamma}"]
    words += [] if plan.of_prompts else ["--texts", str(plan.openings), "--opening", str(plan.opening)]
    words += ["--max-new-tokens", str(plan.length)]
    words += ["--seed", str(settings.seed), *(["--check"] if plan.checked else [])]
    return shlex.join(words + (["--tokens-only"] if plan.costs is None else []))


ROWS = ("gamma", *name_interval_columns("tokens", "measured_tokens", "factor", "measured_factor"),
        "hazards", "one_alpha", "text_read_on", "alpha", "leviathan", "hazards_linear_cost", "operations")  # fmt: skip
POSITIONS = ("position", *name_interval_columns("accepted"))
BATCHES = ("texts", "gamma", *name_interval_columns("factor", "pass", "tokens"))
CELLS = (
    "kind",
    "temperature",
    "top_p",
    "draft",
    "checked",
    "accepted",
    "predicted_acceptance_rate",
    *STATISTICS,
    "blank_because",
)


def build_speed_package(
    plan: SpeedPlan,
    manifest: Mapping[str, Any],
    study: tuple[Study, str] | None = None,
    many: tuple[BatchSpeeds, str] | None = None,
    what_if: tuple[int, Spot, Spot | None] | None = None,
) -> Package:
    """What the page shows; None where nothing was recorded.

    manifest  settings, models, versions, permalink and commands
    study     with the draft whose acceptance is drawn
    many      with the name of the rounds that are
    what_if   gamma, the chosen point and the running pair
    """
    where = describe_conditions(plan.settings, plan.models)
    pictures = {"tokens": Picture(partial(figures.plot_tokens, plan), "Tokens per target pass")}
    captions = [f"{figures.describe_tokens(plan)} {where}", f"{plan.in_words} {where}"]
    tables = {"gammas.csv": lambda: (ROWS, _gamma_rows(plan))}
    if plan.costs is not None:
        pictures["speed"] = Picture(partial(figures.plot_factors, plan), "Speed-up")
    if plan.positions:
        pictures["positions"] = Picture(partial(plan_figures.plot_positions, plan), "Acceptance by position")
        captions.append(f"{plan_figures.describe_positions(plan)} {where}")
        tables["positions.csv"] = lambda: (POSITIONS, ([n, *list_interval(one)] for n, one in enumerate(plan.positions, 1)))
    if study is not None and study[0].list_measured(study[1:]):
        found, draft = study
        for axis in fast_study.AXES:
            if len(fast_study.group_by_axis(found, draft, axis)) > 1:
                pictures[f"acceptance-over-{axis}"] = Picture(
                    partial(fast_study.plot_acceptance, found, draft, axis), f"Acceptance rate: {draft}"
                )
                captions.append(fast_study.describe_acceptance(found, draft, axis))
        pictures["foretold"] = Picture(partial(fast_study.plot_predictions, found, draft), f"Predicted and measured: {draft}")
        pictures["confidence"] = Picture(partial(fast_study.plot_confidence, found, draft), f"Confidence: {draft}")
        captions += [fast_study.describe_predictions(found, draft), fast_study.describe_confidence(found, draft)]
        tables["study.csv"] = lambda: (CELLS, _study_rows(found))
    if many is not None:
        batches, key = many
        pictures["many-texts"] = Picture(partial(batch_figures.plot_factors, batches, key), "Many texts at once")
        pictures["passes"] = Picture(partial(batch_figures.plot_pass_costs, batches), "What verification costs")
        captions += [batches.describe(key), batch_figures.describe_pass_costs(batches)]
        tables["many-texts.csv"] = lambda: (BATCHES, _batch_rows(batches, key))
    if what_if is not None:
        gamma, chosen, running = what_if
        pictures["timeline"] = Picture(
            partial(timeline_figures.plot_timeline, gamma, chosen), "Draft steps and target passes by the formula"
        )
        captions.append(timeline_figures.describe_round(gamma, chosen))
        pictures["what-if"] = Picture(partial(surface_figures.plot_surface, *what_if), f"Speed-up by the formula, gamma {gamma}")
        captions.append(f"{surface_figures.describe_spot(gamma, chosen)} {surface_figures.FORMULA}")
        rows = surface_figures.build_rows(running, chosen)
        tables["what-if.csv"] = lambda: (rows[0], (row.values() for row in rows))
    return Package(
        "how-fast", "How fast?", {"plan.json": json.loads(plan.to_json())}, tables, pictures, tuple(captions), manifest
    )


def _gamma_rows(plan: SpeedPlan) -> Iterator[list[Any]]:
    measured = {row.gamma: row for row in plan.checked}
    for row in plan.rows:
        one = measured.get(row.gamma)
        spans = (row.tokens, one and one.tokens, row.factor, one and one.factor)
        plain = (row.hazards, row.independent, row.own_text, row.alpha, row.leviathan, row.linear, row.operations)
        yield [row.gamma, *(x for span in spans for x in list_interval(span)), *plain]


def _batch_rows(found: BatchSpeeds, key: str) -> Iterator[list[Any]]:
    for rows in found.rows:
        for gamma in found.gammas:
            spans = (found.estimate_factor(key, rows, gamma), found.estimate_cost(rows, gamma), found.estimate_tokens(key, gamma))
            yield [rows, gamma, *(x for span in spans for x in list_interval(span))]


def _study_rows(study: Study) -> Iterator[list[Any]]:
    for cell in study.cells:
        found = map(cell.statistics.get, STATISTICS)
        yield [
            cell.kind,
            cell.temperature,
            cell.top_p,
            cell.draft,
            cell.checked,
            cell.accepted,
            cell.predicted,
            *found,
            cell.reason,
        ]
