"""Measured speed: every contestant on the same pair, prompts and settings, by one interleaved clock, with 95% intervals.

Contestants: our loop with the target alone, transformers' ``generate()``, our speculative decoder, transformers' assisted
generation (same draft, same gamma, its confidence stop switched off). The baseline is the faster of the first two.
Costs are measured on passes of their own, with the same cache length, between the contestants' texts; for another proposer or
rule than the draft's chain and the token rule, whose rounds are not all alike, they are means over the rounds of the runs, but
for each run's first, which reads the prompt.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import transformers

from specviz.decoding.engine import decode, target_only
from specviz.evidence.analytic.fresh import given
from specviz.measure.clock import Clock, Lap
from specviz.measure.costs import Costs, measure_costs, median_costs, timeline
from specviz.measure.estimate import Estimate
from specviz.models.pairs.loading import Pair
from specviz.proposers.registry import opened
from specviz.proposers.trees.node_count import with_paying_nodes
from specviz.randomness import PhiloxRandomness
from specviz.settings import Settings
from specviz.theory import wall_clock_factor
from specviz.trace import Round
from specviz.verification.registry import rule_of

PROMPTS = {
    "opening": "Once upon a time there was a little rabbit who lived with his mother in a",
    "mid-sentence": '"Oh, dear me!" said Uncle Wiggily, as he hopped along through the woods and saw that the',
    "after a full stop": "The children ran down to the brook to sail their boats. It was a warm summer day, and the sun was shining.",
}
PLAIN = Settings()
PARTS = {"draft": "draft", "block": "target", "rule": "rule"}  # field of Costs -> part of a round's timing
TOKENS_A_SECOND = "tokens/s"
CONTESTANTS = ("target only", "generate", "speculative", "assisted")


@dataclass(frozen=True, slots=True)
class Result:
    """One temperature's figures. Rates in tokens per second; ratios are taken run by run.

    draft_tokens    proposed tokens per round, in the mean
    leviathan  what their formula gives; None where draft tokens are no chain of fixed length from a draft model
    timeline   seconds per round of the speculative runs, by part
    """

    temperature: float
    gamma: int
    runs: int
    rates: dict[str, Estimate]
    ratio: dict[str, Estimate]
    baseline: str
    tokens_per_pass: float
    draft_tokens: float
    accepted_per_tested: float
    costs: Costs
    allowed: float
    leviathan: float | None
    share: float
    timeline: dict[str, float]


def bench(
    pair: Pair,
    gamma: int = 4,
    length: int = 96,
    runs: int = 6,
    temperatures: tuple[float, ...] = (0.0, 1.0),
    say: Callable = print,
    base: Settings = PLAIN,
) -> list[Result]:
    """Run everything.

    length  tokens per prompt, end-of-text switched off for all; runs  interleaved ones that count
    base    names the proposer and the rule that run as "speculative"; a tree without a size gets the nodes that pay there
    """
    settings = replace(base, gamma=gamma, length=length)
    return [_one_temperature(pair, with_paying_nodes(replace(settings, temperature=t)), runs, say) for t in temperatures]


def is_plain(settings: Settings) -> bool:
    """Whether each round is one chain of gamma tokens from the draft under the token rule."""
    return (settings.proposer, settings.lengths, settings.rule) == (PLAIN.proposer, PLAIN.lengths, PLAIN.rule)


def prompts(run: int) -> Sequence[str]:
    """What every contestant goes on with in a run: the same in all."""
    return tuple(PROMPTS.values())


def _one_temperature(pair: Pair, settings: Settings, runs: int, say: Callable) -> Result:
    costs: list[Costs] = []

    def asked(prompt: str, run: int) -> tuple[Settings, tuple[int, ...]]:
        return replace(settings, prompt=prompt, seed=run), pair.encode(prompt)

    def contestant(name: str) -> Callable[[Lap], None]:
        def write(lap: Lap) -> None:
            made = _RUNS[name](pair, *asked(lap.item, lap.run))
            if name == "speculative":
                lap.keep(made)

        return write

    def cost(share: float, run: int, prompt: str) -> None:
        found = measure_costs(pair, *asked(prompt, run))
        costs.extend([found] * (run > 0))

    clock = Clock({name: contestant(name) for name in CONTESTANTS}, items=prompts)
    told = once_a_run(runs, lambda line: say(f"temperature {settings.temperature:g}: {line}"))
    clock.until(runs, told, cost)
    return _result(settings, clock, median_costs(costs))


def once_a_run(runs: int, say: Callable[[str], None]) -> Callable[[float, int, Any], None]:
    """A clock's watch that says the number of each run as it begins."""
    told: set[int] = set()

    def watch(share: float, run: int, key: Any) -> None:
        if run not in told:
            told.add(run)
            say(f"run {run} of {runs}" if run > 0 else "warm-up")

    return watch


def _result(settings: Settings, clock: Clock[str], costs: Costs) -> Result:
    rounds = [round_ for made in clock.kept("speculative") for round_ in made]
    tokens = settings.length * len(PROMPTS)
    rates = {name: clock.rate(name, tokens, TOKENS_A_SECOND) for name in CONTESTANTS}
    baseline = max(("target only", "generate"), key=lambda name: rates[name].value)
    ratio = {
        "speculative / baseline": clock.ratio(baseline, "speculative"),
        "speculative / assisted": clock.ratio("assisted", "speculative"),
        "assisted / baseline": clock.ratio(baseline, "assisted"),
    }
    tested = [d for r in rounds for d in r.proposals if d.accepted is not None]
    alpha = sum(d.accepted for d in tested) / max(1, len(tested))
    per_pass = sum(len(r.committed) for r in rounds) / len(rounds)
    plain = is_plain(settings)
    if not plain:
        costs = replace(costs, **{field: _mean(rounds, part) for field, part in PARTS.items()})
    one, block, draft, rule = (getattr(costs, name).value for name in ("one", "block", "draft", "rule"))
    allowed = per_pass / (((settings.gamma if plain else 1) * draft + block + rule) / one)
    return Result(
        temperature=settings.temperature,
        gamma=settings.gamma,
        runs=clock.runs,
        rates=rates,
        ratio=ratio,
        baseline=baseline,
        tokens_per_pass=per_pass,
        draft_tokens=sum(len(r.proposals) for r in rounds) / len(rounds),
        accepted_per_tested=alpha,
        costs=costs,
        allowed=allowed,
        leviathan=wall_clock_factor(alpha, settings.gamma, draft / one) if plain else None,
        share=ratio["speculative / baseline"].value / allowed,
        timeline=timeline(rounds, sum(clock.seconds("speculative"))),
    )


def _mean(rounds: list[Round], part: str) -> Estimate:
    """Seconds of one part of a round, in the mean over all that go on with a text; a run's first has the prompt to read."""
    later = [after for before, after in pairwise(rounds) if after.prefix_length > before.prefix_length]
    return Estimate.of_mean([round_.timing[part] for round_ in later or rounds], "s")


def drain(rounds: Iterator[Round]) -> list[Round]:
    """All rounds, without the distributions that they carry."""
    return [replace(round_, full=None) for round_ in rounds]


def speculative(pair: Pair, settings: Settings, ids: tuple[int, ...]) -> list[Round]:
    """One text by the proposer and rule that the settings name; end-of-text switched off."""
    target, proposer = opened(pair, settings)
    return drain(decode(target, proposer, rule_of(settings), PhiloxRandomness(settings.seed), settings, ids))


def _target_only(pair: Pair, settings: Settings, ids: tuple[int, ...]) -> list[Round]:
    return drain(target_only(pair.source(pair.target, settings), PhiloxRandomness(settings.seed), settings, ids))


def _generate(pair: Pair, settings: Settings, ids: tuple[int, ...], **more: Any) -> Any:
    torch.manual_seed(settings.seed)
    sampling = {"do_sample": settings.temperature > 0}
    if settings.temperature > 0:
        sampling |= {"temperature": settings.temperature, "top_k": settings.top_k or 0, "top_p": settings.top_p or 1.0}
    model = pair.target
    kept, model.generation_config.eos_token_id = model.generation_config.eos_token_id, None
    try:
        text = given(model, ids, pair.encoder_ids(settings.prompt))
        return model.generate(**text, max_new_tokens=settings.length, **sampling, **more)
    finally:
        model.generation_config.eos_token_id = kept


def _assisted(pair: Pair, settings: Settings, ids: tuple[int, ...]) -> Any:
    options = pair.draft.generation_config
    kept = options.eos_token_id
    options.num_assistant_tokens, options.num_assistant_tokens_schedule = settings.gamma, "constant"
    options.assistant_confidence_threshold, options.eos_token_id = 0, None
    try:
        return _generate(pair, settings, ids, assistant_model=pair.draft)
    finally:
        options.eos_token_id = kept


_RUNS: dict[str, Callable] = {
    "target only": _target_only,
    "generate": _generate,
    "speculative": speculative,
    "assisted": _assisted,
}


def machine(pair: Pair) -> dict[str, Any]:
    """What the numbers were measured on."""
    cuda = pair.target.device.type == "cuda"
    return {
        "processor": torch.cuda.get_device_name() if cuda else _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "dtype": pair.describe()["dtype"],
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
