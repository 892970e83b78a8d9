"""What One round exports: the trace, its decisions and distributions as tables, and the shown round as bars, slides and animation."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from specviz.export.manifest import EDITED, build_decode_command, build_facts, describe_conditions
from specviz.export.package import ExportOffer, Package, Picture, quote_text
from specviz.figures import token_bars
from specviz.figures.token_bars import BarPanel
from specviz.glyphs import name_token, read_piece
from specviz.settings import Settings
from specviz.static_site.document import build_document
from specviz.static_site.pages import build_one_round as recorded
from specviz.trace import Round, Trace
from specviz.web.hosting import cache
from specviz.web.one_round.payload import build_round_payload
from specviz.web.one_round.words import build_steps, find_replaced, list_checked, name_ordinal


def build_offer(trace: Trace | None, shown: int) -> ExportOffer:
    """Of One round: the whole run, and the bars of the round in sight."""
    if trace is None or not trace.rounds:
        return ExportOffer("one-round")
    shown = min(shown, len(trace.rounds) - 1)
    settings = Settings.from_record(trace.settings)
    link = settings.to_query() | {"prompt": settings.prompt, "at": f"{shown + 1}.1"}
    package = build_round_package(trace, shown, link, trace.models, STEPPED)
    said = f"The figure is round {shown + 1} of {len(trace.rounds)}." + (f" {EDITED}" if settings.is_edited else "")
    return ExportOffer(
        package.stem, package.names, lambda: build_round_package(trace, shown, link, identify_models(trace), STEPPED), said
    )


def build_step_page(trace: Trace, shown: int) -> bytes:
    """The run as one HTML file that steps without a network, from round ``shown`` on."""
    return build_document("one_round", recorded(trace, shown), None, is_single_page=True).encode()


STEPPED = {"one-round.html": build_step_page}


def identify_models(trace: Trace) -> dict[str, Any]:
    """What the trace says of its models, with their hashes; those of the pair at hand where the trace has none."""
    if "target_sha256" in trace.models:
        return trace.models
    settings = Settings.from_record(trace.settings)
    return cache.describe_pair(settings.pair, settings.device, settings.dtype) | trace.models


BARS = 8  # of a distribution in print; distributions.csv has all that were recorded
TOLD = ("look", "uniform", "draw", "bonus", "tally")  # steps that a caption needs
DECISIONS = (
    *("round", "kind", "node", "parent", "token", "text", "q", "p", "u", "threshold", "accepted"),
    *("stand_in", "stand_in_text", "uniform_of_stand_in"),
)
DISTRIBUTIONS = ("round", "after", "token", "text", "p", "q", "overlap", "residual")


def build_round_package(
    trace: Trace,
    shown: int,
    link: Mapping[str, str],
    models: Mapping[str, Any],
    pages: Mapping[str, Callable[[Trace, int], bytes]] | None = None,
) -> Package:
    """A run, its first round being 0, with the bars of round ``shown``, and its steps as slides and as an animation.

    pages  further files by name: made of the run and the number of the round

    A random number chosen by hand is named in the manifest, in the caption and in the name of the zip.
    """
    settings, round_ = Settings.from_record(trace.settings), trace.rounds[shown]
    told = " ".join(step.sentence for step in build_steps(trace, round_) if step.kind in TOLD)
    drawn = tuple(_build_panels(trace, round_))
    record = json.loads(trace.to_json())
    del record["timing"]  # the same run gives the same bytes
    found = {"rounds": len(trace.rounds), "tokens": len(trace.output_ids), "round_of_the_figure": shown + 1}
    return Package(
        stem="one-round-chosen-random-numbers" if settings.is_edited else "one-round",
        title=f"One round: round {shown + 1}",
        data={"trace.json": record},
        tables={
            "decisions.csv": lambda: (DECISIONS, _iterate_decision_rows(trace)),
            "distributions.csv": lambda: (DISTRIBUTIONS, _iterate_distribution_rows(trace)),
        },
        pictures={f"round-{shown + 1}": Picture(partial(token_bars.plot_panels, drawn), slides=False)} if drawn else {},
        captions=(f"Round {shown + 1} after {quote_text(settings.prompt)}. {told} {describe_conditions(settings, models)}",),
        facts=build_facts(
            settings, models, "one_round", link, [build_decode_command(settings, models)], **found, digest=trace.compute_digest()
        ),
        others=_list_slides(trace, shown) | {name: partial(make, trace, shown) for name, make in (pages or {}).items()},
    )


def _list_slides(trace: Trace, shown: int) -> dict[str, Callable[[], bytes]]:
    """Name -> what draws it: all steps of the round as slides in one PDF, and as an animation."""

    def build_deck() -> bytes:
        from specviz.export import matplotlib_adapter
        from specviz.web.one_round import slides  # imported only when a figure is asked for

        payload = build_round_payload(trace)
        steps = range(len(payload["rounds"][shown]["steps"]))
        return matplotlib_adapter.save_pdf([slides.draw_slide(payload, shown, step) for step in steps])

    def build_gif() -> bytes:
        from specviz.web.one_round import slides

        return slides.build_animation(build_round_payload(trace), shown)

    return {f"round-{shown + 1}-slides.pdf": build_deck, f"round-{shown + 1}.gif": build_gif}


def _quote_token(trace: Trace, token: int | None) -> str:
    return "" if token is None else quote_text(name_token(read_piece(trace.pieces, token), token))


def _iterate_decision_rows(trace: Trace) -> Iterator[list[Any]]:
    for number, round_ in enumerate(trace.rounds, start=1):
        for node, one in enumerate(round_.proposals):
            yield [number, "draft", node + 1, one.parent + 1, one.token, _quote_token(trace, one.token), one.q, one.p, one.u, one.threshold,
                   "not checked" if one.accepted is None else one.accepted, one.replacement_if_rejected, _quote_token(trace, one.replacement_if_rejected),
                   one.u_replacement_if_rejected]  # fmt: skip
        end = round_.ending
        yield [number, end.kind, None, None, end.token, _quote_token(trace, end.token), None, None, end.u, *[None] * 5]


def _iterate_distribution_rows(trace: Trace) -> Iterator[list[Any]]:
    for number, round_ in enumerate(trace.rounds, start=1):
        for after, probs in enumerate(round_.distributions):
            columns = [getattr(probs, key) or [None] * len(probs.tokens) for key in DISTRIBUTIONS[4:]]
            for token, *row in zip(probs.tokens, *columns, strict=True):
                yield [number, after, token, _quote_token(trace, token), *row]
            yield [number, after, None, "all other tokens", *map(probs.rest.get, DISTRIBUTIONS[4:])]


def _build_panels(trace: Trace, round_: Round) -> Iterator[BarPanel]:
    """The distributions that the rule used, largest tokens first; the title says how much is not drawn."""
    rejected, last = find_replaced(round_), len(round_.proposals)
    for node in (*list_checked(round_), *([last] if round_.ending.kind == "bonus" else [])):
        if node >= len(round_.distributions):
            continue
        probs = round_.distributions[node]
        draft_token = round_.proposals[node].token if node < last else None
        drawn = round_.ending.token if node in (rejected, last) else None
        must = [token for token in (draft_token, drawn) if token in probs.tokens]
        tokens = {*must, *[token for token in probs.tokens if token not in must][: BARS - len(must)]}
        places = [place for place, token in enumerate(probs.tokens) if token in tokens]
        keys = ["p", *(["q"] if probs.q else []), *(["residual"] if node == rejected and probs.residual else [])]
        bars = {key: tuple(getattr(probs, key)[place] for place in places) for key in keys}
        labels = tuple(_label_token(trace, probs.tokens[place], draft_token, drawn, node == rejected) for place in places)
        rest = probs.rest["p"] + sum(probs.p) - sum(bars["p"])
        where = f"{name_ordinal(node)} draft token" if node < last else "after the last draft token"
        yield BarPanel(f"{where}; other tokens hold {rest:.2g} of p", labels, bars)


def _label_token(trace: Trace, token: int, draft_token: int | None, drawn_token: int | None, rejected: bool) -> str:
    word = name_token(read_piece(trace.pieces, token), token)
    if token == draft_token:
        return f"{word} (draft token, {'rejected ✗' if rejected else 'accepted ✓'})"
    return f"{word} ({'replacement' if rejected else 'bonus'})" if token == drawn_token else word
