"""``plan``: tokens per target pass, speed-up and best gamma on a text of yours, predicted before anything is decoded speculatively."""

from __future__ import annotations

import argparse
import re
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from specviz.cli.common.command_options import (
    add_declared,
    add_pair_options,
    add_sampling_options,
    add_seed_option,
    add_setting,
    load_models,
    read_settings,
)
from specviz.cli.common.output import NO_VERDICT, add_format_option, format_machine, wrap_sentences
from specviz.cli.common.progress import Progress, log_line
from specviz.errors import SettingsError
from specviz.models.pairs.names import describe_draftable
from specviz.settings import GAMMA_MAX
from specviz.speed.prediction.plan_effort import QUICK_CONTINUATIONS, PlanEffort
from specviz.speed.records.cost_model import find_cost_model, load_cost_models
from specviz.speed.records.plan import parse_prompts

if TYPE_CHECKING:
    from specviz.speed.records.plan import PlanRow, RoundCostCurve, SpeedPlan

DEFAULT_GAMMAS = "1-8"
GAMMA_RANGE = re.compile(r"(\d{1,3})(?:-(\d{1,3}))?", re.ASCII)
MAX_PROMPTS = 4096  # of a file, at most


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_pair_options(parser)
    add_sampling_options(parser)
    add = parser.add_argument
    add(
        "--text",
        type=Path,
        dest="text_file",
        metavar="FILE",
        help="a text like those that will be written, UTF-8; or give --prompts",
    )
    add(
        "--prompts",
        type=Path,
        metavar="FILE",
        help=f"prompts, one to a line, UTF-8, 2 to {MAX_PROMPTS}: each is continued as it is",
    )
    proposers = "a chain: draft (default), ngram, retrieval, unigram, uniform, adversarial"
    add("--proposer", default="draft", metavar="NAME", help=proposers)
    add_setting(add, "source_text")
    add("--rule", default="token", metavar="NAME", help="acceptance rule: token (default), or block, with its gain over token")
    add(
        "--gammas",
        default=DEFAULT_GAMMAS,
        metavar="A-B",
        help=f"draft lengths to compare, within 1 to {GAMMA_MAX} (default: {DEFAULT_GAMMAS})",
    )
    add_declared(add, PlanEffort, "continuations", "opening")
    add_setting(add, "max_new_tokens", default=96, low=8, high=1024, help="tokens of each continuation")
    add_seed_option(parser)
    add("--tokens-only", action="store_true", help="leave speed out, for a machine that is busy")
    costs = f"take what passes cost from another machine instead of timing them here: {', '.join(load_cost_models())}, or a file"
    add("--costs", metavar="NAME_OR_FILE", help=costs)
    add("--quick", action="store_true", help="stop at the first answer, from few continuations; without it the plan is refined")
    add("--check", action="store_true", help="measure as well, under other seeds, and say how far the prediction was off")
    add_declared(add, PlanEffort, "probes", "runs", "seconds")
    add_format_option(parser)


def run(options: argparse.Namespace) -> int:
    gammas = read_gammas(options.gammas)
    cost_model = find_cost_model(options.costs) if options.costs else None
    settings = read_settings(options, gamma=gammas[-1])
    if (options.text_file is None) == (options.prompts is None):
        allowed, both = "exactly one of --text FILE and --prompts FILE", bool(options.text_file)
        found = "both were given" if both else "neither was given"
        raise SettingsError("text or prompts", "both" if both else "neither", allowed, f"A plan needs {allowed}; {found}.")
    file = options.text_file or options.prompts
    content = read_text_file(file, "text" if options.text_file else "prompts")

    from specviz.speed.measurement.acceptance import refuse_unplanned
    from specviz.speed.prediction.planning import make_plan

    refuse_unplanned(settings)
    text = content if options.prompts is None else parse_prompts(content, MAX_PROMPTS)
    probes = 0 if options.tokens_only else options.probes
    effort = PlanEffort(options.continuations, options.opening, probes, options.check, options.runs, seconds=options.seconds)
    first, progress = effort.make_quick(), Progress("plan")
    plan: SpeedPlan | None = None
    try:
        pair, began = load_models(settings), time.monotonic()
        count = effort.continuations if isinstance(text, str) else len(text)
        if options.quick or count > 2 * QUICK_CONTINUATIONS:
            some = text if isinstance(text, str) else text[:QUICK_CONTINUATIONS]
            plan = make_plan(pair, settings, some, gammas, first, file.name, progress, cost_model=cost_model)
        if plan is None or not options.quick:
            if plan is not None:
                log_line(
                    f"first answer, from {plan.openings} continuations: {plan.in_words} It is refined now; --quick stops here."
                )
                effort = effort.subtract_seconds(time.monotonic() - began)
            plan = make_plan(pair, settings, text, gammas, effort, file.name, progress, cost_model=cost_model)
    except KeyboardInterrupt as stop:
        if plan is None:
            raise KeyboardInterrupt("nothing was planned; the same command begins anew") from stop
        log_line("stopped; this is the first answer")
    assert plan is not None
    print(plan.to_json() if options.format == "json" else format_plan(plan))
    has_verdict = plan.verdict != "no verdict" and plan.is_conclusive
    return 0 if has_verdict or options.tokens_only else NO_VERDICT


def read_gammas(text: str) -> tuple[int, ...]:
    """``1-8`` or ``4`` -> every gamma in it, ascending. Raises SettingsError for a range that is reversed, empty or out of bounds."""
    match = GAMMA_RANGE.fullmatch(text.strip())
    if not match:
        raise SettingsError("gammas", text, "a range such as 1-8, or one number")
    low, high = int(match[1]), int(match[2] or match[1])
    if high < low:
        raise SettingsError("gammas", text, f"a range from the smaller number to the larger, such as {high}-{low}")
    if low < 1 or high > GAMMA_MAX:
        raise SettingsError("gammas", text, f"within 1 to {GAMMA_MAX}")
    return tuple(range(low, high + 1))


def read_text_file(path: Path, name: str = "text") -> str:
    """The user's text. name: of its option, text or prompts. Raises SettingsError with a sentence."""
    if not path.is_file():
        allowed = f"a file with {'one prompt to a line' if name == 'prompts' else 'a text like those that will be written'}"
        found = f"'{path}' is no file" if path.exists() else f"The {name} file '{path}' does not exist"
        raise SettingsError(name, str(path), allowed, f"{found}. --{name} takes {allowed}.")
    from specviz.proposers.source_texts import read_source_text

    return read_source_text(str(path), path)


def format_plan(plan: SpeedPlan) -> str:
    """A table by gamma, the verdict, and where it was checked how far each prediction was off."""
    settings = plan.settings
    cuts = [f", {name.replace('_', '-')} {value:g}" for name, value in settings.cuts.items()]
    lines = [
        *wrap_sentences(plan.in_words),
        "",
        format_machine(plan.machine),
        f"pair {settings.pair}, proposer {settings.proposer}, rule {settings.rule}, temperature {settings.temperature:g}{''.join(cuts)}",
        *filter(None, (describe_draftable(plan.models),)),
        _format_continued(plan),
        *([plan.cost_model.describe()] if plan.cost_model else []),
        "",
        f"{'gamma':>5}  {'tokens per pass':<24}{'hazards':>8}{'one alpha':>10}{'own text':>9}{'alpha':>7}"
        + (f"   {'times target-only':<23}{'hazards':>8}{'Leviathan':>10}{'ms a round':>12}" if plan.costs else ""),
        *(_format_row(row, plan.costs) for row in plan.rows),
        "",
        "In brackets: the middle 95% of resamples. Hazards: from the acceptance rate at each position. One alpha: from one rate for all",
        "positions (Leviathan et al. 2023); under Leviathan, also at the same time for a pass over one token and over several."
        + ("" if plan.of_prompts else "\nOwn text: counted on the text as it is read."),
        *_format_positions(plan),
        *_format_gains(plan),
    ]
    if plan.costs:
        lines += [
            _format_costs(plan.costs),
            *([plan.baseline.in_words] if plan.baseline else []),
            f"best gamma by {', by '.join(f'{name} {gamma}' for name, gamma in plan.chosen_by.items())}",
        ]
    if (row := plan.find_row(int(plan.best.value)) if plan.best else None) and row.operations:
        lines.append(f"arithmetic per token at gamma {row.gamma}: {row.operations:.2f} times that of target-only sampling")
    return "\n".join(
        [
            *lines,
            *plan.describe_drafts(),
            *(_format_check(plan) if plan.checked else []),
            *_format_server_lines(plan),
        ]
    )


def _format_continued(plan: SpeedPlan) -> str:
    """The text and its continuations, as a line."""
    name, size, count = plan.text["name"], plan.text["tokens"], plan.openings
    if plan.of_prompts:
        return f"prompts {name}: {count} of them, {size:,} tokens in all; each continued by {plan.length} tokens"
    return f"text {name}: {size:,} tokens; {count} continuations of {plan.length} tokens after {plan.opening}"


def _format_positions(plan: SpeedPlan) -> list[str]:
    """How often a draft token is accepted, by its position in a round, among those that are checked."""
    if not plan.positions:
        return []
    rows = (f"{number:>8}  {one.format('.3f')}" for number, one in enumerate(plan.positions, 1))
    return ["", f"{'position':>8}  accepted, of the draft tokens checked there (gamma {plan.rows[-1].gamma})", *rows]


def _format_server_lines(plan: SpeedPlan) -> list[str]:
    """How servers are started with the best gamma."""
    if plan.best is None or not plan.server_commands:
        return []
    doubt = " (whether it pays is not known)" if plan.verdict == "no verdict" else ""
    lines = ["", f"To start servers with gamma {plan.best.value:g}{doubt}:"]
    for one in plan.server_commands:
        lines += ["", f"# {one.server}. {one.note}", one.text]
    return lines


def _format_gains(plan: SpeedPlan) -> list[str]:
    """What another rule than the token rule adds to it, as counted and, where it was checked, as measured."""
    gains = {row.gamma: row.gain for row in plan.rows if row.gain is not None}
    if not gains:
        return []
    measured = {one.gamma: one.gain for one in plan.checked}
    lines = ["", f"{'gamma':>5}  {'above the token rule':<28}" + ("measured" if measured else "")]
    for gamma, gain in gains.items():
        seen = measured.get(gamma)
        lines.append((f"{gamma:>5}  {gain.format('+.3f'):<28}" + (seen.format("+.3f") if seen else "")).rstrip())
    return lines


def _format_row(row: PlanRow, costs: RoundCostCurve | None) -> str:
    line = f"{row.gamma:>5}  {row.tokens.format('.3f'):<24}{row.hazards:>8.3f}{row.independent:>10.3f}"
    line += f"{row.own_text:>9.3f}" if row.own_text is not None else f"{'':>9}"
    line += f"{row.alpha:>7.3f}"
    if row.factor is None or costs is None:
        return line
    milliseconds = 1e3 * median(run[row.gamma] for run in costs.rounds)
    return f"{line}   {row.factor.format('.3f'):<23}{row.linear:>8.3f}{row.leviathan:>10.3f}{milliseconds:>12.2f}"


def _format_costs(costs: RoundCostCurve) -> str:
    said = f"a token of target-only sampling takes {1e3 * median(costs.target_only):.2f} ms"
    return (
        said if len(costs.target_only) == 1 else f"{said}; the middle half of a probe's runs is at most {costs.spread:.0%} wide"
    )


def _format_check(plan: SpeedPlan) -> list[str]:
    head = f"{'gamma':>5}  {'tokens per pass':<24}{'accepted draft tokens':<26}{'hazards':>8}{'one alpha':>10}{'own text':>9}"
    head += f"   {'times target-only':<23}{'predicted':>10}{'by noise':>9}" if plan.target_only_rates else ""
    lines = ["", "Measured, under other seeds, and how far each prediction was above it:", head]
    rows = {row.gamma: row for row in plan.rows}
    for one in plan.checked:
        tokens, accepted = one.tokens.format(".3f"), one.gaps["accepted draft tokens"].format("+.1%")
        others = f"{one.gaps['hazards'].value:>+8.1%}{one.gaps['independent'].value:>+10.1%}"
        others += f"{own.value:>+9.1%}" if (own := one.gaps.get("own text")) is not None else f"{'':>9}"
        line = f"{one.gamma:>5}  {tokens:<24}{accepted:<26}{others}"
        if one.factor is not None:
            line += f"   {one.factor.format('.3f'):<23}{rows[one.gamma].speedup.value / one.factor.value - 1.0:>+10.1%}"
            line += f"{one.noise:>+9.1%}" if one.noise is not None else ""
        lines.append(line)
    if plan.target_only_rates:
        lines.append("By noise: how many more rounds the timed texts took than predicted, a part of the error of the speed.")
    if not plan.is_conclusive:
        lines.append(f"No verdict on these speeds: {plan.inconclusive_reason}")
    elif plan.lost is not None and plan.best is not None:
        lines.append(f"The chosen gamma, {plan.best.value:g}, was {max(0.0, plan.lost):.1%} slower than the best measured one.")
    return lines
