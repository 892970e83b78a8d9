"""The export of How fast?: the plan on screen and what stands in the tabs as a package."""

from __future__ import annotations

import shlex

from specviz.export.manifest import facts
from specviz.models.pairs.names import as_options
from specviz.speed.prediction.plan import SpeedPlan
from specviz.web.common.download import Offer, ready
from specviz.web.speed.package import how_fast
from specviz.web.speed.sections import of_batches, running, what_if
from specviz.web.speed.state import SpeedState, batches, study


def offer(state: SpeedState) -> Offer:
    """What can be exported; nothing until there is a plan. The sliders stand where the visitor has left them."""
    plan, choice, found, many = state.shown, state.question.choice, study(), batches()
    if plan is None:
        return Offer("how-fast")
    asked = what_if(state.question, plan, many)
    commands = [command(plan), "python -m specviz study", "python -m specviz record batches"]
    said = facts(
        plan.settings, plan.models, "speed", state.question.link(), commands, n=plan.openings,
        machine=dict(plan.machine), measured=plan.date, recorded=not state.own, sentence=plan.in_words,
    )  # fmt: skip
    package = how_fast(
        plan,
        said,
        study=found and (found, choice.draft),
        many=many and (many, of_batches(many, choice)[0]),
        what_if=(asked.gamma, asked.spot, running(choice, plan, many, asked.gamma)),  # where the sliders stand
    )
    about = "" if state.own else f"This is the recorded plan, of the text {plan.text['name']}."
    return ready(package, about)


def command(plan: SpeedPlan) -> str:
    """What makes the same plan without the page, on the same text in a file; times are those of the machine it runs on."""
    settings = plan.settings
    words = ["python", "-m", "specviz", "plan", *as_options(settings.pair), "--proposer", settings.proposer]
    words += ["--prompts", "prompts.txt"] if plan.of_prompts else ["--text", "text.txt"]
    words += ["--temperature", f"{settings.temperature:g}", "--gammas", f"{plan.rows[0].gamma}-{plan.rows[-1].gamma}"]
    words += [] if plan.of_prompts else ["--texts", str(plan.openings), "--opening", str(plan.opening)]
    words += ["--max-new-tokens", str(plan.length)]
    words += ["--seed", str(settings.seed), *(["--check"] if plan.checked else [])]
    return shlex.join(words + (["--tokens-only"] if plan.costs is None else []))
