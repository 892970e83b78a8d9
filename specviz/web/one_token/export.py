"""What Why it is exact exports: two distributions over one token, and what the token rule makes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from specviz.export.manifest import build_facts
from specviz.export.package import PRINTS, ExportOffer, Package, Picture, quote_text
from specviz.figures import token_bars
from specviz.figures.token_bars import BarPanel
from specviz.settings import Settings
from specviz.trace import Trace
from specviz.web.hosting import warmup
from specviz.web.one_round.export import identify_models
from specviz.web.one_token.payload import GRID, PRESETS, TEXTS
from specviz.web.one_token.state import write_distribution

TOKEN_FILES = ("token.json", "token.csv", "rules.csv", "caption.txt", *(f"{name}{ending}" for name in ("distributions", "out")
               for ending in PRINTS), "figures.html")  # fmt: skip
RECORDED_FILES = tuple(name for name in TOKEN_FILES if name != "rules.csv")  # a lumped rest has no distribution of its own


def build_offer(trace: Trace | None, payload: Mapping[str, Any], state: Mapping[str, Any]) -> ExportOffer:
    """Of Why it is exact: the distributions as they stand on the page."""
    place = next((one for one in payload["positions"] if one["id"] == state["from"]), None)
    names = RECORDED_FILES if place is not None and not state["p"] else TOKEN_FILES
    return ExportOffer("one-token", names, lambda: build_shown_package(trace, place, state), describe_origin(place, state))


def describe_origin(place: Mapping[str, Any] | None, state: Mapping[str, Any]) -> str:
    """Where the distributions come from, in a sentence."""
    origin = (
        f"draft token {place['id']} of a run, after “{place['before']}”"
        if place
        else f"“{PRESETS[state['preset']].title}”, invented"
    )
    return f"Distributions dragged from: {origin}." if state["p"] else f"Distributions: {origin}."


def build_shown_package(trace: Trace | None, place: Mapping[str, Any] | None, state: Mapping[str, Any]) -> Package:
    """Everything worked out by the production rule; a recorded position has its overlap and residual from the trace."""
    warmup.require_libraries()
    from specviz.evidence.analytic.four_rules import account_for_tokens, compare_four_rules

    rules: tuple[tuple[str, float, float, float], ...] = ()
    query = {key: value for key, value in (("preset", state["preset"]), ("from", state["from"])) if value}
    if place and not state["p"]:
        distributions = {key: [slot[key] for slot in place["slots"]] for key in ("p", "q", "overlap", "residual")}
        columns = distributions | {"accepted": distributions["overlap"], "replaced": distributions["residual"]}
    else:
        preset = PRESETS[state["preset"]]
        p, q = (state["p"], state["q"]) if state["p"] else ([x / GRID for x in probs] for probs in (preset.p, preset.q))
        columns = account_for_tokens(p, q)
        rules = tuple((TEXTS["rules"][one.rule]["title"], one.first, one.both, one.error) for one in compare_four_rules(p, q))
        query |= {key: write_distribution(tuple(round(GRID * x) for x in probs)) for key, probs in (("p", p), ("q", q))}
    size = len(columns["p"])
    slots = place["slots"] if place and len(place["slots"]) == size else [None] * size
    labels = [_name_token(slot, number) for number, slot in enumerate(slots)]
    run = trace if place else None
    settings = Settings.from_record(run.settings) if run else Settings()
    models = identify_models(run) if run else {}
    said = build_facts(
        settings, models, "one_token", query, (), distributions="recorded" if place and not state["p"] else "invented or dragged"
    )
    if run is None:
        said |= {"settings": {}, "seed": None, "sample": False}
    return build_token_package(describe_origin(place, state), labels, columns, rules, said)


def _name_token(slot: Mapping[str, Any] | None, number: int) -> str:
    if slot is None:
        return TEXTS["words"][number]
    return "all other tokens" if slot["glyphs"] is None else "".join(glyph["t"] for glyph in slot["glyphs"])


TOKEN = ("token", "p", "q", "overlap", "residual", "accepted", "replaced")
RULES = ("rule", "first_draft_token_accepted", "both_accepted", "largest_error")


def build_token_package(
    title: str,
    labels: Sequence[str],
    columns: Mapping[str, Sequence[float]],
    rules: Sequence[tuple[str, float, float, float]],
    manifest: Mapping[str, Any],
) -> Package:
    """Two distributions over one token and what the token rule makes of them.

    columns   p, q, overlap, residual (not rescaled), accepted, replaced, each (K,): computed by the production rule
    rules     (rule, probability that the first draft token is accepted, that both are, largest error), none for a recorded distribution
    manifest  settings, models, versions, permalink and commands
    """
    beta = sum(columns["overlap"])
    bars, out = ({key: tuple(columns[key]) for key in keys} for keys in (("p", "q"), ("accepted", "replaced")))
    both = (BarPanel(f"Both distributions; overlap {beta:.4g}", tuple(labels), bars),)
    stacks = (BarPanel("What comes out: accepted + replaced, against p", tuple(labels), out, True, tuple(columns["p"])),)
    error = max(abs(a + b - p) for a, b, p in zip(*out.values(), columns["p"], strict=True))
    caption = (
        f"{title} A draft token is accepted with probability {beta:.6g}, the overlap of the two distributions; accepted and replaced add up to p for "
        f"every token (largest difference {error:.1g}). specviz {manifest['versions']['specviz']}."
    )
    record = {
        "title": title,
        "labels": list(labels),
        **{key: list(values) for key, values in columns.items()},
        "overlap_total": beta,
        "rules": [dict(zip(RULES, one, strict=True)) for one in rules],
    }
    rows = [[quote_text(label), *(columns[key][place] for key in TOKEN[1:])] for place, label in enumerate(labels)]
    return Package(
        stem="one-token",
        title="Why it is exact: one token",
        data={"token.json": record},
        tables={"token.csv": lambda: (TOKEN, rows)} | ({"rules.csv": lambda: (RULES, rules)} if rules else {}),
        pictures={
            "distributions": Picture(partial(token_bars.plot_panels, both)),
            "out": Picture(partial(token_bars.plot_panels, stacks)),
        },
        captions=(caption,),
        facts=manifest,
    )
