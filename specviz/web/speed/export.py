"""The export of How fast?: the plan on screen and what stands in the tabs as a package."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from specviz.export.manifest import build_facts, describe_conditions
from specviz.export.package import ExportOffer, Package, Picture, Rows, list_interval, name_interval_columns
from specviz.models.pairs.names import format_options
from specviz.speed.records.batches import BatchSpeeds
from specviz.speed.records.plan import SpeedPlan
from specviz.speed.records.study import STATISTICS, Study
from specviz.web.common.cost_choice import describe_costs, name_cost_model
from specviz.web.speed import batch_figures, plan_figures, study_figures, surface_figures, timeline_figures
from specviz.web.speed.round_model import RoundParts, build_headline_model
from specviz.web.speed.state import (
    TEXTS,
    SpeedState,
    build_round_model,
    choose_rounds,
    load_batches,
    load_gpu_costs,
    load_study,
    locate_pair,
    place_sliders,
)
from specviz.web.speed.surface_figures import Spot
from specviz.web.speed.words import describe_batches, explain_dip


def build_offer(state: SpeedState) -> ExportOffer:
    """The export of the page; empty until there is a plan. The sliders are where the visitor has left them."""
    plan, choice, study, batches = state.shown_plan, state.question.choice, load_study(), load_batches()
    if plan is None:
        return ExportOffer("how-fast")
    model = build_round_model(state.question, state.shown_result, batches)
    sliders = place_sliders(state.question, model)
    commands = [build_plan_command(plan), "python -m specviz study", "python -m specviz record batches"]
    facts = build_facts(
        plan.settings, plan.models, "speed", state.question.build_link(), commands, n=plan.openings,
        machine=dict(plan.machine), measured=plan.date, recorded=not state.has_own_result, sentence=plan.in_words,
        **describe_costs(plan.cost_model),
    )  # fmt: skip
    package = build_speed_package(
        plan,
        facts,
        study=(study, choice.draft) if study else None,
        batches=(batches, choose_rounds(batches, choice)[0]) if batches else None,
        what_if=(sliders.gamma, sliders.spot, locate_pair(model)),
        parts=model.compute_parts(sliders.gamma, sliders.c, sliders.texts),
    )
    return ExportOffer.from_package(
        package, "" if state.has_own_result else f"This is the recorded plan, of the text {plan.text['name']}."
    )


def build_plan_command(plan: SpeedPlan) -> str:
    """The command that makes the same plan, on the same text in a file; its times are those of the machine it runs on."""
    settings = plan.settings
    words = ["python", "-m", "specviz", "plan", *format_options(settings.pair), "--proposer", settings.proposer]
    words += ["--prompts", "prompts.txt"] if plan.of_prompts else ["--text", "text.txt"]
    words += ["--temperature", f"{settings.temperature:g}", "--gammas", f"{plan.rows[0].gamma}-{plan.rows[-1].gamma}"]
    words += [] if plan.of_prompts else ["--continuations", str(plan.openings), "--opening", str(plan.opening)]
    words += ["--max-new-tokens", str(plan.length)]
    words += ["--seed", str(settings.seed), *(["--check"] if plan.checked else [])]
    words += ["--costs", name_cost_model(plan.cost_model)] if plan.cost_model else []
    return shlex.join(words + (["--tokens-only"] if plan.costs is None else []))


GAMMA_COLUMNS = ("gamma", *name_interval_columns("tokens", "measured_tokens", "factor", "measured_factor"),
                 "hazards", "one_alpha", "text_read_on", "alpha", "leviathan", "hazards_linear_cost", "operations")  # fmt: skip
POSITION_COLUMNS = ("position", *name_interval_columns("accepted"))
BATCH_COLUMNS = ("texts", "gamma", *name_interval_columns("factor", "pass", "tokens"))
STUDY_COLUMNS = ("kind", "temperature", "top_p", "draft", "checked", "accepted", "predicted_acceptance_rate", *STATISTICS,
                 "blank_because")  # fmt: skip


def build_speed_package(
    plan: SpeedPlan,
    manifest: Mapping[str, Any],
    study: tuple[Study, str] | None = None,
    batches: tuple[BatchSpeeds, str] | None = None,
    what_if: tuple[int, Spot, Spot | None] | None = None,
    parts: RoundParts | None = None,
) -> Package:
    """What the page shows, as a package; sections that were not recorded are left out.

    Args:
        plan: On screen.
        manifest: Settings, models, versions, permalink and commands.
        study: With the draft whose acceptance is drawn.
        batches: With the key of the rounds that are drawn.
        what_if: gamma, the chosen point and the running pair.
        parts: What the round of the sliders costs; None: only as the formula has it.
    """
    where, pictures, captions = f" {describe_conditions(plan.settings, plan.models)}", {}, []
    tables: dict[str, Callable[[], Rows]] = {}

    def add(name: str, title: str, plot: Callable[..., Any], caption: str, *records: Any) -> None:
        pictures[name] = Picture(partial(plot, *records), title)
        captions.extend([caption] if caption else [])

    add("tokens", "Tokens per target pass", plan_figures.plot_tokens, plan_figures.describe_tokens(plan) + where, plan)
    captions.append(plan.in_words + where)
    tables["gammas.csv"] = lambda: (GAMMA_COLUMNS, _iterate_gamma_rows(plan))
    if plan.costs is not None:
        add("speed", "Speed-up", plan_figures.plot_factors, "", plan)
    if plan.positions:
        caption = plan_figures.describe_positions(plan) + where
        add("positions", "Acceptance by position", plan_figures.plot_positions, caption, plan)
        rows = [[n, *list_interval(one)] for n, one in enumerate(plan.positions, 1)]
        tables["positions.csv"] = lambda: (POSITION_COLUMNS, rows)
    if study is not None and study[0].list_measured(study[1:]):
        found, draft = study
        for axis in study_figures.AXES:
            if len(study_figures.group_by_axis(found, draft, axis)) > 1:
                caption, title = study_figures.describe_acceptance(found, draft, axis), f"Acceptance rate: {draft}"
                add(f"acceptance-over-{axis}", title, study_figures.plot_acceptance, caption, found, draft, axis)
        caption, title = study_figures.describe_predictions(found, draft), f"Predicted and measured: {draft}"
        add("foretold", title, study_figures.plot_predictions, caption, found, draft)
        caption = study_figures.describe_confidence(found, draft)
        add("confidence", f"Confidence: {draft}", study_figures.plot_confidence, caption, found, draft)
        tables["study.csv"] = lambda: (STUDY_COLUMNS, _iterate_study_rows(found))
    if batches is not None:
        speeds, key = batches
        model = build_headline_model(speeds)
        caption = " ".join((*describe_batches(model, speeds), explain_dip(model, speeds))).strip()
        add("many-texts", "Batch size", batch_figures.plot_model_speeds, caption, model, speeds)
        caption = batch_figures.describe_pass_costs(model, speeds, load_gpu_costs())
        add("passes", "What verification costs", batch_figures.plot_pass_costs, caption, model, speeds, load_gpu_costs())
        tables["many-texts.csv"] = lambda: (BATCH_COLUMNS, _iterate_batch_rows(speeds, key))
    if what_if is not None:
        gamma, chosen, running = what_if
        parts = parts or RoundParts(gamma, chosen.c, 1.0, 0.0)
        caption, title = timeline_figures.describe_round(chosen.alpha, parts), "Ten tokens by the target alone, and with a draft"
        add("timeline", title, timeline_figures.plot_timeline, caption, chosen.alpha, parts)
        caption, title = (
            f"{surface_figures.describe_spot(gamma, chosen)} {TEXTS['formula']}",
            f"Speed-up by the formula, gamma {gamma}",
        )
        add("what-if", title, surface_figures.plot_surface, caption, *what_if)
        factors = surface_figures.build_rows(running, chosen)
        tables["what-if.csv"] = lambda: (tuple(factors[0]), [list(row.values()) for row in factors])
    data = {"plan.json": json.loads(plan.to_json())}
    return Package("how-fast", "How fast?", data, tables, pictures, tuple(captions), manifest)


def _iterate_gamma_rows(plan: SpeedPlan) -> Iterator[list[Any]]:
    measured = {row.gamma: row for row in plan.checked}
    for row in plan.rows:
        one = measured.get(row.gamma)
        spans = (row.tokens, one.tokens if one else None, row.factor, one.factor if one else None)
        plain = (row.hazards, row.independent, row.own_text, row.alpha, row.leviathan, row.linear, row.operations)
        yield [row.gamma, *(x for span in spans for x in list_interval(span)), *plain]


def _iterate_batch_rows(batches: BatchSpeeds, key: str) -> Iterator[list[Any]]:
    for rows in batches.rows:
        for gamma in batches.gammas:
            spans = (
                batches.estimate_factor(key, rows, gamma),
                batches.estimate_cost(rows, gamma),
                batches.estimate_tokens(key, gamma),
            )
            yield [rows, gamma, *(x for span in spans for x in list_interval(span))]


def _iterate_study_rows(study: Study) -> Iterator[list[Any]]:
    for cell in study.cells:
        plain = (cell.kind, cell.temperature, cell.top_p, cell.draft, cell.checked, cell.accepted, cell.predicted)
        yield [*plain, *map(cell.statistics.get, STATISTICS), cell.reason]
