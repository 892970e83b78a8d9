"""The export of Whole text: the passage on screen as a package."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from specviz.export.manifest import build_decode_command, build_facts, describe_conditions
from specviz.export.package import ExportOffer, Package, Picture, quote_text
from specviz.glyphs import format_token
from specviz.speed.records.divergence_profile import TOP_SHARES, DivergenceProfile, ScoredText
from specviz.speed.records.estimate import Estimate
from specviz.speed.records.passage import LANES, Passage, dump_passages
from specviz.web.whole_text import figures, words
from specviz.web.whole_text.state import PassageRequest, WholeTextState, load_recorded_profile, load_surveys


def build_offer(state: WholeTextState) -> ExportOffer:
    """The export; empty until a passage is complete."""
    one = None if state.partial_result else state.shown_result
    if one is None:
        return ExportOffer("whole-text")
    said = "" if state.has_own_result else f"This is the recorded passage, for the text “{one.settings.prompt}”."
    return ExportOffer.from_package(build_shown_package(one, recorded=not state.has_own_result), said)


def build_shown_package(passage: Passage, recorded: bool) -> Package:
    """The passage on screen as a package with its manifest."""
    said = build_facts(
        passage.settings, passage.models, "whole_text", PassageRequest(passage.settings).build_link(), [build_decode_command(passage.settings, passage.models)],
        n=len(passage.speculative.trace.output_ids), turns=passage.runs, rates={"target": list(passage.target.rates), "speculative": list(passage.speculative.rates)},
        warm_up_seconds=passage.warm, machine=dict(passage.machine), measured=passage.date, recorded=recorded, sentence=words.describe_speed(passage),
    )  # fmt: skip
    return build_passage_package(passage, load_surveys(passage.settings.pair), load_recorded_profile(passage.settings), said)


TOKENS = ("way", "token", "id", "text", "origin", "round", "seconds")
PLACES = ("token", "id", "text", "kind", "p", "q", "beta")
SHARES = ("texts", "tokens", "top", "share_of_divergence", "low", "high")
KINDS = ("kind", "tokens", "share_of_tokens", "mean_rejection_probability", "low", "high", "share_of_divergence", "share_low",
         "share_high")  # fmt: skip


def build_passage_package(
    passage: Passage,
    surveys: Mapping[str, Sequence[ScoredText]],
    own_profile: DivergenceProfile | None,
    manifest: Mapping[str, Any],
) -> Package:
    """What the page shows, as a package.

    Args:
        passage: A complete passage.
        surveys: Recorded texts by distribution.
        own_profile: The recorded profile under the distribution of this text.
        manifest: Settings, models, versions, permalink and commands.
    """
    where, read = describe_conditions(passage.settings, passage.models), passage.read
    assert read is not None, "a complete passage was read by both models"
    curves = figures.list_curves(read, surveys)
    own = curves[0][1]
    pictures = {
        "along": Picture(partial(figures.plot_along_text, read), "Where the two models differ"),
        "lorenz": Picture(partial(figures.plot_lorenz, curves), "At a few tokens, or everywhere?"),
        "kinds": Picture(partial(figures.plot_kinds, own_profile or own, own if own_profile else None), "At which words?"),
    }
    captions = (
        f"{words.describe_tokens(passage)} {words.describe_speed(passage)} {quote_text(passage.settings.prompt)}. {where}",
        f"{figures.describe_along_text(read)} {where}",
        f"{figures.describe_lorenz(curves)} {where}",
        f"{figures.describe_kinds(own_profile or own)} {where}",
    )
    tables = {
        "tokens.csv": lambda: (TOKENS, _iterate_token_rows(passage)),
        "places.csv": lambda: (PLACES, _iterate_position_rows(read)),
        "lorenz.csv": lambda: (SHARES, _iterate_share_rows(curves)),
        "kinds.csv": lambda: (KINDS, _iterate_kind_rows(own_profile or own)),
    }
    data = {"passage.json": json.loads(dump_passages({"this text": passage}))}
    return Package("whole-text", "Whole text", data, tables, pictures, captions, manifest)


def _iterate_token_rows(passage: Passage) -> Iterator[list[Any]]:
    for key in LANES:
        lane = getattr(passage, key)
        for place, token in enumerate(lane.tokens):
            text = quote_text(format_token(lane.trace.pieces, token.token))
            yield [key, place + 1, token.token, text, token.origin, token.round + 1, token.at]


def _iterate_position_rows(scored_text: ScoredText) -> Iterator[list[Any]]:
    for place, columns in enumerate(
        zip(scored_text.tokens, scored_text.kinds, scored_text.p, scored_text.q, scored_text.beta, strict=True), 1
    ):
        token, *scores = columns
        yield [place, token, quote_text(format_token(scored_text.pieces, token)), *scores]


def _iterate_share_rows(curves: Sequence[tuple[str, DivergenceProfile]]) -> Iterator[list[Any]]:
    for name, one in curves:
        for top, share in zip(TOP_SHARES, one.tops, strict=True):
            yield [name, one.count, top, *_list_share(share)]


def _iterate_kind_rows(profile: DivergenceProfile) -> Iterator[list[Any]]:
    for row in profile.kinds:
        yield [row.name, row.count, row.tokens, *_list_share(row.distance), *_list_share(row.divergence)]


def _list_share(share: Estimate) -> list[Any]:
    return [share.value, *(["", ""] if share.n < 2 else [share.low, share.high])]
