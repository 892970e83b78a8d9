"""The page Whole text on screen: the form, both ways side by side, and where the models differ."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import streamlit as st

from specviz.errors import SettingsError
from specviz.speed.records import headline
from specviz.speed.records.divergence_profile import DivergenceProfile, ScoredText
from specviz.speed.records.passage import LENGTHS, Passage
from specviz.web.common import chat, export_fold, measurement_page, page_head, session
from specviz.web.common.component import Component
from specviz.web.common.controls import Form, fill_fields, read_fields
from specviz.web.common.elements import show_figure, show_notes, show_table_list
from specviz.web.common.error_sentences import explain_error
from specviz.web.common.figure_cache import draw_cached
from specviz.web.common.pairs import describe_recorded_pair, list_model_notes
from specviz.web.hosting import warmup
from specviz.web.pair_picker import panel
from specviz.web.whole_text import export, figures, payload, words, work
from specviz.web.whole_text.state import PassageRequest, WholeTextState, load_recorded_profile, load_surveys

CLOCKS = "Both ways alternate on one machine; each clock counts only its own work."
FIRST_WORDS = 0.6  # seconds that the page waits for the first tokens before it draws itself without them
FOLD = "whole_text-own"
_component = Component("whole_text")


def show_page() -> None:
    """Draw the page."""
    panel.open_state()  # it reads the pair of the address, which the page may write anew
    state = session.open_state("whole_text", session.make_opener(WholeTextState, PassageRequest))
    page_head.show_page_head("whole_text", words.TEXTS["lede"])
    notes, race = st.container(key="whole_text-notes-fields"), st.container(key="whole_text-race")
    request, problems, place = show_fields(state)
    state.choose(request)
    button: dict[str, Any] = {
        "width": "stretch",
        "disabled": bool(problems),
        "help": words.TEXTS["live"],
        "on_click": _close_fold,
    }
    session.show_work_button(place, state, "Write it live", "whole_text-write", work.write_passage, request, **button)
    show_notes(problems, place=notes)
    session.sync_address(state)
    if warmup.wait(0):
        state.wait_for_partial(FIRST_WORDS)
    with race:
        session.show_progress("whole_text")
        show_notes(state.notices, "whole_text-notes-live")
        one = state.partial_result or state.shown_result
        if one is None:
            st.caption("Both texts appear here once they have been written.")
        else:
            average = "" if state.has_own_result else headline.format_average(one.settings)
            lanes = draw_cached(payload.build_lanes_payload, one, one.read is not None, payload.HERE, average)
            _component.draw("whole_text-lanes", {"payload": lanes, "plays": not state.has_own_result, "busy": state.is_busy})
    folds, aside = st.container(key="whole_text-folds"), st.container()
    show_reading(state, one, aside, folds)
    if one is not None and one.read is not None:
        show_differences(one, one.read, session.get_theme(), folds)
    row = page_head.show_head_row("whole_text")
    export_fold.show_export_fold("whole_text", lambda: export.build_offer(state), row=row)


def _close_fold() -> None:
    """Close the fold when a run begins: its progress and its race stand behind it."""
    st.session_state[FOLD] = False


def show_reading(state: WholeTextState, passage: Passage | None, aside: Any, folds: Any) -> None:
    """In a fold what the numbers and the two texts say, and where they come from; that is a line in sight for a text which is not the recorded one that was asked for."""
    if passage is None:
        return
    notes = ["Writing. Each clock counts only its own work."]
    fold = folds.expander("Where words, tokens and time come from", key="whole_text-details")
    with fold:
        if passage.read is None:
            st.caption("Known when both texts are written.")
        else:
            show_notes(
                [
                    words.compare_texts(passage),
                    words.relate_speed(passage),
                    words.explain_speed(passage),
                    words.describe_tokens(passage),
                    CLOCKS,
                ],
                "whole_text-notes-cautions",
            )
            st.markdown("[Why speeds differ](speed)")
            notes = [describe_origin(state, passage), *words.list_cautions(passage)]
            notes += filter(None, (*list_model_notes(passage.models), words.describe_short_texts(passage)))
    as_asked = passage.read is not None and not state.has_own_result and state.question.settings == passage.settings
    with fold if as_asked else aside:
        show_notes(notes, "whole_text-notes-from")


def show_fields(state: WholeTextState) -> tuple[PassageRequest, list[str], Any]:
    """The fold of a text of one's own: what its fields ask for, sentences where one cannot be used, the button's place."""
    request = state.question
    form = Form("whole_text", state.turn, fill_fields(request.settings))
    with st.container(key="fold"), st.popover("Your own text", width="content", key=FOLD, on_change="rerun"):
        form.show_prompt(st, hint=words.TEXTS["empty"], height=96)
        place = st.container()
        length = st.segmented_control(
            "Tokens of each text",
            LENGTHS,
            default=request.settings.max_new_tokens,
            required=True,
            **form.build_key("max_new_tokens"),
        )
        form.show_sampling()
        form.show_text(st, "seed", "Seed")
        chat.show_chat_field(state)
        st.caption("To share this text, copy the address of the page.")
    settings, problems = read_fields(form.raw, request.settings)
    try:
        request = (
            request if problems else PassageRequest(replace(settings, max_new_tokens=length or request.settings.max_new_tokens))
        )
    except SettingsError as error:
        problems = [explain_error(error)]
    return request, problems, place


def describe_origin(state: WholeTextState, passage: Passage) -> str:
    """Where the text and its times come from; for a recorded one that answers another question, of which."""
    measured = words.describe_measurement(passage)
    measured = f"{measured[:1].upper()}{measured[1:]}"
    if state.has_own_result:
        return f"Your run. {measured}{measurement_page.describe_missing_runs(state, passage.runs, work.RUNS)}"
    if state.question.settings == passage.settings:
        return f"Recorded. {measured}"
    other = describe_recorded_pair(passage.settings.pair, state.pair)
    whose = f" {other}" if other else ""
    return f"Recorded for “{passage.settings.prompt}” at temperature {passage.settings.temperature:g}. {measured}{whose} “Your own text” has the button that writes yours."


def show_differences(passage: Passage, scored_text: ScoredText, kind: str, folds: Any) -> None:
    """Where the models differ, folded: at chosen words, and along the text, over all tokens and by kind of word."""
    if divergences := payload.build_divergences_payload(passage):
        with folds.expander("Where do the two models differ?", key="whole_text-divergent"):
            st.markdown(words.TEXTS["differences"])
            _component.draw("whole_text-divergences", {"payload": divergences})
    curves, recorded = draw_cached(compute_spread, scored_text, passage.settings.pair), load_recorded_profile(passage.settings)
    fold = folds.expander("Every token: along the text, which words", key="whole_text-spread", on_change="rerun")
    if fold.open:
        with fold:
            st.markdown("### Along the text")
            _show_chart(
                "along", draw_cached(figures.plot_along_text, scored_text, kind), figures.describe_along_text(scored_text)
            )
        left, right = fold.columns(2, gap="large")
        with left:
            st.markdown("### At a few tokens, or everywhere?")
            spread = draw_cached(plot_spread, scored_text, passage.settings.pair, kind)
            _show_chart("lorenz", spread, figures.describe_lorenz(curves))
        with right:
            st.markdown("### At which words?")
            own = curves[0][1]
            kinds = draw_cached(figures.plot_kinds, recorded or own, own if recorded else None, kind)
            _show_chart("kinds", kinds, figures.describe_kinds(recorded or own))
        with fold:
            show_table_list(
                ("The target model’s text, read by both", payload.build_position_rows(passage)),
                ("How the difference is spread over the tokens, with intervals", figures.build_share_rows(curves)),
                ("Kinds of word", figures.build_kind_rows(recorded or curves[0][1])),
                ("Every token of both ways", payload.build_token_rows(passage)),
            )


def _show_chart(key: str, figure: Any, conclusion: str) -> None:
    """A picture with its sentence, which holds what a model wrote."""
    show_figure(figure, "whole_text", key, conclusion, plain=True)


def plot_spread(scored_text: ScoredText, pair: str, kind: str) -> Any:
    """How the difference is spread over the tokens, of this text and of the recorded ones."""
    return figures.plot_lorenz(draw_cached(compute_spread, scored_text, pair), kind)


def compute_spread(scored_text: ScoredText, pair: str) -> list[tuple[str, DivergenceProfile]]:
    """The same as curves."""
    return figures.list_curves(scored_text, load_surveys(pair))
