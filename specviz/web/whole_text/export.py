"""The export of Whole text: the passage on screen as a package."""

from __future__ import annotations

from specviz.export.manifest import decode_command, facts
from specviz.export.package import ExportOffer, Package
from specviz.speed.records.passage import Passage
from specviz.web.whole_text import lanes as words
from specviz.web.whole_text.package import whole_text
from specviz.web.whole_text.state import PassageRequest, WholeTextState, recorded_spread, surveys


def offer(state: WholeTextState) -> ExportOffer:
    """The export; empty until a passage is complete."""
    one = None if state.underway else state.shown
    if one is None:
        return ExportOffer("whole-text")
    said = "" if state.own else f"This is the recorded passage, for the text “{one.settings.prompt}”."
    return ExportOffer.of(passage_package(one, recorded=not state.own), said)


def passage_package(one: Passage, recorded: bool) -> Package:
    said = facts(
        one.settings, one.models, "whole_text", PassageRequest(one.settings).link(), [decode_command(one.settings, one.models)],
        n=len(one.speculative.trace.output_ids), turns=one.runs, rates={"target": list(one.target.rates), "speculative": list(one.speculative.rates)},
        warm_up_seconds=one.warm, machine=dict(one.machine), measured=one.date, recorded=recorded, sentence=words.speed(one),
    )  # fmt: skip
    return whole_text(one, surveys(one.settings.pair), recorded_spread(one.settings), said)
