"""One round, and one token, as packages: the trace, every decision and distribution as tables, and the bars of what is in sight."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from specviz.export.facts import conditions, decode_command, facts
from specviz.export.package import Package, Picture, quoted
from specviz.figures.common.glyphs import name, piece
from specviz.figures.common.narration import checked, motions, ordinal, rejected_at
from specviz.figures.one_token import distributions
from specviz.figures.one_token.distributions import Panel
from specviz.settings import Settings
from specviz.trace import Round, Trace

BARS = 8  # of a distribution in print; distributions.csv has all that were recorded
TOLD = ("look", "uniform", "draw", "bonus", "tally")  # motions that a caption needs
DECISIONS = (
    *("round", "kind", "node", "parent", "token", "text", "q", "p", "u", "threshold", "accepted"),
    *("stand_in", "stand_in_text", "uniform_of_stand_in"),
)
DISTRIBUTIONS = ("round", "after", "token", "text", "p", "q", "overlap", "residual")
TOKEN = ("token", "p", "q", "overlap", "residual", "kept", "replaced")
RULES = ("rule", "first_draft_token_kept", "both_kept", "largest_error")


def one_round(trace: Trace, shown: int, link: Mapping[str, str], models: Mapping[str, Any]) -> Package:
    """A run with the bars of round ``shown`` (from 0). A chosen random number is named in the manifest, the captions and the file's name."""
    settings, round_ = Settings.from_record(trace.settings), trace.rounds[shown]
    told = " ".join(motion.sentence for motion in motions(trace, round_) if motion.kind in TOLD)
    caption = f"Round {shown + 1} after {quoted(settings.prompt)}. {told} {conditions(settings, models)}"
    drawn = tuple(_panels(trace, round_))
    figure = {f"round-{shown + 1}": Picture(partial(distributions.panels, drawn))} if drawn else {}
    found = {"rounds": len(trace.rounds), "tokens": len(trace.output_ids), "round_of_the_figure": shown + 1}
    return Package(
        stem="one-round-chosen-random-numbers" if settings.edited else "one-round",
        title=f"One round: round {shown + 1}",
        data={},
        texts={"trace.json": _untimed(trace)},
        tables={
            "decisions.csv": lambda: (DECISIONS, _decisions(trace)),
            "distributions.csv": lambda: (DISTRIBUTIONS, _distributions(trace)),
        },
        pictures=figure,
        captions=(caption,),
        facts=facts(settings, models, "", link, [decode_command(settings, models)], **found, digest=trace.digest()),
    )


def one_token(
    title: str,
    labels: Sequence[str],
    columns: Mapping[str, Sequence[float]],
    rules: Sequence[tuple[str, float, float, float]],
    said: Mapping[str, Any],
) -> Package:
    """Two distributions over one token and what comes of them.

    columns  p, q, overlap, residual (not rescaled), kept, replaced, each (K,): worked out by the production rule
    rules    (rule, probability that the first draft token is kept, that both are, largest error), none for a recorded distribution
    said     of the manifest
    """
    beta = sum(columns["overlap"])
    words = tuple(labels)
    bars = {key: tuple(columns[key]) for key in ("p", "q")}
    out = {key: tuple(columns[key]) for key in ("kept", "replaced")}
    both = (Panel(f"Both distributions; overlap {beta:.4g}", words, bars),)
    stacks = (Panel("What comes out: accepted + replaced, against p", words, out, True, tuple(columns["p"])),)
    error = max(abs(a + b - p) for a, b, p in zip(columns["kept"], columns["replaced"], columns["p"], strict=True))
    caption = (
        f"{title} A draft token is accepted with probability {beta:.6g}, the overlap of the two distributions; accepted and replaced add up to p for "
        f"every token (largest difference {error:.1g}). specviz {said['versions']['specviz']}."
    )
    record = {"title": title, "labels": list(labels)} | {key: list(values) for key, values in columns.items()}
    tables = {"token.csv": lambda: (TOKEN, _token_rows(labels, columns))}
    return Package(
        stem="one-token",
        title="Why it is exact: one token",
        data={"token.json": record | {"overlap_total": beta, "rules": [dict(zip(RULES, one, strict=True)) for one in rules]}},
        tables=tables | ({"rules.csv": lambda: (RULES, rules)} if rules else {}),
        pictures={
            "distributions": Picture(partial(distributions.panels, both)),
            "out": Picture(partial(distributions.panels, stacks)),
        },
        captions=(caption,),
        facts=said,
    )


def _token_rows(labels: Sequence[str], columns: Mapping[str, Sequence[float]]) -> Iterator[list[Any]]:
    for place, label in enumerate(labels):
        yield [quoted(label), *(columns[key][place] for key in TOKEN[1:])]


def _untimed(trace: Trace) -> str:
    """The trace without what a clock measured: the same run gives the same bytes."""
    record = json.loads(trace.to_json())
    del record["timing"]
    return json.dumps(record, ensure_ascii=False, indent=1) + "\n"


def _text(trace: Trace, token: int | None) -> str:
    return "" if token is None else quoted(name(piece(trace.pieces, token), token))


def _decisions(trace: Trace) -> Iterator[list[Any]]:
    for number, round_ in enumerate(trace.rounds, start=1):
        for node, one in enumerate(round_.proposals):
            yield [number, "draft", node + 1, one.parent + 1, one.token, _text(trace, one.token), one.q, one.p, one.u, one.threshold,
                   "not checked" if one.accepted is None else one.accepted, one.stand_in, _text(trace, one.stand_in),
                   one.u_stand_in]  # fmt: skip
        end = round_.ending
        yield [number, end.kind, "", "", end.token, _text(trace, end.token), "", "", end.u, *[""] * 5]


def _distributions(trace: Trace) -> Iterator[list[Any]]:
    for number, round_ in enumerate(trace.rounds, start=1):
        for after, probs in enumerate(round_.distributions):
            columns = [getattr(probs, key) or [""] * len(probs.tokens) for key in DISTRIBUTIONS[4:]]
            for token, *row in zip(probs.tokens, *columns, strict=True):
                yield [number, after, token, _text(trace, token), *row]
            yield [number, after, "", "all other tokens", *(probs.rest.get(key, "") for key in DISTRIBUTIONS[4:])]


def _panels(trace: Trace, round_: Round) -> Iterator[Panel]:
    """The distributions that were looked at, largest tokens first; what is not drawn is named in the title."""
    refused, last = rejected_at(round_), len(round_.proposals)
    seen = [*checked(round_), *([last] if round_.ending.kind == "bonus" else [])]
    for node in seen:
        if node >= len(round_.distributions):
            continue
        probs = round_.distributions[node]
        drafted = round_.proposals[node].token if node < last else None
        drawn = round_.ending.token if node in (refused, last) else None
        must = [token for token in (drafted, drawn) if token in probs.tokens]
        tokens = {*must, *[token for token in probs.tokens if token not in must][: BARS - len(must)]}
        places = [place for place, token in enumerate(probs.tokens) if token in tokens]
        keys = ["p", *(["q"] if probs.q else []), *(["residual"] if node == refused and probs.residual else [])]
        bars = {key: tuple(getattr(probs, key)[place] for place in places) for key in keys}
        labels = tuple(_label(trace, probs.tokens[place], drafted, drawn, node == refused) for place in places)
        rest = probs.rest["p"] + sum(probs.p) - sum(bars["p"])
        where = f"{ordinal(node)} draft token" if node < last else "after the last draft token"
        yield Panel(f"{where}; other tokens hold {rest:.2g} of p", labels, bars)


def _label(trace: Trace, token: int, drafted: int | None, drawn: int | None, refused: bool) -> str:
    word = name(piece(trace.pieces, token), token)
    if token == drafted:
        return f"{word} (draft token, {'rejected ✗' if refused else 'accepted ✓'})"
    return f"{word} ({'replacement' if refused else 'bonus'})" if token == drawn else word
