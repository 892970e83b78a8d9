"""The exports of One round and Why it is exact."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specviz.errors import SpecvizError
from specviz.export.manifest import EDITED, facts
from specviz.export.package import PRINTS, ExportOffer, Package
from specviz.settings import Settings
from specviz.static_site.document import document
from specviz.static_site.pages import one_round as recorded
from specviz.trace import Trace
from specviz.web.jobs import cache, warmup
from specviz.web.one_round.package import one_round, one_token
from specviz.web.one_token.link import write_distribution
from specviz.web.one_token.token import GRID, PRESETS, RULE_NAMES, WORDS

TOKEN_FILES = ("token.json", "token.csv", "rules.csv", "caption.txt", *(f"{name}{ending}" for name in ("distributions", "out")
               for ending in PRINTS), "figures.html")  # fmt: skip
RECORDED_FILES = tuple(name for name in TOKEN_FILES if name != "rules.csv")  # a lumped rest has no distribution of its own


def round_offer(trace: Trace | None, shown: int) -> ExportOffer:
    """Of One round: the whole run, and the bars of the round in sight."""
    if trace is None or not trace.rounds:
        return ExportOffer("one-round")
    shown = min(shown, len(trace.rounds) - 1)
    settings = Settings.from_record(trace.settings)
    link = settings.to_query() | {"prompt": settings.prompt, "at": f"{shown + 1}.1"}
    package = one_round(trace, shown, link, trace.models, STEPPED)
    said = f"The figure is round {shown + 1} of {len(trace.rounds)}." + (f" {EDITED}" if settings.is_edited else "")
    return ExportOffer(package.stem, package.names, lambda: one_round(trace, shown, link, identity(trace), STEPPED), said)


def stepped(trace: Trace, shown: int) -> bytes:
    """The run as one HTML file that steps without a network, from round ``shown`` on."""
    return document("one_round", recorded(trace, shown), None, alone=True).encode()


STEPPED = {"one-round.html": stepped}


def identity(trace: Trace) -> dict[str, Any]:
    """What the trace says of its models, with their hashes; those of the pair at hand where the trace has none."""
    if "target_sha256" in trace.models:
        return trace.models
    _wait_for_libraries()
    settings = Settings.from_record(trace.settings)
    return cache.identity(settings.pair, settings.device, settings.dtype) | trace.models


def _wait_for_libraries() -> None:
    """Wait until torch is there. Raises SpecvizError where it cannot be."""
    warmup.start()
    warmup.wait(180.0)
    if sentence := warmup.trouble():
        raise SpecvizError(sentence)


def token_offer(trace: Trace | None, payload: Mapping[str, Any], state: Mapping[str, Any]) -> ExportOffer:
    """Of Why it is exact: the distributions as they stand on the page."""
    place = next((one for one in payload["positions"] if one["id"] == state["from"]), None)
    names = RECORDED_FILES if place is not None and not state["p"] else TOKEN_FILES
    return ExportOffer("one-token", names, lambda: token_package(trace, place, state), title(place, state))


def title(place: Mapping[str, Any] | None, state: Mapping[str, Any]) -> str:
    """Where the distributions come from, in a sentence."""
    origin = (
        f"draft token {place['id']} of a run, after “{place['before']}”"
        if place
        else f"“{PRESETS[state['preset']].title}”, invented"
    )
    return f"Distributions dragged from: {origin}." if state["p"] else f"Distributions: {origin}."


def token_package(trace: Trace | None, place: Mapping[str, Any] | None, state: Mapping[str, Any]) -> Package:
    """Everything worked out by the production rule; a recorded position has its overlap and residual from the trace."""
    _wait_for_libraries()
    from specviz.evidence.enumeration.four_rules import accounted, four_rules

    query = {key: value for key, value in (("preset", state["preset"]), ("from", state["from"])) if value}
    if place and not state["p"]:
        distributions = {key: [slot[key] for slot in place["slots"]] for key in ("p", "q", "overlap", "residual")}
        columns, rules = distributions | {"accepted": distributions["overlap"], "replaced": distributions["residual"]}, ()
    else:
        preset = PRESETS[state["preset"]]
        p, q = (state["p"], state["q"]) if state["p"] else ([x / GRID for x in probs] for probs in (preset.p, preset.q))
        columns = accounted(p, q)
        rules = tuple((RULE_NAMES[one.rule][0], one.first, one.both, one.error) for one in four_rules(p, q))
        query |= {key: write_distribution(tuple(round(GRID * x) for x in probs)) for key, probs in (("p", p), ("q", q))}
    size = len(columns["p"])
    slots = place["slots"] if place and len(place["slots"]) == size else [None] * size
    labels = [_word(slot, number) for number, slot in enumerate(slots)]
    run = trace if place else None
    settings = Settings.from_record(run.settings) if run else Settings()
    models = identity(run) if run else {}
    said = facts(
        settings, models, "one_token", query, (), distributions="recorded" if place and not state["p"] else "invented or dragged"
    )
    if run is None:
        said |= {"settings": {}, "seed": None, "sample": False}
    return one_token(title(place, state), labels, columns, rules, said)


def _word(slot: Mapping[str, Any] | None, number: int) -> str:
    if slot is None:
        return WORDS[number]
    return "all other tokens" if slot["glyphs"] is None else "".join(glyph["t"] for glyph in slot["glyphs"])
