"""Sentences, names and tables of the page *Drafting methods*, from plain records."""

from __future__ import annotations

from math import ceil

from specviz.evidence.testing.results import REST, label_cell
from specviz.figures.numbers import format_probability
from specviz.proposers.trees.node_count import NodeCountCurve
from specviz.records import load_toml
from specviz.settings import Settings
from specviz.speed.records import headline
from specviz.speed.records.cost_model import CostModel
from specviz.speed.records.estimate import Estimate, describe_interval
from specviz.speed.records.methods import ComputedComparison, FirstToken, MethodComparison, MethodRow

TEXTS = load_toml("texts/drafting_methods")
SENTENCES = TEXTS["sentences"]
FEW = 3  # methods that a sentence names
WIDE = ("eagle-wide", "tree-wide", "medusa-wide")  # methods whose passes read a large tree
FASTER, SLOWER, UNSURE = "faster", "slower", "undecided"


def name_verdict(row: MethodRow) -> str:
    """Verdict of a row, exact or lossy; a dash for a combination that makes no sense."""
    if row.reason:
        return "–"
    return "exact" if row.exact else "lossy, same text here" if row.coincides else "lossy"


def compute_speed(row: MethodRow, comparison: MethodComparison) -> Estimate | None:
    """Times the speed of target-only sampling, run by run; None where one is not timed.

    Where only times are known, the range is what the intervals of both allow.
    """
    if row.speed is not None:
        return row.speed
    alone = comparison.find_row("target")
    if alone is None or alone.ms is None or row.ms is None:
        return None
    return Estimate(
        alone.ms.value / row.ms.value, alone.ms.low / row.ms.high, alone.ms.high / row.ms.low, comparison.runs, "times"
    )


def compare_with_target(row: MethodRow, comparison: MethodComparison) -> str:
    """Whether it is faster than target-only sampling; empty for that itself, and for a single run or a computed speed: no interval."""
    found = compute_speed(row, comparison)
    if found is None or row.key == "target" or comparison.runs < 2 or is_computed(row, comparison):
        return ""
    return FASTER if found.low > 1.0 else SLOWER if found.high < 1.0 else UNSURE


def is_exact(row: MethodRow) -> bool:
    """Whether its rule is exact, as far as it could run."""
    return row.exact or bool(row.reason)


def is_faster(row: MethodRow, comparison: MethodComparison) -> bool:
    """Whether an exact method was timed as faster than target-only sampling."""
    return is_exact(row) and compare_with_target(row, comparison) == FASTER


def is_computed(row: MethodRow, comparison: MethodComparison) -> bool:
    """Whether the time of a row is computed from a cost model, and not a measured one."""
    return isinstance(comparison, ComputedComparison) and row.ms is not None and row.ms.low == row.ms.high


def is_bound(row: MethodRow, comparison: MethodComparison) -> bool:
    """Whether its computed speed is only the most that it can be, because the work of its branches is not counted."""
    return row.entry.branches and is_computed(row, comparison)


def loses_with_many_tokens(comparison: MethodComparison) -> bool:
    """Whether a method that drafts trees writes more tokens a round than the fastest and was timed as slower than target-only sampling."""
    best, wide = find_fastest(comparison), [row for key in WIDE if (row := comparison.find_row(key)) is not None]
    if best is None or best.per_pass is None or isinstance(comparison, ComputedComparison):
        return False
    return any(compare_with_target(row, comparison) == SLOWER and (row.per_pass or 0.0) > best.per_pass for row in wide)


def explain_other_machine(comparison: MethodComparison, other: ComputedComparison | None, where: str) -> str:
    """Why large trees lose here and gain on another machine; empty where they lose there too, or do not lose here.

    where: The machine that timed the comparison, as in "on two CPU cores".
    """
    if other is None or not loses_with_many_tokens(comparison):
        return ""
    wide = [row for key in WIDE if (row := other.find_row(key)) is not None and compute_speed(row, other) is not None]
    if not wide or any(_get_speed(row, other).value <= 1.0 for row in wide):
        return ""
    passes = compare_passes(max(wide, key=lambda row: row.nodes), comparison, other, where)
    return passes and f"{passes} {TEXTS['gain']}"


def compare_passes(row: MethodRow, comparison: MethodComparison, other: ComputedComparison, where: str) -> str:
    """The time of the pass that checks a round of a method, on both machines, in tokens of target-only sampling; empty where no pass was timed.

    row: Of either comparison. where: The machine that timed the first one.
    """
    timed, alone = comparison.find_row(row.key), comparison.find_row("target")
    if timed is None or alone is None or alone.ms is None or not timed.timing.get("target"):
        return ""
    model, drafts = other.cost_model, ceil(row.nodes)  # a round that is cut at the end of the text has fewer
    return TEXTS["passes"].format(
        drafts=drafts, here=where[:1].upper() + where[1:], cost=timed.timing["target"] / alone.ms.value,
        there=f"on {name_place(name_machine(model))}", other=model.compute_pass(1 + drafts) / model.target_only,
    )  # fmt: skip


def is_tied(row: MethodRow, comparison: MethodComparison) -> bool:
    """Whether it and the fastest exact method, both faster than target-only sampling, have intervals that meet: which of both is first is not known."""
    timed = [one for one in list_timed(comparison) if compare_with_target(one, comparison) == FASTER]
    return row in timed[1:] and _may_be_as_fast(row, timed[0])


def _may_be_as_fast(row: MethodRow, best: MethodRow) -> bool:
    """Whether the intervals of two speeds meet, or where they were not taken run by run, those of two times."""
    if row.speed is not None and best.speed is not None:
        return row.speed.high >= best.speed.low
    return row.ms is not None and best.ms is not None and row.ms.low <= best.ms.high


def name_machine(model: CostModel) -> str:
    """A machine in a sentence: H200 with a target of 8B."""
    return model.title.replace(", target of", " with a target of")


def name_place(machine: str) -> str:
    """A machine with its article."""
    return f"an {machine}" if machine.startswith("H") else machine


def locate(comparison: MethodComparison, where: str) -> str:
    """The machine of a comparison: on an H200 with a target of 8B. where: that of measured speeds."""
    if not isinstance(comparison, ComputedComparison):
        return where
    return f"on {name_place(name_machine(comparison.cost_model))}"


def find_fastest(comparison: MethodComparison) -> MethodRow | None:
    """The exact method with the highest speed, target-only sampling aside."""
    timed = [row for row in comparison.rows if row.exact and row.key != "target" and compute_speed(row, comparison) is not None]
    return max(timed, key=lambda row: _get_speed(row, comparison).value, default=None)


def _get_speed(row: MethodRow, comparison: MethodComparison) -> Estimate:
    speed = compute_speed(row, comparison)
    assert speed is not None, "a row that was timed"
    return speed


def format_estimate(estimate: Estimate) -> str:
    """1.26 (0.99 to 1.56); without the range where there is none."""
    return f"{estimate.value:.2f}" + (f" ({format_range(estimate)})" if estimate.low < estimate.high else "")


def format_range(estimate: Estimate) -> str:
    """0.99 to 1.56; an end beside 1 has the digits that tell it from 1."""
    ends = (f"{end:.2f}" if f"{end:.2f}" != "1.00" else f"{end:.4g}" for end in (estimate.low, estimate.high))
    return " to ".join(ends)


def describe_comparison(comparison: MethodComparison) -> str:
    """What the chart shows: which methods are exact, which is fastest, and that tokens per target pass alone do not make one fast."""
    said = [_describe_exactness(comparison)]
    best = find_fastest(comparison)
    if best is None:
        running = any(not row.reason for row in comparison.rows)
        said.append(SENTENCES["speeds_follow" if running and not comparison.runs else "none_ran"])
        return " ".join(filter(None, said))
    if isinstance(comparison, ComputedComparison):
        return " ".join(filter(None, [*said, _describe_computed_speeds(comparison)]))
    said.append(
        _describe_speeds(comparison)
        if comparison.runs > 1
        else f"Fastest: {best.entry.name}, {format_estimate(_get_speed(best, comparison))} times as fast as target only."
    )
    most = max((row for row in comparison.rows if row.exact and row.passes), key=lambda row: row.per_pass or 0.0)
    if most is not best and compare_with_target(most, comparison) != FASTER:
        yet = "and yet slower" if compare_with_target(most, comparison) == SLOWER else "without a gain that these runs show"
        said.append(f"Most tokens per target pass: {most.entry.name}, {most.per_pass:.2f}, {yet}.")
    return " ".join(filter(None, said))


def list_timed(comparison: MethodComparison) -> list[MethodRow]:
    """The exact methods with a speed, target-only sampling aside, the fastest first."""
    timed = [row for row in comparison.rows if row.exact and row.key != "target" and compute_speed(row, comparison)]
    return sorted(timed, key=lambda row: _get_speed(row, comparison).value, reverse=True)


def answer_which_pay(comparison: MethodComparison, where: str) -> tuple[str, str]:
    """How many exact methods are faster than no draft: the count, and the words after it; both empty before any was timed.

    where: The machine, as in "on two CPU cores". Of computed speeds those that are only bounds do not count.
    """
    timed = [row for row in list_timed(comparison) if not is_bound(row, comparison)]
    is_model = isinstance(comparison, ComputedComparison)
    if not timed or (comparison.runs <= 1 and not is_model):
        return "", ""
    faster = [
        row
        for row in timed
        if (_get_speed(row, comparison).value > 1.0 if is_model else compare_with_target(row, comparison) == FASTER)
    ]
    count, verb = f"{len(faster)} of {len(timed)}", "beats" if len(faster) == 1 else "beat"
    if is_model:
        return count, SENTENCES["answer_computed"].format(verb=verb, where=where)
    return count, SENTENCES["answer"].format(verb=verb, where=where)


def _describe_exactness(comparison: MethodComparison) -> str:
    """Which methods write the target's distribution; empty before any was sampled."""
    sampled = [row for row in comparison.rows if not row.reason and row.first is not None]
    if not sampled:
        return ""
    named = ", ".join(
        f"{row.entry.name} (it moves {format_probability(row.first.written_tv)} of the first token’s probability)"
        for row in sampled
        if not row.exact and not row.coincides and row.first is not None and row.first.written_tv is not None
    )
    return f"All methods write the target’s distribution, except {named}." if named else SENTENCES["all_exact"]


def _describe_computed_speeds(comparison: ComputedComparison) -> str:
    """The fastest exact methods by another machine's costs."""
    timed = [row for row in comparison.rows if row.exact and row.key != "target" and compute_speed(row, comparison) is not None]
    timed.sort(key=lambda row: _get_speed(row, comparison).value, reverse=True)
    first, *others = ((row.entry.name, f"{_get_speed(row, comparison).value:.2f}") for row in timed[:FEW])
    fastest = "; ".join([f"{first[0]}, {first[1]} times as fast as target only", *(f"{name}, {speed}" for name, speed in others)])
    return f"Computed from both: tokens per target pass of this pair, costs of {comparison.cost_model.title}. Fastest: {fastest}."


def explain_large_trees(comparison: MethodComparison, measured: MethodComparison) -> str:
    """Why large trees gain where a longer pass costs little more: their speeds there and as measured. Empty for measured speeds.

    measured: the same comparison, with the times of its own machine.
    """
    if not isinstance(comparison, ComputedComparison):
        return ""
    found = []
    for key in WIDE:
        row, before = comparison.find_row(key), measured.find_row(key)
        if row and before and (speed := compute_speed(row, comparison)) and (here := compute_speed(before, measured)):
            found.append((row, f"{row.entry.name} {speed.value:.2f} (as measured: {here.value:.2f})"))
    model = comparison.cost_model
    if not found or not all(is_computed(row, comparison) for row, _ in found):
        return ""
    tokens = round(max(1 + row.nodes for row, _ in found))
    gains = all(_get_speed(row, comparison).value > 1.0 for row, _ in found)
    return (
        f"A pass over {tokens} tokens takes {model.compute_pass(tokens) / model.target_only:.2f} times as long on {name_place(name_machine(model))} as a token of "
        f"target-only sampling"
        f"{', so large trees gain' if gains else '. Large trees'}: {', '.join(said for _, said in found)}."
    )


def _describe_speeds(comparison: MethodComparison) -> str:
    """Which methods are surely faster or slower than target-only sampling, the fastest first, and how many the runs cannot tell."""
    exact = [row for row in comparison.rows if row.exact and compare_with_target(row, comparison)]
    exact.sort(key=lambda row: _get_speed(row, comparison).value, reverse=True)
    faster, slower, unsure = (
        [row for row in exact if compare_with_target(row, comparison) == way] for way in (FASTER, SLOWER, UNSURE)
    )
    said = f"No exact method is measurably faster than target only. The fastest, {exact[0].entry.name}, is {format_estimate(_get_speed(exact[0], comparison))} times as fast."
    if faster:
        said = f"Faster than target only: {'; '.join(f'{row.entry.name}, {format_estimate(_get_speed(row, comparison))} times' for row in faster)}."
    for rows, what in ((slower, "Slower"), (unsure, "Undecided")):
        if rows:
            said += f" {what}: {', '.join(row.entry.name for row in rows) if len(rows) <= FEW else f'{len(rows)} others'}."
    return said


def describe_texts(comparison: MethodComparison) -> str:
    """How many texts a method wrote in every run, as the beginning of a sentence."""
    return f"{len(comparison.prompts)} prompts" if comparison.prompts else "One prompt"


def count_tokens(comparison: MethodComparison) -> str:
    """The tokens that a method wrote in every run."""
    tokens = f"{comparison.settings.max_new_tokens} tokens"
    return f"{tokens} after each of {len(comparison.prompts)} prompts" if comparison.prompts else tokens


def relate_to_headline(comparison: MethodComparison) -> str:
    """The headline's speed of the same pair and temperature, beside another measurement of it; empty for its own record."""
    return "" if comparison.prompts else headline.relate_to_headline(comparison.settings)


def describe_sample_size(comparison: MethodComparison) -> str:
    """How little was timed here, and the headline of the same pair and temperature; empty before anything was timed, and for the headline's own record."""
    said = describe_few_runs(comparison)
    return f"{said} {headline.add_headline(comparison.settings)}".rstrip() if said else ""


def describe_few_runs(comparison: MethodComparison) -> str:
    """How little was timed here; empty before anything was timed, and for a record of several prompts."""
    if not comparison.runs or comparison.prompts:
        return ""
    settings, runs = comparison.settings, f"{comparison.runs} run{'s' * (comparison.runs != 1)}"
    return (
        f"{runs} of {settings.max_new_tokens} tokens with {settings.gamma} draft tokens a round are few, so the ranges are wide."
    )


def is_certain(first_token: FirstToken) -> bool:
    """Whether the target is certain of one token, so that nothing is random."""
    return first_token.upper == 0.0


def build_detail_rows(comparison: MethodComparison) -> list[dict[str, object]]:
    """The numbers behind the chart, a line for each method: every count, the intervals, how exactness was shown."""
    rows: list[dict[str, object]] = []
    for row in comparison.rows:
        first, found = row.first, compute_speed(row, comparison)
        counts = ", ".join(f"{accepted} of {checked}" for accepted, checked in zip(row.accepted, row.checked, strict=True))
        shown = "enumerated on small tables" if row.exact else "computed"
        rows.append(
            {
                "method": row.entry.name,
                "verdict": name_verdict(row),
                "rule": row.rule,
                "tokens per pass": None if row.per_pass is None else round(row.per_pass, 2),
                _title_times(comparison): _format_ms(row.ms) if row.ms else "",
                "times target only": format_estimate(found) if found else "",
                "speed": compare_with_target(row, comparison),
                "draft tokens per pass": round(row.nodes, 1) if row.passes else None,
                "accepted of checked, by position": counts,
                "exactness": row.reason or (f"{shown}, sampled" if first else shown if row.exact else ""),
                "TV of the samples": round(first.tv, 3) if first else None,
                "sampling noise up to": round(first.upper, 3) if first else None,
                "TV computed": round(first.written_tv, 3) if first and first.written_tv is not None else None,
            }
        )  # fmt: skip
    return rows


def _title_times(comparison: MethodComparison) -> str:
    computed = isinstance(comparison, ComputedComparison) and any(is_computed(row, comparison) for row in comparison.rows)
    return f"ms per token, {'computed' if computed else describe_interval(comparison.runs)}"


def _format_ms(ms: Estimate) -> str:
    return f"{ms.value:.2f}" + (f" ({ms.low:.2f} to {ms.high:.2f})" if ms.low < ms.high else "")


def describe_positions(comparison: MethodComparison) -> str:
    """What the shares by position mean, which differs between rules."""
    said = SENTENCES["positions"]
    if any(row.entry.settings.get("rule") == "block" and row.checked for row in comparison.rows):
        said += f" {SENTENCES['positions_of_blocks']}"
    return said


def explain_tree_size(row: MethodRow, curve: NodeCountCurve | None) -> str:
    """Where a tree's number of nodes comes from; empty for a row that no curve was asked about."""
    if not row.entry.size_from_curve or row.trace is None or curve is None:
        return ""
    settings = Settings.from_record(row.trace.settings)
    best = curve.find_best(settings.proposer, settings.temperature)
    if best is None or best.nodes != settings.tree_budget:
        return ""
    tried = curve.list_points(settings.proposer, settings.temperature)
    return (
        f"At most {best.nodes} nodes, the fastest of {', '.join(str(point.nodes) for point in tried)} as measured on {curve.date} "
        f"({curve.machine.get('processor', 'one machine')}): {best.speed:.2f} times the speed of target-only sampling. {tried[-1].nodes} nodes "
        f"give {tried[-1].tokens_per_pass:.2f} tokens per target pass instead of {best.tokens_per_pass:.2f}, but run at {tried[-1].speed:.2f} times."
    )  # fmt: skip


def name_first_token(first_token: FirstToken, cell: int) -> str:
    """A cell's token with its spaces shown."""
    raw = first_token.labels[cell]
    return label_cell((0,), True, {0: raw}) if raw else REST


def build_first_token_rows(first_token: FirstToken) -> list[dict[str, object]]:
    """Every cell as a row of a table."""
    rows: list[dict[str, object]] = []
    for cell, probs in enumerate(first_token.probs):
        row: dict[str, object] = {"first token": name_first_token(first_token, cell), "target’s distribution": round(probs, 5), "samples": first_token.counts[cell],
               "share": round(first_token.shares[cell], 5), "sampling noise, 99%": f"{first_token.low[cell]:.4f} to {first_token.high[cell]:.4f}"}  # fmt: skip
        rows.append(row if first_token.written is None else row | {"what it writes": round(first_token.written[cell], 5)})
    return rows


def describe_adversarial(first_token: FirstToken) -> str:
    """What the samples with adversarial draft tokens show, as the figure's text."""
    if is_certain(first_token) and first_token.tv == 0.0:
        return (
            f"All {first_token.n:,} first tokens written with adversarial draft tokens are the one that the target is certain of."
        )
    if first_token.tv <= first_token.upper:
        return (
            f"{first_token.n:,} first tokens written with adversarial draft tokens have TV {format_probability(first_token.tv, 3)} from the target’s exact distribution, "
            f"within sampling noise (up to {format_probability(first_token.upper, 3)}): the draft costs speed, not exactness."
        )
    return (
        f"{first_token.n:,} first tokens written with adversarial draft tokens have TV {format_probability(first_token.tv, 3)} from the target’s exact distribution. "
        f"Sampling noise stays below {format_probability(first_token.upper, 3)} 99 times in 100."
    )


def describe_typical(first_token: FirstToken) -> str:
    """What typical acceptance does to the distribution, as its figure's text."""
    written, moved, edge = first_token.written, first_token.written_tv, first_token.edge
    assert written is not None and moved is not None and edge is not None, "a lossy rule's distribution is computed"
    if moved < 1e-9:
        return SENTENCES["typical_certain"]
    known = [cell for cell, raw in enumerate(first_token.labels) if raw]
    lost = sum(1 for cell in known if first_token.probs[cell] > 0.0 and written[cell] == 0.0)
    return (
        f"Typical acceptance keeps every draft token whose p is above {format_probability(edge, 3)}, however often the draft suggests it; in place of the others it "
        f"writes the likeliest token. That moves {format_probability(moved)} of the probability (TV). "
        + (f"{lost} of the {len(known)} likeliest tokens are never written." if lost else SENTENCES["typical_draft_probabilities"])
    )  # fmt: skip
