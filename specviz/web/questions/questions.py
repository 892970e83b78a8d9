"""The eight questions: sentences of assets/texts/questions.toml, filled with numbers of the recorded runs.

Each function below computes the numbers and pictures of one question. The answers of a visitor stay in the browser.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from specviz.evidence.serving_setups import records
from specviz.evidence.serving_setups.records import SetupComparison
from specviz.figures import pages_and_glossary
from specviz.figures.numbers import format_probability
from specviz.glyphs import read_piece
from specviz.records import ASSETS, load_toml, read_file
from specviz.speed.records import methods
from specviz.speed.records.batches import BatchSpeeds
from specviz.speed.records.cost_model import FOLDER, CostModel
from specviz.speed.records.estimate import Estimate, describe_interval
from specviz.speed.records.methods import FirstToken, MethodComparison, MethodRow
from specviz.statistics.finding import POWER
from specviz.trace import Decision, Trace
from specviz.web.drafting_methods.words import name_first_token
from specviz.web.one_token.payload import list_positions
from specviz.web.questions.figures import Bar, BarPicture, build_comparison, build_token_bars
from specviz.web.speed.batch_figures import estimate_speeds, find_dip
from specviz.web.speed.round_model import build_headline_model

TEXTS = load_toml("texts/questions")
PHRASES = TEXTS["phrases"]
NAMED = 3  # tokens beside the draft token and all others where distributions are shown
LIKELIEST = 5  # tokens that share a bar where a draft prefers the others; each recorded distribution has as many
TOKENS_OF_SAMPLES = 4  # tokens beside all others where samples are shown
GPU = "h200-8b"  # name of a cost model
UNKNOWN = "?"  # label of a bar that the answer will draw
UNIT = "tokens without a draft"  # of times
ERROR, CELLS = 0.02, 15  # total variation and number of compared tokens of the question about samples

Slots = list[dict[str, Any]]  # bars of one position, as web/one_token/payload.py lists them; the rest of the vocabulary is last
Situation = tuple[dict[str, Any], dict[str, BarPicture]]  # numbers for the sentences, and pictures by name


@dataclass(frozen=True, slots=True)
class Option:
    """An answer, why it is right or wrong, and the picture that shows it."""

    text: str
    explanation: str
    picture: BarPicture
    right: bool = False


@dataclass(frozen=True, slots=True)
class PageLink:
    """A page by its name, the parameters of its address, and the words of the link."""

    name: str
    query: Mapping[str, str]
    words: str


@dataclass(frozen=True, slots=True)
class Question:
    """One question.

    Attributes:
        key: Its name in addresses and in the browser's storage.
        topic: A word or two, on its tile.
        page: Where the situation can be seen.
        picture: Shown beside the question before the answer.
        term: A sentence that explains a term of the question; empty where none is needed.
        also: A second picture below the first; None where none is needed.
        is_ahead: Whether it is about something that a later page explains.
    """

    key: str
    topic: str
    situation: str
    asks: str
    options: tuple[Option, ...]
    page: PageLink
    picture: BarPicture
    term: str = ""
    also: BarPicture | None = None
    is_ahead: bool = False

    def __post_init__(self) -> None:
        if sum(option.right for option in self.options) != 1:
            raise ValueError(f"question {self.key!r} must have one right answer")

    def build_payload(self, page: PageLink) -> dict[str, Any]:
        """JSON for the component, with another link to the page."""
        options = [
            {"text": one.text, "explanation": one.explanation, "picture": one.picture.build_payload(), "right": one.right}
            for one in self.options
        ]
        sentences = {"key": self.key, "topic": self.topic, "term": self.term}
        sentences |= {"situation": self.situation, "asks": self.asks, "ahead": PHRASES["ahead"] if self.is_ahead else ""}
        pictures = [one.build_payload() for one in (self.picture, self.also) if one]
        return sentences | {"pictures": pictures, "options": options, "page": asdict(page)}


@dataclass(frozen=True, slots=True)
class RecordedRuns:
    """The recorded runs that the questions are about; ``methods`` at temperature 1.

    ``cores`` and ``gpu`` are cost models: of the machine that ``methods`` was timed on, and of a GPU.
    """

    opening: Trace
    methods: MethodComparison
    batches: BatchSpeeds
    setups: SetupComparison
    cores: CostModel
    gpu: CostModel


def load_recorded_runs() -> RecordedRuns:
    """Read the runs that come with the project. Raises TraceError where one is missing or damaged."""
    traces = ASSETS / "traces"
    return RecordedRuns(
        read_file(traces / "opening.json", Trace.from_json),
        read_file(traces / "methods.json", methods.load_comparisons)["1"],
        read_file(traces / "batches.json", BatchSpeeds.from_json),
        read_file(traces / "setups.json", records.SetupComparison.from_json),
        *(read_file(FOLDER / f"{name}.json", CostModel.from_json) for name in ("two-cpu-cores", GPU)),
    )


def build_questions_payload(
    recorded: RecordedRuns,
    resolve_link: Callable[[PageLink], PageLink] = lambda page: page,
    among: tuple[pages_and_glossary.Page, ...] = pages_and_glossary.ALL,
) -> dict[str, Any]:
    """JSON for the component.

    Args:
        recorded: The runs that the questions are about.
        resolve_link: Where a page of the app is found in another edition.
        among: Pages of the edition, in the order of reading.
    """
    after = pages_and_glossary.find_next_page("questions", among)
    assert after is not None, "no page of an edition follows"
    return {
        "pair": recorded.methods.settings.pair,
        "headline": pages_and_glossary.PAGES["questions"].title,
        "purpose": TEXTS["purpose"],
        "choose": TEXTS["choose"],
        "kept": TEXTS["kept"],
        "onward": {"name": after.path, "title": after.title},
        "questions": [one.build_payload(resolve_link(one.page)) for one in list_questions(recorded)],
    }


def list_questions(recorded: RecordedRuns) -> tuple[Question, ...]:
    """The questions in the order of the page."""
    situations = {
        "faster": _compare_draft_costs(recorded.methods),
        "adversary": _compare_adversary(recorded.methods),
        "refused": _compare_replacements(recorded.opening),
        "redraw": _compare_redraws(recorded.opening),
        "tree": _compare_tree(recorded.methods, recorded.cores, recorded.gpu),
        "samples": _compare_sample_sizes(),
        "when-not": _compare_batches(recorded.batches),
        "quantized": _compare_quantization(recorded.setups),
    }
    return tuple(_build_question(table, *situations[table["key"]]) for table in TEXTS["question"])


def _build_question(table: Mapping[str, Any], numbers: Mapping[str, Any], pictures: Mapping[str, BarPicture]) -> Question:
    page = table["page"]
    return Question(
        table["key"],
        table["topic"],
        table["situation"].format_map(numbers),
        table["asks"],
        tuple(
            Option(
                one["text"].format_map(numbers),
                one["explanation"].format_map(numbers),
                pictures[one["picture"]],
                one.get("right", False),
            )
            for one in table["options"]
        ),
        PageLink(page["name"], {key: value.format_map(numbers) for key, value in page["query"].items()}, page["words"]),
        pictures[table["shown"]],
        table.get("term", ""),
        pictures[table["also"]] if "also" in table else None,
        table.get("is_ahead", False),
    )


def _compare_draft_costs(comparison: MethodComparison) -> Situation:
    """Tokens per round against the cost of drafting."""
    small, same, plain = (_read_row(comparison, key) for key in ("draft", "oracle", "target"))
    a, b = "small model drafts", "target drafts"
    roles = {a: "q", b: "p"}  # who drafts
    numbers = {
        "gamma": comparison.settings.gamma,
        "a_passes": f"{small.per_pass * small.ms.value / plain.ms.value:.1f}",
        "b_passes": f"{same.per_pass * same.ms.value / plain.ms.value:.1f}",
        "a_time": _format_time(small.ms, plain.ms),
        "b_time": _format_time(same.ms, plain.ms),
    }
    pictures = {
        "tokens": build_comparison(
            PHRASES["tokens_of_round"],
            {name: (row.per_pass, f"{row.per_pass:.2f}") for name, row in ((a, small), (b, same))},
            roles=roles,
        ),
        "rounds": build_comparison(
            f"time of a round, in tokens without a draft ({_describe_conditions(comparison)})",  # tokens of a round times the time per token
            {name: row.ms.convert(row.per_pass / plain.ms.value, UNIT) for name, row in ((a, small), (b, same))},
            b,
            interval=describe_interval(comparison.runs),
            roles=roles,
        ),
        "both": _build_times(comparison, {a: small.ms, b: same.ms}, a, roles),
        "three": _build_times(comparison, {"no draft": plain.ms, a: small.ms, b: same.ms}, a, roles),
    }
    return numbers, pictures


def _compare_adversary(comparison: MethodComparison) -> Situation:
    """A bad draft costs speed, never correctness."""
    bad, plain = _read_row(comparison, "adversarial"), _read_row(comparison, "target")
    likely, first, after = _find_bad_suggestion(comparison)
    masses = {key: sum(one[key] for one in likely) for key in ("p", "q")}
    shown = {PHRASES["likeliest"].format(n=len(likely)): masses, "all others": {key: 1.0 - mass for key, mass in masses.items()}}
    numbers = {
        "drafted_in": _format_one_in(first.q),
        "written_in": _format_one_in(first.p),
        "shares": _describe_shares(bad.first, "with the bad draft"),
        "time": _format_time(bad.ms, plain.ms),
    }
    pictures = {
        "distributions": build_token_bars(
            f"probability of the next token after “{after}”",
            list(shown),
            [[Bar(((key, mass),), _format_share(mass)) for key, mass in masses.items()] for masses in shown.values()],
            (("p", "target p"), ("q", "this draft’s q")),
        ),
        "samples": _build_samples("with the bad draft", bad.first),
        "times": _build_times(comparison, {"no draft": plain.ms, "bad draft": bad.ms}, "bad draft"),
        "two_samples": _build_two_samples(plain.first, bad.first),
    }
    return numbers, pictures


def _find_bad_suggestion(comparison: MethodComparison) -> tuple[Slots, Decision, str]:
    """The first draft token of the adversary's recorded round: bars of the likeliest tokens, what was decided about it, and the words before it."""
    row = comparison.find_row("adversarial")
    assert row is not None and row.trace is not None, "a round of each method is recorded"
    trace, position = row.trace, list_positions(row.trace)[0]
    *singles, _ = position["slots"]
    likely = sorted(singles, key=lambda slot: -slot["p"])[:LIKELIEST]
    text = b"".join(read_piece(trace.pieces, token) for token in trace.prompt_ids).decode("utf-8", "replace")
    return likely, trace.rounds[0].proposals[0], "… " + " ".join(text.split()[-4:])


def _format_share(mass: float) -> str:
    """In whole percent; never 0% or 100% where it is not."""
    return "<1%" if 0.0 < mass < 0.005 else ">99%" if 0.995 < mass < 1.0 else f"{mass:.0%}"


def _format_one_in(p: float) -> str:
    """1 / p in words, with two digits: 1,500 or 4.2 million."""
    n = _round_to_two_digits(round(1.0 / p))
    return f"{n / 1e9:,.3g} billion" if n >= 1e9 else f"{n / 1e6:.3g} million" if n >= 1e6 else f"{n:,}"


def _compare_replacements(trace: Trace) -> Situation:
    """The replacement is drawn from the residual distribution."""
    position, names, slots = _find_rejection(trace)
    overlap = sum(slot["overlap"] for slot in slots)
    singles = range(len(slots) - 1)
    top = max(singles, key=lambda i: slots[i]["p"])
    again = [slot["overlap"] + (1.0 - overlap) * slot["q"] for slot in slots]
    over = max(singles, key=lambda i: again[i] - slots[i]["p"])
    gain = max(singles, key=lambda i: slots[i]["residual"])
    numbers = {
        **position,
        "rejected": format_probability(1.0 - overlap),
        "gain": format_probability(slots[gain]["residual"] / (1.0 - overlap)),
        "gain_name": names[gain],
        "top_name": names[top],
        "just_rejected": PHRASES["just_rejected"] if names[top] == position["draft"] else "",
        "top_written": format_probability(slots[top]["overlap"] + 1.0 - overlap),
        "top_p": format_probability(slots[top]["p"]),
        "over_name": names[over],
        "over_written": format_probability(again[over]),
        "over_p": format_probability(slots[over]["p"]),
    }
    likeliest = [(1.0 - overlap) * (i == top) for i in range(len(slots))]
    pictures = {
        "distributions": _build_distributions(names, slots),
        "residual": _build_output(names, slots, [slot["residual"] for slot in slots], "residual", "replaced from the residual"),
        "likeliest": _build_output(names, slots, likeliest, "wrong", "replaced by the target’s most likely token"),
        "draft": _build_output(
            names, slots, [(1.0 - overlap) * slot["q"] for slot in slots], "wrong", "replaced by another draw from q"
        ),
    }
    return numbers, pictures


def _compare_redraws(trace: Trace) -> Situation:
    """A redraw from p adds to what was accepted already."""
    position, names, slots = _find_rejection(trace)
    overlap = sum(slot["overlap"] for slot in slots)
    written = [slot["overlap"] + (1.0 - overlap) * slot["p"] for slot in slots]
    excess = [written[i] - slots[i]["p"] for i in range(len(slots) - 1)]
    over, under = excess.index(max(excess)), excess.index(min(excess))
    left_out = compute_redraws_without_rejected(slots)
    numbers = {
        "before": position["before"],
        "over_name": names[over],
        "over_written": format_probability(written[over]),
        "over_p": format_probability(slots[over]["p"]),
        "under_name": names[under],
        "under_written": format_probability(written[under]),
        "under_p": format_probability(slots[under]["p"]),
        "over_left_out": format_probability(slots[over]["overlap"] + left_out[over]),
    }
    redrawn = [(1.0 - overlap) * slot["p"] for slot in slots]
    pictures = {
        "distributions": _build_distributions(names, slots),
        "redrawn": _build_output(names, slots, redrawn, "wrong", "redrawn from p"),
        "left_out": _build_output(names, slots, left_out, "wrong", "redrawn from p without the rejected token"),
    }
    return numbers, pictures


def _compare_tree(comparison: MethodComparison, cores: CostModel, gpu: CostModel) -> Situation:
    """A tree raises the tokens per pass and the cost of a pass, which is the machine's."""
    chain, tree, plain = (_read_row(comparison, key) for key in ("eagle", "eagle-wide", "target"))
    computed = comparison.with_cost_model(gpu)
    chain_there, tree_there = (_compute_speed(computed, key) for key in ("eagle", "eagle-wide"))
    tokens = round(1 + tree.nodes)
    growth = {PHRASES["two_cores"]: cores, gpu.title.partition(",")[0]: gpu}
    passes = {name: model.compute_pass(tokens) / model.compute_pass(1) for name, model in growth.items()}
    numbers = {
        "gamma": comparison.settings.gamma,
        "shares": _describe_shares(tree.first, "with the tree"),
        "tree_tokens": f"{tree.per_pass:.2f}",
        "chain_tokens": f"{chain.per_pass:.2f}",
        "tree_time": _format_time(tree.ms, plain.ms),
        "chain_time": _format_time(chain.ms, plain.ms),
        "overlap": PHRASES["intervals_overlap"] if tree.ms.low <= chain.ms.high and chain.ms.low <= tree.ms.high else "",
        "tree_size": tokens - 1,
        "here": PHRASES["two_cores"],
        "costs": GPU,
    }
    line, title = (1.0, "target only"), "speed over target-only sampling"
    there = {name: (value, f"{value:.2f}") for name, value in (("chain, H200", chain_there), ("tree, H200", tree_there))}
    here = {
        f"{name}, {PHRASES['two_cores']}": (value, f"{value:.2f}")
        for name, value in (("chain", plain.ms.value / chain.ms.value), ("tree", plain.ms.value / tree.ms.value))
    }
    pictures = {
        "passes": build_comparison(
            f"a target pass over {tokens} tokens, in passes over one",
            {name: (value, f"{value:.2f}") for name, value in passes.items()},
            roles=dict.fromkeys(passes, "p"),
        ),
        "tokens": build_comparison(
            PHRASES["tokens_per_pass"].format(machine=PHRASES["two_cores"]),
            {name: (row.per_pass, f"{row.per_pass:.2f}") for name, row in (("chain", chain), ("tree", tree))},
            roles={"chain": "q", "tree": "q"},
        ),
        "samples": _build_samples("with the tree", tree.first),
        "both": build_comparison(f"{title}: measured, and on the H200 computed", here | there, "tree, H200", line),
        "times": _build_times(comparison, {"chain": chain.ms, "tree": tree.ms}, "tree"),
    }
    return numbers, pictures


def _compute_speed(computed: MethodComparison, key: str) -> float:
    """Speed of a row over target-only sampling, by times that are computed."""
    return _read_row(computed, "target").ms.value / _read_row(computed, key).ms.value


def _compare_sample_sizes() -> Situation:
    """How many samples a distance needs; the formula of statistics/power.py."""
    from specviz.statistics.power import count_draws_needed, find_detectable_tv  # scipy, which other pages do ban_tokens

    needed = count_draws_needed(ERROR, CELLS - 1)
    enough = _round_to_two_digits(needed)
    sizes = {"few": enough // 100, "some": enough // 10, "enough": enough, "many": 100 * enough}
    detected = {name: find_detectable_tv(CELLS - 1, n) for name, n in sizes.items()}
    bars = {f"{n:,} samples": (detected[name], format_probability(detected[name])) for name, n in sizes.items()}
    title, line = (
        f"smallest total variation that is detected {100 * POWER:.0f} times in 100",
        (ERROR, f"the server’s error, {ERROR:g}"),
    )
    numbers = {
        "error": f"{ERROR:g}",
        "cells": CELLS,
        **{name: f"{n:,}" for name, n in sizes.items()},
        **{f"{name}_tv": format_probability(tv) for name, tv in detected.items()},
    }
    pictures = {name: build_comparison(title, bars, f"{n:,} samples", line) for name, n in sizes.items()}
    known = {PHRASES["samples"].format(n=n): find_detectable_tv(CELLS - 1, n) for n in (sizes["few"], 4 * sizes["few"])}
    known |= {PHRASES["error"]: ERROR}
    named = {name: (tv, f"{tv:.2f}") for name, tv in known.items()}
    return numbers, pictures | {"known": build_comparison(title, named, PHRASES["error"])}


def _compare_batches(batches: BatchSpeeds) -> Situation:
    """Many texts at once use the idle arithmetic themselves. The speeds are the rows of How fast?."""
    model = build_headline_model(batches)
    speeds = dict(zip(batches.rows, estimate_speeds(model, batches), strict=True))
    gammas = {rows: model.find_best_gamma(model.alpha, model.c, rows)[0] for rows in batches.rows}
    names = {rows: f"{_count_things(rows, 'text')}, {_count_things(gamma, 'draft token')}" for rows, gamma in gammas.items()}
    first, last = batches.rows[0], batches.rows[-1]
    others = [speeds[rows].value for rows in batches.rows[2:]]
    numbers = {
        "last": last,
        "temperature": f"{batches.settings.temperature:g}",
        "machine": _describe_machine(batches.machine),
        "single": f"{speeds[first].value:.2f}",
        "many": f"{speeds[last].value:.2f}",
        "low": f"{min(others):.2f}",
        "high": f"{max(others):.2f}",
        "between": explain_unevenness(list(speeds.values()), find_dip(model, batches) is not None),
    }
    title = "times as fast as without a draft; each with its fastest number of draft tokens a round"

    def build_picture(rows: Sequence[int], highlighted: int) -> BarPicture:
        gains = {names[n]: speeds[n] for n in rows}
        return build_comparison(title, gains, names[highlighted], (1.0, "no draft"), "95% interval")

    one = float(np.median(batches.passes[0][0]))
    passes = [(rows, float(np.median(timed[0])) / one) for rows, timed in zip(batches.rows, batches.passes, strict=True)]
    costs = {_count_things(rows, "text"): (cost, f"{cost:.1f}") for rows, cost in passes}
    pictures = {
        "passes": build_comparison(
            "time of a target pass for the next token of every text, in passes for one text",
            costs,
            roles=dict.fromkeys(costs, "p"),
        ),
        "all": build_picture(batches.rows, first),
        "more": build_picture(batches.rows, last),
        "ends": build_picture((first, last), last),
    }
    return numbers, pictures


def explain_unevenness(speeds: Sequence[Estimate], has_dip: bool) -> str:
    """Whether more texts gain more than fewer anywhere beyond noise, and whether short passes of this processor are why."""
    if not any(more.low > fewer.high for fewer, more in pairwise(speeds)):
        return PHRASES["gain_is_noise"]
    return PHRASES["gain_dips" if has_dip else "gain_varies"]


def _compare_quantization(comparison: SetupComparison) -> Situation:
    """Exactness is relative to the target as it is served."""
    row, per_pass = (next(row for row in comparison.rows if row.key == key) for key in ("int8", "int8-pass"))
    assert row.distance and row.own and per_pass.own, "both setups are recorded with their numbers"
    moved, kept, whole = row.distance.value, row.own.mean, per_pass.own.mean
    by_token, by_pass = "draft tokens, each rounded by itself", "draft tokens, a pass rounded as a whole"
    bars = {name: (tv, format_probability(tv)) for name, tv in (("quantization", moved), (by_token, kept), (by_pass, whole))}
    title = "how far the next token’s distribution moves, mean total variation"
    numbers = {
        "moved": format_probability(moved),
        "kept": format_probability(kept),
        "whole_pass": format_probability(whole),
    }
    pictures = {
        "moved": build_comparison(
            title, {"rounding to 8 bits": bars["quantization"], "draft tokens": (0.0, UNKNOWN)}, "rounding to 8 bits"
        ),
        "from_either": build_comparison(
            "how far the output’s distribution is, mean total variation",
            {"from the target before rounding": bars["quantization"], "from the rounded target": bars[by_token]},
            "from the rounded target",
        ),
        "rounding": build_comparison(title, {name: bars[name] for name in (by_token, by_pass)}, by_token),
        "all": build_comparison(
            title, {"rounding to 8 bits": bars["quantization"], "draft tokens": bars[by_token]}, "draft tokens"
        ),
    }
    return numbers, pictures


class MethodNumbers(NamedTuple):
    """Numbers of a row of the record of drafting methods."""

    per_pass: float
    nodes: float
    ms: Estimate
    first: FirstToken


def _read_row(comparison: MethodComparison, key: str) -> MethodNumbers:
    row = comparison.find_row(key)
    if row is None or row.per_pass is None or row.ms is None or row.first is None:
        raise ValueError(f"the record of drafting methods has no numbers for {key!r}")
    return MethodNumbers(row.per_pass, row.nodes, _compare_time(comparison, row, row.ms), row.first)


def _compare_time(comparison: MethodComparison, row: MethodRow, ms: Estimate) -> Estimate:
    """Milliseconds of a token: those without a draft over the speed, which was taken run by run."""
    alone = comparison.find_row("target")
    if row.speed is None or alone is None or alone.ms is None:
        return ms
    whole, speed = alone.ms.value, row.speed
    return Estimate(whole / speed.value, whole / speed.high, whole / speed.low, speed.n, ms.unit)


def _format_time(ms: Estimate, plain: Estimate) -> str:
    return f"{ms.value / plain.value:.2f}"


def _build_times(
    comparison: MethodComparison,
    times: Mapping[str, Estimate],
    highlighted: str,
    roles: Mapping[str, str] | None = None,
) -> BarPicture:
    """Times of a token over that without a draft: milliseconds differ from one day's record to another's, their ratios do not.

    The time without a draft is the unit, so it has no interval.
    """
    plain = _read_row(comparison, "target").ms
    shown = {name: (1.0, "1") if ms is plain else ms.convert(1.0 / plain.value, UNIT) for name, ms in times.items()}
    title = f"time per token, no draft = 1; lower is faster ({_describe_conditions(comparison)})"
    return build_comparison(title, shown, highlighted, interval=describe_interval(comparison.runs), roles=roles)


def _describe_conditions(comparison: MethodComparison) -> str:
    return f"temperature {comparison.settings.temperature:g}{_describe_machine(comparison.machine)}"


def _describe_machine(machine: Mapping[str, Any]) -> str:
    """Such as ", AMD EPYC, 2 threads"; empty for a record without these facts."""
    processor, threads = machine.get("processor"), machine.get("threads")
    if not processor or not threads:
        return ""
    return PHRASES["machine"].format(processor=processor, threads=_count_things(threads, "thread"))


def _count_things(n: int, thing: str) -> str:
    return f"{n} {thing}" if n == 1 else f"{n} {thing}s"


def _describe_shares(first: FirstToken, setting: str) -> str:
    """Whether samples are as close to the exact distribution as sampling noise allows."""
    return PHRASES["shares_within_noise" if first.tv <= first.upper else "shares_beyond_noise"].format(n=first.n, how=setting)


def _find_rejection(trace: Trace) -> tuple[dict[str, Any], list[str], Slots]:
    """The rejected draft token of a run at which even the mildest wrong replacement is easiest to see.

    Returns:
        Its position, the names of its bars, and the bars.
    """
    rejected = {
        f"{number}.{node + 1}"
        for number, round_ in enumerate(trace.rounds, start=1)
        for node, decision in enumerate(round_.proposals)
        if decision.accepted is False
    }
    positions = [one for one in list_positions(trace) if one["id"] in rejected]
    if not positions:
        raise ValueError("the recorded run has no rejected draft token")
    position = max(positions, key=lambda one: _compute_mildest_error(one["slots"]))
    slots = _merge_slots(position["slots"], position["draft"])
    names = [_name_slot(slot) for slot in slots]
    cut, _, words = position["before"].partition(" ")
    before = f"…{words}" if cut.startswith("…") and words else position["before"]  # without half a word
    return position | {"before": before}, names, slots


def _merge_slots(slots: Slots, draft: str) -> Slots:
    """The first bars and that of the draft token; all others as one bar."""
    *single, rest = slots
    first = [slot for slot in single if _name_slot(slot) != draft][:NAMED]
    shown = [slot for slot in single if slot in first or _name_slot(slot) == draft]
    merged = {
        key: rest[key] + sum(slot[key] for slot in single if slot not in shown) for key in ("p", "q", "overlap", "residual")
    }
    return [*shown, rest | merged]


def _name_slot(slot: Mapping[str, Any]) -> str:
    return "all others" if slot["glyphs"] is None else f"“{_join_glyphs(slot['glyphs'])}”"


def _compute_mildest_error(slots: Slots) -> float:
    """Smallest error of the wrong replacements: the likeliest token, another draw from q, or from p with or without the rejected one.

    The error of a replacement is the largest difference of a bar from p.
    """
    left = 1.0 - sum(slot["overlap"] for slot in slots)
    top = max(range(len(slots) - 1), key=lambda i: slots[i]["p"])
    ways = (
        [left * (i == top) for i in range(len(slots))],
        [left * slot["q"] for slot in slots],
        [left * slot["p"] for slot in slots],
        compute_redraws_without_rejected(slots),
    )
    return min(max(abs(slot["overlap"] + more - slot["p"]) for slot, more in zip(slots, added, strict=True)) for added in ways)


def compute_redraws_without_rejected(slots: Slots) -> list[float]:
    """What each token gains if the replacement is drawn from p without the rejected token, whichever that was.

    A draft token x is rejected with probability q(x) - min(p, q)(x). The last slot stands for many tokens: leaving out one of them
    changes next to nothing.
    """
    rejected = [slot["q"] - slot["overlap"] for slot in slots]
    *single, rest = range(len(slots))
    return [
        rejected[rest] * slot["p"] + sum(rejected[x] * slot["p"] / (1.0 - slots[x]["p"]) for x in single if x != y)
        for y, slot in enumerate(slots)
    ]


def _join_glyphs(glyphs: list[dict[str, Any]]) -> str:
    """The text of a token without its first space."""
    text = "".join(glyph["t"] for glyph in glyphs)
    return text.removeprefix("·") or text


def _build_distributions(names: list[str], slots: Slots) -> BarPicture:
    bars = [[Bar(((key, slot[key]),), format_probability(slot[key])) for key in ("p", "q")] for slot in slots]
    return build_token_bars("probability of the next token", names, bars, (("p", "target p"), ("q", "draft q")))


def _build_output(names: list[str], slots: Slots, added: list[float], role: str, words: str) -> BarPicture:
    """Accepted draft tokens, their replacements on top, and marks where p ends."""
    bars = [
        [Bar((("accepted", slot["overlap"]), (role, more)), format_probability(slot["overlap"] + more), slot["p"])]
        for slot, more in zip(slots, added, strict=True)
    ]
    legend = (("accepted", "accepted draft tokens"), (role, words))
    return build_token_bars("how often each token is written", names, bars, legend, "the target’s p")


def _build_samples(how: str, first: FirstToken) -> BarPicture:
    names, exact, shares = _list_first_tokens(first)
    bars = [
        [Bar((("p", p),), format_probability(p)), Bar((("plain", share),), format_probability(share))]
        for p, share in zip(exact, shares, strict=True)
    ]
    title = f"first token: exact distribution, and {first.n:,} samples written {how}"
    return build_token_bars(title, names, bars, (("p", "target’s exact distribution"), ("plain", "samples")))


def _build_two_samples(plain: FirstToken, drafted: FirstToken) -> BarPicture:
    names, exact, shares = _list_first_tokens(plain)
    bars = [
        [Bar((("plain", x),), format_probability(x), p), Bar((("strong", y),), format_probability(y), p)]
        for p, x, y in zip(exact, shares, _list_first_tokens(drafted)[2], strict=True)
    ]
    title = f"first token: {plain.n:,} samples without a draft, and {drafted.n:,} with the bad draft"
    legend = (("plain", "samples without a draft"), ("strong", "samples with the bad draft"))
    return build_token_bars(title, names, bars, legend, "target’s exact distribution")


def _list_first_tokens(first: FirstToken) -> tuple[list[str], list[float], list[float]]:
    """Names, exact probabilities and shares of the likeliest tokens; all others together at the end."""
    most = TOKENS_OF_SAMPLES
    names = [f"“{name_first_token(first, i).removeprefix('·')}”" for i in range(most)] + ["all others"]
    probs, shares = ([*values[:most], sum(values[most:])] for values in (first.probs, first.shares))
    return names, probs, shares


def _round_to_two_digits(n: int) -> int:
    """33,826 is 34,000."""
    scale = 10 ** max(0, len(str(n)) - 2)
    return round(n / scale) * scale
