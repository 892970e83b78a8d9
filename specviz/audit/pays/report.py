"""The report on a load: one sentence, a table, remarks on what the numbers do not cover, and lines for Prometheus."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from specviz.audit.junit import JUnitCase
from specviz.audit.pays.estimate import (
    LevelSpeed,
    RoundEstimate,
    are_held_back,
    can_count_tokens,
    estimate_levels,
    estimate_rounds,
    estimate_token_seconds,
    explain_no_forecast,
    find_break_even,
    forecast_gammas,
    to_record,
)
from specviz.audit.pays.load import OFF, ON, Block, LoadPlan
from specviz.records import load_toml
from specviz.speed.records.estimate import MIN_RUNS
from specviz.statistics.finding import format_count

GAMMA_LINES = load_toml(
    "texts/server_gamma"
)  # kind of server -> the option that sets the draft length, and what switches drafting off
DRIFT = 1.3  # ratio of an arm's fastest and slowest third of turns from which the server's speed is said to have changed
LENGTH_SIGMAS = 4.0  # standard errors by which the mean lengths of the arms' answers may differ
CACHED_SHARE, CACHED_LENGTH = (
    0.5,
    80,
)  # share of answers that repeat another one from which a cache is suspected; characters of such an answer
GAIN_WORTH_NAMING = 1.02  # a draft length is recommended only if it is so much faster than the server's own
HELD_BACK = (
    "All pieces of an answer arrive at once, as through a proxy that collects them: the rates are those of whole answers, and the times of rounds and "
    "tokens are not known."
)
NO_TURN = "No turn was measured on both servers, so there is no speed-up."
NO_ENDS = ("ignore_eos", "min_tokens")  # fields of a request that make answers go on where the model would end


def build_report(
    blocks: Sequence[Block],
    plan: LoadPlan,
    servers: Mapping[str, Any],
    prompts: str,
    extra: Mapping[str, Any],
    command: str,
    date: str,
    retries: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """The report as JSON.

    Args:
        blocks: At least one.
        plan: Of the load.
        servers: Arm -> what the server says of itself.
        prompts: What the prompts were, in a few words.
        extra: Fields of the arms' requests.
        command: The command line.
        date: Of the measurement.
        retries: Arm -> requests that were sent again, where it was counted.
    """
    levels, rounds, token_seconds = estimate_levels(blocks), estimate_rounds(blocks), estimate_token_seconds(blocks)
    gammas, break_even = forecast_gammas(rounds, token_seconds), find_break_even(levels)
    own = next((len(one.accepted_by_position) for one in rounds if one.accepted_by_position), None)
    forecast = {"gamma": own, "gammas": [asdict(one) for one in gammas]}
    return {
        "sentence": format_sentence(levels, break_even, rounds) if len(servers) == 1 or levels[0].speedup else NO_TURN,
        "unit": levels[0].on_rate.unit,
        "levels": [
            {
                "users": level.users,
                "verdict": level.verdict,
                "speedup": to_record(level.speedup),
                "on": to_record(level.on_rate),
                "off": to_record(level.off_rate),
                "failed": level.failed,
            }
            for level in levels
        ],
        "break_even_users": break_even,
        "rounds": [
            {
                "source": one.source,
                "users": one.users,
                "tokens_per_round": to_record(one.tokens_per_round),
                "seconds_per_round": to_record(one.seconds_per_round),
                "accepted_by_position": list(one.accepted_by_position),
            }
            for one in rounds
        ],
        "seconds_per_token": to_record(token_seconds),
        **forecast,
        "lines": list_lines(find_best_gamma(forecast), own, servers.get(ON, {}).get("name", "")),
        "what_if": [],
        "remarks": [
            *_describe_turns(levels, plan, len(servers) > 1),
            *list_remarks(blocks, rounds, extra, prompts),
            *([] if gammas else [explain_no_forecast(rounds, token_seconds, len(servers) > 1)]),
            *_describe_retries(retries or {}),
        ],
        "prompts": prompts,
        "plan": asdict(plan),
        "servers": dict(servers),
        "command": command,
        "date": date,
    }


def format_users(users: float) -> str:
    """A number of users in words: one user, 12 users."""
    return "one user" if users == 1 else f"{users:.0f} users"


def format_sentence(levels: Sequence[LevelSpeed], break_even: float | None, rounds: Sequence[RoundEstimate]) -> str:
    """The answer in one sentence."""
    first, last = levels[0], levels[-1]
    if first.speedup is None:
        if not rounds:
            return "Only one server was measured, and its streams show no rounds: give --without to compare it with itself without speculation."
        return (
            f"Only one server was measured: a round writes {rounds[0].tokens_per_round.format()} tokens. Whether that pays is known only "
            "beside the same server without speculation (--without)."
        )
    many = f"{first.speedup.format()} times as fast for {format_users(first.users)}"
    if first.verdict == "hurts":
        return f"Speculation makes this server slower: {many}."
    if first.verdict == "unclear":
        return f"Whether speculation pays on this server is not clear: {many}."
    if len(levels) == 1:
        return f"Speculation makes this server {many}."
    if break_even is not None:
        return f"Speculation makes this server {many} and slower from about {format_users(break_even)} on."
    assert last.speedup is not None
    if last.verdict == "pays":
        return f"Speculation makes this server {many} and {last.speedup.format()} times for {format_users(last.users)}, the most that was tried."
    return f"Speculation makes this server {many}; with {format_users(last.users)} it makes no clear difference ({last.speedup.format()})."


def list_remarks(blocks: Sequence[Block], rounds: Sequence[RoundEstimate], extra: Mapping[str, Any], prompts: str) -> list[str]:
    """A sentence for each thing that limits what the numbers say."""
    found = (
        [f"The prompts were {prompts}. Acceptance depends on the text: measure with your own (--prompts)."]
        if prompts.startswith("the default")
        else []
    )
    if failures := sum(len(block.errors) for block in blocks):
        first = next(block.errors[0] for block in blocks if block.errors)
        found.append(
            f"{format_count(failures, 'prompt')} got no answer and {'is' if failures == 1 else 'are'} left out. The first reason: {first}"
        )
    if not can_count_tokens(blocks):
        found.append("The server does not count its tokens, so rates are in characters; ratios of the arms are the same.")
    if fields := sorted(set(NO_ENDS) & set(extra)):
        found.append(
            f"The requests set {' and '.join(fields)}: text beyond its end repeats itself, and acceptance there is higher than in use."
        )
    found += _describe_speculation(blocks, rounds)
    found += [sentence for arm in (ON, OFF) if (sentence := _describe_drift(blocks, arm))]
    if sentence := _compare_lengths(blocks):
        found.append(sentence)
    if sentence := _describe_cache(blocks):
        found.append(sentence)
    if any(are_held_back([answer for block in blocks if block.arm == arm for answer in block.answers]) for arm in (ON, OFF)):
        found.append(HELD_BACK)
    return found


def _describe_turns(levels: Sequence[LevelSpeed], plan: LoadPlan, is_compared: bool) -> list[str]:
    """What a measurement that ended early lacks, and what an interval of few turns covers. is_compared: whether there are two arms."""
    if not is_compared:
        return []
    turns = dict.fromkeys(plan.users, 0) | {level.users: level.speedup.n for level in levels if level.speedup is not None}
    missing = [f"{count} of {plan.turns} with {format_users(users)}" for users, count in turns.items() if count < plan.turns]
    found = [f"The measurement ended early. Turns that were measured: {', '.join(missing)}."] if missing else []
    fewest = min((count for count in turns.values() if count), default=MIN_RUNS)
    if fewest < MIN_RUNS:
        found.append(
            f"An interval of {format_count(fewest, 'turn')} goes from the smallest to the largest ratio, and covers the true one with "
            f"probability {1.0 - 2.0 ** (1 - fewest):.0%}, not 95%. {MIN_RUNS} turns are enough."
        )
    return found


def _describe_speculation(blocks: Sequence[Block], rounds: Sequence[RoundEstimate]) -> list[str]:
    """Whether the arm that should speculate was seen to draft, and the other one not to."""
    drafted: dict[str, float | None] = {ON: None, OFF: None}
    for block in blocks:
        counts = [answer.drafted for answer in block.answers if answer.drafted is not None]
        if block.counters is not None:
            counts.append(int(block.counters.drafted))
        if counts:
            drafted[block.arm] = (drafted[block.arm] or 0.0) + sum(counts)
    found = []
    if drafted[ON] == 0:
        found.append(
            "Speculation was not seen at work: the server counted no draft token, so these numbers say nothing about it."
        )
    elif drafted[ON] is None and not rounds:
        found.append(
            "Whether the server drafted anything is not known: it counts no draft tokens, and its tokens do not arrive in bursts."
        )
    if drafted[OFF]:
        found.append(
            "The server that should not speculate drafted tokens too, so the speed-up is not over a server without speculation."
        )
    return found


def _describe_retries(retries: Mapping[str, int]) -> list[str]:
    """A sentence for each arm whose requests were sent again: the wait is part of the measured time."""
    return [
        f"The server with speculation {arm} refused or broke {format_count(count, 'request')} (429, an error or the connection); each was sent again: the "
        "waits are part of its time, so its rate is that of a server at its limit."
        for arm, count in retries.items()
        if count
    ]


def _describe_drift(blocks: Sequence[Block], arm: str) -> str:
    """A sentence where an arm's own speed changed by more than DRIFT from the first to the last third of turns."""
    in_tokens, ratios = can_count_tokens(blocks), []
    rates: dict[int, list[float]] = defaultdict(list)
    for block in sorted((one for one in blocks if one.arm == arm), key=lambda one: one.turn):
        rates[block.users].append(block.compute_rate(in_tokens))
    for found in rates.values():
        third = len(found) // 3
        if third:
            ratios.append(float(np.median(found[-third:]) / np.median(found[:third])))
    if not ratios or max(max(ratios), 1.0 / min(ratios)) < DRIFT:
        return ""
    worst = max(ratios, key=lambda ratio: max(ratio, 1.0 / ratio))
    return (
        f"The server changed its speed while it was measured, by a factor of {worst:.2f} with speculation {arm}: others may use it. Both arms "
        "were measured in turns, so the ratio stands; its interval is wider."
    )


def _compare_lengths(blocks: Sequence[Block]) -> str:
    """A sentence where the mean lengths of answers differ between the arms by more than chance allows."""
    lengths = {arm: [one.characters for block in blocks if block.arm == arm for one in block.answers] for arm in (ON, OFF)}
    if min(map(len, lengths.values())) < 8:
        return ""
    means = {arm: float(np.mean(found)) for arm, found in lengths.items()}
    error = float(np.sqrt(sum(np.var(found, ddof=1) / len(found) for found in lengths.values())))
    if abs(means[ON] - means[OFF]) <= LENGTH_SIGMAS * error:
        return ""
    return (
        f"Answers are {means[ON]:.0f} characters long with speculation and {means[OFF]:.0f} without: more than chance explains. The two servers "
        "do not write the same distribution; specviz audit tests that."
    )


def _describe_cache(blocks: Sequence[Block]) -> str:
    """A sentence where the answers of an arm are often word for word the same, as from a cache of answers."""
    for arm in (ON, OFF):
        texts = [
            answer.text for block in blocks if block.arm == arm for answer in block.answers if len(answer.text) > CACHED_LENGTH
        ]
        if len(texts) >= 4 and len(set(texts)) <= (1.0 - CACHED_SHARE) * len(texts):
            return (
                f"At least half of the answers with speculation {arm} repeat another one word for word: the server decodes greedily, or keeps "
                "answers to prompts that it has seen. A kept answer is faster than any decoding."
            )
    return ""


def build_case(report: Mapping[str, Any], at_least: float | None, exit_code: int) -> JUnitCase:
    """The measurement as a test case. exit_code: of ``choose_exit_code``; an interval that leaves the threshold open is a failure too."""
    name = "speculation pays" if at_least is None else f"speed-up of at least {at_least:g}"
    return JUnitCase(name, "failure" if exit_code else "", report["sentence"], format_report(report))


def choose_exit_code(report: Mapping[str, Any], at_least: float | None, no_verdict: int) -> int:
    """0 where every level is at least so fast, 1 where some level is slower, ``no_verdict`` where the intervals leave it open."""
    if at_least is None:
        return 0
    speedups = [level["speedup"] for level in report["levels"]]
    if any(one is None for one in speedups):
        return no_verdict
    if any(one["high"] < at_least for one in speedups):
        return 1
    return 0 if all(one["low"] >= at_least for one in speedups) else no_verdict


def format_report(report: Mapping[str, Any]) -> str:
    """The report for a terminal."""
    lines = [report["sentence"], ""]
    unit = report["unit"]
    turns = [level["speedup"]["n"] for level in report["levels"] if level["speedup"] is not None]
    interval = "95%" if min(turns, default=MIN_RUNS) >= MIN_RUNS else "lowest to highest turn"
    lines.append(f"  {'users':>5}  {f'with, {unit}':>20}  {f'without, {unit}':>22}  speed-up ({interval})")
    for level in report["levels"]:
        off, speedup = level["off"], level["speedup"]
        shown = (
            ""
            if speedup is None
            else f"{speedup['value']:.2f} ({speedup['low']:.2f} to {speedup['high']:.2f})  {level['verdict']}"
        )
        lines.append(
            f"  {level['users']:>5}  {level['on']['value']:>20.1f}  {'' if off is None else format(off['value'], '.1f'):>22}  {shown}"
        )
    for one in report["rounds"]:
        tokens, seconds = one["tokens_per_round"], one["seconds_per_round"]
        timed = "" if seconds is None else f", {1e3 * seconds['value']:.2f} ms a round"
        lines += [
            "",
            f"Rounds by {one['source']}: {tokens['value']:.2f} ({tokens['low']:.2f} to {tokens['high']:.2f}) tokens a round{timed}.",
        ]
        if one["accepted_by_position"]:
            lines.append(f"  accepted by position: {' '.join(format(share, '.2f') for share in one['accepted_by_position'])}")
    if report["seconds_per_token"]:
        lines.append(f"Without speculation a token takes {1e3 * report['seconds_per_token']['value']:.2f} ms.")
    if report["gammas"]:
        lines += ["", *format_gammas(report)]
    for one in report["what_if"]:
        lines += ["", one["sentence"], *(f"  {line}" for line in one["lines"])]
    lines += [""] if report["remarks"] else []
    lines += [f"- {remark}" for remark in report["remarks"]]
    return "\n".join(lines)


def find_best_gamma(report: Mapping[str, Any]) -> int | None:
    """The draft length with the highest forecast; the server's own unless another is clearly faster; 0 if none beats no speculation."""
    if not report["gammas"]:
        return None
    best = max(report["gammas"], key=lambda one: one["speedup"])
    if best["speedup"] <= 1.0:
        return 0
    own = next((one for one in report["gammas"] if one["gamma"] == report["gamma"]), best)
    return best["gamma"] if best["speedup"] > GAIN_WORTH_NAMING * own["speedup"] else own["gamma"]


def list_lines(best: int | None, own: int | None, server: str) -> list[str]:
    """What to change on the server for the best draft length: lines to paste, each for one kind of server.

    Args:
        best: Of ``find_best_gamma``; None: not known.
        own: The server's draft length; where it is the best, there is nothing to change.
        server: Its name; of another kind than those known, the lines of all kinds are given.
    """
    if best is None or best == own:
        return []
    kinds = [kind for kind in GAMMA_LINES if server.lower().startswith(kind.lower())] or [*GAMMA_LINES]
    key = "off" if best == 0 else "gamma"
    return [f"{kind}: {GAMMA_LINES[kind][key].format(gamma=best, gamma_and_one=best + 1)}" for kind in kinds]


def format_gammas(report: Mapping[str, Any]) -> list[str]:
    """Draft lengths and what they would give one user, computed from acceptance by position and the times above."""
    best = find_best_gamma(report)
    lines = ["Draft lengths, computed for one user from acceptance by position and the times above (* beyond the server's own):"]
    lines.append(
        "  "
        + "  ".join(f"{one['gamma']}{'*' if one['is_extrapolated'] else ''}: {one['speedup']:.2f}" for one in report["gammas"])
    )
    if best == 0:
        lines.append("No draft length beats the server without speculation.")
    elif best == report["gamma"]:
        lines.append(f"The server's own, {best}, is the best or within {GAIN_WORTH_NAMING - 1.0:.0%} of it.")
    else:
        lines.append(f"Best: {best}, where the server has {report['gamma']}.")
    return [*lines, *(f"  {line}" for line in report["lines"])]


def format_prometheus(report: Mapping[str, Any]) -> str:
    """The numbers as lines that Prometheus' node exporter reads from a text file."""
    lines = [
        "# HELP specviz_speculation_speedup Rate with speculation over the rate without.",
        "# TYPE specviz_speculation_speedup gauge",
    ]
    for level in report["levels"]:
        if level["speedup"] is not None:
            for bound in ("value", "low", "high"):
                lines.append(
                    f'specviz_speculation_speedup{{users="{level["users"]}",bound="{bound}"}} {level["speedup"][bound]:.6g}'
                )
    lines += ["# HELP specviz_server_rate Tokens or characters per second.", "# TYPE specviz_server_rate gauge"]
    for level in report["levels"]:
        for arm in (ON, OFF):
            if level[arm] is not None:
                unit = report["unit"].removesuffix("/s")
                lines.append(
                    f'specviz_server_rate{{users="{level["users"]}",speculation="{arm}",unit="{unit}"}} {level[arm]["value"]:.6g}'
                )
    if report["rounds"]:
        lines += ["# HELP specviz_tokens_per_round Mean tokens of a round.", "# TYPE specviz_tokens_per_round gauge"]
        lines += [
            f'specviz_tokens_per_round{{source="{one["source"]}"}} {one["tokens_per_round"]["value"]:.6g}'
            for one in report["rounds"]
        ]
    return "\n".join(lines) + "\n"
