"""What How fast? takes along: the plan on screen and what stands behind the tabs as a package."""

from __future__ import annotations

import shlex

from specviz.export.facts import facts
from specviz.export.package import Package
from specviz.export.speed import how_fast
from specviz.models.pairs.names import as_options
from specviz.prediction.plan import SpeedPlan
from specviz.web.common.download import Offer, ready
from specviz.web.speed.sections import of_batches, running, what_if
from specviz.web.speed.state import Forecasts, batches, study


def offer(forecasts: Forecasts) -> Offer:
    """What there is to take along; nothing until there is a plan."""
    plan = forecasts.shown
    if plan is None:
        return Offer("how-fast")
    said = "" if forecasts.own else f"This is the recorded plan, of the text {plan.text['name']}."
    return ready(fast_package(forecasts, plan), said)


def fast_package(forecasts: Forecasts, plan: SpeedPlan) -> Package:
    said = facts(
        plan.settings, plan.models, "fast", forecasts.question.link(), [command(plan), "python -m specviz study", "python -m specviz record --curve"], n=plan.openings,
        machine=dict(plan.machine), measured=plan.date, recorded=not forecasts.own, sentence=plan.in_words,
    )  # fmt: skip
    choice, found, many = forecasts.question.choice, study(), batches()
    asked = what_if(forecasts.question, plan, many)
    return how_fast(
        plan,
        said,
        study=found and (found, choice.draft),
        many=many and (many, of_batches(many, choice)[0]),
        what_if=(asked.gamma, asked.spot, running(choice, plan, many, asked.gamma)),  # where the sliders stand
    )


def command(plan: SpeedPlan) -> str:
    """What makes the same plan without the page, on the same text in a file; times are those of the machine it runs on."""
    settings, gammas = plan.settings, [row.gamma for row in plan.rows]
    words = ["python", "-m", "specviz", "plan", *as_options(settings.pair), "--proposer", settings.proposer, "--text", "text.txt"]
    words += [
        "--temperature",
        f"{settings.temperature:g}",
        "--gammas",
        f"{gammas[0]}-{gammas[-1]}",
        "--texts",
        str(plan.openings),
    ]
    words += ["--opening", str(plan.opening), "--max-new-tokens", str(plan.length), "--seed", str(settings.seed)]
    words += ["--check"] if plan.checked else []
    return shlex.join(words + (["--tokens-only"] if plan.costs is None else []))
