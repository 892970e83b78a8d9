"""What the blocks of a load show: speed-up at each level, the load from which speculation hurts, and rounds as seen from outside.

Streamed tokens arrive in bursts where a server drafts: all tokens of a round leave it together. So the sizes of bursts are the tokens
of rounds, and the time between two bursts is the time of a round, without any counter of the server.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from specviz.audit.pays.load import OFF, ON, Block
from specviz.audit.pays.streams import StreamedAnswer
from specviz.audit.profiles.base import DraftCounters
from specviz.speed.records.estimate import Estimate

MIN_GAP = 1e-6  # seconds; pieces that arrive in one read have no gap at all
BURST_RATIO = 4.0  # times by which gaps between bursts exceed those inside, at least (medians)
BURST_SHARE = 0.02  # share of all gaps that lie inside bursts, at least
HELD_BACK_SHARE = 0.05  # of the time of an answer: below it, all pieces arrive at once
PLAIN_SHARE = 0.5  # share of the extra tokens of bursts that the other arm may show too
MERGED_SHARE = 0.004  # share of bursts that may be two rounds which a busy client has read as one
SEVERAL_TOKENS = 1.15  # tokens per piece from which pieces are rounds rather than tokens
MAX_EXTRA_GAMMA = 2  # predicted draft lengths reach so many times the server's own


@dataclass(frozen=True, slots=True)
class LevelSpeed:
    """One level of concurrency.

    Attributes:
        users: Clients at a time.
        on_rate: Tokens, or characters, per second with speculation, all users together.
        off_rate: The same without; None where only one arm was measured.
        speedup: ``on_rate`` over ``off_rate`` within a turn: the median of all turns with its interval.
        failed: Prompts without an answer, both arms.
    """

    users: int
    on_rate: Estimate
    off_rate: Estimate | None
    speedup: Estimate | None
    failed: int

    @property
    def verdict(self) -> str:
        """``pays``, ``hurts``, or ``unclear`` where the interval contains 1."""
        if self.speedup is None:
            return "unclear"
        return "pays" if self.speedup.low > 1.0 else "hurts" if self.speedup.high < 1.0 else "unclear"


def estimate_levels(blocks: Sequence[Block]) -> list[LevelSpeed]:
    """Rates and speed-up at each level of concurrency. In tokens where every answer has a count, otherwise in characters."""
    in_tokens = can_count_tokens(blocks)
    unit = f"{'tokens' if in_tokens else 'characters'}/s"
    levels = []
    for users in sorted({block.users for block in blocks}):
        rates: dict[str, dict[int, float]] = {ON: {}, OFF: {}}
        for block in blocks:
            if block.users == users:
                rates[block.arm][block.turn] = block.compute_rate(in_tokens)
        ratios = [rate / rates[OFF][turn] for turn, rate in rates[ON].items() if rates[OFF].get(turn)]
        levels.append(
            LevelSpeed(
                users,
                Estimate.from_runs(list(rates[ON].values()), unit),
                Estimate.from_runs(list(rates[OFF].values()), unit) if rates[OFF] else None,
                Estimate.from_runs(ratios) if ratios else None,
                sum(len(block.errors) for block in blocks if block.users == users),
            )
        )
    return levels


def can_count_tokens(blocks: Iterable[Block]) -> bool:
    """Whether the server counted the tokens of every answer."""
    return all(block.is_counted for block in blocks)


def find_break_even(levels: Sequence[LevelSpeed]) -> float | None:
    """The number of users from which speculation makes the server slower; None where it pays at every level that was measured.

    Between two levels the logarithm of the speed-up is taken as linear in the logarithm of the users.
    """
    known = [(level.users, level.speedup.value) for level in levels if level.speedup is not None]
    if known and known[0][1] < 1.0:
        return float(known[0][0])
    for (few, above), (many, below) in pairwise(known):
        if above >= 1.0 > below:
            share = math.log(above) / (math.log(above) - math.log(below))
            return math.exp(math.log(few) + share * (math.log(many) - math.log(few)))
    return None


@dataclass(frozen=True, slots=True)
class RoundEstimate:
    """Rounds of the arm that speculates, at one level of concurrency.

    Attributes:
        users: The level.
        source: ``bursts`` of tokens, ``pieces`` that hold a round each, or the server's ``counters``.
        tokens_per_round: Mean.
        seconds_per_round: Mean; None where only counters tell of rounds.
        accepted_by_position: Share of rounds that accepted the draft token at each position; empty where it cannot be seen.
    """

    users: int
    source: str
    tokens_per_round: Estimate
    seconds_per_round: Estimate | None
    accepted_by_position: tuple[float, ...] = ()


def find_burst_gap(gaps: Sequence[float]) -> float | None:
    """The gap that separates tokens of one burst from those of two, in seconds; None where gaps are of one kind.

    The threshold of Otsu (1979, IEEE Transactions on Systems, Man, and Cybernetics 9(1)) on logarithms: the two groups with the
    largest variance between them.
    """
    logs = np.sort(np.log(np.maximum(np.asarray(gaps, dtype=float), MIN_GAP)))
    if logs.size < 8:
        return None
    counts = np.arange(1, logs.size)
    lower, upper = np.cumsum(logs)[:-1] / counts, (logs.sum() - np.cumsum(logs)[:-1]) / (logs.size - counts)
    between = counts * (logs.size - counts) * (upper - lower) ** 2
    split = int(between.argmax()) + 1
    inside, outside = logs[:split], logs[split:]
    if np.median(outside) - np.median(inside) < math.log(BURST_RATIO) or split < BURST_SHARE * logs.size:
        return None
    return float(math.exp((inside[-1] + outside[0]) / 2.0))


def are_held_back(answers: Sequence[StreamedAnswer]) -> bool:
    """Whether whole answers arrive at once, as through a proxy that collects them: their pieces tell of no times."""
    shares = [
        (one.arrivals[-1] - one.arrivals[0]) / (one.arrivals[-1] - one.began)
        for one in answers
        if len(one.arrivals) > 3 and one.arrivals[-1] > one.began
    ]
    return bool(shares) and float(np.median(shares)) < HELD_BACK_SHARE


def split_bursts(arrivals: Sequence[float], gap: float) -> list[tuple[float, int]]:
    """Start and size of each burst: pieces whose gaps are at most ``gap`` belong together."""
    bursts: list[list[float]] = []
    for moment in arrivals:
        if bursts and moment - bursts[-1][-1] <= gap:
            bursts[-1].append(moment)
        else:
            bursts.append([moment])
    return [(burst[0], len(burst)) for burst in bursts]


def estimate_rounds(blocks: Sequence[Block]) -> list[RoundEstimate]:
    """Rounds at the lowest level of concurrency, by every source that tells of them. Empty where nothing shows a round.

    Where the tokens of the other arm arrive in bursts about as much, these are the network's or a busy client's, and tell of no rounds.
    """
    speculating = [block for block in blocks if block.arm == ON]
    if not speculating:
        return []
    users = min(block.users for block in speculating)
    chosen = [block for block in speculating if block.users == users]
    answers = [answer for block in chosen for answer in block.answers]
    found = [_estimate_by_counters(chosen, users)]
    plain = [answer for block in blocks if block.arm == OFF and block.users == users for answer in block.answers]
    seen, without = _estimate_by_arrivals(answers, users), _estimate_by_arrivals(plain, users)
    if seen is not None and (without is None or _count_extra(without) < PLAIN_SHARE * _count_extra(seen)):
        found.append(seen)
    return [one for one in found if one is not None]


def _count_extra(rounds: RoundEstimate) -> float:
    """Tokens of a round beyond the one that every pass writes."""
    return rounds.tokens_per_round.value - 1.0


def _estimate_by_counters(blocks: Sequence[Block], users: int) -> RoundEstimate | None:
    """From the server's counters of rounds, or from accepted tokens: the other tokens end a round each.

    Accepted tokens are those of each answer. Counters of the whole server say as much where one client has sent all that it decoded.
    """
    counted = [block.counters for block in blocks if block.counters is not None and block.counters.rounds]
    if counted:
        rounds = sum(one.rounds or 0.0 for one in counted)
        length = max(len(one.accepted_by_position) for one in counted)
        positions = tuple(sum(_get_position(one, place) for one in counted) / rounds for place in range(length))
        each = [1.0 + one.accepted / one.rounds for one in counted if one.rounds]
        return RoundEstimate(users, "counters", Estimate.from_mean(each), None, positions)
    each = [
        (answer.tokens - 1) / (answer.tokens - 1 - answer.accepted)  # without the prompt's pass, which writes a token
        for block in blocks
        for answer in block.answers
        if answer.drafted and answer.tokens is not None and answer.accepted is not None and answer.tokens - 1 > answer.accepted
    ]
    if not each and users == 1:
        for block in blocks:
            if block.counters is None or not block.counters.drafted or not block.is_counted or block.errors:
                continue
            written = sum((answer.tokens or 1) - 1 for answer in block.answers)
            if written > block.counters.accepted:
                each.append(written / (written - block.counters.accepted))
    return RoundEstimate(users, "counters", Estimate.from_mean(each), None) if each else None


def _get_position(counters: DraftCounters, place: int) -> float:
    return counters.accepted_by_position[place] if place < len(counters.accepted_by_position) else 0.0


def _estimate_by_arrivals(answers: Sequence[StreamedAnswer], users: int) -> RoundEstimate | None:
    """From times of arrival. The first burst is the prompt's pass, the last one may be cut: neither counts."""
    per_piece = [answer.tokens / len(answer.arrivals) for answer in answers if answer.tokens is not None]
    if per_piece and float(np.mean(per_piece)) >= SEVERAL_TOKENS:
        return _estimate_by_pieces(answers, users)
    gap = find_burst_gap([later - before for one in answers for before, later in pairwise(one.arrivals)])
    if gap is None or are_held_back(answers):
        return None
    sizes, tokens, seconds = [], [], []
    for answer in answers:
        bursts = split_bursts(answer.arrivals, gap)
        if len(bursts) < 4:
            continue
        inner = bursts[1:-1]
        sizes += [size for _, size in inner]
        tokens.append(float(np.mean([size for _, size in inner])))
        seconds.append((bursts[-1][0] - bursts[1][0]) / len(inner))
    if not tokens:
        return None
    shares = [float(np.mean([size > place + 1 for size in sizes])) for place in range(max(sizes) - 1)]
    positions = tuple(share for share in shares if share >= MERGED_SHARE)
    return RoundEstimate(users, "bursts", Estimate.from_mean(tokens), Estimate.from_mean(seconds, "s"), positions)


def _estimate_by_pieces(answers: Sequence[StreamedAnswer], users: int) -> RoundEstimate | None:
    """From a server that sends the tokens of a round in one piece; the first piece is one token, by the prompt's pass."""
    found = [one for one in answers if one.tokens is not None and len(one.arrivals) >= 3]
    if not found:
        return None
    tokens = [(one.tokens - 1) / (len(one.arrivals) - 1) for one in found if one.tokens is not None]
    seconds = [(one.arrivals[-1] - one.arrivals[0]) / (len(one.arrivals) - 1) for one in found]
    is_timed = not are_held_back(answers)
    return RoundEstimate(users, "pieces", Estimate.from_mean(tokens), Estimate.from_mean(seconds, "s") if is_timed else None)


def estimate_token_seconds(blocks: Sequence[Block]) -> Estimate | None:
    """Seconds of a token without speculation, at the lowest level; None without that arm or without counts of tokens."""
    plain = [block for block in blocks if block.arm == OFF]
    if not plain:
        return None
    users = min(block.users for block in plain)
    if are_held_back([answer for block in plain for answer in block.answers]):
        return None
    each = [
        (answer.arrivals[-1] - answer.arrivals[0]) / (answer.tokens - 1)
        for block in plain
        if block.users == users
        for answer in block.answers
        if answer.tokens is not None and answer.tokens > 1 and len(answer.arrivals) > 1
    ]
    return Estimate.from_mean(each, "s") if each else None


@dataclass(frozen=True, slots=True)
class GammaForecast:
    """A draft length and what it would give one user.

    Attributes:
        speedup: Over the server without speculation.
        is_extrapolated: Whether it is longer than the server's own: acceptance there is not measured.
    """

    gamma: int
    speedup: float
    is_extrapolated: bool


def forecast_gammas(rounds: Sequence[RoundEstimate], token_seconds: Estimate | None) -> list[GammaForecast]:
    """Speed-up of every draft length, from acceptance by position and the times of a round and of a token.

    Tokens of a round with gamma g: 1 plus the shares of accepted positions 1 to g. Time: a token's, plus g times what each draft token
    of the measured rounds added. Beyond the measured positions each share falls as the last one did. Empty where something is unknown.
    """
    positions = next((one.accepted_by_position for one in rounds if len(one.accepted_by_position) > 0), ())
    seconds = next((one.seconds_per_round for one in rounds if one.seconds_per_round is not None), None)
    if not positions or seconds is None or token_seconds is None:
        return []
    gamma, shares = len(positions), list(positions)
    per_draft = max(0.0, (seconds.value - token_seconds.value) / gamma)
    fall = shares[-1] / shares[-2] if gamma > 1 and shares[-2] > 0.0 else shares[0]
    while len(shares) < MAX_EXTRA_GAMMA * gamma:
        shares.append(shares[-1] * min(fall, 1.0))
    found = []
    for length in range(1, len(shares) + 1):
        tokens = 1.0 + sum(shares[:length])
        speedup = tokens * token_seconds.value / (token_seconds.value + length * per_draft)
        found.append(GammaForecast(length, speedup, length > gamma))
    return found


def explain_no_forecast(rounds: Sequence[RoundEstimate], token_seconds: Estimate | None, is_compared: bool) -> str:
    """Why ``forecast_gammas`` gives nothing, in a sentence. is_compared: whether there is a server without speculation."""
    if not is_compared:
        lacking = "the time of a token without speculation, from a second server (--without)"
    elif not rounds:
        lacking = "rounds, and neither counters nor streams of this server show them"
    elif not any(one.accepted_by_position for one in rounds):
        lacking = (
            "acceptance by position, which this server does not show: it sends the tokens of a round in one piece and does not count them by position"
            if any(one.source == "pieces" for one in rounds)
            else "acceptance by position, which this server does not count, and its tokens arrive in no bursts that show it"
        )
    elif token_seconds is None:
        lacking = "the time of a token without speculation, and the streams do not show it"
    else:
        lacking = "the time of a round, and the streams do not show it"
    return f"No draft length is computed. That needs {lacking}."


def to_record(estimate: Estimate | None) -> dict[str, Any] | None:
    """An estimate as JSON."""
    if estimate is None:
        return None
    return {"value": estimate.value, "low": estimate.low, "high": estimate.high, "n": estimate.n, "unit": estimate.unit}
