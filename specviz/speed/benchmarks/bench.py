"""Measured speed: every contestant on the same pair, prompts and settings, by one interleaved clock, with 95% intervals.

Contestants: our loop with the target alone, transformers' ``generate()``, our speculative decoder, and transformers' assisted generation
(same draft, same gamma, its confidence stop switched off; left out where the tokenizers differ, because there it drafts in another
way). On CUDA also the target alone compiled and recorded as a graph, and ``generate()`` with a static cache, which transformers
compiles. The baseline is the fastest of those that do not speculate.

Costs are measured on passes of their own at the same cache length, between the contestants' texts. With another proposer or rule than the
draft's chain and the token rule, rounds differ, and costs are means over the rounds of the runs, without each run's first round,
which reads the prompt.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

from torch.utils._triton import has_triton

from specviz.evidence.assisted import NAME as ASSISTED
from specviz.evidence.assisted import make_assistant
from specviz.models.pairs.loading import LoadedPair
from specviz.models.pairs.mapped import MappedPair
from specviz.proposers.trees.node_count import choose_node_count
from specviz.settings import Settings
from specviz.speed.benchmarks.target_only import TARGET_ONLY_DECODERS, generate_text, list_target_only_decoders
from specviz.speed.measurement.clock import Clock, Lap
from specviz.speed.measurement.costs import RoundCosts, average_round_timeline, combine_costs, measure_costs
from specviz.speed.measurement.text_passes import measure_draftable_mass
from specviz.speed.measurement.timed_decoding import PROMPTS, compile_ahead, decode_speculatively
from specviz.speed.records.estimate import Estimate
from specviz.theory import compute_wall_clock_factor
from specviz.trace import Round

PLAIN = Settings()
PARTS = {"draft": "draft", "block": "target", "rule": "rule"}  # field of Costs -> part of a round's timing
TOKENS_A_SECOND = "tokens/s"
SPECULATIVE = "speculative"


@dataclass(frozen=True, slots=True)
class BenchResult:
    """The figures of one temperature. Rates in tokens per second; ratios are taken run by run.

    Attributes:
        draft_tokens: Drafted per round, mean.
        accepted_per_tested: Acceptance rate of the draft tokens that were checked.
        allowed, share: Speed-up that the measured costs allow, and the part of it that was reached.
        leviathan: Their formula; None where rounds are not chains of fixed length from a draft model.
        timeline: Seconds per round of the speculative runs, by part.
        draftable: Mean mass of the draft's distribution that can be proposed; None where both models have one tokenizer.
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
    costs: RoundCosts
    allowed: float
    leviathan: float | None
    share: float
    timeline: dict[str, float]
    draftable: float | None = None


def run_bench(
    pair: LoadedPair,
    gamma: int = 4,
    length: int = 96,
    runs: int = 6,
    temperatures: tuple[float, ...] = (0.0, 1.0),
    log: Callable = print,
    base: Settings = PLAIN,
) -> list[BenchResult]:
    """One result for each temperature.

    length: tokens after each prompt, the end-of-text token switched off for all; runs: interleaved runs that count; base: names
    the proposer and the rule of "speculative"; a tree without a size gets the number of nodes that is fastest there.
    """
    settings = replace(base, gamma=gamma, max_new_tokens=length)
    return [_bench_temperature(pair, choose_node_count(replace(settings, temperature=t)), runs, log) for t in temperatures]


def _bench_temperature(pair: LoadedPair, settings: Settings, runs: int, log: Callable) -> BenchResult:
    costs: list[RoundCosts] = []

    def vary(prompt: str, run: int) -> tuple[Settings, tuple[int, ...]]:
        return replace(settings, prompt=prompt, seed=run), pair.encode(prompt)

    def write_text(name: str, lap: Lap) -> None:
        rounds = _DECODERS[name](pair, *vary(lap.item, lap.run))
        if name == SPECULATIVE:
            lap.keep(rounds)

    def add_costs(share: float, run: int, prompt: str) -> None:
        found = measure_costs(pair, *vary(prompt, run))
        costs.extend([found] * (run > 0))

    names, (first, *_) = list_contestants(pair), PROMPTS.values()
    compile_ahead(pair, *vary(first, 0))
    clock = Clock({name: partial(write_text, name) for name in names}, items=lambda run: tuple(PROMPTS.values()))
    on_item = log_each_run(runs, lambda line: log(f"temperature {settings.temperature:g}: {line}"))
    clock.run_until(runs, on_item, add_costs)
    result = _build_result(settings, clock, combine_costs(costs))
    written = [[token for round_ in made for token in round_.committed] for made in clock.get_kept(SPECULATIVE)[: len(PROMPTS)]]
    texts = [(pair.encode(prompt), tokens) for prompt, tokens in zip(PROMPTS.values(), written, strict=True)]
    return replace(result, draftable=measure_draftable_mass(pair, settings, texts))


def list_contestants(pair: LoadedPair) -> list[str]:
    """Names of the contestants that a pair allows on its device."""
    alone = [decoder.name for decoder in list_target_only_decoders(pair, has_triton())]
    return [*alone, SPECULATIVE, *([] if isinstance(pair, MappedPair) else [ASSISTED])]


def log_each_run(runs: int, log: Callable[[str], None]) -> Callable[[float, int, Any], None]:
    """A callback of a clock that logs the number of each run as it begins."""
    logged: set[int] = set()

    def on_progress(share: float, run: int, key: Any) -> None:
        if run not in logged:
            logged.add(run)
            log(f"run {run} of {runs}" if run > 0 else "warm-up")

    return on_progress


def _build_result(settings: Settings, clock: Clock[str], costs: RoundCosts) -> BenchResult:
    rounds = [round_ for made in clock.get_kept(SPECULATIVE) for round_ in made]
    tokens = settings.max_new_tokens * len(PROMPTS)
    rates = {name: clock.compute_rate(name, tokens, TOKENS_A_SECOND) for name in clock.contestants}
    baseline = max(
        (decoder.name for decoder in TARGET_ONLY_DECODERS if decoder.name in rates), key=lambda name: rates[name].value
    )
    ratio = {"speculative / baseline": clock.compute_ratio(baseline, SPECULATIVE)}
    if ASSISTED in rates:
        ratio |= {
            "speculative / assisted": clock.compute_ratio(ASSISTED, SPECULATIVE),
            "assisted / baseline": clock.compute_ratio(baseline, ASSISTED),
        }
    tested = [d.accepted for r in rounds for d in r.proposals if d.accepted is not None]
    alpha = sum(tested) / max(1, len(tested))
    per_pass = sum(len(r.committed) for r in rounds) / len(rounds)
    fields = ("proposer", "draft_length_policy", "rule")
    plain = all(getattr(settings, name) == getattr(PLAIN, name) for name in fields)
    timed_whole = "round" in rounds[0].timing  # a round that stays on the device has no parts that the host could time
    if not plain and not timed_whole:
        costs = replace(costs, **{field: _average_part(rounds, part) for field, part in PARTS.items()})
    one, block, draft, rule = (getattr(costs, name).value for name in ("one", "block", "draft", "rule"))
    whole = _average_part(rounds, "round").value if timed_whole else (settings.gamma if plain else 1) * draft + block + rule
    allowed = per_pass / (whole / one)
    return BenchResult(
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
        leviathan=compute_wall_clock_factor(alpha, settings.gamma, draft / one) if plain else None,
        share=ratio["speculative / baseline"].value / allowed,
        timeline=average_round_timeline(rounds, sum(clock.get_seconds(SPECULATIVE))),
    )


def _average_part(rounds: list[Round], part: str) -> Estimate:
    """Mean seconds of one part of a round, without the first round of each text."""
    later = [after for before, after in pairwise(rounds) if after.prefix_length > before.prefix_length]
    return Estimate.from_mean([round_.timing[part] for round_ in later or rounds], "s")


def generate_with_assistant(pair: LoadedPair, settings: Settings, ids: tuple[int, ...]) -> Any:
    """One text by transformers' assisted generation, with gamma draft tokens a round."""
    draft, _ = make_assistant(pair, settings.gamma)
    draft.generation_config.eos_token_id = None
    return generate_text(pair, settings, ids, assistant_model=draft)


_DECODERS: dict[str, Callable] = {decoder.name: decoder.write_text for decoder in TARGET_ONLY_DECODERS} | {
    SPECULATIVE: lambda *arguments: list(decode_speculatively(*arguments)),
    ASSISTED: generate_with_assistant,
}
