"""What another draft or drafting method would give on a measured server: tokens per round as ``plan`` counts them, at the server's own costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from specviz.errors import SettingsError
from specviz.models.pairs.pair import LoadedPair
from specviz.progress import ProgressCallback, ignore_progress, scale_progress
from specviz.settings import GAMMA_MAX, Settings
from specviz.speed.prediction.plan_effort import PlanEffort
from specviz.speed.prediction.planning import make_plan
from specviz.speed.records.estimate import Estimate
from specviz.speed.records.plan import SpeedPlan
from specviz.speed.records.server_commands import build_server_commands

METHODS = {"draft": "the draft model", "ngram": "tokens copied from the text"}  # proposer -> in words
MAX_TEXTS = 16  # prompts that are continued


@dataclass(frozen=True, slots=True)
class ServerCosts:
    """Seconds of one user's token without speculation, and what each draft token adds to a round."""

    token: float
    per_draft: float

    @classmethod
    def from_report(cls, report: Mapping[str, Any]) -> ServerCosts:
        """Of a report. Raises SettingsError where it has no time of a round or of a token."""
        token = report["seconds_per_token"]
        rounds = next((one for one in report["rounds"] if one["seconds_per_round"]), None)
        if token is None or rounds is None or not report["gamma"]:
            allowed = "the server's tokens arrive in bursts, and it is measured with speculation and without"
            sentence = f"--target needs times of the server's rounds, and there are none. They can be taken where {allowed}."
            raise SettingsError("target", "no costs", allowed, sentence)
        return cls(token["value"], max(0.0, (rounds["seconds_per_round"]["value"] - token["value"]) / report["gamma"]))

    def compute_speedup(self, tokens: Estimate, gamma: int) -> Estimate:
        """The speed-up of rounds with so many tokens, over one token at a time."""
        factor = self.token / (self.token + gamma * self.per_draft)
        return Estimate(tokens.value * factor, tokens.low * factor, tokens.high * factor, tokens.n)


def forecast_methods(
    pair: LoadedPair,
    settings: Settings,
    prompts: Sequence[str],
    report: Mapping[str, Any],
    on_progress: ProgressCallback = ignore_progress,
) -> list[dict[str, Any]]:
    """A record for each drafting method: every draft length with tokens per round and speed-up, a sentence, and lines to paste.

    Args:
        pair: The server's target, with the draft in question.
        settings: Temperature and length of the answers.
        prompts: At least two; the first MAX_TEXTS are continued.
        report: Of ``pays``.
        on_progress: Called with the share done; may raise to stop.

    Raises:
        SettingsError: The report has no costs, or nothing can be planned for the pair or the prompts.
    """
    costs = ServerCosts.from_report(report)
    gammas = range(1, min(GAMMA_MAX, 2 * report["gamma"]) + 1)
    found = []
    for number, (proposer, words) in enumerate(METHODS.items()):
        part = scale_progress(on_progress, number / len(METHODS), (number + 1) / len(METHODS))
        plan = make_plan(
            pair, replace(settings, proposer=proposer), prompts[:MAX_TEXTS], gammas, PlanEffort(probes=0), on_progress=part
        )
        rows = [(row.gamma, row.tokens, costs.compute_speedup(row.tokens, row.gamma)) for row in plan.rows]
        best = max(rows, key=lambda row: row[2].value)
        pays = best[2].value > 1.0
        sentence = (
            f"With {words}, {best[0]} a round: {best[1].format()} tokens a round, {best[2].format()} times as fast for one user."
            if pays
            else (f"With {words} no draft length makes it faster: {best[2].format()} times with {best[0]}.")
        )
        found.append(
            {
                "pair": pair.name,
                "proposer": proposer,
                "rows": [
                    {"gamma": gamma, "tokens_per_round": asdict(tokens), "speedup": asdict(speedup)}
                    for gamma, tokens, speedup in rows
                ],
                "sentence": sentence,
                "lines": _list_lines(plan, best[0], report) if pays else [],
            }
        )
    return found


def _list_lines(plan: SpeedPlan, gamma: int, report: Mapping[str, Any]) -> list[str]:
    """How servers of the measured kind are started with it; of all kinds where the server's is not among them."""
    commands = build_server_commands(plan.settings, gamma, plan.models.get("draft", {}))
    known = [one for one in commands if one.language == "bash"]
    kind = report["servers"].get("on", {}).get("name", "").lower()
    return [f"{one.server}: {one.text}" for one in known if kind.startswith(one.server.lower())] or [
        f"{one.server}: {one.text}" for one in known
    ]


def describe_assumption(report: Mapping[str, Any]) -> str:
    """What the forecasts take for granted."""
    costs = ServerCosts.from_report(report)
    return (
        f"Computed at this server's costs: {1e3 * costs.token:.2f} ms for a token, and {1e3 * costs.per_draft:.2f} ms more for each draft token, as its "
        "own draft takes; copied tokens cost no draft step, and a larger draft costs more. Tokens per round are those of the acceptance rule of this "
        "project: a server that accepts less, as llama.cpp does, gains less."
    )
