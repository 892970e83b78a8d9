"""A passage as its two lanes are drawn, and the words about them: where each token came from, how long each way took, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from specviz.figures.narration import BUSY, motions, number, rejected_at
from specviz.figures.notes import ASK
from specviz.glyphs import braces, glyphs, is_special, name, piece, unfinished, whole
from specviz.settings import Settings
from specviz.speed.estimate import describe_interval
from specviz.speed.records.divergence_profile import ScoredText
from specviz.speed.records.passage import (
    ACCEPTED,
    BONUS,
    LANES,
    REPLACED,
    SPECULATIVE,
    TARGET_ONLY,
    WRITTEN,
    Lane,
    Passage,
    WrittenToken,
)
from specviz.trace import Round, Trace
from specviz.web.one_round.stage import write_cursor

LEDE = "One prompt, continued twice, with and without draft tokens: the same distribution, in fewer target passes."
TITLES = {TARGET_ONLY: "Target-only sampling", SPECULATIVE: "Speculative decoding"}
SAID = {"accepted": "accepted draft token", "residual": "replacement", "bonus": "bonus token", "target": "target token"}
MEANT = {"accepted": "", "residual": "after a rejection", "bonus": "if none is rejected", "target": "without a draft"}
SIGNS = {"accepted": "", "residual": "◆", "bonus": "+", "target": ""}
HERE = "./"  # the app that shows this page
LASTS = 9.0  # seconds that a replay should take
PACES = (1, 2, 5, 10, 20, 50, 100)  # how many times slower than the decoding a replay may run
UNEVEN, SLOW = 1.3, 10.0  # slowest over fastest run; tokens per second, about as fast as people read


def lanes_payload(one: Passage, done: bool = True, app: str | None = HERE) -> dict[str, Any]:
    """What the component draws. done: whether nothing more comes. app: address of the app, whose stage opens a round; None: none does.

    lanes   per way its tokens, each with glyphs, origin (``is``), round and time, and its rounds for the two tracks; ``makes``:
            the character that this token's bytes make together with those of the tokens from number ``since`` on
    ask     what somebody who shows it may ask
    sums    tokens per target pass, over the time of a round, is the speed: a value and its reasons for each
    end     seconds at the right end of both tracks; pace  how many times slower than the decoding a replay runs
    """
    end = max(_end(one, getattr(one, lane), done) for lane in LANES)
    return {
        "id": f"{one.settings.to_query()}",
        "done": done,
        "prompt": one.settings.prompt,
        "lanes": [_lane(one, key, app) for key in LANES],
        "origins": {key: {"sign": SIGNS[key], "name": SAID[key]} for key in SAID},
        "legend": _legend(one),
        "sums": sums(one),
        "hint": _hint(one, app),
        "ask": ASK["whole_text"],
        "end": end,
        "pace": next((pace for pace in PACES if pace * end >= LASTS), PACES[-1]),
    }


def _end(one: Passage, lane: Lane, done: bool) -> float:
    """Seconds that a lane takes; while it is being written, what it will take at its speed so far."""
    tokens = len(lane.trace.output_ids)
    return lane.seconds * one.settings.max_new_tokens / tokens if tokens and not done else lane.seconds


def _lane(one: Passage, key: str, app: str | None) -> dict[str, Any]:
    lane = getattr(one, key)
    pieces = {**one.target.trace.pieces, **lane.trace.pieces}
    forks = one.read.forks if key == TARGET_ONLY and one.read else {}
    made = _made(lane)
    tokens = [_token(pieces, token) | {"fork": n in forks, **made.get(n, {"makes": ""})} for n, token in enumerate(lane.tokens)]
    rounds = [{"at": at, "count": len(round_.committed)} for at, round_ in zip(lane.clock, lane.trace.rounds, strict=True)]
    if key == SPECULATIVE and app is not None:
        links = [
            round_link(one.settings, n, app, motion)
            for n, round_ in enumerate(lane.trace.rounds)
            for motion in _shown_at(lane.trace, round_)
        ]
        tokens = [row | {"href": href} for row, href in zip(tokens, links, strict=True)]
    return {"key": key, "title": TITLES[key], "tokens": tokens, "rounds": rounds, "seconds": lane.seconds}


def _shown_at(trace: Trace, round_: Round) -> list[int]:
    """Of each token that a round committed the motion of One round that decides it: its check, for a replacement that of the rejected
    draft token; the draw of a bonus token."""
    told = {(one.kind, one.node): n for n, one in enumerate(motions(trace, round_))}
    checks = [told["uniform", node] for node in round_.accepted_path]
    if round_.ending.token is None:
        return checks
    rejected = rejected_at(round_)
    return [*checks, told["bonus", None] if rejected is None else told["uniform", rejected]]


def _legend(one: Passage) -> list[dict[str, Any]]:
    """Each origin with its sign, and how many tokens of the second text have it; those of target-only sampling last."""
    counts = one.speculative.counts | {WRITTEN: one.speculative.counts.get(WRITTEN, 0)}
    return [
        {"is": key, "sign": SIGNS[key], "said": _many(counts[key], SAID[key]), "meant": MEANT[key]}
        for key in SAID
        if key in counts
    ]


def _many(count: int, what: str, several: str = "") -> str:
    """A number of things; of none of them only the name."""
    return what if count == 0 else f"{count} {what if count == 1 else several or f'{what}s'}"


def _hint(one: Passage, app: str | None) -> str:
    """What a click on a token does, and what the clocks count."""
    parts = ["Click a token of speculative decoding: its round opens in a new tab."] if app is not None else []
    parts += (
        ["Click a token with a dashed line, where the models differ most: both distributions there stand below."]
        if one.read and one.read.forks
        else []
    )
    return " ".join([*parts, "Both ways alternate on one machine; each clock counts only its own work."])


def sums(one: Passage) -> list[dict[str, str]]:
    """Why the speed is what it is: tokens per target pass, over how much longer a round takes than a pass for one token. By the clocks of
    the run that is shown. Each has its value, its name, and where it comes from; no value before both ways have ended a round."""
    alone, drafted = one.target, one.speculative
    names = ("tokens per target pass", "times a pass is what a round takes", "times as fast")
    if not (alone.seconds and drafted.seconds):
        return [{"value": "…", "name": name, "said": ""} for name in names]
    values = drafted.tokens_per_pass, drafted.per_round / alone.per_round, drafted.speed / alone.speed
    tokens = _many(len(drafted.trace.output_ids), "token")
    why = (
        f"{tokens} in {_many(len(drafted.clock), 'round')}, each with one target pass and up to {_many(one.settings.gamma, 'draft token')}. Target-only "
        "sampling takes a pass for each token.",
        f"A round takes {_short(drafted.per_round)}: the draft model runs {_many(one.settings.gamma, 'time')}, then the target reads "
        f"{one.settings.gamma + 1} tokens. Without a draft, a pass reads one and takes {_short(alone.per_round)}.",
        f"{'' if values[2] >= 1.0 else 'Drafting does not pay here. '}{_spread(one)}. {_conditions(one)}.",
    )
    return [{"value": f"{value:.2f}", "name": name, "said": said} for value, name, said in zip(values, names, why, strict=True)]


def _short(seconds: float) -> str:
    """A duration with three digits."""
    return f"{seconds:.2f} s" if seconds >= 1.0 else f"{1000 * seconds:#.3g} ms".replace(". ms", " ms")


def _conditions(one: Passage) -> str:
    """What the speed depends on besides the models and the kind of machine."""
    settings, machine = one.settings, one.machine
    cuts = [
        f"{name.replace('_', '-')} {value:g}"
        for name in ("top_k", "top_p", "min_p")
        if (value := getattr(settings, name)) is not None
    ]
    said = [f"One text at temperature {settings.temperature:g}", *cuts, f"{_many(settings.gamma, 'draft token')} per round"]
    return ", ".join(
        [*said, *([f"{machine['threads']} of {machine['cores']} cores"] if "threads" in machine and "cores" in machine else [])]
    )


def _token(pieces: Mapping[int, str], one: WrittenToken) -> dict[str, Any]:
    """A token in running text: a space before it stands outside its box, a line break behind it breaks the line."""
    raw = piece(pieces, one.token)
    lead = raw.startswith(b" ") and bool(raw.strip())
    shown = glyphs(raw[1:] if lead else raw, one.token)
    breaks = raw.count(b"\n") if raw and not is_special(raw) else 0
    return {"glyphs": shown, "lead": lead, "breaks": breaks, "is": one.origin, "round": one.round, "at": one.at,
            "name": name(raw, one.token)}  # fmt: skip


def _made(lane: Lane) -> dict[int, dict[str, Any]]:
    """Last token of each run of tokens that are no whole character alone -> what they make together, and the first of them."""
    trace = lane.trace
    tail = b"" if trace.encoder_ids else unfinished(b"".join(piece(trace.pieces, token) for token in trace.prompt_ids))
    runs = braces(tail, [piece(trace.pieces, token) for token in trace.output_ids])
    return {run["last"]: {"makes": run["text"], "since": run["first"]} for run in runs if run["first"] != run["last"]}


def round_link(settings: Settings, round_: int, app: str = HERE, motion: int = 0) -> str:
    """Address of the page One round, relative to this page's unless the app is elsewhere, at a motion of a round (both from 0) of this run."""
    return f"{app}?" + urlencode(settings.to_query() | {"prompt": settings.prompt, "at": write_cursor(round_, motion)})


def forks_payload(one: Passage) -> dict[str, Any] | None:
    """The places where the models differ most, with both distributions; None where nothing was read."""
    read = one.read
    if read is None or not read.forks:
        return None
    given = [piece(one.target.trace.pieces, token) for token in one.target.trace.prompt_ids]
    before = b"".join(raw for raw in given if not is_special(raw))
    raws = [piece(read.pieces, token) for token in read.tokens]
    rows = [_fork(read, place) | {"before": _tail(whole(before + b"".join(raws[:place])))} for place in read.deepest]
    return {"id": f"{one.settings.to_query()}", "forks": rows}


def _fork(read: ScoredText, place: int) -> dict[str, Any]:
    probs, raw = read.forks[place], piece(read.pieces, read.tokens[place])
    bars = [
        {"glyphs": glyphs(piece(read.pieces, token), token), "p": p, "q": q, "mine": token == read.tokens[place]}
        for token, p, q in zip(probs.tokens, probs.p, probs.q, strict=True)
        if p > 0.0 or q > 0.0
    ]
    return {
        "place": place,
        "glyphs": glyphs(raw.lstrip(b" ") or raw, read.tokens[place]),
        "rejected": 1.0 - read.beta[place],
        "bars": bars,
        "rest": {"p": probs.rest["p"], "q": probs.rest["q"]},
        "sentence": fork_sentence(read, place),
    }


def _tail(text: str, most: int = 44) -> str:
    """The last words of a text, in one line."""
    flat = " ".join(text.split())
    return flat if len(flat) <= most else "… " + flat[-most:].split(" ", 1)[-1]


def fork_sentence(read: ScoredText, place: int) -> str:
    """Both models' likeliest tokens there, and the one that was written."""
    probs = read.forks[place]
    target, draft = (max(zip(row, probs.tokens, strict=True), key=lambda pair: pair[0]) for row in (probs.p, probs.q))
    said = {token: name(piece(read.pieces, token), token) for token in probs.tokens}
    token = read.tokens[place]
    return (
        f"The target’s likeliest token is {said[target[1]]} ({number(target[0])}), the draft’s {said[draft[1]]} ({number(draft[0])}). "
        f"The distributions overlap by {number(read.beta[place])}, so a draft token here is rejected {1.0 - read.beta[place]:.0%} of the time. "
        f"The text has {said[token]}: p = {number(read.p[place])}, q = {number(read.q[place])}."
    )


def conclusion(one: Passage) -> str:
    """Where the tokens came from, counted."""
    counts, total = one.speculative.counts, len(one.speculative.trace.output_ids)
    accepted = counts.get(ACCEPTED, 0)
    drawn = [
        f"{counts.get(REPLACED, 0)} as replacement{'s' if counts.get(REPLACED, 0) != 1 else ''} of rejected draft tokens",
        f"{counts.get(BONUS, 0)} as bonus token{'s' if counts.get(BONUS, 0) != 1 else ''} of rounds without a rejection",
    ]
    drawn += [f"{counts[WRITTEN]} without a draft, as no more was left to write"] if WRITTEN in counts else []
    suggested = sum(len(round_.proposals) for round_ in one.speculative.trace.rounds)
    return (
        f"Of the {total} tokens of speculative decoding, {accepted} {'is an accepted draft token' if accepted == 1 else 'are accepted draft tokens'}, "
        f"of {suggested} that the draft model suggested{_not_accepted(suggested, accepted, counts.get(REPLACED, 0))}. "
        f"The other {total - accepted} were drawn, one at the end of a round: {', '.join(drawn)}. "
        f"That took {len(one.speculative.trace.rounds)} target passes; target-only sampling took {len(one.target.trace.rounds)}. "
        "Every token, accepted or drawn, follows exactly the target’s distribution."
    )


def _not_accepted(suggested: int, accepted: int, rejected: int) -> str:
    """What became of the others; empty where there are none."""
    unchecked = suggested - accepted - rejected
    parts = [f"{rejected} {'was' if rejected == 1 else 'were'} rejected"] if rejected else []
    parts += (
        [f"{unchecked} {'was' if unchecked == 1 else 'were'} not checked, being behind a rejected one or the end"]
        if unchecked
        else []
    )
    return f" ({', '.join(parts)})" if parts else ""


def texts_sentence(one: Passage) -> str:
    """Why the two texts are the same, or not."""
    if one.same_text:
        return "Both ways wrote the same text, token for token." + (
            " At temperature 0 nothing is random." if one.settings.temperature == 0.0 else ""
        )
    return (
        "The texts differ, as any two samples do, and neither is the better one: what is clumsy in them is the target’s own. Even the same random numbers would give different texts, because here they also decide about draft "
        "tokens. That both follow the same distribution cannot be seen from single texts: the page Is it exact? tests it."
    )


def ended(one: Passage) -> str:
    """Where a text is shorter than was asked for, and why; empty where both have their length."""
    asked, counts = one.settings.max_new_tokens, {key: len(getattr(one, key).trace.output_ids) for key in LANES}
    short = {key: count for key, count in counts.items() if count < asked}
    if len(short) == 2 and counts[TARGET_ONLY] == counts[SPECULATIVE]:
        return f"Both texts end after {counts[TARGET_ONLY]} of {asked} tokens, {_why(one, TARGET_ONLY)}."
    whose = {TARGET_ONLY: "The text of target-only sampling", SPECULATIVE: "The text of speculative decoding"}
    return " ".join(f"{whose[key]} ends after {count} of {asked} tokens, {_why(one, key)}." for key, count in short.items())


def _why(one: Passage, key: str) -> str:
    trace = getattr(one, key).trace
    last = piece(trace.pieces, trace.output_ids[-1]) if trace.output_ids else b""
    return f"with {last.decode()}, which ends a text" if is_special(last) else "because a token ended it or the context was full"


def speed(one: Passage) -> str:
    """The two clocks compared, with their spread."""
    if (gain := one.gain) is None:
        return ""
    verdict = "" if gain.value >= 1.0 else "Drafting does not pay here. "
    return f"{verdict}Speculative decoding runs at {gain.value:.2f} times the speed of target-only sampling ({_spread(one)})."


def _spread(one: Passage) -> str:
    """Between what the factors of the runs lie."""
    if (gain := one.gain) is None:
        return "First run"
    return f"{gain.low:.2f} to {gain.high:.2f}, {describe_interval(gain.n)}" if one.runs > 1 else "One run"


def cautions(one: Passage) -> list[str]:
    """What the reader of these times must know about the machine."""
    said, machine = [], one.machine
    load, cores = machine.get("load", 0.0), machine.get("cores") or 1
    uneven = max((max(lane.rates) / min(lane.rates) for lane in (one.target, one.speculative) if lane.rates), default=1.0)
    if load > BUSY * cores:
        said.append(
            f"The machine was busy at the start (load {load:.1f} on {cores} cores). An idle one is faster, and the ratio may differ there."
        )
    elif uneven > UNEVEN:
        said.append(f"The runs differ by a factor of {uneven:.1f}: the machine was doing other work as well.")
    if one.target.rates and max(one.target.rates) < SLOW:
        said.append("On this machine these models write no faster than people read.")
    return said


def measured(one: Passage) -> str:
    """What the times were measured on, and how."""
    machine = one.machine
    where = f"{machine.get('processor', 'a machine')}, {machine.get('threads', '?')} of {machine.get('cores', '?')} cores, load {machine.get('load', 0.0):.1f}"  # fmt: skip
    runs = f"{one.runs} runs" if one.runs != 1 else "one run"
    return f"measured {one.date} on {where}; {runs} after a warm-up of {one.warm:.1f} s.{' The clocks show the run of median speed.' if one.runs > 1 else ''}"
