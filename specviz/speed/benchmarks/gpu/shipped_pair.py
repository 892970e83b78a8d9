"""The shipped pair on a GPU: speed by engine, exactness, live rounds, many rows, drafting methods."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import torch

from specviz.decoding.device import capture
from specviz.decoding.device.choice import COMPILED, DEVICE, REFERENCE, wait_for_compilations
from specviz.decoding.method_checks import build_rule
from specviz.decoding.run import record_run
from specviz.decoding.sampler import Shard, sample_with_engine
from specviz.evidence.decoder import SHARED, build_decoder
from specviz.evidence.matrix import list_lines
from specviz.evidence.sampling.session import SamplingPlan, Session
from specviz.models.attachments.eagle import EAGLES
from specviz.models.attachments.heads import HEADS
from specviz.models.pairs.loading import LoadedPair, load_pair
from specviz.proposers.request import open_proposer
from specviz.randomness import PhiloxRandomness
from specviz.records import HERE
from specviz.settings import Settings
from specviz.speed.benchmarks.gpu.context import PAIR, PartContext, estimate_record, load_storybook, time_calls, wait
from specviz.speed.benchmarks.gpu.passes import TimedPass
from specviz.speed.measurement.clock import Clock, Lap
from specviz.speed.measurement.timed_decoding import PROMPTS, compile_ahead, decode_speculatively, decode_target_only
from specviz.verification.registry import RULES

AUTO = "auto"
EXACT_SETTINGS: dict[str, dict[str, Any]] = {
    "chain, token": {},
    "chain, token, T=0": {"temperature": 0.0},
    "chain, block": {"rule": "block"},
    "chain, top-p 0.9": {"top_p": 0.9},
    "tree of drawn siblings": {"proposer": "tree", "tree": "2-2-1", "siblings": "distinct"},
    "tree of top siblings": {"proposer": "tree", "tree": "3-2-1", "siblings": "top"},
}


def compare_engines(context: PartContext) -> None:
    """Recorded rounds against the reference in float64: the same texts by every engine."""
    pair = load_storybook(context, "float64")
    results: dict[str, Any] = context.record.get("equal", {})
    engines = (DEVICE,) if context.dry else (DEVICE, COMPILED)
    for engine in engines:
        for name, changes in (
            EXACT_SETTINGS.items() if engine == DEVICE else [*EXACT_SETTINGS.items()][::4]
        ):  # compiling takes time
            with context.guard(f"{engine}: {name}", 3 if engine == DEVICE else 15) as is_on:
                if not is_on:
                    continue
                same = 0
                for number, prompt in enumerate(PROMPTS.values()):
                    settings = Settings(prompt=prompt, gamma=3, max_new_tokens=12 if context.dry else 60, seed=number, **changes)
                    ids = pair.encode(prompt)
                    texts = [write_text(pair, replace(settings, engine=kind), ids) for kind in (REFERENCE, engine)]
                    same += texts[0] == texts[1]
                results[f"{engine}: {name}"] = f"{same} of {len(PROMPTS)} texts equal"
                context.save(equal=results)
        with context.guard(f"{engine}: target only", 3) as is_on:
            if is_on:
                settings = Settings(prompt="", max_new_tokens=12 if context.dry else 60)
                texts = [
                    [token for round_ in decode_target_only(pair, settings, (5, 6, 7), engine=kind) for token in round_.committed]
                    for kind in (REFERENCE, engine)
                ]
                results[f"{engine}: target only"] = f"{int(texts[0] == texts[1])} of 1 texts equal"
                context.save(equal=results)


def write_text(pair: LoadedPair, settings: Settings, ids: tuple[int, ...]) -> list[int]:
    """The tokens that a pair writes."""
    return [token for round_ in decode_speculatively(pair, settings, ids, pair.eos_token_ids) for token in round_.committed]


BENCH_CASES = (("float32", 1.0), ("bfloat16", 1.0), ("float32", 0.0), ("bfloat16", 0.0))


def bench_pair(context: PartContext) -> None:
    """The shipped pair by every engine, beside the target alone in every way: tokens per second, interleaved."""
    rates: dict[str, Any] = context.record.get("cases", {})
    for dtype, temperature in BENCH_CASES[: 1 if context.dry else None]:
        case = f"{dtype}, T={temperature:g}"
        with context.guard(case, 12) as is_on:
            if is_on:
                rates[case] = bench_case(context, case, dtype, temperature)
                context.save(cases=rates)


def bench_case(context: PartContext, case: str, dtype: str, temperature: float) -> dict[str, Any]:
    """Rates, ratios over the fastest way without speculation, and costs of one dtype and temperature."""
    from specviz.speed.benchmarks.bench import generate_with_assistant
    from specviz.speed.benchmarks.target_only import COMPILED_GENERATE, GENERATE

    pair, length = load_storybook(context, dtype), 8 if context.dry else 64
    base = Settings(gamma=3, max_new_tokens=length, temperature=temperature)
    rounds: dict[str, list[Any]] = {}

    def write_rounds(name: str, decode: Callable[..., Iterator[Any]], engine: str, lap: Lap) -> None:
        settings = replace(base, prompt=lap.item, seed=lap.run, engine=engine)
        found = list(decode(pair, settings, pair.encode(lap.item)))
        if lap.run > 0:
            rounds.setdefault(name, []).extend(found)

    def generate(make: Callable[..., Any], lap: Lap) -> None:
        make(pair, replace(base, prompt=lap.item, seed=lap.run), pair.encode(lap.item))

    with_slow = (dtype, temperature) == BENCH_CASES[0]  # each of their runs takes as long as ten of the others
    engines = (DEVICE,) if context.dry else (DEVICE, COMPILED)
    ways: dict[str, Callable[[Lap], object]] = {}
    for engine in (REFERENCE, *engines) if with_slow else engines:
        ways[engine] = partial(write_rounds, engine, decode_speculatively, engine)
        alone = f"target only, {engine}"
        ways[alone] = partial(write_rounds, alone, partial(decode_target_only, engine=engine), engine)
    ways[AUTO] = partial(write_rounds, AUTO, decode_speculatively, AUTO)
    if with_slow:
        ways |= {GENERATE.name: partial(generate, GENERATE.write_text), "assisted": partial(generate, generate_with_assistant)}
    if temperature and not context.dry:  # compiling takes 12 s
        ways[COMPILED_GENERATE.name] = partial(generate, COMPILED_GENERATE.write_text)
    contestants = {}
    with context.guard(f"{case}, compiling ahead", 5) as is_possible:
        if is_possible:  # what auto has compiled in the background, and waits for here
            began = time.perf_counter()
            compile_ahead(pair, replace(base, prompt=PROMPTS["opening"]), pair.encode(PROMPTS["opening"]))
            context.add("first_text_seconds", {f"{case}, compiling ahead": time.perf_counter() - began})
    for name, way in ways.items():
        with context.guard(f"{case}, {name}", 5) as is_possible:
            if is_possible:
                before, began = 0 if context.dry else torch.cuda.memory_allocated(), time.perf_counter()
                way(Lap(0, PROMPTS["opening"]))  # compiles and records
                context.add("first_text_seconds", {f"{case}, {name}": time.perf_counter() - began})
                if not context.dry:
                    context.add("kept_bytes", {f"{case}, {name}": torch.cuda.memory_allocated() - before})
                contestants[name] = way
    runs = 1 if context.dry else 4 if with_slow else 12
    clock = Clock(contestants, items=lambda run: tuple(PROMPTS.values()), synchronize=partial(wait, context))
    while clock.runs < runs and (clock.runs < 2 or context.has_time(8)):
        clock.run_until(clock.runs + 1)
    tokens = length * len(PROMPTS)
    rates = {name: clock.compute_rate(name, tokens, "tokens/s") for name in contestants}
    best = max(filter(is_baseline, contestants), key=lambda name: rates[name].value)
    found = {
        "rates": {name: estimate_record(rate) for name, rate in rates.items()},
        "baseline": best,
        "ratios": {name: estimate_record(clock.compute_ratio(best, name)) for name in contestants if not is_baseline(name)},
        "round_ms": {
            name: 1e3 * statistics.median(sum(r.timing.values()) for r in written) for name, written in rounds.items() if written
        },
        "tokens_per_round": {
            name: sum(len(r.committed) for r in written) / len(written) for name, written in rounds.items() if written
        },
        "runs": clock.runs,
        "replay_ms": time_replays(context, pair),
    }  # fmt: skip
    found["allowed"] = compute_allowed(found)
    with context.guard(f"{case}, passes", 3) as is_possible:
        if is_possible:
            found["pass_ms"] = time_pair_passes(context, pair, base)
            found["allowed_by_passes"] = compute_allowed_by_passes(found, base.gamma)
    return found


def compute_allowed(case: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """By engine, the speed-up over the baseline that the measured costs allow, and the share of it that was reached.

    The costs are a round's and a token's on the device alone, recorded. Lost are the host's work between rounds and the reading of
    prompts. The host also works between the baseline's tokens, more often, so a share above 1 is possible. Where the baseline has no recording, the target alone by the same engine stands for it.
    """
    found = {}
    for engine, (ratio, *_) in case["ratios"].items():
        replays = case["replay_ms"]
        alone = replays.get(case["baseline"], replays.get(f"target only, {engine}"))
        if engine in replays and alone:
            allowed = case["tokens_per_round"][engine] * alone / replays[engine]
            found[engine] = {"speed_up": round(allowed, 3), "share": round(ratio / allowed, 3)}
    return found


def time_pair_passes(context: PartContext, pair: LoadedPair, settings: Settings) -> dict[str, float]:
    """Milliseconds of what a round must consist of: passes of the target over one token and over a chain, of the draft over one."""
    passes = {"target, 1": (pair.target, 1), "target, chain": (pair.target, settings.gamma + 1), "draft, 1": (pair.draft, 1)}
    return {name: TimedPass.build(context, model, 1, tokens).time(context) for name, (model, tokens) in passes.items()}


def compute_allowed_by_passes(case: Mapping[str, Any], gamma: int) -> dict[str, float]:
    """What rounds without a rule and without drawing would allow of ``device`` over ``target only, device``, and the share reached."""
    passes, rates = case["pass_ms"], case["rates"]
    if DEVICE not in rates or (alone := f"target only, {DEVICE}") not in rates:
        return {}
    allowed = case["tokens_per_round"][DEVICE] * passes["target, 1"] / (gamma * passes["draft, 1"] + passes["target, chain"])
    return {"speed_up": round(allowed, 3), "share": round(rates[DEVICE][0] / rates[alone][0] / allowed, 3)}


def time_replays(context: PartContext, pair: LoadedPair) -> dict[str, float]:
    """Milliseconds of each recorded round of a pair, without the host's work."""
    if context.dry:
        return {}
    found = {}
    for _, program in capture.ProgramStore.find_store(pair.target).list_free():
        name = COMPILED if program.is_compiled else DEVICE
        found[name if program.kernel.draft else f"target only, {name}"] = time_calls(context, program._replay, 50)
    return found


def is_baseline(name: str) -> bool:
    """Whether a contestant of ``bench_pair`` does not speculate."""
    return name.startswith(("target only", "generate"))


def run_verify(context: PartContext) -> None:
    """``verify`` on the device, in float32 and in bfloat16: verdicts, and seconds of each stage."""
    cases = (("float32", 2_000, 0.2),) if context.dry else (("float32", 1_000_000, 0.005), ("bfloat16", 200_000, 0.01))
    for dtype, samples, least in cases:
        with context.guard(dtype, 8) as is_on:
            if is_on:
                context.save(**{dtype: verify_pair(context, dtype, samples, least)})


def verify_pair(context: PartContext, dtype: str, samples: int, least: float) -> dict[str, Any]:
    """Verdict, p-values and seconds by stage of a session as ``verify`` has it."""
    decoder = build_decoder("speculative", load_storybook(context, dtype), Settings(max_new_tokens=3))
    session = Session(decoder, SamplingPlan("both", samples, least, 0.3 if context.dry else 6.0))
    seconds: dict[str, float] = {}

    def measure(stage: str, work: Callable[[], Any]) -> Any:
        wait(context)
        began = time.perf_counter()
        result = work()
        wait(context)
        seconds[stage] = time.perf_counter() - began
        return result

    measure("warm-up: 2,000 samples", lambda: decoder.sample(SHARED, 0, 2_000))
    measure("opening", session._open)
    found = {}
    for mode in session.modes:
        drawn = measure(f"{mode}: drawing", partial(session.draw, mode))
        report = measure(f"{mode}: testing", partial(session.test, mode))
        found[mode] = {
            "verdict": report.verdict,
            "samples": len(drawn),
            "p_values": {test.name: test.p_value for test in report.tests},
            "borderline": report.borderline,
        }
    measure("report", session.report)
    return {"modes": found, "stage_seconds": seconds, "seconds": sum(seconds.values())}


def measure_live_rounds(context: PartContext) -> None:
    """Milliseconds of a round whose whole distributions are kept for a page, by engine; and of a page's click on the next round."""
    for dtype in ("float32",) if context.dry else ("float32", "bfloat16"):
        pair = load_storybook(context, dtype)
        base = Settings(prompt=PROMPTS["opening"], max_new_tokens=8 if context.dry else 64)
        for engine in (REFERENCE, DEVICE, AUTO):
            with context.guard(f"{dtype}, {engine}", 15 if engine == AUTO else 4) as is_on:
                if is_on:
                    settings = replace(base, engine=engine)
                    for _ in range(2):  # the first run records, and probes; auto has the second one's rounds compiled
                        record_run(pair, settings)
                        wait_for_compilations(pair.target, 40)
                    warm, ends = record_run(pair, settings), _list_round_ends(pair, settings)
                    clicks = []
                    for count in range(2, min(8, len(warm.rounds))):
                        began = time.perf_counter()
                        record_run(pair, settings, rounds=count, earlier=warm.rounds[: count - 1])
                        clicks.append(time.perf_counter() - began)
                    context.save(**{f"{dtype}, {engine}": {
                        "engine": warm.models["engine"],
                        "round_ms": 1e3 * statistics.median([after - before for before, after in pairwise(ends)] or [0.0]),
                        "click_ms": 1e3 * statistics.median(clicks or [0.0]),
                    }})  # fmt: skip


def _list_round_ends(pair: LoadedPair, settings: Settings) -> list[float]:
    """When each round of a run ended."""
    ends: list[float] = []
    record_run(pair, settings, on_round=lambda round_: ends.append(time.perf_counter()))
    return ends


def sample_by_rounds(context: PartContext) -> None:
    """Samples of three tokens by recorded rounds of many rows: samples per second, and equality with the reference in float64."""
    rates: dict[str, Any] = context.record.get("rates", {})
    for dtype, rows, count in (("float32", 8, 16),) if context.dry else (("float32", 256, 20_000), ("bfloat16", 1024, 40_000)):
        with context.guard(f"{dtype}, {rows} rows", 8) as is_on:
            if is_on:
                pair = load_storybook(context, dtype)
                began = time.perf_counter()
                sample_engine(pair, DEVICE, rows, rows)
                middle = time.perf_counter()
                sample_engine(pair, DEVICE, rows, count)
                seconds = time.perf_counter() - middle
                rates[f"{dtype}, {rows} rows"] = {"samples_per_second": count / seconds, "recording_seconds": middle - began}
                context.save(rates=rates)
    with context.guard("equality", 5) as is_on:
        if is_on:
            pair = load_storybook(context, "float64")
            count = 16 if context.dry else 256
            one, other = (sample_engine(pair, engine, 16 if context.dry else 64, count) for engine in (REFERENCE, DEVICE))
            context.save(equal=f"{int((one == other).all(1).sum())} of {count} samples equal")


def sample_engine(pair: LoadedPair, engine: str, rows: int, count: int) -> Any:
    """Samples of three tokens after a prompt, (count, 3)."""
    settings = Settings(prompt=PROMPTS["opening"], max_new_tokens=3, gamma=3, engine=engine)
    target, proposer = open_proposer(pair, settings)
    ids = pair.encode(settings.prompt)
    shard = Shard(target, proposer, build_rule(settings), PhiloxRandomness(7), settings, ids, pair.eos_token_ids, count=count)
    return sample_with_engine(shard, batch=rows).tokens


def compare_methods(context: PartContext) -> None:
    """Every drafting method under every rule in float64: the same tokens as on the CPU."""
    pairs = [load_pair(PAIR, device, "float64") for device in ("cpu", context.device)]
    same, total, different = (context.record.get(name, empty) for name, empty in (("equal", 0), ("total", 0), ("different", [])))
    attachments = {"heads": HEADS, "eagle": EAGLES}
    more = {}
    for name, known in attachments.items():
        place = HERE.parent / "assets" / "models" / PAIR / name
        if place.is_dir():
            more[name] = known.allow(str(place))
    names = list(list_lines().items())[: 2 if context.dry else None]
    for name, changes in names:
        for rule in list(RULES)[: 2 if context.dry else None]:
            with context.guard(f"{name}, {rule}", 1.5) as is_on:
                if not is_on:
                    continue
                settings = Settings(
                    prompt=PROMPTS["after a full stop"],
                    max_new_tokens=12,
                    gamma=3,
                    rule=rule,
                    engine=REFERENCE,
                    **(more | changes),
                )
                texts = []
                for pair in pairs:
                    try:
                        texts.append(str(write_text(pair, settings, pair.encode(settings.prompt))))
                    except Exception as error:
                        if type(error).__module__ != "specviz.errors":
                            raise
                        texts.append(str(error))
                total += 1
                same += texts[0] == texts[1]
                if texts[0] != texts[1]:
                    different.append(f"{name}, {rule}")
                context.save(equal=same, total=total, different=different)
    context.save(equal=same, total=total, different=different)
